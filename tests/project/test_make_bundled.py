"""The program that makes the bundled captioners, on a hundred scenes."""

import json
import signal
import sys

import numpy as np
import pytest
from helpers import ROOT, torch_arrays
from PIL import Image

sys.path.insert(0, str(ROOT / "benchmarks" / "flickr8k"))

import make_bundled  # noqa: E402

import keras_sat  # noqa: E402
from data_utils import draw_scenes  # noqa: E402
from keras_sat import Captioner  # noqa: E402
from keras_sat.files import BUNDLED_MODELS  # noqa: E402
from keras_sat.network.efficientnet_lite import efficientnet_lite  # noqa: E402

LARGER = "flickr8k-paper.options={'image_size': 96}"
SPLITS = {"trainImages": range(110), "devImages": range(110, 215), "testImages": range(215, 217)}


@pytest.fixture(scope="module")
def flickr8k_of_scenes(tmp_path_factory):
    """The options of the program for scenes in the layout of Flickr8k, with their boxes
    and random weights of the encoder.
    """
    directory = tmp_path_factory.mktemp("flickr8k")
    photos = directory / "Flicker8k_Dataset"
    photos.mkdir()
    captions, boxes = [], {}
    for number, scene in enumerate(draw_scenes(217, 5)):
        name = f"{number}.jpg"
        Image.fromarray(scene.image).save(photos / name)
        captions += [f"{name}#{row}\t{text}" for row, text in enumerate(scene.captions)]
        first_words = " ".join(scene.captions[0].split()[:2])
        phrase = {"phrase": first_words, "first_word": 0, "boxes": [[0.1, 0.1, 0.6, 0.6]]}
        boxes[name] = {"caption": 0, "size": [64, 64], "phrases": [phrase]}
    (directory / "Flickr8k.token.txt").write_text("\n".join(captions))
    for split, photo_numbers in SPLITS.items():
        names = "\n".join(f"{number}.jpg" for number in photo_numbers)
        (directory / f"Flickr_8k.{split}.txt").write_text(names)
    (directory / "boxes.json").write_text(json.dumps(boxes))
    network = efficientnet_lite((224, 224, 3), 1.0, 1.0)
    np.savez(
        directory / "lite0.npz", **torch_arrays(network, width=1.0, num_classes=1000, gain=1.4)
    )
    paths = {
        "--data-dir": directory,
        "--boxes": directory / "boxes.json",
        "--encoder-weights": directory / "lite0.npz",
    }
    return [str(part) for option in paths.items() for part in option]


@pytest.fixture
def make(flickr8k_of_scenes):
    """A function that runs the program, small."""
    before = signal.getsignal(signal.SIGTERM)  # which the program sets

    def run(*arguments):
        make_bundled.main([*flickr8k_of_scenes, "--small", *map(str, arguments)])

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This captioner was saved with its whole encoder")
@pytest.mark.usefixtures("small_index")
def test_a_captioner_is_made_once_and_paused_in_between(make, tmp_path, monkeypatch, capsys):
    run = ["--output-dir", tmp_path / "runs", "flickr8k"]

    def stopped(data, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="paused"):
        patch.setattr(keras_sat, "fit", stopped)
        make(*run)
    assert not (tmp_path / "runs" / "flickr8k").exists()

    capsys.readouterr()
    make(*run)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("flickr8k:")] == [
        "flickr8k: training",
        "flickr8k: finishing",
    ]

    folder = tmp_path / "runs" / "flickr8k"
    record = json.loads((folder / "record.json").read_text())
    (made_by,) = record["made_by"]
    assert made_by["captioner"] == "flickr8k" and made_by["seed"] == 0
    assert made_by["training"]["box_weight"] > 0 and made_by["starts_from"] is None
    assert record["hours"] > 0 and record["processor_hours"] > 0
    assert {*record["epochs"]} == {"words", "rewards"}
    for curves in record["epochs"].values():
        assert curves["val_cider"] and all(len(values) == 1 for values in curves.values())
    assert str(tmp_path) not in json.dumps(record)  # no path of this machine
    captioner = Captioner.load(folder)
    assert record["weights_digest"] == captioner.weights_digest()
    assert captioner.photo_encoder.photo_size == (96, 96) and captioner.rows_and_columns() == (6, 6)
    assert captioner.consensus is not None and captioner.confidence is not None
    assert record["dev"]["scores"]["cider"] >= 0
    assert record["dev"]["grounding"]["num_phrases"] > 0 and record["test"] is None
    make(*run)
    assert not capsys.readouterr().out.strip(), "nothing is left to do"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This captioner was saved with its whole encoder")
@pytest.mark.usefixtures("small_index")
def test_a_bundled_captioner_reads_larger_photos_without_training(make, tmp_path):
    make("--output-dir", tmp_path, "--finish-again", "flickr8k-paper", "--set", LARGER)
    record = json.loads((tmp_path / "flickr8k-paper" / "record.json").read_text())
    before = json.loads((BUNDLED_MODELS / "flickr8k-paper" / "record.json").read_text())
    assert record["made_by"] == before["made_by"] and record["hours"] == before["hours"]
    assert record["weights_digest"] == before["weights_digest"] and record["test"] is None
    assert record["finished_again"]["options"] == {"image_size": 96}
    assert record["dev"] != before["dev"]
    captioner = Captioner.load(tmp_path / "flickr8k-paper")
    assert captioner.photo_encoder.photo_size == (96, 96) and captioner.confidence is not None


def test_hard_attention_starts_from_the_finished_captioner(tmp_path):
    maker = make_bundled.Maker(make_bundled.RECIPES, None, [], None, 0, tmp_path)
    first, second = maker.made_by("flickr8k-hard")
    assert (first["captioner"], second["captioner"]) == ("flickr8k", "flickr8k-hard")
    assert first == maker.made_by("flickr8k")[0]


@pytest.mark.release
@pytest.mark.slow
def test_the_papers_captioner_has_one_encoder(make, tmp_path):
    """Its last layers are trained apart from the first ones."""
    make("--output-dir", tmp_path, "flickr8k-paper")
    trained = Captioner.load(tmp_path / "flickr8k-paper-training" / "model")
    assert trained.settings.encoder.trained_up_to == "top"
    captioner = Captioner.load(tmp_path / "flickr8k-paper")
    assert (
        captioner.settings.encoder.trained_up_to is None
        and captioner.settings.encoder.encoder_layer is None
    )


def test_changes_of_settings():
    changes = [
        "flickr8k.epochs=3",
        "flickr8k.rewards_share=0.5",
        "flickr8k.encoder=vgg16",
    ]
    changed = make_bundled.with_changes(make_bundled.RECIPES, changes)
    assert changed["flickr8k"].training["epochs"] == 3
    assert changed["flickr8k"].training["encoder"] == "vgg16"
    assert changed["flickr8k"].rewards_share == 0.5
    assert "encoder" not in make_bundled.RECIPES["flickr8k"].training
    for change in ("flickr9k.epochs=1", "flickr8k=1"):
        with pytest.raises(ValueError, match=f"Received: '{change}'"):
            make_bundled.with_changes(make_bundled.RECIPES, [change])


def test_what_a_captioner_starts_from_has_a_recipe():
    for recipe in make_bundled.RECIPES.values():
        assert recipe.starts_from in {*make_bundled.RECIPES, None}
        assert 0 <= recipe.rewards_share <= 1
