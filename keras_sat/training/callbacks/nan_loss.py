"""A loss that is NaN or infinite ends a training, and nothing is kept of its epoch."""

import math

import keras
import numpy as np


class StopWhenLost(keras.callbacks.Callback):
    """Stop at once when the loss is NaN or infinite: nothing that is learnt afterwards is worth anything.

    It must be the first callback: at the end of an epoch it makes the loss in `logs` NaN, by which the others see it.

    Attributes:
        is_lost: whether it has stopped the training.
    """

    def __init__(self):
        super().__init__()
        self.is_lost = False

    def on_train_batch_end(self, batch, logs=None):
        if has_nan_loss(logs):
            self._stop()

    def on_epoch_end(self, epoch, logs=None):
        """Check the weights too: the loss was measured before their last update."""
        finite = all(np.isfinite(weight.numpy()).all() for weight in self.model.trainable_variables)
        if not finite or not math.isfinite(logs.get("val_loss", 0.0)):
            logs["loss"] = math.nan
        if has_nan_loss(logs):
            self._stop()

    def _stop(self):
        self.is_lost = True
        self.model.stop_training = True


def has_nan_loss(logs):
    """Return whether the loss in a callback's `logs` is NaN or infinite."""
    return not math.isfinite((logs or {}).get("loss", 0.0))
