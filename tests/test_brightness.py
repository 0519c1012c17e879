import math

import numpy as np
import pytest

from keras_sat.pictures.brightness import FULL_LIGHT, full_light, times_uniform


def map_of(peak, size=49):
    """A map whose greatest cell gets `peak` times the uniform weight, all others alike."""
    cells = np.full(size, (1 - peak / size) / (size - 1))
    cells[size // 3] = peak / size
    return cells.reshape(7, -1)


@pytest.mark.parametrize(("peak", "light"), [(1, 1 / FULL_LIGHT), (1.5, 1.5 / FULL_LIGHT), (4, 1), (49, 1)])
@pytest.mark.parametrize("total", [1, 1000], ids=["shares", "any values"])
def test_a_cell_has_full_light_from_a_multiple_of_the_uniform_weight_on(peak, light, total):
    attention_map = total * map_of(peak)
    assert attention_map.max() / full_light(attention_map) == pytest.approx(light)
    assert times_uniform(attention_map) == pytest.approx(peak)


def test_nan_and_maps_without_weight():
    for attention_map in (np.array([[0.5, math.nan], [0.25, 0.0]]), np.full((2, 2), math.nan), np.zeros((2, 2))):
        assert full_light(attention_map) > 0 and math.isnan(times_uniform(attention_map))


def test_a_word_that_came_from_memory_is_dark():
    attention_map = np.array([[0.0, 0.9], [0.05, 0.05]])
    assert full_light(attention_map, 0.25) == pytest.approx(4 * full_light(attention_map))
    assert (attention_map / full_light(attention_map, 0.0)).max() < 1e-5
