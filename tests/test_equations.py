import numpy as np
import pytest
import tensorflow as tf
from helpers import numbers
from keras import ops

from keras_sat import equations


def test_mean_annotation_and_attention_weights_of_known_numbers():
    features = np.array([[[1.0, 2.0], [3.0, 6.0]]], dtype="float32")
    np.testing.assert_allclose(equations.mean_annotation(features), [[2.0, 4.0]])
    weights = equations.attention_weights(np.array([[0.0, 1.0]], dtype="float16"))
    np.testing.assert_allclose(weights, np.array([[1, np.e]]) / (1 + np.e), rtol=1e-6)
    assert weights.dtype == "float32"


def test_lstm_with_open_and_closed_gates():
    far, cell_state = 50.0, np.array([[0.7]], dtype="float32")
    # Input gate shut, forget and output gate open.
    keep = np.array([[-far, far, far, 0.3]], dtype="float32")
    hidden, cell = equations.lstm(keep, cell_state)
    np.testing.assert_allclose(cell, [[0.7]], rtol=1e-6)
    np.testing.assert_allclose(hidden, np.tanh([[0.7]]), rtol=1e-6)
    replace = np.array([[far, -far, 0.0, 0.3]], dtype="float32")
    hidden, cell = equations.lstm(replace, cell_state)
    np.testing.assert_allclose(cell, np.tanh([[0.3]]), rtol=1e-6)
    np.testing.assert_allclose(hidden, 0.5 * np.tanh(np.tanh([[0.3]])), rtol=1e-6)


def test_gru_with_open_and_closed_gates():
    far, hidden_state = 50.0, np.array([[0.7]], dtype="float32")
    zero = np.zeros((1, 3), dtype="float32")
    np.testing.assert_allclose(
        equations.gru(np.array([[0, far, 0]], "float32"), zero, hidden_state), [[0.7]]
    )
    fresh = equations.gru(
        np.array([[-far, -far, 0.3]], "float32"), np.array([[0, 0, 9]], "float32"), hidden_state
    )
    # The reset gate hides the state's 9.
    np.testing.assert_allclose(fresh, np.tanh([[0.3]]), rtol=1e-6)


