import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_sat.accelerated import optimizer_step as steps
from keras_sat.accelerated.optimizer_step import apply_gradients
from keras_sat.accelerated.switch import has_xla, without_fast_twins

SHAPES = (300, 20), (7,)


@pytest.fixture
def compiled(monkeypatch):
    """Let all weights count as large.

    Return a list that gets an entry for each step that XLA compiles.
    """
    has_xla()  # which compiles something itself, once
    monkeypatch.setattr(steps, "SMALL", 1)
    made, function = [], tf.function

    def counted(*arguments, **options):
        made.extend([options] * options.get("jit_compile", False))
        return function(*arguments, **options)

    monkeypatch.setattr(tf, "function", counted)
    return made


def after_steps(optimizer, take_step):
    """Return weights and the optimizer's variables after three steps in a graph."""
    random = np.random.default_rng(0)
    weights = [keras.Variable(random.normal(size=shape).astype("float32")) for shape in SHAPES]
    gradients = [
        [tf.constant(random.normal(size=shape), tf.float32) for shape in SHAPES] for _ in range(3)
    ]
    optimizer.build(weights)
    step = tf.function(lambda gradients: take_step(optimizer, gradients, weights))
    for some in gradients:
        step(some)
    return [np.asarray(variable) for variable in (*weights, *optimizer.variables)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.01, global_clipnorm=5.0),
        lambda: keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(0.01, 10), weight_decay=0.1
        ),
        lambda: keras.optimizers.RMSprop(0.01),
        lambda: keras.optimizers.SGD(0.01, momentum=0.9, use_ema=True),
    ],
)
def test_the_step_is_that_of_the_optimizer(compiled, make):
    fast = after_steps(make(), apply_gradients)
    assert len(compiled) == 1
    for own, right in zip(
        fast, after_steps(make(), lambda optimizer, *given: optimizer.apply(*given)), strict=True
    ):
        np.testing.assert_allclose(own, right, rtol=1e-5, atol=1e-7)


def test_what_is_small_eager_scaled_or_a_user_s_is_left_to_the_optimizer(compiled, monkeypatch):
    after_steps(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), apply_gradients)
    with without_fast_twins():
        after_steps(keras.optimizers.Adam(), apply_gradients)
    after_steps(type("Own", (keras.optimizers.SGD,), {})(0.01), apply_gradients)
    weight = keras.Variable(np.ones(3, "float32"))
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([weight])
    apply_gradients(optimizer, [tf.ones(3)], [weight])
    monkeypatch.setattr(steps, "SMALL", 10**9)
    after_steps(keras.optimizers.Adam(), apply_gradients)
    assert compiled == [] and not np.asarray(weight).any()


def test_a_strategy_sums_over_its_replicas_itself(compiled):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        weight = keras.Variable(np.ones((4, 2), "float32"))
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([weight])

    @tf.function
    def step():
        strategy.run(lambda: apply_gradients(optimizer, [tf.ones((4, 2))], [weight]))

    step()
    assert compiled == [] and not np.asarray(weight).any()
