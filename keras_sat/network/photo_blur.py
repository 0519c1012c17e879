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
        channels = photos.shape[-1]
        down = np.tile(self.kernel[:, None, None, None], (1, 1, channels, 1))
        across = np.swapaxes(down, 0, 1)
        photos = self._convolved(photos, down, axis=1)
        return self._convolved(photos, across, axis=2)

    def _convolved(self, photos, kernel, axis):
        """Convolve photos along one axis; their border is mirrored."""
        reach = len(self.kernel) // 2
        padding = [(0, 0)] * 4
        padding[axis] = (reach, reach)
        photos = ops.pad(photos, padding, mode="symmetric")
        return ops.depthwise_conv(
            photos,
            ops.cast(kernel, photos.dtype),
            padding="valid",
            data_format="channels_last",
        )


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
    reach = len(gaussian(sigma)) // 2
    shorter_side = min(encoder.input_shape[1:3])
    if reach > shorter_side:
        raise ValueError(
            f"The blur is too wide: the shorter side has {shorter_side} pixels. Received: "
            f"photo_blur={sigma}"
        )
    images = keras.Input(encoder.input_shape[1:], name="images")
    blurred_images = BlurPhotos(sigma, name="blur_photos")(images)
    blurred = keras.Model(images, encoder(blurred_images), name=encoder.name)
    blurred.encoder_layer = encoder.encoder_layer
    return blurred
