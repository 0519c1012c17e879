"""keras_sat/show_attend_tell_numpy.py computes what show_attend_tell.py computes, and
its gradients are those that TensorFlow finds.

Both run in float64. Compared are logits, maps, losses, the next baseline, every
gradient, updates and captions; central differences confirm the gradients without
TensorFlow.
"""

import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import randomise

from keras_sat import show_attend_tell
from keras_sat import show_attend_tell_numpy as in_numpy
from keras_sat.show_attend_tell import ShowAttendTell

SIZES = {"embedding_dim": 3, "hidden_dim": 5, "attention_dim": 4}
PHOTOS, CAPTIONS, WORDS, REGIONS, DIM, VOCABULARY = 3, 2, 5, 4, 6, 9
ROWS = PHOTOS * CAPTIONS
BASELINE = -7.0
both_attentions = pytest.mark.parametrize("attention", ["soft", "hard"])


def variables_by_name(model):
    """Return a dict from the names of show_attend_tell_numpy.py to the variables of a
    ShowAttendTell.
    """
    variables = {"embedding": model.embedding.embeddings}
    layers = {name: layer for name, layer in vars(model).items() if hasattr(layer, "kernel")}
    for name, layer in layers.items():
        variables[name] = layer.kernel
        if layer.use_bias:
            variables[f"{name}_bias"] = layer.bias
    return variables


def arrays_of(variables):
    """Return the numbers of such variables, or of their gradients; v is a vector."""
    arrays = {name: np.array(tf.convert_to_tensor(value)) for name, value in variables.items()}
    return {**arrays, "score": arrays["score"][:, 0]}


def numpy_weights(model):
    return arrays_of(variables_by_name(model))


@pytest.fixture(scope="module")
def network():
    """A ShowAttendTell in float64, of which `model` makes the weights."""
    keras.config.set_dtype_policy("float64")
    network = ShowAttendTell(VOCABULARY, **SIZES)
    network(np.ones((1, REGIONS, DIM)), np.ones((1, 1), "int32"))
    keras.config.set_dtype_policy("float32")
    return network


@pytest.fixture
def batch():
    """Three photos with two captions each, but one has only one; of several lengths."""
    random = np.random.default_rng(2)
    a = random.normal(size=(PHOTOS, REGIONS, DIM))
    input_ids, target_ids = random.integers(0, VOCABULARY, (2, PHOTOS, CAPTIONS, WORDS))
    lengths = np.array([[5, 2], [4, 0], [3, 5]])
    token_weights = (np.arange(WORDS) < lengths[:, :, None]).astype("float64")
    return (a, input_ids), target_ids, token_weights


@pytest.fixture
def model(network):
    """The network with random weights, biases too."""
    randomise(network.trainable_variables, scale=0.9)
    network.baseline.assign(BASELINE)
    return network


def chance(attention):
    """Return noise and which rows are sampled, as keyword arguments; none for soft."""
    if attention == "soft":
        return {}
    noise = np.random.default_rng(3).gumbel(size=(ROWS, WORDS, REGIONS))
    return {"noise": noise, "sampled": np.repeat([1.0, 0.0, 1.0], CAPTIONS)}


def dropout_masks():
    """Return masks as `train_step` draws them: 0 for what is dropped, or 2."""
    random = np.random.default_rng(4)
    sizes = SIZES["hidden_dim"], SIZES["embedding_dim"]
    return [2.0 * random.integers(0, 2, (ROWS, WORDS, size)) for size in sizes]


def dropout_with(masks):
    """Return what stands in for the dropout of a ShowAttendTell: these masks, in the
    order in which it asks for them.
    """
    in_order = iter([mask[:, t] for t in range(WORDS) for mask in masks])
    return lambda x, training: x * next(in_order)


def numerical_gradient(function, array, change=1e-6):
    """Return the derivative of a function without arguments by each number of an
    array, by central differences.
    """
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        value = array[place]
        array[place] = value + change
        above = function()
        array[place] = value - change
        below = function()
        array[place] = value
        gradient[place] = (above - below) / (2 * change)
    return gradient


# === The same as show_attend_tell.py ===


@both_attentions
def test_logits_maps_and_draws(model, batch, attention):
    (a, input_ids), *_ = batch
    rows, a = input_ids.reshape(ROWS, WORDS), np.repeat(a, CAPTIONS, axis=0)
    expected = model(a, rows, **chance(attention))
    *found, _ = in_numpy.call(numpy_weights(model), a, rows, **chance(attention))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)
    if attention == "hard":
        _, alpha, s = found
        sampled = chance(attention)["sampled"] > 0
        assert set(np.unique(s[sampled])) == {0, 1}
        np.testing.assert_array_equal(s[~sampled], alpha[~sampled])


