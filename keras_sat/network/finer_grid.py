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

from data_utils.base import brief

POOLING = (layers.MaxPooling2D, layers.AveragePooling2D)
STRIDED = (layers.Conv2D, layers.DepthwiseConv2D, *POOLING)


def rows_and_columns_of(grid):
    """Return (rows, columns) of a grid, given as "14x14" or as a pair."""
    written = "x".join(map(str, grid)) if isinstance(grid, (list, tuple)) else str(grid)
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", written)
    if match is None:
        raise ValueError(
            f'Expected rows and columns, such as "14x14". Received: grid={brief(grid)}'
        )
    return tuple(int(side) for side in match.groups())


def with_grid(network, grid):
    """Return a functional network with the same weights and a final grid of this size,
    "ROWSxCOLUMNS" or a pair.
    """
    expected_shape = rows_and_columns_of(grid)
    possible_grids = []
    for factor in (1, 2, 4):
        finer = without_last_strides(network, factor)
        if finer is None:
            break
        _, rows, columns, _ = finer.output_shape
        if (rows, columns) == expected_shape:
            return finer
        possible_grids.append(f"{rows}x{columns}")
    raise ValueError(
        "The encoder has no such grid at this photo size. Expected one of: "
        f"{', '.join(possible_grids)}. Received: grid={brief(grid)}"
    )


def without_last_strides(network, factor):
    """Return a network with the same weights and `factor` (1, 2, 4 ...) times the rows
    and columns.

    Return None if the network has too few strides for this factor, or if it would have
    to pool over cells that are apart: Keras cannot dilate pooling.
    """
    if factor == 1:
        return network
    # Pixels between neighbouring cells, before and after each layer.
    distance_before, distance_after = {}, {}
    for layer in network.layers:
        stride = layer.strides[0] if isinstance(layer, STRIDED) else 1
        distances = [distance_after[source.name] for source in _sources(layer)]
        distance_before[layer.name] = max(distances, default=1)
        distance_after[layer.name] = stride * distance_before[layer.name]
    final_distance = max(distance_after.values()) / factor
    changes = {}  # of the configuration of layers, by name
    for layer in network.layers:
        if not isinstance(layer, STRIDED) or distance_after[layer.name] <= final_distance:
            continue
        dilation = max(1, int(distance_before[layer.name] / final_distance))
        is_pooling = isinstance(layer, POOLING)
        size = layer.pool_size[0] if is_pooling else layer.kernel_size[0]
        pools_apart = is_pooling and size > 1 and dilation > 1
        if final_distance < 1 or pools_apart:
            return None
        changes[layer.name] = {"strides": 1}
        paddings = [x for x in _sources(layer) if isinstance(x, layers.ZeroPadding2D)]
        for padding in paddings:
            changes[padding.name] = {"padding": dilation * (size // 2)}
        if not is_pooling:
            changes[layer.name]["dilation_rate"] = dilation
        elif not paddings:
            changes[layer.name]["padding"] = "same"

    def changed(layer):
        return type(layer).from_config({**layer.get_config(), **changes.get(layer.name, {})})

    finer = keras.models.clone_model(network, clone_function=changed)
    finer.set_weights(network.get_weights())
    return finer


def _sources(layer):
    """Return the layers that feed a layer of a functional model."""
    if isinstance(layer, layers.InputLayer):
        return []
    return [tensor._keras_history.operation for tensor in keras.tree.flatten(layer.input)]
