"""The second opinion on a caption's confidence."""

import dataclasses

import numpy as np
import pytest

from keras_sat import Captioner, calibrate
from keras_sat.beyond.consensus import Consensus
from keras_sat.beyond.second_opinion import CLUES, SecondOpinion, clues_of
from keras_sat.search.result import CaptionResult

COEFFICIENTS = [0.1, 0.8, 2.0, 1.5, 0.3]


def a_result(**fields):
    known = {"confidence": 0.5, "consensus": 0.1, "nearness": 0.6, "evidence": 1.0}
    return CaptionResult("a dog", ["a", "dog"], -3.0, np.zeros((2, 1, 1)), **{**known, **fields})


def test_it_is_a_logistic_regression_of_the_clues():
    opinion = SecondOpinion(COEFFICIENTS)
    (result,) = opinion([a_result(confidence=0.75)])
    odds = np.exp(0.1 + 0.8 * np.log(3) + 2.0 * 0.1 + 1.5 * 0.6 + 0.3 * 1.0)
    assert result.confidence == pytest.approx(odds / (1 + odds))
    assert clues_of(a_result(evidence=None), 0.5).tolist() == [0.0, 0.1, 0.6, 0.0]
    assert (
        len(clues_of(a_result(), 1.0)) == len(CLUES)
        and np.isfinite(clues_of(a_result(), 1.0)).all()
    )


def test_alternatives_are_corrected_and_what_is_no_photo_stays_at_0():
    opinion = SecondOpinion(COEFFICIENTS)
    other = a_result(consensus=0.3)
    (result,) = opinion([dataclasses.replace(a_result(confidence=0.0), alternatives=[other])])
    assert result.confidence == 0.0 and result.alternatives[0].confidence > 0.5
    for unknown in (a_result(confidence=None), a_result(consensus=None)):
        assert opinion([unknown])[0] == dataclasses.replace(unknown, alternatives=[])


@pytest.mark.parametrize("coefficients", [[1.0], [0.0] * 4 + [np.nan], []])
def test_damaged_coefficients_are_rejected(coefficients):
    with pytest.raises(ValueError, match="second opinion of this model is damaged"):
        SecondOpinion(coefficients)


@pytest.mark.slow
def test_calibrate_fits_it_and_it_is_saved(scenes, tmp_path):
    captioner = Captioner.from_pretrained("scenes").adapted(consensus_weight=3.0)
    captioner.consensus = Consensus.build(captioner, scenes, show_progress=False)
    paths = [scene.image_path for scene in scenes[:8]]
    measured = calibrate(captioner, scenes, show_progress=False)
    assert 0 <= measured.expected_error < 0.2
    found = captioner.caption(paths)
    assert all(0 < result.confidence < 1 and result.nearness > 0.5 for result in found)
    first = captioner.second_opinion
    captioner.second_opinion = None
    plain = captioner.caption(paths)
    captioner.second_opinion = first
    expected = [first([result])[0].confidence for result in plain]
    assert [result.confidence for result in found] == pytest.approx(expected)
    assert [result.caption for result in found] == [result.caption for result in plain]
    captioner.save(tmp_path / "model")
    captioner.save(tmp_path / "model.keras")
    for name in ("model", "model.keras"):
        loaded = Captioner.load(tmp_path / name).caption(paths)
        confidences = [result.confidence for result in loaded]
        assert confidences == pytest.approx([result.confidence for result in found], abs=1e-4)
    calibrate(captioner.adapted(consensus_weight=0.0), scenes, show_progress=False)
