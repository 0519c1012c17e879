"""Encoders turn RGB photos (0..255) into grids of features, the paper's annotation
vectors a_i.

Each encoder is a `keras.Model` from (batch, height, width, 3) to (batch, rows, columns,
feature_dim), preprocessing included. To add one, write a function with the arguments of
`tiny` that makes it, and add it to ENCODERS.
"""

import contextlib
import functools
import re
import sys

import keras
import numpy as np
from keras import layers

from data_utils.base import brief
from data_utils.photos import height_and_width
from keras_sat.bounds import count
from keras_sat.checks import ArgumentError
from keras_sat.network.efficientnet_lite import efficientnet_lite
from keras_sat.network.encoder_weights import assign_weights, packaged_weights
from keras_sat.network.finer_grid import rows_and_columns_of, with_grid
from keras_sat.network.photo_blur import with_blur
from keras_sat.network.weight_paths import keras_home

MOST_PIXELS = 4096  # per side: a batch of larger photos would not fit into memory


@keras.saving.register_keras_serializable("keras_sat")
class CaffePreprocessing(layers.Layer):
    """Convert RGB to BGR and subtract ImageNet's mean colour, as VGG and ResNet50
    expect.
    """

    def call(self, images):
        return images[..., ::-1] - keras.ops.array([103.939, 116.779, 123.68], dtype=images.dtype)


FOR_LITE = functools.partial(layers.Rescaling, 1 / 128, offset=-127 / 128)
# Class in keras.applications, or width and depth of EfficientNet-Lite; default layer;
# preprocessing.
KERAS_APPLICATIONS = {
    # 14 x 14 x 512: block 5 before the last pooling
    "vgg16": ("VGG16", "block5_conv3", CaffePreprocessing),
    # 14 x 14 x 512: the encoder of the paper
    "vgg19": ("VGG19", "block5_conv4", CaffePreprocessing),
    "resnet50": ("ResNet50", "conv5_block3_out", CaffePreprocessing),  # 7 x 7 x 2048
    "mobilenet_v2": (
        "MobileNetV2",
        "out_relu",
        functools.partial(layers.Rescaling, 1 / 127.5, offset=-1),
    ),
    # It rescales its input itself.
    "efficientnet_b0": ("EfficientNetB0", "top_activation", layers.Identity),
    "efficientnet_lite0": ((1.0, 1.0), "top", FOR_LITE),  # 7 x 7 x 1280, like the two above
    "efficientnet_lite2": ((1.1, 1.2), "top", FOR_LITE, 260),  # 9 x 9 x 1280
}


def _pretrained(name, network, layer, preprocessing, side=224):
    """Return a function that makes an encoder from a row of KERAS_APPLICATIONS; `side`
    is the default image size.
    """

    def make(*, layer=layer, weights="imagenet", image_size=side, grid=None):
        """Return the encoder; see `make_encoder` for the arguments."""
        shape = (*height_and_width(image_size), 3)
        if isinstance(network, tuple):  # width and depth
            whole = _lite_network(name, network, shape, weights)
        else:
            whole = _application(name, network, shape, weights)
        trunk = keras.Model(whole.input, _grid_at(whole, layer, name), name=f"{name}_trunk")
        if grid is not None:
            trunk = with_grid(trunk, grid)
        images = keras.Input(shape, name="images")
        encoder = keras.Model(images, trunk(preprocessing()(images)), name=name)
        encoder.encoder_layer = layer
        return encoder

    return make


def _application(name, network, shape, weights):
    """Return a keras.applications network with its weights."""
    make = getattr(keras.applications, network)
    options = {"include_top": False, "input_shape": shape}
    if weights != "imagenet":
        whole = make(weights=None, **options)
        assign_weights(whole, weights)
        return whole
    try:
        # Keras announces downloads on stdout, which is for captions.
        with contextlib.redirect_stdout(sys.stderr):
            return make(weights="imagenet", **options)
    # keras.utils.get_file raises a plain Exception when a download fails
    except Exception as error:
        address = re.search(r"https?://\S+?(?=:?\s|:?$)", str(error))
        if address is None:
            raise
        reason = str(error).rpartition(": ")[2].removeprefix("None -- ")
        raise ArgumentError(
            f"The ImageNet weights of {name} could not be downloaded ({reason}). Download "
            f"{address[0]} with a browser and put the file into {keras_home() / 'models'}, or use "
            "efficientnet_lite0, whose weights are in this package.",
            way_out="its path",
            weights="imagenet",
        ) from None


def _lite_network(name, network, shape, weights):
    """Return an EfficientNet-Lite with its weights; ImageNet weights are in the package
    or come from a file.
    """
    width, depth = network
    whole = efficientnet_lite(shape, width, depth, name=name)
    assign_weights(whole, packaged_weights(name) if weights == "imagenet" else weights)
    return whole


def _grid_at(network, layer, name):
    """Return the output of a layer, which must be a feature grid."""
    _, *names = [item.name for item in network.layers if len(item.output.shape) == 4]
    if layer not in names:  # the first one is the input
        raise ValueError(
            f"`{name}` has no layer with this name that outputs a grid. Expected one of: "
            f"{', '.join(names)}. Received: layer={brief(layer)}"
        )
    return network.get_layer(layer).output


