"""Consensus with similar training photos: agreement, choice, files, command line."""

import dataclasses
import json
import math
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pytest
from small_training import train

from data_utils import DATASETS, FeatureCache, draw_scenes, make_batches
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
    captioner.consensus = Consensus.build(captioner, scenes, show_progress=False)
    return captioner


@pytest.fixture(scope="module")
def paths(scenes):
    return [scene.image_path for scene in scenes[:8]]


def ngrams(words):
    return {tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1)}


def similarity(one, other, counts, num_photos):
    """CIDEr-D's similarity of two captions with each n-gram once, by the book."""
    total = 0
    for n in range(1, 5):
        vectors = [
            {
                ngram: math.log(num_photos / max(counts[ngram], 1))
                for ngram in ngrams(words)
                if len(ngram) == n
            }
            for words in (one, other)
        ]
        norms = [math.sqrt(sum(value**2 for value in vector.values())) or 1 for vector in vectors]
        shared = sum(value * vectors[1].get(ngram, 0) for ngram, value in vectors[0].items())
        total += shared / (norms[0] * norms[1]) / 4
    return total * math.exp(-((len(one) - len(other)) ** 2) / 72)


def test_the_agreement_is_the_mean_of_the_greatest_similarities(indexed, scenes, monkeypatch):
    monkeypatch.setattr(consensus, "NUM_CAPTIONS", 4)
    counts = Counter()
    for scene in scenes:
        counts.update(set().union(*(ngrams(caption.split()) for caption in scene.captions)))
    candidates = ["a red circle is above a blue square", "a red red circle a red red circle"]
    candidates += ["square a under", "red", ""]
    photos = [7, 0, 30]
    # What is chosen mixes it with log p and with the other beams: here it is alone.
    found, alike = indexed.consensus._agreement(
        [text.split() for text in candidates], np.array(photos)
    )
    expected = similarity(candidates[0].split(), candidates[0].split()[:5], counts, len(scenes))
    shorter = indexed.consensus._agreement(
        [candidates[0].split(), candidates[0].split()[:5]], np.array(photos)
    )[1]
    assert (
        shorter[0, 1] == pytest.approx(expected, abs=1e-5)
        and alike[0, 0] == pytest.approx(1)
        and not alike[4].any()
    )
    for text, value in zip(candidates, found):
        others = [caption.split() for photo in photos for caption in scenes[photo].captions]
        greatest = sorted(similarity(text.split(), other, counts, len(scenes)) for other in others)[
            -4:
        ]
        assert value == pytest.approx(sum(greatest) / 4, abs=1e-5)
    assert found[0] > found[2] > 0 == found[4]


def test_the_beam_with_the_best_sum_is_chosen(indexed, captioner, scenes, paths):
    plain = indexed.caption(paths, consensus_weight=0, num_beams=10, num_results=10)
    assert plain[0].consensus is None and plain[0].similar_photos == []
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
        assert result.similar_photos[0] == scene.image_id and len(result.similar_photos) == 5
        scores = np.array([beam.log_prob + 3 * beam.consensus for beam in beams])
        best = [beam.words == result.words for beam in beams].index(True)
        assert scores[best] >= scores.max() - 0.3, "the rest is the similarity to the other beams"
        # Why it was chosen is kept with it.
        assert len(result.compared) == len(beams) and result.compared[0].words == result.words
        totals = [compared.total for compared in result.compared if compared.is_finished]
        assert totals == sorted(totals, reverse=True)
        assert not any(other.compared for other in result.alternatives)
        assert before.compared == []
        assert result.compared[0].score == pytest.approx(result.log_prob), "no length penalty"
        added = result.compared[0].agreement - 3 * result.consensus
        assert -0.01 <= added <= 0.3, "the rest is the similarity to the other beams"
        changed += result.words != before.words
    heavy = indexed.caption(paths, consensus_weight=1e4, num_results=10)
    assert all(
        result.consensus > max(beam.consensus for beam in result.alternatives) - 0.1
        for result in heavy
    )
    assert any(result.words != before.words for result, before in zip(heavy, plain))
    assert indexed.caption(paths[0]).alternatives == []
    for options in ({"num_beams": 1}, {"temperature": 1.0, "seed": 3}):
        assert indexed.caption(paths[0], **options).consensus is None
    single = Ensemble([captioner, indexed]).caption(paths[0])
    assert single.similar_photos[0] == scenes[0].image_id and single.consensus > 0


def test_features_unlike_those_of_the_training_photos_have_no_weight(indexed, paths):
    random = np.random.default_rng(0).normal(size=(6, *indexed.feature_shape)).astype(np.float32)
    features = indexed.consensus.arrays["mean"] + random
    plain = indexed.caption_features(features, consensus_weight=0, num_beams=10)
    assert [r.words for r in indexed.caption_features(features, consensus_weight=1e4)] == [
        r.words for r in plain
    ]


