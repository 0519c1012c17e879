import json
import math

import numpy as np
import pytest

from data_utils import DATASETS, WordPlace, draw_scenes
from keras_sat import CaptionResult, ground
from keras_sat.scoring.grounding import centred_map, ground_scenes


def result_of(scene, weights_of):
    """A result with the scene's first caption; `weights_of` gives the map of each place."""
    words = scene.captions[0].split()
    maps = np.full((len(words), 8, 8), 1 / 64)
    for place in scene.places(scene.captions[0]):
        maps[place.position] = weights_of(place)
    return CaptionResult(scene.captions[0], words, 0.0, maps)


def uniform(place):
    return np.full((8, 8), 1 / 64)


def on_it(place):
    cells = place.cells((8, 8)).astype(float)
    return cells / cells.sum()


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(40, seed=12)


def test_attention_on_the_object_and_beside_it(scenes):
    def beside_it(place):
        cells = (~place.cells((8, 8), enlarge=1)).astype(float)
        return cells / cells.sum()

    best = ground([result_of(scene, on_it) for scene in scenes], scenes)
    assert best.mass == pytest.approx(1) and best.pointing == 1
    worst = ground([result_of(scene, beside_it) for scene in scenes], scenes)
    assert worst.mass == 0 and worst.pointing == 0
    assert 0.2 < best.uniform_mass == worst.uniform_mass < 0.5
    words = [place for scene in scenes for place in scene.places(scene.captions[0])]
    assert best.num_words == sum(place.word_class in ("colour", "shape") for place in words)


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
    centred = ground([result_of(scene, lambda place: centred_map((8, 8))) for scene in scenes], scenes)
    assert centred.mass == pytest.approx(centred.centre_mass) and centred.mass > centred.uniform_mass
    assert centred.pointing == pytest.approx(centred.centre_pointing)


def test_each_word_class_has_its_own_figures(scenes):
    results = [
        result_of(scene, lambda place: on_it(place) if place.word_class == "shape" else uniform(place))
        for scene in scenes
    ]
    every = ground(results, scenes, word_classes=None)
    assert set(every.word_classes) == {"colour", "shape", "size", "relation"}
    assert every.word_classes["shape"].pointing == 1
    assert every.word_classes["colour"].pointing == pytest.approx(every.word_classes["colour"].uniform_pointing)
    assert every.num_words == sum(one.num_words for one in every.word_classes.values())
    weighted = sum(one.mass * one.num_words for one in every.word_classes.values())
    assert every.mass == pytest.approx(weighted / every.num_words)
    usual = ground(results, scenes)
    assert set(usual.word_classes) == {"colour", "shape"} and usual.word_classes["shape"].mass == pytest.approx(1)
    text = str(every)
    assert all(name in text for name in (*every.word_classes, "all of these", "with 1 more cells"))
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
    found = ground([result], [places], word_classes=None, enlarge=0)
    assert (found.num_words, found.pointing) == (2, 1) and found.mass == pytest.approx(0.9)
    assert found.uniform_mass == pytest.approx((1 / 8 + 2 / 8) / 2)
    with pytest.raises(ValueError, match="`places` with an entry for each of 1 results. Received: 0"):
        ground([result], [])
    assert ground([result], [places]).num_words == 0, "colours and shapes are the usual ones"


def test_maps_without_numbers_are_not_hidden(scenes):
    lost = ground([result_of(scene, lambda place: np.full((8, 8), np.nan)) for scene in scenes], scenes)
    assert math.isnan(lost.mass) and math.isnan(lost.pointing) and lost.uniform_mass > 0


def test_captions_that_are_not_true_do_not_count(scenes):
    wrong = [CaptionResult("a dog runs", ["a", "dog", "runs"], 0.0, np.full((3, 8, 8), 1 / 64)) for _ in scenes]
    nothing = ground(wrong, scenes)
    assert nothing.num_words == 0 and math.isnan(nothing.mass)
    assert "all of these" in str(nothing)


def test_the_scenes_of_the_data_set_are_found_again():
    images = [image for image in DATASETS["scenes"](None, num_scenes=60) if image.split == "test"]
    scenes = {scene.image_id: scene for scene in draw_scenes(60)}
    results = [result_of(scenes[image.image_id], on_it) for image in images]
    assert ground_scenes(images, results) == ground(results, [scenes[image.image_id] for image in images])
    assert ground_scenes(images, results).pointing == 1