def _with_coordinates(grid):
    """Append each cell's row and column, scaled to -1..1, so that words like "left" can
    be learned.
    """
    _, rows, columns, feature_dim = grid.shape
    axes = [
        keras.ops.convert_to_numpy(keras.ops.linspace(-1.0, 1.0, cells))
        for cells in (rows, columns)
    ]
    coordinates = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # (rows, columns, 2)
    # Two more features: 0 in one summand, the coordinates in the other.
    padded_grid = keras.ops.pad(grid, [(0, 0), (0, 0), (0, 0), (0, 2)])
    padded_coordinates = np.pad(coordinates, [(0, 0), (0, 0), (feature_dim, 0)])
    summed = padded_grid + keras.ops.cast(padded_coordinates, grid.dtype)
    return layers.Identity(name="coordinates")(summed)


def tiny(*, layer="coordinates", weights=None, image_size=64, grid=None):
    """Return a small encoder, trained with the decoder, that turns 64 x 64 pixels into
    16 x 16 cells of 66 features.

    It is for the built-in scenes: three convolutions, no batch normalisation, each cell
    sees 8 x 8 pixels, and its position is appended. For the arguments see
    `make_encoder`; the size determines the grid.
    """
    height, width = height_and_width(image_size)
    if height % 2 or width % 2:
        raise ValueError(
            f"`tiny` merges 2 x 2 pixels: use an even size. Received: image_size={image_size}"
        )
    images = keras.Input((height, width, 3), name="images")
    pixels = layers.Rescaling(1 / 127.5, offset=-1, name="rescaling")(images)
    cells = layers.Reshape((height // 2, 2, width // 2, 2, 3), name="split_2x2")(pixels)
    cells = layers.Permute((1, 3, 2, 4, 5), name="gather_2x2")(cells)
    cells = layers.Reshape((height // 2, width // 2, 12), name="space_to_depth")(cells)
    for name, filters, size, strides in (
        ("conv1", 16, 3, 1),
        ("conv2", 64, 2, 2),
        ("conv3", 64, 1, 1),
    ):
        cells = layers.Conv2D(filters, size, strides, padding="same", activation="relu", name=name)(
            cells
        )
    network = keras.Model(images, _with_coordinates(cells), name="tiny")
    assign_weights(network, weights)
    encoder = keras.Model(images, _grid_at(network, layer, "tiny"), name="tiny")
    if grid is not None and rows_and_columns_of(grid) != encoder.output_shape[1:3]:
        rows, columns = encoder.output_shape[1:3]
        raise ValueError(
            f"At this size, the grid of `tiny` is {rows}x{columns}. Received: grid={brief(grid)}"
        )
    encoder.encoder_layer = layer
    return encoder


tiny.starts_random = True  # it has no ImageNet weights and is trained with the decoder

ENCODERS = {
    **{name: _pretrained(name, *row) for name, row in KERAS_APPLICATIONS.items()},
    "tiny": tiny,
}


def starts_random(name):
    """Return whether the encoder with this name starts with random weights and must be
    trained.
    """
    return getattr(ENCODERS.get(name), "starts_random", False)


def usual_training(encoder):
    """Return the `encoder_training` of an encoder, a name or a `keras.Model`, if it is
    not given.
    """
    return "scratch" if starts_random(encoder) else "frozen"


def make_encoder(name, *, layer=None, weights="imagenet", image_size=None, grid=None, blur=None):
    """Return the encoder with this name in ENCODERS.

    Args:
        layer: the layer whose output is the grid; None: the default.
        weights: "imagenet" (downloaded by Keras; of EfficientNet-Lite0, in the package;
            random for `tiny`), the path of a weights file, a list of arrays of all
            weights, or None for random ones.
        image_size: the side of the photos in pixels, or (height, width); None: the
            default.
        grid: rows and columns, such as "28x28": finer grids replace the last strides
            with dilation, see `with_grid`.
        blur: standard deviation, in pixels, of a Gaussian blur before the encoder, see
            BlurPhotos.
    """
    if image_size is not None:
        sides = image_size if isinstance(image_size, (list, tuple)) else (image_size, image_size)
        if len(sides) != 2 or not all(map(count(1, MOST_PIXELS).is_valid, sides)):
            raise ValueError(
                f"`image_size` must be a whole number of pixels, at most {MOST_PIXELS}, or "
                f"(height, width). Received: image_size={brief(image_size)}"
            )
        image_size = tuple(map(int, sides))
    if starts_random(name) and weights == "imagenet":
        weights = None
    options = {"layer": layer, "image_size": image_size, "grid": grid}
    # None: the encoder's own default.
    options = {key: value for key, value in options.items() if value is not None}
    encoder = ENCODERS[name](weights=weights, **options)
    return with_blur(encoder, blur)


def make_encoder_top(name, *, start, layer=None, **options):
    """Return the part of an encoder after the layer `start`, a `keras.Model` from grid
    to grid; see `make_encoder`.

    Later layers must depend only on the grid of `start`, such as the end of a block.
    """
    network = make_encoder(name, layer=layer, **options)
    while isinstance(network.layers[-1], keras.Model):  # the network after the preprocessing
        network = network.layers[-1]
    names = [item.name for item in network.layers if len(item.output.shape) == 4]
    try:
        return keras.Model(network.get_layer(start).output, network.output, name=f"{name}_top")
    except ValueError:
        raise ValueError(
            f"`{name}` cannot be cut after this layer. The layer must come before "
            f"{names[-1]!r}, and later layers must depend only on its grid. Expected one "
            f"of: {', '.join(names[:-1])}. Received: layer={brief(start)}"
        ) from None
