"""The loop over the words of a caption: one step after the other.

`plain_loop` is the whole idea. `loop_over_time` is what the decoder calls: on TensorFlow it takes the fast twin in
`keras_sat.model.fast.loop`, whose values and gradients are the same to rounding; on other backends, and inside
`plain_loops()`, the plain one.
"""

import contextlib
import contextvars

import keras
from keras import ops

from keras_sat.model.fast.loop import fast_loop

_is_plain = contextvars.ContextVar("is_plain", default=False)


def plain_loop(step, state, inputs):
    """Return what `step` gives out at each time, stacked: list of tensors (time, rows, dim).

    Args:
        step: function of (state, *inputs at one time) that returns the next state and a tuple of outputs (rows, dim).
        state: the state before the first step, a nest of tensors (rows, dim).
        inputs: tuple of tensors (time, rows, dim), or None, which is handed on as it is.
    """
    outputs = []
    for t in range(inputs[0].shape[0]):
        state, values = step(state, *(None if x is None else x[t] for x in inputs))
        outputs.append(values)
    return [ops.stack(values) for values in zip(*outputs)]


def loop_over_time(step, state, inputs, output_specs, **how_fast):
    """Return what `plain_loop` does.

    Args:
        step, state, inputs: see `plain_loop`.
        output_specs, **how_fast: see `keras_sat.model.fast.loop.fast_loop`.
    """
    if _is_plain.get() or keras.config.backend() != "tensorflow":
        return plain_loop(step, state, inputs)
    return fast_loop(step, state, inputs, output_specs, **how_fast)


@contextlib.contextmanager
def plain_loops():
    """Inside the block the plain loop runs: eagerly, or in graphs for captions of one length."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)
