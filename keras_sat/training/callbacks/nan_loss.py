"""A loss that is NaN or infinite ends a training, and nothing is kept of its epoch."""

import math

import keras
import numpy as np


class LostTraining(Exception):
    """The loss or the weights became NaN or infinite."""


class StopWhenLost(keras.callbacks.Callback):
    """Raise LostTraining when the loss is NaN or infinite. It must be the first callback: the others see none of that.

    Keras' TerminateOnNaN does not look at the weights: the last update of an epoch comes after its last loss.
    """

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            raise LostTraining

    def on_epoch_end(self, epoch, logs=None):
        is_finite = all(np.isfinite(weight.numpy()).all() for weight in self.model.trainable_variables)
        if not is_finite or not math.isfinite(logs.get("val_loss", 0.0)):
            raise LostTraining
