"""Finer grids from the same weights: the last strides of a network become dilation (Yu and Koltun, ICLR 2016).

A layer with a stride of 2 computes every second cell only. Without the stride it computes every cell, and if the
kernels after it are dilated by 2, each of them sees what it saw before. The cells of the coarse grid keep their values,
and new ones appear between them, without any training. This is exact for networks of local layers at sizes that their
strides divide: squeeze-and-excitation (EfficientNetB0) takes the mean of all cells, and pooling at an odd size drops a
row.
"""

import re

import keras
from keras import layers

from data_utils.foreign_text import brief

STRIDED = (layers.Conv2D, layers.DepthwiseConv2D, layers.MaxPooling2D, layers.AveragePooling2D)


def rows_and_columns_of(grid):
    """Return (rows, columns) of a grid such as "14x14", or of a pair."""
    written = "x".join(map(str, grid)) if isinstance(grid, (list, tuple)) else grid
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", written) if isinstance(written, str) else None
    if match is None:
        raise ValueError(f'Expected rows and columns, such as "14x14". Received: grid={brief(grid)}')
    return tuple(int(side) for side in match.groups())


def with_grid(network, grid):
    """Return a network with the same weights and a last grid of this size.

    Args:
        network: a functional `keras.Model` that ends with a grid.
        grid: "ROWSxCOLUMNS" or a pair: its own grid, or a finer one that it has without its last strides.
    """
    wanted, found = rows_and_columns_of(grid), []
    for factor in (1, 2, 4):
        finer = without_last_strides(network, factor)
        if finer is None:
            break
        size = "x".join(map(str, finer.output_shape[1:3]))
        found += [size] if size not in found else []
        if finer.output_shape[1:3] == wanted:
            return finer
    raise ValueError(
        f"This encoder does not support that grid for photos of this size. Expected one of: {', '.join(found)}. "
        f"Received: grid={brief(grid)}"
    )


def without_last_strides(network, factor):
    """Return a network with the same weights, its last strides replaced by dilation.

    Args:
        network: a functional `keras.Model` that ends with a grid.
        factor: of rows and columns: 1, 2, 4 ...

    Returns: `keras.Model`; None where the network has too few strides, or pooling would have to be dilated.
    """
    if factor == 1:
        return network
    before, behind = _strides(network)
    finest = max(behind.values()) / factor  # the final stride in pixels
    changes = {}
    for layer in network.layers:
        if isinstance(layer, STRIDED) and behind[layer.name] > finest:
            dilation = max(1, int(before[layer.name] / finest))
            changes[layer.name] = {"strides": 1, **_dilated(layer, dilation)}
            if finest < 1 or (_kernel_size(layer) > 1 and dilation > 1 and "dilation_rate" not in changes[layer.name]):
                return None
            for source in _sources(layer):
                if isinstance(source, layers.ZeroPadding2D):
                    changes[source.name] = {"padding": dilation * (_kernel_size(layer) // 2)}

    def changed(layer):
        return type(layer).from_config({**layer.get_config(), **changes.get(layer.name, {})})

    finer = keras.models.clone_model(network, clone_function=changed)
    finer.set_weights(network.get_weights())
    return finer


def _strides(network):
    """Return dicts from layer names to the pixels between neighbouring cells, before and after each layer."""
    before, behind = {}, {}
    for layer in network.layers:
        before[layer.name] = max([behind[source.name] for source in _sources(layer)], default=1)
        stride = layer.strides[0] if isinstance(layer, STRIDED) else 1
        behind[layer.name] = before[layer.name] * stride
    return before, behind


def _sources(layer):
    """Return the layers whose outputs are the inputs of a layer in a functional model."""
    return [tensor._keras_history.operation for tensor in keras.tree.flatten(layer.input) if not _is_input(layer)]


def _is_input(layer):
    return isinstance(layer, layers.InputLayer)


def _kernel_size(layer):
    return (layer.kernel_size if hasattr(layer, "kernel_size") else layer.pool_size)[0]


def _dilated(layer, dilation):
    """Return the settings of a layer with a dilated kernel and no stride."""
    if isinstance(layer, (layers.MaxPooling2D, layers.AveragePooling2D)):
        is_padded = any(isinstance(source, layers.ZeroPadding2D) for source in _sources(layer))
        return {} if is_padded else {"padding": "same"}
    return {"dilation_rate": dilation}
