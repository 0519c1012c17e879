"""Whether words depend on the places that they attend to: by hand, with forced maps, in
`evaluate` and `compare`.
"""

import dataclasses
import json

import numpy as np
import pytest
from helpers import photo_captioner, random_pixels
from keras import ops

import keras_sat
from data_utils import draw_scenes
from keras_sat import Captioner, Ensemble, equations, log_probs_of
from keras_sat.__main__ import main

# The figures are sums over all words: which cells are replaced and what is blurred is
# seen in these private functions alone.
from keras_sat.measuring.faithfulness import (
    CELLS,
    SIZES,
    _blurred,
    _masks,
    faithfulness_figures,
    faithfulness_table,
    measure_faithfulness,
)


@pytest.fixture
def photos():
    return list(random_pixels(3, 16, 16, 3))


def test_which_cells_are_replaced():
    own, others = np.arange(20.0).reshape(4, 5), np.zeros((4, 5))
    others[0, 2], others[1, 1] = 2, 1
    masks = _masks(own, others, np.random.default_rng(0))
    cells = [set(np.flatnonzero(mask)) for mask in masks]
    # a tenth: most, least, random
    assert cells[0] == {18, 19} and cells[4] == {0, 1} and len(cells[1]) == 2
    assert cells[2] == {7, 12}  # the middle of four rows and five columns
    assert cells[3] == {2, 6}
    assert [len(found) for found in cells[5:]] == [*range(2, 21, 2)] * 2
    assert cells[7] == {*range(14, 20)} and cells[17] == {*range(6)}
    again = _masks(own, 0 * others, np.random.default_rng(0))  # there is no other content word
    np.testing.assert_array_equal(again[3], masks[1])


def test_places_are_blurred_and_the_rest_is_kept(photos):
    mask = np.zeros((1, 4, 4), bool)
    mask[0, 1, 2] = True
    # 64 x 64: a blur of more than one pixel
    photo = np.kron(photos[0], np.ones((4, 4, 1), np.uint8))
    (changed,) = (_blurred(photo, mask) != photo).any(axis=-1)
    assert changed[16:32, 32:48].mean() > 0.9
    changed[16:32, 32:48] = False
    assert not changed.any()


WORDS = ["a", "dog", "cat", "runs", "a"]


def log_prob(captioner, grids, maps=None, position=3):
    """Return log p of one of WORDS, (rows,), with the map at its step replaced."""
    forced_maps = None
    if maps is not None:
        forced_maps = np.zeros((len(grids), len(WORDS), 16), "float32")
        forced_maps[:, position] = maps
    return log_probs_of(captioner)(grids, WORDS, forced_maps)[:, position]


@pytest.mark.parametrize(
    "options", [{}, {"attention": "hard"}, {"attends": "after", "sentinel": True}]
)
def test_what_replaced_cells_and_other_maps_do(photos, options):
    captioner = photo_captioner(**options)
    grids = captioner.encode(np.stack(photos[:1]))
    (read,) = captioner.attend_features(grids, "a dog cat runs a")
    assert log_prob(captioner, grids)[0] == pytest.approx(np.log(read.word_probs[3]), rel=1e-4)
    replaced = np.random.default_rng(1).random((2, 16)) < 0.4
    altered = np.where(replaced[..., None], grids.mean(axis=1, keepdims=True), grids)
    expected = [
        np.log(result.word_probs[3])
        for result in captioner.attend_features(altered, "a dog cat runs a")
    ]
    np.testing.assert_allclose(log_prob(captioner, altered), expected, rtol=1e-4)
    own = read.attention_weights[3].reshape(1, -1)
    assert log_prob(captioner, grids, maps=own)[0] == pytest.approx(
        np.log(read.word_probs[3]), rel=1e-4
    )
    uniform = np.full((1, 16), 1 / 16, "float32")
    assert abs(log_prob(captioner, grids, maps=uniform) - np.log(read.word_probs[3])) > 1e-3
    # Nothing stays changed.
    assert captioner.attend_features(grids, "a dog cat runs a")[0].log_prob == read.log_prob


def test_a_forced_map_by_the_equations(photos):
    """Only alpha_t of the word is forced: the steps before are the network's own."""
    captioner = photo_captioner()
    decoder, grids = captioner.decoder, captioner.encode(np.stack(photos[:1]))
    forced = np.eye(16, dtype="float32")[5][None]
    ids = [
        captioner.vocabulary.start_token_id,
        *captioner.vocabulary.caption_to_ids("a dog cat runs"),
    ]
    state, projected = decoder.initial_state(grids), decoder.project_features(grids)
    for token_id in ids[:3]:
        state = decoder.step(np.array([token_id]), state, grids, projected).state
    context = decoder.gate(state.hidden_states[-1]) * equations.attended_features(forced, grids)
    embedded = decoder.embed(np.array(ids[3:4]), False)
    inputs = decoder.cells[0].input_projection(embedded) + decoder.cells[0].context_projection(
        context
    )
    state, _ = decoder.advance(inputs, state)
    logits = decoder.readout(embedded, state.hidden_states[-1], context)
    expected = float(ops.log_softmax(logits)[0, ids[4]])
    assert log_prob(captioner, grids, maps=forced)[0] == pytest.approx(expected, rel=1e-4)


