"""Misspelt options are guessed at, wherever they are passed."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import write_photos
from PIL import Image

import keras_sat
from data_utils import find_pictures, load_image
from keras_sat import Captioner, Ensemble
from keras_sat.training import recipe

SIZES = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}


@pytest.fixture(scope="module")
def captioner():
    captioner = Captioner(["dog", "runs"], encoder=None, **SIZES)
    captioner.build(((None, 6, 7), (None, None)))
    return captioner


def test_each_door_guesses_what_was_meant(captioner, monkeypatch):
    monkeypatch.setattr(recipe, "read_data", None)
    monkeypatch.setattr("keras_sat.scoring.evaluate.read_data", None)
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
    with pytest.raises(ValueError, match="no such option. Expected one of: num_beams, max_length.* Received: qqqqq"):
        captioner.caption_features(features, qqqqq=3)
    with pytest.raises(TypeError, match="features"):
        captioner.caption_features()


@pytest.mark.parametrize("rate", ["1e-3", "cosine", [0.1], 0, -1.0, float("nan")])
def test_learning_rates_that_are_none_are_refused_at_once(rate, captioner, monkeypatch):
    monkeypatch.setattr(recipe, "read_data", None)
    for call in (keras_sat.fit, lambda data, learning_rate: captioner.compile(learning_rate=learning_rate)):
        with pytest.raises(ValueError, match="`learning_rate` must be above 0: a number such as 0.0004, or a schedule"):
            call([], learning_rate=rate)


def test_schedules_and_numbers_are_learning_rates(captioner):
    for rate in (0.1, 1, np.float32(0.1), keras.optimizers.schedules.CosineDecay(0.1, 10)):
        captioner.compile(learning_rate=rate)


def test_what_caption_takes(tmp_path):
    write_photos(tmp_path / "photos", ["b.png", "a.png"], size=(16, 16))
    write_photos(tmp_path / "photos" / "deep", ["c.png"], size=(16, 16))
    (tmp_path / "empty").mkdir()
    captioner = Captioner(["dog", "runs"], encoder="tiny", image_size=16, **SIZES)
    search = {"num_beams": 1, "max_length": 2}
    folder = tmp_path / "photos"
    photos = {path: load_image(path) for path in find_pictures(folder, recursive=True)}
    a, b, c = photos.values()

    def seen(images, **options):
        results = captioner.caption(images, **options, **search)
        return [result.image for result in results] if isinstance(results, list) else results.image

    with pytest.warns(UserWarning, match="1 picture in subfolders left out"):
        np.testing.assert_array_equal(seen(folder), [a, b])
    np.testing.assert_array_equal(seen(str(folder), recursive=True), [a, b, c])
    np.testing.assert_array_equal(seen([f"{folder}/b*", str(folder / "a.png"), b]), [b, a, b])
    np.testing.assert_array_equal(seen(f"{folder}/a*"), [a])
    np.testing.assert_array_equal(seen(folder / "a.png"), a)
    for batch in (a[None], tf.constant(a[None]), [a], [tf.constant(a)], [Image.fromarray(a)], (a.astype(float),)):
        np.testing.assert_array_equal(seen(batch), [a])
    grey = a[:, :, 0]
    for image in (grey, grey[:, :, None], Image.fromarray(grey)):
        np.testing.assert_array_equal(seen(image), np.repeat(grey[:, :, None], 3, axis=2))
    for image in (a / 255, a[None] / 255.0, [tf.constant(a / 255.0)]):
        with pytest.raises(ValueError, match="look like 0..1: multiply them by 255"):
            captioner.caption(image, **search)
    with pytest.raises(ValueError, match="between -1 and 1: make them 0..255 again"):
        captioner.caption(a / 127.5 - 1, **search)
    with pytest.raises(ValueError, match="must hold values 0..255, and these are true and false: multiply them by 255"):
        captioner.caption(a > 100, **search)
    with pytest.raises(ValueError, match="empty: there is no picture in this folder"):
        captioner.caption(tmp_path / "empty", **search)
    with pytest.raises(FileNotFoundError):
        captioner.caption(f"{folder}/*.gif", **search)


@pytest.mark.parametrize("name", ["x.keras", "x.h5", "x.weights.h5", "x.ZIP", "sub/x.hdf5", "x.npz"])
def test_one_file_is_no_place_for_a_captioner(name, captioner, tmp_path):
    message = r"captioner.save\(folder\).*keras_sat.Captioner.load\(folder\) loads it"
    with pytest.raises(ValueError, match=message):
        captioner.save(tmp_path / name)
    assert not list(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=message):
        keras.saving.save_model(captioner, tmp_path / "x.keras")
    captioner.save(tmp_path / "v1.5")
    assert Captioner.load(tmp_path / "v1.5").weights_digest() == captioner.weights_digest()
