import keras
import numpy as np
import pytest

from keras_sat.network.adapter import FeatureAdapter


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(3, 2, (4, 9, 10)).astype("float32")


def test_basics(features):
    plain = FeatureAdapter()
    np.testing.assert_array_equal(plain(features), features)
    assert plain.weights == [] and plain.compute_output_shape(features.shape) == features.shape
    adapter = FeatureAdapter(normalise=True, projection_dim=6, dropout=0.5, seed=3)
    assert adapter(features).shape == (4, 9, 6) == adapter.compute_output_shape(features.shape)
    assert FeatureAdapter.from_config(adapter.get_config()).get_config() == adapter.get_config()


def test_correctness(features):
    adapter = FeatureAdapter(normalise=True, projection_dim=6)
    adapter.build(features.shape)
    kernel, bias = (weight.numpy() for weight in adapter.weights)
    mean, variance = features.mean(axis=-1, keepdims=True), features.var(axis=-1, keepdims=True)
    expected = (features - mean) / np.sqrt(variance + 1e-3) @ kernel + bias
    np.testing.assert_allclose(adapter(features), expected, atol=1e-4)
    bent = FeatureAdapter(normalise=True, projection_dim=6, activation="relu")
    bent.build(features.shape)
    bent.set_weights(adapter.get_weights())
    np.testing.assert_allclose(bent(features), np.maximum(expected, 0), atol=1e-4)


def test_dropout_is_for_training_only(features):
    adapter = FeatureAdapter(dropout=0.5)
    np.testing.assert_array_equal(adapter(features), features)
    dropped = keras.ops.convert_to_numpy(adapter(features, training=True))
    kept = dropped != 0
    assert 0.3 < kept.mean() < 0.7
    np.testing.assert_allclose(dropped[kept], 2 * features[kept], rtol=1e-6)


def test_mixed_precision(features):
    adapter = FeatureAdapter(normalise=True, projection_dim=6, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(adapter(features).dtype) == "bfloat16"
    assert all(weight.dtype == "float32" for weight in adapter.weights)


def test_the_rest_of_an_encoder_is_trained_along(features):
    network = keras.Sequential(
        [keras.Input((3, 3, 10)), keras.layers.Conv2D(6, 2), keras.layers.BatchNormalization()]
    )
    adapter = FeatureAdapter(network, normalise=True, projection_dim=5)
    adapted = adapter(features, training=True)
    assert adapted.shape == (4, 4, 5) == adapter.compute_output_shape(features.shape)
    grid = network(features.reshape(4, 3, 3, 10), training=False)
    expected = FeatureAdapter.call(adapter, features)
    np.testing.assert_allclose(adapted, expected, atol=1e-6)  # batch statistics are not trained
    np.testing.assert_array_equal(network.layers[-1].moving_mean, np.zeros(6))
    assert {id(weight) for weight in network.trainable_weights} <= {
        id(weight) for weight in adapter.trainable_weights
    }
    plain = FeatureAdapter(network)
    np.testing.assert_allclose(plain(features), keras.ops.reshape(grid, (4, 4, 6)), atol=1e-6)
