"""The program that makes the bundled captioners, on a hundred scenes."""

import dataclasses
import json
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ROOT, torch_arrays
from PIL import Image

sys.path.insert(0, str(ROOT / "benchmarks" / "flickr8k"))

import make_bundled  # noqa: E402

import keras_sat  # noqa: E402
from data_utils import draw_scenes  # noqa: E402
from keras_sat import Captioner  # noqa: E402
from keras_sat.network.efficientnet_lite import efficientnet_lite  # noqa: E402

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This captioner was saved with its whole encoder")
@pytest.mark.usefixtures("small_index")
def test_the_stages_are_made_one_after_the_other_and_once(make, tmp_path, monkeypatch, capsys):
    fit, run = keras_sat.fit, ["--output-dir", tmp_path / "runs", "flickr8k"]

    def stopped_in_the_second_stage(data, *, output_dir, **settings):
        if output_dir.name == "flickr8k-rewards":
            raise KeyboardInterrupt
        return fit(data, output_dir=output_dir, **settings)

    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="paused"):
        patch.setattr(keras_sat, "fit", stopped_in_the_second_stage)
        make(*run)
    done = {path.parent.name for path in (tmp_path / "runs").glob("*/stage.json")}
    assert done == {"flickr8k-words"}

    capsys.readouterr()
    make(*run)
    lines = capsys.readouterr().out.splitlines()
    stages = [line for line in lines if line in make_bundled.STAGES]
    assert stages == ["flickr8k-rewards"]

    folder = tmp_path / "runs" / "flickr8k"
    record = json.loads((folder / "record.json").read_text())
    finish = make_bundled.FINISHES["flickr8k"]
    assert {*finish.blend} == {*record["stages"]}
    first, *later = record["stages"].values()
    assert first["starts_from"] is None
    assert all(stage["starts_from"] in record["stages"] for stage in later)
    for stage in record["stages"].values():
        assert stage["hours"] > 0 and stage["seed"] == 0
        assert all(len(values) == 1 for values in stage["epochs"].values())
    assert str(tmp_path) not in json.dumps(record)  # no path of this machine
    captioner = Captioner.load(folder)
    assert record["weights_digest"] == captioner.weights_digest()
    assert captioner.consensus is not None and captioner.confidence is not None
    assert record["dev"]["scores"]["cider"] >= 0
    assert record["dev"]["grounding"]["num_phrases"] > 0 and record["test"] is None
    make(*run)
    assert not capsys.readouterr().out.strip(), "nothing is left to do"

    reused = ["--reuse", tmp_path / "runs", "--stage", "flickr8k-rewards"]
    capsys.readouterr()
    make("--output-dir", tmp_path / "trial", *reused)
    assert not capsys.readouterr().out.strip() and not (tmp_path / "trial").exists()


class Curves(dict):
    was_interrupted = False


def test_a_trial_takes_the_stages_before_it_from_another_run(tmp_path):
    trained = []

    def fit(initial_model, output_dir, **settings):
        trained.append((initial_model, output_dir))
        (output_dir / "model").mkdir(parents=True)
        return SimpleNamespace(history=Curves())

    def make(**options):
        parts = dict.fromkeys(field.name for field in dataclasses.fields(make_bundled.Maker))
        parts |= {"fit": fit, "stages": make_bundled.STAGES, "finishes": make_bundled.FINISHES}
        make_bundled.Maker(**parts | options).trained("flickr8k-rewards")

    first, trial = tmp_path / "first", tmp_path / "trial"
    make(directory=first)
    del trained[:]
    change = ["flickr8k-rewards.box_weight=0"]
    others, _ = make_bundled.with_changes(make_bundled.STAGES, {}, change)
    make(stages=others, directory=trial, reused=first)
    assert trained == [(first / "flickr8k-words" / "model", trial / "flickr8k-rewards")]


def test_hard_attention_starts_from_the_finished_captioner(tmp_path, monkeypatch):
    parts = dict.fromkeys(field.name for field in dataclasses.fields(make_bundled.Maker))
    parts |= {"stages": make_bundled.STAGES, "finishes": make_bundled.FINISHES}
    maker = make_bundled.Maker(**parts | {"directory": tmp_path, "seed": 0})
    steps = [step.get("stage", step.get("finish")) for step in maker.made_by("flickr8k-hard")]
    assert steps == [
        *("flickr8k-words", "flickr8k-rewards", "flickr8k"),
        *("hard-words", "hard-rewards", "flickr8k-hard"),
    ]


@pytest.mark.slow
def test_the_papers_captioner_has_one_encoder(make, tmp_path):
    """Its last layers are trained apart from the first ones."""
    make("--output-dir", tmp_path, "flickr8k-paper")
    assert (
        Captioner.load(tmp_path / "paper-words" / "model").settings.encoder.trained_up_to == "top"
    )
    captioner = Captioner.load(tmp_path / "flickr8k-paper")
    assert (
        captioner.settings.encoder.trained_up_to is None
        and captioner.settings.encoder.encoder_layer is None
    )


def test_changes_of_settings():
    changes = [
        "flickr8k-words.epochs=3",
        "flickr8k.blend={'flickr8k-words': 1.0}",
        "flickr8k-words.encoder=vgg16",
    ]
    stages, finishes = make_bundled.with_changes(
        make_bundled.STAGES, make_bundled.FINISHES, changes
    )
    assert stages["flickr8k-words"].settings["epochs"] == 3
    assert stages["flickr8k-words"].settings["encoder"] == "vgg16"
    assert finishes["flickr8k"].blend == {"flickr8k-words": 1.0}
    assert make_bundled.FINISHES["flickr8k"].blend["flickr8k-words"] < 1
    with pytest.raises(ValueError, match="Received: 'flickr9k.epochs=1'"):
        make_bundled.with_changes(stages, finishes, ["flickr9k.epochs=1"])


def test_every_stage_starts_from_an_earlier_one():
    names = [*make_bundled.STAGES]
    for name, stage in make_bundled.STAGES.items():
        before = {*names[: names.index(name)], *make_bundled.FINISHES, None}
        assert stage.starts_from in before
    for finish in make_bundled.FINISHES.values():
        assert {*finish.blend} <= {*names}
        assert np.isclose(sum(finish.blend.values()), 1)
