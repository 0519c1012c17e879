"""keras_sat/show_attend_tell_numpy.py computes what show_attend_tell.py computes, and
its gradients are those that TensorFlow finds.

Both run in float64. Compared are logits, maps, losses, the next baseline, every
gradient, updates and captions; central differences confirm the gradients without
TensorFlow.
"""

import ast
import inspect
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, python_blocks, randomise

from keras_sat import show_attend_tell, train_in_numpy
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
    """Return masks as `train_step` draws them."""
    random = np.random.default_rng(4)
    sizes = SIZES["hidden_dim"], SIZES["embedding_dim"]
    return [in_numpy.dropout_mask(random, (ROWS, WORDS, size), 0.5) for size in sizes]


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

    *found, kept = in_numpy.objective(w, batch, baseline=BASELINE, **chance(attention), **kinds)
    d_w, d_e = in_numpy.objective_backward(w, kept)
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-6)
    assert d_w.keys() == theirs.keys() == w.keys() and d_e.shape == (ROWS, WORDS, REGIONS)
    for name, gradient in d_w.items():
        assert np.abs(gradient).max() > 1e-3, name
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-5, atol=1e-9, err_msg=name)


def test_updates_are_those_of_adam_with_clipped_gradients(model, batch, monkeypatch):
    w = numpy_weights(model)
    train_state = in_numpy.make_train_state(w)
    monkeypatch.setattr(model.dropout, "rate", 0)
    for _ in range(3):
        loss = show_attend_tell.train_step(model, batch)
        mine = in_numpy.train_step(w, train_state, batch, np.random.default_rng(0), dropout=0)
        np.testing.assert_allclose(mine, loss, rtol=1e-6)
    for name, weight in numpy_weights(model).items():
        np.testing.assert_allclose(w[name], weight, rtol=1e-6, atol=1e-8, err_msg=name)
    assert train_state["updates"] == 3 and train_state["baseline"] == 0


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
    rate = step_options["learning_rate"].default
    assert float(model.optimizer.learning_rate) == pytest.approx(rate)


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
        loss, *_ = in_numpy.objective(w, batch, baseline=BASELINE, noise=noise, sampled=sampled)
        _, alpha, s = log_p_and_attention()
        drawn_log_p = (s * np.log(alpha) * weights[:, :, None]).sum(axis=(1, 2))
        entropy = -(alpha * np.log(alpha) * weights[:, :, None]).sum(axis=(1, 2))
        added = in_numpy.REWARD_WEIGHT * reward * drawn_log_p + in_numpy.ENTROPY_WEIGHT * entropy
        return loss - added.sum() / (weights[:, 0] > 0).sum()

    *_, kept = in_numpy.objective(w, batch, baseline=BASELINE, noise=noise, sampled=sampled)
    d_w, _ = in_numpy.objective_backward(w, kept)
    for name, weight in w.items():
        numerical = numerical_gradient(minimised, weight)
        np.testing.assert_allclose(d_w[name], numerical, rtol=1e-5, atol=1e-7, err_msg=name)


@both_attentions
def test_padding_changes_no_gradient(model, batch, attention):
    (a, input_ids), target_ids, token_weights = batch
    w, options = numpy_weights(model), {"baseline": BASELINE, **chance(attention)}
    *_, kept = in_numpy.objective(w, batch, **options)
    expected, d_e = in_numpy.objective_backward(w, kept)
    assert np.abs(d_e[token_weights.reshape(ROWS, WORDS) == 0]).max() == 0
    is_padding = token_weights == 0
    other_words = (a, np.where(is_padding, 1, input_ids)), np.where(is_padding, 2, target_ids)
    *_, kept = in_numpy.objective(w, (*other_words, token_weights), **options)
    for name, gradient in in_numpy.objective_backward(w, kept)[0].items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("dropout", [0.2, 0.5])
def test_a_mask_of_dropout_is_1_on_average(dropout):
    mask = in_numpy.dropout_mask(np.random.default_rng(0), (100, 100), dropout)
    np.testing.assert_allclose(np.unique(mask), [0, 1 / (1 - dropout)])
    assert mask.mean() == pytest.approx(1, abs=0.05)