@both_attentions
@pytest.mark.parametrize("drops", [False, True])
def test_every_gradient_is_that_of_tensorflow(model, batch, attention, drops, monkeypatch):
    w, kinds = numpy_weights(model), {}
    if drops:
        kinds["masks"] = dropout_masks()
        monkeypatch.setattr(model, "dropout", dropout_with(kinds["masks"]))
    with tf.GradientTape() as tape:
        expected = show_attend_tell.objective(model, batch, **chance(attention), training=drops)
    theirs = arrays_of(tape.gradient(expected[1], variables_by_name(model)))

    *found, kept = in_numpy.objective(w, batch, b=BASELINE, **chance(attention), **kinds)
    d_w, d_e = in_numpy.objective_backward(w, kept)
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-6)
    assert d_w.keys() == theirs.keys() == w.keys() and d_e.shape == (ROWS, WORDS, REGIONS)
    for name, gradient in d_w.items():
        assert np.abs(gradient).max() > 1e-3, name
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-5, atol=1e-9, err_msg=name)


def test_updates_are_those_of_adam_with_clipped_gradients(model, batch, monkeypatch):
    w = numpy_weights(model)
    training = in_numpy.start_training(w)
    monkeypatch.setattr(model.dropout, "rate", 0)
    for _ in range(3):
        loss = show_attend_tell.train_step(model, batch)
        mine = in_numpy.train_step(w, training, batch, np.random.default_rng(0), dropout=0)
        np.testing.assert_allclose(mine, loss, rtol=1e-6)
    for name, weight in numpy_weights(model).items():
        np.testing.assert_allclose(w[name], weight, rtol=1e-6, atol=1e-8, err_msg=name)
    assert training["updates"] == 3 and training["baseline"] == 0


def test_greedy_captions_and_their_maps(scene_vocabulary):
    model = ShowAttendTell(len(scene_vocabulary), **SIZES)
    a = np.random.default_rng(0).normal(scale=2, size=(12, REGIONS, DIM)).astype("float32")
    model(a, np.zeros((12, 1), "int32"))
    randomise(model.trainable_variables, scale=0.9)
    expected = show_attend_tell.caption(model, a, scene_vocabulary, max_length=6)
    found = in_numpy.caption(numpy_weights(model), a, scene_vocabulary, max_length=6)
    for (words, maps), (their_words, their_maps) in zip(found, expected, strict=True):
        assert words == their_words
        np.testing.assert_allclose(maps, their_maps, atol=1e-5)


def test_names_sizes_and_settings_are_those_of_show_attend_tell(model):
    w = in_numpy.make_weights(VOCABULARY, DIM, **SIZES)
    theirs = numpy_weights(model)
    assert {name: x.shape for name, x in w.items()} == {name: x.shape for name, x in theirs.items()}
    assert {x.dtype for x in w.values()} == {np.dtype("float32")}
    for name in ("PENALTY_WEIGHT", "REWARD_WEIGHT", "ENTROPY_WEIGHT"):
        assert getattr(in_numpy, name) == getattr(show_attend_tell, name)
    assert model.dropout.rate == in_numpy.DROPOUT
    assert model.optimizer.global_clipnorm == in_numpy.MAX_NORM
    step_options = inspect.signature(in_numpy.train_step).parameters
    assert float(model.optimizer.learning_rate) == step_options["learning_rate"].default


def test_weights_start_as_keras_starts_them():
    model = ShowAttendTell(200, embedding_dim=60, hidden_dim=50, attention_dim=40)
    model(np.ones((1, 4, 30)), np.zeros((1, 1), "int32"))
    w = in_numpy.make_weights(200, 30, embedding_dim=60, hidden_dim=50, attention_dim=40)
    for name, weight in numpy_weights(model).items():
        largest = np.abs(weight).max()
        assert np.abs(w[name]).max() == pytest.approx(largest, rel=0.2), name


# === By central differences ===


def test_central_differences_confirm_every_gradient_of_soft_attention(model, batch):
    w = numpy_weights(model)
    *_, kept = in_numpy.objective(w, batch)
    d_w, _ = in_numpy.objective_backward(w, kept)
    for name, weight in w.items():
        numerical = numerical_gradient(lambda: in_numpy.objective(w, batch)[1], weight)
        np.testing.assert_allclose(d_w[name], numerical, rtol=1e-5, atol=1e-7, err_msg=name)


