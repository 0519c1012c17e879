"""Arrange photos, panels and captions on a figure whose width is given in inches.

The panels of a photo stand in the cells of a grid, from left to right and from top to
bottom. The photo takes the first cell, or the first 2 x 2 cells or more. Several grids
are tried.
"""

from typing import NamedTuple

WIDTH = 8.0  # inches, in a notebook
GAP, MARGIN = 0.06, 0.04  # inches
EQUAL = 1e-9  # inches: a smaller distance is a rounding error
NARROWEST = 0.75  # inches: the width of a panel, unless the number of columns is given
LEAST_COLUMN = 0.2  # inches, with the gap to the next column
TALLEST = 0.75  # the height of a panel, as a fraction of the figure's width
WORD_SPACE = 0.28  # of a line's height; on screens, words are a little wider than measured

# The grid is chosen for which the sum of these costs is least. They were set by looking
# at figures of wide, square and tall photos, with 1 to 15 panels.
COST_OF_A_HOLE = 0.25  # for each cell that stays empty
COST_OF_HEIGHT = 0.3  # times height / width of the figure
COST_OF_PHOTO_SHARE = 0.5  # times its distance from PHOTO_SHARE
PHOTO_SHARE = 0.45  # of the area of the photo and the panels, at best


class Row(NamedTuple):
    """What is to be laid out, in inches: a photo with its panels and its caption."""

    aspect: float  # width / height of the photo and of each panel
    title_widths: list  # of the panels' titles
    word_widths: list  # of the caption's words
    width: float  # of the whole
    line: float  # height of a line of the caption
    title: float  # height of the space for a panel's title

    @property
    def num_panels(self):
        return len(self.title_widths)

    @property
    def narrowest(self):
        """The least width of a panel, which holds its title."""
        return max([NARROWEST, *self.title_widths])

    def cell(self, columns):
        """Return the width of a panel if `columns` are side by side."""
        return (self.width - (columns - 1) * GAP) / columns


class Layout(NamedTuple):
    """Where the parts of a Row stand, in inches from its left and its top."""

    boxes: list  # (left, top, width, height) of the photo and of each panel
    places: list  # (left, top) of each word of the caption
    height: float
    num_holes: int  # cells of the grid that stay empty


def font_size(width):
    """Return the size of text, in points, on a figure of this width."""
    return min(max(8, 1.25 * width), 12)


def sheet(make_figure, width, rows, *, columns=None, large=True, note=""):
    """Make a figure of photos, each with its panels and, above, its caption.

    Args:
        rows: for each photo its aspect ratio (width / height), its panels' titles, its
            caption's words, and a dict of text properties for each title and each word.
        columns: cells side by side in the grid; None chooses. All photos have the same
            grid.
        large: whether photos may be larger than their panels; otherwise there is space
            for a title of the photo.
        note: small text below all.

    Returns: for each photo a list of axes, for the photo and for each panel.
    """
    if not (1 <= width <= 40 and (columns is None or 1 <= columns <= width / LEAST_COLUMN)):
        problem = "Expected 1 to 40 inches and 1 column or more, of 0.2 inches each."
        raise ValueError(f"{problem} Received: width={width}, columns={columns}")
    size = font_size(width)
    line = 1.4 * size / 72  # inches
    num_title_lines = max((1 + title.count("\n") for row in rows for title in row[1]), default=1)

    def widths(texts, styles):
        return [text_width(text, size=size, **style) for text, style in zip(texts, styles)]

    measured = []
    for aspect, titles, words, title_styles, word_styles in rows:
        row = Row(
            aspect,
            title_widths=widths(titles, title_styles),
            word_widths=widths(words, word_styles),
            width=width - 2 * MARGIN,
            line=line,
            title=num_title_lines * line,
        )
        measured.append(row)
    layouts = best_layouts(measured, columns, large)
    # Between rows; a photo without a caption belongs to the one above it.
    distances = [0, *(line if row.word_widths else GAP for row in measured[1:])]
    note = wrapped_text(note, 8, width - 2 * MARGIN)
    note_height = 1.4 * 8 / 72 * (1 + note.count("\n")) + GAP if note else 0
    height = sum(layout.height for layout in layouts) + sum(distances) + note_height + 2 * MARGIN
    figure = make_figure(figsize=(width, height))

    def axes(left, top, across, down):
        corner = left / width, 1 - (top + down) / height
        return figure.add_axes((*corner, across / width, down / height))

    all_axes, top = [], MARGIN
    for layout, distance, (_, _, words, _, styles) in zip(layouts, distances, rows):
        top += distance
        all_axes.append(
            [axes(MARGIN + left, top + down, *sides) for left, down, *sides in layout.boxes]
        )
        for (left, down), word, style in zip(layout.places, words, styles):
            place = (MARGIN + left) / width, 1 - (top + down) / height
            figure.text(*place, word, size=size, va="top", parse_math=False, **style)
        top += layout.height
    if note:
        place = MARGIN / width, MARGIN / height
        figure.text(*place, note, size=8, va="bottom", color="dimgrey")
    return all_axes


