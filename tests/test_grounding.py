import math

import numpy as np
import pytest

from data_utils import draw_scenes
from keras_sat import CaptionResult, ground


def result_of(scene, weights_of):
    """A result with the scene's first caption; `weights_of` gives the map of each place."""
    words = scene.captions[0].split()
    maps = np.full((len(words), 8, 8), 1 / 64)
    for place in scene.places(scene.captions[0]):
        maps[place.position] = weights_of(place)
    return CaptionResult(scene.captions[0], words, 0.0, maps)


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(40, seed=12)


def test_attention_on_the_object_and_beside_it(scenes):
    def on_it(place):
        cells = place.cells((8, 8)).astype(float)
        return cells / cells.sum()

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


def test_a_uniform_map_gets_the_share_of_the_cells(scenes):
    uniform = ground([result_of(scene, lambda place: np.full((8, 8), 1 / 64)) for scene in scenes], scenes)
    assert uniform.mass == pytest.approx(uniform.uniform_mass)
    closer = ground([result_of(scene, lambda place: np.full((8, 8), 1 / 64)) for scene in scenes], scenes, enlarge=0)
    assert closer.uniform_mass < uniform.uniform_mass


def test_captions_that_are_not_true_do_not_count(scenes):
    wrong = [CaptionResult("a dog runs", ["a", "dog", "runs"], 0.0, np.full((3, 8, 8), 1 / 64)) for _ in scenes]
    nothing = ground(wrong, scenes)
    assert nothing.num_words == 0 and math.isnan(nothing.mass)
