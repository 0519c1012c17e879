"""Steadier captions: photos that are blurred before the encoder, and training photos that change each time."""

import keras
import numpy as np
import pytest
from PIL import Image

from data_utils import CaptionedImage, FeatureCache, Vocabulary, make_batches
from data_utils.photo_augmentation import jittered
from keras_sat.beyond.ensemble import Ensemble
from keras_sat.captioner import Captioner
from keras_sat.model.encoders import make_encoder, make_encoder_top
from keras_sat.model.photo_blur import BlurPhotos, gaussian
from keras_sat.training.recipe import fit

# === Blur ===


def blurred_by_loops(photo, sigma):
    """Blur a photo (height, width, channels) with plain loops; what lies outside is mirrored."""
    reach = int(np.ceil(3 * sigma))
    for axis in (0, 1):
        padded = np.pad(photo, [(reach, reach) if number == axis else (0, 0) for number in range(3)], mode="symmetric")
        photo = sum(
            weight * np.take(padded, range(at, at + photo.shape[axis]), axis=axis)
            for at, weight in enumerate(gaussian(sigma))
        )
    return photo


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
def test_blur_is_a_gaussian(sigma):
    photos = np.random.default_rng(0).uniform(0, 255, (2, 12, 9, 3)).astype(np.float32)
    expected = np.stack([blurred_by_loops(photo, sigma) for photo in photos])
    np.testing.assert_allclose(BlurPhotos(sigma)(photos), expected, rtol=1e-4, atol=1e-3)


def test_a_gaussian_has_its_width():
    weights = gaussian(2.0)
    places = np.arange(len(weights)) - len(weights) // 2
    assert weights.sum() == pytest.approx(1) and (weights * places**2).sum() == pytest.approx(4, rel=0.05)
    np.testing.assert_allclose(weights, weights[::-1])


def test_an_even_photo_stays_as_it_is():
    photos = np.full((1, 8, 8, 3), 77.0, np.float32)
    np.testing.assert_allclose(BlurPhotos(1.5)(photos), photos, rtol=1e-5)
    layer = BlurPhotos.from_config(BlurPhotos(1.5).get_config())
    assert layer.sigma == 1.5 and layer.compute_output_shape((None, 8, 8, 3)) == (None, 8, 8, 3)


def test_an_encoder_sees_blurred_photos():
    plain = make_encoder("tiny")
    blurred = make_encoder("tiny", blur=1.0)
    blurred.set_weights(plain.get_weights())
    photos = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(blurred(photos), plain(BlurPhotos(1.0)(photos)), rtol=1e-5, atol=1e-5)
    assert blurred.name == "tiny" and blurred.encoder_layer == plain.encoder_layer
    assert [w.shape for w in blurred.weights] == [w.shape for w in plain.weights]


def test_an_encoder_that_blurs_can_be_cut():
    before = make_encoder("mobilenet_v2", layer="block_5_add", weights=None, image_size=64, blur=1.0)
    top = make_encoder_top("mobilenet_v2", start="block_5_add", weights=None, image_size=64)
    assert before.output_shape == top.input_shape


@pytest.fixture
def captioner():
    vocabulary = Vocabulary(["a", "dog"])
    made = Captioner(vocabulary, encoder="tiny", photo_blur=0.7, hidden_dim=8, embedding_dim=8, attention_dim=8)
    made.build(((None, 64, 64, 3), (None, None)))
    return made


def test_a_captioner_keeps_it(captioner, tmp_path):
    assert captioner.photo_blur == 0.7 and captioner.get_config()["photo_blur"] == 0.7
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    photos = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)
    assert loaded.photo_blur == 0.7
    np.testing.assert_allclose(loaded.encode(photos), captioner.encode(photos), rtol=1e-5, atol=1e-5)
    without = loaded.adapted(photo_blur=0.0)
    blurred = without.adapted(photo_blur=0.7)
    assert np.abs(without.encode(photos) - captioner.encode(photos)).max() > 0.01
    np.testing.assert_allclose(blurred.encode(photos), captioner.encode(photos), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", [-1.0, 101.0, "much"])
def test_blur_out_of_bounds_is_rejected(given):
    with pytest.raises(ValueError, match="`photo_blur` must be a number from 0 to 100"):
        Captioner(["a"], encoder="tiny", photo_blur=given)


def test_blur_needs_an_encoder_of_ours():
    own = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3)])
    for encoder in (own, None):
        with pytest.raises(ValueError, match="is for an encoder of ENCODERS"):
            Captioner(["a"], encoder=encoder, photo_blur=1.0)


