"""The advice of messages is followed: what they name is passed, and it works."""

import re

import keras
import numpy as np
import pytest
from conftest import write_photos

import keras_sat
from data_utils import CaptionedImage
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.model.encoders import ENCODERS

ENCODER = {"encoder": "mobilenet_v2", "image_size": 8}
SIZES = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}


@pytest.fixture
def weights(monkeypatch, tmp_path):
    """The file with the weights of an encoder which cannot be downloaded."""

    def application(include_top, weights, input_shape):
        if weights == "imagenet":
            raise Exception("URL fetch failure on https://example.org/a.h5: None -- [Errno -2] Name not known")
        images = keras.Input(input_shape)
        return keras.Model(images, keras.layers.Conv2D(2, 4, strides=4, name="out_relu")(images))

    monkeypatch.setattr(keras.applications, "MobileNetV2", application)
    application(False, None, (8, 8, 3)).save_weights(tmp_path / "fetched.weights.h5")
    return tmp_path / "fetched.weights.h5"


@pytest.fixture
def photo():
    return np.full((8, 8, 3), 100, np.uint8)


def save(folder, photo, weights):
    """Save a captioner whose frozen encoder began with these weights."""
    captioner = Captioner(["dog", "runs"], encoder_weights=weights, **ENCODER, **SIZES)
    captioner.caption(photo, num_beams=1, max_length=2)
    captioner.save(folder)


def advised(error):
    """Return the argument that a message says to pass."""
    (name,) = re.findall(r"as `([\w-]+)`", str(error))
    assert f"{name}=" in str(error).partition("Received: ")[2]
    return name


@pytest.mark.parametrize("door", ["an encoder", "a captioner", "load", "from_pretrained", "moved"])
def test_weights_that_are_missing_are_passed_as_the_message_says(door, weights, photo, tmp_path, monkeypatch):
    missing = tmp_path / "moved.weights.h5"
    if door == "moved":
        missing.write_bytes(weights.read_bytes())
    if door in ("load", "from_pretrained", "moved"):
        save(tmp_path / "model", photo, missing if door == "moved" else weights)
    if door in ("load", "from_pretrained"):
        pretend_a_download(tmp_path / "model")
    if door == "moved":
        missing.unlink()
    monkeypatch.setattr("keras_sat.captioner.model_directory", lambda name: tmp_path / "model")
    search = {"num_beams": 1, "max_length": 2}
    call = {
        "an encoder": lambda **given: ENCODERS["mobilenet_v2"](image_size=8, **given),
        "a captioner": lambda **given: Captioner(["dog"], **ENCODER, **SIZES, **given).caption(photo, **search),
        "load": lambda **given: Captioner.load(tmp_path / "model", **given).caption(photo, **search),
        "from_pretrained": lambda **given: Captioner.from_pretrained("any", **given).caption(photo, **search),
        "moved": lambda **given: Captioner.load(tmp_path / "model", **given).caption(photo, **search),
    }[door]
    with pytest.raises(ValueError) as error:
        call()
    assert call(**{advised(error.value): weights}) is not None


def pretend_a_download(folder):
    """Change a saved captioner to one whose encoder has the weights that Keras downloads."""
    from data_utils.atomic_files import read_sealed_json, write_sealed_json

    settings = read_sealed_json(folder / "config.json", "settings")
    settings["captioner"]["encoder_weights"] = "imagenet"
    write_sealed_json(folder / "config.json", settings)


@pytest.mark.usefixtures("without_graphs")
def test_fit_takes_the_weights_as_its_message_says(weights, photo, tmp_path):
    images = [CaptionedImage(split, photo, ["a dog", "a dog"], split) for split in ("train", "dev")]
    options = {**ENCODER, **SIZES, "epochs": 1, "max_length": 2, "output_dir": tmp_path / "run"}
    with pytest.raises(ValueError) as error:
        keras_sat.fit(images, show_progress=False, **options)
    captioner = keras_sat.fit(images, show_progress=False, **options, **{advised(error.value): weights})
    assert len(captioner.history["loss"]) == 1


def test_the_command_line_takes_the_weights_as_its_message_says(weights, photo, tmp_path, capsys):
    save(tmp_path / "model", photo, weights)
    pretend_a_download(tmp_path / "model")
    write_photos(tmp_path / "mine", ["a.jpg"])
    (tmp_path / "mine" / "captions.csv").write_text("image,caption\na.jpg,A dog\n")
    data = ["--data", "folder", "--data-dir", str(tmp_path / "mine")]
    encoder = ["--encoder", "mobilenet_v2", "--image-size", "8", "--cache-dir", str(tmp_path / "cache")]
    search = ["--num-beams", "1", "--max-length", "2"]
    for command in (
        ["features", *data, *encoder],
        ["caption", str(tmp_path / "mine"), "--model", str(tmp_path / "model"), *search],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("--encoder-weights") == 2 and error.count("\n") == 1 and "Captioner" not in error
        assert main([*command, advised(error), str(weights)]) == 0, capsys.readouterr().err
        capsys.readouterr()
