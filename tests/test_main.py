import subprocess
import sys

import pytest
from conftest import write_photos

from data_utils import FeatureCache
from keras_sat.__main__ import ENCODER_NAMES, main
from keras_sat.encoders import ENCODERS


def test_help_and_version(capsys):
    for arguments in (["--help"], ["features", "--help"], ["info", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0
    assert "keras-sat" in capsys.readouterr().out
    assert tuple(ENCODERS) == ENCODER_NAMES  # written out there, so that help needs no TensorFlow


def test_features_of_your_own_pictures(tmp_path, capsys):
    write_photos(tmp_path / "mine", ["a.jpg", "b.jpg"])
    (tmp_path / "mine" / "captions.csv").write_text("image,caption\na.jpg,A dog\nb.jpg,A cat\n")
    command = ["features", "--data", "folder", "--data-dir", str(tmp_path / "mine"), "--encoder", "mobilenet_v2"]
    command += ["--image-size", "64", "--cache-dir", str(tmp_path / "cache"), "--encoder-weights"]
    weights = tmp_path / "mobilenet.weights.h5"
    assert main([*command, str(weights)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keras-sat: The weights file does not exist") and error.count("\n") == 1
    encoder = ENCODERS["mobilenet_v2"](weights=None, image_size=64)
    next(layer for layer in encoder.layers if layer.name.endswith("trunk")).save_weights(weights)
    assert main([*command, str(weights)]) == 0
    assert "2 photos, 2 x 2 x 1280 each" in capsys.readouterr().out
    assert len(FeatureCache.open(tmp_path / "cache")) == 2


def test_bad_input_is_one_line_and_status_2(tmp_path, capsys):
    command = [
        "features",
        "--encoder",
        "tiny",
        "--data-dir",
        str(tmp_path),
        "--cache-dir",
        str(tmp_path / "c"),
        "--data",
    ]
    for data in ("flickr8k", "folder", "coco"):
        assert main([*command, data]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as stopped:
        main([*command, "flickr9k"])
    assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2


def test_features_of_an_untrained_tiny_encoder_are_refused(tmp_path, capsys):
    command = ["features", "--data", "scenes", "--data-dir", str(tmp_path), "--cache-dir", str(tmp_path / "c")]
    assert main([*command, "--encoder", "tiny"]) == 2
    assert "trained along" in capsys.readouterr().err and not (tmp_path / "c").exists()


def test_the_module_runs_as_a_command(tmp_path):
    ran = subprocess.run([sys.executable, "-m", "keras_sat", "info"], capture_output=True, text=True, check=True)
    assert "tensorflow 2." in ran.stdout and "devices: " in ran.stdout