def test_scores_are_those_of_the_formulas():
    features, state, v = numbers(2, 4, 3), numbers(6, 3, seed=1), numbers(3, seed=2)
    additive = [[v @ np.tanh(a + state[row]) for a in features[row // 3]] for row in range(6)]
    np.testing.assert_allclose(equations.additive_scores(features, state, v), additive, rtol=1e-5)
    dot = [[a @ state[row] for a in features[row // 3]] for row in range(6)]
    np.testing.assert_allclose(equations.dot_scores(features, state), dot, rtol=1e-5)


def test_attended_features_of_one_hot_and_of_weights():
    features = numbers(2, 3, 5)
    one_hot = np.eye(3, dtype="float32")[[1, 0, 2, 2]]
    expected = [features[0, 1], features[0, 0], features[1, 2], features[1, 2]]
    np.testing.assert_allclose(equations.attended_features(one_hot, features), expected)
    uniform = np.full((2, 3), 1 / 3, dtype="float32")
    np.testing.assert_allclose(
        equations.attended_features(uniform, features), features.mean(axis=1), rtol=1e-5
    )


def test_sample_locations_follow_the_distribution():
    weights = np.tile(np.array([[0.6, 0.3, 0.1, 0.0]], dtype="float32"), (20_000, 1))
    uniform = np.random.default_rng(0).random(weights.shape).astype("float32")
    sample = ops.convert_to_numpy(equations.sample_locations(weights, equations.gumbel(uniform)))
    assert set(np.unique(sample)) == {0.0, 1.0} and (sample.sum(axis=1) == 1).all()
    np.testing.assert_allclose(sample.mean(axis=0), weights[0], atol=4 * np.sqrt(0.25 / 20_000))
    assert sample[:, 3].sum() == 0


def test_gumbel_noise_is_finite_at_the_ends():
    assert np.isfinite(equations.gumbel(np.array([0.0, 0.5, 1.0], dtype="float32"))).all()
    np.testing.assert_allclose(equations.gumbel(np.exp([-1.0])), [0.0], atol=1e-6)


def test_log_probs_of_uniform_logits():
    logits, targets = np.zeros((2, 3, 8), dtype="float32"), np.array([[1, 2, 0], [7, 0, 0]])
    words = equations.word_log_probs(logits, targets)
    np.testing.assert_allclose(words, np.full((2, 3), -np.log(8)), rtol=1e-6)
    token_weights = np.array([[1, 1, 1], [1, 0, 0]], dtype="float32")
    np.testing.assert_allclose(
        equations.caption_log_prob(words, token_weights), [-3 * np.log(8), -np.log(8)]
    )


def test_mean_log_probs_is_the_mean_of_the_log_softmax():
    logits = numbers(2, 3, 8)
    expected = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).mean(-1)
    np.testing.assert_allclose(equations.mean_log_probs(logits), expected, rtol=1e-5)


def test_attention_penalty_counts_real_words_only_and_attention_entropy():
    weights = np.array([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]], dtype="float32")
    for token_weights, penalty in (([1, 0, 1], 0.0), ([1, 1, 1], 0.25 + 0.25), ([0, 1, 0], 0.5)):
        received = equations.attention_penalty(weights, np.array([token_weights], "float32"))
        np.testing.assert_allclose(received, [penalty])
    np.testing.assert_allclose(
        equations.attention_entropy(weights), [[0.0, np.log(2), 0.0]], atol=1e-6
    )


def test_location_log_prob_counts_real_words_only():
    weights = np.array([[[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]], dtype="float32")
    selection = np.array([[[0, 1], [1, 0], [0, 1]]], dtype="float32")
    token_weights = np.array([[1, 1, 0]], dtype="float32")
    expected = [np.log(0.75) + np.log(0.5)]
    np.testing.assert_allclose(
        equations.location_log_prob(weights, selection, token_weights), expected, rtol=1e-6
    )


def test_surrogate_has_the_terms_of_equation_12():
    one = np.ones(1, dtype="float32")
    terms = {"reward": 5 * one, "reward_weight": 0.1, "entropy_weight": 0.002}
    sampled = equations.hard_attention_surrogate(-7 * one, -2 * one, 3 * one, sampled=one, **terms)
    np.testing.assert_allclose(sampled, [-7 + 0.1 * 5 * -2 + 0.002 * 3], rtol=1e-6)
    expectation = equations.hard_attention_surrogate(
        -7 * one, -2 * one, 3 * one, sampled=0 * one, **terms
    )
    np.testing.assert_allclose(expectation, [-7 + 0.002 * 3], rtol=1e-6)


def test_surrogate_holds_the_reward_constant():
    log_prob, location = tf.Variable([-7.0]), tf.Variable([-2.0])
    terms = {"sampled": tf.ones(1), "reward_weight": 0.5}
    with tf.GradientTape() as tape:
        value = equations.hard_attention_surrogate(
            log_prob, location, tf.zeros(1), reward=log_prob - 1.0, **terms
        )
    by_log_prob, by_location = tape.gradient(value, [log_prob, location])
    np.testing.assert_allclose(by_log_prob, [1.0])
    np.testing.assert_allclose(by_location, [0.5 * -8.0])


def test_next_baseline():
    assert float(equations.next_baseline(10.0, 20.0)) == pytest.approx(11.0)


# === What a logit is made of ===


@pytest.mark.parametrize("activation", [ops.tanh, lambda x: x, ops.sigmoid, ops.relu])
def test_slopes_are_secants_from_zero(activation):
    s = np.array([[-30.0, -2.0, -0.3, 0.1, 4.0]], dtype="float32")
    expected = (np.asarray(activation(s)) - np.asarray(activation(0 * s))) / s
    np.testing.assert_allclose(equations.secant_slopes(s, activation), expected, rtol=1e-4)


def test_slopes_near_zero_are_the_derivative():
    s = np.array([0.0, 1e-30, -1e-9, 1e-6], dtype="float32")
    np.testing.assert_allclose(equations.secant_slopes(s, ops.tanh), np.ones(4), rtol=1e-6)
    np.testing.assert_allclose(equations.secant_slopes(s, ops.sigmoid), np.full(4, 0.25), rtol=1e-6)


def test_parts_are_integrated_gradients():
    """The closed form, compared with the mean of the gradients on the line from 0."""
    summands, words = numbers(3, 5), numbers(5, 7, seed=1)
    total = summands.sum(axis=0)
    line = np.linspace(0, 1, 20_001)[:, None] * total  # (points, 5)
    mean_gradients = np.mean(1 - np.tanh(line) ** 2, axis=0)
    slopes = equations.secant_slopes(total, ops.tanh)
    for summand in summands:
        expected = (summand * mean_gradients) @ words
        received = equations.part_of_logits(summand[None], slopes, words)[0]
        np.testing.assert_allclose(received, expected, atol=1e-3)


@pytest.mark.parametrize("activation", [ops.tanh, lambda x: x, ops.sigmoid])
def test_parts_sum_to_the_logits(activation):
    summands, words, bias = numbers(3, 2, 5), numbers(5, 7, seed=1), numbers(7, seed=2)
    total = summands.sum(axis=0)
    slopes = equations.secant_slopes(total, activation)
    parts = [equations.part_of_logits(summand, slopes, words) for summand in summands]
    of_bias = equations.bias_of_logits(activation, words, bias)
    logits = np.asarray(activation(total)) @ words + bias
    np.testing.assert_allclose(sum(parts) + of_bias, logits, rtol=1e-4, atol=1e-5)


def test_votes_of_known_numbers():
    # One direction, the first feature; its mean is 2.
    features = np.array([[[1.0, 9.0], [3.0, -9.0]]], dtype="float32")
    direction, weights = np.array([[1.0, 0.0]], "float32"), np.array([[0.25, 0.75]], "float32")
    half = np.array([[0.5]], dtype="float32")
    received = equations.votes(weights, features, direction, half)
    np.testing.assert_allclose(received, [[0.5 * 0.25 * -1, 0.5 * 0.75 * 1]])
    np.testing.assert_allclose(equations.vote_of_mean(features, direction, half), [[1.0]])


def test_votes_and_that_of_the_mean_sum_to_the_part_of_the_photo():
    features, weights = numbers(2, 4, 3), np.random.default_rng(0).dirichlet(np.ones(4), 6)
    weights = weights.astype("float32")
    slopes, words, context_readout = numbers(6, 5), numbers(6, 5, seed=1), numbers(3, 5, seed=2)
    share = np.linspace(0.1, 1, 6, dtype="float32")[:, None]
    directions = equations.word_directions(slopes, words, context_readout)
    total = np.sum(equations.votes(weights, features, directions, share), axis=1)
    total += np.asarray(equations.vote_of_mean(features, directions, share))[:, 0]
    context = share * np.asarray(equations.attended_features(weights, features))
    expected = np.sum(context @ context_readout * slopes * words, axis=1)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)
