"""Known objects: what an ImageNet classifier sees changes captions."""

import dataclasses
import warnings

import numpy as np
import pytest
import tensorflow as tf
from helpers import assert_same_caption, random_pixels, torch_arrays

from data_utils import Vocabulary
from keras_sat import Captioner, evaluate, load_litert
from keras_sat.beyond import known_objects
from keras_sat.beyond.consensus import Consensus
from keras_sat.beyond.known_objects import (
    NUM_CLASSES,
    Recogniser,
    float_weights,
    nouns,
    without_network,
)
from keras_sat.beyond.object_classifier import (
    ObjectClassifier,
    network_with_classes,
    rounded_network,
)
from keras_sat.search.result import CaptionResult

WORDS = ["a", "cat", "dog", "dogs", "on", "boat", "canoe", "grass"]
TABBY, PUG, BEAGLE, CANOE, LIFEBOAT = 281, 254, 162, 472, 625
RATES = {"cat": (0.8, 0.01, 0.02), "dog": (0.9, 0.05, 0.3), "boat": (0.6, 0.1, 0.12)}


def a_recogniser(vocabulary=None, rates=RATES):
    """A recogniser without a classifier."""
    vocabulary = Vocabulary(WORDS) if vocabulary is None else vocabulary
    pairs = [
        (word_id, class_id)
        for word_id, word in enumerate(vocabulary.tokens)
        for class_id in nouns().get(word, ())
    ]
    word_ids, class_ids = np.array(pairs).T
    known = [vocabulary.tokens[word_id] for word_id in np.unique(word_ids)]
    all_rates = np.array([rates.get(word, (0.5, 0.5, 0.5)) for word in known], np.float32)
    return Recogniser(
        vocabulary, {"word_ids": word_ids, "class_ids": class_ids, "rates": all_rates}
    )


def seen(**classes):
    """Probabilities of classes, (1, classes); the rest is spread over all."""
    probabilities = np.zeros((1, NUM_CLASSES), np.float32)
    for name, probability in classes.items():
        probabilities[0, globals()[name]] = probability
    return probabilities + (1 - probabilities.sum()) / NUM_CLASSES


def a_result(caption):
    return CaptionResult(caption, caption.split(), -1.0, np.zeros((1, 1, 1)))


# === The table ===


@pytest.mark.parametrize(
    "class_id,words",
    [
        (TABBY, ["tabby", "cat", "cats", "animal"]),
        (PUG, ["pug", "dog", "dogs"]),
        (CANOE, ["canoe", "boat", "vehicle"]),
        (LIFEBOAT, ["lifeboat", "boat", "boats"]),
        (872, ["tripod"]),
        (967, ["espresso", "coffee", "beverage"]),
        (817, ["car", "cars", "vehicle"]),
        (339, ["horse", "animal"]),
        (954, ["banana", "bananas", "fruit"]),
        (14, ["bird", "birds"]),
    ],
)
def test_ten_classes_have_their_names(class_id, words):
    for word in words:
        assert class_id in nouns()[word], word
    others = {"cat", "dog", "boat", "bird", "fruit", "horse", "tripod"} - {*words}
    assert not any(class_id in nouns()[word] for word in others)


def test_people_verbs_and_vague_words_are_left_out():
    assert not {"person", "people", "object", "thing", "ride", "cover", "artifact"} & nouns().keys()


# === Shifts ===


def test_shifts_are_those_of_the_formula():
    recogniser = a_recogniser()
    place = {word: number for number, word in enumerate(recogniser.words)}
    assert recogniser.words == ["cat", "dog", "dogs", "boat", "canoe"]
    recognised = recogniser.recognised(seen(TABBY=0.9))
    shifts, p = recognised.noun_shifts[0], recognised.probabilities[0]
    mentioned = p[place["cat"]] * 0.8 + (1 - p[place["cat"]]) * 0.01
    assert shifts[place["cat"]] == pytest.approx(np.log(mentioned / 0.02), rel=1e-5)
    mentioned = p[place["dog"]] * 0.9 + (1 - p[place["dog"]]) * 0.05
    assert shifts[place["dog"]] == pytest.approx(np.log(mentioned / 0.3), rel=1e-5)
    assert shifts[place["boat"]] == 0, "about log(.1 / .12) is not sure enough"
    assert shifts[place["dogs"]] == shifts[place["canoe"]] == 0, "the classifier says nothing"


