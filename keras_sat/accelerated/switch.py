"""Whether the fast twins are used, or the plain code that they are held against."""

import contextlib
import contextvars
import functools

import keras

_are_on = contextvars.ContextVar("fast_twins_are_on", default=True)


@contextlib.contextmanager
def without_fast_twins():
    """Inside the block the network is computed as its equations and its loop over the words are written.

    The numbers are the same to rounding. Graphs that are made inside the block stay plain, and so run where there is no
    XLA too, such as in TensorFlow Serving. In a graph, the plain loop needs to know how many words a caption has: train
    with `compile(..., run_eagerly=True)`.

    >>> with without_fast_twins():
    ...     fast_twins_are_on()
    False
    """
    token = _are_on.set(False)
    try:
        yield
    finally:
        _are_on.reset(token)


def fast_twins_are_on():
    """Return whether code that is made now may use what is fast and less plain."""
    return _are_on.get()


@functools.cache
def has_xla():
    """Return whether TensorFlow can compile with XLA here."""
    if keras.config.backend() != "tensorflow":
        return False
    import tensorflow as tf

    try:
        with tf.init_scope():
            tf.function(tf.tanh, jit_compile=True)(0.0)
    except (tf.errors.OpError, ValueError):
        return False
    return True
