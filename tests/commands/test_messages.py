"""The advice of messages is followed: what they name is passed, and it works."""

import re

import keras
import numpy as np
import pytest
from helpers import write_photos

import keras_sat
from data_utils import CaptionedImage
from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.network import ENCODERS

pytestmark = pytest.mark.usefixtures("without_graphs")
ENCODER = {"encoder": "mobilenet_v2", "image_size": 8}
SIZES = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}
SEARCH = {"num_beams": 1, "max_length": 2}
PHOTO = np.full((8, 8, 3), 100, np.uint8)


@pytest.fixture
def weights(monkeypatch, tmp_path):
    """The file with the weights of an encoder which cannot be downloaded."""

    def application(include_top, weights, input_shape):
        if weights == "imagenet":
            raise Exception(
                "URL fetch failure on https://example.org/a.h5: None -- [Errno -2] Name not known"
            )
        images = keras.Input(input_shape)
        return keras.Model(images, keras.layers.Conv2D(2, 4, strides=4, name="out_relu")(images))

    monkeypatch.setattr(keras.applications, "MobileNetV2", application)
    application(False, None, (8, 8, 3)).save_weights(tmp_path / "fetched.weights.h5")
    return tmp_path / "fetched.weights.h5"


@pytest.fixture
def saved(weights, tmp_path):
    """The folder of a captioner whose frozen encoder has the weights that Keras
    downloads.
    """
    captioner = Captioner(["dog", "runs"], encoder_weights=weights, **ENCODER, **SIZES)
    captioner.caption(PHOTO, **SEARCH)
    captioner.save(tmp_path / "model")
    settings = read_sealed_json(tmp_path / "model" / "config.json", "settings")
    settings["captioner"]["encoder_weights"] = "imagenet"
    write_sealed_json(tmp_path / "model" / "config.json", settings)
    return tmp_path / "model"


def advised(error):
    """Return the argument that a message says to pass."""
    (name,) = re.findall(r"as `([\w-]+)`", str(error))
    assert f"{name}=" in str(error).partition("Received: ")[2]
    return name


@pytest.mark.parametrize(
    "call",
    [
        lambda folder, **given: ENCODERS["mobilenet_v2"](image_size=8, **given),
        lambda folder, **given: Captioner(["dog"], **ENCODER, **SIZES, **given).caption(
            PHOTO, **SEARCH
        ),
        lambda folder, **given: Captioner.load(folder, **given).caption(PHOTO, **SEARCH),
    ],
    ids=["an encoder", "a captioner", "a saved captioner"],
)
def test_weights_that_are_missing_are_passed_as_the_message_says(call, weights, saved):
    with pytest.raises(ValueError) as error:
        call(saved)
    assert call(saved, **{advised(error.value): weights}) is not None


def test_fit_takes_the_weights_as_its_message_says(weights, tmp_path):
    images = [CaptionedImage(split, PHOTO, ["a dog", "a dog"], split) for split in ("train", "dev")]
    options = {**ENCODER, **SIZES, "epochs": 1, "max_length": 2, "output_dir": tmp_path / "run"}
    with pytest.raises(ValueError) as error:
        keras_sat.fit(images, show_progress=False, **options)
    captioner = keras_sat.fit(
        images, show_progress=False, **options, **{advised(error.value): weights}
    )
    assert len(captioner.history["loss"]) == 1


def test_the_command_line_takes_the_weights_as_its_message_says(weights, saved, tmp_path, capsys):
    write_photos(tmp_path / "mine", ["a.jpg"])
    (tmp_path / "mine" / "captions.csv").write_text("image,caption\na.jpg,A dog\n")
    features = [
        "features",
        "--data",
        "folder",
        "--data-dir",
        str(tmp_path / "mine"),
        "--encoder",
        "mobilenet_v2",
    ]
    for command in (
        [*features, "--image-size", "8", "--cache-dir", str(tmp_path / "cache")],
        [
            "caption",
            str(tmp_path / "mine"),
            "--model",
            str(saved),
            "--num-beams",
            "1",
            "--max-length",
            "2",
        ],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert (
            error.count("--encoder-weights") == 2
            and error.count("\n") == 1
            and "Captioner" not in error
        )
        assert main([*command, advised(error), str(weights)]) == 0, capsys.readouterr().err
        capsys.readouterr()
