"""Photos made strange: they keep their size and type, and what they are made of."""

import numpy as np
import pytest
from helpers import random_pixels

from data_utils.strange_photos import cut, recoloured, scene, texture


@pytest.mark.parametrize("seed", range(8))
def test_they_are_photos_of_the_same_size(seed):
    photo = random_pixels(48, 64, 3)
    generator = np.random.default_rng(seed)
    made = [cut(photo, generator), recoloured(photo, generator), scene((48, 64), seed)]
    made += [texture((48, 64), generator) for _ in range(6)]
    for strange in made:
        assert strange.shape == photo.shape and strange.dtype == np.uint8
        assert not np.array_equal(strange, photo)


def test_a_cut_shows_a_part():
    photo = np.zeros((40, 40, 3), np.uint8)
    photo[:, :, 0] = np.arange(40)  # the colour says the place
    columns = cut(photo, np.random.default_rng(0))[0, :, 0].astype(int)
    assert (np.diff(columns) >= 0).all() and 10 <= columns[-1] - columns[0] <= 24


def test_all_ways_are_taken_and_repeatable():
    photo = random_pixels(20, 20, 3)
    found = {recoloured(photo, np.random.default_rng(seed)).tobytes() for seed in range(30)}
    assert (255 - photo).tobytes() in found and len(found) > 10
    one, other = (texture((20, 30), np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
