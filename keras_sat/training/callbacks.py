"""What happens between the epochs of a training: free-running captions, their scores, and what is kept."""

import contextlib
import csv
import io
import math
import re
import signal
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from data_utils.files import write_whole
from data_utils.progress import Progress, duration
from keras_sat.files.checkpoint import write_checkpoint
from keras_sat.scoring.bleu import bleu, bleu_counts
from keras_sat.scoring.cider import cider
from keras_sat.scoring.evaluate import NUM_REFERENCES, caption_photos
from keras_sat.scoring.scores import named
from keras_sat.scoring.words import MAX_ORDER

MONITORED = "val_bleu_4"
LEAST_SCORE = 1e-4  # below it a score is as good as 0
LEAST_MATCHES = 10  # with fewer groups of four words right on the whole of dev, BLEU-4 is chance


class ShowCaptions(keras.callbacks.Callback):
    """After each epoch, print the captions of a few photos.

    Args:
        captioned_images: list of CaptionedImage; the first `num_photos` are shown.
        cache: FeatureCache with their features; None has them encoded each time.
        num_photos: how many.
        output: a function that takes a line of text.
        **search_options: see `Captioner.caption_features`.
    """

    def __init__(self, captioned_images, *, cache=None, num_photos=3, output=print, **search_options):
        super().__init__()
        self.images = list(captioned_images)[:num_photos]
        self.cache = cache
        self.output = output
        self.search_options = {"num_beams": 1, **search_options}

    def on_epoch_end(self, epoch, logs=None):
        if _is_lost(logs):
            return
        with self.model.averaged_weights():
            results = caption_photos(self.model, self.images, self.cache, **self.search_options)
        for image, result in zip(self.images, results):
            self.output(f"    {image.image_id}: {result.caption}")


class ScoreCaptions(keras.callbacks.Callback):
    """After each epoch, caption the photos of the dev split, free-running, and score the captions.

    The figures are added to the epoch's logs, see `score_captions`.

    Args:
        captioned_images: list of CaptionedImage; their captions are the references, five each at most.
        cache: FeatureCache with their features; None has them encoded each time.
        **search_options: see `Captioner.caption_features`.
    """

    def __init__(self, captioned_images, *, cache=None, **search_options):
        super().__init__()
        self.images = list(captioned_images)
        self.cache = cache
        self.search_options = {"num_beams": 1, **search_options}

    def on_epoch_end(self, epoch, logs=None):
        if logs is None or _is_lost(logs):
            return
        with self.model.averaged_weights():
            logs.update(score_captions(self.model, self.images, self.cache, **self.search_options))


def score_captions(captioner, captioned_images, cache=None, **search_options):
    """Return figures of a captioner's captions, by name.

    val_bleu_1 to val_bleu_4; val_matches, how often four words in a row stand in a reference; val_cider; val_distinct,
    how many captions differ.

    Args:
        captioner: Captioner.
        captioned_images: list of CaptionedImage; their captions are the references, five each at most.
        cache: FeatureCache with their features; None encodes them.
        **search_options: see `Captioner.caption_features`.
    """
    results = caption_photos(captioner, captioned_images, cache, **search_options)
    captions = [result.caption for result in results]
    references = [image.captions[:NUM_REFERENCES] for image in captioned_images]
    scores = bleu(references, captions)
    figures = {f"val_bleu_{n}": scores[f"bleu_{n}"] for n in range(1, 5)}
    figures["val_matches"] = int(bleu_counts(references, captions)[:, MAX_ORDER - 1].sum())
    return {**figures, "val_cider": cider(references, captions)["cider"], "val_distinct": len(set(captions))}


class BeginWithExpectations(keras.callbacks.Callback):
    """Train hard attention with expectations only, until the attention knows its way; then draw samples.

    The figures of these epochs get `warm_up` = 1, since what they learn is soft attention: see `best_epoch`.

    Args:
        num_epochs: how many epochs begin that way.
    """

    def __init__(self, num_epochs):
        super().__init__()
        self.num_epochs = num_epochs

    def on_epoch_begin(self, epoch, logs=None):
        only = epoch < self.num_epochs
        self.model.expectation_share.assign(1.0 if only else self.model.expectation_probability)

    def on_epoch_end(self, epoch, logs=None):
        if self.num_epochs and logs is not None:
            logs["warm_up"] = float(epoch < self.num_epochs)


