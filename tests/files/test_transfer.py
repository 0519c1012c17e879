"""The encoder of a captioner that is trained further: its weights go along, and the
first captioner keeps its own.
"""

import keras
import numpy as np
from helpers import make_captioner

from keras_sat import ENCODERS


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
