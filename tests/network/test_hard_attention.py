"""The gradient of sampled attention: the mean of sampled gradients against the exact
gradient.

The model is small enough to list every path that attention can take. The variational
bound is then L_s = sum_s p(s | a) log p(y | s, a), equation (10), a smooth function of
the weights.
"""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers import NO_DROPOUT, make_captioner

from keras_sat import ATTENTIONS, Captioner, equations
from keras_sat.learning import EXPECTATION_PROBABILITY

REGIONS, DIM, TIME = 3, 4, 3
WORDS = ["red", "green", "blue"]
KINDS = [("hard", False, 400), ("hard", True, 200), ("pairs", False, 100)]


# The bound alone: no entropy, no expectation in its place, no penalty.
HARD = {
    "attention": "hard",
    "reward_weight": 1.0,
    "entropy_weight": 0.0,
    "attention_penalty_weight": 0.0,
}


def hard_captioner(expectation_share=0.0, **options):
    sizes = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 3}
    options = {**sizes, **HARD, **NO_DROPOUT, **options}
    captioner = make_captioner(WORDS, shape=(REGIONS, DIM), scale=0.8, **options)
    captioner.compile("adam")
    captioner.expectation_share.assign(expectation_share)
    return captioner


def one_caption():
    features = np.random.default_rng(2).normal(size=(1, REGIONS, DIM)).astype("float32")
    input_ids, target_ids = (
        np.array([[1, 4, 6]], dtype="int32"),
        np.array([[4, 6, 2]], dtype="int32"),
    )
    return (features, input_ids), target_ids, np.ones((1, TIME), dtype="float32")


def exact_bound(captioner):
    """Return L_s, and its gradient, from all REGIONS ** TIME paths."""
    (features, input_ids), target_ids, token_weights = one_caption()
    paths = np.array(list(itertools.product(range(REGIONS), repeat=TIME)))
    # So much noise that every path is taken once.
    forced = 1e4 * np.eye(REGIONS, dtype="float32")[paths]
    rows = len(paths)
    with tf.GradientTape() as tape:
        decoded = captioner((features, np.repeat(input_ids, rows, axis=0)), noise=forced)
        words = equations.word_log_probs(decoded.logits, np.repeat(target_ids, rows, axis=0))
        log_prob = tf.reduce_sum(words, axis=1)
        alpha_of_path = tf.reduce_sum(
            decoded.attention_weights * np.eye(REGIONS, dtype="float32")[paths], axis=-1
        )
        path_probability = tf.reduce_prod(alpha_of_path, axis=1)
        bound = tf.reduce_sum(path_probability * log_prob)
    if captioner.attention == "hard":
        np.testing.assert_array_equal(np.argmax(decoded.selection, axis=-1), paths)
    assert float(tf.reduce_sum(path_probability)) == pytest.approx(1, abs=1e-5)
    return float(bound), flat(tape.gradient(bound, captioner.trainable_variables))


def flat(gradients):
    return np.concatenate([np.ravel(tf.convert_to_tensor(gradient)) for gradient in gradients])


def sampled_gradients(captioner, number):
    """Return `number` gradients of the negative objective: (number, weights)."""
    batch = one_caption()

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            objective = captioner.objective(batch, training=True)
        return tape.gradient(objective.mean, captioner.trainable_variables)

    return -np.array([flat(gradient()) for _ in range(number)])


@pytest.fixture
def pairs(monkeypatch):
    """The attention that docs/extending.md shows."""
    text = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    block = next(
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "def pairs(" in block
    )
    monkeypatch.setitem(ATTENTIONS, "pairs", None)  # taken away again in the end
    exec(block.partition("captioner =")[0], {})


def change(captioner, **options):
    captioner.paper_objective.settings = dataclasses.replace(captioner.settings.loss, **options)


@pytest.mark.slow
@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("attention, with_baseline, number", KINDS)
def test_the_mean_of_sampled_gradients_is_the_exact_gradient(attention, with_baseline, number):
    captioner = hard_captioner(attention=attention, num_samples=40)
    bound, exact = exact_bound(captioner)
    captioner.baseline.assign(bound if with_baseline else 0.0)
    sampled = sampled_gradients(captioner, number)
    standard_error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
    random = standard_error > 1e-6
    z = (sampled.mean(axis=0) - exact)[random] / standard_error[random]
    assert np.abs(z).max() < 5 and 0.5 < np.mean(z**2) < 1.6
    np.testing.assert_allclose(sampled.mean(axis=0)[~random], exact[~random], atol=1e-4)
    # A test that could not fail would be worth nothing: without the second term the
    # gradient is far off.
    change(captioner, reward_weight=0.0)
    pathwise = sampled_gradients(captioner, number // 4)
    error = pathwise.std(axis=0, ddof=1) / np.sqrt(len(pathwise))
    assert np.abs(
        (pathwise.mean(axis=0) - exact)[random] / error[random].clip(1e-6)
    ).max() > 2 * np.sqrt(len(pathwise))


@pytest.mark.slow
def test_the_baseline_lowers_the_variance(number=150):
    without = hard_captioner()
    bound, _ = exact_bound(without)
    with_baseline = hard_captioner()
    with_baseline.baseline.assign(bound)
    variances = [
        sampled_gradients(captioner, number).var(axis=0).sum()
        for captioner in (without, with_baseline)
    ]
    assert variances[1] < 0.5 * variances[0]


@pytest.mark.parametrize("is_sampled", [True, False])
def test_the_baseline_follows_log_p_of_samples_after_its_use(is_sampled):
    captioner = hard_captioner(num_samples=3, expectation_share=float(not is_sampled))
    captioner.baseline.assign(-2.0)
    objective = captioner.objective(one_caption(), training=True)
    assert float(captioner.baseline) == -2.0 and np.asarray(objective.sampled).all() == is_sampled
    objective.after_step()
    expected = 0.9 * -2 + 0.1 * float(np.mean(objective.log_prob)) if is_sampled else -2.0
    assert float(captioner.baseline) == pytest.approx(expected, rel=1e-5)


def test_each_photo_has_its_coin_between_sample_and_expectation():
    captioner = hard_captioner(expectation_share=EXPECTATION_PROBABILITY, num_samples=2)
    (features, input_ids), target_ids, token_weights = one_caption()
    features, input_ids, *targets = (
        np.repeat(x, 20, axis=0) for x in (features, input_ids, target_ids, token_weights)
    )
    batch = (features, input_ids), *targets
    passes = [np.asarray(captioner.objective(batch, training=True).sampled) for _ in range(10)]
    of_images = np.array(passes).reshape(10, 20, 2)
    # The draws of a caption share its coin.
    np.testing.assert_array_equal(of_images[..., 0], of_images[..., 1])
    alike = (of_images[..., 0] == of_images[:, :1, 0]).all(axis=1)
    assert not alike.any()
    assert 0.2 < of_images.mean() < 0.8


def test_measuring_uses_the_expectation_and_no_chance():
    captioner = hard_captioner()
    one, other = (captioner.objective(one_caption(), training=False) for _ in range(2))
    np.testing.assert_array_equal(one.log_prob, other.log_prob)
    soft = Captioner.from_config({**captioner.get_config(), "attention": "soft"})
    soft.build(((None, REGIONS, DIM), (None, None)))
    soft.decoder.set_weights(captioner.decoder.get_weights())
    np.testing.assert_allclose(
        one.log_prob, soft.objective(one_caption(), training=False).log_prob, rtol=1e-6
    )
