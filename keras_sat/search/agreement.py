"""How several captioners agree on each word: the mean of their probabilities, and of their maps."""

import numpy as np
from keras import ops


def agree(members, grids, are_attending):
    """Return one step and state, as `keras_sat.search.algorithms` takes them, of those of several captioners.

    Args:
        members: list of (step, state).
        grids: (rows, columns) of the maps of each.
        are_attending: for each whether it attends; the maps of the others are left out.
    """

    def step(input_ids, states):
        results = [step(input_ids, state) for (step, _), state in zip(members, states)]
        maps = [result.attention_weights for result in results]
        shares = [result.from_photo for result, attends in zip(results, are_attending) if attends]
        return results[0]._replace(
            logits=mean_of_probabilities([result.logits for result in results]),
            state=tuple(result.state for result in results),
            attention_weights=mean_map(maps, grids, are_attending),
            from_photo=sum(shares) / len(shares),
        )

    return step, tuple(state for _, state in members)


def mean_of_probabilities(logits):
    """Return the logarithm of the mean of the distributions that logits stand for, all (rows, vocabulary)."""
    log_probs = [ops.log_softmax(ops.cast(x, "float32"), axis=-1) for x in logits]
    return ops.logsumexp(ops.stack(log_probs), axis=0) - np.log(len(logits))


def mean_map(maps, grids, are_attending):
    """Return the mean of the maps (rows, regions) of those that attend, on the finest of their grids."""
    shape = finest_grid(grids, are_attending)
    finest = []
    for weights, grid, attends in zip(maps, grids, are_attending):
        if not attends:
            continue
        if grid != shape:
            weights = ops.image.resize(ops.reshape(weights, (-1, *grid, 1)), shape, interpolation="bilinear")
            weights = ops.reshape(weights, (-1, shape[0] * shape[1]))
            weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        finest.append(weights)
    return sum(finest) / len(finest)


def finest_grid(grids, are_attending):
    """Return the grid with the most regions among those that attend."""
    return max((grid for grid, attends in zip(grids, are_attending) if attends), key=np.prod)
