"""What `fit` decides, before it reads a photo or asks for a device."""

import builtins
import re
from pathlib import Path

import pytest
import tensorflow as tf

from keras_sat import presets
from keras_sat.settings import CONSENSUS_BEAMS, Search
from keras_sat.training.plan import check_required, make_plan, options_to_set, this_computer

DOCS = Path(__file__).parents[2] / "docs"
TRAINING = DOCS / "training.md"
MANY = {"train": 6000, "dev": 1000, "test": 1000}


@pytest.fixture(scope="module")
def computer():
    """One without a GPU, whatever this one is."""
    return this_computer() | {"auto_dtype": "mixed_bfloat16", "devices": "CPU, 2 cores"}


def test_neither_files_nor_devices_are_touched(computer, monkeypatch):
    def reject(*arguments, **options):
        raise AssertionError("this is no pure function")

    monkeypatch.setattr(builtins, "open", reject)
    monkeypatch.setattr(tf.config, "list_physical_devices", reject)
    monkeypatch.setattr(tf.config, "get_visible_devices", reject)
    for data in ("scenes", "flickr8k", "folder", "photos"):
        plan = make_plan(data, MANY, {"dtype": "auto"}, **computer)
        assert str(plan) and plan.settings.training.dtype == "mixed_bfloat16"


@pytest.mark.parametrize(
    "data, num_photos, options, said",
    [
        ("flickr8k", MANY, {}, "preset: flickr8k\n"),
        ("flickr8k", MANY, {}, "soft attention before reading the last word, additive"),
        ("flickr8k", MANY, {}, "encoder vgg16 (frozen)"),
        ("folder", MANY, {}, "start: random weights"),
        ("folder", {"train": 400, "dev": 40}, {}, "the best by cross-entropy on dev is kept"),
        ("folder", {"train": 400}, {}, "the last one is kept"),
        ("folder", {"train": 40, "dev": 5}, {}, "no consensus with similar training photos"),
        ("photos", MANY, {"encoder": "tiny"}, "encoder tiny (scratch)"),
    ],
)
def test_what_fit_would_do_is_said_in_words(data, num_photos, options, said, computer):
    assert said in str(make_plan(data, num_photos, options, **computer))


def test_what_is_no_option_is_planned_too(computer):
    assert "encoder vgg19 (frozen)" in str(
        make_plan("flickr8k", MANY, {}, preset="paper", **computer)
    )
    lite0 = str(make_plan("flickr8k", MANY, {}, preset="flickr8k-lite0", **computer))
    assert "soft attention after reading the last word, bilinear" in lite0
    assert "at most 8, then 3 self-critical epochs" in lite0
    assert "all files are in a" in str(make_plan("photos", MANY, {}, output_dir="a", **computer))
    few = {"train": 400, "dev": 40}
    assert "start: random" in str(make_plan("folder", few, {}, from_scratch=True, **computer))


def test_a_preset_that_is_asked_for_leaves_out_what_the_options_make_impossible(computer):
    frozen = {"encoder_training": "frozen", "grid": "14x14", "num_views": 1}
    plan = make_plan("flickr8k", MANY, frozen, preset="flickr8k-lite0", **computer)
    assert plan.encoder_name == "efficientnet_lite0"
    optimizer, settings = plan.settings.optimizer, plan.settings
    assert optimizer.encoder_rate == optimizer.first_layer_rate == 1.0
    assert settings.cross_entropy.num_views == 1 and settings.encoder.grid == "14x14"
    assert settings.network.scoring == "bilinear", "what fits is kept"


def test_another_computer_has_the_same_plan(computer):
    plan, with_gpu = (
        make_plan("flickr8k", MANY, {}, **computer | {"devices": devices})
        for devices in ("CPU, 2 cores", "1 GPU")
    )
    assert plan.settings == with_gpu.settings and plan.preset == with_gpu.preset == "flickr8k"
    assert plan.encoder_name == with_gpu.encoder_name == "vgg16" and "on 1 GPU" in str(with_gpu)


