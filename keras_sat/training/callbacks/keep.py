"""What is kept after each epoch of a training: the best captioner, a checkpoint, and the figures of all epochs."""

import contextlib
import math
import signal
import threading
import time
import warnings
from pathlib import Path

import keras
import tensorflow as tf

from data_utils.tf_logging import reason_of
from keras_sat.files.checkpoint import write_checkpoint
from keras_sat.training.history import MONITORED, best_epoch, is_at_its_best, write_history


class KeepTraining(keras.callbacks.Callback):
    """After each epoch, keep the best captioner and a checkpoint; stop when the scores no longer rise.

    In `directory`: model/, the captioner of the best epoch so far; checkpoint/, all that it takes to resume;
    history.csv, the figures of every epoch; logs/, the same for TensorBoard. It must be the last callback.

    Keras' ModelCheckpoint, EarlyStopping, BackupAndRestore and CSVLogger do parts of this. But they neither resume
    exactly (random generators, averaged weights), nor write files whole or not at all, nor know a BLEU-4 by chance.

    Args:
        directory: the folder.
        epochs: list of the figures of the epochs so far, when a training is resumed.
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
        self._writer = None

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        if not math.isfinite(logs["loss"]):
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
        if is_at_its_best(known, self.patience, self.monitored):
            self.model.stop_training = True

    def _write_log(self, figures, epoch):
        """Write for TensorBoard what history.csv has as well: where that fails, the training continues."""
        folder = self.directory / "logs"
        # tf.summary.scalar, and Keras' TensorBoard with it, needs TensorBoard installed.
        plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin, data_class="DATA_CLASS_SCALAR")
        try:
            self._writer = self._writer or tf.summary.create_file_writer(str(folder))
            with self._writer.as_default():
                for name, value in figures.items():
                    tf.summary.write(name, tf.constant(value, tf.float32), step=epoch + 1, metadata=metadata)
            self._writer.flush()
        except tf.errors.OpError as error:
            self._writer = None  # the next epoch starts a new file
            warnings.warn(
                f"{folder}: epoch {epoch + 1} cannot be written for TensorBoard ({reason_of(error)}). history.csv has "
                "the same figures.",
                stacklevel=2,
            )

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()


@contextlib.contextmanager
def _ctrl_c_delayed():
    """Delay Ctrl-C to the end of the block, so what is written in it is whole."""
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
