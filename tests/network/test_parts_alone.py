"""Attention, decoder and encoders as layers of somebody else's Keras model."""

import keras
import numpy as np
import pytest
from helpers import numbers

import keras_sat

FEATURES = numbers(4, 49, 32)
TOKEN_IDS = np.random.default_rng(0).integers(1, 30, (4, 6))


def attending_model(attention_dim=20, regions=49):
    """Return a functional model that answers a question by looking at a picture."""
    features = keras.Input((regions, 32))
    words = keras.Input((None,), dtype="int32")
    question = keras.layers.GRU(24)(keras.layers.Embedding(30, 16)(words))
    attended = keras_sat.BahdanauAttention(attention_dim)(question, features)
    answer = keras.layers.Dense(5, dtype="float32")(attended.context)
    return keras.Model([features, words], [answer, attended.attention_weights])


def decoding_model(attention_dim=8):
    """Return a functional model that predicts each word of a caption."""
    features = keras.Input((49, 32))
    words = keras.Input((None,), dtype="int32")
    small = {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": attention_dim}
    decoded = keras_sat.CaptionDecoder(30, **small)(features, words)
    return keras.Model([features, words], decoded.logits)


@pytest.fixture
def policy(request):
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(request.param)
    yield request.param
    keras.mixed_precision.set_dtype_policy(before)


def assert_trains_and_loads(model, inputs, targets, path, *, jit_compile=False, **compiled):
    """Train a model for a step, save it, load it, and compare what both predict.

    Step by step, or compiled by XLA, which takes seconds.
    """
    model.compile("sgd", jit_compile=jit_compile, run_eagerly=not jit_compile, **compiled)
    before = [weight.numpy() for weight in model.trainable_variables]
    model.fit(inputs, targets, verbose=0)
    assert all(
        (weight.numpy() != old).any() for weight, old in zip(model.trainable_variables, before)
    )
    model.save(path)
    loaded = keras.saving.load_model(path)
    expected, received = model.predict(inputs, verbose=0), loaded.predict(inputs, verbose=0)
    keras.tree.map_structure(np.testing.assert_array_equal, received, expected)


ways = pytest.mark.parametrize(
    "policy, jit_compile",
    [
        ("float32", False),
        pytest.param("mixed_bfloat16", True, marks=pytest.mark.slow),
    ],
    indirect=["policy"],
)


@ways
def test_attention_in_a_functional_model(policy, jit_compile, tmp_path):
    answers = np.array([0, 1, 2, 3])
    loss = [keras.losses.SparseCategoricalCrossentropy(from_logits=True), None]
    options = {"loss": loss, "jit_compile": jit_compile}
    model = attending_model()
    path = tmp_path / "model.keras"
    assert_trains_and_loads(model, [FEATURES, TOKEN_IDS], answers, path, **options)
    _, attention_weights = model.predict([FEATURES, TOKEN_IDS], verbose=0)
    tolerance = {"atol": 1e-5 if policy == "float32" else 0.02}
    np.testing.assert_allclose(attention_weights.astype("float32").sum(axis=1), 1, **tolerance)


@pytest.mark.slow
def test_the_fused_scores_in_a_decoder_that_xla_compiles(tmp_path):
    model = decoding_model(attention_dim=512)
    assert model.layers[-1].attention_layer.score_method == "fused"
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"loss": loss, "jit_compile": True}
    path = tmp_path / "model.keras"
    assert_trains_and_loads(model, [FEATURES, TOKEN_IDS], TOKEN_IDS, path, **options)


@ways
def test_the_decoder_in_a_functional_model(policy, jit_compile, tmp_path):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"loss": loss, "jit_compile": jit_compile}
    path = tmp_path / "model.keras"
    assert_trains_and_loads(decoding_model(), [FEATURES, TOKEN_IDS], TOKEN_IDS, path, **options)


@pytest.mark.slow
def test_the_fused_scores_in_a_compiled_model(tmp_path):
    model = attending_model(attention_dim=256, regions=196)
    layer = next(x for x in model.layers if isinstance(x, keras_sat.BahdanauAttention))
    assert layer.score_method == "fused"
    loss = [keras.losses.SparseCategoricalCrossentropy(from_logits=True), None]
    inputs = [numbers(4, 196, 32), TOKEN_IDS]
    options = {"loss": loss, "jit_compile": True}
    assert_trains_and_loads(model, inputs, np.zeros(4), tmp_path / "model.keras", **options)


def test_an_encoder_in_a_sequential_model(tmp_path):
    model = keras.Sequential(
        [
            keras_sat.ENCODERS["tiny"](),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3),
        ]
    )
    photos = 255 * np.abs(numbers(2, 64, 64, 3))
    assert_trains_and_loads(model, photos, np.ones((2, 3)), tmp_path / "model.keras", loss="mse")
