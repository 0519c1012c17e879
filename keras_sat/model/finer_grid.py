"""Finer grids from the same weights: the last strides of a network become dilation (Yu and Koltun, ICLR 2016).

A layer with a stride of 2 computes every second cell only. Without the stride it computes every cell, and if the
kernels after it are dilated by 2, each of them sees the same cells. The cells of the coarse grid keep their values,
and new ones appear between them, without any training. This is exact for networks of local layers at sizes that their
strides divide: squeeze-and-excitation (EfficientNetB0) takes the mean of all cells, and pooling at an odd size drops a
row.
"""

import re

import keras
from keras import layers

from data_utils.foreign_text import brief

POOLING = (layers.MaxPooling2D, layers.AveragePooling2D)
STRIDED = (layers.Conv2D, layers.DepthwiseConv2D, *POOLING)


def rows_and_columns_of(grid):
    """Return (rows, columns) of a grid such as "14x14", or of a pair."""
    written = "x".join(map(str, grid)) if isinstance(grid, (list, tuple)) else str(grid)
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", written)
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
        if finer.output_shape[1:3] == wanted:
            return finer
        found.append("x".join(map(str, finer.output_shape[1:3])))
    raise ValueError(
        f"This encoder does not support that grid for photos of this size. Expected one of: {', '.join(found)}. "
        f"Received: grid={brief(grid)}"
    )


def without_last_strides(network, factor):
    """Return a network with the same weights, its last strides replaced by dilation.

    `factor` is that of rows and columns: 1, 2, 4 ... Returns None where the network has too few strides, or pooling
    would have to be dilated.
    """
    if factor == 1:
        return network
    before, after = {}, {}  # pixels between neighbouring cells, before and after each layer
    for layer in network.layers:
        before[layer.name] = max([after[source.name] for source in _sources(layer)], default=1)
        after[layer.name] = before[layer.name] * (layer.strides[0] if isinstance(layer, STRIDED) else 1)
    finest = max(after.values()) / factor  # the final stride in pixels
    changes = {}
    for layer in network.layers:
        if not isinstance(layer, STRIDED) or after[layer.name] <= finest:
            continue
        dilation = max(1, int(before[layer.name] / finest))
        is_pooling = isinstance(layer, POOLING)
        size = (layer.pool_size if is_pooling else layer.kernel_size)[0]
        if finest < 1 or (is_pooling and size > 1 and dilation > 1):
            return None
        zeros = [source for source in _sources(layer) if isinstance(source, layers.ZeroPadding2D)]
        changes |= {source.name: {"padding": dilation * (size // 2)} for source in zeros}
        to_same = {} if zeros else {"padding": "same"}
        changes[layer.name] = {"strides": 1, **(to_same if is_pooling else {"dilation_rate": dilation})}

    def changed(layer):
        return type(layer).from_config({**layer.get_config(), **changes.get(layer.name, {})})

    finer = keras.models.clone_model(network, clone_function=changed)
    finer.set_weights(network.get_weights())
    return finer


def _sources(layer):
    """Return the layers whose outputs are the inputs of a layer in a functional model."""
    is_input = isinstance(layer, layers.InputLayer)
    return [] if is_input else [tensor._keras_history.operation for tensor in keras.tree.flatten(layer.input)]
