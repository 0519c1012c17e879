"""Keras callbacks for training: scores, captions, progress, checkpoints and early
stopping.

Keras' ModelCheckpoint, EarlyStopping, BackupAndRestore and CSVLogger do parts of this.
But they do not restore the random generators and averaged weights, do not write files
atomically, and cannot ignore a BLEU-4 at chance level.
"""

import contextlib
import math
import signal
import struct
import tempfile
import threading
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from data_utils.base import Progress, visible
from keras_sat.files import write_checkpoint
from keras_sat.learning import EXPECTATION_PROBABILITY
from keras_sat.looking import AttentionDisplay
from keras_sat.measuring import MAX_ORDER, NUM_REFERENCES, bleu, bleu_counts, cider
from keras_sat.training.epoch_times import EpochTimes
from keras_sat.training.history import (
    CROSS_ENTROPY,
    MONITORED,
    as_text,
    best_epoch,
    epochs_to_plateau,
    has_plateaued,
    is_above_chance,
    write_history,
)

SHOWN = {
    "reward": "reward",
    "loss": "loss",
    "cross_entropy": "cross-entropy",
    "val_cross_entropy": "on dev",
}
SECONDS_TO_FIRST_LINE, SECONDS_BETWEEN_LINES = 10, 60  # of progress in a log file


class ScoreCaptions(keras.callbacks.Callback):
    """After each epoch, caption the photos of the dev split and add the scores to the
    epoch's logs.

    Args:
        captioned_images: list of CaptionedImage; their captions are the references, at
            most five each.
        cache: FeatureCache with their features; None encodes them each time.
        **search_options: see `Captioner.caption_features`.
    """

    def __init__(self, captioned_images, *, cache=None, **search_options):
        super().__init__()
        self.images = list(captioned_images)
        self.cache = cache
        self.search_options = {"num_beams": 1, **search_options}

    def on_epoch_end(self, epoch, logs=None):
        with self.model.averaged_weights():
            logs.update(score_captions(self.model, self.images, self.cache, **self.search_options))


class ShowCaptions(ScoreCaptions):
    """After each epoch, print the captions of a few photos.

    Args:
        captioned_images: list of CaptionedImage; the first `num_photos` are shown.
        num_photos: number of photos.
        output: function that prints a line of text.
        cache, **search_options: see ScoreCaptions.
    """

    def __init__(
        self, captioned_images, *, cache=None, num_photos=3, output=print, **search_options
    ):
        super().__init__(list(captioned_images)[:num_photos], cache=cache, **search_options)
        self.output = output

    def on_epoch_end(self, epoch, logs=None):
        with self.model.averaged_weights():
            results = captions_of(self.model, self.images, self.cache, **self.search_options)
        self.show(epoch, zip(self.images, results))

    def show(self, epoch, captioned):
        for image, result in captioned:
            self.output(f"    {visible(image.image_id)}: {visible(result.caption)}")


class DrawAttention(ShowCaptions):
    """After each epoch, draw the attention in a few photos for TensorBoard.

    Args:
        captioned_images, num_photos, cache, **search_options: see ShowCaptions.
        directory: the folder of the log. `fit` writes its own to OUTPUT_DIR/logs.
    """

    def __init__(self, captioned_images, directory, *, num_photos=4, **options):
        super().__init__(captioned_images, num_photos=num_photos, **options)
        self.directory = directory

    def show(self, epoch, captioned):
        writer = tf.summary.create_file_writer(str(self.directory), filename_suffix=".pictures")
        with tempfile.TemporaryDirectory() as temporary, writer.as_default(step=epoch + 1):
            for image, result in captioned:
                picture = Path(temporary, "attention.png")
                AttentionDisplay.from_result(result, image=image.image_path).save(picture, dpi=100)
                content = picture.read_bytes()
                # Width and height in the header of a PNG.
                size = map(str, struct.unpack(">2I", content[16:24]))
                _write_summary(
                    f"attention/{image.image_id}", [*size, content], "images", "BLOB_SEQUENCE"
                )
        writer.close()


def _write_summary(name, value, plugin, kind):
    """Write a summary as tf.summary.scalar and tf.summary.image do, which need
    TensorBoard installed.
    """
    plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin)
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin, data_class=f"DATA_CLASS_{kind}")
    tf.summary.write(name, tf.constant(value), metadata=metadata)


def captions_of(captioner, captioned_images, cache=None, **search_options):
    """Return a CaptionResult for each CaptionedImage."""
    results = captioner.caption_each(captioned_images, cache=cache, **search_options)
    return [result for _, result in results]


