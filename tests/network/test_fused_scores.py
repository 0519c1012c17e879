import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import all_slow_but

from keras_sat import equations
from keras_sat.network import attention as attention_module
from keras_sat.network import fused_scores
from keras_sat.network.attention import BahdanauAttention
from keras_sat.network.decoder import CaptionDecoder
from keras_sat.network.fast_twins import without_fast_twins
from keras_sat.settings import Network

PHOTOS, REGIONS, DIM = 2, 128, 128


def arguments(captions, dtype="float32"):
    random = np.random.default_rng(captions)
    shapes = (PHOTOS, REGIONS, DIM), (PHOTOS * captions, DIM), (DIM,)
    return [tf.constant(random.normal(size=shape), dtype) for shape in shapes]


def scores_by_fused_code(projected_features, projected_state, score_vector):
    return fused_scores.additive_scores(
        fused_scores.prepare(projected_features), projected_state, score_vector
    )


def scores_and_gradients(function, arguments):
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        scores = function(*arguments)
        upstream = np.random.default_rng(1).normal(size=scores.shape)
        loss = tf.reduce_sum(scores * tf.cast(upstream, scores.dtype))
    return scores, tape.gradient(loss, arguments)


@pytest.fixture
def no_shortcut(monkeypatch):
    """Fail where the equation itself is computed instead."""
    monkeypatch.delattr(equations, "additive_scores")


@pytest.mark.parametrize("captions, in_graph", all_slow_but((3, True), [(1, False), (3, True)]))
def test_scores_and_gradients_are_those_of_the_equation(captions, in_graph):
    right_scores, right_gradients = scores_and_gradients(
        equations.additive_scores, arguments(captions)
    )

    def run():
        return scores_and_gradients(scores_by_fused_code, arguments(captions))

    scores, gradients = tf.function(run, autograph=False)() if in_graph else run()
    np.testing.assert_allclose(scores, right_scores, atol=1e-4)
    for gradient, right in zip(gradients, right_gradients):
        assert np.abs(right).max() > 1
        np.testing.assert_allclose(gradient, right, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("regions, dim", [(196, 96), (49, 512)])
def test_sizes_that_have_few_divisors(regions, dim, no_shortcut):
    random = np.random.default_rng(0)
    features, state, vector = (
        random.normal(size=shape).astype("float32")
        for shape in [(PHOTOS, regions, dim), (PHOTOS * 2, dim), (dim,)]
    )
    hidden = np.tanh(features[:, None] + state.reshape(PHOTOS, 2, 1, dim))
    given = [tf.constant(x) for x in (features, state, vector)]
    scores, (of_features, of_state, of_vector) = scores_and_gradients(scores_by_fused_code, given)
    np.testing.assert_allclose(scores, (hidden @ vector).reshape(-1, regions), atol=1e-3)
    upstream = np.random.default_rng(1).normal(size=scores.shape).reshape(PHOTOS, 2, regions, 1)
    of_sum = upstream * vector * (1 - hidden**2)
    np.testing.assert_allclose(of_features, of_sum.sum(axis=1), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(of_state, of_sum.sum(axis=2).reshape(-1, dim), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        of_vector, (upstream * hidden).sum(axis=(0, 1, 2)), rtol=1e-4, atol=1e-2
    )


def attention_layer(regions, attention_dim):
    layer = BahdanauAttention(attention_dim)
    layer.build((None, 3), (None, regions, DIM))
    return layer


@pytest.mark.parametrize(
    "regions, dim", [(127, 512), (194, 512), (196, 509), (49, 256), (None, 512)]
)
def test_sizes_that_are_small_unknown_or_cannot_be_cut_are_left_to_the_equation(regions, dim):
    assert attention_layer(regions, dim).score_method == "plain"


@pytest.mark.slow
def test_half_precision_is_computed_in_float32_and_rounded_last(no_shortcut):
    dtype, tolerance = "bfloat16", 0.02
    given = arguments(2, dtype)
    scores, gradients = scores_and_gradients(scores_by_fused_code, given)
    right, right_gradients = scores_and_gradients(
        scores_by_fused_code, [tf.cast(x, "float32") for x in given]
    )
    assert {x.dtype.name for x in (scores, *gradients)} == {dtype}
    for x, y in zip((scores, *gradients), (right, *right_gradients)):
        np.testing.assert_allclose(
            tf.cast(x, "float32"), y, rtol=tolerance, atol=tolerance * np.abs(y).max()
        )


@pytest.mark.parametrize("attends", ["before", "after"])
@pytest.mark.slow
def test_a_step_that_is_compiled_as_a_whole_is_that_of_the_equation(attends):
    keras.utils.set_random_seed(0)
    decoder = CaptionDecoder(
        20, Network(attention_dim=512, hidden_dim=16, embedding_dim=8, attends=attends)
    )
    random = np.random.default_rng(0)
    features, ids = (
        random.random((2, 49, 24), dtype=np.float32),
        random.integers(4, 20, (6, 4)).astype("int32"),
    )
    decoder.build(features.shape, ids.shape)

    def run():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(decoder(tf.constant(features), tf.constant(ids)).logits ** 2)
        weights = [weight.value for weight in decoder.trainable_variables]
        return loss, *map(tf.convert_to_tensor, tape.gradient(loss, weights))

    with without_fast_twins():
        right = run()
    for jit_compile in (True, False):
        for own, its in zip(
            tf.function(run, jit_compile=jit_compile, autograph=False)(), right, strict=True
        ):
            np.testing.assert_allclose(own, its, rtol=1e-4, atol=1e-6)


def test_summands_that_are_large_or_opposite_give_the_scores_of_the_equation():
    large = np.array([-1e6, -200, -41, -20, -1, 0, 1, 20, 41, 200, 1e6], "float32")
    features = tf.constant(np.tile(np.repeat(large, 16)[:, None], (1, 96))[None])  # (1, 176, 96)
    state = tf.constant(np.resize([-30.0, -1, 0, 1, 30], (1, 96)).astype("float32"))
    given = features, state, tf.ones(96) / 96
    scores, gradients = scores_and_gradients(scores_by_fused_code, given)
    right_scores, right_gradients = scores_and_gradients(equations.additive_scores, given)
    np.testing.assert_allclose(scores, right_scores, atol=1e-5)
    for gradient, right in zip(gradients, right_gradients):
        np.testing.assert_allclose(gradient, right, atol=1e-4)


def test_the_layer_chooses_its_scores_by_name(monkeypatch):
    layer = attention_layer(256, 128)
    features = tf.ones((PHOTOS, 256, DIM))
    assert layer.score_method == "fused"
    assert isinstance(layer.prepare(features), fused_scores.Projected)
    assert tf.is_tensor(layer.project(features))  # as the sentinel uses it
    query = tf.ones((PHOTOS, 128))
    by_equation = layer.score(query, layer.project(features))
    scores = layer.score(query, layer.prepare(features))
    np.testing.assert_allclose(scores, by_equation, atol=1e-4)
    with without_fast_twins():
        assert tf.is_tensor(layer.prepare(features))
    monkeypatch.setattr(attention_module, "may_compile", lambda: False)
    assert tf.is_tensor(layer.prepare(features))


def test_a_subclass_scores_as_it_says():
    class Halved(BahdanauAttention):
        def score(self, query, projected_features):
            return equations.additive_scores(projected_features, query, self.score_vector) / 2

    layer = Halved(128)
    layer.build((None, 3), (None, 256, DIM))
    assert layer.score_method == "plain"
    assert layer(tf.ones((PHOTOS, 3)), tf.ones((PHOTOS, 256, DIM))).context.shape == (PHOTOS, DIM)
