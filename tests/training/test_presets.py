import json

import keras
import pytest
from helpers import write_copy_of_data_set
from small_training import OPTIONS

import keras_sat
from data_utils import DATASETS
from keras_sat.__main__ import main
from keras_sat.measuring import PUBLISHED
from keras_sat.presets import (
    OWN_PHOTOS,
    PRESETS,
    default_encoder,
    default_preset,
    fitting_settings,
)
from keras_sat.settings import FitSettings
from keras_sat.training import recipe
from keras_sat.training.plan import _preset_of, options_to_set

TINY = {"encoder": "tiny", "image_size": 16, "encoder_training": "frozen", "encoder_weights": None}
TINY |= {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8, "epochs": 1}


@pytest.mark.parametrize("settings", [*PRESETS.values(), OWN_PHOTOS])
def test_settings_are_options_of_fit_with_valid_values(settings):
    FitSettings.of("fit", settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_each_data_set_of_the_paper_from_its_files_to_the_paper_beside_it(
    name, tmp_path, quick_meteor, capsys
):
    write_copy_of_data_set(name, tmp_path / "data")
    images = DATASETS[name](tmp_path / "data")
    assert [image.split for image in images].count("train") == 4
    options = {**TINY, "num_views": 2, "feature_projection_dim": 8, "output_dir": tmp_path / "run"}
    captioner = keras_sat.fit(name, data_dir=tmp_path / "data", **options)
    first, *_ = capsys.readouterr().out.splitlines()
    assert (
        first
        == f"using the preset {name}; preset='default' (--preset default) uses the plain defaults"
    )
    assert captioner.search_settings.length_penalty == PRESETS[name]["length_penalty"]
    assert isinstance(captioner.optimizer, keras.optimizers.Adam)
    data = [
        "--data",
        name,
        "--data-dir",
        str(tmp_path / "data"),
        "--compare-with",
        "paper",
        "human",
    ]
    assert main(["evaluate", "--model", str(tmp_path / "run" / "model"), *data]) == 0
    output = capsys.readouterr().out
    hard = PUBLISHED[name]["the paper, hard attention (test)"]["bleu_4_no_penalty"]
    row = next(line for line in output.splitlines() if "hard attention" in line)
    assert f"{100 * hard:.1f}" in row and "a person" in output and "2 photos" in output


@pytest.mark.parametrize(
    "options, left_out",
    [
        (
            {"encoder": "mobilenet_v2", "encoder_training": "fine-tuned"},
            {"encoder_layer", "trained_up_to"},
        ),
        (
            {"encoder": "mobilenet_v2", "encoder_layer": "out_relu"},
            {"encoder_layer", "trained_up_to", "encoder_rate"},
        ),
        (
            {
                "encoder": "mobilenet_v2",
                "encoder_layer": "block_9_add",
                "trained_up_to": "out_relu",
            },
            set(),
        ),
        ({"encoder": "efficientnet_lite0", "group_by": "caption"}, {"guide_weight"}),
        (
            {"encoder": "efficientnet_lite0", "encoder_training": "frozen"},
            {"encoder_rate", "first_layer_rate"},
        ),
        ({"encoder": "efficientnet_lite0", "image_size": 260}, {"grid"}),
        (
            {"encoder": "efficientnet_lite0", "encoder_training": "scratch"},
            {"encoder_rate", "first_layer_rate"},
        ),
    ],
)
def test_settings_that_the_options_rule_out_are_left_out(options, left_out):
    name = f"flickr8k-{options['encoder'].removeprefix('efficientnet_')}"
    assert set(PRESETS[name]) - set(fitting_settings(name, options)) - {"encoder"} == left_out


def test_the_encoder_follows_the_data_alone(scene_images, tmp_path):
    assert default_encoder("scenes") == "tiny"
    for data in ("flickr8k", "folder", scene_images):
        assert default_encoder(data) == "vgg16"
    with pytest.raises(ValueError, match="weights file does not exist"):
        keras_sat.fit(
            scene_images, encoder_weights=tmp_path / "missing.h5", output_dir=tmp_path / "run"
        )
    noted = json.loads((tmp_path / "run" / "arguments.json").read_text())
    assert noted["encoder"] == "vgg16"


@pytest.mark.slow
def test_a_training_that_is_resumed_keeps_its_encoder(whole_training):
    folder, captioner = whole_training
    images = DATASETS["scenes"](None, num_scenes=40, seed=3)
    options = {name: value for name, value in OPTIONS.items() if name != "encoder"}
    again = keras_sat.fit(images, output_dir=folder, show_progress=False, **options)
    assert again.encoder == "tiny" and again.weights_digest() == captioner.weights_digest()


@pytest.mark.parametrize(
    "arguments, preset",
    [
        (["--data", "flickr8k", "--encoder", "mobilenet_v2"], "flickr8k"),
        (["--data", "flickr8k"], "flickr8k"),
        (["--data", "flickr8k", "--preset", "flickr8k-efficientnet_lite0"], "flickr8k-lite0"),
        (["--data", "flickr8k", "--encoder", "vgg16"], "flickr8k"),
        (["--data", "scenes"], "default"),
        (["--data", "flickr8k", "--preset", "paper"], "paper"),
        (["--data", "flickr8k", "--initial-model", "a"], "default"),
    ],
)
def test_python_and_the_command_line_take_the_preset_of_the_data_set(
    arguments, preset, monkeypatch
):
    seen = []

    def asked(options, **arguments):
        options = options_to_set(options, **arguments)
        encoder = default_encoder(given["data"])
        # Further on, `fit` would read the data set, which is not here.
        _, settings = _preset_of(given["data"], options, **arguments, encoder=encoder)
        seen.append({**settings, **options})
        raise ValueError("that is all")

    monkeypatch.setattr(recipe, "options_to_set", asked)
    given = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(arguments[::2], arguments[1::2])
    }
    assert main(["fit", *arguments, "--hidden-dim", "3"]) == 2
    with pytest.raises(ValueError, match="that is all"):
        keras_sat.fit(**given, hidden_dim=3, epochs=None)
    expected = {**PRESETS[preset], "hidden_dim": 3}
    if "preset" not in given:
        expected.pop("encoder", None)  # `fit` takes the default by itself, and says so
    expected |= {name: value for name, value in given.items() if name == "encoder"}
    assert seen == [expected, expected]


def test_what_has_no_preset(scene_images):
    assert default_preset(scene_images) == default_preset("folder") == "default"
    with pytest.raises(ValueError, match="must be one of: default, flickr8k.*preset='flikr8k'"):
        keras_sat.fit(scene_images, preset="flikr8k")
