import numpy as np
import pytest
import tensorflow as tf

from keras_sat import equations
from keras_sat.model.fast import fused

PHOTOS, REGIONS, DIM = 2, 128, 128


def arguments(captions, dtype="float32"):
    random = np.random.default_rng(captions)
    shapes = (PHOTOS, REGIONS, DIM), (PHOTOS * captions, DIM), (DIM,)
    return [tf.constant(random.normal(size=shape), dtype) for shape in shapes]


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
    scores, gradients = scores_and_gradients(fused.additive_scores, arguments(3))
    assert scores.shape == (PHOTOS * 3, REGIONS)
    assert [gradient.shape for gradient in gradients] == [x.shape for x in arguments(3)]


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("captions", [1, 3])
def test_scores_and_gradients_are_those_of_the_equation(captions, in_graph):
    right_scores, right_gradients = scores_and_gradients(equations.additive_scores, arguments(captions))

    def run():
        return scores_and_gradients(fused.additive_scores, arguments(captions))

    scores, gradients = tf.function(run, autograph=False)() if in_graph else run()
    np.testing.assert_allclose(scores, right_scores, atol=1e-4)
    for gradient, right in zip(gradients, right_gradients):
        assert np.abs(right).max() > 1
        np.testing.assert_allclose(gradient, right, rtol=1e-4, atol=1e-3)


def test_half_precision():
    right, _ = scores_and_gradients(equations.additive_scores, arguments(2))
    scores, gradients = scores_and_gradients(fused.additive_scores, arguments(2, "float16"))
    assert scores.dtype == "float16" and {gradient.dtype for gradient in gradients} == {tf.float16}
    np.testing.assert_allclose(tf.cast(scores, "float32"), right, atol=0.3)


def test_what_is_small_or_cannot_be_compiled_is_left_to_the_equation(monkeypatch):
    def taken(*arguments):
        raise StopIteration

    monkeypatch.setattr(equations, "additive_scores", taken)
    features, state, vector = arguments(1)
    with pytest.raises(StopIteration):
        fused.additive_scores(features[:, :-1], state, vector)  # one region less is small
    monkeypatch.setattr(fused, "_has_xla", lambda: False)
    with pytest.raises(StopIteration):
        fused.additive_scores(features, state, vector)


def test_xla_is_looked_for_once():
    assert fused._has_xla.__wrapped__() is fused._has_xla() is True
