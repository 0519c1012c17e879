"""Engines: what a captioner leaves to them, and what each of them cannot do."""

import dataclasses

import numpy as np
import pytest
from helpers import make_captioner, numbers, random_pixels, write_photos

from data_utils import CaptionedImage, FeatureCache, Vocabulary
from keras_sat import Ensemble
from keras_sat.search.engine import Engine, padded, photos_of_one_size
from keras_sat.search.generation import CaptionGenerator
from keras_sat.search.result import SearchResult
from keras_sat.settings import Search

VOCABULARY = Vocabulary(["dark", "light"])


class DarkOrLight(Engine):
    """Says whether a photo is dark or light, with a word for each row and column."""

    photo_sizes = [(4, 6)]
    cannot = {
        "num_beams": "It has no beams.",
        "captions": "It reads no captions.",
    }
    fixed = {"num_beams": 1}

    def __init__(self):
        self.numbers = []

    def rows_and_columns(self):
        return 1, 2

    def encode(self, photos):
        halves = photos_of_one_size(photos).reshape(-1, 4, 2, 9).mean(axis=(1, 3))
        return halves[..., None]  # (photos, 2, 1)

    def search(self, features, search, *, numbers, with_consensus=False):
        self.numbers += numbers
        is_light = features.mean(axis=(1, 2)) > 128  # (photos,)
        ids = [
            [*VOCABULARY.caption_to_ids("light" if light else "dark"), VOCABULARY.end_token_id]
            for light in is_light
        ]
        return self.result(features, padded(ids, search.max_length, 0)[:, None])

    def result(self, features, token_ids):
        shape = token_ids.shape[:2]
        maps = np.zeros((*token_ids.shape, 2)) + features[:, None, None, :, 0]
        return SearchResult(
            token_ids=token_ids,
            log_probs=np.zeros(shape),
            lengths=(token_ids > 0).sum(axis=-1),
            is_finished=np.ones(shape, bool),
            attention_weights=maps,
            extras={"from_photo": np.ones((*token_ids.shape, 1))},
            word_probs=np.where(token_ids > 0, 0.5, 0),
        )


class AlsoReads(DarkOrLight):
    cannot = {}

    def read(self, features, token_ids):
        return self.result(features, padded(token_ids, 9, 0)[:, None])


DARK, LIGHT = np.zeros((7, 8, 3), np.uint8), np.full((9, 9, 3), 250, np.uint8)


def test_a_captioner_needs_no_more_than_an_engine(tmp_path):
    captioner = CaptionGenerator(DarkOrLight(), VOCABULARY, Search(max_length=5, batch_size=2))
    assert captioner.photo_sizes == [(4, 6)]
    result = captioner.caption(LIGHT)
    assert result.words == ["light"] and result.end_prob == 0.5 and result.confidence is None
    assert result.attention_weights.tolist() == [[[250, 250]]] and result.from_photo == [1]
    assert result.image.shape == (4, 6, 3)
    many = [result.caption for result in captioner.caption([LIGHT, DARK, LIGHT])]
    assert many == ["light", "dark", "light"] and captioner.engine.numbers == [0, 0, 1, 2]
    half = np.concatenate([DARK, LIGHT[:7, :8]], axis=1)
    left, right = captioner.caption(half, region=[(0, 0, 0.4, 1), (0.6, 0, 1, 1)])
    assert (left.caption, right.caption) == ("dark", "light") and left.region == (0, 0, 0.4, 1)
    images = [DARK, tmp_path / "none.png", LIGHT]
    found = [result for _, result in captioner.caption_each(images, errors="yield")]
    assert isinstance(found[1], OSError) and found[2].caption == "light"
    with pytest.raises(OSError, match="none"):
        captioner.caption(images)
    features = captioner.encode(np.zeros((3, 4, 6, 3)))
    assert features.shape == (3, 2, 1)
    assert [r.caption for r in captioner.caption_features(features + 200)] == ["light"] * 3
    ((_, same),) = captioner.encode_each([LIGHT])
    assert same.tolist() == [[250], [250]]


def test_a_photo_without_features_in_the_cache_costs_none_of_the_others(tmp_path):
    names = ["a.png", "b.png", "c.png"]
    write_photos(tmp_path, names)
    (tmp_path / "b.png").write_bytes(b"torn")
    images = [CaptionedImage(name, str(tmp_path / name), []) for name in names]
    paths = [image.image_path for image in images]
    captioner = CaptionGenerator(AlsoReads(), VOCABULARY, Search(batch_size=2))

    def encoder(photos):  # a grid of 1 x 2 regions
        return photos.reshape(-1, 4, 2, 9).mean(axis=(1, 3)).reshape(-1, 1, 2, 1)

    build = {"image_size": (4, 6), "errors": "skip", "show_progress": False}
    with pytest.warns(UserWarning, match="unreadable photos left out: 1 of 3"):
        cache = FeatureCache.build(tmp_path / "cache", names, paths, encoder, **build)
    images.append(CaptionedImage("new", paths[0], []))
    found = captioner.caption_each(images, cache=cache, errors="yield")
    (_, first), (torn, error), (_, third), (_, unknown) = found
    assert (first.image_path, third.image_path) == (paths[0], paths[2]) and torn is images[1]
    assert isinstance(error, ValueError) and "not a picture" in str(error)
    assert "no features for the photo 'new'" in str(unknown)
    assert captioner.engine.numbers == [0, 2]
    read = captioner.attend_each(images, ["dark"] * 4, cache=cache, errors="yield")
    kinds = [isinstance(result, ValueError) for _, result in read]
    assert kinds == [False, True, False, True]
    for alone in (images[1:2], images):
        with pytest.raises(ValueError, match="no features for the photo 'b.png'"):
            list(captioner.caption_each(alone, cache=cache))
    ((_, error),) = captioner.caption_each(images[1:2], cache=cache, errors="yield")
    assert isinstance(error, ValueError)