def test_a_gaussian_wider_than_the_photo_is_rejected():
    with pytest.raises(ValueError, match="shorter side has 64 pixels.*Received: photo_blur=22.0"):
        make_encoder("tiny", blur=22.0)
    assert make_encoder("tiny", blur=21.0)(np.zeros((1, 64, 64, 3))).shape == (1, 8, 8, 66)


def test_features_of_blurred_photos_are_others(images, captioner, tmp_path):
    ids, paths = [image.image_id for image in images], [image.image_path for image in images]
    plain = captioner.adapted(photo_blur=0.0)
    FeatureCache.build(tmp_path / "cache", ids, paths, plain.encoder_model, show_progress=False)
    with pytest.raises(ValueError, match="The cache was made differently: blur 0.0 there, 0.7 here"):
        FeatureCache.build(tmp_path / "cache", ids, paths, captioner.encoder_model, show_progress=False)
    with pytest.raises(ValueError, match="blur"):
        FeatureCache.open(tmp_path / "cache", encoder=captioner.encoder_model)


def test_an_ensemble_lets_each_blur_in_its_own_way(captioner):
    other = captioner.adapted(photo_blur=1.4)
    photos = {(64, 64): np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3)).astype(np.uint8)}
    first, second = Ensemble([captioner, other]).features_of(photos)
    assert np.abs(first - second).max() > 0.01


# === Jitter ===


@pytest.fixture
def photo():
    return np.asarray(Image.effect_mandelbrot((48, 32), (-2, -1, 1, 1), 50).convert("RGB"))


def test_jitter_changes_how_a_photo_is_kept(photo):
    found = jittered(photo, np.random.default_rng(0))
    assert found.shape == photo.shape and found.dtype == np.uint8
    assert (found != photo).mean() > 0.5
    # What it shows, and where, stays: the two are alike.
    assert np.corrcoef(found.ravel().astype(float), photo.ravel().astype(float))[0, 1] > 0.7


def test_jitter_follows_its_chance_and_its_strength(photo):
    same = [jittered(photo, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (jittered(photo, np.random.default_rng(4)) != same[0]).any()
    np.testing.assert_array_equal(jittered(photo, np.random.default_rng(3), 0.0), photo)
    weaker, stronger = (
        np.mean([np.abs(jittered(photo, np.random.default_rng(n), strength) - photo.astype(float)) for n in range(20)])
        for strength in (0.3, 1.0)
    )
    assert 0 < weaker < stronger


@pytest.fixture
def images(photo, tmp_path):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    path = str(tmp_path / "photo.png")
    return [CaptionedImage(str(number), path, ["a dog"], "train") for number in range(4)]


def photos_of(images, **options):
    batches = make_batches(images, Vocabulary(["a", "dog"]), image_size=(32, 48), batch_size=4, **options)
    return [[np.asarray(photos) for (photos, _), *_ in batches] for _ in range(2)]


def test_batches_of_photos_that_change_each_time(images, photo):
    (first,), (second,) = photos_of(images, jitter=1.0)
    assert (first != second).any(axis=(1, 2, 3)).all()  # in another epoch
    assert (first[0] != first[1]).any()  # another photo
    (again,), _ = photos_of(images, jitter=1.0)
    np.testing.assert_array_equal(first, again)
    (resumed,), _ = photos_of(images, jitter=1.0, first_epoch=1)
    np.testing.assert_array_equal(resumed, second)
    (plain,), _ = photos_of(images)
    np.testing.assert_array_equal(plain, np.stack([photo] * 4))


def test_each_showing_of_a_photo_has_its_own_chance(images):
    twice = [CaptionedImage("0", images[0].image_path, ["a dog", "dog a"], "train")]
    ((first, second),), _ = photos_of(twice, jitter=1.0)
    assert (first != second).any()


def test_a_frozen_encoder_sees_each_photo_once(scene_images, tmp_path):
    with pytest.raises(ValueError, match="whole encoder is trained along.* Received: photo_jitter=0.5"):
        options = {"encoder": "tiny", "encoder_training": "frozen", "photo_jitter": 0.5, "show_progress": False}
        fit(scene_images, output_dir=tmp_path / "run", **options)
