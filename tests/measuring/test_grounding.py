import json
import math

import numpy as np
import pytest

from data_utils import DATASETS, WordPlace, draw_scenes
from keras_sat import CaptionResult, ground
from keras_sat.measuring.grounding import centred_map, coverage, ground_scenes, smallest_region


def result_of(scene, weights_of):
    """A result with the scene's first caption; `weights_of` gives the map of each
    place.
    """
    words = scene.captions[0].split()
    maps = np.full((len(words), 16, 16), 1 / 256)
    for place in scene.places(scene.captions[0]):
        maps[place.position] = weights_of(place)
    return CaptionResult(scene.captions[0], words, 0.0, maps)


def uniform(place):
    return np.full((16, 16), 1 / 256)


def on_it(place):
    whole = place.cells((16, 16)) == 1
    return whole / whole.sum()


def colours_and_shapes(scenes):
    words = [place for scene in scenes for place in scene.places(scene.captions[0])]
    return [place for place in words if place.word_class in ("colour", "shape")]


def box_area(box):
    return (box[2] - box[0]) * (box[3] - box[1])


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(40, seed=12)


def test_attention_on_the_object_and_beside_it(scenes):
    def beside_it(place):
        outside = place.cells((16, 16)) == 0
        return outside / outside.sum()

    best = ground([result_of(scene, on_it) for scene in scenes], scenes)
    assert best.mass == pytest.approx(1) and best.pointing == 1
    assert 0.5 < best.coverage < 1 and 0.05 < best.uniform_coverage < best.coverage
    worst = ground([result_of(scene, beside_it) for scene in scenes], scenes)
    assert worst.mass == 0 and worst.pointing == 0 and worst.coverage < worst.uniform_coverage
    areas = [
        sum(box_area(box) for box in place.boxes) / 64**2 for place in colours_and_shapes(scenes)
    ]
    assert best.uniform_mass == worst.uniform_mass == pytest.approx(np.mean(areas))
    assert best.num_words == len(areas)


def test_a_peak_counts_if_half_of_its_cell_is_covered():
    """Weights are spread over the pixels of their cells: 3 x 3 pixels of a cell of 4 x
    4, and its half.
    """
    result = CaptionResult("dot", ["dot"], 0.0, np.array([[[0.8, 0.2], [0.0, 0.0]]]))
    found = {}
    for box in ((0, 0, 3, 3), (2, 0, 6, 4), (3, 0, 8, 4)):
        (found[box],) = [ground([result], [[WordPlace(0, "dot", "shape", (box,), (8, 8))]])]
    assert [one.mass for one in found.values()] == pytest.approx([0.8 * 9 / 16, 0.5, 0.4])
    assert [one.pointing for one in found.values()] == [1, 1, 0]


def test_its_figures_go_into_json(scenes):
    grounding = ground([result_of(scene, on_it) for scene in scenes], scenes)
    figures = json.loads(json.dumps(grounding.to_dict()))
    assert figures["mass"] == grounding.mass and figures["word_classes"]["shape"]["pointing"] == 1
    assert ground([], []).to_dict()["mass"] is None  # NaN is no JSON


