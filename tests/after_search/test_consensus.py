"""Consensus with the words of similar photos: agreement, choice, files, commands."""

import dataclasses
import json
import math

import numpy as np
import pytest
from small_training import train

from data_utils import DATASETS, FeatureCache, make_batches
from keras_sat import Captioner, Ensemble, evaluate
from keras_sat.__main__ import main
from keras_sat.after_search import consensus
from keras_sat.after_search.consensus import Consensus
from keras_sat.files import read_model
from keras_sat.files.model_folder import write_model
from keras_sat.training import plan


@pytest.fixture(scope="module")
def indexed(scenes):
    captioner = Captioner.from_pretrained("scenes").adapted(consensus_weight=3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus, "FEWEST_TRAINING_PHOTOS", 100)
        captioner.consensus = Consensus.build(captioner, scenes, show_progress=False)
    return captioner


@pytest.fixture(scope="module")
def paths(scenes):
    return [scene.image_path for scene in scenes[:8]]


def test_the_expected_words_are_a_weighted_sum_of_all_captions(indexed, scenes):
    """The dual form of the regression, word by word."""
    vectors = np.stack([features.mean(axis=0) for _, features in indexed.encode_each(scenes)])
    deviation = vectors.std(axis=0)
    deviation = np.maximum(deviation, deviation.mean() / 100 + 1e-6)
    standardised = (vectors - vectors.mean(axis=0)) / deviation
    kernel = standardised @ standardised.T
    ridge = consensus.RIDGE * len(scenes) * np.eye(len(scenes))
    found = indexed.consensus.expected_words(vectors)
    assert {"circle", "red", "above"} <= set(indexed.consensus.words)
    for column, word in enumerate(indexed.consensus.words):
        said = [[word in caption.split() for caption in scene.captions] for scene in scenes]
        shares = np.mean(said, axis=1)
        weights_of_photos = kernel @ np.linalg.inv(kernel + ridge)
        expected = shares.mean() + weights_of_photos @ (shares - shares.mean())
        rarity = math.log(len(scenes) / np.any(said, axis=1).sum())
        np.testing.assert_allclose(found[:, column], expected * rarity, atol=0.02)


def test_the_agreement_is_a_cosine_in_which_rare_words_weigh_more(indexed):
    words = indexed.consensus.words
    rarities = dict(zip(words, indexed.consensus.arrays["rarities"].tolist()))
    rare, frequent = max(rarities, key=rarities.get), min(rarities, key=rarities.get)
    expected = np.zeros(len(words))
    expected[words.index(rare)], expected[words.index(frequent)] = 3.0, 4.0
    captions = [[rare, rare, "zebra"], [frequent], [rare, frequent], ["zebra"], []]
    both = 3 * rarities[rare] + 4 * rarities[frequent]
    both /= 5 * math.hypot(rarities[rare], rarities[frequent])
    known = [0.6, 0.8 * (rarities[frequent] > 0), both, 0, 0]
    np.testing.assert_allclose(indexed.consensus.agreement(captions, expected), known, atol=1e-6)


@pytest.mark.usefixtures("small_index")
def test_rare_words_and_unknown_ones_are_not_indexed(indexed, scenes, monkeypatch):
    monkeypatch.setattr(consensus, "MOST_WORDS", 5)
    odd = [dataclasses.replace(scene, captions=["a zebra"]) for scene in scenes[:9]]
    few = Consensus.build(indexed, [*odd, *scenes[9:]], show_progress=False)
    assert len(few.words) == 5 and "a" in few.words and "<unk>" not in few.words
    monkeypatch.setattr(consensus, "FEWEST_WITH_WORD", len(scenes))
    always = Consensus.build(indexed, [*odd, *scenes[9:]], show_progress=False)
    assert always.words == [] and always.agreement([["a"]], np.zeros(0)) == [0]


def test_the_beam_with_the_best_sum_is_chosen(indexed, captioner, scenes, paths):
    plain = indexed.caption(paths, consensus_weight=0, num_beams=10, num_results=10)
    assert plain[0].consensus is None and plain[0].likely_words == []
    chosen, changed = indexed.caption(paths, num_results=10), 0
    for scene, before, result in zip(scenes, plain, chosen):
        beams = sorted(
            [result, *result.alternatives], key=lambda beam: [beam.words, -beam.log_prob]
        )
        assert [beam.words for beam in beams] == sorted(
            beam.words for beam in [before, *before.alternatives]
        )
        log_probs = [other.log_prob for other in result.alternatives]
        assert log_probs == sorted(log_probs, reverse=True)
        said = {word for caption in scene.captions for word in caption.split()}
        assert len(result.likely_words) == 5 and said.intersection(result.likely_words)
        totals = [beam.log_prob + 3 * beam.consensus for beam in beams if beam.is_finished]
        assert result.log_prob + 3 * result.consensus == pytest.approx(max(totals))
        # Why it was chosen is kept with it.
        assert len(result.compared) == len(beams) and result.compared[0].words == result.words
        totals = [compared.total for compared in result.compared if compared.is_finished]
        assert totals == sorted(totals, reverse=True)
        assert not any(other.compared for other in result.alternatives)
        assert before.compared == []
        assert result.compared[0].score == pytest.approx(result.log_prob), "no length penalty"
        assert result.compared[0].agreement == pytest.approx(3 * result.consensus)
        changed += result.words != before.words
    heavy = indexed.caption(paths, consensus_weight=1e4, num_results=10)
    assert all(
        result.consensus >= max(beam.consensus for beam in result.alternatives) - 1e-3
        for result in heavy
    )
    assert any(result.words != before.words for result, before in zip(heavy, plain))
    assert indexed.caption(paths[0]).alternatives == []
    for options in ({"num_beams": 1}, {"temperature": 1.0, "seed": 3}):
        assert indexed.caption(paths[0], **options).consensus is None
    single = Ensemble([captioner, indexed]).caption(paths[0])
    assert len(single.likely_words) == 5 and single.consensus > 0