def test_only_what_people_would_mention_is_raised():
    sure = a_recogniser().recognised(seen(LIFEBOAT=0.9))
    unsure = a_recogniser().recognised(seen(LIFEBOAT=0.5))
    number = sure.recogniser.words.index("boat")
    assert sure.noun_shifts[0, number] > 0 == unsure.noun_shifts[0, number]


def test_a_caption_changes_if_it_lacks_what_is_raised_or_says_what_is_lowered():
    rates = RATES | {"canoe": (0.8, 0.018, 0.02)}
    recogniser = a_recogniser(rates=rates)
    tokens = recogniser.vocabulary.tokens

    def changed(caption, **classes):
        rows, shifts = recogniser.recognised(seen(**classes)).changes([a_result(caption)])
        if not rows:
            return None
        return {tokens[n]: np.sign(shifts[0, n]) for n in np.flatnonzero(shifts[0])}

    assert changed("a dog", TABBY=0.95) == {"cat": 1, "dog": -1}
    assert changed("grass", TABBY=0.95) == {"cat": 1, "dog": -1}
    assert changed("a cat", TABBY=0.95) is None, "it says cat, and no dog"
    assert changed("a dog on a cat", TABBY=0.95) == {"dog": -1}, "cat is said already"
    assert changed("a boat", CANOE=0.9) is None, "a canoe is a boat"
    assert changed("a dog", PUG=0.9) is None


def test_evidence_is_the_greatest_log_ratio_of_the_nouns_that_are_said():
    recognised = a_recogniser().recognised(seen(TABBY=0.95))
    results = [
        dataclasses.replace(a_result("a cat"), alternatives=[a_result("a dog"), a_result("grass")])
    ]
    (result,) = recognised.with_evidence(results)
    cat, dog, none = (one.evidence for one in (result, *result.alternatives))
    assert cat == pytest.approx(np.log((0.95 * 0.8 + 0.05 * 0.01) / 0.02), abs=0.01)
    assert dog < -1 and none == 0


def test_what_came_and_went_is_noted():
    recognised = a_recogniser().recognised(seen(TABBY=0.95))
    result = recognised.noted(0, a_result("a cat on grass"), instead_of=a_result("a dog on grass"))
    cat, dog = result.known_objects
    assert (
        cat["word"] == "cat" and cat["came"] and cat["probability"] == pytest.approx(0.95, abs=0.01)
    )
    assert dog["word"] == "dog" and not dog["came"] and dog["probability"] < 0.05
    assert result.to_dict()["known_objects"] == [cat, dog]
    assert "known_objects" not in a_result("a cat").to_dict()


def test_rates_are_shares_of_the_training_photos():
    probabilities = np.array([[1.0], [1.0], [0.0], [0.0]])
    said = np.array([[True], [False], [True], [False]])
    ((seen_rate, unseen_rate, usual),) = known_objects._rates(probabilities, said)
    assert seen_rate == pytest.approx((1 + 10 * 0.8) / (2 + 10))
    assert unseen_rate == pytest.approx((1 + 0.5) / (2 + 1))
    assert usual == pytest.approx((2 + 0.5) / (4 + 1))


# === In captions ===

RAISED, LOWERED = "star", "circle"  # classes 0 and 1


class SeesAStar:
    """A classifier that sees the class 0 in every photo."""

    def probabilities(self, photos):
        probabilities = tf.one_hot([0], NUM_CLASSES)
        return tf.repeat(probabilities, tf.shape(photos)[0], axis=0)


def knowing(captioner, classifier=None, *, raised=RAISED, lowered=LOWERED, **options):
    """A captioner of scenes that knows two of their nouns."""
    captioner = captioner.adapted(known_objects=True, **options)
    tokens = captioner.vocabulary.tokens
    rates = {raised: (0.99, 1e-8, 2e-8), lowered: (0.5, 1e-9, 0.5)}
    classes = {raised: 0, lowered: 1}
    words = sorted(rates, key=tokens.index)
    arrays = {
        "word_ids": np.array([tokens.index(word) for word in words]),
        "class_ids": np.array([classes[word] for word in words]),
        "rates": np.array([rates[word] for word in words], np.float32),
    }
    captioner.recogniser = Recogniser(captioner.vocabulary, arrays)
    captioner.recogniser.classifier = SeesAStar() if classifier is None else classifier
    return captioner


