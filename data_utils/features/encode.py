"""Encode photos: in groups, and at one precision.

`in_16_bits` is the one place where features are rounded. So a photo has the same
features, and the same caption, whether they come from the encoder or from a cache.
"""

import numpy as np

from data_utils.base import import_tensorflow

ENCODED_TOGETHER = 32  # photos: an encoder's layers need much more memory than a search
LARGEST = 65504.0  # of 16-bit floats


def encoding_function(encoder):
    """Return a function from photos (photos, height, width, 3) with values 0..255 to
    their feature grids, float32 (photos, rows, columns, feature_dim) in 16 bits.

    Args:
        encoder: a `keras.Model`, which is run as a graph, or any function from float32
            photos to grids.
    """
    tf = import_tensorflow()
    import keras

    def encode_group(photos):
        return in_16_bits(encoder(photos))

    if isinstance(encoder, keras.layers.Layer):

        def encode_group_in_graph(photos):
            return in_16_bits(encoder(photos, training=False))

        photos = tf.TensorSpec((None, *encoder.input_shape[1:3], 3), tf.float32)
        encode_group = tf.function(encode_group_in_graph, input_signature=[photos], autograph=False)

    def encode(photos):
        groups = np.split(photos, range(ENCODED_TOGETHER, len(photos), ENCODED_TOGETHER))
        return np.concatenate(
            [np.asarray(encode_group(group.astype(np.float32))) for group in groups]
        )

    return encode


def in_16_bits(features):
    """Return float32 features, rounded to 16 bits; values out of range stay as they
    are. NumPy rounds arrays, and Keras tensors.
    """
    if isinstance(features, np.ndarray):
        features = features.astype(np.float32, copy=False)
        with np.errstate(over="ignore"):
            rounded = features.astype(np.float16).astype(np.float32)
        return np.where(np.abs(features) <= LARGEST, rounded, features)
    from keras import ops

    features = ops.cast(features, "float32")
    rounded = ops.cast(ops.cast(features, "float16"), "float32")
    return ops.where(ops.abs(features) <= LARGEST, rounded, features)
