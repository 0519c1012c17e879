"""Votes of whole captions: `caption`, `attend` and displays."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tensorflow as tf
from helpers import photo_captioner, random_pixels
from PIL import Image

import keras_sat
from data_utils import CaptionedImage
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from data_utils.scenes import WordPlace
from keras_sat import AttentionDisplay, Ensemble, gallery
from keras_sat.__main__ import main
from keras_sat.measuring.measured_maps import maps_to_rank, measured_maps
from keras_sat.measuring.phrase_grounding import ground_captions, ground_phrases, grounding_figures
from keras_sat.search import CaptionResult
from keras_sat.settings import MAP_KINDS

GREEDY = {"num_beams": 1, "max_length": 5}


# To trace a graph for each captioner takes long.
pytestmark = pytest.mark.usefixtures("module_without_graphs")


@pytest.fixture(scope="module")
def photos():
    return list(random_pixels(3, 16, 16, 3))


@pytest.fixture(scope="module")
def plain():
    """A captioner as in the paper, which no test may change."""
    return photo_captioner()


@pytest.fixture(scope="module")
def said(plain, photos):
    """What it says to each photo, with votes."""
    return plain.attend(photos, "a dog", votes=True)


def assert_votes_are_those_of_the_trace(captioner, photo, result):
    trace = captioner.trace(photo, result.caption)
    votes = [trace.votes(t) for t in range(len(result.words))]
    assert result.votes.shape == (len(result.words), *captioner.rows_and_columns())
    np.testing.assert_allclose(result.votes, votes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": "none"},
        {"attention": "hard", "cell": "gru", "num_layers": 2},
        {"attends": "after", "sentinel": True, "deep_output": False},
    ],
    ids=["soft", "none", "hard", "after"],
)
def test_they_are_those_of_the_trace(photos, options):
    captioner = photo_captioner(**options)
    captions = ["a dog in", "flies"]
    results = captioner.attend(photos[:2], captions, votes=True)
    features = captioner.encode(np.stack(photos[:2]))
    of_features = captioner.attend_features(features, captions, votes=True)
    for photo, result, same in zip(photos, results, of_features):
        assert_votes_are_those_of_the_trace(captioner, photo, result)
        np.testing.assert_allclose(same.votes, result.votes, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_those_of_a_search_belong_to_its_words(plain, photos):
    found = plain.caption(photos, num_results=3, max_length=5, votes=True, batch_size=2)
    for photo, result in zip(photos, found):
        for each in [result, *result.alternatives]:
            assert_votes_are_those_of_the_trace(plain, photo, each)
    features = plain.encode(np.stack(photos))
    for photo, result in zip(photos, plain.caption_features(features, **GREEDY, votes=True)):
        assert_votes_are_those_of_the_trace(plain, photo, result)


def test_without_the_option_there_are_none(plain, photos):
    assert plain.caption(photos[0], **GREEDY).votes is None
    assert plain.attend(photos[0], "a dog").votes is None


def test_a_caption_without_words_has_no_votes(photos):
    captioner = photo_captioner()
    bias = captioner.decoder.readout.word_logits.bias
    bias.assign(tf.tensor_scatter_nd_add(bias, [[captioner.vocabulary.end_token_id]], [99.0]))
    result = captioner.caption(photos[0], **GREEDY, votes=True)
    assert result.words == [] and result.votes.shape == (0, 4, 4)
    assert result.maps("votes").shape == (0, 4, 4)


def test_more_captions_than_are_read_together(plain, photos, said, monkeypatch):
    monkeypatch.setattr("keras_sat.looking.votes.READ_TOGETHER", 2)
    for alone, result in zip(plain.attend(photos, "a dog", votes=True), said):
        np.testing.assert_allclose(alone.votes, result.votes, rtol=1e-4, atol=1e-6)


def test_errors(plain, photos):
    with pytest.raises(ValueError, match="single captioner.*votes=True"):
        Ensemble([plain]).caption(photos[0], **GREEDY, votes=True)
    with pytest.raises(ValueError, match="only one of `votes` and `sample_attention`"):
        photo_captioner(attention="hard").caption(photos[0], votes=True, sample_attention=True)


# === Maps ===


def result_with(votes):
    weights = np.full_like(votes, 1 / votes[0].size)
    words = [f"word{number}" for number in range(len(votes))]
    return CaptionResult(" ".join(words), words, -1.0, weights, votes=votes)


def test_a_map_of_votes_is_their_positive_part():
    votes = np.array([[[3.0, -5.0], [1.0, 0.0]], [[-1.0, -2.0], [0.0, -3.0]]])
    maps = result_with(votes).maps("votes")
    np.testing.assert_allclose(maps[0], [[0.75, 0], [0.25, 0]])
    np.testing.assert_allclose(maps[1], np.full((2, 2), 0.25))  # none is positive


def test_a_display_draws_them(said):
    result = said[0]
    display = AttentionDisplay.from_result(result, map_kind="votes")
    np.testing.assert_array_equal(display.attention_weights, result.maps("votes"))
    usual = AttentionDisplay.from_result(result)
    np.testing.assert_array_equal(usual.attention_weights, result.attention_weights)


def test_a_plot_of_votes_says_so(photos, said):
    from matplotlib import pyplot as plt

    result = said[0]
    for map_kind, notes in (("votes", ["votes"]), ("attention", [])):
        photo, *_ = AttentionDisplay.from_result(result, map_kind=map_kind).plot()
        assert [text.get_text() for text in photo.texts] == notes
    plt.close("all")
    with pytest.raises(ValueError, match="`map_kind` must be one of: attention, votes"):
        AttentionDisplay(photos[0], result.words, result.attention_weights, map_kind="scores")


def test_a_display_needs_them(photos):
    result = dataclasses.replace(result_with(np.ones((1, 2, 2))), votes=None, image=photos[0])
    with pytest.raises(ValueError, match="no votes: pass votes=True"):
        AttentionDisplay.from_result(result, map_kind="votes")
    with pytest.raises(ValueError, match="`map_kind` must be one of: attention, votes"):
        AttentionDisplay.from_result(result, map_kind="scores")


def test_json_has_them_with_the_maps():
    result = result_with(np.array([[[0.25, -0.5], [0.1234567, 0]]]))
    assert result.to_dict(maps=True)["votes"] == [[[0.25, -0.5], [0.123457, 0]]]
    assert "votes" not in result.to_dict()


def test_a_gallery_shows_them(tmp_path, photos, said):
    results = said
    as_attention = [
        dataclasses.replace(result, attention_weights=result.maps("votes")) for result in results
    ]

    def shown(results, kind):
        page = gallery(results, tmp_path / "page", map_kind=kind).read_text("utf-8")
        data = re.findall('<script type="application/json">(.*?)</script>', page)
        return [{**json.loads(text), "mapKind": None} for text in data]

    votes = shown(results, "votes")
    assert len(votes) == len(photos) and votes == shown(as_attention, "attention")
    assert votes != shown(results, "attention")


# === Measured on boxes ===

LEFT = (0.0, 0.0, 0.5, 1.0)


def test_on_the_boxes_of_phrases(plain, photos):
    image = CaptionedImage("a", photos[0], ["a red dog"])
    boxes = Boxes({"a": [Phrase(0, 0, 3, (LEFT,))]})
    result = plain.attend(photos[0], "a red dog", votes=True)
    for kind in MAP_KINDS:
        expected = result.maps(kind)[2, :, :2].sum()
        sums = ground_phrases(plain, [image], boxes, map_kind=kind)
        assert grounding_figures(sums)["mass"] == pytest.approx(expected, rel=1e-4)
        sums = ground_captions([result], [image], boxes, map_kind=kind)
        assert grounding_figures(sums)["mass"] == pytest.approx(expected, rel=1e-4)
        places = [[WordPlace(2, "dog", "noun", (LEFT,), (1, 1))]]
        grounding = keras_sat.ground([result], places, word_classes=None, map_kind=kind)
        assert grounding.mass == pytest.approx(expected, rel=1e-4)


def test_through_evaluate(plain, photos, quick_meteor):
    images = [
        CaptionedImage(f"{number}", photo, ["a red dog"], "dev")
        for number, photo in enumerate(photos[:1])
    ]
    boxes = Boxes({image.image_id: [Phrase(0, 0, 3, (LEFT,))] for image in images})
    options = {"split": "dev", "boxes": boxes, "show_progress": False, **GREEDY}
    with pytest.warns(UserWarning, match="few photos"):
        table = keras_sat.evaluate(plain, images, map_kind="votes", **options)
    expected = grounding_figures(ground_phrases(plain, images, boxes, map_kind="votes"))
    assert table.grounding["mass"] == pytest.approx(expected["mass"], rel=1e-4)
    assert table.settings["map_kind"] == "votes"
    with pytest.raises(ValueError, match="`map_kind` must be one of"):
        keras_sat.evaluate(plain, images, map_kind="vote", **options)
    with pytest.raises(ValueError, match="single captioner"):
        keras_sat.evaluate(Ensemble([plain]), images, map_kind="votes", **options)


# === Measured by taking cells away ===


def entropies(maps):
    logs = np.log(np.where(maps > 0, maps, 1))
    return -(maps * logs).sum(axis=(1, 2))


def test_blurred_votes_have_the_entropy_of_attention():
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.full(20, 5.0), 3).reshape(3, 4, 5)
    sharp, even = np.zeros((4, 5)), np.full((4, 5), 0.05)
    sharp[1, 3] = 2.0
    votes = np.stack([sharp, random.normal(size=(4, 5)) ** 3, even])
    result = dataclasses.replace(result_with(votes), attention_weights=weights)
    blurred = measured_maps(result, "votes-blurred")
    np.testing.assert_allclose(blurred.sum(axis=(1, 2)), 1)
    np.testing.assert_allclose(entropies(blurred[:2]), entropies(weights[:2]), rtol=1e-6)
    assert np.unravel_index(blurred[0].argmax(), (4, 5)) == (1, 3)
    np.testing.assert_allclose(blurred[2], even)  # it had more entropy than attention


def test_cells_are_taken_away_in_the_order_of_all_votes():
    votes = np.array([[[0.5, -2.0], [-1.0, 0.25]]])
    result = result_with(votes)
    np.testing.assert_array_equal(maps_to_rank(result, "votes"), votes)
    np.testing.assert_array_equal(maps_to_rank(result, "attention"), result.attention_weights)


@pytest.mark.parametrize("kind", ["votes", "votes-blurred"])
def test_faithfulness_takes_their_cells(plain, photos, kind):
    """A tenth of 16 cells are two: those with the most votes."""
    result = plain.attend(photos[0], "dog", votes=True)
    order = np.argsort(-maps_to_rank(result, kind)[0].ravel(), kind="stable")
    features = plain.encode(photos[0][None])
    replaced = features.copy()
    replaced[0, order[:2]] = features.mean(axis=1)
    (without,) = plain.attend_features(replaced, "dog")
    expected = np.log(result.word_probs[0]) - np.log(without.word_probs[0])
    figures = plain.faithfulness(photos[0], "dog", pixel_photos=0, map_kind=kind)
    assert figures["drop"]["attended"] == pytest.approx(expected, rel=1e-3)


# === On the command line ===


@pytest.fixture
def command(plain, photos, tmp_path):
    plain.save(tmp_path / "model")
    Image.fromarray(photos[0]).save(tmp_path / "photo.png")
    return ["caption", str(tmp_path / "photo.png"), "--model", str(tmp_path / "model")]


def test_caption_draws_and_prints_them(command, said, tmp_path, capsys):
    outputs = {kind: tmp_path / f"out.{kind}" for kind in ("png", "html", "gif")}
    drawn = ["--plot", outputs["png"], "--html", outputs["html"], "--gif", outputs["gif"]]
    printed = ["--json", "--maps", "--map-kind", "votes"]
    assert main([*command, "--say", "a dog", *printed, *map(str, drawn)]) == 0
    result = said[0]
    np.testing.assert_allclose(
        json.loads(capsys.readouterr().out)["votes"], result.votes, atol=1e-4
    )
    display = AttentionDisplay.from_result(result, image=tmp_path / "photo.png", map_kind="votes")
    display.to_html(tmp_path / "expected.html")
    assert outputs["html"].read_text("utf-8") == (tmp_path / "expected.html").read_text("utf-8")

    assert (
        main(
            [*command, *printed, "--num-beams", "1", "--max-length", "3", "--region", ".1,.1,.9,.9"]
        )
        == 0
    )
    parts = json.loads(capsys.readouterr().out)
    assert np.shape(parts["votes"]) == np.shape(parts["attention_weights"])


def test_what_the_command_line_rejects(command, capsys):
    for arguments, message in (
        ([*command, "--map-kind", "votes"], "--map-kind has no effect without --plot"),
        ([*command, *command[2:], "--plot", "a.png", "--map-kind", "votes"], "one --model"),
        (["evaluate", "--data", "scenes", "--map-kind", "votes"], "without --grounding"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
