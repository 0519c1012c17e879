"""Each setting is written down once, in its part, with default, bound and meaning.

A misspelt one is guessed wherever it is passed.
"""

import dataclasses
import inspect
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, write_photos
from PIL import Image

import keras_sat
from data_utils import find_pictures, load_image
from keras_sat import Captioner, Ensemble, bounds, settings
from keras_sat.checks import ArgumentError, argument_called
from keras_sat.network import ATTENTIONS, ENCODERS, SCORINGS, DotAttention
from keras_sat.network.cells import CELLS, GRUCell
from keras_sat.settings import (
    CaptionerSettings,
    Encoder,
    FitSettings,
    Network,
    Optimizer,
    Rewards,
    Search,
    SearchRules,
    Settings,
    Training,
    with_options,
)
from keras_sat.training import recipe

SIZES = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}
PARTS = [*FitSettings.parts().values(), Search]


@pytest.mark.parametrize("part", PARTS)
def test_defaults_are_within_their_bounds_and_every_setting_is_documented(part):
    made = part()
    assert made.to_dict() == part.defaults() and tuple(made.to_dict()) == part.names()
    assert part.heading in settings.HEADINGS and part.__doc__
    for name, field in part.fields().items():
        assert field.kw_only and len(field.metadata["help"]) > 5, name
        assert bool(field.metadata["none_means"]) >= (field.default is None), (
            f"{name}: what does None mean?"
        )
        assert field.metadata["bound"].takes_none or field.default is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, part.names()[0], 5)


@pytest.mark.parametrize(
    "cls, name, value, message",
    [
        (Network, "attention", "gentle", "`attention` must be one of: soft, hard, none."),
        (
            Network,
            "num_layers",
            0,
            "`num_layers` must be a whole number from 1 to 2147483647. ",
        ),
        (Network, "hidden_dim", True, "`hidden_dim` must be a whole number"),
        (
            Network,
            "dropout_words",
            1.0,
            "`dropout_words` must be a number of at least 0 and below 1. ",
        ),
        (Network, "seed", None, "`seed` must be a whole number from 0 to 4294967295."),
        (Network, "deep_output", "yes", "`deep_output` must be True or False."),
        (
            Encoder,
            "encoder",
            "vgg99",
            "efficientnet_lite2, tiny, or a keras.Model, or None.",
        ),
        (Encoder, "encoder", np.mean, "or a keras.Model, or None."),
        (
            Encoder,
            "encoder_training",
            "melted",
            "must be one of: frozen, fine-tuned, scratch. ",
        ),
        (
            SearchRules,
            "length_penalty",
            "x",
            "`length_penalty` must be a number of at least 0. ",
        ),
        (
            Training,
            "minutes",
            0,
            "`minutes` must be a number above 0",
        ),
        (
            Search,
            "max_length",
            10_001,
            "`max_length` must be a whole number from 1 to 10000. ",
        ),
        (Search, "temperature", float("nan"), "`temperature` must be a number above 0."),
        (Search, "top_p", 1.5, "`top_p` must be a number above 0 and at most 1."),
        (
            Optimizer,
            "learning_rate",
            "x",
            "`learning_rate` must be a number above 0",
        ),
    ],
)
def test_what_is_out_of_bounds_is_rejected(cls, name, value, message):
    for call in (lambda: cls(**{name: value}), lambda: cls.check(**{name: value})):
        with pytest.raises(ValueError) as caught:
            call()
        assert message in str(caught.value) and f"Received: {name}=" in str(caught.value)


def test_an_error_shows_other_names_of_its_arguments():
    with pytest.raises(ArgumentError) as caught:
        Search(num_beams=0)
    shown = caught.value.text({"num_beams": "--num-beams"})
    assert shown == "`--num-beams` must be a whole number from 1 to 1000. Received: --num-beams=0"
    with pytest.raises(ArgumentError) as caught, argument_called("weights", "encoder_weights"):
        raise ArgumentError("It is gone.", way_out="its path", weights="a.h5")
    assert (
        str(caught.value)
        == "It is gone. Pass its path as `encoder_weights`. Received: encoder_weights='a.h5'"
    )


