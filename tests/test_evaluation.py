import json

import numpy as np
import pytest

import keras_sat
from data_utils import DATASETS, FeatureCache
from keras_sat.evaluation import caption_photos
from keras_sat.scores import bleu


@pytest.fixture(scope="module")
def images():
    return DATASETS["scenes"](None, num_scenes=40, seed=4)


def test_scores_settings_and_captions(whole_training, images, tmp_path):
    _, captioner = whole_training
    table = keras_sat.evaluate(captioner, images, split="train", num_beams=2, max_length=8, show_progress=False)
    train = [image for image in images if image.split == "train"]
    results = captioner.caption([image.image_path for image in train], num_beams=2, max_length=8)
    assert [entry["caption"] for entry in table.captions] == [result.caption for result in results]
    assert [entry["image_id"] for entry in table.captions] == [image.image_id for image in train]
    references = [image.captions for image in train]
    assert table.scores == bleu(references, [result.caption for result in results])
    assert table.settings["num_beams"] == 2 and table.settings["split"] == "train"
    table.to_json(tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == table.scores
    text = str(table)
    assert f"{100 * table.scores['bleu_1']:.1f}" in text and "32 photos" in text and "encoder tiny" in text


def test_only_five_references_count(whole_training, images):
    _, captioner = whole_training
    from dataclasses import replace

    caption = captioner.caption(images[0].image_path, num_beams=1).caption
    wrong = ["zebra"] * 5
    extra = replace(images[0], captions=[*wrong, caption], split="test")
    table = keras_sat.evaluate(captioner, [extra], num_beams=1, show_progress=False)
    assert table.scores["bleu_1"] < 1e-6


def test_features_of_a_cache_give_the_captions_of_the_photos(whole_training, images, tmp_path):
    _, captioner = whole_training
    ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
    encoder = captioner.encoder_model
    cache = FeatureCache.build(tmp_path, ids, pictures, encoder, dtype="float32", show_progress=False)
    assert cache.image_bytes == [None] * len(images)  # pictures in memory have no file
    direct = caption_photos(captioner, images, num_beams=1, batch_size=7)
    cached = caption_photos(captioner, images, cache, num_beams=1, batch_size=9)
    assert [result.caption for result in direct] == [result.caption for result in cached]
    np.testing.assert_allclose([r.log_prob for r in direct], [r.log_prob for r in cached], atol=1e-4)
    drawn = [caption_photos(captioner, images, temperature=1.0, batch_size=size) for size in (7, 40)]
    assert [r.caption for r in drawn[0]] == [r.caption for r in drawn[1]], "each photo has its own chance"


def test_errors(whole_training, images):
    _, captioner = whole_training
    with pytest.raises(ValueError, match="Expected one of: train, dev, test"):
        keras_sat.evaluate(captioner, images, split="val")
    with pytest.raises(ValueError, match="no feature cache here"):
        keras_sat.evaluate(captioner, images, cache="nowhere")
