"""The maps that are held against boxes, and by which cells are taken away: attention,
votes, or votes as blurred as attention is.

A sharper map has its peak on a box more easily, and its greatest cells matter more. So
votes have a control: their maps blurred until their entropy is that of attention.
"""

import numpy as np

from keras_sat.bounds import one_of
from keras_sat.settings import MEASURED_MAPS

WIDEST = 1e3  # of a blur, in cells: every map is even then
NUM_HALVINGS = 40  # of the interval of widths


def measured_maps(result, map_kind):
    """Return a map for each word, (words, rows, columns), each with the sum 1; see
    `CaptionResult.maps`.

    Args:
        result: CaptionResult; with votes, unless `map_kind` is "attention".
        map_kind: a name in MEASURED_MAPS. "votes-blurred" are the positive votes,
            blurred until their entropy is that of the word's attention, or as they are
            if theirs is greater.
    """
    one_of(*MEASURED_MAPS).check("map_kind", map_kind)
    if map_kind != "votes-blurred":
        return result.maps(map_kind)
    blurred = [
        blurred_to(entropy_of(weights), votes)
        for weights, votes in zip(result.attention_weights, result.maps("votes"))
    ]
    return np.reshape(blurred, result.attention_weights.shape)


def maps_to_rank(result, map_kind):
    """Return a map for each word by which its cells are ranked, (words, rows, columns):
    `measured_maps`, or all votes, so that those against the word come last.
    """
    maps = measured_maps(result, map_kind)
    return result.votes if map_kind == "votes" else maps


def blurred_to(entropy, map_of_word):
    """Return a map (rows, columns), blurred until its entropy is at least `entropy`."""
    if entropy_of(map_of_word) >= entropy:
        return map_of_word
    narrow, wide = 0.0, WIDEST
    for _ in range(NUM_HALVINGS):
        middle = (narrow + wide) / 2
        if entropy_of(blurred(map_of_word, middle)) < entropy:
            narrow = middle
        else:
            wide = middle
    return blurred(map_of_word, wide)


def blurred(map_of_word, width):
    """Return a map (rows, columns) blurred by a bell curve with a standard deviation of
    `width` cells; what would leave the map stays in it.
    """
    num_rows, num_columns = map_of_word.shape
    return _spread(num_rows, width) @ map_of_word @ _spread(num_columns, width).T


def _spread(num_cells, width):
    """Return how much of each cell (columns) goes to each other one (rows)."""
    places = np.arange(num_cells)
    distances = places[:, None] - places
    weights = np.exp(-0.5 * (distances / max(width, 1e-3)) ** 2)
    return weights / weights.sum(axis=0)


def entropy_of(map_of_word):
    """Return the entropy of a map in nats."""
    weights = map_of_word[map_of_word > 0]
    return -np.sum(weights * np.log(weights))
