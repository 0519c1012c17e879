"""Draw votes on a photo: a dot for each region, with an area in proportion to its vote.

Discs are votes for a word, rings are votes against it. The photo keeps its colours, so
that what the regions with large dots show can be seen. The explorer draws them, too.
"""

import numpy as np

FOR, AGAINST = (255, 165, 0), (110, 185, 255)
CASING = (20, 20, 24)  # around a dot, which can then be seen on any colour
SHADE = 0.8  # of the photo's brightness that remains, so that dots are brighter
LARGEST = 0.8  # diameter of a dot, as a fraction of the shorter side of a region
LINE = 0.09  # thickness of a ring, and twice that of a casing, as the same fraction
LEAST = 0.02  # of the strongest vote: a smaller one has no dot
# What pages have from here.
LOOK = {"more": FOR, "less": AGAINST, "casing": CASING, "shade": SHADE}
LOOK |= {"largest": LARGEST, "line": LINE, "least": LEAST}


def dots_on_photo(photo, votes, strongest):
    """Return a photo, uint8 (height, width, 3), with the dots of its regions.

    Args:
        votes: (rows, columns), negative against a word; NaN has no dot.
        strongest: the size of a vote with the largest dot.
    """
    height, width = photo.shape[:2]
    rows, columns = votes.shape
    y, x = (np.arange(height) + 0.5) * rows / height, (np.arange(width) + 0.5) * columns / width
    row, column = y.astype(int), x.astype(int)  # of the region that a pixel is in
    # All lengths are in pixels.
    side = min(height / rows, width / columns)
    down = (y - row - 0.5) * height / rows
    across = (x - column - 0.5) * width / columns
    distance = np.hypot(down[:, None], across)  # from the middle of the region

    radius = (side * radii(votes, strongest))[row][:, column]
    is_ring = (votes < 0)[row][:, column]
    line = LINE * side
    inner = np.where(is_ring, radius - line, -np.inf)
    casing = _covered(distance, inner - line / 2, radius + line / 2) * (radius > 0)
    dot = _covered(distance, inner, radius) * (radius > 0)
    colours = np.where(is_ring[..., None], AGAINST, FOR)
    picture = _mixed(SHADE * photo, casing, CASING)
    return np.rint(_mixed(picture, dot, colours)).astype(np.uint8)


def radii(votes, strongest):
    """Return the radius of each region's dot, as a fraction of the region's shorter
    side.
    """
    shares = np.nan_to_num(np.abs(votes) / strongest).clip(max=1)
    return LARGEST / 2 * np.sqrt(np.where(shares < LEAST, 0, shares))


def _covered(distance, start, end):
    """Return how much of each pixel lies between two distances, from 0 to 1."""
    return (end - distance + 0.5).clip(0, 1) * (distance - start + 0.5).clip(0, 1)


def _mixed(picture, share, colour):
    """Mix a picture with a colour, as strongly as `share`, (height, width), says."""
    share = share[..., None]
    return (1 - share) * picture + share * np.array(colour)
