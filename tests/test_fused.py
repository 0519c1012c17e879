import numpy as np
import pytest
import tensorflow as tf

from keras_sat import equations
from keras_sat.model.fast import fused
from keras_sat.model.fast.switch import has_xla

PHOTOS, REGIONS, DIM = 2, 128, 128


def arguments(captions, dtype="float32"):
    random = np.random.default_rng(captions)
    shapes = (PHOTOS, REGIONS, DIM), (PHOTOS * captions, DIM), (DIM,)
    return [tf.constant(random.normal(size=shape), dtype) for shape in shapes]


def fused_scores(projected_features, projected_state, score_vector):
    return fused.additive_scores(fused.prepare(projected_features), projected_state, score_vector)


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


def test_shapes(no_shortcut):
    scores, gradients = scores_and_gradients(fused_scores, arguments(3))
    assert scores.shape == (PHOTOS * 3, REGIONS)
    assert [gradient.shape for gradient in gradients] == [x.shape for x in arguments(3)]


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("captions", [1, 3])
def test_scores_and_gradients_are_those_of_the_equation(captions, in_graph):
    right_scores, right_gradients = scores_and_gradients(equations.additive_scores, arguments(captions))

    def run():
        return scores_and_gradients(fused_scores, arguments(captions))

    scores, gradients = tf.function(run, autograph=False)() if in_graph else run()
    np.testing.assert_allclose(scores, right_scores, atol=1e-4)
    for gradient, right in zip(gradients, right_gradients):
        assert np.abs(right).max() > 1
        np.testing.assert_allclose(gradient, right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("regions, dim", [(127, 131), (196, 96), (49, 512), (4, 5000)])
def test_sizes_that_cannot_be_cut_into_even_parts(regions, dim, no_shortcut):
    random = np.random.default_rng(0)
    features, state, vector = (
        random.normal(size=shape).astype("float32") for shape in [(PHOTOS, regions, dim), (PHOTOS * 2, dim), (dim,)]
    )
    hidden = np.tanh(features[:, None] + state.reshape(PHOTOS, 2, 1, dim))
    given = [tf.constant(x) for x in (features, state, vector)]
    scores, (of_features, of_state, of_vector) = scores_and_gradients(fused_scores, given)
    np.testing.assert_allclose(scores, (hidden @ vector).reshape(-1, regions), atol=1e-3)
    upstream = np.random.default_rng(1).normal(size=scores.shape).reshape(PHOTOS, 2, regions, 1)
    of_sum = upstream * vector * (1 - hidden**2)
    np.testing.assert_allclose(of_features, of_sum.sum(axis=1), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(of_state, of_sum.sum(axis=2).reshape(-1, dim), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(of_vector, (upstream * hidden).sum(axis=(0, 1, 2)), rtol=1e-4, atol=1e-2)


def test_however_large_the_summands_are_the_scores_are_those_of_the_equation():
    large = np.array([-1e6, -200, -41, -20, -1, 0, 1, 20, 41, 200, 1e6], "float32")
    features = tf.constant(np.tile(np.repeat(large, 16)[:, None], (1, 512))[None, :176])  # (1, 176, 512)
    state = tf.constant(np.resize([-30.0, -1, 0, 1, 30], (1, 512)).astype("float32"))
    given = features, state, tf.ones(512) / 512
    scores, gradients = scores_and_gradients(fused_scores, given)
    right_scores, right_gradients = scores_and_gradients(equations.additive_scores, given)
    np.testing.assert_allclose(scores, right_scores, atol=1e-5)
    for gradient, right in zip(gradients, right_gradients):
        np.testing.assert_allclose(gradient, right, atol=1e-4)


def test_half_precision():
    right, _ = scores_and_gradients(equations.additive_scores, arguments(2))
    scores, gradients = scores_and_gradients(fused_scores, arguments(2, "float16"))
    assert scores.dtype == "float16" and {gradient.dtype for gradient in gradients} == {tf.float16}
    np.testing.assert_allclose(tf.cast(scores, "float32"), right, atol=0.3)


def test_what_is_small_or_cannot_be_compiled_is_left_to_the_equation(monkeypatch):
    def taken(*arguments):
        raise StopIteration

    monkeypatch.setattr(equations, "additive_scores", taken)
    features, state, vector = arguments(1)
    with pytest.raises(StopIteration):
        fused_scores(features[:, :-1], state, vector)  # one region less is small
    monkeypatch.setattr(fused, "has_xla", lambda: False)
    with pytest.raises(StopIteration):
        fused_scores(features, state, vector)


def test_xla_is_looked_for_once():
    assert has_xla.__wrapped__() is has_xla() is True
