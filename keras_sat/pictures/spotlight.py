"""Light up the part of a photo where the model looked.

What is lit keeps its colours; the rest is grey and dim, but keeps DIM of its contrast.
A line encloses the smallest region that holds half of the attention: it can be compared
between words and models, and in grey print. In a grey photo there are no colours to
keep: what is lit gets a warm tint, which also shows where the photo is black.
"""

import numpy as np

from data_utils.foreign_text import brief

DIM = 0.48  # of the photo's contrast that remains where the model did not look
# The grey that the photo is mixed with there; with black, dark photos could not be made
# out.
DARK = 40
AMBER = (255, 176, 0)  # of the line
WARMTH = 0.3  # of AMBER in what is lit of a grey photo
COLOURED = 20  # the difference between the channels of a pixel from which it has a colour
FEW = 0.01  # of the pixels of a grey photo may have a colour
NAN_COLOUR = (230, 0, 160)  # for pixels whose weight is NaN
GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue, as in ITU-R BT.601
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
    """Return how much each pixel of an upsampled map is lit: 1 in the region that holds
    half of it, less outside.
    """
    return (attention_map / max(half_level(attention_map), 1e-12)).clip(0, 1) ** 2


def spotlight(photo, light, look="spotlight"):
    """Return a photo, uint8 (height, width, 3), that keeps its colours where it is lit
    and is grey and dim elsewhere.

    A grey photo has a warm tint where it is lit.

    `light` is (height, width), from 0 to 1; NaN gets the colour NAN_COLOUR. For `look`
    see `AttentionDisplay.plot`.
    """
    import matplotlib

    share = np.nan_to_num(light)[..., None]
    if look == "spotlight":
        grey = DIM * (photo @ np.array(GREY))[..., None] + (1 - DIM) * DARK
        warmth = WARMTH if is_grey(photo) else 0
        lit = (1 - warmth) * photo + warmth * np.array(AMBER)
        picture = share * lit + (1 - share) * grey
    elif look == "paper":
        picture = DIM * photo + (1 - DIM) * 255 * share
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


def outline(attention_map):
    """Return the border of the region that holds half of an upsampled map, as a list of
    lines (points, 2) of x and y.

    Coordinates are pixels, with (0, 0) in the middle of the first one. A uniform map
    has no such region.
    """
    import contourpy

    if share_with_half(attention_map) > 0.9:
        return []
    weights = np.pad(np.nan_to_num(attention_map, nan=0), 1)  # so that lines close at the edge
    level = half_level(weights)
    return [line - 1 for line in contourpy.contour_generator(z=weights).lines(level)]