def score_captions(captioner, captioned_images, cache=None, **search_options):
    """Caption images and return a dict of scores, whose names begin with "val_".

    Besides the scores themselves: val_matches, the number of 4-grams of the captions
    that the references contain, and val_distinct, the number of different captions.
    """
    results = captions_of(captioner, captioned_images, cache, **search_options)
    captions = [result.caption for result in results]
    references = [image.captions[:NUM_REFERENCES] for image in captioned_images]
    scores = bleu(references, captions)
    figures = {f"val_bleu_{n}": scores[f"bleu_{n}"] for n in range(1, 5)}
    figures["val_matches"] = int(bleu_counts(references, captions)[:, MAX_ORDER - 1].sum())
    return {
        **figures,
        "val_cider": cider(references, captions)["cider"],
        "val_distinct": len(set(captions)),
    }


class ShowProgress(keras.callbacks.Callback):
    """Show the progress of each epoch, then print a line with its metrics, the maximum
    time left, and the time left if no epoch gets better.

    During an epoch, a terminal shows a bar; a log file gets a line now and then, at
    most one a minute. Both say how long an epoch takes and when training may end.

    It belongs behind KeepTraining: the line then means that the epoch is saved.

    Args:
        num_epochs: number of epochs of the whole training.
        epochs, before, monitored, patience: see KeepTraining.
        label: name of an epoch.
        output: function that prints a line of text.
        clock: function that returns seconds.
    """

    def __init__(
        self,
        num_epochs,
        *,
        epochs=(),
        before=(),
        monitored=MONITORED,
        patience=None,
        label="epoch",
        output=print,
        clock=time.monotonic,
    ):
        super().__init__()
        self.num_epochs = num_epochs
        self.monitored = monitored
        self.patience = patience
        self.known = [*before, *epochs]
        self.label = label
        self.output = output
        self.times = EpochTimes(num_epochs, clock)
        self._progress = None
        self._next_line = clock() + SECONDS_TO_FIRST_LINE

    def on_epoch_begin(self, epoch, logs=None):
        steps = self.params.get("steps")
        self.times.begin(epoch, steps, self._epochs_to_stop())
        self._label = f"{self.label} {epoch + 1}/{self.num_epochs}"
        self._progress = Progress(steps, label=self._label, unit="batches")
        self._progress.show = self._progress.rewrites  # a log file gets lines of its own

    def on_train_batch_end(self, batch, logs=None):
        self.times.end_batch()
        estimate = self.times.as_text()
        self._progress.note = estimate
        self._progress.advance(1)
        if estimate and not self._progress.rewrites and self.times.clock() >= self._next_line:
            batches = f"{self.times.done} of {self.times.num_batches} batches"
            self._say(f"{self._label}: {batches}; {estimate}")
        if self.times.done == self.times.num_batches:
            self.end_line()  # what other callbacks print gets lines of its own

    def _left(self, num_epochs, seconds_per_epoch):
        """Say how long the epochs left take: all of them, or if none is better."""
        num_to_stop = self._epochs_to_stop()
        if num_to_stop is not None and num_to_stop <= 0:
            num_epochs = 0
        longest = f"{tqdm.format_interval(num_epochs * seconds_per_epoch)} left"
        if num_to_stop is None or num_to_stop >= num_epochs:
            return longest
        shortest = tqdm.format_interval(num_to_stop * seconds_per_epoch)
        return f"at most {longest}, {shortest} if no epoch is better"

    def _epochs_to_stop(self):
        return epochs_to_plateau(self.known, self.patience, self.monitored)

    def _say(self, line):
        self._next_line = self.times.clock() + SECONDS_BETWEEN_LINES
        self.output(line)

    def on_epoch_end(self, epoch, logs=None):
        self.end_line()
        texts = {name: f"{label} {logs[name]:.3f}" for name, label in SHOWN.items() if name in logs}
        score = MONITORED if self.monitored == CROSS_ENTROPY else self.monitored
        if score in logs:
            texts[score] = as_text(score, logs[score])
        if self.monitored in logs:
            self.known.append(dict(logs))
            is_best = best_epoch(self.known, self.monitored) == len(self.known) - 1
            if is_best and is_above_chance(logs, self.monitored):
                texts[self.monitored] += " (best so far)"
        seconds, seconds_of_next = self.times.end()
        parts = [*texts.values(), tqdm.format_interval(seconds)]
        parts.append(self._left(self.num_epochs - epoch - 1, seconds_of_next))
        self._say(f"{self._label}: {', '.join(parts)}")

    def end_line(self):
        """Close the progress bar, even if the epoch was interrupted."""
        if self._progress is not None:
            self._progress.__exit__()
            self._progress = None


