"""Blur photos before the encoder, to reduce aliasing in its first stride.

The first layer of an encoder has a stride of 2. Fine detail then aliases (Zhang,
"Making Convolutional Networks Shift-Invariant Again", ICML 2019): invisible noise, or
another size of the same photo, changes the caption.
"""

import keras
import numpy as np
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_sat")
class BlurPhotos(layers.Layer):
    """Blur photos (photos, height, width, channels) with a Gaussian whose standard
    deviation is `sigma` pixels.
    """

    def __init__(self, sigma, **kwargs):
        super().__init__(**kwargs)
        self.sigma = sigma
        self.kernel = gaussian(sigma)

    def call(self, photos):
        reach, channels = len(self.kernel) // 2, photos.shape[-1]
        down = np.tile(self.kernel[:, None, None, None], (1, 1, channels, 1))
        for axis, kernel in ((1, down), (2, np.swapaxes(down, 0, 1))):
            padding = [(reach, reach) if number == axis else (0, 0) for number in range(4)]
            photos = ops.pad(photos, padding, mode="symmetric")
            kernel = ops.cast(kernel, photos.dtype)
            photos = ops.depthwise_conv(
                photos, kernel, padding="valid", data_format="channels_last"
            )
        return photos


def gaussian(sigma):
    """Return the weights of a normalised Gaussian kernel, cut off at three standard
    deviations.
    """
    reach = int(np.ceil(3 * sigma))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return weights / weights.sum()


def with_blur(encoder, sigma):
    """Return an encoder that blurs photos first, or the given encoder if `sigma` is 0
    or None.
    """
    if not sigma:
        return encoder
    reach, smaller = len(gaussian(sigma)) // 2, min(encoder.input_shape[1:3])
    if reach > smaller:
        raise ValueError(
            f"The blur is too wide: the shorter side has {smaller} pixels. Received: "
            f"photo_blur={sigma}"
        )
    images = keras.Input(encoder.input_shape[1:], name="images")
    blurred = keras.Model(
        images, encoder(BlurPhotos(sigma, name="blur_photos")(images)), name=encoder.name
    )
    blurred.encoder_layer, blurred.blur = encoder.encoder_layer, sigma
    return blurred
