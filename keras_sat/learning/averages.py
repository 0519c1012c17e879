"""Moving averages of the weights during training; they give better captions than the
final weights.

Keras' own averages (`use_ema` of an optimizer, with SwapEMAWeights) are updated before
`encoder_rate` shortens the encoder's step, and use the full momentum from the first
step, when the weights are still random.
"""

import contextlib

import keras
import tensorflow as tf
from keras import ops


class WeightAverages:
    """The moving averages of a model's trained weights.

    Attributes:
        momentum: fraction of the average kept at each step, smaller in the first steps;
            None: no averages.
        variables: one variable for each trained weight; empty before the first
            training.
        are_kept: whether training is updating them.
    """

    def __init__(self, momentum=None):
        self.momentum = momentum
        self.variables = []
        self.are_kept = False

    def start(self, weights):
        """Initialise the averages from the weights, unless this has been done already,
        and return them.
        """
        if self.momentum is not None and not self.are_kept:
            with tf.init_scope():
                self.variables = self.variables or [
                    keras.Variable(
                        weight.numpy(),
                        trainable=False,
                        dtype=weight.dtype,
                        name=f"average_{number}",
                    )
                    for number, weight in enumerate(weights)
                ]
                _assign(self.variables, [weight.numpy() for weight in weights])
            self.are_kept = True
        return self.variables

    def update(self, weights, iterations):
        """Update the averages after an optimizer step."""
        if self.variables:
            steps = ops.cast(iterations, "float32")
            momentum = ops.minimum(self.momentum, steps / (steps + 10))
            for weight, average in zip(weights, self.variables):
                average.assign(momentum * average + (1 - momentum) * weight)

    @contextlib.contextmanager
    def in_place_of(self, weights):
        """Replace the weights with their averages inside a `with` block, if training
        keeps averages.
        """
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
        """Replace the weights with their averages for good, at the end of training."""
        if self.are_kept:
            _assign(weights, self.variables)
            self.are_kept = False


def _assign(variables, values):
    for variable, value in zip(variables, values):
        variable.assign(value)