@pytest.mark.parametrize(
    "cls, given, message",
    [
        (
            Search,
            {"top_k": 3},
            "require `temperature`. Received: top_k=3, top_p=None",
        ),
        (
            Search,
            {"num_beams": 3, "num_results": 4},
            "than beams. Received: num_results=4, num_beams=3",
        ),
    ],
)
def test_what_concerns_two_options(cls, given, message):
    with pytest.raises(ValueError, match=message):
        cls(**given)
    cls.check(**given)  # each of them may be
    assert Search(temperature=0.5, num_results=9, num_beams=1).num_results == 9


def test_a_search_is_complete_and_a_call_replaces_what_it_is_given():
    own = Search(length_penalty=0.5, num_beams=5)
    assert Search.of("caption", {"max_length": 9}, own) == dataclasses.replace(own, max_length=9)
    assert Search.of("caption", {"length_penalty": None}, own) == own, "None: the captioner's own"
    assert Search.of("caption", {"num_beams": None}, own).resolved_num_beams() == 3, (
        "a value of its own"
    )
    with pytest.raises(ValueError, match="Received: temperature=1.0, num_beams=2"):
        Search.of("caption", {"temperature": 1.0, "num_beams": 2}, own)
    with pytest.raises(ValueError, match="^export has no such option. .*consensus_weight"):
        Search.of("export", {"consensus_weight": 2.0}, own, names=settings.ALGORITHM_OPTIONS)
    assert Search(num_beams=2).for_graph(with_consensus=True).num_results == 2
    assert Search().resolved_num_beams(with_consensus=True) == settings.CONSENSUS_BEAMS


def test_a_graph_of_a_search_is_made_for_all_settings_but_those_that_say_otherwise():
    given = {"length_penalty": np.float32(0.5), "max_length": np.int64(9), "num_results": 2}
    others = {"seed": 1, "first_photo": 2, "batch_size": 3, "votes": True, "consensus_weight": 4.0}
    made = Search(**given, **others).for_graph()
    assert made == Search(**given, num_beams=3) and hash(made) == hash(made.for_graph())
    assert type(made.length_penalty) is float and type(made.max_length) is int
    assert {*others}.isdisjoint(Search.graph_names()), "no graph for each seed"
    assert {*given, *SearchRules.names(), "temperature"} - {*others} <= {*Search.graph_names()}


def test_names_that_are_written_out_so_that_options_need_no_tensorflow():
    assert tuple(ENCODERS) == bounds.ENCODER_NAMES
    assert tuple(ATTENTIONS) == bounds.ATTENTION_NAMES
    assert tuple(SCORINGS) == bounds.SCORING_NAMES
    assert tuple(CELLS) == bounds.CELL_NAMES
    code = "import sys, keras_sat.settings as s; s.FitSettings(), s.Search(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "keras", "numpy"} & {
        name.partition(".")[0] for name in ran.stdout.split()
    }


def test_settings_are_made_from_names_and_each_part_gets_its_own():
    given = {"seed": 3, "hidden_dim": 4, "reward_baseline": "others"}
    made = FitSettings.of("fit", given)
    assert made.network.hidden_dim == 4 and made.rewards == Rewards(reward_baseline="others")
    assert made.training.seed == made.network.seed == 3, "the seed of all parts that have one"
    assert made.to_dict() == {**FitSettings.defaults(), **given}
    other = made.replace(hidden_dim=5, epochs=2)
    assert (other.network.hidden_dim, other.cross_entropy.epochs, other.training.seed) == (5, 2, 3)
    assert other.encoder is made.encoder, "a part that is not changed is the same object"
    assert "network: Network(attention='soft'" in str(made) and "hidden_dim=4" in str(made)
    with pytest.raises(ValueError, match="^fit has no such option. .* hidden_dim[?] .*hiden_dim$"):
        FitSettings.of("fit", {"hiden_dim": 4})
    with pytest.raises(ValueError, match="mean hidden_dim"):
        made.replace(hiden_dim=4)
    with pytest.raises(ValueError, match="^f has no such option. .*self_critical_epochs, .*: qqq$"):
        Rewards.of("f", {"qqq": 4})