class StopWhenLost(keras.callbacks.Callback):
    """Stop at once where the loss is no number any more: nothing that is learnt afterwards is worth anything.

    It must be the first callback: at the end of an epoch the others are told by `logs` whether it is lost.
    """

    def __init__(self):
        super().__init__()
        self.is_lost = False

    def on_train_batch_end(self, batch, logs=None):
        if _is_lost(logs):
            self._stop()

    def on_epoch_end(self, epoch, logs=None):
        """Look at the weights too: the loss was measured before the last update. What comes after sees a lost epoch."""
        finite = all(np.isfinite(weight.numpy()).all() for weight in self.model.trainable_variables)
        if not finite or not math.isfinite(logs.get("val_loss", 0.0)):
            logs["loss"] = math.nan
        if _is_lost(logs):
            self._stop()

    def _stop(self):
        self.is_lost = True
        self.model.stop_training = True


class KeepTraining(keras.callbacks.Callback):
    """After each epoch, keep what was reached, so that nothing is lost; stop when it gets no better.

    In `directory`: model/, the captioner of the best epoch so far; checkpoint/, all that it takes to go on;
    history.csv, the figures of every epoch; logs/, the same for TensorBoard. It must be the last callback.

    Args:
        directory: the folder.
        epochs: list of the figures of the epochs before, when a training goes on.
        before: list with the figures of the captioner that is in model/ already, and stays unless an epoch is better.
        monitored: the figure that tells the best epoch.
        patience: stop after so many epochs without a better one; None never does.
    """

    def __init__(self, directory, *, epochs=(), before=(), monitored=MONITORED, patience=None):
        super().__init__()
        self.directory = Path(directory)
        self.epochs = list(epochs)
        self.before = list(before)
        self.monitored = monitored
        self.patience = patience
        self._started = None
        self._writer = None

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        if _is_lost(logs):
            return
        figures = {name: float(value) for name, value in logs.items()}
        with _ctrl_c_put_off():
            epochs = [*self.epochs, {**figures, "seconds": time.monotonic() - self._started}]
            known = [*self.before, *epochs]
            if best_epoch(known, self.monitored) == len(known) - 1:
                with self.model.averaged_weights():
                    self.model.save(self.directory / "model")
            write_checkpoint(self.directory / "checkpoint", self.model, epochs)
            self.epochs = epochs
            write_history(self.directory / "history.csv", epochs)
            self._write_log(figures, epoch)
        if is_at_its_best([*self.before, *self.epochs], self.patience, self.monitored):
            self.model.stop_training = True

    def _write_log(self, figures, epoch):
        """Write for TensorBoard what history.csv has as well: where that fails, the training goes on."""
        folder = self.directory / "logs"
        try:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(str(folder))
            _write_for_tensorboard(self._writer, figures, epoch)
        except tf.errors.OpError as error:
            self._writer = None  # the next epoch begins a new file
            warnings.warn(
                f"{folder}: epoch {epoch + 1} cannot be written for TensorBoard ({reason_of(error)}). history.csv has "
                "the same figures.",
                stacklevel=2,
            )

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()


class ShowProgress(keras.callbacks.Callback):
    """Show how far the training is, how long it will take, and a line of figures for each epoch.

    Args:
        num_epochs: of the whole training.
        epochs, before, monitored: see KeepTraining.
        label: what an epoch is called.
        output: a function that takes a line of text.
    """

    batches_before_estimate = 20

    def __init__(self, num_epochs, *, epochs=(), before=(), monitored=MONITORED, label="epoch", output=print):
        super().__init__()
        self.num_epochs = num_epochs
        self.monitored = monitored
        self.known = [*before, *epochs]
        self.label = label
        self.output = output
        self._first_epoch = len(epochs)
        self._progress = None

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.monotonic()
        label = f"{self.label} {epoch + 1}/{self.num_epochs}"
        self._progress = Progress(self.params.get("steps"), label=label, unit="batches")
        self._progress.show = self._progress.rewrites  # in a log file the line of each epoch is enough

    def on_train_batch_end(self, batch, logs=None):
        self._progress.advance(1)
        if self._progress.total and self._first_epoch is not None:
            if batch == 0:
                self._traced = time.monotonic()  # the first batch takes longer: TensorFlow makes the graph
            elif batch == min(self.batches_before_estimate, self._progress.total - 1):
                self._estimate(batch)

    def _estimate(self, batch):
        seconds = (time.monotonic() - self._traced) / batch * self._progress.total
        left = seconds * (self.num_epochs - self._first_epoch)
        self._first_epoch = None
        self.output(
            f"an epoch takes about {duration(seconds)}, and all that are left {duration(left)} at most "
            "(without the captions of the dev split)"
        )

    def on_epoch_end(self, epoch, logs=None):
        self.end_line()
        if _is_lost(logs):
            return
        if "reward" in logs:
            parts = [f"reward {logs['reward']:.3f}"]
        else:
            parts = [f"loss {logs['loss']:.2f}", f"cross-entropy {logs['cross_entropy']:.3f} a word"]
            parts += [f"on dev {logs['val_cross_entropy']:.3f}"] if "val_cross_entropy" in logs else []
        if self.monitored in logs:
            self.known.append(dict(logs))
            is_best = best_epoch(self.known, self.monitored) == len(self.known) - 1
            is_best = is_best and says_something(logs, self.monitored)
            parts.append(f"{as_text(self.monitored, logs[self.monitored])}{' (best so far)' if is_best else ''}")
        seconds = duration(time.monotonic() - self._started)
        self.output(f"{self.label} {epoch + 1}/{self.num_epochs}: {', '.join(parts)}, {seconds}")

    def end_line(self):
        """End the line of progress, also of an epoch that was broken off."""
        if self._progress is not None:
            self._progress.__exit__()
            self._progress = None