def best_layouts(rows, columns=None, large=True):
    """Return the Layout of each Row in the grid of the least cost; see `sheet`."""
    narrowest = max(row.narrowest for row in rows)
    most_columns = max(1, int((rows[0].width + GAP) / (narrowest + GAP)))
    most_columns = min(most_columns, 1 + max(row.num_panels for row in rows))
    possible = []
    for num_columns in range(1, most_columns + 1) if columns is None else [columns]:
        for span in range(1, num_columns + 1 if large else 2):
            layouts = [_layout(row, num_columns, span, large) for row in rows]
            if None not in layouts:
                possible.append(layouts)
    return min(possible, key=lambda layouts: sum(map(_cost, layouts, rows)))


def _cost(layout, row):
    """Return the cost of a Layout of a Row, see above."""
    photo, *panels = [width * height for _, _, width, height in layout.boxes]
    photo_share = photo / (photo + sum(panels))
    return (
        COST_OF_A_HOLE * layout.num_holes
        + COST_OF_HEIGHT * layout.height / row.width
        + COST_OF_PHOTO_SHARE * abs(photo_share - PHOTO_SHARE)
    )


def _layout(row, columns, span, large):
    """Return the Layout in which the photo takes `span` x `span` cells, or None."""
    if span == 1:
        return _among_panels(row, columns, has_title=not large)
    return _above_panels(row, columns) if span == columns else _beside_panels(row, columns, span)


def _among_panels(row, columns, has_title):
    """Lay out a photo that has the size of a panel.

    The caption stands above all, or above the photo if that makes the figure no higher.
    """
    panel_height = min(row.cell(columns) / row.aspect, TALLEST * row.width)
    column_width = max(row.aspect * panel_height, min(row.narrowest, row.cell(columns)))
    places, top = _caption(row, row.width)
    if has_title:
        top = len({down for _, down in places}) * row.line  # titles keep their distance
    # Of the caption above the photo alone.
    narrow_places, narrow_height = _caption(row, column_width)
    fits = narrow_height <= top + row.title and max([0, *row.word_widths]) <= column_width
    if fits and not has_title:
        top = max(0, narrow_height - row.title)
        caption_top = top + row.title - narrow_height
        places = [(left, caption_top + down) for left, down in narrow_places]
    boxes = _cells(row, 1 + row.num_panels, columns, panel_height, column_width, top=top)
    return Layout(boxes, places, _bottom(boxes), -len(boxes) % columns)


def _above_panels(row, columns):
    """Lay out a photo that is as wide as the figure."""
    places, top = _caption(row, row.width)
    photo = 0, top, row.width, row.width / row.aspect
    cell = row.cell(columns)
    panels = _cells(
        row, row.num_panels, columns, cell / row.aspect, cell, top=_bottom([photo]) + GAP
    )
    return Layout([photo, *panels], places, _bottom([photo, *panels]), -row.num_panels % columns)


