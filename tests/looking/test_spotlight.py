import numpy as np
import pytest
from helpers import random_pixels

from keras_sat.looking.spotlight import (
    CASING,
    DIM,
    GREY,
    LINE,
    NAN_COLOUR,
    half_level,
    is_grey,
    light_of,
    outline,
    share_with_half,
    spotlight,
    upsampled,
)


@pytest.fixture
def photo():
    return random_pixels(70, 140, 3)


def blob(shape=(70, 140), centre=(30, 50), width=12):
    rows, columns = np.indices(shape)
    return np.exp(-((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2) / (2 * width**2))


def area(lines):
    """The area that polygons enclose, by the shoelace formula; holes count negative."""
    return abs(
        sum(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2 for x, y in (line.T for line in lines))
    )


def test_what_is_lit_keeps_its_colours_and_the_rest_is_grey_and_keeps_some_contrast(photo):
    light = np.zeros(photo.shape[:2])
    light[:35] = 1
    picture = spotlight(photo, light)
    np.testing.assert_array_equal(picture[:35], photo[:35])
    dim = picture[35:].astype(float)
    assert np.ptp(dim, axis=2).max() == 0
    grey = photo[35:] @ np.array(GREY)
    assert dim[..., 0].std() / grey.std() == pytest.approx(DIM, abs=0.01)
    assert dim.mean() < grey.mean()


def test_a_place_stands_out_by_its_weight_and_not_by_its_colour():
    """A red hat has a fifth of the greatest weight, and pale skin beside it all."""
    hat, skin = (215, 40, 50), (200, 165, 140)
    photo = np.array([[hat, skin]], np.uint8)
    red, pale = spotlight(photo, light_of(np.array([[0.006, 0.03]])))[0].astype(float)
    np.testing.assert_array_equal(pale, skin)
    assert np.ptp(red) < np.ptp(pale), "less colour"
    assert red @ GREY < 0.65 * np.array(hat) @ GREY, "and dimmer than it was"


@pytest.mark.parametrize("brightness", [0, 20, 128, 255])
def test_in_a_grey_photo_what_is_lit_has_a_warm_tint_and_is_brighter(brightness):
    photo = np.full((8, 16, 3), brightness, np.uint8)
    light = np.zeros((8, 16))
    light[:4] = 1
    picture = spotlight(photo, light)
    lit, unlit = picture[0, 0].astype(float), picture[-1, -1].astype(float)
    assert np.ptp(unlit) == 0 and np.ptp(lit) > 50 and lit[0] > lit[1] > lit[2], "amber"
    assert lit @ GREY > unlit @ GREY + 25, "in grey print too"


def test_a_photo_with_few_coloured_pixels_is_grey(photo):
    grey = np.repeat(photo[..., :1], 3, axis=2)
    noisy = (
        (grey.astype(int) + np.random.default_rng(0).integers(-5, 6, photo.shape))
        .clip(0, 255)
        .astype(np.uint8)
    )
    assert is_grey(grey) and is_grey(noisy) and not is_grey(photo)
    skier = grey.copy()
    skier[20:40, 30:50] = (220, 30, 30)
    assert not is_grey(skier)
    light = light_of(blob())
    np.testing.assert_array_equal(spotlight(skier, np.ones_like(light)), skier)


@pytest.mark.parametrize("brightness", [0.05, 0.3, 1])
def test_a_dark_photo_can_be_made_out(photo, brightness):
    dark = (brightness * photo).astype(np.uint8)
    dim = spotlight(dark, np.zeros(dark.shape[:2])).astype(float)
    assert dim.min() >= 15 and dim.std() >= 0.9 * DIM * (dark @ np.array(GREY)).std()


def test_white_light_as_in_the_paper(photo):
    picture = spotlight(photo, np.ones(photo.shape[:2]), "paper").astype(int)
    assert picture.min() > 120 and picture.max() == 255
    np.testing.assert_allclose(
        spotlight(photo, np.zeros(photo.shape[:2]), "paper"), photo / 2, atol=0.51
    )


def test_the_line_encloses_the_smallest_region_with_half_of_the_attention():
    attention_map = blob()
    level = half_level(attention_map)
    inside = attention_map >= level
    assert attention_map[inside].sum() / attention_map.sum() == pytest.approx(0.5, abs=0.01)
    lines = outline(attention_map)
    assert len(lines) == 1 and area(lines) == pytest.approx(inside.sum(), rel=0.05)
    points = lines[0]
    np.testing.assert_allclose(points[0], points[-1])  # closed
    np.testing.assert_allclose(points.mean(axis=0), [50, 30], atol=0.5)  # x before y
    light = light_of(attention_map)
    np.testing.assert_allclose(light, attention_map / attention_map.max())
    assert light[inside].min() > light[~inside].max()


def test_a_line_is_closed_at_the_edge_and_can_have_parts():
    lines = outline(blob(centre=(0, 0)) + blob(centre=(69, 139)))
    assert len(lines) == 2
    for line in lines:
        np.testing.assert_allclose(line[0], line[-1])
        assert line.min() >= -1 and (line <= [140, 70]).all()


def test_islands_and_holes_of_one_or_two_cells_are_left_out():
    cell = 100  # pixels
    island, hole = 0.9 * blob(centre=(60, 130), width=3), blob(centre=(30, 50), width=2)
    large = np.minimum(2 * blob(width=16), 1)
    assert len(outline(large + island)) == 2 and len(outline(large + island, cell)) == 1
    assert len(outline(large - hole)) == 2 and len(outline(large - hole, cell)) == 1
    assert len(outline(large + 3 * island, cell)) == 2, "the peak is in it"
    assert len(outline(island + blob(centre=(10, 10), width=3), cell)) == 2, "there are no others"


def test_the_share_is_that_of_the_region_within_the_line():
    attention_map = blob()
    share = share_with_half(attention_map)
    assert share == pytest.approx(area(outline(attention_map)) / attention_map.size, rel=0.05)
    attention_map[0, 0] = np.nan
    assert share_with_half(attention_map) == pytest.approx(share)
    assert share_with_half(np.ones((7, 7))) == 1


def test_small_regions_of_a_peaked_map_and_large_ones_of_a_flat_map():
    small, large = (area(outline(blob(width=width))) for width in (4, 20))
    assert 15 * small < large


@pytest.mark.parametrize("value", [0, 0.25, np.nan])
def test_maps_without_a_peak_have_no_line(photo, value):
    attention_map = np.full((70, 140), value)
    assert outline(attention_map) == []
    picture = spotlight(photo, light_of(attention_map))
    if value == 0:
        np.testing.assert_array_equal(picture, spotlight(photo, np.zeros((70, 140))))
    else:
        assert (picture == (NAN_COLOUR if np.isnan(value) else photo)).all()


def test_nan_is_marked_in_every_look(photo):
    attention_map = blob()
    attention_map[5:9, 100:120] = np.nan
    for look in ("spotlight", "paper", "jet"):
        picture = spotlight(photo, light_of(attention_map), look)
        assert (picture[5:9, 100:120] == NAN_COLOUR).all() and not (
            picture[20, 20] == NAN_COLOUR
        ).all()
    assert len(outline(attention_map)) == 1


def test_a_map_of_any_grid_has_the_size_of_the_photo_and_no_negative_weights():
    grid = np.zeros((3, 5))
    grid[1, 4] = 1
    large = upsampled(grid, (60, 150))
    assert large.shape == (60, 150) and large.min() == 0
    assert np.unravel_index(large.argmax(), large.shape)[0] // 20 == 1 and large[:, :75].max() == 0


def test_the_line_can_be_seen_on_any_colour():
    luminances = [np.array(colour) @ np.array(GREY) for colour in (CASING, LINE)]
    for brightness in range(0, 256, 5):
        assert max(abs(brightness - luminance) for luminance in luminances) > 100


def test_an_unknown_look_is_an_error(photo):
    with pytest.raises(ValueError, match='"paper" or a colour map of matplotlib. Received: .mist'):
        spotlight(photo, blob(), "mist")
