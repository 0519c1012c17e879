"""How far a training is: a bar within each epoch, an estimate of the time left, and a line of figures after it."""

import time

import keras
from tqdm import tqdm

from data_utils.progress import Progress
from keras_sat.training.history import MONITORED, as_text, best_epoch, says_something


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
                self._traced = time.monotonic()  # the first batch takes longer: TensorFlow traces the graph
            elif batch == min(self.batches_before_estimate, self._progress.total - 1):
                self._estimate(batch)

    def _estimate(self, batch):
        seconds = (time.monotonic() - self._traced) / batch * self._progress.total
        left = seconds * (self.num_epochs - self._first_epoch)
        self._first_epoch = None
        self.output(
            f"an epoch takes about {tqdm.format_interval(seconds)}, and all that are left at most "
            f"{tqdm.format_interval(left)} (without the captions of the dev split)"
        )

    def on_epoch_end(self, epoch, logs=None):
        self.end_line()
        if "reward" in logs:
            parts = [f"reward {logs['reward']:.3f}"]
        else:
            parts = [f"loss {logs['loss']:.2f}" if logs["loss"] >= 1 else f"loss {logs['loss']:.4f}"]
            parts += [f"cross-entropy {logs['cross_entropy']:.3f} a word"] if "cross_entropy" in logs else []
            parts += [f"on dev {logs['val_cross_entropy']:.3f}"] if "val_cross_entropy" in logs else []
        if self.monitored in logs:
            self.known.append(dict(logs))
            is_best = best_epoch(self.known, self.monitored) == len(self.known) - 1
            is_best = is_best and says_something(logs, self.monitored)
            parts.append(f"{as_text(self.monitored, logs[self.monitored])}{' (best so far)' if is_best else ''}")
        seconds = tqdm.format_interval(time.monotonic() - self._started)
        self.output(f"{self.label} {epoch + 1}/{self.num_epochs}: {', '.join(parts)}, {seconds}")

    def end_line(self):
        """End the line of progress, also that of an epoch that was interrupted."""
        if self._progress is not None:
            self._progress.__exit__()
            self._progress = None