def test_a_map_that_is_greatest_in_the_middle(scenes):
    for shape in ((8, 8), (7, 7), (14, 14), (3, 5), (1, 1)):
        middle = centred_map(shape)
        assert middle.shape == shape and middle.sum() == pytest.approx(1)
        np.testing.assert_allclose(middle, middle[::-1, ::-1])
        assert middle[shape[0] // 2, shape[1] // 2] == pytest.approx(middle.max())
    centred = ground(
        [result_of(scene, lambda place: centred_map((16, 16))) for scene in scenes], scenes
    )
    assert (
        centred.mass == pytest.approx(centred.centre_mass) and centred.mass > centred.uniform_mass
    )
    assert centred.pointing == pytest.approx(centred.centre_pointing)
    assert centred.coverage == pytest.approx(centred.centre_coverage)


def test_each_word_class_has_its_own_figures(scenes):
    results = [
        result_of(
            scene, lambda place: on_it(place) if place.word_class == "shape" else uniform(place)
        )
        for scene in scenes
    ]
    every = ground(results, scenes, word_classes=None)
    assert set(every.word_classes) == {"colour", "shape", "size", "relation"}
    assert every.word_classes["shape"].pointing == 1
    assert every.word_classes["colour"].pointing == pytest.approx(
        every.word_classes["colour"].uniform_pointing
    )
    assert every.num_words == sum(one.num_words for one in every.word_classes.values())
    weighted = sum(one.mass * one.num_words for one in every.word_classes.values())
    assert every.mass == pytest.approx(weighted / every.num_words)
    usual = ground(results, scenes)
    assert set(usual.word_classes) == {"colour", "shape"} and usual.word_classes[
        "shape"
    ].mass == pytest.approx(1)
    text = str(every)
    assert all(name in text for name in (*every.word_classes, "all of these", "pixel by pixel"))
    shape_row = next(line for line in text.split("\n") if line.startswith("shape"))
    assert shape_row.split()[1:3] == [str(every.word_classes["shape"].num_words), "100.0"]


def test_any_data_with_boxes(scenes):
    words = ["a", "dog", "chases", "cats"]
    maps = np.zeros((4, 2, 4))
    maps[:, 0, 0] = 1
    maps[3, 0, 0], maps[3, 1, 2:] = 0.2, 0.4
    result = CaptionResult("a dog chases cats", words, 0.0, maps)
    places = [
        WordPlace(1, "dog", "noun", ((0, 0, 20, 20),), (40, 80)),
        WordPlace(3, "cats", "noun", ((40, 20, 50, 40), (70, 30, 80, 35)), (40, 80)),
    ]
    found = ground([result], [places], word_classes=None)
    # The boxes of "cats" cover a half and an eighth of the two cells with its greatest
    # weight.
    assert (found.num_words, found.pointing) == (2, 0.75) and found.mass == pytest.approx(
        (1 + 0.4 * 5 / 8) / 2
    )
    assert found.uniform_mass == pytest.approx((1 + 5 / 8) / 8 / 2)
    with pytest.raises(
        ValueError, match="`places` with an entry for each of 1 results. Received: 0"
    ):
        ground([result], [])
    assert ground([result], [places]).num_words == 0, "colours and shapes are the usual ones"


def test_maps_without_numbers_are_not_hidden(scenes):
    lost = ground(
        [result_of(scene, lambda place: np.full((16, 16), np.nan)) for scene in scenes], scenes
    )
    assert math.isnan(lost.mass) and math.isnan(lost.pointing) and math.isnan(lost.coverage)
    assert lost.uniform_mass > 0 and lost.uniform_coverage > 0


def test_captions_that_are_not_true_do_not_count(scenes):
    wrong = [
        CaptionResult("a dog runs", ["a", "dog", "runs"], 0.0, np.full((3, 8, 8), 1 / 64))
        for _ in scenes
    ]
    nothing = ground(wrong, scenes)
    assert nothing.num_words == 0 and math.isnan(nothing.mass)
    assert "all of these" in str(nothing)


def test_the_scenes_of_the_data_set_are_found_again():
    images = [image for image in DATASETS["scenes"](None, num_scenes=60) if image.split == "test"]
    scenes = {scene.image_id: scene for scene in draw_scenes(60)}
    results = [result_of(scenes[image.image_id], on_it) for image in images]
    assert ground_scenes(images, results) == ground(
        results, [scenes[image.image_id] for image in images]
    )
    assert ground_scenes(images, results).pointing == 1


def covered_cells(count, shape=(6, 6)):
    """The first `count` cells of a grid, as the fraction of each cell that a box
    covers.
    """
    return (np.arange(np.prod(shape)) < count).reshape(shape).astype(float)


@pytest.mark.parametrize("count", [1, 5, 18, 30, 36])
def test_coverage_of_a_uniform_map_is_that_of_chance(count):
    fraction = max(0.5, count / 36)  # of each cell
    expected = fraction * count / (36 * fraction + count - fraction * count)
    assert coverage(np.full((6, 6), 1 / 36), covered_cells(count)) == pytest.approx(expected)
    noisy = np.full((6, 6), 1 / 36) * (1 + 1e-12 * np.arange(36).reshape(6, 6))
    assert coverage(noisy, covered_cells(count)) == pytest.approx(expected), (
        "rounding makes no order"
    )


@pytest.mark.parametrize("count", [1, 5, 18, 30, 36])
def test_coverage_of_a_map_equal_to_the_box_is_one(count):
    covered = covered_cells(count)
    assert coverage(covered / count, covered) == pytest.approx(1)
    covered[0, 0] = 0.5  # half of this cell belongs to the region, which has the area of the box
    both = count - 1 + 0.25
    assert coverage(covered / covered.sum(), covered) == pytest.approx(
        both / (2 * (count - 0.5) - both)
    )


def test_coverage_of_a_point_in_a_large_box():
    point = np.zeros((6, 6))
    point[0, 1] = 1
    # The region has as many cells as the box, and the cells without weight enter alike.
    for count in (2, 12, 30):
        shared = (count - 1) / 35
        both = 1 + (count - 1) * shared
        assert coverage(point, covered_cells(count)) == pytest.approx(both / (2 * count - both))
    assert coverage(point, covered_cells(1)) == 0, "it is beside this box"
    blob = 0.9 * covered_cells(12) / 12 + 0.1 / 36
    assert coverage(blob, covered_cells(12)) == 1 > coverage(point, covered_cells(12))


def coverage_in_words(attention_map, covered):
    """An independent transcription of `coverage`: whole groups of equal cells, then a
    part of the last one.
    """
    cells = sorted(zip(attention_map.ravel().tolist(), covered.ravel().tolist()), reverse=True)
    area = held = both = 0.0
    while cells:
        group = [cell for cell in cells if cell[0] == cells[0][0]]
        cells = cells[len(group) :]
        weight, size, on_box = group[0][0] * len(group), len(group), sum(c for _, c in group)
        part_for_half = (0.5 * attention_map.sum() - held) / weight if weight else 0.0
        part = min(1.0, max(part_for_half, (covered.sum() - area) / size, 0.0))
        area, held, both = area + part * size, held + part * weight, both + part * on_box
    return both / (area + covered.sum() - both)


def test_coverage_equals_its_transcription():
    rng = np.random.default_rng(0)
    for _ in range(50):
        attention_map = rng.integers(0, 4, (4, 5)) + np.eye(4, 5)  # many ties
        covered = rng.random((4, 5)) * (rng.random((4, 5)) < 0.4)
        attention_map = attention_map / attention_map.sum()
        assert coverage(attention_map, covered) == pytest.approx(
            coverage_in_words(attention_map, covered)
        )


def test_the_smallest_region_holds_its_share():
    rng = np.random.default_rng(0)
    attention_map = rng.dirichlet(np.full(49, 0.3)).reshape(7, 7)
    for share in (0.25, 0.5, 0.9):
        region = smallest_region(attention_map, share=share)
        assert (region * attention_map).sum() == pytest.approx(share, abs=1e-6)
        assert ((region > 0) & (region < 1)).sum() == 1
        assert attention_map[region == 0].max() < attention_map[region > 0].min()
    assert smallest_region(attention_map, at_least=30).sum() == pytest.approx(30)
