"""What is kept of a training after each epoch: the best captioner, a checkpoint, and the figures of all epochs."""

import contextlib
import signal
import threading
import time
import warnings
from pathlib import Path

import keras
import tensorflow as tf

from data_utils.quiet import reason_of
from keras_sat.files.checkpoint import write_checkpoint
from keras_sat.training.callbacks.nan_loss import has_nan_loss
from keras_sat.training.history import MONITORED, best_epoch, is_at_its_best, write_history


class KeepTraining(keras.callbacks.Callback):
    """After each epoch, keep the best captioner and a checkpoint; stop when the scores no longer rise.

    In `directory`: model/, the captioner of the best epoch so far; checkpoint/, all that it takes to resume;
    history.csv, the figures of every epoch; logs/, the same for TensorBoard. It must be the last callback.

    Args:
        directory: the folder.
        epochs: list of the figures of the epochs before, when a training is resumed.
        before: list with the figures of the captioner that is in model/ already, and stays unless an epoch is better.
        monitored: the figure that decides which epoch is the best.
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
        if has_nan_loss(logs):
            return
        figures = {name: float(value) for name, value in logs.items()}
        with _ctrl_c_delayed():
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
        """Write for TensorBoard what history.csv has as well: where that fails, the training continues."""
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


def _write_for_tensorboard(writer, figures, epoch):
    """Write scalars as TensorBoard reads them. (`tf.summary.scalar` does the same, but only with it installed.)"""
    metadata = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"), data_class="DATA_CLASS_SCALAR"
    )
    with writer.as_default():
        for name, value in figures.items():
            tf.summary.write(name, tf.constant(value, tf.float32), step=epoch + 1, metadata=metadata)
    writer.flush()


@contextlib.contextmanager
def _ctrl_c_delayed():
    """Delay Ctrl-C to the end of the block, so that what is written in it is whole."""
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
