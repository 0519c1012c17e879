import math

import numpy as np
import pytest

from keras_sat.pictures.brightness import FULL_LIGHT, full_light, times_even, times_even_text


def map_of(peak, size=49):
    """A map whose greatest cell gets `peak` times an even share, all others alike."""
    cells = np.full(size, (1 - peak / size) / (size - 1))
    cells[size // 3] = peak / size
    return cells.reshape(7, -1)


@pytest.mark.parametrize(("peak", "light"), [(1, 1 / FULL_LIGHT), (1.5, 1.5 / FULL_LIGHT), (4, 1), (49, 1)])
@pytest.mark.parametrize("total", [1, 1000], ids=["shares", "any values"])
def test_a_cell_has_full_light_from_a_multiple_of_its_even_share_on(peak, light, total):
    attention_map = total * map_of(peak)
    assert attention_map.max() / full_light(attention_map) == pytest.approx(light)
    assert times_even(attention_map) == pytest.approx(peak)
    assert times_even_text(attention_map) == f"{peak:.1f} × even"


def test_an_even_map_is_an_even_grey_for_any_grid():
    for shape in ((1, 1), (7, 7), (3, 11), (14, 14)):
        attention_map = np.full(shape, 1 / math.prod(shape))
        np.testing.assert_allclose(attention_map / full_light(attention_map), 1 / FULL_LIGHT)


def test_cells_without_a_number_and_maps_without_attention():
    attention_map = np.array([[0.5, math.nan], [0.25, -0.25]])
    assert full_light(attention_map) == FULL_LIGHT * 0.25  # an even share of the three: (.5 + .25 + 0) / 3
    assert math.isnan(times_even(attention_map)) and times_even_text(attention_map) == ""
    assert full_light(np.zeros((2, 2))) > 0 and times_even_text(np.zeros((2, 2))) == ""
    assert full_light(np.full((2, 2), math.nan)) > 0 and times_even_text(np.full((2, 2), math.nan)) == ""


def test_a_word_that_came_from_memory_is_dark():
    attention_map = np.array([[0.0, 0.9], [0.05, 0.05]])
    assert full_light(attention_map, 0.25) == pytest.approx(4 * full_light(attention_map))
    assert full_light(attention_map, np.nan) == full_light(attention_map)
    assert (attention_map / full_light(attention_map, 0.0)).max() < 1e-5
