"""Additive scores again, with less traffic to memory: the same numbers as `equations.additive_scores`.

At each step, tanh(W_a a_i + W_h h_{t-1}) is a tensor (photos, captions, regions, attention_dim): 25 million bytes for
64 captions of the paper's sizes. No processor's cache holds that, so that what costs time is to read and to write it,
not to compute it. TensorFlow does so once for each +, tanh and product. Here XLA makes one pass of some of them, in two
small functions, and the gradient is written out.
"""

import functools

import keras
from keras import ops

from keras_sat import equations
from keras_sat.model.fast.switch import fast_twins_are_on

SMALL = 2**14  # numbers for each caption; where they are fewer, all captions of a batch fit into a cache


def additive_scores(projected_features, projected_state, score_vector):
    """Return e_ti = v . tanh(W_a a_i + b + W_h h_{t-1}), (rows, regions); see `equations.additive_scores`."""
    _, regions, attention_dim = projected_features.shape
    if regions * attention_dim < SMALL or not fast_twins_are_on() or not _has_xla():
        return equations.additive_scores(projected_features, projected_state, score_vector)
    return _functions()["additive_scores"](projected_features, projected_state, score_vector)


@functools.cache
def _has_xla():
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


@functools.cache
def _functions():
    import tensorflow as tf

    compiled = functools.partial(tf.function, jit_compile=True, autograph=False)

    @compiled
    def tanh_of_sum(a, b):
        return tf.tanh(a + b)

    @compiled
    def gradient_of_sum(hidden, score_gradient, score_vector):
        """Return the gradient of what tanh was taken of: de_ti v (1 - tanh^2)."""
        return score_gradient * score_vector * (1 - hidden * hidden)

    @tf.custom_gradient
    def additive_scores(projected_features, projected_state, score_vector):
        photos, regions, attention_dim = ops.shape(projected_features)
        by_photo = ops.reshape(projected_state, (photos, -1, 1, attention_dim))
        hidden = tanh_of_sum(ops.expand_dims(projected_features, 1), by_photo)  # (photos, captions, regions, dim)
        vectors = ops.reshape(hidden, (-1, attention_dim))
        scores = ops.matmul(vectors, ops.expand_dims(score_vector, -1))

        def gradient(upstream):
            of_scores = ops.reshape(upstream, (photos, -1, regions, 1))
            of_sum = gradient_of_sum(hidden, of_scores, score_vector)
            of_features = ops.sum(of_sum, axis=1)
            of_state = ops.reshape(ops.sum(of_sum, axis=2), (-1, attention_dim))
            of_vector = tf.matmul(vectors, ops.reshape(upstream, (-1, 1)), transpose_a=True)
            return of_features, of_state, ops.squeeze(of_vector, -1)

        return ops.reshape(scores, (-1, regions)), gradient

    return {"additive_scores": additive_scores}
