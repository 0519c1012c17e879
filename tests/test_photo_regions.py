"""Rectangles within a photo: which are rejected, and the cells that they cover."""

import numpy as np
import pytest

from data_utils.photo_regions import checked_region, checked_regions, visible_cells

OUTSIDE, UPSIDE_DOWN, EMPTY, NAN = (
    (0.5, 0, 1.1, 1),
    (0, 0.9, 1, 0.2),
    (0.2, 0, 0.2, 1),
    (0, 0, np.nan, 1),
)


@pytest.mark.parametrize(
    "region", [OUTSIDE, UPSIDE_DOWN, EMPTY, NAN, (0, 0, 1), "0011", [*"abcd"], 5, ()]
)
def test_what_is_no_rectangle_within_the_photo_is_rejected(region):
    with pytest.raises(ValueError, match="must be a rectangle within the photo.*region="):
        checked_region(region)


def test_the_cells_that_a_region_covers_by_half():
    assert (
        checked_region(np.array([0, 0, 0.5, 1]))
        == checked_region(["0", "0", ".5", "1"])
        == (0, 0, 0.5, 1)
    )
    assert visible_cells((0, 0, 0.625, 0.5), (2, 4)).tolist() == [
        [True, True, True, False],
        [False] * 4,
    ]
    assert visible_cells((0, 0, 0.6, 0.5), (2, 4)).tolist() == [
        [True, True, False, False],
        [False] * 4,
    ]
    # Those it covers most.
    assert visible_cells((0.4, 0.4, 0.55, 0.6), (2, 2)).tolist() == [[True, False]] * 2
    assert visible_cells((0.5, 0.5, 0.500001, 0.500001), (14, 14)).sum() == 1


def test_half_a_cell_is_enough_and_each_photo_needs_its_regions(recwarn):
    half = (0, 0, 1 / 28, 1 / 14)
    assert checked_regions([[half], []], 2, (14, 14)) == [[half], []] and not recwarn
    with pytest.raises(
        ValueError, match="a list of regions for each of 2 photos. Received: 1 lists"
    ):
        checked_regions([[half]], 2, (14, 14))