@pytest.fixture(scope="module", autouse=True)
def strong_shifts():
    """The captioner of scenes is surer of them than one of photos."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(known_objects, "LARGEST", 30.0)
        yield


@pytest.fixture(scope="module")
def seeing_stars(captioner):
    return knowing(captioner)


@pytest.fixture(scope="module")
def paths(scenes):
    """Scenes without a star, some with a circle."""
    return [scene.image_path for scene in scenes if "star" not in str(scene.captions)][:6]


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"num_beams": 5, "num_results": 5}])
def test_what_is_seen_is_said_and_what_is_excluded_is_not(seeing_stars, captioner, paths, options):
    plain = captioner.caption(paths, **options)
    assert not any(RAISED in result.words for result in plain)
    assert any(LOWERED in result.words for result in plain)
    found = seeing_stars.caption(paths, **options)
    for result, other in zip(found, plain):
        assert RAISED in result.words and LOWERED not in result.words
        changed = {change["word"]: change["came"] for change in result.known_objects}
        assert changed.pop(RAISED) and changed in ({}, {LOWERED: False})
        assert (LOWERED in changed) == (LOWERED in other.words)
        assert result.words.count(RAISED) == 1, "it is raised until it is said"
    off = seeing_stars.caption(paths, known_objects=False, **options)
    for result, other in zip(off, plain):
        assert_same_caption(result, other, log_prob={"rtol": 1e-6}, maps={"atol": 1e-6})
        assert result.known_objects == [] and result.log_prob_shift == 0


def test_probabilities_and_maps_are_those_of_the_network(seeing_stars, captioner, paths):
    result = seeing_stars.caption(paths[0])
    own = captioner.attend(paths[0], result.caption)
    assert result.log_prob == pytest.approx(own.log_prob, abs=1e-4)
    np.testing.assert_allclose(result.word_probs, own.word_probs, atol=1e-5)
    np.testing.assert_allclose(result.attention_weights, own.attention_weights, atol=1e-5)
    assert result.log_prob_shift > 1
    assert result.compared_log_prob == result.log_prob + result.log_prob_shift


def test_samples_and_parts_are_the_network_s_own(seeing_stars, captioner, paths):
    for options in ({"temperature": 1.0, "seed": 2}, {"region": (0, 0, 0.5, 0.5)}):
        found, plain = (one.caption(paths[0], **options) for one in (seeing_stars, captioner))
        assert found.caption == plain.caption and found.known_objects == []


def test_consensus_compares_what_the_search_compared(captioner, scenes, paths):
    new = knowing(captioner, consensus_weight=3.0)
    new.consensus = Consensus.build(new, scenes, show_progress=False)
    result = new.caption(paths[0])
    assert RAISED in result.words and result.consensus is not None and result.known_objects


def test_where_photos_are_missing_it_says_so(seeing_stars, captioner, paths, scenes):
    features = captioner.encode_each(paths[:1])
    features = np.stack([array for _, array in features])
    assert seeing_stars.caption_features(features)[0].known_objects == []
    with pytest.raises(ValueError, match="in photos, not in features.*known_objects=True"):
        seeing_stars.caption_features(features, known_objects=True)
    with pytest.raises(ValueError, match="require a captioner with a recogniser"):
        captioner.caption(paths[0], known_objects=True)


@pytest.mark.usefixtures("quick_meteor")
def test_evaluate_names_it(seeing_stars, captioner, scenes):
    few = scenes[:4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"split": "train", "show_progress": False}
        table = evaluate(seeing_stars, few, **options)
        assert table.settings["known_objects"] is True
        assert "known_objects" not in evaluate(captioner, few, **options).settings


# === Files, and the classifier itself ===


@pytest.fixture(scope="module")
def network():
    """The arrays of a classifier with random weights."""
    arrays = torch_arrays(network_with_classes(), width=1.0, num_classes=NUM_CLASSES)
    return rounded_network(arrays)


def test_the_classifier_is_the_rounded_network(network):
    arrays = torch_arrays(network_with_classes(), width=1.0, num_classes=NUM_CLASSES)
    weights = float_weights(network)
    kernels = [name for name, array in network.items() if array.dtype == np.int8]
    assert len(kernels) == 50 and sum(array.nbytes for array in network.values()) < 5_000_000
    np.testing.assert_allclose(
        [*weights.values()][-2],
        arrays["_fc.weight"].T,
        atol=np.abs(arrays["_fc.weight"]).max() / 250,
    )
    photos = random_pixels(2, 64, 48, 3)
    probabilities = np.asarray(ObjectClassifier(weights).probabilities(photos))
    assert probabilities.shape == (2, NUM_CLASSES)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.abs(probabilities[0] - probabilities[1]).max() > 0


@pytest.fixture(scope="module")
def whole(captioner, scenes, network):
    """A captioner of scenes with a random classifier that always sees a star."""
    captioner = captioner.adapted(known_objects=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(known_objects, "nouns", lambda: {"star": [3, 4], "circle": [5]})
        recogniser = Recogniser.build(captioner, scenes[:100], network, show_progress=False)
    assert recogniser.words == ["star", "circle"]
    assert ((recogniser.arrays["rates"] > 0) & (recogniser.arrays["rates"] < 1)).all()
    rates = np.array([[0.99, 0.99, 2e-8], [1e-9, 1e-9, 0.5]], np.float32)
    captioner.recogniser = Recogniser(captioner.vocabulary, {**recogniser.arrays, "rates": rates})
    return captioner


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model", "model.keras"])
def test_it_is_saved(whole, paths, tmp_path, name):
    whole.save(tmp_path / name)
    loaded = Captioner.load(tmp_path / name)
    assert loaded.known_objects
    for result, other in zip(loaded.caption(paths), whole.caption(paths)):
        assert RAISED in result.words
        assert_same_caption(result, other, log_prob={"atol": 1e-5}, maps={"atol": 1e-5})
        assert result.known_objects == other.known_objects


@pytest.mark.slow
def test_litert_says_the_same(whole, paths, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    monkeypatch.setattr("keras_sat.deploy.litert_captioner.is_installed", lambda: True)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    whole.save(tmp_path / "model")
    quick = load_litert(tmp_path / "model")
    for result, other in zip(quick.caption(paths), whole.caption(paths)):
        assert RAISED in result.words
        assert_same_caption(result, other, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
        assert [change["word"] for change in result.known_objects] == [
            change["word"] for change in other.known_objects
        ]
        assert result.log_prob_shift == pytest.approx(other.log_prob_shift, abs=1e-3)
        assert result.confidence == pytest.approx(other.confidence, abs=1e-3)


@pytest.mark.parametrize(
    "damage",
    [
        {"rates": np.ones((5, 3), np.float32)},
        {"rates": np.full((4, 3), 0.5, np.float32)},
        {"class_ids": np.array([1000])},
        {"word_ids": np.array([-1])},
        {"word_ids": np.array([0.5])},
    ],
)
def test_damaged_arrays_are_rejected(damage):
    recogniser = a_recogniser()
    with pytest.raises(ValueError, match="recogniser of this captioner is damaged"):
        Recogniser(recogniser.vocabulary, {**recogniser.arrays, **damage})
    missing = {name: recogniser.arrays[name] for name in recogniser.arrays if name not in damage}
    with pytest.raises(ValueError, match="damaged"):
        Recogniser(recogniser.vocabulary, missing)


def test_a_recogniser_without_its_network_says_so():
    recogniser = a_recogniser()
    assert without_network(recogniser.arrays).keys() == recogniser.arrays.keys()
    with pytest.raises(ValueError, match="damaged"):
        recogniser.classifier  # noqa: B018 (made when it is first asked for)


def test_a_vocabulary_without_such_nouns_is_rejected(captioner, scenes, network, monkeypatch):
    monkeypatch.setattr(known_objects, "nouns", dict)
    with pytest.raises(ValueError, match="no noun that is a class of ImageNet"):
        Recogniser.build(captioner, scenes, network)
