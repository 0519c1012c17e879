import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from keras_sat.pictures.sheet import font_size, sheet, text_width, wrapped


class Boxes:
    """Instead of a figure, whose axes take long to make: (left, bottom, right, top) of
    axes in inches.
    """

    def __init__(self, figsize):
        self.sides = np.array(figsize)

    def add_axes(self, box):
        (left, bottom), size = np.reshape(box, (2, 2)) * self.sides
        return [left, bottom, left + size[0], bottom + size[1]]

    def text(self, *args, **style):
        pass


def arranged(number, aspect=1.5, width=7, **options):
    (boxes,) = sheet(Boxes, width, [(aspect, number, [], [])], **options)
    return np.array(boxes)


@pytest.mark.parametrize("aspect", [0.2, 0.67, 1, 1.5, 5])
@pytest.mark.parametrize("width", [3.3, 7, 8])
def test_panels_have_the_aspect_ratio_and_do_not_overlap(aspect, width):
    for number in range(15):
        for options in ({}, {"columns": 2}, {"large": False}):
            boxes = arranged(number, aspect, width, **options)
            across, down = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
            assert len(boxes) == number + 1 and across / down == pytest.approx(aspect)
            assert boxes.min() >= 0 and boxes[:, 2].max() <= width
            for i, (left, low, right, high) in enumerate(boxes):
                beside = (boxes[:i, 2] <= left) | (boxes[:i, 0] >= right)
                assert (beside | (boxes[:i, 1] >= high) | (boxes[:i, 3] <= low)).all()
            assert across[0] >= across.max() - 1e-9 and len({*across[1:].round(6)}) <= 1


def test_narrow_figures_have_fewer_columns():
    columns = {width: len(set(arranged(8, width=width)[1:, 0].round(3))) for width in (3.3, 7)}
    assert columns[3.3] <= 3 < columns[7]
    assert (np.diff(arranged(8, width=3.3)[1:, [0, 2]]) >= 1).all()


def test_the_photo_is_twice_as_large_unless_there_are_few_panels():
    for number, times in ((1, 1), (2, 2), (3, 1), (4, 2), (6, 2)):
        boxes = arranged(number)
        across = boxes[:, 2] - boxes[:, 0]
        assert across[0] / across[1] == pytest.approx(times, abs=0.1)


def test_a_long_caption_wraps_below_the_panels():
    words = [f"word{i}" for i in range(40)]
    ((photo, *_),) = sheet(Figure, 3.3, [(1.5, 4, words, [{}] * 40)])
    figure = photo.figure
    figure.set_dpi(100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    extents = [text.get_window_extent(renderer) for text in figure.texts]
    assert [text.get_text() for text in figure.texts] == words
    assert len({round(extent.y1) for extent in extents}) >= 5
    lows, highs = [extent.y0 for extent in extents], [extent.y1 for extent in extents]
    lowest = min(panel.get_window_extent().y0 for panel in figure.axes)
    assert max(highs) < lowest and min(lows) >= 0 and max(extent.x1 for extent in extents) <= 330
    assert not any(one.overlaps(other) for i, one in enumerate(extents) for other in extents[:i])


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
