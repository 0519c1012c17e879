"""What `fit` decides, before it reads a photo or asks for a device."""

import builtins
import re
from pathlib import Path

import pytest
import tensorflow as tf

from keras_sat import presets
from keras_sat.training.plan import Machine, PhotoCounts, Request, check_request, resolve

TRAINING = Path(__file__).parents[1] / "docs" / "training.md"
MANY = PhotoCounts(train=6000, dev=1000, test=1000)


@pytest.fixture(scope="module")
def machine():
    """A computer without a GPU, whatever this one is."""
    here = Machine.here("folder")
    return here._replace(
        default_encoder="efficientnet_lite0", auto_dtype="mixed_bfloat16", devices="CPU, 2 cores"
    )


def test_neither_files_nor_devices_are_touched(machine, monkeypatch):
    def reject(*arguments, **options):
        raise AssertionError("this is no pure function")

    monkeypatch.setattr(builtins, "open", reject)
    monkeypatch.setattr(tf.config, "list_physical_devices", reject)
    monkeypatch.setattr(tf.config, "get_visible_devices", reject)
    for data in ("scenes", "flickr8k", "folder", "photos"):
        plan = resolve(Request(data, {"dtype": "auto"}), MANY, machine)
        assert str(plan) and plan.options.training.dtype == "mixed_bfloat16"


@pytest.mark.parametrize(
    "request_, photos, said",
    [
        (Request("flickr8k", {}), MANY, "preset: flickr8k-efficientnet_lite0"),
        (Request("flickr8k", {}), MANY, "soft attention after reading the last word, bilinear"),
        (
            Request("flickr8k", {}),
            MANY,
            "at most 8, then 3 consistency epochs, then 3 self-critical epochs",
        ),
        (Request("flickr8k", {}, preset="paper"), MANY, "encoder vgg19 (frozen)"),
        (Request("folder", {}), MANY, "start: random weights"),
        (Request("folder", {}), PhotoCounts(400, 40), "the best by cross-entropy on dev is kept"),
        (Request("folder", {}), PhotoCounts(400), "the last one is kept"),
        (Request("folder", {}), PhotoCounts(40, 5), "no consensus with similar training photos"),
        (Request("photos", {"encoder": "tiny"}), MANY, "encoder tiny (scratch)"),
        (Request("photos", {}, output_dir="a"), MANY, "all files are in a"),
    ],
)
def test_what_fit_would_do_is_said_in_words(request_, photos, said, machine):
    assert said in str(resolve(request_, photos, machine))


def test_another_machine_has_another_plan(machine):
    with_gpu = machine._replace(default_encoder="vgg16", devices="1 GPU")
    plan = resolve(Request("flickr8k", {}), MANY, with_gpu)
    assert plan.preset == "flickr8k" and plan.network["encoder"] == "vgg16"
    assert "on 1 GPU" in str(plan)
    resumed = machine._replace(resumed_encoder="mobilenet_v2")
    plan = resolve(Request("flickr8k", {}, output_dir="a"), MANY, resumed)
    assert plan.preset == "flickr8k-mobilenet_v2" and plan.network["encoder"] == "mobilenet_v2"


def test_a_run_that_is_resumed_keeps_its_defaults_but_not_what_is_asked_for(machine):
    record = {"batch_size": 3, "epochs": 7, "learning_rate": {"class": "a schedule"}}
    plan = resolve(Request("folder", {"epochs": 9}), PhotoCounts(400, 40), machine, record)
    training = plan.options.training
    assert (training.batch_size, training.epochs) == (3, 9)
    assert training.learning_rate == presets.OWN_PHOTOS["learning_rate"]
    assert plan.monitored == "val_bleu_4", "as in the versions that recorded nothing else"


def test_wrong_options_are_told_without_photos(machine):
    with pytest.raises(ValueError, match="`epochs` must be at least 1"):
        check_request(Request("flickr8k", {"epochs": 0}), machine)
    with pytest.raises(ValueError, match="require each other"):
        check_request(Request("flickr8k", {"box_weight": 1.0}), machine)


def test_the_example_of_the_docs(capsys):
    page = TRAINING.read_text(encoding="utf-8")
    code, expected = re.search(
        r"```python\n(from keras_sat\.training\.plan.*?)```\n\n```text\n(.*?)```", page, re.DOTALL
    ).groups()
    exec(compile(code, TRAINING.name, "exec"), {})
    said = capsys.readouterr().out
    of_machine = re.compile(r" on (CPU, \d+ cores|\d+ GPU)$", re.MULTILINE)
    assert of_machine.sub("", said) == of_machine.sub("", expected)