def test_a_run_of_an_earlier_version_keeps_its_encoder_and_preset(computer):
    resumed = computer | {"resumed_encoder": "efficientnet_lite0"}
    plan = make_plan("flickr8k", MANY, {}, output_dir="a", **resumed)
    assert plan.preset == "flickr8k-lite0" and plan.encoder_name == "efficientnet_lite0"
    resumed = computer | {"resumed_encoder": "mobilenet_v2"}
    options = {"encoder": "mobilenet_v2"}
    plan = make_plan("flickr8k", MANY, options, output_dir="a", **resumed)
    assert plan.preset == "flickr8k" and plan.encoder_name == "mobilenet_v2"


def test_a_run_that_is_resumed_keeps_its_defaults_but_not_what_is_asked_for(computer):
    record = {"batch_size": 3, "epochs": 7, "learning_rate": {"class": "a schedule"}}
    plan = make_plan("folder", {"train": 400, "dev": 40}, {"epochs": 9}, **computer)
    assert plan.monitored == plan.words.monitored == "val_cross_entropy"
    plan = plan.resumed(record)
    settings = plan.settings
    assert (settings.training.batch_size, settings.cross_entropy.epochs) == (3, 9)
    assert settings.optimizer.learning_rate == presets.OWN_PHOTOS["learning_rate"]
    assert plan.monitored == "val_bleu_4", "as in the versions that recorded nothing else"


def test_each_phase_has_its_own_rate_folder_and_score(computer):
    options = {"epochs": 2, "learning_rate": 0.5, "encoder": "tiny"}
    rewards = {"self_critical_epochs": 3, "self_critical_rate": 0.25}
    both = make_plan("photos", MANY, options | rewards, **computer)
    assert both.phases == [
        ("", 2, 0.5, "", "val_bleu_4"),
        ("self-critical ", 3, 0.25, "self_critical", "val_cider"),
    ]
    assert make_plan("photos", MANY, options, **computer).phases == both.phases[:1]


def test_wrong_options_are_told_without_photos(computer):
    for reads in (options_to_set, lambda options: make_plan("flickr8k", {}, options, **computer)):
        with pytest.raises(ValueError, match="`epochs` must be at least 1"):
            reads({"epochs": 0})
    with pytest.raises(ValueError, match="must be one of: default"):
        make_plan("flickr8k", {}, {}, preset="flikr8k", **computer)
    with pytest.raises(ValueError, match="require each other"):
        check_required({"box_weight": 1.0}, boxes=None)


def test_the_example_of_the_docs(capsys):
    page = TRAINING.read_text(encoding="utf-8")
    code, expected = re.search(
        r"```python\n(from keras_sat\.training import .*?)```\n\n```text\n(.*?)```", page, re.DOTALL
    ).groups()
    exec(compile(code, TRAINING.name, "exec"), {})
    said = capsys.readouterr().out
    of_machine = re.compile(r" on (CPU, \d+ cores|\d+ GPU)$", re.MULTILINE)
    assert of_machine.sub("", said) == of_machine.sub("", expected)


# === What the pages say about defaults ===