@pytest.mark.slow
def test_drawings_and_charts_have_no_weight():
    captioner = Captioner.from_pretrained()
    if captioner.consensus is None:
        pytest.skip("the bundled captioner has no index")
    pictures = [scene.image for scene in draw_scenes(6, seed=3)]
    for draw in ("plot", "bar", "scatter"):
        figure, ax = plt.subplots()
        getattr(ax, draw)(range(9), np.random.default_rng(0).random(9))
        figure.canvas.draw()
        pictures.append(np.array(figure.canvas.buffer_rgba())[..., :3])
        plt.close(figure)
    plain = captioner.caption(pictures, consensus_weight=0, num_beams=10)
    assert [r.words for r in captioner.caption(pictures, consensus_weight=1e4)] == [
        r.words for r in plain
    ]


def test_without_an_index_the_weight_is_off_and_cannot_be_asked_for(indexed, paths):
    other = indexed.adapted()
    assert other.consensus is None and other.search_settings.consensus_weight == 3.0
    assert other.caption(paths[0]).consensus is None
    with pytest.raises(
        ValueError, match="requires an index of training photos: run `keras-sat index`"
    ):
        other.caption(paths[0], consensus_weight=1.0)


def test_an_index_needs_photos(indexed, scenes, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="at least 100 photos .* 99 photos of '"):
        Consensus.build(indexed, scenes[:99])
    monkeypatch.setattr(consensus, "MOST_PHOTOS", 100)
    ids, named = zip(*((image.image_id, image.image_path) for image in scenes))
    cache = FeatureCache.build(
        tmp_path, list(ids), list(named), indexed.encoder_model, show_progress=False
    )
    long = [dataclasses.replace(scene, captions=["red " * 99] * 9) for scene in scenes]
    few = Consensus.build(indexed, long, cache=cache, show_progress=False)
    assert few.photo_ids == [scene.image_id for scene in scenes[::2]]
    assert len(few.arrays["captions"]) == len(few.photo_ids) * consensus.MOST_IDS


def test_it_is_saved_with_the_captioner(indexed, paths, tmp_path):
    indexed.save(tmp_path / "model", precision="float16")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.caption(paths[0]).consensus == pytest.approx(
        indexed.caption(paths[0]).consensus, abs=0.01
    )
    settings, vocabulary, arrays = read_model(tmp_path / "model")
    index = settings.pop("index")
    text = bytes(index["captions"]).decode()
    damages = {
        "mean": index["mean"][1:],
        "projection": index["projection"] * np.nan,
        "vectors": index["vectors"][1:],
        "limits": index["limits"][::-1],
        "names": np.append(index["names"], np.uint8(10)),
        "captions": np.frombuffer(text.replace(text[0], "\u1000").encode(), np.uint8),
    }
    damages = [{**index, name: array} for name, array in damages.items()]
    damages += [
        {**index, "captions": index["captions"][:-1]},
        {**index, "names": np.full(9, 255, np.uint8)},
    ]
    damages += [{**index, "captions": np.append(np.full(20_000, 5, np.uint8), index["captions"])}]
    damages += [{name: array for name, array in index.items() if name != "mean"}]
    for damaged in damages:
        write_model(tmp_path / "damaged", settings, vocabulary, arrays, index=damaged)
        with pytest.raises(
            ValueError, match=r"index of training photos is damaged.*keras-sat index"
        ):
            Captioner.load(tmp_path / "damaged")
    (path,) = (tmp_path / "model").glob("index-*.npz")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="is damaged .its content does not match its digest"):
        Captioner.load(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.usefixtures("quick_meteor")
def test_the_command_line_builds_and_shows_it(paths, tmp_path, monkeypatch, capsys):
    draw = DATASETS["scenes"]
    monkeypatch.setitem(DATASETS, "scenes", lambda folder: draw(folder, num_scenes=140))
    data = ["--data", "scenes", "--data-dir", str(tmp_path / "scenes")]
    command = ["index", "scenes", *data, "--output-dir", str(tmp_path / "copy")]
    assert main([*command, "--consensus-weight", "-1"]) == 2
    assert "`--consensus-weight` must be a number of at least 0" in capsys.readouterr().err
    assert main([*command, "--consensus-weight", "2"]) == 0
    assert "photos indexed; consensus weight 2" in capsys.readouterr().out
    assert main(["caption", paths[0], "--model", str(tmp_path / "copy"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert 0 < shown["consensus"] <= 1 and len(shown["similar_photos"]) == 5
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
        assert len(captioner.consensus.photo_ids) == 32
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
