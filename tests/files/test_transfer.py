"""The encoder of a captioner that is trained further: its weights go along, and the
first captioner keeps its own.
"""

import keras
import numpy as np
from helpers import make_captioner

from keras_sat import ENCODERS, Captioner


def arrays_of(model):
    return [weight.numpy() for weight in model.weights]


def test_an_encoder_of_ones_own_is_trained_as_a_copy():
    encoder = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(3, 8, strides=8)])
    captioner = make_captioner(encoder=encoder, encoder_training="fine-tuned", shape=(16, 16, 3))
    adapted = captioner.adapted()
    kept = arrays_of(encoder)
    np.testing.assert_equal(arrays_of(adapted.encoder_model), kept)
    for weight in adapted.encoder_model.weights:
        weight.assign(weight + 1.0)
    np.testing.assert_equal(arrays_of(captioner.encoder_model), kept)
    trained = {weight.path for weight in adapted.trainable_variables}
    assert trained >= {weight.path for weight in adapted.encoder_model.weights}


def test_photos_may_be_larger_than_in_training(tmp_path):
    captioner = make_captioner(encoder="tiny", image_size=16, encoder_weights=None)
    larger = captioner.adapted(image_size=32)
    assert larger.photo_sizes == [(32, 32)] and captioner.photo_sizes == [(16, 16)]
    rows, columns = captioner.rows_and_columns()
    assert larger.rows_and_columns() == (2 * rows, 2 * columns)
    assert larger.weights_digest() == captioner.weights_digest()
    larger.save(tmp_path / "model")
    photo = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    result, again = larger.caption(photo), Captioner.load(tmp_path / "model").caption(photo)
    assert result.attention_weights.shape[1:] == (2 * rows, 2 * columns)
    assert again.words == result.words and again.attention_weights.shape[2] == 2 * columns


def test_an_encoder_that_was_frozen_is_trained_from_its_weights(tmp_path):
    path = tmp_path / "tiny.weights.h5"
    ENCODERS["tiny"](image_size=16).save_weights(path)
    tiny = {"encoder": "tiny", "image_size": 16, "encoder_weights": str(path)}
    frozen = make_captioner(encoder_training="frozen", **tiny)
    adapted = frozen.adapted(encoder_training="fine-tuned")
    assert not any(name.startswith("encoder/") for name in frozen.named_weights())
    assert any(name.startswith("encoder/") for name in adapted.named_weights())
    np.testing.assert_equal(arrays_of(adapted.encoder_model), arrays_of(frozen.encoder_model))
    np.testing.assert_equal(arrays_of(adapted.decoder), arrays_of(frozen.decoder))
