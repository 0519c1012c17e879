"""Draw one word into a matplotlib panel: the lit photo, its outline, title and note."""

import numpy as np

from data_utils.photos import load_image
from keras_sat.looking.sheet import font_size
from keras_sat.looking.spotlight import CASING, CASING_WIDTH, LINE

LINE_WIDTH = 1.2  # points


def draw_map(panel, display, position, look="spotlight"):
    """Draw the photo of an AttentionDisplay as the word at `position` lights it, with
    the outline.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Normal, Stroke

    photo, lines, note = display.lit(position, look)
    panel.set_axis_off()
    panel.imshow(photo)
    casing = Stroke(linewidth=CASING_WIDTH * LINE_WIDTH, foreground=np.divide(CASING, 255))
    collection = LineCollection(
        lines,
        colors=[np.divide(LINE, 255)],
        linewidths=LINE_WIDTH,
        clip_on=False,
        path_effects=[casing, Normal()],
    )
    panel.add_collection(collection, autolim=False)
    write_note(panel, note)


def draw_title(panel, text, **style):
    """Set a panel's title, in the size of text on its figure."""
    panel.set_title(text, parse_math=False, size=size_of_text(panel), pad=3, **style)


def size_of_text(panel):
    """Return the size of text, in points, on the figure of a panel."""
    return font_size(panel.figure.bbox.width / panel.figure.dpi)


def write_note(panel, note):
    """Write white text in a black box at the bottom of a panel; "" writes nothing."""
    panel.text(
        0.5,
        0.05,
        note,
        ha="center",
        va="bottom",
        transform=panel.transAxes,
        bbox={"facecolor": "black", "linewidth": 0, "pad": 2},
        color="white",
        size=max(8, 0.8 * size_of_text(panel)),
        style="italic",
    )


def shrink_to_printed_size(panel, dpi):
    """Shrink the pictures of a panel that have more than `dpi` pixels per inch."""
    box = panel.get_window_extent()
    size = [max(1, round(side / panel.figure.dpi * dpi)) for side in (box.height, box.width)]
    for image in panel.images:
        pixels = image.get_array()
        if pixels.shape[0] > size[0] or pixels.shape[1] > size[1]:
            # Lines are drawn in the coordinates of the pixels as they were.
            image.set_extent(image.get_extent())
            image.set_data(load_image(pixels, size))
