"""Votes on a photo: dots of two kinds, whose areas are in proportion to the votes."""

import numpy as np
import pytest

from keras_sat.looking.dots import AGAINST, CASING, FOR, LARGEST, SHADE, dots_on_photo, radii

SIDE = 40  # pixels of a region


@pytest.fixture
def photo():
    """Two rows and three columns of regions, red and green and blue."""
    colours = np.array([[200, 30, 30], [30, 200, 30], [30, 30, 200]], np.uint8)
    return np.tile(np.repeat(colours, SIDE, axis=0), (2 * SIDE, 1, 1))


def is_close(pixels, colour):
    return np.abs(pixels - np.array(colour, float)).max(axis=-1) < 3


def middle(picture, row, column):
    return picture[SIDE * row + SIDE // 2, SIDE * column + SIDE // 2]


def test_votes_for_a_word_are_discs_and_votes_against_it_are_rings(photo):
    votes = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.5]])
    picture = dots_on_photo(photo, votes, 1.0)
    assert is_close(middle(picture, 0, 0), FOR) and is_close(middle(picture, 1, 2), FOR)
    assert is_close(middle(picture, 0, 1), SHADE * middle(photo, 0, 1)), "seen through the ring"
    ring = picture[:SIDE, SIDE : 2 * SIDE]
    assert is_close(ring, AGAINST).any() and is_close(ring, CASING).any()
    assert not is_close(ring, FOR).any()


def test_the_area_of_a_disc_is_in_proportion_to_its_vote(photo):
    picture = dots_on_photo(photo, np.array([[1.0, 0.5, 0.25], [0, 0, 0]]), 1.0)
    areas = [is_close(picture[:SIDE, SIDE * i : SIDE * (i + 1)], FOR).sum() for i in range(3)]
    largest = np.pi / 4 * (LARGEST * SIDE) ** 2
    np.testing.assert_allclose(areas, [largest, largest / 2, largest / 4], rtol=0.2)


def test_the_photo_keeps_its_colours_between_the_dots(photo):
    picture = dots_on_photo(photo, np.ones((2, 3)), 1.0)
    np.testing.assert_allclose(picture[0], SHADE * photo[0], atol=0.51)
    shown = is_close(picture, SHADE * photo).mean()
    assert shown > 0.3, "even where all votes are the strongest"


@pytest.mark.parametrize("shape", [(200, 90), (60, 120), (61, 157)])
def test_dots_stay_within_their_regions(shape):
    photo = np.full((*shape, 3), 100, np.uint8)
    picture = dots_on_photo(photo, np.array([[1.0, -1.0, 1.0]]), 1.0)
    edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    np.testing.assert_array_equal(edges, SHADE * 100)


def test_a_vote_that_hardly_counts_or_is_nan_has_no_dot(photo):
    votes = np.array([[1e-3, -1e-3, np.nan], [0, 0, 0]])
    np.testing.assert_array_equal(
        dots_on_photo(photo, votes, 1.0), np.rint(SHADE * photo).astype(np.uint8)
    )
    assert not radii(votes, 1.0).any()