def test_what_changes_the_features_of_an_encoder_says_so():
    """A value of None, 0 or "" has no effect on them."""
    names = Encoder.feature_names()
    assert names[0] == "encoder" and {*names} >= {"encoder_layer", "grid", "photo_blur"}
    assert not {"encoder_training", "trained_up_to", "grid_shape"} & {*names}
    assert not any(Encoder.defaults()[name] for name in names[1:] if name != "encoder_weights")
    settings = Encoder(encoder="tiny", photo_blur=0.5, image_size=32, encoder_weights=None)
    assert settings.feature_settings() == {"image_size": 32, "photo_blur": 0.5}


def test_only_the_seed_belongs_to_two_parts():
    """A second meaning of a name would be set by the same argument."""
    names = [name for part in FitSettings.parts().values() for name in part.names()]
    assert {name for name in names if names.count(name) > 1} == {"seed"}


def test_a_docstring_lists_the_options_that_a_function_takes():
    def draw(photo, **options):
        """Draw."""
        return photo, options

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Both(Settings):
        rewards: Rewards = Rewards()
        search: Search = Search()

    documented = with_options(Both, shown=("top_k", "length_penalty"))(draw)
    assert documented is draw
    shown = "(photo, *, top_k: int | None = None, length_penalty: float = 0.0, **options)"
    assert str(inspect.signature(draw)) == shown
    lines = inspect.getdoc(draw).split("\n")
    assert lines[:3] == ["Draw.", "", "Most used options:"]
    top_k = "    top_k: sample only from the k most probable words. Default: None (from all)."
    assert lines[3] == top_k and lines.count(top_k) == 1
    rate = "    self_critical_rate: constant learning rate of these epochs. Default: 5e-05."
    assert lines.index("Self-critical epochs:") < lines.index(rate) < lines.index("Search:")

    @with_options(Rewards, ("reward_baseline", "self_critical_rate"))
    class Draw:
        """Draws."""

        def __init__(self, **options):
            pass

    named = named_in_docstring(Draw)
    assert named == ["Draws.", "", "Options", "reward_baseline", "self_critical_rate"]


def test_a_docstring_says_what_stands_for_options_that_are_not_passed():
    adapted = inspect.getdoc(keras_sat.Captioner.adapted)
    assert "    sharpness_weight: weight of the entropy of attention in the loss; try" in adapted
    num_options = len(CaptionerSettings.names())
    assert adapted.count("Default: the captioner's own.") == num_options == adapted.count("Default")


def named_in_docstring(function):
    """Return the names in a docstring that are followed by a colon, in their order."""
    return [line.strip().partition(":")[0] for line in inspect.getdoc(function).split("\n")]


def test_the_help_of_fit_has_its_options_by_kind():
    named = named_in_docstring(keras_sat.fit)
    headings = [named.index(heading) for heading in settings.HEADINGS if heading in named]
    assert named.index("boxes") < named.index("encoder") < headings[0]
    assert headings == sorted(headings)
    assert (
        headings[0] < named.index("patience") < headings[1] < named.index("clip_norm") < headings[2]
    )
    names = {*inspect.signature(keras_sat.fit).parameters} - {"options"}
    for name in names.union(FitSettings.names()):
        assert named.count(name) == 1, name


