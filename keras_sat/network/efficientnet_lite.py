"""EfficientNet-Lite in Keras: an ImageNet network for phones, without
squeeze-and-excitation.

Tan and Le, "EfficientNet", ICML 2019, in Google's variant for small devices: ReLU6
instead of swish, and stem and head of fixed size. Batch normalisation is folded into
the convolutions: these encoders never use batch statistics.
"""

import math

import keras
import numpy as np
from keras import layers

HEAD_FILTERS = 1280
EPSILON = 1e-3  # of the folded batch normalisation
STAGES = (  # repeats, kernel size, stride of the first repeat, expansion, filters
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def efficientnet_lite(input_shape, width, depth, name=None):
    """Return a randomly initialised network that maps normalised pixels, (colour - 127)
    / 128, to a feature grid.

    The last layers of the parts are called stem, block_0, block_1 ... and top. See
    `blocks_of` for width and depth.
    """
    images = keras.Input(input_shape, name="images")
    grid = layers.Conv2D(32, 3, strides=2, padding="same", name="stem_conv")(images)
    grid = layers.ReLU(6.0, name="stem")(grid)
    for number, block in enumerate(blocks_of(width, depth)):
        grid = _block(grid, f"block_{number}", *block)
    grid = layers.Conv2D(HEAD_FILTERS, 1, name="top_conv")(grid)
    return keras.Model(images, layers.ReLU(6.0, name="top")(grid), name=name)


def blocks_of(width, depth):
    """Return (kernel_size, stride, expansion, filters) of each block.

    `width` scales the filters, which are rounded to a multiple of 8, but never down by
    more than 10 %; `depth` scales the repeats of each stage except the first and the
    last.
    """
    blocks = []
    for stage in STAGES:
        repeats, kernel_size, stride, expansion, filters = stage
        scaled = max(8, int(width * filters + 4) // 8 * 8)
        scaled += 8 if scaled < 0.9 * width * filters else 0
        if stage not in (STAGES[0], STAGES[-1]):
            repeats = math.ceil(depth * repeats)
        blocks += [
            (kernel_size, 1 if repeat else stride, expansion, scaled) for repeat in range(repeats)
        ]
    return blocks


def _block(grid, name, kernel_size, stride, expansion, filters):
    """Apply an inverted residual block, with a skip connection if input and output have
    the same shape.
    """
    inputs, filters_before = grid, grid.shape[-1]
    if expansion > 1:
        grid = layers.Conv2D(expansion * filters_before, 1, name=f"{name}_expand_conv")(grid)
        grid = layers.ReLU(6.0, name=f"{name}_expand")(grid)
    grid = layers.DepthwiseConv2D(
        kernel_size, strides=stride, padding="same", name=f"{name}_depthwise_conv"
    )(grid)
    grid = layers.ReLU(6.0, name=f"{name}_depthwise")(grid)
    if stride > 1 or filters != filters_before:
        return layers.Conv2D(filters, 1, name=name)(grid)
    grid = layers.Conv2D(filters, 1, name=f"{name}_project_conv")(grid)
    return layers.Add(name=name)([inputs, grid])


def is_efficientnet_lite(network):
    """Return whether `efficientnet_lite` made this network."""
    return network.layers[1].name == "stem_conv"


NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
# From the last word of our name to the PyTorch names of the convolution and its
# normalisation.
TORCH_NAMES = {
    "stem": ("_conv_stem", "_bn0"),
    "top": ("_conv_head", "_bn1"),
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
}


def assign_torch_weights(network, arrays):
    """Assign weights from a PyTorch package, after folding batch normalisation into the
    convolutions.

    `arrays` is a dict with PyTorch names; kernels are (out, in, height, width). A
    classifier in it is ignored.
    """
    torch_names = {layer: _torch_names(layer.name) for layer in network.layers if layer.weights}
    expected = {name for layer_names in torch_names.values() for name in layer_names}
    received = {
        name
        for name in arrays
        if not name.startswith("_fc.") and not name.endswith(".num_batches_tracked")
    }
    if received != expected:
        name = min(received ^ expected)
        raise ValueError(f"the array {name} is {'unknown' if name in received else 'missing'}")
    for layer, layer_names in torch_names.items():
        kernel, scale, shift, mean, variance = (arrays[name] for name in layer_names)
        factor = scale / np.sqrt(variance + EPSILON)
        # To (height, width, in, out); a depthwise kernel has one input for each output.
        axes = (2, 3, 0, 1) if isinstance(layer, layers.DepthwiseConv2D) else (2, 3, 1, 0)
        folded_kernel = kernel * factor[:, None, None, None]
        layer.set_weights([folded_kernel.transpose(axes), shift - mean * factor])


def _torch_names(name):
    """Return the PyTorch names of a convolution's kernel and its NORM_PARTS, given its
    name in Keras.
    """
    words = name.removesuffix("_conv").split("_")  # "stem", "block_3" or "block_3_expand"
    place = f"_blocks.{words[1]}." if words[0] == "block" else ""
    kernel, norm = TORCH_NAMES.get(words[-1], ("_project_conv", "_bn2"))
    return [f"{place}{kernel}.weight", *(f"{place}{norm}.{part}" for part in NORM_PARTS)]
