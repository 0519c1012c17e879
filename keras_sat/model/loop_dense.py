"""The dense layer for what is computed at each word."""

import keras
from keras import layers


@keras.saving.register_keras_serializable("keras_sat")
class LoopDense(layers.Dense):
    """A dense layer whose product x W a loop over the words may compute by itself, see `keras_sat.accelerated.loop`.

    Attributes:
        late_product: None, or what takes the place of x -> x W while the loop makes its step.
    """

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.late_product = None

    def call(self, inputs):
        if self.late_product is None:
            return super().call(inputs)
        outputs = self.late_product(inputs)
        return outputs if self.bias is None else outputs + self.bias
