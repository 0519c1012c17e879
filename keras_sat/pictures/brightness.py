"""How bright a map is drawn, and how far above an even share it is: one rule for panels, cartoon and player.

Scaled to its own maximum, a nearly uniform map would look as sharp as one with all its weight in a single cell. A cell
has full light only from FULL_LIGHT times an even share on; an even map is an even grey. A sharper map still uses the
whole range, and a number says how sharp it is. The map of a word that came from memory (`from_photo`) is dark.
"""

import math

import numpy as np

FULL_LIGHT = 3
"""Times an even share: what a cell must get at least to be drawn with full light."""


def full_light(attention_map, from_photo=1.0):
    """Return the value of a map (rows, columns) that is drawn with full light; cells of NaN do not count.

    Where only the fraction `from_photo` of a word came from the photo, its map is darker by that factor.

    >>> full_light(np.full((2, 4), 1 / 8))
    0.375
    >>> full_light(np.array([[0.0, 0.9], [0.05, 0.05]]))
    0.9
    """
    cells = _cells(attention_map)
    full = max(cells.max(initial=0), FULL_LIGHT * _even_share(cells), 1e-12)
    return float(full / max(from_photo, 1e-6)) if math.isfinite(from_photo) else float(full)


def times_even(attention_map):
    """Return how many times an even share the maximum of a map is; NaN where a cell is NaN, or all are 0.

    >>> times_even(np.array([[0.25, 0.75], [0.25, 0.25]]))
    2.0
    """
    cells = _cells(attention_map)
    if len(cells) < np.size(attention_map) or not cells.any():
        return math.nan
    return float(cells.max() / _even_share(cells))


def times_even_text(attention_map):
    """Return the same in few characters, for the margin of a picture.

    >>> times_even_text(np.array([[0.1, 0.6], [0.1, 0.2]]))
    '2.4 × even'
    """
    times = times_even(attention_map)
    return "" if math.isnan(times) else f"{times:.1f} × even"


def _cells(attention_map):
    """Return the finite values in one dimension, those below 0 as 0."""
    cells = np.asarray(attention_map, dtype=float)
    return cells[np.isfinite(cells)].clip(min=0)


def _even_share(cells):
    return cells.mean() if len(cells) else 0.0