@pytest.mark.parametrize(
    "function, kind, shown",
    [
        (keras_sat.fit, FitSettings, settings.SHOWN_IN_FIT),
        (Captioner.caption, Search, Search.names()),
    ],
    ids=["fit", "caption"],
)
def test_a_signature_shows_the_most_used_settings_with_their_defaults(function, kind, shown):
    parameters = inspect.signature(function).parameters
    *_, last = parameters
    assert last == "options" and {*shown} <= {*kind.names()}
    for name in shown:
        default = kind.fields()[name].default
        assert parameters[name].default == (None if name in kind.defaults_in_words else default)
    named = named_in_docstring(function)
    heading = "Options" if {*shown} == {*kind.names()} else settings.MOST_USED
    first = named.index(heading)
    assert named[first + 1 : first + 1 + len(shown)] == [*shown]


def test_a_captioner_has_its_settings_with_those_that_were_left_to_the_encoder():
    options = {"encoder": "tiny", "image_size": 16, "attention": "hard", "reward_weight": 0.3}
    options |= {"grid_shape": (2, 2), "length_penalty": 0.4, **SIZES}
    captioner = Captioner(["dog"], **options)
    expected = CaptionerSettings.of("Captioner", options)
    assert captioner.decoder.settings is captioner.settings.network == expected.network
    assert captioner.paper_objective.settings is captioner.settings.loss == expected.loss
    of_encoder = {"encoder_training": "scratch", "photo_blur": 0.0}
    assert captioner.settings == expected.replace(**of_encoder)
    assert captioner.current_options() == {**expected.to_dict(), **of_encoder}
    assert (captioner.encoder, captioner.attention) == ("tiny", "hard")
    assert captioner.search_settings == Search(length_penalty=0.4)
    captioner.search_settings = Search(length_penalty=0.7, num_beams=5)
    assert captioner.settings.search == SearchRules(length_penalty=0.7), "what is saved"


def test_a_captioner_takes_its_settings_whole_and_options_in_place_of_them():
    settings = FitSettings.of("fit", {"encoder": None, "label_smoothing": 0.2, **SIZES}).captioner
    assert type(settings) is CaptionerSettings
    captioner = Captioner(["dog"], settings)
    assert captioner.decoder.settings is settings.network
    assert captioner.paper_objective.settings is settings.loss
    other = Captioner(["dog"], settings, hidden_dim=6).settings
    assert other.loss is settings.loss and other.network.hidden_dim == 6
    with pytest.raises(ValueError, match="mean hidden_dim"):
        Captioner(["dog"], settings, hiden_dim=6)


@pytest.fixture(scope="module")
def captioner():
    captioner = Captioner(["dog", "runs"], encoder=None, **SIZES)
    captioner.build(((None, 6, 7), (None, None)))
    return captioner


def test_each_door_guesses_what_was_meant(captioner, monkeypatch):
    monkeypatch.setattr(recipe, "read_data", None)
    monkeypatch.setattr("keras_sat.measuring.evaluation.read_data", None)
    features = np.zeros((1, 6, 7), np.float32)
    for call, meant in (
        (lambda: keras_sat.fit([], hiden_dim=3), "fit .* mean hidden_dim"),
        (
            lambda: Captioner(["dog"], encoder=None, lenght_penalty=3),
            "Captioner .* mean length_penalty",
        ),
        (lambda: captioner.caption([], num_beems=3), "caption .* mean num_beams"),
        (
            lambda: captioner.caption_features(features, max_lenght=3),
            "caption_features .* mean max_length",
        ),
        (lambda: Ensemble([captioner]).caption([], temprature=3), "caption .* mean temperature"),
        (lambda: keras_sat.evaluate(captioner, "scenes", splitt="dev"), "evaluate .* mean split"),
    ):
        with pytest.raises(ValueError, match=meant):
            call()
    with pytest.raises(ValueError, match="no such option. .*num_beams, max_length.*qqqqq"):
        captioner.caption_features(features, qqqqq=3)


def test_learning_rates():
    for rate in (0.1, 1, np.float32(0.1), keras.optimizers.schedules.CosineDecay(0.1, 10)):
        assert Optimizer(learning_rate=rate).learning_rate == rate


