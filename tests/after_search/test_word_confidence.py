"""Confidence of nouns: its formula, its calibration, where it is saved and shown."""

import dataclasses
import json

import numpy as np
import pytest
from helpers import photo_captioner, random_pixels

from data_utils import CaptionedImage
from keras_sat.after_search.calibration import calibrate, logistic_regression
from keras_sat.after_search.confidence import Confidence, of_nouns
from keras_sat.commands.caption import line_of
from keras_sat.looking import AttentionDisplay
from keras_sat.looking.decision import decision_at, percent
from keras_sat.looking.player import figure_data, player_page
from keras_sat.search import DOUBTFUL, CaptionResult

pytestmark = pytest.mark.usefixtures("module_without_graphs")
LIMITS = [1.0, 2.0, 4.0, 8.0]
SURE, UNSURE = DOUBTFUL + 0.1, DOUBTFUL - 0.1


@pytest.fixture(scope="module")
def captioner():
    """A captioner whose nouns are the more confident, the more probable they are."""
    found = photo_captioner()
    # Each photo has a usual norm, and each caption the confidence .5.
    found.confidence = Confidence(np.zeros(5), [-2.0, -1.0, 1e6, 1e7], [1.0, 0.5, 0.0])
    return found


@pytest.fixture
def result():
    return CaptionResult(
        caption="a dog on grass",
        words=["a", "dog", "on", "grass"],
        log_prob=-1.0,
        attention_weights=np.full((4, 2, 2), 0.25),
        image=random_pixels(8, 8, 3),
        confidence=0.5,
        word_confidence=np.array([np.nan, UNSURE, np.nan, SURE]),
    )


def test_it_is_a_sigmoid_of_log_p_and_of_the_captions_confidence():
    confidence = Confidence(np.zeros(5), LIMITS, [1.0, 2.0, -3.0])
    word_probs = np.array([[[0.5, 1.0, 0.0], [0.25, 0.0, 0.0]]], "float32")
    found = np.asarray(confidence.of_words(word_probs, np.array([[0.2, 0.4]])))
    scores = [1 + 2 * np.log(0.5) - 0.6, 1 - 0.6, 1 + 2 * np.log(0.25) - 1.2]
    np.testing.assert_allclose(
        found[0, [0, 0, 1], [0, 1, 0]], 1 / (1 + np.exp(-np.array(scores))), rtol=1e-5
    )
    assert np.isfinite(found).all()


def test_damaged_coefficients():
    for damaged in ([1.0, 2.0], [1.0, 2.0, np.inf], [[1.0, 2.0, 3.0]]):
        with pytest.raises(ValueError, match="confidence of this model is damaged"):
            Confidence(np.zeros(5), LIMITS, damaged)