FLICKR, COCO, PAPER = ["flickr8k", "flickr30k"], ["coco"], ["paper"]
LITE, VGG16, FINE_TUNED = ["flickr8k-lite0"], ["flickr8k"], ["400 photos"]
FROZEN, SCENES = ["6000 photos"], ["scenes"]
ALL, PLAIN = FLICKR + COCO + LITE, FROZEN + SCENES
STATED = {
    "questions.md": [
        ("`fit` groups by photo with the presets for Flickr8k", "group_by", ALL, "image"),
        ("whenever it trains the encoder", "group_by", FINE_TUNED + SCENES, "image"),
        ("with `--preset paper`, it groups by length", "group_by", PAPER + FROZEN, "length"),
        ("with greedy search or", "num_beams", PLAIN + FINE_TUNED + PAPER, 1),
        ("Flickr30k and COCO, with 3 beams", "num_beams", ALL, 3),
        ("`--epochs` is a maximum: 20 by default", "epochs", PLAIN, 20),
        ("and 30 when `fit` fine-tunes the bundled captioner", "epochs", FINE_TUNED, 30),
        ("stops after 5 epochs without an improvement", "patience", PLAIN + FINE_TUNED, 5),
        ("these train for all of their epochs", "patience", ALL, None),
        ("64/196 = .33, which is the default", "attention_penalty_weight", PLAIN, 0.33),
        ("`--preset paper` uses the script's number, 1", "attention_penalty_weight", PAPER, 1.0),
        ("Flickr8k with EfficientNet-Lite0 and the", "attention_penalty_weight", LITE, 0.0),
        ("Adam with a constant learning rate of 4e-4", "learning_rate", PLAIN, 4e-4),
        ("Flickr8k and Flickr30k use 1e-3", "learning_rate", FLICKR, 1e-3),
        ("the preset for COCO uses 4e-4", "learning_rate", COCO, 4e-4),
        ("on your own photos, the learning rate is 1e-4", "learning_rate", FINE_TUNED, 1e-4),
        ("Flickr30k have an `attention_dim` of 256", "attention_dim", FLICKR, 256),
        ("the preset for COCO has a `hidden_dim` of 1,024", "hidden_dim", COCO, 1024),
        ("The default is 64 captions", "batch_size", PLAIN + ALL, 64),
        ("on your own photos, the default is 16", "batch_size", FINE_TUNED, 16),
        ("preset stores two views of each training photo", "num_views", VGG16, 2),
    ],
    "training.md": [
        ("after `--patience` epochs (default: 5)", "patience", FINE_TUNED, 5),
        ("Training stops after 5 epochs without a better one", "patience", PLAIN, 5),
        ("set `patience` to None", "patience", ALL, None),
    ],
    "troubleshooting.md": [
        ("preset stores two views of each training photo", "num_views", VGG16, 2),
        ("Flickr30k and COCO already use", "group_by", ALL, "image"),
    ],
}


def words_of(page):
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def plan_for(trained_on, computer):
    """Return the plan of a call of `fit` that leaves all options to their defaults."""
    if trained_on == "400 photos":
        return make_plan("folder", {"train": 400, "dev": 60}, {}, **computer)
    if trained_on == "6000 photos":
        return make_plan("folder", MANY, {}, **computer)
    if trained_on in PAPER + LITE:
        return make_plan("flickr8k", MANY, {}, preset=trained_on, **computer)
    return make_plan(trained_on, MANY, {}, **computer)


@pytest.mark.parametrize(
    "page, said, option, plans, value",
    [(page, *stated) for page, statements in STATED.items() for stated in statements],
)
def test_a_default_that_a_page_states_is_the_one_that_fit_takes(
    page, said, option, plans, value, computer
):
    assert said in words_of(page)
    for trained_on in plans:
        plan = plan_for(trained_on, computer)
        assert plan.settings.to_dict()[option] == value, trained_on


@pytest.mark.parametrize("page", ["questions.md", "troubleshooting.md"])
def test_the_space_that_features_take_counts_the_views_of_the_preset(page, computer):
    sizes = {}
    coco = {"train": 113_287, "dev": 5_000, "test": 5_000}
    for data, num_photos in {"flickr8k": MANY, "coco": coco}.items():
        num_views = plan_for(data, computer).settings.cross_entropy.num_views
        num_rows = sum(num_photos.values()) + num_photos["train"] * (num_views - 1)
        sizes[data] = num_rows * 14 * 14 * 512 * 2 / 1e9
    assert f"{sizes['flickr8k']:.1f} GB for Flickr8k" in words_of(page)
    assert f"and {sizes['coco']:.0f} GB for COCO" in words_of(page)


def test_the_beams_that_questions_states_are_those_of_a_search():
    words = words_of("questions.md")
    assert f"(`--num-beams`, {Search().resolved_num_beams()} by default)" in words
    assert f"such as the bundled `flickr8k`, use {CONSENSUS_BEAMS} by default" in words
