"""The dense layer for what is computed at each word."""

import keras
from keras import layers


@keras.saving.register_keras_serializable("keras_sat")
class LoopDense(layers.Dense):
    """A dense layer for the inside of `loop.loop_over_time`, where each step calls it once; elsewhere like any other.

    The gradient of a matrix W in a loop is a sum over the steps, of x_t^T dy_t. To add it up step by step takes a small
    product and a sum of large matrices at each; after the loop it is one product of all x_t with all dy_t, several
    times as fast. So inside the loop W is held constant, and zeros from outside are added to y_t = x_t W: their
    gradient is dy_t, from which the loop makes that of W.
    """

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.late_product = None  # set by the loop while its step is being made

    def call(self, inputs):
        if self.late_product is None:
            return super().call(inputs)
        outputs = self.late_product(inputs)
        return outputs if self.bias is None else outputs + self.bias