def test_a_step_of_hard_attention_draws_and_moves_the_baseline(batch):
    (a, input_ids), target_ids, token_weights = batch
    batch = (a.astype("float32"), input_ids), target_ids, token_weights.astype("float32")
    losses = set()
    for seed in range(4):
        w = in_numpy.make_weights(VOCABULARY, DIM, **SIZES)
        train_state = in_numpy.make_train_state(w)
        random = np.random.default_rng(seed)
        loss = in_numpy.train_step(w, train_state, batch, random, attention="hard", dropout=0)
        losses.add(float(loss))
        assert {weight.dtype for weight in w.values()} == {np.dtype("float32")}
    assert len(losses) == 4 and train_state["baseline"] < 0


# === The file ===


both_ways = pytest.mark.parametrize(
    "name", ["initial_state", "project", "attend", "step", "objective"]
)


def statements(function):
    """Return the assignments of a function, in their order, as its backward pass quotes
    them: with the names of the weights alone, without comments, and with "..." for the
    arguments of `attend`.
    """
    lines = [line.partition("  # ")[0].strip() for line in inspect.getsource(function).splitlines()]
    assignments = [re.sub(r'w\["(\w+)"\]', r"\1", line) for line in lines if " = " in line]
    return [re.sub(r"= attend\(.*\)", "= attend(...)", line) for line in assignments]


@both_ways
def test_a_backward_pass_takes_the_lines_of_its_forward_pass_from_the_last_to_the_first(name):
    """Its comments are lines of the forward pass as they are."""
    backward = inspect.getsource(getattr(in_numpy, f"{name}_backward"))
    comments = re.findall(r"^ +# (\w.* = .*)$", backward, re.MULTILINE)
    forward = statements(getattr(in_numpy, name))
    assert comments
    numbers = []
    for comment in comments:
        quoted = [n for n, line in enumerate(forward) if comment.startswith(line)]
        assert quoted, comment
        numbers.append(quoted[-1])
    assert numbers == sorted(numbers, reverse=True)