def test_central_differences_confirm_every_gradient_of_hard_attention(model, batch):
    """Of the surrogate, in which the reward is a given number: the one with the weights
    as they are.
    """
    (a, input_ids), target_ids, token_weights = batch
    a, rows = np.repeat(a, CAPTIONS, axis=0), input_ids.reshape(ROWS, WORDS)
    targets, weights = target_ids.reshape(ROWS, WORDS), token_weights.reshape(ROWS, WORDS)
    noise, sampled = chance("hard").values()
    w = numpy_weights(model)

    def log_p_and_attention():
        logits, alpha, s, _ = in_numpy.call(w, a, rows, noise, sampled)
        p = np.take_along_axis(in_numpy.softmax(logits), targets[:, :, None], axis=2)[:, :, 0]
        return (np.log(p) * weights).sum(axis=1), alpha, s

    reward = sampled * (log_p_and_attention()[0] - BASELINE)

    def minimised():
        loss, *_ = in_numpy.objective(w, batch, b=BASELINE, noise=noise, sampled=sampled)
        _, alpha, s = log_p_and_attention()
        drawn_log_p = (s * np.log(alpha) * weights[:, :, None]).sum(axis=(1, 2))
        entropy = -(alpha * np.log(alpha) * weights[:, :, None]).sum(axis=(1, 2))
        added = in_numpy.REWARD_WEIGHT * reward * drawn_log_p + in_numpy.ENTROPY_WEIGHT * entropy
        return loss - added.sum() / (weights[:, 0] > 0).sum()

    *_, kept = in_numpy.objective(w, batch, b=BASELINE, noise=noise, sampled=sampled)
    d_w, _ = in_numpy.objective_backward(w, kept)
    for name, weight in w.items():
        numerical = numerical_gradient(minimised, weight)
        np.testing.assert_allclose(d_w[name], numerical, rtol=1e-5, atol=1e-7, err_msg=name)


@both_attentions
def test_padding_changes_no_gradient(model, batch, attention):
    (a, input_ids), target_ids, token_weights = batch
    w, options = numpy_weights(model), {"b": BASELINE, **chance(attention)}
    *_, kept = in_numpy.objective(w, batch, **options)
    expected, d_e = in_numpy.objective_backward(w, kept)
    assert np.abs(d_e[token_weights.reshape(ROWS, WORDS) == 0]).max() == 0
    is_padding = token_weights == 0
    other_words = (a, np.where(is_padding, 1, input_ids)), np.where(is_padding, 2, target_ids)
    *_, kept = in_numpy.objective(w, (*other_words, token_weights), **options)
    for name, gradient in in_numpy.objective_backward(w, kept)[0].items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-12, err_msg=name)


def test_a_step_of_hard_attention_draws_and_moves_the_baseline(batch):
    (a, input_ids), target_ids, token_weights = batch
    batch = (a.astype("float32"), input_ids), target_ids, token_weights.astype("float32")
    losses = set()
    for seed in range(4):
        w = in_numpy.make_weights(VOCABULARY, DIM, **SIZES)
        training = in_numpy.start_training(w)
        random = np.random.default_rng(seed)
        loss = in_numpy.train_step(w, training, batch, random, attention="hard", dropout=0)
        losses.add(float(loss))
        assert {weight.dtype for weight in w.values()} == {np.dtype("float32")}
    assert len(losses) == 4 and training["baseline"] < 0


# === The file ===


def statements(function):
    """Return the assignments of a function as its backward pass quotes them: with the
    names of the weights alone, and without comments.
    """
    lines = [line.partition("  # ")[0].strip() for line in inspect.getsource(function).splitlines()]
    return {re.sub(r'w\["(\w+)"\]', r"\1", line) for line in lines if " = " in line}


@pytest.mark.parametrize("name", ["start", "attend", "step", "objective"])
def test_each_gradient_names_a_line_of_the_forward_pass(name):
    """The comments of the backward pass are lines of the forward pass as they are."""
    backward = inspect.getsource(getattr(in_numpy, f"{name}_backward"))
    comments = re.findall(r"^ +# (\w.* = .*)$", backward, re.MULTILINE)
    forward = statements(getattr(in_numpy, name))
    assert comments
    for comment in comments:
        assert any(comment.startswith(line) for line in forward), comment
