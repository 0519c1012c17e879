"""Finer grids from the same weights: replace the last strides with dilation (Yu and
Koltun, ICLR 2016).

A layer with a stride of 2 computes only every second cell. Without the stride it
computes every cell, and if the kernels after it are dilated by 2, they see the same
cells as before. The cells of the coarse grid keep their values, and new cells appear
between them, without any training. This is exact for networks of local layers at sizes
that are multiples of their strides. Otherwise it is approximate: squeeze-and-excitation
(EfficientNetB0) averages all cells, and pooling at an odd size drops a row.
"""

import re

import keras
from keras import layers

from data_utils.foreign_text import brief

POOLING = (layers.MaxPooling2D, layers.AveragePooling2D)
STRIDED = (layers.Conv2D, layers.DepthwiseConv2D, *POOLING)


def rows_and_columns_of(grid):
    """Return (rows, columns) of a grid, given as "14x14" or as a pair."""
    written = "x".join(map(str, grid)) if isinstance(grid, (list, tuple)) else str(grid)
    if (match := re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", written)) is None:
        raise ValueError(
            f'Expected rows and columns, such as "14x14". Received: grid={brief(grid)}'
        )
    return tuple(int(side) for side in match.groups())


def with_grid(network, grid):
    """Return a functional network with the same weights and a final grid of this size,
    "ROWSxCOLUMNS" or a pair.
    """
    wanted, found = rows_and_columns_of(grid), []
    for factor in (1, 2, 4):
        if (finer := without_last_strides(network, factor)) is None:
            break
        if finer.output_shape[1:3] == wanted:
            return finer
        found.append("x".join(map(str, finer.output_shape[1:3])))
    problem = (
        f"The encoder has no such grid at this photo size. Expected one of: {', '.join(found)}."
    )
    raise ValueError(f"{problem} Received: grid={brief(grid)}")


def without_last_strides(network, factor):
    """Return a network with the same weights and `factor` (1, 2, 4 ...) times the rows
    and columns, or None.
    """
    if factor == 1:
        return network
    before, after = {}, {}  # pixels between neighbouring cells, before and after each layer
    for layer in network.layers:
        before[layer.name] = max([after[source.name] for source in _sources(layer)], default=1)
        after[layer.name] = before[layer.name] * (
            layer.strides[0] if isinstance(layer, STRIDED) else 1
        )
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
        changes[layer.name] = {
            "strides": 1,
            **(to_same if is_pooling else {"dilation_rate": dilation}),
        }

    def changed(layer):
        return type(layer).from_config({**layer.get_config(), **changes.get(layer.name, {})})

    finer = keras.models.clone_model(network, clone_function=changed)
    finer.set_weights(network.get_weights())
    return finer


def _sources(layer):
    """Return the layers that feed a layer of a functional model."""
    is_input = isinstance(layer, layers.InputLayer)
    return (
        []
        if is_input
        else [tensor._keras_history.operation for tensor in keras.tree.flatten(layer.input)]
    )
