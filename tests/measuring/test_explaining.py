"""Maps for any captioner's words, by captioners whose answer is known."""

import numpy as np
import pytest
from helpers import photo_captioner, random_pixels

from keras_sat import explain_words, log_probs_of, removal_curves
from keras_sat.measuring import METHODS
from keras_sat.measuring.explaining import random_masks

REGIONS = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
SLOPES = np.random.default_rng(1).normal(size=(2, 12, 3)).astype("float32")
WORDS = ["a", "dog"]
RELEVANCE = np.sum(SLOPES * (REGIONS - REGIONS.mean(axis=0)), axis=-1)  # (words, regions)


def linear(regions, words):
    """A captioner whose log p is linear in the regions."""
    assert words == WORDS and len(regions) <= 64 and regions.dtype == np.float32
    return np.einsum("nld,wld->nw", regions, SLOPES) - 200


def test_what_a_region_adds_to_a_linear_captioner():
    maps = explain_words(
        linear, REGIONS, WORDS, methods=[*METHODS], gradients=SLOPES, num_masks=4000
    )
    assert {name: found.shape for name, found in maps.items()} == dict.fromkeys(METHODS, (2, 12))
    np.testing.assert_allclose(maps["occlusion"], RELEVANCE, atol=1e-3)
    np.testing.assert_allclose(maps["gradient"], RELEVANCE, atol=1e-4)
    # A slope for each region alone: the others' chance is what is left.
    assert np.abs(maps["rise"] - RELEVANCE).max() < 0.3 < np.abs(RELEVANCE).max()
    assert np.abs(np.corrcoef(maps["random"].ravel(), RELEVANCE.ravel())[0, 1]) < 0.5


def test_what_stands_in_the_place_of_a_region():
    for substitute in (np.ones(3), np.linspace(0, 1, 36).reshape(12, 3)):
        maps = explain_words(
            linear, REGIONS, WORDS, methods=["occlusion"], substitute=substitute, grid_shape=(3, 4)
        )
        expected = np.sum(SLOPES * (REGIONS - substitute), axis=-1)
        np.testing.assert_allclose(maps["occlusion"], expected.reshape(2, 3, 4), atol=1e-3)


def test_curves_by_hand():
    curves = removal_curves(linear, REGIONS, WORDS, RELEVANCE.reshape(2, 3, 4), levels=3)
    assert curves.shape == (2, 4)
    for word, curve in enumerate(curves):
        greatest_first = np.sort(RELEVANCE[word])[::-1]
        lost = np.log(curve[0]) - np.log(curve)
        np.testing.assert_allclose(lost, np.insert(greatest_first.cumsum()[3::4], 0, 0), atol=1e-3)


def test_masks_are_half_kept_and_of_neighbours():
    random = np.random.default_rng(0)
    alone, together = random_masks(2000, 35, None, random), random_masks(2000, 35, (5, 7), random)
    assert {*np.unique(alone)} == {0, 1} and together.min() >= 0 and together.max() <= 1
    for masks in (alone, together):
        np.testing.assert_allclose(masks.mean(axis=0), 0.5, atol=0.05)
    near, far = (np.corrcoef(together[:, 0], together[:, cell])[0, 1] for cell in (1, 6))
    assert near > 0.5 > 0.1 > abs(far)
    assert abs(np.corrcoef(alone[:, 0], alone[:, 1])[0, 1]) < 0.1


def test_a_seed_repeats_its_maps():
    first, again, other = (
        explain_words(linear, REGIONS, WORDS, methods=["rise", "random"], seed=seed)
        for seed in (1, 1, 2)
    )
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert (first[name] != other[name]).any()


@pytest.mark.parametrize("options", [{}, {"attention": "hard"}])
def test_a_captioner_of_this_package(options):
    captioner = photo_captioner(**options)
    features = captioner.encode(random_pixels(1, 16, 16, 3))
    (regions,) = np.asarray(captioner.decoder_features(features))
    words = ["a", "dog", "runs"]
    log_probs = log_probs_of(captioner)
    (read,) = captioner.attend_features(features, "a dog runs")
    np.testing.assert_allclose(
        log_probs(regions[None], words)[0], np.log(read.word_probs), rtol=1e-3, atol=1e-4
    )
    maps = explain_words(log_probs, regions, words, grid_shape=(4, 4), num_masks=20)
    assert maps["rise"].shape == maps["occlusion"].shape == (3, 4, 4)
    without = regions.copy()
    without[6] = regions.mean(axis=0)
    lost = np.log(read.word_probs) - log_probs(without[None], words)[0]
    np.testing.assert_allclose(maps["occlusion"][:, 1, 2], lost, atol=1e-4)
    curves = removal_curves(log_probs, regions, words, maps["occlusion"], levels=4)
    np.testing.assert_allclose(curves[:, 0], read.word_probs, rtol=1e-3)
    nothing = np.tile(regions.mean(axis=0), (1, 16, 1))
    np.testing.assert_allclose(curves[:, -1], np.exp(log_probs(nothing, words)[0]), rtol=1e-3)


@pytest.mark.parametrize(
    "changed, problem",
    [
        ({"regions": REGIONS[None]}, "vectors of one photo's regions"),
        ({"regions": REGIONS * np.nan}, "finite numbers"),
        ({"words": "a dog"}, "words of a sentence, in a list. Received: words='a dog'"),
        ({"words": []}, "words of a sentence"),
        ({"methods": ["lime"]}, "`methods` must be .*rise.* Received: methods='lime'"),
        ({"methods": ["gradient"]}, "needs the gradients.*\\(2, 12, 3\\).*gradients=None"),
        ({"substitute": np.ones(4)}, "substitute of shape \\(3,\\) or \\(12, 3\\)"),
        ({"grid_shape": (4, 4)}, "must have 12 regions. Received: grid_shape=\\(4, 4\\)"),
        ({"num_masks": 1}, "num_masks"),
        ({"batch_size": 0}, "batch_size"),
        ({"log_probs": lambda regions, words: np.zeros(3)}, "shape \\(1, 2\\)"),
        ({"log_probs": lambda regions, words: np.ones((len(regions), 2))}, "at most 0.*greatest 1"),
    ],
)
def test_what_is_rejected(changed, problem):
    with pytest.raises(ValueError, match=problem):
        explain_words(**{"log_probs": linear, "regions": REGIONS, "words": WORDS} | changed)


def test_maps_that_do_not_fit():
    for maps in (RELEVANCE[0], RELEVANCE[:, :5]):
        with pytest.raises(ValueError, match="a map of 12 regions for each of 2 words"):
            removal_curves(linear, REGIONS, WORDS, maps)
