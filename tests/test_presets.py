import inspect

import keras
import pytest
from conftest import all_slow_but, write_copy_of_data_set

import keras_sat
from data_utils import DATASETS
from keras_sat import CaptionDecoder, Captioner
from keras_sat.__main__ import main
from keras_sat.presets import PRESETS, usual_preset
from keras_sat.scoring.published import PUBLISHED
from keras_sat.training import recipe

TINY = {"encoder": "tiny", "image_size": 16, "encoder_training": "frozen", "encoder_weights": None}
TINY |= {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8, "epochs": 1}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_arguments_of_fit(name):
    known = {*inspect.signature(keras_sat.fit).parameters, *inspect.signature(Captioner).parameters}
    assert set(PRESETS[name]) <= known | {*inspect.signature(CaptionDecoder).parameters}


def test_the_paper():
    assert PRESETS["paper"]["encoder"] == "vgg19" and PRESETS["paper"]["optimizer"] == "rmsprop"


@pytest.mark.parametrize("name", all_slow_but("flickr8k", PUBLISHED))
def test_each_data_set_of_the_paper_from_its_files_to_the_paper_beside_it(name, tmp_path, quick_meteor, capsys):
    write_copy_of_data_set(name, tmp_path / "data")
    images = DATASETS[name](tmp_path / "data")
    assert [image.split for image in images].count("train") == 4
    options = {**PRESETS[name], **TINY, "num_views": 2}
    if options.get("feature_projection_dim"):
        options["feature_projection_dim"] = 8
    captioner = keras_sat.fit(
        name, data_dir=tmp_path / "data", output_dir=tmp_path / "run", show_progress=False, **options
    )
    assert captioner.length_penalty == options["length_penalty"]
    assert isinstance(captioner.optimizer, keras.optimizers.Adam)
    data = ["--data", name, "--data-dir", str(tmp_path / "data")]
    assert main(["evaluate", "--model", str(tmp_path / "run" / "model"), *data, "--beside", "paper", "human"]) == 0
    output = capsys.readouterr().out
    hard = PUBLISHED[name]["the paper, hard attention (test)"]["bleu_4_no_penalty"]
    row = next(line for line in output.splitlines() if "hard attention" in line)
    assert f"{100 * hard:.1f}" in row and "a person" in output and "2 photos" in output


@pytest.mark.parametrize(
    "options, left_out",
    [
        (
            {"encoder": "mobilenet_v2", "encoder_training": "fine-tuned"},
            {"num_views", "encoder_layer", "trained_up_to", "encoder_rate"},
        ),
        ({"encoder": "mobilenet_v2", "encoder_layer": "out_relu"}, {"trained_up_to", "encoder_rate"}),
        ({"encoder": "mobilenet_v2", "encoder_layer": "block_9_add", "trained_up_to": "out_relu"}, set()),
        ({"encoder": "tiny"}, {"num_views"}),
    ],
)
def test_settings_that_the_options_leave_no_place_for_are_left_out(options, left_out):
    settings = usual_preset("flickr8k", options)
    whole = PRESETS["flickr8k-mobilenet_v2" if options["encoder"] == "mobilenet_v2" else "flickr8k"]
    assert set(whole) - set(settings) == left_out


@pytest.mark.slow
def test_the_preset_for_mobilenet_trains(tmp_path):
    write_copy_of_data_set("flickr8k", tmp_path / "data")
    weights = tmp_path / "mobilenet.weights.h5"
    network = keras_sat.ENCODERS["mobilenet_v2"](weights=None, image_size=64)
    next(layer for layer in network.layers if layer.name.endswith("trunk")).save_weights(weights)
    sizes = {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8, "feature_projection_dim": 8, "num_views": 2}
    fit = ["fit", "--data", "flickr8k", "--data-dir", str(tmp_path / "data"), "--encoder", "mobilenet_v2"]
    fit += [
        "--encoder-weights",
        str(weights),
        "--image-size",
        "64",
        "--epochs",
        "1",
        "--dtype",
        "mixed_bfloat16",
        "--num-beams",
        "1",
    ]
    fit += [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
    assert main([*fit, "--output-dir", str(tmp_path / "run")]) == 0
    captioner = Captioner.load(tmp_path / "run" / "model")
    assert captioner.trained_up_to == "out_relu" and captioner.feature_shape == (64, 32)
    assert captioner.rows_and_columns() == (2, 2)
    start = Captioner.from_config(captioner.get_config())
    moved = [
        float(abs(one.numpy() - other.numpy()).max())
        for one, other in zip(captioner.encoder_variables, start.encoder_variables)
    ]
    assert max(moved) > 0, "the last layers of the encoder have learnt"


@pytest.mark.parametrize(
    "arguments, preset",
    [
        (["--data", "flickr8k", "--encoder", "mobilenet_v2"], "flickr8k-mobilenet_v2"),
        (["--data", "flickr8k"], "flickr8k"),
        (["--data", "coco", "--encoder", "mobilenet_v2"], "coco"),
        (["--data", "scenes"], "default"),
        (["--data", "flickr8k", "--preset", "paper"], "paper"),
        (["--data", "flickr8k", "--initial-model", "a"], "default"),
    ],
)
def test_the_command_line_takes_the_preset_of_the_data_set(arguments, preset, monkeypatch):
    seen = {}
    monkeypatch.setattr(recipe, "fit", lambda data, **options: seen.update(options) or type("", (), {"history": [1]}))
    assert main(["fit", *arguments, "--hidden-dim", "3"]) == 0
    expected = {**PRESETS[preset], "hidden_dim": 3}
    given = {"--encoder": "encoder", "--initial-model": "initial_model"}
    expected |= {given[name]: value for name, value in zip(arguments, arguments[1:]) if name in given}
    assert seen == expected
