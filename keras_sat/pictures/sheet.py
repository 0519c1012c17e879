"""Arrange photos, panels and captions on a figure whose width is given in inches, as a
paper needs it.
"""

import itertools
import math

WIDTH = 8.0  # inches, in a notebook
GAP, MARGIN = 0.06, 0.04  # inches
NARROWEST = 1.0  # inches: the width of a panel that holds its title
TALLEST = 0.75  # the height of a photo, as a fraction of the figure's width


def font_size(width):
    """Return the size of text, in points, on a figure of this width."""
    return min(max(8, 1.25 * width), 12)


def sheet(make_figure, width, rows, *, columns=None, large=True):
    """Make a figure of photos with their panels and captions; return for each photo a
    list of axes.

    `rows` is a list of (aspect ratio, number of panels, list of words, list of the
    words' text properties). With `large` the photo has twice the size of the panels, of
    which `columns` are side by side (None: as many as fit).
    """
    if not (1 <= width <= 40 and (columns is None or columns >= 1)):
        raise ValueError(
            f"Expected 1 to 40 inches and 1 column or more. Received: width={width}, "
            f"columns={columns}"
        )
    size, inner, top, boxes, texts = font_size(width), width - 2 * MARGIN, MARGIN, [], []
    line = 1.4 * size / 72
    for aspect, number, words, styles in rows:
        boxes.append(
            [
                (x, top + y, *sides)
                for x, y, *sides in _boxes(number, aspect, inner, line, columns, large)
            ]
        )
        top = max(y + height for _, y, _, height in boxes[-1]) + line / 3
        widths = [text_width(word, size=size, **style) for word, style in zip(words, styles)]
        places = wrapped(widths, 0.3 * size / 72, inner)
        texts += [
            (x, top + line * number, *text) for (number, x), *text in zip(places, words, styles)
        ]
        top += line * (places[-1][0] + 1.2) if places else 0
    figure, height = make_figure(figsize=(width, top + MARGIN)), top + MARGIN
    for x, y, word, style in texts:
        figure.text(
            (x + MARGIN) / width,
            1 - y / height,
            word,
            size=size,
            va="top",
            parse_math=False,
            **style,
        )

    def axes(x, y, across, down):
        return figure.add_axes(
            ((x + MARGIN) / width, 1 - (y + down) / height, across / width, down / height)
        )

    return [[axes(*box) for box in row] for row in boxes]


def wrapped(widths, space, limit):
    """Return (line, left) for each word of a text that wraps at the width `limit`.

    >>> wrapped([3, 2, 4], space=1, limit=7)
    [(0, 0), (0, 4), (1, 0)]
    """
    places, line, left = [], 0, 0
    for width in widths:
        if left and left + width > limit:
            line, left = line + 1, 0
        places.append((line, left))
        left += width + space
    return places


def text_width(text, *, color=None, **font):
    """Return the width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return (
        text_to_path.get_text_width_height_descent(text, FontProperties(**font), ismath=False)[0]
        / 72
    )


def _boxes(number, aspect, width, title, columns, large):
    """Return (left, top, width, height) of the photo and of each panel, in inches.

    There is space for titles.
    """
    if columns is None:
        most = max(1, int((width + GAP) / (NARROWEST + GAP)))
        columns = number + 1 if number < 2 or not large else 2 + math.ceil(number / 2)
        columns = 2 if large and number == 3 and (aspect > 1.2 or most < 4) else min(columns, most)
    span = 2 if large and columns > 2 and number > 1 else 1  # rows and columns that the photo takes
    height = min((width - (columns - 1) * GAP) / columns / aspect, TALLEST * width / span)
    across, down = aspect * height + GAP, height + title + GAP
    photo = height if span == 1 else height + across / aspect
    places = (
        (row, column)
        for row in itertools.count()
        for column in range(columns)
        if max(row, column) >= span
    )
    places = itertools.islice(places, number)
    panels = [
        (column * across, title + row * down, aspect * height, height) for row, column in places
    ]
    return [(0, title + (span - 1) * down + height - photo, aspect * photo, photo), *panels]
