"""EfficientNet-Lite in Keras: an ImageNet network without squeeze-and-excitation, made for phones.

Tan and Le, "EfficientNet", ICML 2019, in Google's variant for small devices: ReLU6 instead of swish, and stem and head
of fixed size. Batch normalisation is folded into the convolutions: encoders never use batch statistics (see
PhotoEncoder), and this is faster.
"""

import math
from typing import NamedTuple

import keras
import numpy as np
from keras import layers

HEAD_FILTERS = 1280
EPSILON = 1e-3  # of the folded batch normalisation


class Stage(NamedTuple):
    """Blocks of one kind; the first one has the stride."""

    repeats: int
    kernel_size: int
    stride: int
    expansion: int
    filters: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class EfficientNetLite:
    """Creates networks of one size, as functions of `keras.applications` do.

    Args:
        width, depth: factors of the filters and of the repeats of each stage but the first and the last.
    """

    def __init__(self, *, width, depth):
        self.width = width
        self.depth = depth

    def __call__(self, *, input_shape, name=None):
        """Return the network with random weights: from pixels, (colour - 127) / 128, to the last grid.

        The last layer of each part has its name: stem, block_0, block_1 ... and top.
        """
        images = keras.Input(input_shape, name="images")
        grid = layers.Conv2D(32, 3, strides=2, padding="same", name="stem_conv")(images)
        grid = layers.ReLU(6.0, name="stem")(grid)
        for number, (kernel_size, stride, expansion, filters) in enumerate(self.blocks()):
            grid = _block(grid, f"block_{number}", kernel_size, stride, expansion, filters)
        grid = layers.Conv2D(HEAD_FILTERS, 1, name="top_conv")(grid)
        return keras.Model(images, layers.ReLU(6.0, name="top")(grid), name=name)

    def blocks(self):
        """Yield (kernel_size, stride, expansion, filters) of each block."""
        for stage in STAGES:
            is_end = stage in (STAGES[0], STAGES[-1])
            for repeat in range(stage.repeats if is_end else math.ceil(self.depth * stage.repeats)):
                yield stage.kernel_size, 1 if repeat else stage.stride, stage.expansion, self._scaled(stage.filters)

    def _scaled(self, filters):
        """Return filters times width, rounded to a multiple of 8, but down by a tenth at most."""
        rounded = max(8, int(self.width * filters + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * self.width * filters else rounded


def _block(grid, name, kernel_size, stride, expansion, filters):
    """An inverted residual block: expand, depthwise convolution, project; add the input if it has the same shape."""
    inputs, filters_before = grid, grid.shape[-1]
    if expansion > 1:
        grid = layers.Conv2D(expansion * filters_before, 1, name=f"{name}_expand_conv")(grid)
        grid = layers.ReLU(6.0, name=f"{name}_expand")(grid)
    grid = layers.DepthwiseConv2D(kernel_size, strides=stride, padding="same", name=f"{name}_depthwise_conv")(grid)
    grid = layers.ReLU(6.0, name=f"{name}_depthwise")(grid)
    if stride > 1 or filters != filters_before:
        return layers.Conv2D(filters, 1, name=name)(grid)
    grid = layers.Conv2D(filters, 1, name=f"{name}_project_conv")(grid)
    return layers.Add(name=name)([inputs, grid])


def is_efficientnet_lite(network):
    """Return whether an EfficientNetLite created this network."""
    return network.layers[1].name == "stem_conv"


# === Weights of the PyTorch packages ===


def assign_torch_weights(network, arrays):
    """Assign the weights of the PyTorch package of the same size, with batch normalisation folded in.

    Args:
        network: created by an EfficientNetLite.
        arrays: dict from the names of the package to arrays; kernels are (out, in, height, width). A classifier,
            `_fc`, is ignored.
    """
    convolutions = [layer for layer in network.layers if layer.weights]
    sources = {layer: _torch_names(layer.name) for layer in convolutions}
    expected = {f"{norm}.{part}" for _, norm in sources.values() for part in NORM_PARTS}
    expected |= {f"{kernel}.weight" for kernel, _ in sources.values()}
    received = {name for name in arrays if not name.startswith("_fc.") and not name.endswith(".num_batches_tracked")}
    if missing := expected - received:
        raise ValueError(f"{min(missing)} is missing")
    if unknown := received - expected:
        raise ValueError(f"{min(unknown)} is unknown")
    folded = {}
    for layer, (kernel, norm) in sources.items():
        given = [arrays[f"{kernel}.weight"], *(arrays[f"{norm}.{part}"] for part in NORM_PARTS)]
        shapes, wanted = [array.shape for array in given], _torch_shapes(layer)
        if shapes != wanted:
            raise ValueError(f"{kernel} and {norm} have the shapes {shapes} instead of {wanted}")
        folded[layer] = _folded(*given)
        if not all(np.isfinite(array).all() for array in folded[layer]):
            raise ValueError(f"{kernel} or {norm} has values that are NaN or infinite")
    for layer, values in folded.items():
        layer.set_weights(values)


NORM_PARTS = ("weight", "bias", "running_mean", "running_var")


def _torch_names(name):
    """Return the names of a convolution, and of the normalisation after it, in the PyTorch package."""
    if name in ("stem_conv", "top_conv"):
        return {"stem_conv": ("_conv_stem", "_bn0"), "top_conv": ("_conv_head", "_bn1")}[name]
    _, number, *part = name.split("_")
    kernel, norm = {"expand": ("_expand_conv", "_bn0"), "depthwise": ("_depthwise_conv", "_bn1")}.get(
        "".join(part[:1]), ("_project_conv", "_bn2")
    )
    return f"_blocks.{number}.{kernel}", f"_blocks.{number}.{norm}"


def _torch_shapes(layer):
    """Return the shapes of a kernel, (out, in, height, width), and of the NORM_PARTS after it."""
    height, width, inputs, outputs = layer.kernel.shape
    if isinstance(layer, layers.DepthwiseConv2D):  # (height, width, channels, 1)
        inputs, outputs = outputs, inputs
    return [(outputs, inputs, height, width), *[(outputs,)] * len(NORM_PARTS)]


def _folded(kernel, scale, shift, mean, variance):
    """Return kernel and bias, in Keras' layout, of a convolution with the normalisation folded in."""
    with np.errstate(all="ignore"):  # the caller rejects values that are not finite
        factor = scale / np.sqrt(variance + EPSILON)
    kernel = (kernel * factor[:, None, None, None]).transpose(2, 3, 1, 0)  # (height, width, in, out)
    if kernel.shape[2] == 1 and kernel.shape[:2] != (1, 1):
        kernel = kernel.transpose(0, 1, 3, 2)  # depthwise: (height, width, channels, 1)
    return kernel, shift - mean * factor