class KeepTraining(keras.callbacks.Callback):
    """After each epoch, save the best captioner and a checkpoint; stop when the scores
    no longer improve.

    Writes into `directory`: model/, the captioner of the best epoch so far;
    checkpoint/, the state to resume from; history.csv, the metrics of every epoch;
    logs/, the same for TensorBoard. It must come after all callbacks that add metrics.

    Args:
        directory: the folder.
        epochs: list of the metrics of the epochs so far, when training is resumed.
        before: list with the metrics of the captioner that is already in model/; only a
            better epoch replaces it.
        monitored: the metric that decides which epoch is the best.
        patience: stop after this many epochs without a better one; None: never.
    """

    def __init__(self, directory, *, epochs=(), before=(), monitored=MONITORED, patience=None):
        super().__init__()
        self.directory = Path(directory)
        self.epochs = list(epochs)
        self.before = list(before)
        self.monitored = monitored
        self.patience = patience

    def on_train_begin(self, logs=None):
        self._log = tf.summary.create_file_writer(str(self.directory / "logs"))

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        if not math.isfinite(logs["loss"]):
            return
        figures = {name: float(value) for name, value in logs.items()}
        with _ctrl_c_delayed():
            # A process that is killed between model and checkpoint trains this epoch
            # again. Where that gives another, worse result, as it may on a GPU, the
            # model stays that of the first time.
            epochs = [*self.epochs, {**figures, "seconds": time.monotonic() - self._started}]
            known = [*self.before, *epochs]
            if best_epoch(known, self.monitored) == len(known) - 1:
                with self.model.averaged_weights():
                    self.model.save(self.directory / "model")
            write_checkpoint(self.directory / "checkpoint", self.model, epochs)
            self.epochs = epochs
            write_history(self.directory / "history.csv", epochs)
            with self._log.as_default(step=epoch + 1):
                for name, value in figures.items():
                    _write_summary(name, value, "scalars", "SCALAR")
            self._log.flush()
        if has_plateaued(known, self.patience, self.monitored):
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self._log.close()


class StopInTime(keras.callbacks.Callback):
    """Stop after an epoch if the next one would probably end after the deadline. It
    must come after KeepTraining.

    Args:
        deadline: a time of the clock.
        clock: function that returns seconds.
    """

    def __init__(self, deadline, clock=time.monotonic):
        super().__init__()
        self.deadline = deadline
        self.clock = clock
        self.has_stopped = False

    def on_train_begin(self, logs=None):
        self._times = EpochTimes(self.params["epochs"], self.clock)

    def on_epoch_begin(self, epoch, logs=None):
        self._times.begin(epoch, None)

    def on_train_batch_end(self, batch, logs=None):
        self._times.end_batch()

    def on_epoch_end(self, epoch, logs=None):
        _, seconds_of_next = self._times.end()
        is_last = self.model.stop_training or epoch + 1 == self.params["epochs"]
        if not is_last and self.clock() + seconds_of_next > self.deadline:
            self.has_stopped = self.model.stop_training = True


@contextlib.contextmanager
def _ctrl_c_delayed():
    """Delay the effect of Ctrl-C until the end of the block, which writes files."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C only ever reaches the main thread
        return
    pressed = []
    previous_handler = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    if pressed:
        raise KeyboardInterrupt


class LostTraining(Exception):
    """Training diverged: the loss or a weight became NaN or infinite."""


class StopWhenLost(keras.callbacks.Callback):
    """Raise LostTraining when the loss or a weight is NaN or infinite. It must be the
    first callback.

    Keras' TerminateOnNaN does not check the weights, but the last update of an epoch
    comes after its last loss.
    """

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            raise LostTraining

    def on_epoch_end(self, epoch, logs=None):
        is_finite = all(
            np.isfinite(weight.numpy()).all() for weight in self.model.trainable_variables
        )
        if not is_finite or not math.isfinite(logs.get("val_loss", 0.0)):
            raise LostTraining


class BeginWithExpectations(keras.callbacks.Callback):
    """During the first `num_epochs`, train hard attention like soft attention, without
    sampling regions.

    The metrics of these epochs get `warm_up` = 1, since they train soft attention; see
    `best_epoch`.
    """

    def __init__(self, num_epochs):
        super().__init__()
        self.num_epochs = num_epochs

    def on_epoch_begin(self, epoch, logs=None):
        is_warm_up = epoch < self.num_epochs
        self.model.expectation_share.assign(1.0 if is_warm_up else EXPECTATION_PROBABILITY)

    def on_epoch_end(self, epoch, logs=None):
        if self.num_epochs:
            logs["warm_up"] = float(epoch < self.num_epochs)
