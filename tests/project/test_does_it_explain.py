"""The table of methods that explain a word: what it measures, by hand."""

import json

import attention_variants
import does_it_explain
import numpy as np
import pytest
import table
from controls import as_blurred_as_attention, positive
from effects import EFFECTS
from helpers import photo_captioner, random_pixels
from maps import METHODS, Reading, maps_of
from measures import LEVELS, measured, rank_correlation

from keras_sat import log_probs_of
from keras_sat.measuring.explaining import removed_in_order
from keras_sat.measuring.measured_maps import entropy_of

RELEVANCE = np.random.default_rng(0).normal(size=40)
WORDS = ["a", "dog", "runs"]


def linear(kept):
    """Log p that loses the relevance of each region that is removed."""
    return -3.0 - (1 - kept) @ RELEVANCE


def test_measures_of_a_map_that_is_right():
    maps = {"right": RELEVANCE, "wrong": -RELEVANCE, "even": np.ones(40)}
    found = measured(maps, linear, seed=0)
    fall, least, deletion, insertion, correlation, *curve = found["right"]
    best_first = np.sort(RELEVANCE)[::-1]
    assert fall == pytest.approx(best_first[:4].sum())
    assert least == pytest.approx(best_first[-4:].sum())
    steps = np.insert(best_first.reshape(LEVELS, 2).sum(axis=1), 0, 0)
    assert deletion == pytest.approx(np.trapezoid(np.exp(-steps.cumsum()), dx=1 / LEVELS))
    assert insertion > 1 > deletion and correlation == pytest.approx(1)
    np.testing.assert_allclose(curve, np.exp(-steps.cumsum())[1:], atol=1e-4)
    assert found["wrong"][4] == pytest.approx(-1) and found["wrong"][2] == pytest.approx(insertion)
    assert found["even"][4] == 0
    removed = removed_in_order(RELEVANCE, LEVELS)
    assert removed[-1].all() and removed.sum(axis=1)[0] == 2


def test_ranks_and_spreads():
    assert rank_correlation(RELEVANCE, np.exp(RELEVANCE)) == pytest.approx(1)
    assert rank_correlation(RELEVANCE, -RELEVANCE) == pytest.approx(-1)
    maps = {"attention": np.full(40, 1 / 40), "votes": RELEVANCE}
    blurred = as_blurred_as_attention(maps, (5, 8))
    assert entropy_of(positive(RELEVANCE)) < entropy_of(blurred["votes"])
    np.testing.assert_allclose(blurred["votes"], 1 / 40, atol=1e-3)
    assert (positive(-np.ones(4)) == 0.25).all()


@pytest.mark.parametrize("options", [{}, {"attends": "after", "sentinel": True}])
def test_three_effects_are_told_apart(options):
    captioner = photo_captioner(**options)
    features = captioner.encode(random_pixels(1, 16, 16, 3))
    reading = Reading.of(captioner, features, WORDS)
    kept = np.ones((2, 16))
    kept[1, 3:7] = 0
    found = {name: effect(reading, 1)(kept) for name, effect in EFFECTS.items()}
    own = log_probs_of(captioner)(reading.regions[None], WORDS)[0, 1]
    for log_probs in found.values():
        assert log_probs[0] == pytest.approx(own, abs=1e-4)
    assert abs(found["everywhere"][1] - found["step"][1]) > 1e-5
    is_same = abs(found["step"][1] - found["readout"][1]) < 1e-6
    assert is_same == bool(options)  # after the cells, z_t feeds the readout alone


def test_maps_of_all_methods(monkeypatch):
    monkeypatch.setattr("maps.MASKS", 30)
    captioner = photo_captioner()
    features = captioner.encode(random_pixels(1, 16, 16, 3))
    reading = Reading.of(captioner, features, WORDS)
    maps = maps_of(reading, [1, 2], seed=0)
    assert {name: one.shape for name, one in maps.items()} == dict.fromkeys(METHODS, (2, 16))
    np.testing.assert_allclose(maps["attention"].sum(axis=1), 1, rtol=1e-5)
    # The network is nearly linear in so small features: what differentiates it agrees.
    for name in ("integrated gradients", "occlusion"):
        assert rank_correlation(maps["gradient"][1], maps[name][1]) > 0.9


def test_maps_made_from_attention():
    captioner = photo_captioner()
    features = captioner.encode(random_pixels(1, 16, 16, 3))
    maps = attention_variants.variants_of(Reading.of(captioner, features, WORDS))
    shapes = {name: one.shape for name, one in maps.items()}
    assert shapes == dict.fromkeys(attention_variants.VARIANTS, (3, 16))
    assert (maps["attention x sign of the vote"] * maps["votes"] >= 0).all()
    np.testing.assert_allclose(maps["votes without sign"], np.abs(maps["votes"]))
    assert (maps["attention of all steps"][0] == maps["attention of all steps"][1]).all()


def test_holm_stops_at_the_first_that_may_be_chance():
    found = table.holm(np.array([0.06, 0.001, 1.0, 0.02]))
    assert found.tolist() == [False, True, False, True]
    assert table.holm(np.array([0.03, 0.04, 1.0])).tolist() == [False, False, False]


def test_means_are_over_words_and_compared_with_votes():
    random = np.random.default_rng(0)
    lines = []
    for _ in range(30):
        values = {name: [random.normal()] for name in METHODS}
        values["random"] = [values["votes"][0] - 1]
        lines.append({"lines": [values] * random.integers(1, 3)})
    means, differs, words = table.means_of([*lines, {"lines": []}], lambda line: line)
    expected = np.mean([line["votes"] for photo in lines for line in photo["lines"]])
    assert means[METHODS.index("votes"), 0] == pytest.approx(expected)
    assert differs[METHODS.index("random"), 0] and not differs[METHODS.index("votes"), 0]
    assert words == sum(len(photo["lines"]) for photo in lines)
    assert table.means_of(lines, lambda line: None) is None


@pytest.mark.slow
def test_the_table_of_a_few_scenes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("maps.MASKS", 20)
    path = tmp_path / "explain.jsonl"
    arguments = ["nowhere", "no boxes", str(path), "--captioners", "scenes", "--words"]
    does_it_explain.main([*arguments, "2"])
    before = path.read_text()
    path.write_text(before + '{"captioner": "sce')  # killed while it wrote
    does_it_explain.main([*arguments, "4"])
    after = path.read_text()
    assert after.startswith(before) and len(after.splitlines()) == 2
    for line in map(json.loads, after.splitlines()):
        assert set(line["lines"][0]["grids"]) == set(table.GRIDS)
    files = ["--json", str(tmp_path / "means.json"), "--plot", str(tmp_path / "curves.png")]
    table.main([str(path), *files])
    assert (tmp_path / "curves.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "## scenes: 2 photos" in printed and "(4 words)" in printed
    figures = json.loads((tmp_path / "means.json").read_text())["scenes"]
    assert figures["everywhere"]["votes"]["fall"][0] > 1


@pytest.mark.slow
def test_the_table_of_maps_made_from_attention(monkeypatch, capsys):
    monkeypatch.setattr(attention_variants, "WORDS", 2)
    attention_variants.main(["nowhere", "no boxes", "--captioners", "scenes"])
    printed = capsys.readouterr().out
    assert "scenes (2 words)" in printed and printed.count("\n| ") == 7
