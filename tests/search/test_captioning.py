"""Captions of photos: in every form, in batches, with alternatives, and by chance."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from eight_photos import SMALL, compiled_captioner, small_encoder
from helpers import all_slow_but
from PIL import Image

import keras_sat
from data_utils import load_image
from keras_sat import Captioner

pytestmark = pytest.mark.usefixtures("attentions_of_our_own")


@pytest.fixture(scope="module")
def untrained(eight):
    keras.utils.set_random_seed(0)
    return Captioner(eight[1], encoder=small_encoder(), **SMALL)


def test_photos_in_every_form(eight, untrained):
    path = eight[0][0].image_path
    expected = untrained.caption(path)
    for form in (str(path), Image.open(path), load_image(path)):
        result = untrained.caption(form)
        assert result.words == expected.words and result.log_prob == pytest.approx(
            expected.log_prob, rel=1e-5
        )
    assert expected.image.shape == (16, 16, 3) and expected.image.dtype == np.uint8
    assert expected.caption == " ".join(expected.words)
    assert expected.attention_weights.shape == (len(expected.words), 2, 2)
    np.testing.assert_allclose(expected.attention_weights.sum(axis=(1, 2)), 1, rtol=1e-5)


def test_many_photos_in_batches(eight, untrained):
    paths = [image.image_path for image in eight[0]]
    together = untrained.caption(paths, batch_size=3)
    assert isinstance(together, list) and len(together) == 8 and untrained.caption([]) == []
    array = np.stack([load_image(path) for path in paths])
    for same in (array, tf.constant(array), iter(paths), eight[0]):
        assert [result.caption for result in untrained.caption(same)] == [
            result.caption for result in together
        ]
    for path, result in zip(paths, together):
        alone = untrained.caption(path)
        assert alone.caption == result.caption and alone.log_prob == pytest.approx(
            result.log_prob, rel=1e-5
        )


def test_results_know_the_file_of_their_photo(eight, untrained):
    images, _, cache = eight
    paths = [str(image.image_path) for image in images]
    assert untrained.caption(images[0].image_path).image_path == paths[0]
    assert [result.image_path for result in untrained.caption(images)] == paths
    result = untrained.caption(paths[0], num_beams=3, num_results=3)
    assert [other.image_path for other in result.alternatives] == [paths[0]] * 2
    assert untrained.attend(paths[1], "a dog").image_path == paths[1]
    found = dict(untrained.caption_each([paths[2], "missing.png"], errors="yield"))
    assert found[paths[2]].image_path == paths[2] and isinstance(
        found["missing.png"], FileNotFoundError
    )
    assert untrained.caption(load_image(paths[0])).image_path is None
    captioner = compiled_captioner(eight[1])
    assert [result.image_path for _, result in captioner.caption_each(images, cache=cache)] == paths
    assert [
        result.image_path for _, result in captioner.attend_each(images, "a dog", cache=cache)
    ] == paths


def test_alternatives_come_best_first(eight, untrained):
    result = untrained.caption(eight[0][0].image_path, num_beams=4, num_results=4)
    log_probs = [result.log_prob, *(other.log_prob for other in result.alternatives)]
    assert (
        len(log_probs) == 4
        and len({result.caption, *(o.caption for o in result.alternatives)}) == 4
    )
    finished = [result.is_finished, *(other.is_finished for other in result.alternatives)]
    assert finished == sorted(finished, reverse=True)
    assert log_probs == sorted(log_probs, reverse=True) or len(set(finished)) == 2


def test_sampled_captions_depend_on_the_seed_alone(eight, untrained):
    path = eight[0][0].image_path
    one, same, other = (
        untrained.caption(path, temperature=1.0, num_results=5, seed=seed) for seed in (1, 1, 2)
    )

    def captions(result):
        return [result.caption, *(alternative.caption for alternative in result.alternatives)]

    assert captions(one) == captions(same) != captions(other)
    unseeded = {
        tuple(captions(untrained.caption(path, temperature=1.0, num_results=5))) for _ in range(3)
    }
    assert len(unseeded) == 3, "without a seed each call draws others"
    state = random.getstate()
    untrained.caption(path)
    assert random.getstate() == state, "a search draws nothing"


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("num_members", all_slow_but(2, [1, 2]))
def test_the_probabilities_of_the_words_make_that_of_the_caption(eight, num_members):
    writer = keras_sat.Ensemble(
        [compiled_captioner(eight[1], seed=seed) for seed in range(num_members)]
    )
    features = eight[2].features(["0"])
    (best,) = writer.caption_features(
        features, temperature=2.0, num_results=6, max_length=5, seed=0
    )
    results = [best, *best.alternatives]
    assert {result.is_finished for result in results} == {True, False}
    for result in results:
        assert result.word_probs.shape == (len(result.words),)
        of_words = np.log(result.word_probs.astype(float)).sum()
        if not result.is_finished:
            assert of_words == pytest.approx(result.log_prob, abs=1e-4)
            continue
        (read,) = writer.attend_features(features, result.caption)
        np.testing.assert_allclose(read.word_probs, result.word_probs, rtol=1e-3)
        assert read.log_prob == pytest.approx(result.log_prob, abs=1e-3)
        assert result.log_prob < of_words, "the probability of <end> is in log_prob alone"


@pytest.mark.parametrize(
    "options", [{"temperature": 1.0, "num_results": 2}, {"sample_attention": True}]
)
def test_chance_belongs_to_the_photo_not_to_the_batch(eight, options):
    captioner = compiled_captioner(eight[1], attention="hard")
    features = np.repeat(eight[2].features(["0"]), 5, axis=0)
    options = {"seed": 0, "max_length": 4, **options}
    together, apart = (
        captioner.caption_features(features, batch_size=size, **options) for size in (5, 3)
    )
    for one, other in zip(together, apart):
        assert one.words == other.words and one.log_prob == pytest.approx(other.log_prob, rel=1e-5)
        np.testing.assert_allclose(one.attention_weights, other.attention_weights, atol=1e-5)
    # The same photo five times, each with its own chance.
    assert len({result.log_prob for result in together}) > 1


@pytest.mark.usefixtures("without_graphs")
def test_drawn_places_follow_the_attention_weights(eight):
    captioner = compiled_captioner(eight[1], attention="drawn")
    captioner.decoder.readout.word_logits.bias.assign(
        -10 * np.eye(len(eight[1]))[eight[1].end_token_id]
    )  # never ends
    for result in captioner.caption_features(eight[2].features(["0", "1"]), sample_attention=True):
        assert set(np.unique(result.attention_weights)) == {0.0, 1.0}
        np.testing.assert_array_equal(result.attention_weights.sum(axis=(1, 2)), 1)
    features = np.repeat(eight[2].features(["0"]), 4000, axis=0)
    options = {"num_beams": 1, "max_length": 1, "batch_size": 4000}
    drawn = captioner.caption_features(features, sample_attention=True, **options)
    expected = captioner.caption_features(features[:1], **options)[0].attention_weights
    np.testing.assert_allclose(
        np.mean([r.attention_weights for r in drawn], axis=0), expected, atol=0.035
    )


def test_searching_compiles_once(eight):
    captioner = compiled_captioner(eight[1])
    features = eight[2].features([str(number) for number in range(8)])
    for photos in (1, 3, 8):
        captioner.caption_features(features[:photos])
    (compiled,) = captioner.engine.graphs.values()
    assert compiled.experimental_get_tracing_count() == 1


def test_photos_are_read_by_the_photo_loader(untrained, monkeypatch):
    requests = []

    def load_black(image, size):
        requests.append((image, size))
        return np.zeros((*size, 3), np.uint8)

    monkeypatch.setattr(untrained, "photo_loader", load_black)
    result = untrained.caption("s3://bucket/photo.jpg")
    assert requests == [("s3://bucket/photo.jpg", (16, 16))] and not result.image.any()
