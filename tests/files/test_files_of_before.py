"""What version 0.1.0 wrote is read: golden/from_0_1, by golden/make_from_0_1.py."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import module_in
from PIL import Image

import keras_sat
from data_utils import FeatureCache
from data_utils.base import read_sealed_json, write_sealed_json
from data_utils.vocabulary import REGION_TOKEN
from keras_sat import Captioner
from keras_sat.export import LiteRTCaptioner

pytestmark = pytest.mark.usefixtures("without_graphs")
GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "from_0_1"
maker = module_in([GOLDEN], "make_from_0_1")


def assert_says(captioner, name, **options):
    said = json.loads((FOLDER / "said.json").read_text())[name]
    for found, expected in zip(maker.said_by(captioner, **options), said, strict=True):
        assert found["caption"] == expected["caption"]
        assert found["log_prob"] == pytest.approx(expected["log_prob"], abs=1e-3)
        np.testing.assert_allclose(found["map"], expected["map"], atol=1e-4)


def test_a_keras_file_says_the_same():
    assert_says(keras.saving.load_model(FOLDER / "soft.keras"), "soft.keras")


def test_a_folder_with_an_index_and_all_advice_goes_without_that_index():
    with pytest.warns(UserWarning, match="made by an earlier version.*keras-sat index"):
        captioner = Captioner.load(FOLDER / "with_advice")
    assert captioner.consensus is None and captioner.confidence is not None
    assert_says(captioner, "with_advice")


def test_a_folder_whose_captions_an_image_classifier_changed_says_so_until_it_is_saved(tmp_path):
    folder = Path(shutil.copytree(FOLDER / "with_advice", tmp_path / "model"))
    settings = read_sealed_json(folder / "config.json", "a model")
    settings["captioner"]["known_objects"] = True
    write_sealed_json(folder / "config.json", settings)
    with (
        pytest.warns(UserWarning, match="known_objects=True is ignored"),
        pytest.warns(UserWarning, match="index of training photos"),
    ):
        captioner = Captioner.load(folder)
    assert len([*folder.glob("objects-*.npz")]) == 1
    assert_says(captioner, "with_advice")
    captioner.save(folder)
    assert not [*folder.glob("objects-*.npz")]
    assert Captioner.load(folder).confidence is not None


def test_a_model_of_ones_own_with_our_layers_computes_the_same():
    _, inputs, _ = maker.own_model()
    model = keras.saving.load_model(FOLDER / "own_model.keras")
    with np.load(FOLDER / "own_model_outputs.npz") as expected:
        for output, name in zip(model.predict(inputs, verbose=0), expected.files, strict=True):
            np.testing.assert_allclose(output, expected[name], atol=1e-5)


def test_a_feature_cache_has_the_features_of_its_photos():
    encoder = maker.saved_encoder()
    cache = FeatureCache.open(FOLDER / "features", encoder=encoder)
    found = cache.features(cache.image_ids)
    expected = np.asarray(encoder(np.stack(maker.pictures())))
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_litert_folder_captions_without_keras_sat(tmp_path):
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    Image.fromarray(maker.pictures()[0]).save(tmp_path / "scene.png")
    ran = subprocess.run(
        [sys.executable, FOLDER / "litert" / "1" / "caption.py", tmp_path / "scene.png"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and ran.stdout.split(), ran.stderr


def test_the_network_of_a_page_says_what_its_captioner_says():
    """It asks which cells to describe, and for the word to start with."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    captioner = keras.saving.load_model(FOLDER / "soft.keras")
    exported = LiteRTCaptioner(FOLDER / "page_photo")
    pictures = maker.pictures()
    expected = captioner.caption(pictures, num_beams=3, max_length=8)
    for one, other in zip(exported.caption(pictures), expected, strict=True):
        assert one.caption == other.caption and REGION_TOKEN not in one.words
        assert one.log_prob == pytest.approx(other.log_prob, abs=0.1)  # of 8 bits
    region = (0.0, 0.0, 0.9, 0.9)
    part, same = (each.caption(pictures[0], region=region) for each in (exported, captioner))
    assert part.region == same.region and part.words


@pytest.mark.slow
@pytest.mark.parametrize("name", [*maker.STOPPED])
def test_a_stopped_training_resumes(name, tmp_path, capsys):
    shutil.copytree(FOLDER / name, tmp_path / name)
    settings = {**maker.settings_of(name), "show_progress": True}
    captioner = keras_sat.fit(
        maker.training_images()[:40],
        **{**settings, "output_dir": tmp_path / name, "cache_dir": tmp_path / "features"},
    )
    said = capsys.readouterr().out
    assert "resuming after" in said, said
    assert len(captioner.history["loss"]) == 3
