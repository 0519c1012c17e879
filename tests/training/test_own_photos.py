"""A folder of one's own photos: what `fit` starts from, what it keeps, and what it
says.
"""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from helpers import all_slow_but, write_photos

import keras_sat
from data_utils import CaptionedImage
from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat import Captioner, presets
from keras_sat.__main__ import main
from keras_sat.after_search import consensus
from keras_sat.settings import FitSettings
from keras_sat.training import plan, recipe
from keras_sat.training.distributed import Cluster
from keras_sat.training.own_words import in_words, own_words, unused_words
from keras_sat.training.photos import TrainingPhotos
from keras_sat.training.plan import make_plan, this_computer
from keras_sat.training.run import Run

FROM_SCRATCH = {name: FitSettings.defaults()[name] for name in presets.OWN_PHOTOS}


def write_folder(directory, *, train, dev, test):
    """Write a folder with so many photos in each split, with two captions each."""
    splits = ["train"] * train + ["dev"] * dev + ["test"] * test
    names = [f"{number}.jpg" for number in range(len(splits))]
    write_photos(directory, names)
    rows = [
        f"{name},a zebra {word} a red circle,{split}"
        for name, split in zip(names, splits)
        for word in ("on", "by")
    ]
    (directory / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    return directory


@pytest.fixture
def mine(tmp_path):
    """A folder with four photos to train on, one for dev and one for test."""
    return write_folder(tmp_path / "mine", train=4, dev=1, test=1)


@pytest.fixture
def bundled(whole_training, monkeypatch):
    """A small captioner in the place of the bundled one, whose encoder is "tiny"."""
    folder, captioner = whole_training
    monkeypatch.setattr(presets, "DEFAULT_MODEL", str(folder / "model"))
    return captioner


@pytest.fixture
def bundled_with_consensus(bundled, tmp_path, monkeypatch):
    """That captioner, which like the real one chooses captions by consensus."""
    bundled.adapted(consensus_weight=2.0).save(tmp_path / "bundled")
    monkeypatch.setattr(presets, "DEFAULT_MODEL", str(tmp_path / "bundled"))


@pytest.fixture
def start(mine, tmp_path, monkeypatch):
    """Return a function that starts `fit` and returns the run and the record, before
    anything is trained.
    """
    seen = []

    def record(run, described):
        seen[:] = [run, described]
        raise NotImplementedError("nothing is trained here")

    def start(data="folder", **options):
        with pytest.raises(NotImplementedError):
            keras_sat.fit(data, data_dir=mine, output_dir=tmp_path / "run", **options)
        run, described = seen
        return run, described, {name: described[name] for name in presets.OWN_PHOTOS}

    monkeypatch.setattr(Run, "record", record)
    return start


def test_few_photos_start_from_the_bundled_captioner(start, bundled, capsys):
    run, described, settings = start(encoder="tiny", attention="soft", label_smoothing=0.1)
    assert run.start.weights_digest() == bundled.weights_digest() and run.plan.keeps_initial_model
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
        ({"hidden_dim": 8}, "training from scratch: the bundled captioner has"),
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
    run, described, settings = start(encoder="tiny", **options)
    output = capsys.readouterr().out
    assert said in output and ("training from" in output) == bool(said)
    assert (
        run.start is None
        and described["initial_model"] is None
        and not run.plan.keeps_initial_model
    )
    assert settings == FROM_SCRATCH


def test_many_photos_and_a_list_of_photos_start_from_scratch(
    start, mine, bundled, monkeypatch, capsys
):
    run, *_ = start(recipe.read_data("folder", mine), encoder="tiny", show_progress=False)
    assert run.start is None
    for many, from_scratch in ((4, True), (5, False)):
        monkeypatch.setattr(presets, "MANY_PHOTOS", many)
        assert (start(encoder="tiny")[0].start is None) == from_scratch
        assert (
            "training from scratch: 4 training photos" in capsys.readouterr().out
        ) == from_scratch


def test_an_initial_model_that_is_named_is_trained_as_ever(start, bundled, whole_training):
    model = whole_training[0] / "model"
    run, _, settings = start(initial_model=model, show_progress=False)
    assert not run.plan.keeps_initial_model and settings == FROM_SCRATCH


def test_the_initial_model_may_have_been_trained_on_the_photos_of_dev_and_test(
    start, bundled, capsys
):
    start()
    assert "was trained on" not in capsys.readouterr().out
    captioner = bundled.adapted()
    captioner.note_training_photos(["1", "5"])
    start(initial_model=captioner)
    assert "was trained on 1 of the 2 photos of dev and test" in capsys.readouterr().out


def begun(folder, patience=None):
    """Return the Run of two epochs in a folder."""
    options = {"epochs": 2, "patience": patience}
    plan = make_plan("photos", {"train": 4}, options, **this_computer())
    return Run(plan, plan.words, TrainingPhotos([], folder), Cluster(), folder)


def test_scores_from_before_count_for_no_other_training(tmp_path):
    write_sealed_json(tmp_path / "before.json", {"val_bleu_4": 0.9})
    run = begun(tmp_path)
    run.record({"schedule": "constant"})
    assert run.initial_scores == [] and not (tmp_path / "before.json").exists()


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_where_no_epoch_is_better_the_bundled_captioner_stays(
    mine, bundled, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(keras_sat.training.history, "LEAST_MATCHES", 0)
    monkeypatch.setattr("keras_sat.training.plan.FEW_DEV_PHOTOS", 0)  # BLEU-4 chooses
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
    assert "scoring the bundled captioner on the 1 dev photos first" in said
    assert "before training: the bundled captioner scores CIDEr" in said
    assert "BLEU-4 30.0 % on the 1 dev photos" in said
    assert re.search("your words that no dev caption uses: .*zebra", said)
    assert "none of 2 epochs is better than the initial captioner" in said
    assert "warning: 4 training photos are too few" in said
    kept = Captioner.load(tmp_path / "run" / "model")
    # It was trained on none of these.
    np.testing.assert_array_equal(kept.training_photos, bundled.training_photos)
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


def test_a_run_knows_from_the_start_that_it_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(keras_sat.training.history, "LEAST_MATCHES", 0)
    epoch = {"val_bleu_4": 0.3}
    monkeypatch.setattr(keras_sat.training.run, "read_checkpoint", lambda _: ([epoch], {}))
    assert not begun(tmp_path, patience=1).has_ended
    write_sealed_json(tmp_path / "before.json", epoch)
    assert begun(tmp_path, patience=1).has_ended, "its only epoch is no better"


@pytest.mark.slow
@pytest.mark.usefixtures("bundled", "without_graphs")
def test_a_run_that_stopped_early_before_its_rewards_is_loaded(mine, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(keras_sat.training.history, "LEAST_MATCHES", 0)
    monkeypatch.setattr("keras_sat.training.plan.FEW_DEV_PHOTOS", 0)  # BLEU-4 chooses
    monkeypatch.setattr(
        keras_sat.training.callbacks,
        "bleu",
        lambda *_: {f"bleu_{n}": 0.3 for n in range(1, 5)},  # no epoch is better
    )
    options = {"data_dir": mine, "output_dir": tmp_path / "run", "epochs": 3, "patience": 1}
    options |= {"self_critical_epochs": 1, "consensus_weight": 0.0}
    first = keras_sat.fit("folder", **options)
    said = capsys.readouterr().out
    assert "stopped early: no better epoch in the last 1" in said
    again = keras_sat.fit("folder", **options)
    assert capsys.readouterr().out.count("this training run ended after") == 2
    assert again.weights_digest() == first.weights_digest()
    assert [*again.history["loss"]] == [*first.history["loss"]]


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


@pytest.mark.usefixtures("bundled_with_consensus", "without_graphs", "quick_meteor")
@pytest.mark.parametrize(
    "train, dev, test",
    all_slow_but((5, 1, 0), [(1, 0, 0), (1, 1, 1), (5, 1, 0), (101, 0, 1)]),
)
def test_a_folder_of_any_size_is_trained_and_captions(train, dev, test, tmp_path, capsys):
    folder = write_folder(tmp_path / "mine", train=train, dev=dev, test=test)
    run = tmp_path / "run"
    fit = ["fit", "--data", "folder", "--data-dir", str(folder), "--output-dir", str(run)]
    fit += ["--epochs", "1", "--batch-size", "200"]
    for _ in range(2):  # the second time it is loaded
        assert main(fit) == 0
        said = capsys.readouterr().out
        without_index = f"at least 300 training photos, and there are {train}" in said
        assert without_index == (train < 300)
        assert f"at least 100 dev photos, and there are {dev}" in said
    captioner = Captioner.load(run / "model")
    assert (captioner.consensus is None) == (train < 300) and captioner.confidence is None
    assert main(["caption", str(folder / "0.jpg"), "--model", str(run / "model")]) == 0
    if test:
        table = keras_sat.evaluate(captioner, "folder", data_dir=folder, show_progress=False)
        assert len(table.captions) == test


@pytest.mark.parametrize("number, missing", [(1, "1 in 'dev'"), (2, "1 in 'dev', 1 in 'test'")])
def test_a_split_without_training_photos_is_rejected_at_once(number, missing, bundled, tmp_path):
    names = [f"{photo}.jpg" for photo in range(number)]
    write_photos(tmp_path / "mine", names)
    rows = ["image,caption", *(f"{name},a zebra" for name in names)]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(rows))
    options = {"data_dir": tmp_path / "mine", "output_dir": tmp_path / "run", "split_seed": 0}
    with pytest.raises(ValueError, match=f"{missing}.*takes 3 photos or more"):
        keras_sat.fit("folder", **options)


def test_photos_whose_captions_have_no_word_are_left_out(start, bundled, mine):
    table = mine / "captions.csv"
    lines = table.read_text().splitlines()
    wordless = [line for line in lines if not line.endswith("dev")] + ["4.jpg,!!!,dev"]
    table.write_text("\n".join(wordless))
    with pytest.warns(UserWarning, match=r"captions have no word left out: 1 .first: 4"):
        run, *_ = start()
    assert [image.split for image in run.photos.captioned] == ["train"] * 4 + ["test"]


@pytest.mark.slow
@pytest.mark.usefixtures("bundled_with_consensus", "without_graphs")
@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_what_fails_after_training_does_not_lose_it(error, mine, tmp_path, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise error

    for module in (consensus, plan):
        monkeypatch.setattr(module, "FEWEST_TRAINING_PHOTOS", 4)
    options = {"data_dir": mine, "output_dir": tmp_path / "run", "epochs": 1}
    build = consensus.Consensus.build
    monkeypatch.setattr(consensus.Consensus, "build", fail)
    is_interrupted = isinstance(error, KeyboardInterrupt)
    with nullcontext() if is_interrupted else pytest.warns(UserWarning, match="the disk is full"):
        captioner = keras_sat.fit("folder", **options)
    assert captioner.consensus is None and len(captioner.history["loss"]) == 1
    assert captioner.history.was_interrupted == is_interrupted
    assert ("without an index of its training photos" in capsys.readouterr().out) == is_interrupted
    monkeypatch.setattr(consensus.Consensus, "build", build)
    assert keras_sat.fit("folder", **options).consensus is not None


def test_a_trained_encoder_encodes_each_photo_once(start, bundled, capsys):
    frozen = {"from_scratch": True, "encoder": "tiny", "encoder_training": "frozen"}
    for options, expected in (
        ({}, "image"),
        ({"from_scratch": True, "encoder": "tiny"}, "image"),
        ({**frozen, "encoder_weights": None}, "length"),
        ({"group_by": "length"}, "length"),
        ({"group_by": None}, "image"),
    ):
        _, described, _ = start(**options)
        assert described["group_by"] == expected, options


def test_a_run_from_before_is_resumed_with_the_settings_of_then(start, bundled, tmp_path):
    then = {"group_by": "length", **dict.fromkeys(presets.OWN_PHOTOS, 0.5), "epochs": 7}
    then |= {"batch_size": 3, "encoder_rate": {"class": "a schedule"}}
    (tmp_path / "run").mkdir()
    write_sealed_json(tmp_path / "run" / "arguments.json", then)
    _, described, settings = start()
    assert settings == presets.OWN_PHOTOS and described["group_by"] == "image", "nothing to resume"
    (tmp_path / "run" / "checkpoint").mkdir()
    _, described, settings = start()
    assert described["group_by"] == "length" and settings["epochs"] == 7
    assert settings["learning_rate"] == 0.5 and settings["batch_size"] == 3
    assert settings["encoder_rate"] == presets.OWN_PHOTOS["encoder_rate"], "an object"
    assert "monitored" not in described, "BLEU-4, as then"
    *_, settings = start(epochs=2)
    assert settings["epochs"] == 2


def test_cross_entropy_chooses_where_bleu_would_by_chance(start, bundled, monkeypatch):
    for few, options, expected in (
        (2, {}, "val_cross_entropy"),
        (1, {}, "val_bleu_4"),
        (2, {"from_scratch": True, "encoder": "tiny"}, "val_bleu_4"),
    ):
        monkeypatch.setattr("keras_sat.training.plan.FEW_DEV_PHOTOS", few)
        _, described, _ = start(**options)
        assert described.get("monitored", "val_bleu_4") == expected


@pytest.mark.usefixtures("bundled", "without_graphs")
@pytest.mark.parametrize("dev, told", all_slow_but((8, True), [(8, True), (49, True), (50, False)]))
def test_few_dev_photos_are_told(dev, told, tmp_path, monkeypatch, capsys):
    folder = write_folder(tmp_path / "mine", train=2, dev=dev, test=0)

    def stop(*arguments, **options):
        raise NotImplementedError("nothing is trained here")

    monkeypatch.setattr(TrainingPhotos, "prepare", stop)
    with pytest.raises(NotImplementedError):
        keras_sat.fit("folder", data_dir=folder, output_dir=tmp_path / "run")
    said = capsys.readouterr().out
    assert (f"{dev} dev photos are too few to tell which epoch is the best" in said) == told
    assert dev != 8 or "uncertain by about 12 percentage points" in said


def test_a_start_without_a_whole_epoch_is_told(tmp_path, capsys):
    for told in (False, True):
        begun(tmp_path).record({"schedule": "constant"})
        said = "stopped in its first epoch; nothing was saved, starting again"
        assert (said in capsys.readouterr().out) == told


def photos_with(*captions, split="train"):
    return [CaptionedImage(str(n), "x.jpg", [text], split) for n, text in enumerate(captions)]


def test_own_words_are_frequent_here_and_were_rare_before():
    before = ["a", "dog", "on", "grass", *(f"w{n}" for n in range(30)), "guy", "hat"]
    train = photos_with(*["a pup on grass"] * 4, *["a guy on grass"] * 3, *["a hat"] * 2)
    assert own_words(train, before) == ["pup", "guy"], "two hats are too few"
    assert own_words([*train, *photos_with(*["a dog"] * 60)], before) == ["pup"], "of 5 %"
    assert own_words(train, ["pup", "guy", "a", "on", "grass"]) == []


def test_own_words_are_unused_only_where_the_photos_show_them():
    dev = photos_with("a pup runs", "a guy and a kid", split="dev")
    assert unused_words(["guy", "pup", "lass", "kid"], dev, ["a man", "a kid"]) == ["guy", "pup"]
    line = in_words([f"w{n}" for n in range(9)])
    assert line == "your words that no dev caption uses: w0, w1, w2, w3, w4, w5, w6, ..."
