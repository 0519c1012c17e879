import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_sat.accelerated.loop import loop_over_time
from keras_sat.model.cells import LoopDense

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
    return tf.constant(random.normal(size=(TIME, ROWS, DIM)), "float32"), tf.constant(
        random.normal(size=(ROWS, DIM)), "float32"
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


def losses_and_gradients(states, loss_weights, tape, sources):
    loss = ops.sum(ops.square(states) * loss_weights)
    return loss, tape.gradient(loss, sources)


# === Basics ===


def test_counts():
    def step(total, x, nothing):
        assert nothing is None
        return total + x, (total + x,)

    (sums,) = loop_over_time(step, np.zeros((2, 1), "float32"), (tf.ones((5, 2, 1)), None), [(1, "float32")])
    np.testing.assert_array_equal(sums[..., 0], np.transpose([[1, 2, 3, 4, 5]] * 2))


def test_a_dense_layer_outside_of_a_loop_is_like_any_other(dense_layers):
    layer, _ = dense_layers
    x, _ = inputs()
    np.testing.assert_allclose(layer(x), x @ layer.kernel.numpy() + layer.bias.numpy(), atol=1e-6)
    with tf.GradientTape() as tape:
        loss = ops.sum(layer(x))
    assert tape.gradient(loss, layer.kernel.value).shape == (DIM, DIM)
    assert LoopDense.from_config(layer.get_config()).units == DIM


# === Correctness: the late products are the gradients ===


@pytest.mark.parametrize("num_summed", [0, 1, 2])
@pytest.mark.parametrize("compiled", [False, True, "xla"])
def test_values_and_gradients_are_those_of_the_steps_one_by_one(dense_layers, compiled, num_summed):
    x, state = inputs()
    step = make_step(dense_layers)
    weights = [weight.value for layer in dense_layers for weight in layer.weights]
    loss_weights = tf.constant(np.random.default_rng(4).normal(size=(TIME, ROWS, DIM)), "float32")

    def run(loop):
        with tf.GradientTape() as tape:
            tape.watch([x, state])
            if loop:
                states, firsts = loop_over_time(
                    step,
                    state,
                    (x, None),
                    [(DIM, "float32"), (2, "float32")],
                    dense_layers=dense_layers,
                    summed_layers=dense_layers[:num_summed],
                )
                tf.debugging.assert_equal(firsts, states[..., :2])
            else:
                states = by_hand(step, state, x)
            return losses_and_gradients(states, loss_weights, tape, [*weights, x, state])

    expected_loss, expected = run(loop=False)
    run_loop = (
        (lambda: run(loop=True))
        if not compiled
        else tf.function(lambda: run(loop=True), jit_compile=compiled == "xla", autograph=False)
    )
    loss, gradients = run_loop()
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    assert len(gradients) == 5
    for gradient, right in zip(gradients, expected):
        assert np.abs(right).max() > 0.1
        np.testing.assert_allclose(gradient, right, atol=1e-5)
    assert all(layer.late_product is None for layer in dense_layers)


def test_the_gradient_of_a_matrix_is_one_product_after_the_loop(dense_layers):
    x, state = inputs()

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            states, _ = loop_over_time(
                make_step(dense_layers), state, (x, None), [(DIM, "float32"), (2, "float32")], dense_layers=dense_layers
            )
            loss = ops.sum(states)
        return tape.gradient(loss, [layer.kernel.value for layer in dense_layers])

    library = gradients.get_concrete_function().graph.as_graph_def().library.function
    backward = [function for function in library if "while_body" in function.signature.name]
    backward = [function for function in backward if "grad" in function.signature.name]
    assert backward
    # There are two products in each step back, for the gradients of what both layers were given, and no others.
    assert [sum(node.op == "MatMul" for node in function.node_def) for function in backward] == [2]


# === With padding ===


@pytest.mark.parametrize("order", ["longest first", "any"])
def test_captions_that_have_ended_leave_the_loop(dense_layers, order):
    x, state = inputs()
    lengths = np.array([4, 2, 1, 3, 3, 1] if order == "longest first" else [1, 4, 2, 3, 0, 2])
    token_weights = (np.arange(TIME) < lengths[:, None]).astype("float32")
    rows_seen = []
    inner = make_step(dense_layers)

    def step(state, x, nothing):
        rows_seen.append(int(ops.shape(state)[0]))
        return inner(state, x, nothing)

    def run(loop):
        with tf.GradientTape() as tape:
            tape.watch([x, state])
            if loop:
                states, _ = loop_over_time(
                    step,
                    state,
                    (x, None),
                    [(DIM, "float32"), (2, "float32")],
                    dense_layers=dense_layers,
                    summed_layers=dense_layers[1:],
                    token_weights=tf.constant(token_weights),
                    photos=PHOTOS,
                )
            else:
                states = by_hand(inner, state, x)
            real = states * token_weights.T[..., None]
            weights = [layer.kernel.value for layer in dense_layers]
            return states, real, *losses_and_gradients(real, 1.0, tape, [*weights, x, state])

    states, real, loss, gradients = run(loop=True)
    _, expected_real, expected_loss, expected = run(loop=False)
    np.testing.assert_allclose(real, expected_real, atol=1e-6)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    for gradient, right in zip(gradients, expected):
        np.testing.assert_allclose(gradient, right, atol=1e-5)
    # The number of captions of each photo that are needed, by time.
    left = [3, 2, 2, 1] if order == "longest first" else [3, 3, 2, 2]
    assert rows_seen == [PHOTOS * captions for captions in left]
    if order == "longest first":
        last = np.reshape(states[-1], (PHOTOS, CAPTIONS, DIM))
        assert np.abs(last[:, 0]).min() > 0 and not last[:, 1:].any()


# === Errors ===


def test_a_step_that_fails_leaves_the_dense_layers_as_they_were(dense_layers):
    def step(state, x):
        dense_layers[0](state)
        raise ValueError("not this one")

    x, state = inputs()
    with pytest.raises(ValueError, match="not this one"):
        loop_over_time(step, state, (x,), [(DIM, "float32")], dense_layers=dense_layers)
    assert dense_layers[0](state).shape == (ROWS, DIM)
