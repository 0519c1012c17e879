"""Moving averages of the weights during training: captions written with them score better.

Keras' own (`use_ema` of an optimizer, with SwapEMAWeights) averages inside the optimizer's step, before `encoder_rate`
shortens that of the encoder, and its momentum is the same from the first step on, when the weights are still random.
"""

import contextlib

import keras
import tensorflow as tf
from keras import ops


class WeightAverages:
    """The moving averages of a model's trained weights.

    Args:
        momentum: the fraction of the average that is kept at each step, less in the first steps; None: no averages.

    Attributes:
        variables: list of a variable for each trained weight; empty before the first training.
        are_kept: whether a training updates them.
    """

    def __init__(self, momentum=None):
        self.momentum = momentum
        self.variables = []
        self.are_kept = False

    def start(self, weights):
        """Start the averages from the values of the weights, if they have not started; return their variables."""
        if self.momentum is not None and not self.are_kept:
            with tf.init_scope():
                self.variables = self.variables or [
                    keras.Variable(weight.numpy(), trainable=False, dtype=weight.dtype, name=f"average_{number}")
                    for number, weight in enumerate(weights)
                ]
                _assign(self.variables, [weight.numpy() for weight in weights])
            self.are_kept = True
        return self.variables

    def update(self, weights, iterations):
        """Move the averages towards the weights, after a step of the optimizer; early steps move them further."""
        if self.variables:
            steps = ops.cast(iterations, "float32")
            momentum = ops.minimum(self.momentum, steps / (steps + 10))
            for weight, average in zip(weights, self.variables):
                average.assign(momentum * average + (1 - momentum) * weight)

    @contextlib.contextmanager
    def in_place_of(self, weights):
        """Give the weights the values of their averages inside the block, while a training updates these."""
        if not self.are_kept:
            yield
            return
        before = [weight.numpy() for weight in weights]
        _assign(weights, self.variables)
        try:
            yield
        finally:
            _assign(weights, before)

    def finish(self, weights):
        """Give the weights the values of their averages for good, at the end of a training that updated these."""
        if self.are_kept:
            _assign(weights, self.variables)
            self.are_kept = False


def _assign(variables, values):
    for variable, value in zip(variables, values):
        variable.assign(value)