def test_only_nouns_have_one():
    found = of_nouns(["a", "brown", "dog", "runs"], [0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(found, [np.nan, np.nan, 0.3, np.nan])
    assert of_nouns([], [0.1]).shape == (0,)


def test_a_search_finds_it(captioner):
    results = captioner.caption([random_pixels(16, 16, 3, seed=n) for n in range(3)], num_beams=2)
    for result in results:
        for one in (result, *result.alternatives):
            expected = 1 / (1 + np.exp(-(1 + 0.5 * np.log(one.word_probs))))
            np.testing.assert_allclose(
                one.word_confidence, of_nouns(one.words, expected), rtol=1e-4
            )


def test_it_is_saved_with_the_captioner(captioner, tmp_path):
    captioner.save(tmp_path / "model")
    loaded = type(captioner).load(tmp_path / "model")
    assert loaded.confidence.to_dict() == captioner.confidence.to_dict()
    without = Confidence(np.zeros(5), LIMITS)
    assert Confidence(**without.to_dict()).word_coefficients is None


def test_calibration_fits_it_on_the_nouns_of_captions(captioner, monkeypatch):
    """Half of the photos have references that support what is said."""
    photos = [random_pixels(16, 16, 3, seed=number) for number in range(120)]
    said = captioner.caption(photos, num_beams=1, max_length=4)
    images = [
        CaptionedImage(f"{number}", photo, [result.caption if number % 2 else "nothing"])
        for number, (photo, result) in enumerate(zip(photos, said))
    ]
    monkeypatch.setattr(
        captioner,
        "search_settings",
        dataclasses.replace(captioner.search_settings, num_beams=1, max_length=4),
    )
    monkeypatch.setattr(captioner, "confidence", None)
    monkeypatch.setattr(captioner, "training_photos", None)
    monkeypatch.setattr("data_utils.nouns.listed_nouns", lambda: ({"a", "dog", "flies"}, {}))
    measured = calibrate(captioner, images, show_progress=False)
    nouns = measured.of_nouns
    assert len(nouns.are_right) >= 100 and 0.3 < nouns.are_right.mean() < 0.7
    assert f"of {len(nouns.are_right)} nouns are in a reference" in str(measured)
    assert json.loads(json.dumps(measured.to_dict()))["nouns"]["nouns"] == len(nouns.are_right)
    assert captioner.confidence.word_coefficients.shape == (3,)


def test_without_nouns_there_is_none(captioner, scenes, monkeypatch):
    from keras_sat import Captioner

    bundled = Captioner.from_pretrained("scenes")
    measured = calibrate(bundled, scenes, show_progress=False)
    assert measured.of_nouns is None and bundled.confidence.word_coefficients is None
    result = bundled.caption(scenes[0].image_path)
    assert result.word_confidence is None and not any(result.doubtful)
    assert "word_confidence" not in result.to_dict()


# === Where it is shown ===


def test_in_json(result):
    expected = [None, pytest.approx(UNSURE), None, pytest.approx(SURE)]
    assert json.loads(json.dumps(result.to_dict()))["word_confidence"] == expected


def test_on_a_terminal(result, monkeypatch):
    assert line_of("a.jpg", result, None) == "a.jpg\ta dog on grass", "programs read that"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert line_of("a.jpg", result, None) == "a.jpg\ta dog(?) on grass (confidence 50 %)"


def test_on_figures(result):
    from matplotlib import pyplot as plt

    display = AttentionDisplay.from_result(result)
    assert display.doubtful == [False, True, False, False]
    axes = display.plot()
    assert [panel.get_title() for panel in axes[1:3]] == ["dog (?)", "grass"]
    texts = [text.get_text() for text in axes[0].figure.texts]
    assert any("Nouns with (?) may be made up" in text for text in texts)
    plt.close("all")
    plain = AttentionDisplay.from_result(dataclasses.replace(result, word_confidence=None))
    axes = plain.plot()
    assert axes[1].get_title() == "dog"
    assert not any("made up" in text.get_text() for text in axes[0].figure.texts)
    plt.close("all")
    with pytest.raises(ValueError, match="`doubtful` must have a value for each word"):
        dataclasses.replace(display, doubtful=[True])


def test_in_players(result):
    display = AttentionDisplay.from_result(result)
    assert figure_data(display)["doubtful"] == [False, True, False, False]
    assert "Nouns with a question mark may be made up." in player_page(display)
    plain = AttentionDisplay.from_result(dataclasses.replace(result, word_confidence=None))
    assert "Nouns with a question mark" not in player_page(plain)


def test_in_the_explorer(captioner):
    photo = random_pixels(16, 16, 3)
    trace = captioner.trace(photo, num_beams=1, max_length=4)
    words = trace.words
    word_confidence = np.array([UNSURE, *[np.nan] * (len(words) - 1)])
    trace.result = dataclasses.replace(trace.result, word_confidence=word_confidence)
    parts = trace.steps[0].said.parts
    reason = decision_at(trace, 0, [])["reason"]
    assert f"It may be made up (confidence {percent(UNSURE)})" in reason
    assert f"memory adds {parts['memory']:.1f} to its logit" in reason
    for t in range(1, len(trace.steps)):
        assert "made up" not in decision_at(trace, t, [])["reason"]


def test_logistic_regression_of_nouns_is_that_of_captions():
    """Rare classes do not stop it."""
    clues = np.stack([np.linspace(-3, 0, 200), np.linspace(0, 1, 200)], axis=-1)
    assert np.isfinite(logistic_regression(clues, np.arange(200) > 3)).all()
