"""Moving averages of the weights while they are trained: they score better than the weights themselves.

Why not Keras' own (`use_ema` of an optimizer, with SwapEMAWeights): it averages inside the optimizer's step, before
`encoder_rate` shortens that of the encoder, and its momentum is the same from the first step on, when the weights are
still random.
"""

import contextlib

import keras
import tensorflow as tf
from keras import ops


class WeightAverages:
    """The moving averages of a model's trained weights.

    Args:
        momentum: share of the average that stays at each step, less in the beginning; None keeps no averages.

    Attributes:
        variables: a variable for each trained weight, once a training has begun.
        are_kept: whether a training keeps them up to date.
    """

    def __init__(self, momentum=None):
        self.momentum = momentum
        self.variables = []
        self.are_kept = False

    def begin(self, weights):
        """Return the variables; in a training that has just begun they are the weights themselves."""
        if self.momentum is not None and not self.are_kept:
            with tf.init_scope():
                for weight, average in zip(weights, self.variables):
                    average.assign(weight.numpy())
                if not self.variables:
                    self.variables = [
                        keras.Variable(weight.numpy(), trainable=False, dtype=weight.dtype, name=f"average_{number}")
                        for number, weight in enumerate(weights)
                    ]
            self.are_kept = True
        return self.variables

    def follow(self, weights, iterations):
        """Move the averages towards the weights, after a step of the optimizer: the first ones count for most of it."""
        if self.variables:
            steps = ops.cast(iterations, "float32")
            momentum = ops.minimum(self.momentum, steps / (steps + 10))
            for weight, average in zip(weights, self.variables):
                average.assign(momentum * average + (1 - momentum) * weight)

    @contextlib.contextmanager
    def in_place_of(self, weights):
        """Inside the block the weights are their averages, while a training keeps such."""
        if not self.are_kept:
            yield
            return
        before = [weight.numpy() for weight in weights]
        self._assign_to(weights)
        try:
            yield
        finally:
            for weight, value in zip(weights, before):
                weight.assign(value)

    def end(self, weights):
        """Leave the averages as the weights, at the end of a training that kept such."""
        if self.are_kept:
            self._assign_to(weights)
            self.are_kept = False

    def _assign_to(self, weights):
        for weight, average in zip(weights, self.variables):
            weight.assign(average)
