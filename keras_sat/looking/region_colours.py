"""The colours of the words on the explorer's map "Regions", see region_words.py.

A word has the same colour at all steps, and a word that names a colour has that colour.
Two words share a colour only if they meet at no step.
"""

from collections import Counter

import numpy as np

OTHERS = "#8b8b96"  # of all words without a colour of their own
NUM_NAMED = 8  # this many of the most frequent words of each step should have colours
FEW = 5  # and so should every word that this many regions of a step would say
NAMED_COLOURS = {
    "red": "#e02020",
    "yellow": "#f5dc1e",
    "blue": "#2a62e6",
    "green": "#2e9e3f",
    "white": "#ffffff",
    "black": "#101010",
    "brown": "#86502a",
    "orange": "#ff8c1a",
    "pink": "#ff8fc0",
    "purple": "#8a35c9",
    "grey": "#9a9a9a",
    "gray": "#9a9a9a",
    "tan": "#d2b48c",
    "gold": "#d4a017",
    "golden": "#d4a017",
    "silver": "#c0c0c8",
}
# Each is as far as possible from those before it. All are apart from the colours of the
# parts of a logit, see trace_plot.py.
PALETTE = [
    "#ffee00",
    "#1177ff",
    "#ff0066",
    "#00ff00",
    "#662244",
    "#33ccee",
    "#ff7700",
    "#336600",
    "#ffddaa",
    "#0000ff",
    "#66ffaa",
    "#ff00ee",
    "#ffbbff",
]
NEAREST = 35  # of two colours that can be told apart: their distance in CIELAB
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)


def region_colours(words_of_steps):
    """Return a dict from words to colours, "#rrggbb"; other words have OTHERS.

    Args:
        words_of_steps: for each step, the words that regions would say, in any order.
    """
    counts_of_steps = [Counter(words) for words in words_of_steps]
    totals = sum(counts_of_steps, Counter())
    frequent = [
        {word for word, _ in counts.most_common(NUM_NAMED)}
        | {word for word, count in counts.items() if count >= FEW}
        for counts in counts_of_steps
    ]
    wanted = [word for word, _ in totals.most_common() if any(word in step for step in frequent)]
    colours = {word: NAMED_COLOURS[word] for word in wanted if word in NAMED_COLOURS}
    usable = [
        colour
        for colour in PALETTE
        if all(colour_distance(colour, named) >= NEAREST for named in colours.values())
    ]
    for word in wanted:
        if word in colours:
            continue
        met = set().union(*(counts for counts in counts_of_steps if word in counts))
        taken = {colours[other] for other in met if other in colours}
        free = [colour for colour in usable if colour not in taken]
        if free:
            colours[word] = free[0]
    return colours


def colour_distance(first, second):
    """Return how different two colours "#rrggbb" look: their distance in CIELAB."""
    return float(np.linalg.norm(_lab(first) - _lab(second)))


def _lab(colour):
    """Return a colour "#rrggbb" in CIELAB."""
    values = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ linear / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