def test_what_caption_takes(tmp_path):
    write_photos(tmp_path / "photos", ["b.png", "a.png"], size=(16, 16))
    write_photos(tmp_path / "photos" / "deep", ["c.png"], size=(16, 16))
    (tmp_path / "empty").mkdir()
    captioner = Captioner(["dog", "runs"], encoder="tiny", image_size=16, **SIZES)
    search = {"num_beams": 1, "max_length": 2}
    folder = tmp_path / "photos"
    photos = {path: load_image(path) for path in find_pictures(folder, recursive=True)}
    a, b, c = photos.values()

    def seen(images, **options):
        results = captioner.caption(images, **options, **search)
        return [result.image for result in results] if isinstance(results, list) else results.image

    with pytest.warns(UserWarning, match="in subfolders left out: 1"):
        np.testing.assert_array_equal(seen(folder), [a, b])
    np.testing.assert_array_equal(seen(str(folder), recursive=True), [a, b, c])
    np.testing.assert_array_equal(seen([f"{folder}/b*", str(folder / "a.png"), b]), [b, a, b])
    np.testing.assert_array_equal(seen(f"{folder}/a*"), [a])
    np.testing.assert_array_equal(seen(folder / "a.png"), a)
    for batch in (a[None], tf.constant(a[None]), [a], [Image.fromarray(a)], (a.astype(float),)):
        np.testing.assert_array_equal(seen(batch), [a])
    grey = a[:, :, 0]
    for image in (grey, grey[:, :, None], Image.fromarray(grey)):
        np.testing.assert_array_equal(seen(image), np.repeat(grey[:, :, None], 3, axis=2))
    for image in (a / 255, a[None] / 255.0, [tf.constant(a / 255.0)], a / 127.5 - 1, a > 100):
        with pytest.raises(ValueError, match="values 0..255, not 0..1"):
            captioner.caption(image, **search)
    with pytest.raises(ValueError, match="empty: this folder has no pictures"):
        captioner.caption(tmp_path / "empty", **search)
    with pytest.raises(FileNotFoundError):
        captioner.caption(f"{folder}/*.gif", **search)


def test_a_folder_may_have_an_ending(captioner, tmp_path):
    captioner.save(tmp_path / "v1.5")
    assert Captioner.load(tmp_path / "v1.5").weights_digest() == captioner.weights_digest()


def test_what_is_added_to_a_dict_is_an_option(monkeypatch):
    monkeypatch.setitem(SCORINGS, "mine", DotAttention)
    monkeypatch.setitem(CELLS, "mine", GRUCell)
    monkeypatch.setitem(ENCODERS, "mine", ENCODERS["tiny"])
    captioner = Captioner(["dog"], encoder="mine", scoring="mine", cell="mine", hidden_dim=66)
    assert captioner.settings.network.cell == "mine" and captioner.encoder_model.output_shape[
        1:
    ] == (
        16,
        16,
        66,
    )
    for name in ("scoring", "cell", "encoder"):
        with pytest.raises(ValueError, match=f"must be one of: .*mine.* Received: {name}='yours'"):
            Captioner(["dog"], **{"encoder": None, **SIZES, name: "yours"})


# === What is known of options ===

OF_THE_PAPER = {
    *("attention", "embedding_dim", "hidden_dim", "attention_dim", "context_gate", "deep_output"),
    *("dropout_before_readout", "dropout_after_readout", "encoder_layer", "grid_shape"),
    *("attention_penalty_weight", "num_samples", "reward_weight", "entropy_weight"),
    *("optimizer", "learning_rate", "epochs", "batch_size", "patience", "max_words", "seed"),
}


def test_the_figure_of_every_option_that_is_not_the_papers_is_in_one_table():
    text = (ROOT / "benchmarks" / "flickr8k" / "tried.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Every option that is not the paper's\n")
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    named = {*FitSettings.names(), *Search.names()}
    assert named - OF_THE_PAPER <= listed
