"""Compute how brightly to draw an attention map in panels, GIFs and the player.

Scaled to its own maximum, a nearly uniform map would look as sharp as one with all its weight in a single cell.
Therefore a cell needs at least FULL_LIGHT times the uniform weight to be fully bright, and a uniform map is grey. The
map of a word that came from memory instead of the photo (`from_photo`) is dark.
"""

import math

import numpy as np

FULL_LIGHT = 3  # times the uniform weight: the minimum for a fully bright cell
NAN_COLOUR = (230, 0, 160)  # for cells whose weight is NaN


def full_light(attention_map, from_photo=1.0):
    """Return the attention weight from which a cell of a map (rows, columns) is drawn fully bright.

    If only the fraction `from_photo` of a word came from the photo, its map is darker by that factor.

    >>> full_light(np.full((2, 4), 1 / 8))
    0.375
    >>> full_light(np.array([[0.0, 0.9], [0.05, 0.05]]))
    0.9
    """
    cells = np.nan_to_num(attention_map, nan=0, posinf=0).clip(min=0)
    return float(max(cells.max(), FULL_LIGHT * cells.mean(), 1e-12) / max(1e-6, from_photo))


def times_uniform(attention_map):
    """Return the maximum of a map as a multiple of the uniform weight; NaN if the map contains NaN or sums to 0.

    >>> times_uniform(np.array([[0.25, 0.75], [0.25, 0.25]]))
    2.0
    """
    mean = np.mean(attention_map)
    return float(np.max(attention_map) / mean) if mean > 0 else math.nan