def test_figures_by_hand():
    sums = np.zeros((2, sum(SIZES)))
    sums[0, :8] = [2, 1.0, 0.2, 0.3, 0.4, 0.0, 3.0, 5.0]
    sums[0, 8:29] = [1.6, *np.full(10, 0.4), *np.full(10, 1.2)]
    figures = json.loads(json.dumps(faithfulness_figures(sums, 196)))
    assert figures["num_words"] == 2 and figures["cells"] == 20
    assert figures["drop"] == dict(zip(CELLS, [0.5, 0.1, 0.15, 0.2, 0.0]))
    assert figures["swap"] == {"uniform": 1.5, "other_photo": 2.5}
    assert figures["curves"]["least_first"] == pytest.approx([0.8, *10 * [0.6]])
    assert figures["area"]["most_first"] == pytest.approx(
        0.05 + 9 * 0.02 + 0.1 * 0.2 - 0.02, abs=1e-9
    )
    assert figures["pixels"] == {**dict.fromkeys(CELLS), "num_words": 0}
    assert faithfulness_figures(sums[:1], 196)["swap"]["other_photo"] is None
    nothing = faithfulness_figures(0 * sums, 196)
    assert (
        nothing["drop"]["attended"]
        is nothing["area"]["most_first"]
        is nothing["curves"]["most_first"][0]
        is None
    )
    assert faithfulness_table({"a": nothing}).count(" -") == 14 and " 0.500" in faithfulness_table(
        {"a": figures}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scenes", "scenes-hard"])
def test_words_of_scenes_depend_on_the_objects(name):
    captioner, scenes = (
        Captioner.from_pretrained(name),
        [scene.image for scene in draw_scenes(6, seed=11)],
    )
    figures = captioner.faithfulness(scenes, pixel_photos=2)
    drop, pixels = figures["drop"], figures["pixels"]
    assert (
        drop["attended"] > 10 * max(drop["random"], drop["least"])
        and drop["attended"] > 5 * drop["middle"]
    )
    assert (
        pixels["attended"] > 3 * pixels["random"] and 0 < pixels["num_words"] < figures["num_words"]
    )
    assert figures["swap"]["uniform"] > 0.5 and figures["swap"]["other_photo"] > 0.5
    assert figures["area"]["most_first"] < 0.5 < figures["area"]["least_first"]
    given = captioner.faithfulness(scenes[:2], "There is a zebra under a red one.", pixel_photos=0)
    # "red", twice; "zebra" is unknown
    assert given["num_words"] == 2 and given["pixels"]["num_words"] == 0


def test_batches_and_empty_captions_change_nothing(photos):
    captioner = photo_captioner()
    words = [["a", "dog", "runs"], [], ["cat", "sleeps", "dog"]]
    of_photos = measure_faithfulness(captioner, photos, words, pixel_photos=3)
    np.testing.assert_array_equal(of_photos[:, 0], [2, 0, 3])
    again = measure_faithfulness(captioner, photos, words, batch_size=1, pixel_photos=3)
    # The first photo's other one differs.
    np.testing.assert_allclose(again[1:], of_photos[1:], rtol=1e-3, atol=1e-3)


EVALUATE = {
    "split": "dev",
    "num_beams": 1,
    "show_progress": False,
    "faithfulness": True,
    "pixel_photos": 1,
}


@pytest.mark.slow
def test_through_evaluate_files_and_compare(scene_images, tmp_path, quick_meteor):
    dev = [image for image in scene_images if image.split == "dev"]
    tables = [
        keras_sat.evaluate(Captioner.from_pretrained(name), dev, **EVALUATE)
        for name in ("scenes", "scenes-hard")
    ]
    table = tables[0]
    assert "blurred in the photo" in str(table) and table.faithfulness_references["num_words"] > 0
    table.to_json(tmp_path / "table.json")
    again = keras_sat.ScoreTable.from_json(tmp_path / "table.json")
    assert again.faithfulness == table.faithfulness
    comparison = keras_sat.compare(again, tables[1])
    row = comparison.rows["faithfulness_drop_attended"]
    assert row["first"][0] == pytest.approx(table.faithfulness["drop"]["attended"], abs=1e-5)
    assert row["interval"][0] <= row["difference"] <= row["interval"][1]
    assert "human swap: other photo" in str(comparison) and "drop: attended" in str(comparison)
    without = dataclasses.replace(
        table, photos={**table.photos, "faithfulness": np.zeros((len(dev), sum(SIZES)))}
    )
    # No words were measured.
    assert "faithfulness_drop_attended" not in keras_sat.compare(without, again).rows


def test_what_cannot_be_measured_is_said_before_anything_is_captioned(
    captioner, scene_images, capsys
):
    for measured, changed, problem in (
        (Ensemble([captioner, captioner]), {}, "a single captioner .*attention='Ensemble'"),
        (captioner, {"pixel_photos": -1}, "`pixel_photos` must be a whole number from 0"),
    ):
        with pytest.raises(ValueError, match=problem):
            keras_sat.evaluate(measured, scene_images, **EVALUATE | changed)
    evaluate = ["evaluate", "--data", "scenes", "--model", "scenes-none"]
    for flags, problem in (
        (["--faithfulness"], "Received: attention='none'"),
        (["--pixel-photos", "3"], "no effect"),
    ):
        assert main([*evaluate, *flags]) == 2
        error = capsys.readouterr().err
        assert problem in error and error.count("\n") == 1


def test_it_needs_a_photo():
    with pytest.raises(ValueError, match="at least one photo"):
        photo_captioner().faithfulness([])
