import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from keras_sat.looking.sheet import MARGIN, font_size, sheet, text_width, wrapped


class Boxes:
    """Instead of a figure, whose axes take long to make: (left, bottom, right, top) of
    axes in inches.
    """

    def __init__(self, figsize):
        self.sides = np.array(figsize)
        self.words = []  # (left, top) of each word

    def add_axes(self, box):
        (left, bottom), size = np.reshape(box, (2, 2)) * self.sides
        return [left, bottom, left + size[0], bottom + size[1]]

    def text(self, x, y, word, **style):
        self.words.append([x, y] * self.sides)


def row_of(number, aspect=1.5, words=(), title=""):
    return aspect, [title] * number, list(words), [{}] * number, [{}] * len(words)


def arranged(number, aspect=1.5, width=7, *, words=(), title="", **options):
    """Return the boxes of photo and panels, (1 + number, 4), and the words' places."""
    figures = []

    def make(figsize):
        figures.append(Boxes(figsize))
        return figures[0]

    (boxes,) = sheet(make, width, [row_of(number, aspect, words, title)], **options)
    return np.array(boxes), np.array(figures[0].words).reshape(-1, 2)


def rights_of_rows(boxes):
    """Return where each row of pictures ends."""
    rows = {}
    for _, low, right, _ in boxes:
        rows.setdefault(round(low, 6), []).append(right)
    return np.array([max(rights) for rights in rows.values()])


CAPTION = ["a", "man", "in", "a", "yellow", "raft", "paddles", "down", "the", "wild", "river"]


@pytest.mark.parametrize("aspect", [0.2, 0.67, 1, 1.5, 5])
@pytest.mark.parametrize("width", [3.3, 7, 8])
def test_panels_have_the_aspect_ratio_and_do_not_overlap(aspect, width):
    for number in range(15):
        for options in ({}, {"words": CAPTION}, {"columns": 2}, {"large": False}):
            boxes, _ = arranged(number, aspect, width, **options)
            across, down = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
            assert len(boxes) == number + 1 and across / down == pytest.approx(aspect)
            assert boxes.min() >= 0 and boxes[:, 2].max() <= width
            for i, (left, low, right, high) in enumerate(boxes):
                beside = (boxes[:i, 2] <= left) | (boxes[:i, 0] >= right)
                assert (beside | (boxes[:i, 1] >= high) | (boxes[:i, 3] <= low)).all()
            assert across[0] >= across.max() - 1e-9 and len({*across[1:].round(6)}) <= 1


@pytest.mark.parametrize("aspect", [1, 1.33, 1.5])
@pytest.mark.parametrize("width", [7, 8])
def test_rows_are_filled(aspect, width):
    for number in range(1, 11):
        boxes, _ = arranged(number, aspect, width, words=CAPTION)
        np.testing.assert_allclose(rights_of_rows(boxes[1:]), width - MARGIN)


@pytest.mark.parametrize("aspect", [1.33, 1.5])
def test_rows_of_a_column_of_a_paper_are_filled(aspect):
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        boxes, _ = arranged(number, aspect, 3.3, words=CAPTION)
        np.testing.assert_allclose(rights_of_rows(boxes[1:]), 3.3 - MARGIN)


@pytest.mark.parametrize("aspect", [0.67, 1, 1.5, 3])
@pytest.mark.parametrize("width", [3.3, 7])
def test_the_caption_stands_above_its_photo(aspect, width):
    line = 1.4 * font_size(width) / 72
    for number in range(1, 13):
        boxes, words = arranged(number, aspect, width, words=CAPTION)
        photo, panels = boxes[0], boxes[1:]
        lowest = words[:, 1].min() - line
        assert lowest >= photo[3], "above the photo"
        if photo[2] - photo[0] > 1.5 * (panels[0, 2] - panels[0, 0]):
            assert lowest - photo[3] < line, "without a white band between them"
            assert max(words[:, 1]) <= panels[:, 3].max() + line + 1e-9 or photo[2] > 0.99 * (
                width - MARGIN
            )


def test_a_large_photo_is_as_high_as_the_panels_beside_it():
    boxes, words = arranged(4, words=CAPTION)
    photo, panels = boxes[0], boxes[1:]
    line = 1.4 * font_size(7) / 72
    assert photo[1] == pytest.approx(panels[:, 1].min())
    assert max(words[:, 1]) == pytest.approx(panels[:, 3].max() + line), "no higher than the titles"


