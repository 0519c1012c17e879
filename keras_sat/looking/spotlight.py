"""Light up the part of a photo where the model looked.

The more weight a place has, relative to the greatest weight of the map, the brighter
and more saturated it is: so a place stands out by its weight, not by the photo's
colours. A line encloses the smallest region that holds half of the attention: it can be
compared between words and models, and in grey print. It is white with a dark casing, so
that it can be seen on any colour. In a grey photo there are no colours to keep: what is
lit gets a warm tint, which also shows where the photo is black.
"""

import numpy as np

from data_utils.base import brief

DIM = 0.35  # of the photo's contrast that remains where the model did not look
# The grey that the photo is mixed with there; with black, dark photos could not be made
# out.
DARK = 24
LINE, CASING = (255, 255, 255), (17, 17, 17)  # the line, and its edges
CASING_WIDTH = 2.1  # times that of the line
LARGEST_SPECK = 2.5  # cells: smaller islands of the region look like dirt
AMBER = (255, 176, 0)
WARMTH = 0.3  # of AMBER in what is lit of a grey photo
COLOURED = 20  # the difference between the channels of a pixel from which it has a colour
FEW = 0.01  # of the pixels of a grey photo may have a colour
NAN_COLOUR = (230, 0, 160)  # for pixels whose weight is NaN
GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue, as in ITU-R BT.601
UNIFORM = 0.9  # of the photo: a map that needs more for its half is uniform
FROM_MEMORY = 0.5  # a word of which less came from the photo has no map


def upsampled(attention_map, size):
    """Return a map (rows, columns), resized to a picture of this (height, width); NaN
    spreads to pixels nearby.
    """
    from PIL import Image

    attention_map = Image.fromarray(np.asarray(attention_map, np.float32))
    return np.array(attention_map.resize(size[::-1], Image.Resampling.BICUBIC)).clip(min=0)


def half_level(attention_map):
    """Return the smallest weight in the smallest region that holds half of a map.

    >>> float(half_level(np.array([[0.1, 0.4], [0.2, 0.3]])))
    0.3
    """
    weights = np.sort(np.nan_to_num(attention_map, nan=0, posinf=0).clip(min=0), axis=None)[::-1]
    sums = np.cumsum(weights)
    return weights[np.searchsorted(sums, sums[-1] / 2 * (1 - 1e-9))]


def light_of(attention_map):
    """Return how much each pixel of an upsampled map is lit: its weight as a fraction
    of the greatest one.
    """
    peak = np.nan_to_num(attention_map, nan=0, posinf=0).max()
    return (attention_map / max(peak, 1e-12)).clip(0, 1)


def spotlight(photo, light, look="spotlight"):
    """Return a photo, uint8 (height, width, 3), whose brightness and saturation are in
    proportion to the light; without light it is grey and dim.

    A grey photo has a warm tint where it is lit.

    `light` is (height, width), from 0 to 1; NaN gets the colour NAN_COLOUR. For `look`
    see `AttentionDisplay.plot`.
    """
    import matplotlib

    share = np.nan_to_num(light)[..., None]
    if look == "spotlight":
        grey = (photo @ np.array(GREY))[..., None]
        picture = share * photo + (1 - share) * grey
        if is_grey(photo):
            picture += WARMTH * share * (np.array(AMBER) - picture)
        contrast = DIM + (1 - DIM) * share
        picture = contrast * picture + (1 - contrast) * DARK
    elif look == "paper":
        picture = (photo + 255 * share) / 2
    elif look in matplotlib.colormaps:
        picture = photo + share / 2 * (255 * matplotlib.colormaps[look](light)[..., :3] - photo)
    else:
        raise ValueError(
            'Expected look="spotlight", "paper" or a colour map of matplotlib. Received: '
            f"{brief(look)}"
        )
    return np.rint(np.where(np.isfinite(light)[..., None], picture, NAN_COLOUR)).astype(np.uint8)


def is_grey(photo):
    """Return whether hardly any pixel of a photo (height, width, 3) has a colour."""
    sample = photo[::4, ::4].astype(int)
    return np.mean(np.ptp(sample, axis=2) >= COLOURED) <= FEW


def share_with_half(attention_map):
    """Return the area of the smallest region with half of a map, as a fraction."""
    weights = np.nan_to_num(attention_map, nan=0)
    return float((weights >= half_level(weights)).mean())


def outline(attention_map, cell=0):
    """Return the border of the region that holds half of an upsampled map, as a list of
    lines (points, 2) of x and y.

    Coordinates are pixels, with (0, 0) in the middle of the first one. A uniform map
    has no such region. `cell` is the area of a cell of the grid in pixels: islands and
    holes of one or two cells are left out, unless they hold the peak or no island is
    twice as large.
    """
    import contourpy

    if share_with_half(attention_map) > UNIFORM:
        return []
    weights = np.pad(np.nan_to_num(attention_map, nan=0), 1)  # so that lines close at the edge
    lines = contourpy.contour_generator(z=weights).lines(half_level(weights))
    peak = np.unravel_index(weights.argmax(), weights.shape)[::-1]
    areas = [_area(line) for line in lines]
    largest_speck = min(LARGEST_SPECK * cell, max(areas, default=0) / 2)
    return [
        line - 1
        for line, area in zip(lines, areas)
        if area > largest_speck or _is_around(line, peak)
    ]


def _area(line):
    """Return the area within a closed line, by the shoelace formula."""
    x, y = line.T
    return abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2)


def _is_around(line, point):
    """Return whether a point lies in the rectangle around a line."""
    return (line.min(axis=0) <= point).all() and (point <= line.max(axis=0)).all()
