"""Training with the paper's objective: its loss, what moves a weight, and how far."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from eight_photos import SMALL, compiled_captioner, first_batch
from helpers import NO_DROPOUT, all_slow_but, make_captioner, numpy_weights

from data_utils import Vocabulary, make_batches
from keras_sat import ATTENTIONS, equations, show_attend_tell_numpy
from keras_sat.settings import Optimizer
from keras_sat.training import Cluster

pytestmark = pytest.mark.usefixtures("attentions_of_our_own")


@pytest.mark.usefixtures("without_graphs")
def test_the_loss_is_that_of_the_paper(eight):
    images, vocabulary, cache = eight
    captioner = compiled_captioner(vocabulary, attention_penalty_weight=0.7)
    batch = first_batch(eight, group_by="image")
    measured = captioner.evaluate(
        make_batches(images, vocabulary, cache, group_by="image", shuffle=False),
        verbose=0,
        return_dict=True,
    )
    (features, input_ids), target_ids, token_weights = (
        tf.nest.map_structure(lambda x: x.numpy(), part) for part in batch
    )
    in_numpy = (features.astype("float64"), input_ids), target_ids, token_weights
    weights = numpy_weights(captioner.decoder)
    loss, without_penalty = (
        show_attend_tell_numpy.objective(weights, in_numpy, penalty_weight=weight)[0]
        for weight in (0.7, 0.0)
    )
    logits, alpha, *_ = show_attend_tell_numpy.call(weights, in_numpy[0][0], input_ids[:, 0])
    is_word = token_weights[:, 0] > 0
    is_right = logits.argmax(axis=-1) == target_ids[:, 0]
    entropies = -(alpha * np.log(alpha)).sum(axis=-1)
    assert len(is_word) == len(images)
    expected = {
        "loss": loss,
        "penalty": (loss - without_penalty) / 0.7,
        "cross_entropy": without_penalty * len(images) / is_word.sum(),
        "token_accuracy": is_right[is_word].mean(),
        "attention_entropy": entropies[is_word].mean(),
    }
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, rel=1e-5), name
    mean = captioner.objective(batch, training=False).mean
    assert float(mean) == pytest.approx(loss, rel=1e-5)


BASELINE = -9.0


def uneven_batch():
    """Return a batch of three photos with three captions, which have 0 to 5 words; the
    second photo's are in no order.
    """
    random = np.random.default_rng(5)
    lengths = np.array([[5, 3, 1], [2, 4, 0], [5, 5, 2]])
    token_weights = (np.arange(6) < lengths[..., None]).astype("float32")
    input_ids, target_ids = random.integers(4, 24, (2, 3, 3, 6)).astype("int32")
    features = random.normal(size=(3, 4, 24)).astype("float32")
    return (features, input_ids), target_ids, token_weights


def straightforward_loss(captioner, batch, noise, sampled):
    """Return the loss by the equations, which leave out nothing but captions without
    words; `noise` and `sampled` as `call` takes them.
    """
    inputs, target_ids, token_weights = batch
    target_ids, token_weights = target_ids.reshape(9, 6), token_weights.reshape(9, 6)
    decoded = captioner(inputs, noise=noise, sampled=sampled)
    word_log_probs = equations.word_log_probs(decoded.logits, target_ids)
    log_prob = equations.caption_log_prob(word_log_probs, token_weights)
    gain = log_prob
    if captioner.samples_regions:
        location_log_prob = equations.location_log_prob(
            decoded.attention_weights, decoded.selection, token_weights
        )
        entropy = equations.attention_entropy(decoded.attention_weights)
        gain = equations.hard_attention_surrogate(
            log_prob,
            location_log_prob,
            tf.reduce_sum(entropy * token_weights, axis=-1),
            reward=log_prob - BASELINE,
            sampled=sampled,
            reward_weight=captioner.settings.loss.reward_weight,
            entropy_weight=captioner.settings.loss.entropy_weight,
        )
    penalty = equations.attention_penalty(decoded.attention_weights, token_weights)
    penalty_weight = (
        captioner.settings.loss.attention_penalty_weight if captioner.decoder.has_attention else 0.0
    )
    is_caption = token_weights.any(axis=1).astype("float32")
    losses = penalty_weight * penalty - gain
    return tf.reduce_sum(losses * is_caption) / is_caption.sum()


@pytest.mark.parametrize("attention", [*ATTENTIONS, "drawn"])
def test_what_is_left_out_moves_nothing(attention, monkeypatch):
    """Training leaves out padding in the loop and in the readout; `call` and the
    equations leave out nothing.
    """
    words = [f"word{i}" for i in range(20)]
    captioner = make_captioner(words, shape=(4, 24), attention=attention, **SMALL, **NO_DROPOUT)
    captioner.baseline.assign(BASELINE)
    batch = uneven_batch()
    noise = sampled = None
    if captioner.samples_regions:
        noise = np.random.default_rng(6).gumbel(size=(9, 6, 4)).astype("float32")
        sampled = np.tile([1.0, 0.0, 1.0], 3).astype("float32")
    chance = {"noise": noise, "sampled": sampled}
    # Both sides share noise and coins: where they are drawn has a private name.
    monkeypatch.setattr(captioner.paper_objective, "_chance", lambda *_: chance)

    variables = captioner.trainable_variables
    with tf.GradientTape() as tape:
        mean = captioner.objective(batch, training=True).mean
    found = tape.gradient(mean, variables)
    with tf.GradientTape() as tape:
        straightforward = straightforward_loss(captioner, batch, noise, sampled)
    expected = tape.gradient(straightforward, variables)

    assert float(mean) == pytest.approx(float(straightforward), rel=1e-5)
    for variable, one, other in zip(variables, found, expected):
        one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
        np.testing.assert_allclose(one, other, atol=2e-5, err_msg=variable.path)
        assert np.abs(other).max() > 1e-4, variable.path


def test_a_word_that_comes_often_moves_no_further_than_others(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("adam", learning_rate=1e-3, clip_norm=None)
    before = captioner.decoder.embedding.embeddings.numpy()
    captioner.train_step(first_batch(eight, group_by="image"))  # `<start>` comes eight times
    assert np.abs(captioner.decoder.embedding.embeddings.numpy() - before).max() <= 1.01e-3


def test_compile_takes_the_settings_of_the_optimizer_as_an_object_and_by_name(eight):
    captioner = compiled_captioner(eight[1])
    settings = Optimizer(learning_rate=0.25, clip_norm=2.0)
    captioner.compile("sgd", settings=settings, clip_norm=3.0)
    assert captioner.updates.settings == Optimizer(learning_rate=0.25, clip_norm=3.0)
    assert float(captioner.optimizer.learning_rate) == 0.25
    assert captioner.optimizer.global_clipnorm == 3.0


def test_gradients_are_clipped(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("sgd", learning_rate=1.0, clip_norm=1e-2)
    before = [weight.numpy() for weight in captioner.trainable_variables]
    captioner.train_step(first_batch(eight))
    moved = (
        sum(((w.numpy() - old) ** 2).sum() for w, old in zip(captioner.trainable_variables, before))
        ** 0.5
    )
    assert moved == pytest.approx(1e-2, rel=1e-3)


@pytest.mark.slow
def test_xla_and_eager_training_give_the_same(eight):
    logs = []
    for how in ({"jit_compile": True}, {"run_eagerly": True, "jit_compile": False}):
        keras.utils.set_random_seed(0)
        # Without samples: the random numbers of XLA are others.
        captioner = compiled_captioner(eight[1], attention="hard", **NO_DROPOUT)
        captioner.expectation_share.assign(1.0)
        captioner.compile(learning_rate=1e-2, **how)
        batches = tf.data.Dataset.from_tensors(first_batch(eight)).repeat(2)
        history = captioner.fit(batches, epochs=2, verbose=0).history
        logs.append([*history["loss"], *history["token_accuracy"]])
    np.testing.assert_allclose(*logs, rtol=1e-3)


def test_averaged_weights_are_evaluated_and_left_at_the_end(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    batch = first_batch(eight)
    captioner.compile("sgd", learning_rate=0.1, average_momentum=0.2)
    seen = [[weight.numpy() for weight in captioner.trainable_variables]]
    for _ in range(3):
        captioner.train_step(batch)
        seen.append([weight.numpy() for weight in captioner.trainable_variables])
    expected = seen[0]
    for step, weights in enumerate(seen[1:], start=1):
        momentum = min(0.2, step / (step + 10))
        expected = [
            momentum * average + (1 - momentum) * weight
            for average, weight in zip(expected, weights)
        ]
    with captioner.averaged_weights():
        for weight, average in zip(captioner.trainable_variables, expected):
            np.testing.assert_allclose(weight.numpy(), average, atol=1e-6)
    for weight, last in zip(captioner.trainable_variables, seen[-1]):
        np.testing.assert_array_equal(weight.numpy(), last)


@pytest.mark.slow
def test_two_devices_train_as_one():
    command = [sys.executable, Path(__file__).parents[1] / "two_devices.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    one, two = json.loads(printed.splitlines()[-1])
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    for weight, other in zip(one["weights"], two["weights"]):
        np.testing.assert_allclose(other, weight, atol=1e-5)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_averages_end_with_the_training(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("sgd", learning_rate=0.1, average_momentum=0.9)
    batches = make_batches(*eight)

    def loss():
        return captioner.evaluate(batches, verbose=0, return_dict=True)["loss"]

    for _ in range(2):  # the second training starts new averages
        before = loss()
        history = captioner.fit(batches, validation_data=batches, epochs=1, verbose=0).history
        assert loss() == pytest.approx(history["val_loss"][-1], rel=1e-5) and loss() < before


@pytest.mark.parametrize(
    "optimizer, options, is_matrix_alone",
    [
        ("adam", {"weight_decay": 0.1}, True),
        ("adamw", {"weight_decay": 0.1}, True),
        (keras.optimizers.AdamW(1.0, weight_decay=0.1), {}, False),  # used as it is
    ],
)
def test_weight_decay_is_for_matrices(eight, optimizer, options, is_matrix_alone):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile(optimizer, learning_rate=1.0, **options)
    captioner.make_training_state()
    before = [weight.numpy() for weight in captioner.trainable_variables]
    captioner.optimizer.apply(
        [np.zeros(weight.shape, "float32") for weight in before], captioner.trainable_variables
    )
    for weight, old in zip(captioner.trainable_variables, before):
        shrinks = old.ndim >= 2 or not is_matrix_alone
        np.testing.assert_allclose(weight.numpy(), old * (0.9 if shrinks else 1.0), atol=1e-6)


@pytest.mark.parametrize("compute", all_slow_but("float16", ["bfloat16", "float16"]))
def test_a_captioner_of_mixed_precision_among_others(eight, compute):
    captioner = compiled_captioner(eight[1], dtype=f"mixed_{compute}")
    captioner.compile("adam")
    assert captioner.decoder.compute_dtype == captioner.adapter.compute_dtype == compute
    scales = isinstance(captioner.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scales == (compute == "float16"), "small gradients would be lost without"
    assert np.isfinite(captioner.train_step(first_batch(eight))["loss"])


def test_batches_of_another_vocabulary_are_rejected(eight):
    images, vocabulary, cache = eight
    captioner = compiled_captioner(vocabulary)
    batches = make_batches(images, Vocabulary(vocabulary.words), cache)
    others = make_batches(images, Vocabulary(vocabulary.words[::-1]), cache)
    cluster = Cluster(tf.distribute.MirroredStrategy(["CPU:0"]))
    reads = {
        "x": [captioner.evaluate, captioner.fit, captioner.build_for],
        "x of several devices": [
            partial(read, captioner) for read in (cluster.fit, cluster.evaluate)
        ],
        "validation_data": [
            lambda others: captioner.fit(batches, validation_data=others),
            lambda others: cluster.fit(captioner, batches, validation_data=others),
        ],
    }
    for name, functions in reads.items():
        message = f"another vocabulary.*Received: {name.split()[0]} with .*captioner.vocabulary"
        for read in functions:
            with pytest.raises(ValueError, match=message):
                read(others)
    captioner.build_for(batches)
    captioner.build_for(others.take(1))  # nothing is known of what was made from batches


def test_a_captioner_needs_an_optimizer(eight):
    with pytest.raises(ValueError, match="Received: optimizer=None"):
        compiled_captioner(eight[1]).compile(None)


def test_an_encoder_rate_without_an_encoder_is_rejected(eight):
    captioner = compiled_captioner(eight[1])
    captioner.compile(encoder_rate=0.5)
    with pytest.raises(ValueError, match="No layer of the encoder is trained"):
        captioner.fit(make_batches(*eight), epochs=1, verbose=0)


@pytest.mark.usefixtures("without_graphs")
def test_only_attention_that_draws_shows_a_baseline(eight):
    batch = first_batch(eight)
    assert "baseline" not in compiled_captioner(eight[1]).test_step(batch)
    hard = compiled_captioner(eight[1], attention="drawn")
    hard.expectation_share.assign(0.0)
    assert np.asarray(hard.objective(batch, training=True).sampled).all()
    assert float(hard.train_step(batch)["baseline"]) < 0
    assert float(compiled_captioner(eight[1], attention="none").test_step(batch)["penalty"]) == 0