def test_a_caption_that_fits_stands_above_a_photo_of_the_size_of_a_panel():
    line = 1.4 * font_size(7) / 72
    boxes, words = arranged(2, words=["a", "raft"], large=True)
    assert min(words[:, 1]) - line - boxes[0, 3] < line / 2 and np.ptp(boxes[:, 3]) < 1e-9
    boxes, words = arranged(2, words=["a", "raft"], large=False)
    assert min(words[:, 1]) - line >= boxes[0, 3] + line, "there is space for a title of the photo"


def test_narrow_figures_have_fewer_columns_and_panels_hold_their_titles():
    for width, most in ((3.3, 4), (7, 8)):
        boxes, _ = arranged(15, width=width, large=False)
        assert len({*boxes[:, 0].round(6)}) == most
    across = np.diff(arranged(8, width=3.3)[0][:, [0, 2]])
    assert (across >= 0.75).all()
    title = "the longest title"
    across = np.diff(arranged(8, width=3.3, title=title)[0][:, [0, 2]])
    assert (across >= text_width(title, size=8)).all()


def test_a_photo_may_be_larger_than_its_panels():
    for number in (1, 3, 4, 6, 8, 9):
        boxes, _ = arranged(number, words=CAPTION)
        across = boxes[:, 2] - boxes[:, 0]
        assert across[0] / across[1] > 1.8 if number > 3 else across[0] == pytest.approx(across[1])
        boxes, _ = arranged(number, words=CAPTION, large=False)
        assert np.ptp(boxes[:, 2] - boxes[:, 0]) < 1e-9


def test_all_rows_of_a_figure_have_the_same_columns():
    rows = [row_of(8, 1.5, CAPTION), row_of(8, 0.75, CAPTION * 3, title="photographers")]
    wide, tall = (np.array(boxes) for boxes in sheet(Boxes, 7, rows, large=False))
    np.testing.assert_allclose(wide[:, 0], tall[:, 0], atol=1e-9)
    assert wide[:, 1].min() > tall[:, 3].max()


def test_titles_may_have_two_lines():
    line = 1.4 * font_size(7) / 72
    for number in (2, 5, 8):
        one, two = (
            arranged(number, large=False, columns=3, title=title)[0] for title in ("a", "a\nb")
        )
        num_rows = -(-(number + 1) // 3)
        assert two[:, 3].max() - one[:, 3].max() == pytest.approx((num_rows - 1) * line)
    assert text_width("dog\nfootball", size=8) == text_width("football", size=8)


def test_the_number_of_columns_can_be_chosen():
    boxes, _ = arranged(3, columns=2)
    assert len({*boxes[:, 0].round(6)}) == len({*boxes[:, 1].round(6)}) == 2
    for columns in (0, 36):
        with pytest.raises(
            ValueError, match=f"Expected 1 to 40 inches and 1 column .*columns={columns}"
        ):
            arranged(3, columns=columns)


def test_a_long_caption_wraps_above_the_panels():
    words = [f"word{i}" for i in range(40)]
    ((photo, *_),) = sheet(Figure, 3.3, [row_of(4, words=words)])
    figure = photo.figure
    figure.set_dpi(100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    extents = [text.get_window_extent(renderer) for text in figure.texts]
    assert [text.get_text() for text in figure.texts] == words
    assert len({round(extent.y1) for extent in extents}) >= 5
    pictures = [panel.get_window_extent(renderer) for panel in figure.axes]
    assert max(extent.y1 for extent in extents) <= figure.bbox.height
    assert (
        min(extent.y0 for extent in extents) > pictures[0].y1
        and max(extent.x1 for extent in extents) <= 330
    )
    every = [*extents, *pictures]
    assert not any(one.overlaps(other) for i, one in enumerate(every) for other in every[:i])


def test_words_wrap_whole():
    assert wrapped([], 1, 5) == []
    assert wrapped([9, 2, 2], 1, 5) == [(0, 0), (1, 0), (1, 3)]


def test_bold_text_is_wider_and_a_colour_has_no_width():
    width = text_width("caption", size=10)
    assert (
        text_width("caption", size=10, weight="bold", color="red")
        > width
        == text_width("caption", size=10.0)
    )
    assert text_width("caption", size=20) == pytest.approx(2 * width)
    assert text_width("$x^2$", size=10) > text_width("x2", size=10), "no formulas"


def test_the_size_of_text():
    assert font_size(3.3) == 8 and 8 <= font_size(7) < 9 and font_size(30) == 12
