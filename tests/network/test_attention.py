import itertools

import keras
import numpy as np
import pytest
from helpers import numbers

from keras_sat.network.attention import (
    ATTENTIONS,
    SCORINGS,
    BahdanauAttention,
    DotAttention,
    NoAttention,
    make_attention,
)
from keras_sat.network.step_records import SelectionInputs

PHOTOS, REGIONS, DIM = 3, 5, 4
KINDS = [*itertools.product(ATTENTIONS, SCORINGS), ("drawn", "additive"), ("even", "additive")]
pytestmark = pytest.mark.usefixtures("attentions_of_our_own")


def features():
    return numbers(PHOTOS, REGIONS, DIM)


@pytest.mark.parametrize("attention, scoring", KINDS)
def test_weights_are_distributions_and_the_context_is_the_selected_sum(attention, scoring):
    layer = make_attention(attention, scoring, attention_dim=6)
    noise = numbers(2 * PHOTOS, REGIONS, seed=2)
    context, weights, selection, scores, _ = layer(
        numbers(2 * PHOTOS, DIM, seed=1), features(), selection_inputs=SelectionInputs(noise)
    )
    assert weights.shape == selection.shape == (2 * PHOTOS, REGIONS)
    np.testing.assert_allclose(weights, keras.ops.softmax(scores), rtol=1e-5)
    np.testing.assert_allclose(np.sum(weights, axis=1), 1, rtol=1e-5)
    assert (np.asarray(weights) >= 0).all()
    expected = np.einsum("rl,rld->rd", selection, np.repeat(features(), 2, axis=0))
    np.testing.assert_allclose(context, expected, atol=1e-5)


@pytest.mark.parametrize("attention, scoring", KINDS)
def test_projecting_beforehand_changes_nothing(attention, scoring):
    layer = make_attention(attention, scoring, attention_dim=6)
    hidden_state = numbers(PHOTOS, DIM, seed=1)
    at_once = layer(hidden_state, features())
    before = layer(hidden_state, features(), layer.project(features()))
    for one, other in zip(at_once[:3], before[:3]):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("attention, scoring", KINDS)
def test_attention_moves_with_the_state_unless_there_is_none(attention, scoring):
    layer = make_attention(attention, scoring, attention_dim=6)
    one = layer(numbers(PHOTOS, DIM, seed=1), features()).attention_weights
    other = layer(numbers(PHOTOS, DIM, seed=2), features()).attention_weights
    moved = np.abs(np.asarray(one) - np.asarray(other)).max()
    assert moved == 0 if not ATTENTIONS[attention].has_attention else moved > 1e-3


@pytest.mark.parametrize("attention, scoring", KINDS)
def test_configuration_is_complete(attention, scoring):
    layer = make_attention(attention, scoring, attention_dim=6)
    layer(numbers(PHOTOS, DIM, seed=1), features())
    copy = type(layer).from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    copy(numbers(PHOTOS, DIM, seed=1), features())
    copy.set_weights(layer.get_weights())
    for one, other in zip(
        layer(numbers(3, DIM), features())[:3], copy(numbers(3, DIM), features())[:3]
    ):
        np.testing.assert_array_equal(one, other)


def test_float16_features_keep_weights_in_float32():
    layer = make_attention(
        "soft", "additive", attention_dim=6, dtype=keras.DTypePolicy("mixed_float16")
    )
    context, weights, *_ = layer(numbers(PHOTOS, DIM), features())
    assert context.dtype == "float16" and weights.dtype == "float32"


def test_hard_attention_uses_the_sample_only_where_asked():
    layer = make_attention("hard", "additive", attention_dim=6)
    hidden_state, noise = numbers(PHOTOS, DIM), numbers(PHOTOS, REGIONS, seed=3)
    without = layer(hidden_state, features())
    np.testing.assert_array_equal(without.selection, without.attention_weights)
    sampled = np.array([1.0, 0.0, 1.0], dtype="float32")
    mixed = layer(hidden_state, features(), selection_inputs=SelectionInputs(noise, sampled))
    np.testing.assert_array_equal(mixed.selection[1], mixed.attention_weights[1])
    for row in (0, 2):
        expected = np.argmax(np.log(mixed.attention_weights[row]) + noise[row])
        np.testing.assert_array_equal(mixed.selection[row], np.eye(REGIONS)[expected])


@pytest.mark.parametrize("attention, scoring", KINDS)
def test_a_grid_is_read_as_its_regions_row_by_row(attention, scoring):
    layer = make_attention(attention, scoring, attention_dim=6)
    grid, hidden_state = numbers(PHOTOS, 2, 3, DIM), numbers(PHOTOS, DIM, seed=1)
    of_grid = layer(hidden_state, grid)
    prepared = layer(hidden_state, grid, layer.prepare(grid))
    of_regions = layer(hidden_state, grid.reshape(PHOTOS, 6, DIM))
    assert of_grid.attention_weights.shape == (PHOTOS, 6)
    for found in (of_grid, prepared):
        for one, other in zip(found[:3], of_regions[:3]):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_model_of_ones_own_joins_an_encoder_and_attention_for_photos_of_any_size(tmp_path):
    photos, question = keras.Input((None, None, 3)), keras.Input((8,))
    grid = keras.layers.Conv2D(DIM, 4, strides=4)(photos)  # its sides are unknown
    looked = BahdanauAttention(attention_dim=6)(question, grid)
    model = keras.Model([photos, question], [looked.context, looked.attention_weights])
    inputs = [numbers(PHOTOS, 8, 12, 3), numbers(PHOTOS, 8, seed=1)]
    contexts, weights = model.predict(inputs, verbose=0)
    assert weights.shape == (PHOTOS, 6) and contexts.shape == (PHOTOS, DIM)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0)[1], weights)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_features_of_another_shape_are_rejected(scoring):
    layer = make_attention("soft", scoring, attention_dim=6)
    with pytest.raises(ValueError, match=r"or a grid .*Received: .*\(3, 4\)"):
        layer(features(), numbers(PHOTOS, DIM))  # the other way round


def test_no_attention_sees_the_mean():
    layer = NoAttention()
    context, weights, *_ = layer(numbers(PHOTOS, 7), features())
    np.testing.assert_allclose(context, features().mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(weights, np.full((PHOTOS, REGIONS), 1 / REGIONS), rtol=1e-6)
    assert not layer.weights


def test_dot_attention_rejects_other_sizes():
    with pytest.raises(ValueError, match=r"bilinear.*feature_dim=4, hidden_dim=7"):
        DotAttention()(numbers(PHOTOS, 7), features())


@pytest.mark.parametrize("shape", [(2, 7, 4), (4,)])
def test_a_hidden_state_that_is_not_of_one_step_is_rejected(shape):
    look = BahdanauAttention(attention_dim=3)
    with pytest.raises(ValueError, match=r"hidden state must be \(rows, hidden_dim\).*Received"):
        look(np.zeros(shape, "float32"), np.zeros((2, 5, 6), "float32"))