def test_without_an_index_the_weight_is_off_and_cannot_be_asked_for(indexed, paths):
    other = indexed.adapted()
    assert other.consensus is None and other.search_settings.consensus_weight == 3.0
    assert other.caption(paths[0]).consensus is None
    with pytest.raises(
        ValueError, match="requires an index of training photos: run `keras-sat index`"
    ):
        other.caption(paths[0], consensus_weight=1.0)


def test_an_index_needs_photos(indexed, scenes, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="at least 300 photos .* 120 photos of '"):
        Consensus.build(indexed, scenes)
    monkeypatch.setattr(consensus, "FEWEST_TRAINING_PHOTOS", 30)
    monkeypatch.setattr(consensus, "MOST_PHOTOS", 100)
    ids, named = zip(*((image.image_id, image.image_path) for image in scenes))
    cache = FeatureCache.build(
        tmp_path, list(ids), list(named), indexed.encoder_model, show_progress=False
    )
    few = Consensus.build(indexed, scenes, cache=cache, show_progress=False)
    same = Consensus.build(indexed, scenes[::2], show_progress=False)
    assert few.words == same.words
    np.testing.assert_array_equal(few.arrays["shares"], same.arrays["shares"])


def test_it_is_saved_with_the_captioner(indexed, paths, tmp_path):
    indexed.save(tmp_path / "model", precision="float16")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.caption(paths[0]).consensus == pytest.approx(
        indexed.caption(paths[0]).consensus, abs=0.01
    )
    settings, vocabulary, arrays = read_model(tmp_path / "model")
    index = settings.pop("index")
    damages = {
        "mean": index["mean"][1:],
        "deviation": index["deviation"] * 0,
        "word_ids": index["word_ids"] + len(loaded.vocabulary),
        "shares": index["shares"].astype(np.float64),
        "rarities": index["rarities"] * np.nan,
        "weights": index["weights"].T,
        "scales": index["scales"] + np.float32(1e9),
    }
    damages = [{**index, name: array} for name, array in damages.items()]
    damages += [{name: x for name, x in index.items() if name != left_out} for left_out in index]
    damages += [{**index, "word_ids": np.zeros(consensus.MOST_WORDS + 1, np.int32)}]
    damages += [{**index, "word_ids": np.full_like(index["word_ids"], 7)}]
    for damaged in damages:
        write_model(tmp_path / "damaged", settings, vocabulary, arrays, index=damaged)
        with pytest.raises(
            ValueError, match=r"index of training photos is damaged.*keras-sat index"
        ):
            Captioner.load(tmp_path / "damaged")
    earlier = {"mean": index["mean"], "captions": np.zeros(9, np.uint8)}
    write_model(tmp_path / "earlier", settings, vocabulary, arrays, index=earlier)
    with pytest.warns(UserWarning, match="made by an earlier version.*keras-sat index"):
        assert Captioner.load(tmp_path / "earlier").consensus is None
    (path,) = (tmp_path / "model").glob("index-*.npz")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged .its content does not match its digest"):
        Captioner.load(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.usefixtures("quick_meteor", "small_index")
def test_the_command_line_builds_and_shows_it(paths, tmp_path, monkeypatch, capsys):
    draw = DATASETS["scenes"]
    monkeypatch.setitem(DATASETS, "scenes", lambda folder: draw(folder, num_scenes=140))
    data = ["--data", "scenes", "--data-dir", str(tmp_path / "scenes")]
    command = ["index", "scenes", *data, "--output-dir", str(tmp_path / "copy")]
    assert main([*command, "--consensus-weight", "-1"]) == 2
    assert "`--consensus-weight` must be a number of at least 0" in capsys.readouterr().err
    assert main([*command, "--consensus-weight", "2"]) == 0
    assert "words indexed; consensus weight 2" in capsys.readouterr().out
    assert main(["caption", paths[0], "--model", str(tmp_path / "copy"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert 0 < shown["consensus"] <= 1 and len(shown["likely_words"]) == 5
    table = evaluate(
        Captioner.load(tmp_path / "copy"), "scenes", data_dir=tmp_path / "scenes", split="dev"
    )
    assert table.settings["num_beams"] == 10 and table.settings["consensus_weight"] == 2
    assert main(["index", "scenes", *data]) == 2
    assert "a bundled or downloaded model cannot be changed" in capsys.readouterr().err.lower()


@pytest.mark.slow
def test_fit_builds_it(monkeypatch, tmp_path, without_graphs):
    for module in (consensus, plan):
        monkeypatch.setattr(module, "FEWEST_TRAINING_PHOTOS", 30)
    for _ in range(2):  # the second one is loaded
        captioner = train(tmp_path / "run", epochs=1, consensus_weight=2.0)
        assert captioner.consensus.words
    assert Captioner.load(tmp_path / "run" / "model").consensus is not None


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_the_index_is_given_up_when_its_encoder_is_trained(indexed, scenes):
    captioner = indexed.adapted()
    captioner.consensus = indexed.consensus
    captioner.compile()
    batches = make_batches(scenes[:4], captioner.vocabulary, image_size=64)
    with pytest.warns(UserWarning, match="index of training photos .* is given up"):
        captioner.fit(batches, epochs=1, verbose=0)
    assert captioner.consensus is None
    assert captioner.caption(scenes[0].image_path).caption
