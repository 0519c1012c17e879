"""keras_sat/show_attend_tell.py specifies a Captioner with default options: both
compute the same.

Compared are logits and maps, the loss (14) and its gradients, for hard attention the
gradients of (12) and the next baseline, one training step, and greedy captions. Dropout
is off, since each draws masks of its own: without `training` both leave it out; a
Captioner draws regions only with `training`, with rates of 0. All other options but the
sizes have their defaults.
"""

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import randomise
from keras import ops

from data_utils import make_batches
from keras_sat import Captioner, show_attend_tell
from keras_sat.show_attend_tell import ShowAttendTell, caption, objective, train_step

SIZES = {"embedding_dim": 12, "hidden_dim": 16, "attention_dim": 10}
NO_DROPOUT = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
both_attentions = pytest.mark.parametrize("attention", ["soft", "hard"])


def batch_of(images, vocabulary, cache, group_by):
    """Return a batch of make_batches, of the first words of captions: the one with most
    padding.
    """
    images = [
        replace(
            image, captions=[" ".join(c.split()[: 3 + n % 2]) for c in image.captions[: 1 + n % 3]]
        )
        for n, image in enumerate(images)
    ]
    batches = make_batches(images, vocabulary, cache, batch_size=6, group_by=group_by)
    (features, input_ids), *others = max(
        batches.as_numpy_iterator(), key=lambda batch: (batch[2] == 0).sum()
    )
    # Mean colours, 0 to 255: logits of hundreds would be less exact.
    return (features / 64, input_ids), *others


@pytest.fixture
def batch(scene_images, scene_vocabulary, scene_cache):
    """Photos with their captions, which are not as many for each and not as long: both
    are padded.
    """
    batch = batch_of(scene_images, scene_vocabulary, scene_cache, "image")
    *_, token_weights = batch
    assert (
        not token_weights.any(axis=-1).all() and not token_weights[token_weights.any(axis=-1)].all()
    )
    return batch


@pytest.fixture
def uniform(monkeypatch):
    """Let keras.random.uniform return the same numbers whenever it is asked for as
    many: noise and coins.
    """

    def same_numbers(shape, **_):
        size = int(np.prod(shape))
        return ops.convert_to_tensor(
            np.random.default_rng(size).random(size).reshape(shape), "float32"
        )

    monkeypatch.setattr(keras.random, "uniform", same_numbers)
    return same_numbers


def weights_of_both(model, decoder):
    """Return a list of (weight of the model, the weights of a CaptionDecoder that it
    holds, one above the other).
    """
    attention, (cell,) = decoder.attention_layer, decoder.cells
    layers = [
        (model.initial_hidden, [decoder.initial_hidden]),
        (model.initial_cell, [decoder.initial_cell]),
        (model.feature_projection, [attention.feature_projection]),
        (model.state_projection, [attention.state_projection]),
        (model.gate, [decoder.gate]),
        (
            model.lstm_gates,
            [cell.input_projection, cell.recurrent_projection, cell.context_projection],
        ),
        (model.state_readout, [decoder.readout.state_readout]),
        (model.context_readout, [decoder.readout.context_readout]),
        (model.word_logits, [decoder.readout.word_logits]),
    ]
    pairs = [(layer.kernel, [its.kernel for its in theirs]) for layer, theirs in layers]
    pairs += [(layer.bias, [theirs[0].bias]) for layer, theirs in layers if layer.use_bias]
    pairs.append((model.embedding.embeddings, [decoder.embedding.embeddings]))
    return [*pairs, (model.score.kernel, [attention.score_vector])]


def make_both(vocabulary, features, attention="soft", **options):
    """Return a Captioner and a ShowAttendTell with the same random weights, and the
    list of `weights_of_both`.
    """
    captioner = Captioner(vocabulary, encoder=None, attention=attention, **SIZES, **options)
    captioner.build(((None, *features.shape[1:]), (None, None)))
    randomise(captioner.trainable_variables, scale=0.6)
    # A Captioner's search forbids three of the special tokens, and captions of random
    # words would hardly ever end.
    bias = {"<pad>": -100.0, "<start>": -100.0, "<unk>": -100.0, "<end>": 3.0}
    captioner.decoder.readout.word_logits.bias.assign(
        [bias.get(token, 0.0) for token in vocabulary.tokens]
    )

    model = ShowAttendTell(len(vocabulary), attention, **SIZES)
    model(features[:1], np.zeros((1, 1), "int32"))
    pairs = weights_of_both(model, captioner.decoder)
    for weight, theirs in pairs:
        weight.assign(stacked(theirs, weight.shape))
    assert {weight.path for weight, _ in pairs} == {
        weight.path for weight in model.trainable_variables
    }
    assert sum(len(theirs) for _, theirs in pairs) == len(captioner.trainable_variables)
    for baseline in (model.baseline, captioner.baseline):
        baseline.assign(-7.0)
    return captioner, model, pairs


