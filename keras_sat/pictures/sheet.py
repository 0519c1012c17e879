"""Arrange photos, panels and captions on a figure of a given width in inches, as the page of a paper needs it."""

import math

WIDTH = 8.0  # inches, in a notebook
GAP, MARGIN = 0.06, 0.04  # inches, between the panels and around all
NARROWEST = 1.0  # inches, of a panel that holds its title
TALLEST = 0.75  # height of a photo, as a fraction of the figure's width


def font_size(width):
    """Return the size of text, in points, on a figure of this width."""
    return max(8, 1.25 * width)


def sheet(make_figure, width, rows, *, columns=None, large=True):
    """Make a figure of rows below each other; return for each row a list of axes, of the photo and of its panels.

    Args:
        make_figure: `matplotlib.pyplot.figure` or `matplotlib.figure.Figure`.
        width: of the figure, in inches.
        rows: list of (aspect ratio, number of panels, list of words, list of text properties for each word).
        columns: panels side by side; None chooses what suits the width.
        large: whether the photo has twice the size of the panels.
    """
    size, inner, top = font_size(width), width - 2 * MARGIN, MARGIN
    title, line = 1.7 * size / 72, 1.4 * size / 72
    boxes, texts = [], []
    for aspect, number, words, styles in rows:
        boxes.append([(x, top + y, *sides) for x, y, *sides in _boxes(number, aspect, inner, title, columns, large)])
        top = max(y + height for _, y, _, height in boxes[-1]) + line / 3
        widths = [text_width(word, size=size, **style) for word, style in zip(words, styles)]
        places = wrapped(widths, 0.3 * size / 72, inner)
        texts += [(x, top + line * number, word, style) for (number, x), word, style in zip(places, words, styles)]
        top += line * (places[-1][0] + 1.3) if places else 0
    figure = make_figure(figsize=(width, top + MARGIN))
    x_of, y_of = (lambda x: (x + MARGIN) / width), (lambda y: 1 - y / (top + MARGIN))
    for x, y, word, style in texts:
        figure.text(x_of(x), y_of(y), word, size=size, va="top", parse_math=False, **style)
    return [
        [
            figure.add_axes((x_of(x), y_of(y + height), across / width, height / (top + MARGIN)))
            for x, y, across, height in row
        ]
        for row in boxes
    ]


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


def text_width(text, **font):
    """Return the width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(**{name: value for name, value in font.items() if name != "color"})
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def _boxes(number, aspect, width, title, columns, large):
    """Return (left, top, width, height), in inches, of the photo and of each panel; above each is room for a title."""
    if columns is None:
        columns = number + 1 if number < 2 or not large else 2 + math.ceil(number / 2)
        columns = 2 if large and number == 3 and aspect > 1.2 else columns
        columns = max(1, min(columns, int((width + GAP) / (NARROWEST + GAP))))
    span = 2 if large and columns > 2 and number > 1 else 1  # rows and columns that the photo takes
    beside, lowest = columns - span, TALLEST * width / span
    high = min((width - aspect * (span - 1) * title - beside * GAP) / (aspect * columns), lowest)
    photo = span * high + (span - 1) * title
    boxes = [(0, title, aspect * photo, photo)]
    low = min(
        (width - (columns - 1) * GAP) / (aspect * columns), lowest
    )  # below the photo, of which no title takes room
    for panel in range(number):
        if panel < span * beside:
            (row, column), start, above, height = divmod(panel, beside), aspect * photo + GAP, title, high
        else:
            row, column = divmod(panel - span * beside, columns)
            start, above, height = 0, title + photo + title, low
        boxes.append(
            (start + column * (aspect * height + GAP), above + row * (height + title), aspect * height, height)
        )
    return boxes
