"""Photos that are blurred before the encoder, and augmented training photos."""

import keras
import numpy as np
import pytest
from helpers import make_captioner, random_pixels
from PIL import Image

from data_utils import CaptionedImage, FeatureCache
from data_utils.base import read_json, write_sealed_json
from keras_sat.captioner import Captioner
from keras_sat.network.encoders import make_encoder
from keras_sat.network.photo_blur import BlurPhotos, gaussian
from keras_sat.search import Ensemble
from keras_sat.training.photos import _default_cache_dir


def blurred_by_loops(photo, sigma):
    """Blur a photo (height, width, channels) with plain loops.

    It is mirrored at its borders.
    """
    reach = int(np.ceil(3 * sigma))
    for axis in (0, 1):
        padded = np.pad(
            photo,
            [(reach, reach) if number == axis else (0, 0) for number in range(3)],
            mode="symmetric",
        )
        parts = [
            np.take(padded, range(at, at + photo.shape[axis]), axis=axis)
            for at in range(2 * reach + 1)
        ]
        photo = sum(weight * part for weight, part in zip(gaussian(sigma), parts, strict=True))
    return photo


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
def test_blur_is_a_gaussian(sigma):
    photos = np.random.default_rng(0).uniform(0, 255, (2, 12, 9, 3)).astype(np.float32)
    expected = np.stack([blurred_by_loops(photo, sigma) for photo in photos])
    layer = BlurPhotos.from_config(BlurPhotos(sigma).get_config())
    np.testing.assert_allclose(layer(photos), expected, rtol=1e-4, atol=1e-3)


def test_a_gaussian_has_its_width():
    weights = gaussian(2.0)
    places = np.arange(len(weights)) - len(weights) // 2
    assert weights.sum() == pytest.approx(1) and (weights * places**2).sum() == pytest.approx(
        4, rel=0.05
    )


def test_an_encoder_sees_blurred_photos():
    plain = make_encoder("tiny")
    blurred = make_encoder("tiny", blur=1.0)
    blurred.set_weights(plain.get_weights())
    photos = random_pixels(2, 64, 64, 3).astype(np.float32)
    np.testing.assert_allclose(
        blurred(photos), plain(BlurPhotos(1.0)(photos)), rtol=1e-5, atol=1e-5
    )
    assert blurred.name == "tiny" and blurred.encoder_layer == plain.encoder_layer


@pytest.fixture
def captioner():
    return make_captioner(encoder="tiny", image_size=64, photo_blur=0.7)


def test_a_captioner_keeps_it(captioner, tmp_path):
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    photos = random_pixels(2, 64, 64, 3)
    assert loaded.settings.encoder.photo_blur == 0.7
    np.testing.assert_allclose(
        loaded.encode(photos), captioner.encode(photos), rtol=1e-5, atol=1e-5
    )
    without = loaded.adapted(photo_blur=0.0)
    blurred = without.adapted(photo_blur=0.7)
    assert np.abs(without.encode(photos) - captioner.encode(photos)).max() > 0.01
    np.testing.assert_allclose(
        blurred.encode(photos), captioner.encode(photos), rtol=1e-5, atol=1e-5
    )


def test_blur_needs_an_encoder_of_ours():
    custom = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3)])
    for encoder in (custom, None):
        with pytest.raises(ValueError, match="require an encoder in ENCODERS"):
            Captioner(["a"], encoder=encoder, photo_blur=1.0)


def test_a_gaussian_wider_than_the_photo_is_rejected():
    with pytest.raises(ValueError, match="shorter side has 64 pixels.*Received: photo_blur=22.0"):
        make_encoder("tiny", blur=22.0)


@pytest.fixture
def images(tmp_path):
    photo = Image.effect_mandelbrot((48, 32), (-2, -1, 1, 1), 50).convert("RGB")
    photo.save(tmp_path / "photo.png")
    path = str(tmp_path / "photo.png")
    return [CaptionedImage(str(number), path, ["a dog"], "train") for number in range(4)]


def test_features_of_blurred_photos_are_not_mixed_with_others(images, captioner, tmp_path):
    ids, paths = [image.image_id for image in images], [image.image_path for image in images]
    plain = captioner.adapted(photo_blur=0.0)
    FeatureCache.build(tmp_path / "cache", ids, paths, plain.encoder_model, show_progress=False)
    message = "built with other settings: settings {} instead of {'photo_blur': 0.7}"
    with pytest.raises(ValueError, match=message):
        FeatureCache.build(
            tmp_path / "cache", ids, paths, captioner.encoder_model, show_progress=False
        )


def test_features_of_blurred_photos_that_version_0_1_0_wrote(images, captioner, tmp_path):
    ids, paths = [image.image_id for image in images], [image.image_path for image in images]
    blurred, plain = captioner.encoder_model, captioner.adapted(photo_blur=0.0).encoder_model
    FeatureCache.build(tmp_path / "cache", ids, paths, blurred, show_progress=False)
    manifest = read_json(tmp_path / "cache" / "manifest.json")
    del manifest["digest"]
    assert manifest.pop("settings") == {"photo_blur": 0.7}
    write_sealed_json(tmp_path / "cache" / "manifest.json", {**manifest, "blur": 0.7})
    FeatureCache.open(tmp_path / "cache", encoder=blurred)
    with pytest.raises(ValueError, match="settings {'photo_blur': 0.7} instead of {}"):
        FeatureCache.open(tmp_path / "cache", encoder=plain)


@pytest.mark.parametrize(
    "options, name",
    [
        ({"encoder": "tiny"}, "features-tiny"),
        ({"encoder": "tiny", "image_size": 32, "photo_blur": 1.0}, "features-tiny-32-blur1"),
        (
            {"encoder": "mobilenet_v2", "encoder_layer": "out_relu", "grid": "14x14"},
            "features-mobilenet_v2-out_relu-grid14x14",
        ),
        (
            {"encoder": "tiny", "image_size": (32, 48), "encoder_weights": None},
            "features-tiny-32x48",
        ),
    ],
)
def test_features_have_a_folder_for_each_encoder_with_the_name_of_earlier_versions(
    options, name, tmp_path
):
    captioner = Captioner(["a"], **options)
    # `fit` would encode photos, with MobileNetV2 too.
    assert _default_cache_dir(captioner, tmp_path, tmp_path / "run") == tmp_path / name


def test_each_captioner_of_an_ensemble_has_its_own_blur(captioner):
    other = captioner.adapted(photo_blur=1.4)
    photos = {(64, 64): random_pixels(1, 64, 64, 3)}
    first, second = Ensemble([captioner, other]).encode(photos)
    assert np.abs(first - second).max() > 0.01
