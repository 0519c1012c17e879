"""Switch between the fast versions and the plain code that they are tested against."""

import contextlib
import contextvars
import functools

import tensorflow as tf

_are_on = contextvars.ContextVar("fast_twins_are_on", default=True)


@contextlib.contextmanager
def without_fast_twins():
    """Use the plain equations and the plain loop over words inside a `with` block.

    Values are equal up to rounding. Graphs traced inside the block stay plain and run
    without XLA, for example in TensorFlow Serving. In a graph, the plain loop needs
    captions of known length: train with `compile(..., run_eagerly=True)`.
    """
    token = _are_on.set(False)
    try:
        yield
    finally:
        _are_on.reset(token)


def fast_twins_are_on():
    """Return whether code that is traced now may use the fast versions."""
    return _are_on.get()


def may_compile():
    """Return whether code that is traced now may be compiled with XLA."""
    return fast_twins_are_on() and has_xla()


@functools.cache
def has_xla():
    """Return whether TensorFlow can compile with XLA here."""
    try:
        with tf.init_scope():
            tf.function(tf.tanh, jit_compile=True)(0.0)
    except (tf.errors.OpError, ValueError):
        return False
    return True