def stacked(arrays, shape):
    return np.reshape(np.concatenate([ops.convert_to_numpy(array) for array in arrays]), shape)


def noise_and_coins(batch, uniform):
    """Return the noise (rows, time, regions) and which rows are sampled (rows,), as
    `train_step` draws them.
    """
    (features, input_ids), *_ = batch
    noise = -np.log(-np.log(uniform((*input_ids.shape, features.shape[1]))))
    noise = noise.reshape(-1, *noise.shape[-2:])
    coins = np.asarray(uniform(features.shape[:1])) >= 0.5
    assert coins.any() and not coins.all()
    return noise, np.repeat(coins, len(noise) // len(features)).astype("float32")


def assert_same_gradients(tape, mine, theirs, pairs):
    gradients = tape.gradient(mine, [weight for weight, _ in pairs])
    of_theirs = tape.gradient(theirs, [their_weights for _, their_weights in pairs])
    for (weight, _), gradient, parts in zip(pairs, gradients, of_theirs):
        gradient, *parts = map(tf.convert_to_tensor, [gradient, *parts])
        assert np.abs(gradient).max() > 0, weight.path
        np.testing.assert_allclose(
            gradient, stacked(parts, weight.shape), **CLOSE, err_msg=weight.path
        )


# === The same as a Captioner with default options ===


def test_logits_maps_loss_and_gradients_of_soft_attention(batch, scene_vocabulary):
    (features, input_ids), *_ = batch
    captioner, model, pairs = make_both(scene_vocabulary, features)
    rows = input_ids.reshape(-1, input_ids.shape[-1])
    logits, alpha, s = model(np.repeat(features, len(rows) // len(features), axis=0), rows)
    decoded = captioner((features, input_ids))
    np.testing.assert_allclose(logits, decoded.logits, **CLOSE)
    np.testing.assert_allclose(alpha, decoded.attention_weights, **CLOSE)
    np.testing.assert_array_equal(s, alpha)
    with tf.GradientTape(persistent=True) as tape:
        loss, minimised, baseline = objective(model, batch)
        theirs = captioner.objective(batch, training=False).mean
    np.testing.assert_allclose(loss, theirs, rtol=1e-5)
    assert minimised is loss and float(baseline) == -7
    assert_same_gradients(tape, minimised, theirs, pairs)


def test_draws_gradients_and_baseline_of_hard_attention(batch, scene_vocabulary, uniform):
    (features, input_ids), *_ = batch
    captioner, model, pairs = make_both(scene_vocabulary, features, "hard", **NO_DROPOUT)
    noise, sampled = noise_and_coins(batch, uniform)
    rows = input_ids.reshape(-1, input_ids.shape[-1])
    logits, alpha, s = model(
        np.repeat(features, len(rows) // len(features), axis=0), rows, noise, sampled
    )
    decoded = captioner((features, input_ids), noise=noise, sampled=sampled)
    np.testing.assert_allclose(logits, decoded.logits, **CLOSE)
    np.testing.assert_allclose(alpha, decoded.attention_weights, **CLOSE)
    np.testing.assert_allclose(s, decoded.selection, **CLOSE)
    assert set(np.unique(s[sampled > 0])) == {0, 1} and np.median(s[sampled == 0]) not in (0, 1)
    with tf.GradientTape(persistent=True) as tape:
        loss, minimised, baseline = objective(model, batch, noise, sampled)
        theirs = captioner.objective(batch, training=True)
    assert float(loss) != pytest.approx(float(minimised), abs=1e-3)
    np.testing.assert_allclose(minimised, theirs.mean, rtol=1e-5)
    assert_same_gradients(tape, minimised, theirs.mean, pairs)
    theirs.after_step()
    np.testing.assert_allclose(baseline, captioner.baseline, rtol=1e-5)
    _, _, stays = objective(model, batch, noise, np.zeros_like(sampled))
    assert float(stays) == -7 != pytest.approx(float(baseline))


@both_attentions
def test_a_training_step_moves_weights_and_baseline_alike(
    batch, scene_vocabulary, uniform, attention
):
    """With plain gradient descent: Adam's first step is as long where a gradient is
    nothing but rounding.
    """
    captioner, model, pairs = make_both(scene_vocabulary, batch[0][0], attention, **NO_DROPOUT)
    model.dropout.rate = 0
    model.optimizer = keras.optimizers.SGD(0.1, global_clipnorm=5.0)
    captioner.compile("sgd", learning_rate=0.1)
    before = [weight.numpy() for weight, _ in pairs]
    metrics = captioner.train_step(batch)
    np.testing.assert_allclose(train_step(model, batch), metrics["loss"], rtol=1e-5)
    for (weight, theirs), start in zip(pairs, before):
        assert np.abs(weight - start).max() > 0
        np.testing.assert_allclose(weight, stacked(theirs, weight.shape), **CLOSE)
    np.testing.assert_allclose(model.baseline, captioner.baseline, rtol=1e-5)
    assert (float(model.baseline) == -7) == (attention == "soft")


def test_optimizer_and_dropout_are_the_default_ones(scene_vocabulary):
    model, captioner = ShowAttendTell(5), Captioner(scene_vocabulary, encoder=None)
    captioner.compile()
    mine, theirs = ({**x.optimizer.get_config(), "name": "adam"} for x in (model, captioner))
    assert mine == theirs
    options = captioner.decoder.settings
    rates = options.dropout_before_readout, options.dropout_after_readout
    assert rates == (model.dropout.rate, model.dropout.rate)


@both_attentions
def test_greedy_captions_and_their_maps(scene_vocabulary, attention):
    features = np.random.default_rng(0).normal(scale=2, size=(12, 4, 3)).astype("float32")
    captioner, model, _ = make_both(scene_vocabulary, features, attention)
    results = captioner.caption_features(features, num_beams=1, max_length=6)
    captions = caption(model, features, scene_vocabulary, max_length=6)
    assert [words for words, _ in captions] == [result.words for result in results]
    assert len({tuple(words) for words, _ in captions}) > 3
    for (words, maps), result in zip(captions, results):
        np.testing.assert_allclose(maps, result.attention_weights.reshape(len(words), 4), **CLOSE)


# === By itself ===


def test_a_batch_of_captions_of_one_length(scene_images, scene_vocabulary, scene_cache):
    batch = batch_of(scene_images, scene_vocabulary, scene_cache, "length")
    captioner, model, _ = make_both(scene_vocabulary, batch[0][0])
    np.testing.assert_allclose(
        objective(model, batch)[0], captioner.objective(batch, training=False).mean, rtol=1e-5
    )


@both_attentions
def test_padding_changes_nothing(scene_vocabulary, attention):
    random = np.random.default_rng(5)
    a, words = random.normal(size=(3, 4, 3)).astype("float32"), random.integers(4, 9, (2, 3, 5))
    noise, sampled, weights = (
        random.gumbel(size=(3, 5, 4)),
        np.float32([1, 0, 1]),
        np.ones((3, 5), "float32"),
    )
    weights[:2, 3:] = weights[2] = 0  # two words of each caption, and the third caption
    padded = (a, words[0]), words[1], weights, [noise, sampled]
    shorter = (
        (a[:2], words[0, :2, :3]),
        words[1, :2, :3],
        weights[:2, :3],
        [noise[:2, :3], sampled[:2]],
    )
    longer = (a, words[0]), words[1], np.ones_like(weights), [noise, sampled]
    _, model, _ = make_both(scene_vocabulary, a, attention)
    found = []
    for *batch, chance in (padded, shorter, longer):
        found.append(
            [float(x) for x in objective(model, batch, *(chance if attention == "hard" else []))]
        )
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert not np.allclose(found[0][:2], found[2][:2], rtol=0.1)


@pytest.mark.slow
def test_as_a_graph_it_draws_again_in_each_step():
    model = ShowAttendTell(9, "hard", **SIZES)
    model.dropout.rate, model.optimizer = 0, keras.optimizers.SGD(0.0)
    a = np.random.default_rng(0).normal(size=(8, 4, 3)).astype("float32")
    batch = (a, np.full((8, 2), 5)), np.full((8, 2), 5), np.ones((8, 2), "float32")
    train_step(model, batch)  # makes the weights
    step = tf.function(train_step)
    assert len({float(step(model, batch)) for _ in range(4)}) == 4


# === The file ===

SOURCE = Path(show_attend_tell.__file__).read_text(encoding="utf-8")


def test_it_needs_nothing_of_ours():
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert imported <= {"keras", "tensorflow", "numpy"} | sys.stdlib_module_names


def test_every_equation_that_it_computes_has_its_number():
    assert set(re.findall(r"\((\d+)\)", SOURCE)) >= {
        str(n) for n in (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14)
    }


@pytest.mark.slow
def test_the_grid_of_the_paper():
    """Its last comment is a program.

    Here with random weights instead of the download.
    """
    program = "\n".join(re.findall(r"^#   (.*)", SOURCE, re.MULTILINE)).replace(
        "VGG19(", "VGG19(weights=None, ", 1
    )
    names = {"keras": keras, "ops": ops, "photos": np.zeros((1, 224, 224, 3), "float32")}
    exec(program, names)
    assert names["a"].shape == (1, 196, 512)