def _beside_panels(row, columns, span):
    """Lay out a photo, with the caption above it, that takes 2 x 2 cells or more.

    Returns None if panels or photo would be too narrow, or if the caption does not fit
    above the photo.
    """
    beside = columns - span  # panels in each of the photo's rows
    num_beside = min(row.num_panels, span * beside)
    num_below = row.num_panels - num_beside
    if num_below:
        cell = row.cell(columns)
        photo_width = span * cell + (span - 1) * GAP
    else:
        cell, photo_width = _as_wide_as_the_figure(row, columns, span)
    panel_height, photo_height = cell / row.aspect, photo_width / row.aspect
    height = span * (row.title + panel_height) + (span - 1) * GAP
    places, caption_height = _caption(row, photo_width)
    photo_top = height - photo_height
    caption_top = photo_top - caption_height
    is_narrow = cell < min(row.narrowest, row.cell(columns)) - EQUAL or photo_width < cell
    fits = -EQUAL <= caption_top <= row.title and max([0, *row.word_widths]) <= photo_width
    if is_narrow or not fits:
        return None
    photo = 0, photo_top, photo_width, photo_height
    places = [(left, caption_top + down) for left, down in places]
    panels = _cells(row, num_beside, beside, panel_height, cell, left=photo_width + GAP)
    panels += _cells(row, num_below, columns, panel_height, cell, top=height + GAP)
    num_holes = span * beside - num_beside + -num_below % columns
    return Layout([photo, *panels], places, _bottom([photo, *panels]), num_holes)


def _as_wide_as_the_figure(row, columns, span):
    """Return the widths of a panel and of the photo if no row is below the photo.

    The photo and its caption are as high as the panels beside them: the more lines the
    caption has, the smaller is the photo, and the larger are the panels.
    """
    beside = columns - span
    for num_lines in range(len(row.word_widths) + 1):
        # The photo's height is that of `span` panels and this:
        extra_height = span * row.title + (span - 1) * GAP - _height_of_lines(row, num_lines)
        cell = (row.width - beside * GAP - row.aspect * extra_height) / columns
        photo_width = span * cell + row.aspect * extra_height
        _, caption_height = _caption(row, photo_width)
        if caption_height <= _height_of_lines(row, num_lines):
            break
    return cell, photo_width


def _cells(row, number, columns, height, column_width, *, left=0, top=0):
    """Return the boxes of pictures in a grid, each with space for its title."""
    width = row.aspect * height
    boxes = []
    for i in range(number):
        across, down = i % columns, i // columns
        box_left = left + across * (column_width + GAP) + (column_width - width) / 2
        box_top = top + row.title + down * (height + row.title + GAP)
        boxes.append((box_left, box_top, width, height))
    return boxes


def _bottom(boxes):
    return max(top + height for _, top, _, height in boxes)


def _caption(row, width):
    """Return the (left, top) of each word of the caption, and the caption's height."""
    places = wrapped(row.word_widths, WORD_SPACE * row.line, width)
    num_lines = places[-1][0] + 1 if places else 0
    return [(left, line * row.line) for line, left in places], _height_of_lines(row, num_lines)


def _height_of_lines(row, num_lines):
    return (num_lines + 0.3) * row.line if num_lines else 0  # with a small distance to the photo


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


def wrapped_text(text, size, limit):
    """Return a text with line breaks, so that it is not wider than `limit` inches."""
    words = text.split()
    widths = [text_width(word, size=size) for word in words]
    lines = {}
    for word, (line, _) in zip(words, wrapped(widths, WORD_SPACE * 1.4 * size / 72, limit)):
        lines.setdefault(line, []).append(word)
    return "\n".join(" ".join(line) for line in lines.values())


def text_width(text, *, color=None, **font):
    """Return the width of a text in inches: that of its longest line."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(**font)
    widths = []  # of the lines, in points
    for line in text.split("\n"):
        width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
        widths.append(width)
    return max(widths) / 72
