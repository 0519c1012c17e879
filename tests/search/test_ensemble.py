import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import WORDS, assert_same_caption, make_captioner, numbers, random_pixels

import keras_sat
from data_utils import CaptionedImage, FeatureCache
from keras_sat import Captioner, Ensemble
from keras_sat.__main__ import main
from keras_sat.search.ensemble import mean_map
from keras_sat.settings import SearchRules

pytestmark = pytest.mark.usefixtures("without_graphs")


def make_member(seed, words=WORDS, **options):
    return make_captioner(words, scale=0.9, seed=seed, weights_seed=seed, **options)


@pytest.fixture
def features():
    return numbers(5, 4, 3)


def test_one_captioner_is_an_ensemble_of_its_own(features):
    captioner = make_member(1, length_penalty=0.4)
    alone, ensemble = (
        captioner.caption_features(features),
        Ensemble([captioner]).caption_features(features),
    )
    for one, other in zip(alone, ensemble):
        assert_same_caption(one, other, log_prob={"rtol": 1e-4}, maps={"rtol": 1e-5})


def test_log_prob_is_that_of_the_mean_of_the_members(features):
    members = [make_member(1), make_member(2, attention="hard", cell="gru")]
    for photo, result in zip(features, Ensemble(members).caption_features(features, num_beams=2)):
        ids = members[0].vocabulary.caption_to_ids(result.caption)
        input_ids = np.array([[members[0].vocabulary.start_token_id, *ids]])
        targets = [*ids, members[0].vocabulary.end_token_id] if result.is_finished else ids
        probabilities, maps = [], []
        for member in members:
            decoded = member((photo[None], input_ids))
            logits = np.asarray(decoded.logits[0], dtype="float64")
            logits -= logits.max(axis=-1, keepdims=True)
            probabilities.append(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
            maps.append(np.asarray(decoded.attention_weights[0]))
        mean = np.mean(probabilities, axis=0)
        expected = sum(np.log(mean[step, word]) for step, word in enumerate(targets))
        assert result.log_prob == pytest.approx(expected, rel=1e-4)
        expected_maps = np.mean(maps, axis=0)[: len(result.words)].reshape(-1, 2, 2)
        np.testing.assert_allclose(result.attention_weights, expected_maps, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", SearchRules.names())
def test_a_rule_of_the_members_is_one_of_the_ensemble(name):
    value = {float: 0.5, int: 2}[type(SearchRules.defaults()[name])]
    free, ruled = make_member(1), make_member(2, **{name: value})
    for members in ([ruled, ruled], [ruled, free]):
        assert getattr(Ensemble(members).search_settings, name), name
    assert getattr(Ensemble([ruled, ruled]).search_settings, name) == value
    assert Ensemble([free, free]).search_settings == free.search_settings


def test_of_different_rules_the_mean_penalty_and_the_strictest_n_grams_count():
    members = [
        make_member(1, length_penalty=0.2, no_repeat_ngram=3),
        make_member(2, length_penalty=0.6, no_repeat_ngram=2),
        make_member(3, length_penalty=0.4),
    ]
    search = Ensemble(members).search_settings
    assert search.length_penalty == pytest.approx(0.4) and search.no_repeat_ngram == 2
    assert Ensemble(members[::-1], length_penalty=0.0).length_penalty == 0


def test_members_without_attention_are_left_out_of_the_maps(features):
    soft, none = make_member(1), make_member(2, attention="none")
    for kinds, expected in (([soft, none], soft), ([none], none)):
        (result,) = Ensemble(kinds).attend_features(features[:1], "a dog runs")
        (alone,) = expected.attend_features(features[:1], "a dog runs")
        np.testing.assert_allclose(result.attention_weights, alone.attention_weights, rtol=1e-4)


def test_extras_are_the_mean_over_the_members_that_have_them(features):
    with_sentinel, without = make_member(1, sentinel=True), make_member(2)
    (result,) = Ensemble([with_sentinel, without]).attend_features(features[:1], "a dog runs")
    (alone,) = with_sentinel.attend_features(features[:1], "a dog runs")
    np.testing.assert_allclose(result.from_photo, alone.from_photo, rtol=1e-4)


def test_grids_of_different_size_meet_on_the_finest():
    coarse, fine = (
        make_member(seed, encoder="tiny", image_size=size) for seed, size in ((1, 16), (2, 32))
    )
    coarse_grid, fine_grid = coarse.rows_and_columns(), fine.rows_and_columns()
    assert coarse_grid < fine_grid
    ensemble = Ensemble([coarse, fine])
    photos = list(random_pixels(3, 20, 30, 3))
    assert ensemble.photo_sizes == [(16, 16), (32, 32)]
    results = ensemble.caption(photos)
    assert results[0].attention_weights.shape[1:] == fine_grid and results[0].image.shape == (
        32,
        32,
        3,
    )
    np.testing.assert_allclose(results[0].attention_weights.sum(axis=(1, 2)), 1, rtol=1e-5)
    member_maps = [tf.one_hot([3], int(np.prod(grid))) for grid in (coarse_grid, fine_grid)]
    mean = np.asarray(mean_map(member_maps, [coarse_grid, fine_grid]))
    assert mean.sum() == pytest.approx(1, abs=1e-5) and (mean > 0).sum() > 1
    with pytest.raises(ValueError, match="requires members with the same encoder"):
        ensemble.encoder_model  # noqa: B018


def unknown_encoder(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(3, 8, strides=8)])


@pytest.mark.slow
@pytest.mark.usefixtures("quick_meteor")
def test_photos_are_encoded_once_for_members_with_the_same_encoder(tmp_path, monkeypatch):
    shared, other = unknown_encoder(0), unknown_encoder(1)
    members = [
        make_member(seed, encoder=encoder)
        for seed, encoder in ((1, shared), (2, shared), (3, other))
    ]
    ensemble, encoded = Ensemble(members), []
    whole = Captioner.encode
    monkeypatch.setattr(
        Captioner, "encode", lambda member, photos: encoded.append(member) or whole(member, photos)
    )
    photo = random_pixels(16, 16, 3, seed=3)
    one = ensemble.caption(photo)
    assert encoded == [members[0], members[2]]
    features = [member.encode(photo[None]) for member in members]
    (other_way,) = ensemble.caption_features(features)
    assert one.words == other_way.words and one.log_prob == pytest.approx(
        other_way.log_prob, rel=1e-4
    )
    images = [CaptionedImage(str(i), photo, ["a dog runs", "a cat"], "test") for i in range(2)]
    pair = Ensemble(members[:2])
    cache = FeatureCache.build(
        tmp_path, ["0", "1"], [photo, photo], pair.encoder_model, show_progress=False
    )
    quiet = {"num_beams": 1, "show_progress": False}
    tables = [keras_sat.evaluate(pair, images, cache=source, **quiet) for source in (cache, None)]
    assert tables[0].captions == tables[1].captions
    assert tables[0].settings["models"] == 2 and tables[0].settings["encoder"] == pair.encoder


def test_errors(features):
    captioner = make_member(1)
    for members, message in (
        (3, "Received: captioners=3"),
        (["scenes"], r"Received: captioners=\['scenes'\]"),
        ([captioner, make_member(2, [*WORDS, "zebra"])], "the same vocabulary"),
        ([Captioner(WORDS, encoder=None)], "built or loaded Captioners"),
    ):
        with pytest.raises(ValueError, match=message):
            Ensemble(members)
    ensemble = Ensemble([captioner, captioner])
    with pytest.raises(ValueError, match="built for features of shape"):
        ensemble.caption_features(features[:, :2])
    with pytest.raises(ValueError, match="Expected 2 arrays, one per captioner. Received: 1"):
        ensemble.caption_features([features])
    with pytest.raises(ValueError, match="requires a single captioner"):
        ensemble.caption_features(features, sample_attention=True)


@pytest.mark.slow
def test_the_command_line_takes_several_models(capsys, scene_images, quick_meteor):
    scene = str(scene_images[0].image_path)
    models = ["--model", "scenes", "--model", "scenes"]
    for options in (models, models[:2]):
        assert main(["caption", scene, "--json", *options]) == 0
    both, single = map(json.loads, capsys.readouterr().out.splitlines())
    assert both["caption"] == single["caption"]
    assert (
        main(["evaluate", "--data", "scenes", "--split", "dev", *models, "--num-beams", "1"]) == 0
    )
    assert "models 2" in capsys.readouterr().out
