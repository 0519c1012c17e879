import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import all_slow_but
from keras import ops

from keras_sat.network.cells import LoopDense, late_products
from keras_sat.network.loop_over_time import loop_over_time

TIME, PHOTOS, CAPTIONS, DIM = 4, 2, 3, 5
ROWS = PHOTOS * CAPTIONS


@pytest.fixture
def dense_layers():
    layers = LoopDense(DIM, name="one"), LoopDense(DIM, use_bias=False, name="other")
    for seed, layer in enumerate(layers):
        layer.build((None, DIM))
        for weight in layer.weights:
            weight.assign(np.random.default_rng(seed).normal(scale=0.5, size=weight.shape))
    return layers


def inputs():
    random = np.random.default_rng(3)
    return (
        tf.constant(random.normal(size=shape), "float32")
        for shape in ((TIME, ROWS, DIM), (ROWS, DIM))
    )


def make_step(dense_layers):
    one, other = dense_layers

    def step(state, x, nothing):
        state = ops.tanh(one(state) + other(ops.sin(state)) + x)
        return state, (state, state[:, :2])

    return step


def by_hand(step, state, x):
    states = []
    for t in range(TIME):
        state, _ = step(state, x[t], None)
        states.append(state)
    return ops.stack(states)


def looped(step, state, x, dense_layers, **options):
    """Return the states of `by_hand`, from the loop."""
    specs = [(DIM, "float32"), (2, "float32")]
    states, firsts = loop_over_time(
        step, state, (x, None), specs, dense_layers=dense_layers, **options
    )
    tf.debugging.assert_equal(firsts, states[..., :2])
    return states


def with_gradients(run, loss_weights, dense_layers):
    """Return the states that `run` gives from x and state, a loss of them, and its
    gradients.
    """
    x, state = inputs()
    weights = [weight.value for layer in dense_layers for weight in layer.weights]
    with tf.GradientTape() as tape:
        tape.watch([x, state])
        states = run(state, x)
        loss = ops.sum(ops.square(states) * loss_weights)
    return states, loss, tape.gradient(loss, [*weights, x, state])


@pytest.mark.parametrize(
    "compiled, num_summed",
    all_slow_but(("xla", 1), itertools.product([False, True, "xla"], [0, 1, 2])),
)
def test_values_and_gradients_are_those_of_the_steps_one_by_one(dense_layers, compiled, num_summed):
    step = make_step(dense_layers)
    loss_weights = tf.constant(np.random.default_rng(4).normal(size=(TIME, ROWS, DIM)), "float32")

    def run():
        summed = {"summed_layers": dense_layers[:num_summed]}
        return with_gradients(
            lambda *given: looped(step, *given, dense_layers, **summed), loss_weights, dense_layers
        )

    _, expected_loss, expected = with_gradients(
        lambda *given: by_hand(step, *given), loss_weights, dense_layers
    )
    run = tf.function(run, jit_compile=compiled == "xla", autograph=False) if compiled else run
    _, loss, gradients = run()
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    for gradient, right in zip(gradients, expected, strict=True):
        assert np.abs(right).max() > 0.1
        np.testing.assert_allclose(gradient, right, atol=1e-5)
    assert late_products.get() is None


def test_the_gradient_of_a_matrix_is_one_product_after_the_loop(dense_layers):
    x, state = inputs()

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            loss = ops.sum(looped(make_step(dense_layers), state, x, dense_layers))
        return tape.gradient(loss, [layer.kernel.value for layer in dense_layers])

    library = gradients.get_concrete_function().graph.as_graph_def().library.function
    backward = [function for function in library if "while_body" in function.signature.name]
    backward = [function for function in backward if "grad" in function.signature.name]
    assert backward
    # In each step back there are two products, for the gradients of the inputs of both
    # layers, and no others.
    assert [sum(node.op == "MatMul" for node in function.node_def) for function in backward] == [2]


@pytest.mark.parametrize(
    "lengths, left",
    [([4, 2, 1, 3, 3, 1], [3, 2, 2, 1]), ([1, 4, 2, 3, 0, 2], [3, 3, 2, 2])],
    ids=["sorted", "any"],
)
def test_captions_that_have_ended_leave_the_loop(dense_layers, lengths, left):
    token_weights = (np.arange(TIME) < np.array(lengths)[:, None]).astype("float32")
    rows_seen, inner = [], make_step(dense_layers)

    def step(state, x, nothing):
        rows_seen.append(int(ops.shape(state)[0]))
        return inner(state, x, nothing)

    def run(state, x):
        padding = {"token_weights": tf.constant(token_weights), "photos": PHOTOS}
        return looped(step, state, x, dense_layers, summed_layers=dense_layers[1:], **padding)

    is_word = token_weights.T[..., None]
    states, loss, gradients = with_gradients(run, is_word, dense_layers)
    right, expected_loss, expected = with_gradients(
        lambda *given: by_hand(inner, *given), is_word, dense_layers
    )
    np.testing.assert_allclose(states * is_word, right * is_word, atol=1e-6)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    for gradient, its in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, its, atol=1e-5)
    assert rows_seen == [PHOTOS * captions for captions in left], (
        "the captions of each photo that are needed, by time"
    )
    last = np.reshape(states[-1], (PHOTOS, CAPTIONS, DIM))
    assert np.abs(last[:, : left[-1]]).min() > 0 and not last[:, left[-1] :].any()


def test_a_loop_changes_nothing_for_other_threads(dense_layers):
    """They may use the same layers, for a caption say, while a graph is traced."""
    x, first_state = inputs()
    expected = dense_layers[0](first_state)
    elsewhere = []

    def step(state, x):
        thread = threading.Thread(target=lambda: elsewhere.append(dense_layers[0](first_state)))
        thread.start()
        thread.join()
        return dense_layers[0](state), (x,)

    loop_over_time(step, first_state, (x,), [(DIM, "float32")], dense_layers=dense_layers[:1])
    assert len(elsewhere) == TIME
    for outputs in elsewhere:
        np.testing.assert_array_equal(outputs, expected)


def test_a_step_that_fails_leaves_the_dense_layers_as_they_were(dense_layers):
    def step(state, x):
        dense_layers[0](state)
        raise ValueError("not this one")

    x, state = inputs()
    with pytest.raises(ValueError, match="not this one"):
        loop_over_time(step, state, (x,), [(DIM, "float32")], dense_layers=dense_layers)
    assert dense_layers[0](state).shape == (ROWS, DIM)
