"""The colours of the words on the explorer's map "Regions", see places.py.

A word has the same colour at all steps, and a word that names a colour has that colour.
Two words share a colour only if they meet at no step.
"""

from collections import Counter

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
# Apart from the colours of the parts of a logit, and from those of signs; see plot.py.
PALETTE = [
    "#e8f06a",
    "#9b2d1f",
    "#3df0ff",
    "#7a5a10",
    "#fff3c4",
    "#ff6f52",
    "#c7f5e6",
    "#5a1230",
    "#4a7d1e",
    "#1c2f7a",
    "#e9b49a",
    "#b59a5b",
]
NEAREST = 130  # of two colours that can be told apart: their distance in RGB


def colours_of_places(words_of_steps):
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
        if all(_distance(colour, named) >= NEAREST for named in colours.values())
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


def _distance(first, second):
    """Return the distance of two colours "#rrggbb" in RGB."""
    pairs = zip(_rgb(first), _rgb(second))
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def _rgb(colour):
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