class Curves(Mapping):
    """What `captioner.history` is after `fit`: a mapping from a name to its value in each epoch.

    Attributes:
        history: the same as a dict, as Keras' own History has it.
        was_interrupted: whether Ctrl-C has ended the training.
    """

    def __init__(self, epochs, *, was_interrupted=False):
        self.was_interrupted = was_interrupted
        names = list(dict.fromkeys(name for figures in epochs for name in figures))
        self.history = {name: [figures.get(name, math.nan) for figures in epochs] for name in names}

    def __getitem__(self, name):
        return self.history[name]

    def __iter__(self):
        return iter(self.history)

    def __len__(self):
        return len(self.history)

    def __repr__(self):
        return f"Curves({', '.join(self)})"


def as_text(monitored, score):
    """Return a score as a reader knows it: "BLEU-4 21.3" or "CIDEr 0.520"."""
    return named(monitored.removeprefix("val_"), score)


def best_epoch(epochs, monitored=MONITORED):
    """Return the index of the epoch with the best monitored figure, the first of equals; without it, the last epoch.

    As long as that says nothing (see `says_something`), the cross-entropy on dev decides. Epochs of a warm-up count
    only as long as there are no others: what comes after them is what was asked for.
    """
    if not epochs or monitored not in epochs[-1]:
        return len(epochs) - 1

    def quality(number):
        score = epochs[number][monitored]
        if says_something(epochs[number], monitored):
            return score, 0, -number
        return 0, -epochs[number].get("val_cross_entropy", 0), -number

    numbers = range(len(epochs))
    return max([number for number in numbers if not epochs[number].get("warm_up")] or numbers, key=quality)


def says_something(figures, monitored=MONITORED):
    """Return whether a score is above chance: not 0, and BLEU-4 rests on LEAST_MATCHES groups of four words at least.

    The relative error of a count is about 1 / sqrt(count). Without a single match BLEU-4 is not 0 either: the tiny
    numbers that coco-caption adds make up to 0.03 of it where captions are shorter than four words.
    """
    enough = monitored != MONITORED or figures.get("val_matches", LEAST_MATCHES) >= LEAST_MATCHES
    return enough and figures[monitored] >= LEAST_SCORE


def is_at_its_best(epochs, patience, monitored=MONITORED):
    """Return whether the last `patience` epochs have brought nothing better, as `best_epoch` tells it.

    A score that says nothing is no plateau, unless the cross-entropy on dev decided. Nor is a warm-up.
    """
    if not epochs or patience is None or monitored not in epochs[-1] or epochs[-1].get("warm_up"):
        return False
    best = best_epoch(epochs, monitored)
    is_told = says_something(epochs[best], monitored) or "val_cross_entropy" in epochs[best]
    return len(epochs) - 1 - best >= patience and is_told


def write_history(path, epochs):
    """Write the figures of all epochs as a table, whole or not at all."""
    curves = Curves(epochs)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["epoch", *curves])
    for number in range(len(epochs)):
        writer.writerow([number + 1, *(f"{curves[name][number]:.6g}" for name in curves)])
    write_whole(path, table.getvalue())


def _write_for_tensorboard(writer, figures, epoch):
    """Write scalars as TensorBoard reads them. (`tf.summary.scalar` does the same, but only with it installed.)"""
    metadata = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class="DATA_CLASS_SCALAR"
    )
    with writer.as_default():
        for name, value in figures.items():
            tf.summary.write(name, tf.constant(value, tf.float32), step=epoch + 1, metadata=metadata)
    writer.flush()


def reason_of(error):
    """Return the first line of what an error of TensorFlow says, without its operations and where they were defined."""
    around = ("Graph execution error:", "Detected at ", "  File ")
    lines = [line for line in str(error).split("\n") if line.strip() and not line.startswith(around)]
    return re.sub(r"\{\{.*?\}\} *| *\[Op:.*", "", lines[0] if lines else str(error))


@contextlib.contextmanager
def _ctrl_c_put_off():
    """Let what is being kept be kept whole: Ctrl-C comes into effect at the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C only ever reaches the main thread
        return
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _is_lost(logs):
    return not math.isfinite((logs or {}).get("loss", 0.0))
