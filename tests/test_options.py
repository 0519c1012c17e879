"""Misspelt options are guessed at, wherever they are passed."""

import keras
import numpy as np
import pytest

import keras_sat
from keras_sat import Captioner, Ensemble, recipe

SIZES = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}


@pytest.fixture(scope="module")
def captioner():
    captioner = Captioner(["dog", "runs"], encoder=None, **SIZES)
    captioner.build(((None, 6, 7), (None, None)))
    return captioner


def test_each_door_guesses_what_was_meant(captioner, monkeypatch):
    monkeypatch.setattr(recipe, "read_data", None)
    monkeypatch.setattr("keras_sat.evaluation.read_data", None)
    features = np.zeros((1, 6, 7), np.float32)
    for call, meant in (
        (lambda: keras_sat.fit([], num_beems=3), "fit .* mean num_beams"),
        (lambda: keras_sat.fit([], hiden_dim=3), "fit .* mean hidden_dim"),
        (lambda: keras_sat.fit([], vocabulery=3), "fit has no such option"),
        (lambda: Captioner(["dog"], encoder=None, lenght_penalty=3), "Captioner .* mean length_penalty"),
        (lambda: captioner.caption([], num_beems=3), "caption .* mean num_beams"),
        (lambda: captioner.caption([], batchsize=3), "caption .* mean batch_size"),
        (lambda: captioner.caption_features(features, max_lenght=3), "caption_features .* mean max_length"),
        (lambda: Ensemble([captioner]).caption([], temprature=3), "caption .* mean temperature"),
        (lambda: keras_sat.evaluate(captioner, "scenes", splitt="dev"), "evaluate .* mean split"),
    ):
        with pytest.raises(ValueError, match=meant):
            call()
    with pytest.raises(ValueError, match="no such option. Expected one of: features, num_beams.* Received: qqqqq"):
        captioner.caption_features(features, qqqqq=3)
    with pytest.raises(TypeError, match="features"):
        captioner.caption_features()


@pytest.mark.parametrize("rate", ["1e-3", "cosine", None, [0.1], 0, -1.0, float("nan")])
def test_learning_rates_that_are_none_are_refused_at_once(rate, captioner, monkeypatch):
    monkeypatch.setattr(recipe, "read_data", None)
    for call in (keras_sat.fit, lambda data, learning_rate: captioner.compile(learning_rate=learning_rate)):
        with pytest.raises(ValueError, match="`learning_rate` must be above 0: a number such as 0.0004, or a schedule"):
            call([], learning_rate=rate)


def test_schedules_and_numbers_are_learning_rates(captioner):
    for rate in (0.1, 1, np.float32(0.1), keras.optimizers.schedules.CosineDecay(0.1, 10)):
        captioner.compile(learning_rate=rate)
