"""A folder of one's own photos: what `fit` starts from, what it keeps, and what it
says.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import write_photos

import keras_sat
from data_utils.atomic_files import read_sealed_json, write_sealed_json
from keras_sat import Captioner, presets
from keras_sat.__main__ import main
from keras_sat.options import TrainingOptions
from keras_sat.training import recipe
from keras_sat.training.distributed import Cluster
from keras_sat.training.run import Training

NAMES = [f"{number}.jpg" for number in range(6)]
FROM_SCRATCH = {name: TrainingOptions.defaults()[name] for name in presets.OWN_PHOTOS}


@pytest.fixture
def mine(tmp_path):
    """A folder with four photos to train on, one for dev and one for test."""
    write_photos(tmp_path / "mine", NAMES)
    splits = ["train"] * 4 + ["dev", "test"]
    pairs = zip(NAMES, splits)
    rows = [
        f"{name},a zebra {word} a red circle,{split}"
        for name, split in pairs
        for word in ("on", "by")
    ]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    return tmp_path / "mine"


@pytest.fixture
def bundled(whole_training, monkeypatch):
    """A small captioner in the place of the bundled one, whose encoder is "tiny"."""
    folder, captioner = whole_training
    monkeypatch.setattr(presets, "DEFAULT_MODEL", str(folder / "model"))
    return captioner


@pytest.fixture
def start(mine, tmp_path, monkeypatch):
    """Return a function that starts `fit` and returns the plan and the record, before
    anything is trained.
    """
    seen = []

    def record(training, described):
        seen[:] = [training.plan, described]
        raise NotImplementedError("nothing is trained here")

    def start(data="folder", **options):
        with pytest.raises(NotImplementedError):
            keras_sat.fit(data, data_dir=mine, output_dir=tmp_path / "run", **options)
        plan, described = seen
        return plan, described, {name: described[name] for name in presets.OWN_PHOTOS}

    monkeypatch.setattr(Training, "record", record)
    return start


def test_few_photos_start_from_the_bundled_captioner(start, bundled, capsys):
    plan, described, settings = start(encoder="tiny", attention="soft", label_smoothing=0.1)
    assert (
        plan.initial_model.weights_digest() == bundled.weights_digest() and plan.keeps_initial_model
    )
    assert (
        described["initial_model"].startswith(bundled.weights_digest())
        and settings == presets.OWN_PHOTOS
    )
    said = capsys.readouterr().out
    assert (
        said.count("starting from the bundled captioner")
        == said.count("not for commercial use")
        == 1
    )
    *_, settings = start(epochs=7, learning_rate=0.5, show_progress=False)
    assert settings == {**presets.OWN_PHOTOS, "epochs": 7, "learning_rate": 0.5}


@pytest.mark.parametrize(
    "options, said",
    [
        (
            {"hidden_dim": 8},
            "training from scratch: the bundled captioner has a different hidden_dim",
        ),
        (
            {"encoder_training": "frozen", "encoder_weights": None},
            "has a different encoder_training",
        ),
        ({"encoder_weights": "mine.npz"}, "has a different encoder_weights"),
        ({"attention": "none"}, "has a different attention"),
        ({"from_scratch": True}, ""),
    ],
)
def test_what_starts_from_scratch(options, said, start, bundled, capsys):
    plan, described, settings = start(encoder="tiny", **options)
    output = capsys.readouterr().out
    assert said in output and ("training from" in output) == bool(said)
    assert (
        plan.initial_model is None
        and described["initial_model"] is None
        and not plan.keeps_initial_model
    )
    assert settings == FROM_SCRATCH


def test_many_photos_and_a_list_of_photos_start_from_scratch(
    start, mine, bundled, monkeypatch, capsys
):
    assert (
        start(recipe.read_data("folder", mine), encoder="tiny", show_progress=False)[
            0
        ].initial_model
        is None
    )
    for many, from_scratch in ((4, True), (5, False)):
        monkeypatch.setattr(presets, "MANY_PHOTOS", many)
        assert (start(encoder="tiny")[0].initial_model is None) == from_scratch
        assert (
            "training from scratch: 4 training photos" in capsys.readouterr().out
        ) == from_scratch


def test_an_initial_model_that_is_named_is_trained_as_ever(start, bundled, whole_training):
    model = whole_training[0] / "model"
    plan, _, settings = start(initial_model=model, show_progress=False)
    assert not plan.keeps_initial_model and settings == FROM_SCRATCH


def test_the_initial_model_may_have_been_trained_on_the_photos_of_dev_and_test(
    start, bundled, capsys
):
    start()
    assert "was trained on" not in capsys.readouterr().out
    captioner = bundled.adapted()
    captioner.note_training_photos(["1", "5"])
    start(initial_model=captioner)
    assert "was trained on 1 of the 2 photos of dev and test" in capsys.readouterr().out


def test_scores_from_before_count_for_no_other_training(tmp_path):
    plan = SimpleNamespace(cluster=Cluster(None), options=TrainingOptions(patience=None))
    write_sealed_json(tmp_path / "before.json", {"val_bleu_4": 0.9})
    training = Training(plan, tmp_path, 2)
    training.record({"schedule": "constant"})
    assert training.before == [] and not (tmp_path / "before.json").exists()


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_where_no_epoch_is_better_the_bundled_captioner_stays(
    mine, bundled, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(keras_sat.training.history, "LEAST_MATCHES", 0)
    scores = iter([0.3, 0.2, 0.3])
    monkeypatch.setattr(
        keras_sat.training.callbacks,
        "bleu",
        lambda *_: {f"bleu_{n}": value for value in [next(scores)] for n in range(1, 5)},
    )
    fit = [
        "fit",
        "--data",
        "folder",
        "--data-dir",
        str(mine),
        "--output-dir",
        str(tmp_path / "run"),
        "--epochs",
        "2",
    ]
    assert main(fit) == 0
    said = capsys.readouterr().out
    assert "before training: CIDEr" in said and "BLEU-4 30.0 % on dev" in said
    assert "none of 2 epochs is better than the initial captioner" in said
    assert "warning: 4 training photos are too few" in said
    kept = Captioner.load(tmp_path / "run" / "model")
    # It was trained on none of these.
    kept_record, record = kept.training_photos, bundled.training_photos
    np.testing.assert_array_equal(kept_record.names, record.names)
    np.testing.assert_array_equal(kept_record.pixels, record.pixels)
    assert {*kept.vocabulary.words} == {*bundled.vocabulary.words, "by", "on", "zebra"}
    for name, weight in bundled.named_weights().items():
        if name.startswith("encoder/"):
            np.testing.assert_array_equal(kept.named_weights()[name].numpy(), weight.numpy())
    before = read_sealed_json(tmp_path / "run" / "before.json", "scores", "")
    assert before["val_bleu_4"] == 0.3 and before["val_cross_entropy"] > 0
    assert main(fit) == 0
    assert "this training run ended after epoch 2" in capsys.readouterr().out
    assert main([*fit, "--from-scratch", "--encoder", "tiny"]) == 2
    assert "initial_model was" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_the_cross_entropy_from_before_is_that_of_the_captioner_and_it_resumes(
    mine, bundled, tmp_path, capsys
):
    options = {
        "data_dir": mine,
        "output_dir": tmp_path / "run",
        "epochs": 1,
        "learning_rate": 1e-12,
    }
    captioner = keras_sat.fit("folder", **options, average_momentum=None, patience=None)
    before = read_sealed_json(tmp_path / "run" / "before.json", "scores", "")
    assert before["val_cross_entropy"] == pytest.approx(
        captioner.history["val_cross_entropy"][0], rel=1e-4
    )
    assert before["val_matches"] == captioner.history["val_matches"][0] < 10
    again = keras_sat.fit(
        "folder", **{**options, "epochs": 2}, average_momentum=None, patience=None
    )
    assert len(again.history["loss"]) == 2 and "resuming after epoch 1" in capsys.readouterr().out
    assert read_sealed_json(tmp_path / "run" / "before.json", "scores", "") == before, "scored once"
