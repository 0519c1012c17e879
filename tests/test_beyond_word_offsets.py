"""Word offsets against their definition; calibration fits them, a search adds them, and models are saved with them."""

import numpy as np
import pytest

from data_utils import DATASETS, Vocabulary
from keras_sat.beyond.calibration import calibrate
from keras_sat.beyond.ensemble import Ensemble
from keras_sat.beyond.word_offsets import WordOffsets
from keras_sat.captioner import Captioner

WORDS = ["a", "dog", "cat", "man", "woman"]


def test_offsets_compare_how_often_people_and_the_captioner_say_a_word():
    captions = [["a", "dog", "dog"], ["a", "man"]] * 20  # "dog" 20 times, "man" 20 times
    references = [[["a", "dog"], ["a", "cat"]], [["a", "man"], ["a", "man"]]] * 20  # 10, 10 and 20 times
    found = WordOffsets.fitted(Vocabulary(WORDS), captions, references, weight=0.5)
    assert found.by_word == {"dog": round(0.5 * np.log(15 / 25), 3), "cat": round(0.5 * np.log(15 / 5), 3)}
    wild = WordOffsets.fitted(Vocabulary(WORDS), captions, references, weight=90.0)
    assert wild.by_word == {"dog": -2.0, "cat": 2.0}


@pytest.mark.parametrize("damaged", [{"horse": 1.0}, {"dog": 9.0}, {"dog": "1"}, {"dog": float("nan")}, [1.0], "dog"])
def test_damaged_offsets_are_rejected(damaged):
    with pytest.raises(ValueError, match="word offsets of this model are damaged"):
        WordOffsets(Vocabulary(WORDS), damaged)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return DATASETS["scenes"](tmp_path_factory.mktemp("scenes"), num_scenes=120, seed=77)


def test_a_search_adds_them_and_they_are_saved(scenes, tmp_path):
    captioner = Captioner.from_pretrained("scenes")
    photos = [scene.image_path for scene in scenes[:8]]
    plain = captioner.caption(photos)
    assert any("red" in result.words for result in plain)
    offsets = WordOffsets(captioner.vocabulary, {"red": -2.0, "blue": 0.5})
    without = captioner.attend(photos[0], "a red circle")
    captioner.word_offsets = offsets
    captioner.graphs.clear()
    changed = captioner.attend(photos[0], "a red circle")
    assert changed.word_probs[1] < without.word_probs[1]
    ratio = changed.word_probs[1] / without.word_probs[1]  # both sides of Bayes' rule for one constant
    assert ratio >= np.exp(-2.0) / (1 + np.exp(0.5))
    captioner.save(tmp_path / "model")
    loaded = Captioner.from_pretrained(tmp_path / "model")
    assert loaded.word_offsets.by_word == offsets.by_word
    assert loaded.attend(photos[0], "a red circle").log_prob == pytest.approx(changed.log_prob, abs=1e-5)
    own = captioner.caption(photos[0])
    assert captioner.attend(photos[0], own.caption).log_prob == pytest.approx(own.log_prob, abs=1e-4)
    twice = Ensemble([captioner, captioner]).caption(photos[0])
    assert twice.log_prob == pytest.approx(own.log_prob, abs=1e-4)


def test_calibration_fits_and_removes_them(scenes):
    captioner = Captioner.from_pretrained("scenes")
    calibrate(captioner, scenes, word_offset_weight=0.5, show_progress=False)
    assert captioner.word_offsets.by_word
    calibrate(captioner, scenes, show_progress=False)
    assert captioner.word_offsets is not None
    calibrate(captioner, scenes, word_offset_weight=0, show_progress=False)
    assert captioner.word_offsets is None
    with pytest.raises(ValueError, match="at least 0"):
        calibrate(captioner, scenes, word_offset_weight=-1, show_progress=False)
