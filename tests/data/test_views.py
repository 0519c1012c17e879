import numpy as np
import pytest
from helpers import random_pixels

from data_utils.photos.views import MIN_AREA, part_of_photo, view_of


@pytest.fixture
def photo():
    return random_pixels(40, 60, 3)


def test_the_first_two_views(photo):
    np.testing.assert_array_equal(view_of(photo, 0, "a"), photo)
    np.testing.assert_array_equal(view_of(photo, 1, "a"), photo[:, ::-1])


@pytest.mark.parametrize("view", range(2, 8))
def test_other_views_are_crops(photo, view):
    seen = view_of(photo, view, "a")
    assert seen.shape == photo.shape and seen.dtype == np.uint8
    np.testing.assert_array_equal(seen, view_of(photo, view, "a"))
    assert not np.array_equal(seen, view_of(photo, view, "b")), "each photo is cut in its own way"
    assert not np.array_equal(seen, view_of(photo, view + 2, "a"))


def test_crops_are_within_the_photo_and_large_enough():
    parts = np.array(
        [part_of_photo(view, f"photo{number}") for number in range(200) for view in (2, 3)]
    )
    assert parts.min() >= 0 and parts.max() <= 1 + 1e-9
    width, height = parts[:, 2] - parts[:, 0], parts[:, 3] - parts[:, 1]
    assert (width * height >= MIN_AREA - 1e-9).all()
    assert (width / height).max() > 1.2 > 0.9 > (width / height).min()


def test_the_crop_is_where_part_of_photo_says():
    gradient = np.broadcast_to(np.linspace(0, 255, 100)[None, :, None], (100, 100, 3)).astype(
        np.uint8
    )
    left, _, right, _ = part_of_photo(2, "photo")
    seen = view_of(gradient, 2, "photo")[50, :, 0] / 255
    np.testing.assert_allclose([seen[0], seen[-1]], [left, right], atol=0.02)
    left, _, right, _ = part_of_photo(3, "photo")
    seen = view_of(gradient, 3, "photo")[50, :, 0] / 255
    np.testing.assert_allclose([seen[0], seen[-1]], [right, left], atol=0.02)
