"""Captions that are given: where captioners, and several of them together, look while
they read them.
"""

import json

import numpy as np
import pytest
from helpers import assert_same_caption, photo_captioner, random_pixels

from keras_sat import Ensemble
from keras_sat.__main__ import main

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.fixture
def photos():
    return list(random_pixels(3, 16, 16, 3))


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_it_is_what_the_whole_caption_at_once_gives(photos, attention):
    captioner = photo_captioner(attention=attention)
    result = captioner.attend(photos[0], "A dog flies, a cat runs.")
    assert (
        result.words == ["a", "dog", "flies", "a", "cat", "runs"]
        and result.caption == "a dog flies a cat runs"
    )
    vocabulary = captioner.vocabulary
    ids = vocabulary.caption_to_ids(result.caption)
    features = captioner.encode(photos[0][None])
    decoded = captioner((features, np.array([[vocabulary.start_token_id, *ids]])))
    maps = np.asarray(decoded.attention_weights)[0, :-1]
    np.testing.assert_allclose(
        result.attention_weights.reshape(len(ids), -1), maps, rtol=1e-4, atol=1e-6
    )
    logits = np.asarray(decoded.logits, float)[0]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    targets = [*ids, vocabulary.end_token_id]
    assert result.log_prob == pytest.approx(
        log_probs[np.arange(len(targets)), targets].sum(), rel=1e-4
    )
    assert result.is_finished and np.array_equal(result.image, photos[0])


def test_the_weights_of_regions_in_a_word_are_as_much_as_came_from_the_photo(photos):
    for sentinel in (True, False):
        result = photo_captioner(sentinel=sentinel, attends="after").attend(photos[0], "a dog")
        sums = result.photo_weights.sum(axis=(1, 2))
        assert result.photo_weights.shape == result.attention_weights.shape
        np.testing.assert_allclose(sums, result.from_photo if sentinel else 1, rtol=1e-5)
        assert (sums.max() < 0.99) == sentinel


def test_many_photos_and_captions_of_any_length(photos):
    captioner = photo_captioner()
    captions = ["a dog", "a cat sleeps a dog runs a cat sleeps a dog runs", "cat"]
    together = captioner.attend(photos, captions, batch_size=2)
    from_features = captioner.attend_features(captioner.encode(np.stack(photos)), captions)
    for result, its in zip(together, from_features):
        assert its.words == result.words and its.log_prob == pytest.approx(
            result.log_prob, rel=1e-4
        )
    for photo, caption, result in zip(photos, captions, together):
        alone = captioner.attend(photo, caption)
        tolerance = {"rtol": 1e-3, "atol": 1e-6}
        assert_same_caption(alone, result, log_prob={"rtol": 1e-4}, maps=tolerance)
    assert [result.words for result in captioner.attend(photos, "a dog")] == 3 * [["a", "dog"]]


@pytest.mark.slow
def test_an_ensemble_attends_too(photos):
    members = [photo_captioner(weights_seed=1), photo_captioner(weights_seed=2)]
    maps = [member.attend(photos[0], "a dog runs").attention_weights for member in members]
    together = Ensemble(members).attend(photos[0], "a dog runs")
    np.testing.assert_allclose(
        together.attention_weights, np.mean(maps, axis=0), rtol=1e-4, atol=1e-6
    )


def test_errors(photos):
    captioner = photo_captioner()
    for captions in (["a dog"], None, ["a dog", "a cat", None], "?!"):
        with pytest.raises(ValueError, match="for each of 3 images"):
            captioner.attend(photos, captions)
    with pytest.raises(ValueError, match="errors='skip'"):
        captioner.attend_each(photos, "a dog", errors="skip")


def test_say_on_the_command_line(photos, tmp_path, capsys):
    from PIL import Image

    captioner = photo_captioner()
    captioner.save(tmp_path / "model")
    Image.fromarray(photos[0]).save(tmp_path / "photo.png")
    files = [str(tmp_path / name) for name in ("photo.png", "missing.png")]
    command = [
        "caption",
        *files,
        "--model",
        str(tmp_path / "model"),
        "--json",
        "--maps",
        "--say",
        "A dog barks",
    ]
    assert main(command) == 2
    output, errors = capsys.readouterr()
    first, second = map(json.loads, output.splitlines())
    assert first["words"] == ["a", "dog", "barks"] and "No such file" in second["error"]
    expected = captioner.attend(photos[0], "a dog barks").attention_weights
    np.testing.assert_allclose(first["attention_weights"], expected, atol=1e-4)
    assert "unknown words: barks" in errors
    assert main([*command, "--num-beams", "3"]) == 2
    assert "--say with --num-beams" in capsys.readouterr().err
