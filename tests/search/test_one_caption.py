"""A photo has one caption: alone and in a group, from the encoder and from a cache,
with TensorFlow and without.
"""

import numpy as np
import pytest

import keras_sat
from data_utils import CaptionedImage, FeatureCache, draw_scenes, load_image
from data_utils.features import encoding_function, in_16_bits
from data_utils.features.encode import LARGEST


def captions_in_all_ways(name, images, folder):
    """Return the captions of photos by way, a dict of lists."""
    captioner = keras_sat.Captioner.from_pretrained(name)
    ids = [image.image_id for image in images]
    paths = [image.image_path for image in images]
    encoder = captioner.encoder_model
    cache = FeatureCache.build(folder, ids, paths, encoder, show_progress=False)
    found = {
        "in groups": captioner.caption(paths, batch_size=32),
        "alone": [captioner.caption(path) for path in paths],
        "cache": [result for _, result in captioner.caption_each(images, cache=cache)],
        "LiteRT": keras_sat.load_litert(name).caption(paths),
    }
    return {way: [result.caption for result in results] for way, results in found.items()}


def test_scenes_have_one_caption(tmp_path):
    scenes = draw_scenes(20, seed=6)
    images = [CaptionedImage(str(i), scene.image, [], None) for i, scene in enumerate(scenes)]
    captions = captions_in_all_ways("scenes", images, tmp_path / "cache")
    assert all(found == captions["alone"] for found in captions.values())


@pytest.mark.slow
def test_photos_have_one_caption(flickr8k_images, tmp_path):
    images = [image for image in flickr8k_images if image.split == "dev"][:60]
    captions = captions_in_all_ways("flickr8k", images, tmp_path / "cache")
    differing = {way: found for way, found in captions.items() if found != captions["alone"]}
    assert differing == {}


def test_features_are_rounded_to_16_bits_once():
    features = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    rounded = np.asarray(in_16_bits(features))
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, features.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(np.asarray(in_16_bits(rounded)), rounded)
    out_of_range = np.array([-1e6, LARGEST, 7e4], np.float32)
    np.testing.assert_array_equal(np.asarray(in_16_bits(out_of_range)), out_of_range)


def test_photos_are_encoded_in_groups():
    sizes = []

    def encoder(photos):
        assert photos.dtype == np.float32
        sizes.append(len(photos))
        return photos[:, :1, :1] / 3

    photos = np.arange(70, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)
    grids = encoding_function(encoder)(photos)
    assert sizes == [32, 32, 6]
    expected = (np.arange(70, dtype=np.float32) / 3).astype(np.float16)
    np.testing.assert_array_equal(grids[:, 0, 0, 0], expected)


def test_encoder_cache_and_exports_have_the_same_features(tmp_path):
    captioner = keras_sat.Captioner(["a"], encoder="tiny", photo_blur=1.5, image_size=32)
    photos = [load_image(scene.image, captioner.photo_sizes[0]) for scene in draw_scenes(5, seed=3)]
    cache = FeatureCache.build(
        tmp_path, list("abcde"), photos, captioner.encoder_model, show_progress=False
    )
    features = captioner.encode(np.stack(photos))
    np.testing.assert_array_equal(cache.features(list("abcde")), features)
    in_graph = captioner.engine.run(captioner.engine.encode_tensors, np.stack(photos))
    np.testing.assert_allclose(in_graph, features, rtol=1e-3, atol=1e-5)