def assigned_names(function):
    """Return the names that a function assigns, and those of its arguments."""
    nodes = ast.walk(ast.parse(inspect.getsource(function)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return assigned | set(inspect.signature(function).parameters)


@both_ways
def test_each_d_x_is_the_gradient_of_an_x_with_a_name(name):
    """d_x_from_y is part of d_x, and x_rows are the numbers of x in another shape.
    `step_backward` passes on the d_e of `attend`.
    """
    forward = assigned_names(getattr(in_numpy, name)) | assigned_names(in_numpy.attend)
    backward = assigned_names(getattr(in_numpy, f"{name}_backward"))
    gradients = {found.removeprefix("d_") for found in backward if found.startswith("d_")}
    for gradient in gradients:
        x = re.sub("_from_.*|_rows$", "", gradient)
        assert x in forward, gradient


def test_each_equation_has_its_number():
    numbers = {str(number) for number in (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14)}
    assert set(re.findall(r"\((\d+)\)", inspect.getsource(in_numpy))) >= numbers


# === Training on scenes ===


def test_maps_and_scenes_in_characters():
    weights = np.zeros(64)
    weights[[0, 63]] = 0.5, 1.0
    lines = train_in_numpy.map_in_characters(weights)
    assert len(lines) == 8 and {len(line) for line in lines} == {16}
    half, full = train_in_numpy.SHADES[4], train_in_numpy.SHADES[-1]
    assert lines[0] == 2 * half + 14 * " " and lines[-1] == 14 * " " + 2 * full

    (scene,) = train_in_numpy.scenes_of_two_objects(10, 1502)[:1]
    cells = np.array([list(line[::2]) for line in train_in_numpy.scene_in_characters(scene)])
    for number, item in enumerate(scene.objects, start=1):
        left, top, right, bottom = np.array(item.box) / 8  # in cells of 8 x 8 pixels
        rows, columns = np.nonzero(cells == str(number))
        assert top - 0.5 <= rows.min() and rows.max() < bottom - 0.5
        assert left - 0.5 <= columns.min() and columns.max() < right - 0.5


def test_a_shown_caption_has_the_maps_of_its_colours_and_shapes(monkeypatch, capsys):
    (scene,) = train_in_numpy.scenes_of_two_objects(10, 1502)[:1]
    words = scene.captions[0].split()
    monkeypatch.setenv("COLUMNS", "80")
    train_in_numpy.show_caption(scene, words, np.eye(64)[: len(words)])
    shown = capsys.readouterr().out
    assert f"{scene.captions[0]}  (true; 1: " in shown
    titles = [word for item in scene.objects for word in (item.colour, item.shape)]
    for title in ["scene", *titles]:
        assert re.search(rf"^ .*\b{title}\b", shown, re.MULTILINE), title
    assert max(map(len, shown.splitlines()[2:])) <= 80


def test_a_batch_of_scenes_has_two_captions_each_and_joined_cells(captioner):
    scenes, vocabulary = train_in_numpy.scenes_of_two_objects(20, 5)[:6], captioner.vocabulary
    (a, input_ids), target_ids, token_weights = train_in_numpy.make_batch(captioner, scenes)
    cells = captioner.encode(np.stack([scene.image for scene in scenes])).reshape(6, 16, 16, 66)
    assert a.shape == (6, 64, 264)
    np.testing.assert_array_equal(a[:, 0], cells[:, :2, :2].reshape(6, 264))
    np.testing.assert_array_equal(a[:, 10], cells[:, 2:4, 4:6].reshape(6, 264))
    assert input_ids.shape == target_ids.shape == token_weights.shape
    assert input_ids.shape[:2] == (6, 2)
    text = scenes[3].captions[1]
    assert vocabulary.ids_to_words(target_ids[3, 1]) == text.split()
    assert token_weights[3, 1].sum() == len(text.split()) + 1


def test_a_caption_of_which_no_truth_can_be_told_is_not_called_false(capsys):
    (scene,) = train_in_numpy.scenes_of_two_objects(10, 1502)[:1]
    train_in_numpy.show_caption(scene, ["of", "of"], np.eye(64)[:2])
    shown = capsys.readouterr().out
    assert "cannot be told" in shown and "true;" not in shown
    assert train_in_numpy.share_of_true_captions([scene], [(["of", "of"], None)]) == 0


@pytest.mark.parametrize("num_updates", [1, 2, 30, 500])
def test_every_update_has_a_learning_rate(num_updates):
    updates = range(1, num_updates + 1)
    rates = [train_in_numpy.learning_rate_of(update, num_updates, 0.1) for update in updates]
    warmup = min(train_in_numpy.WARMUP, num_updates // 2)
    assert min(rates) > 0 and max(rates) <= 0.1
    assert np.argmax(rates) == max(warmup - 1, 0)
    np.testing.assert_allclose(rates[:warmup], 0.1 * np.arange(1, warmup + 1) / max(warmup, 1))


@pytest.mark.parametrize("options", [["--scenes", "3"], ["--epochs", "x"], ["--soft"], ["more"]])
def test_bad_options_end_in_one_line(options, capsys):
    with pytest.raises(SystemExit) as end:
        train_in_numpy.main(options)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and options[-1] in err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [(KeyboardInterrupt(), 130, "stopped"), (ValueError("no such file"), 2, "no such file")],
)
def test_ctrl_c_and_errors_end_in_one_line(error, status, said, monkeypatch, capsys):
    def load_litert(*_, **__):
        raise error

    monkeypatch.setattr(train_in_numpy, "load_litert", load_litert)
    assert train_in_numpy.main([]) == status
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and said in err


def test_help_says_how_many_passes_hard_attention_adds(capsys):
    with pytest.raises(SystemExit):
        train_in_numpy.main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"--hard adds {train_in_numpy.HARD_EPOCHS} passes" in shown


def test_the_file_itself_is_the_program():
    """One thread is for numpy, whose number must be set before it is imported."""
    program = (
        "import os, runpy, sys; sys.argv = ['', '--scenes', '3']\n"
        "try: runpy.run_module('keras_sat.show_attend_tell_numpy', run_name='__main__')\n"
        "except SystemExit as end: print(end.code, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {name: x for name, x in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "2 1\n" and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_it_trains_without_tensorflow():
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    program = (
        "import sys; from keras_sat import train_in_numpy; "
        "status = train_in_numpy.main(['--hard', '--scenes', '2000', '--epochs', '4']); "
        "print(status, {'tensorflow', 'keras'} & {*sys.modules})"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    *_, last = done.stdout.splitlines()
    assert last == "0 set()" and not done.stderr
    losses = [float(loss) for loss in re.findall(r"loss +([\d.]+)", done.stdout)]
    assert losses[0] > 40 and min(losses) < 20
    assert "no dropout" in done.stdout and "no penalty" in done.stdout
    assert len(re.findall(r"% of the captions of 215 unseen scenes are true", done.stdout)) == 2


# === docs/backward.md ===


@pytest.mark.parametrize("block", python_blocks(ROOT / "docs" / "backward.md"))
def test_blocks_of_the_page_run_as_they_stand(block, capsys):
    """They compare what the page derives with central differences."""
    assert "assert_allclose" in block
    exec(compile(block, "docs/backward.md", "exec"), {})
    assert capsys.readouterr().out
