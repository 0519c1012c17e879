import numpy as np
import pytest

import keras_sat
from data_utils import draw_scenes
from keras_sat.demo import report_on
from keras_sat.saved_model import pretrained_directory, pretrained_names


@pytest.mark.parametrize("name, truth, mass", [("scenes", 0.9, 0.8), ("scenes-hard", 0.8, 0.7)])
def test_the_scene_models_tell_the_truth_and_look_at_it(name, truth, mass):
    captioner = keras_sat.Captioner.from_pretrained(name)
    report, results = report_on(captioner, draw_scenes(100, seed=31))
    assert report["true_captions"] >= truth and report["attention_mass"] >= mass
    assert captioner.decoder.attention == ("hard" if "hard" in name else "soft")
    display = keras_sat.AttentionDisplay.from_result(results[0])
    assert display.attention_weights.shape[1:] == (8, 8)
    np.testing.assert_allclose(display.attention_weights.sum(axis=(1, 2)), 1, atol=1e-5)


def test_each_is_small_and_known_by_name():
    assert pretrained_names() == ["scenes", "scenes-hard"]
    for name in pretrained_names():
        size = sum(path.stat().st_size for path in pretrained_directory(name).iterdir())
        assert size <= 1_000_000
    with pytest.raises(ValueError, match="Expected one of: scenes, scenes-hard"):
        keras_sat.Captioner.from_pretrained("imagenet")