def test_steps_follow_the_search_in_their_order():
    captioner = CaptionGenerator(AlsoReads(), VOCABULARY, Search(consensus_weight=1.0))
    seen = []

    def sure(results, features):
        seen.append(features.tolist())
        return [dataclasses.replace(result, confidence=0.5) for result in results]

    def chosen(results, features, search):
        assert search.consensus_weight == 1.0
        return [dataclasses.replace(r, confidence=r.confidence / 2) for r in results]

    captioner.confidence, captioner.consensus = sure, chosen
    assert captioner.caption(LIGHT).confidence == 0.25 and seen == [[[[250], [250]]]]
    assert captioner.caption(LIGHT, num_beams=1).confidence == 0.5, "no beams to choose from"
    assert captioner.attend(LIGHT, "dark").confidence is None
    (batch,) = captioner.batches([LIGHT, DARK], 2)
    results = captioner.attend_batch(batch, [["dark", "sky"], ["light"]])
    assert [result.caption for result in results] == ["dark sky", "light"]
    assert [len(result.attention_weights) for result in results] == [2, 1]
    (result, _) = captioner.caption_batch(batch, captioner.search_settings)
    assert result.caption == "light" and result.confidence == 0.25


def test_what_an_engine_cannot_do_is_said_in_one_line():
    captioner = CaptionGenerator(DarkOrLight(), VOCABULARY)
    for ask, problem in (
        (
            lambda: captioner.caption(DARK, votes=True),
            "`votes` requires a single captioner, .* adds up. Received: votes=True",
        ),
        (lambda: captioner.caption(DARK, num_beams=3), "It has no beams. Received: num_beams=3"),
        (lambda: captioner.attend(DARK, "dark"), "It reads no captions. Received: captions='dark'"),
    ):
        with pytest.raises(ValueError, match=f"^{problem}$"):
            ask()
    assert captioner.caption(DARK, num_beams=1).caption == "dark", "its only value"
    with pytest.raises(NotImplementedError, match="^The engine Engine has no method `read`;"):
        Engine().read(None, [[2]])
    with pytest.raises(NotImplementedError, match="no method `rows_and_columns`"):
        Engine().rows_and_columns()


def test_the_networks_of_an_ensemble_cast_no_votes():
    members = [make_captioner(scale=0.9, weights_seed=seed) for seed in (1, 2)]
    ensemble, features = Ensemble(members), numbers(2, 4, 3)
    for options in ({"votes": True}, {"sample_attention": True}):
        with pytest.raises(ValueError, match=f"requires a single captioner.*{[*options][0]}=True"):
            ensemble.caption_features(features, **options)
    ensemble.search_settings = Search(sample_attention=True)
    with pytest.raises(ValueError, match="requires a single captioner"):
        ensemble.caption_features(features)


def test_functions_of_tensors_run_as_graphs():
    captioner = make_captioner(scale=0.9)
    features, engine = numbers(3, 4, 3), captioner.engine

    def first_words(features, *, how_many):
        step, state = engine.steps(features, 1)
        start = captioner.vocabulary.start_token_id
        return step(np.full(features.shape[0] or 1, start), state).logits[:, :how_many]

    one = engine.run(first_words, features[:1], how_many=np.int64(2))
    assert one.shape == (1, 2) and len(engine.graphs) == 1
    engine.run(first_words, features[1:2], how_many=2)
    assert len(engine.graphs) == 1, "the same shapes and options"
    found = engine.search(features, Search(num_beams=2, num_results=2), numbers=range(3))
    traced = engine.search_tensors(features, search=Search(num_beams=2, num_results=2))
    np.testing.assert_array_equal(found.token_ids, traced.token_ids)
    ids = [[5, 6, 2], [7, 2], [2]]
    read = engine.read(features, ids)
    plain = engine.read_tensors(features, padded(ids, 8, 0))
    np.testing.assert_allclose(read.log_probs, plain.log_probs, rtol=1e-5)
    assert np.asarray(read.lengths).ravel().tolist() == [3, 2, 1]


def test_photos_have_one_size_and_four_axes():
    photos = random_pixels(2, 4, 6, 3)
    assert photos_of_one_size({(4, 6): photos}) is photos is photos_of_one_size(photos)
    with pytest.raises(ValueError, match="encode_each takes paths"):
        photos_of_one_size(["a.jpg"])
