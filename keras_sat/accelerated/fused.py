"""A fast version of `equations.additive_scores` that needs little memory traffic.

At each step, tanh(W_a a_i + b + W_h h_{t-1}) is a tensor (photos, captions, regions,
attention_dim): 25 MB for 64 captions at the paper's sizes. It does not fit into a
processor's cache, and reading and writing it takes longer than computing it. Here it is
never stored: XLA computes each value where it is needed and adds it to its sum
immediately.

The computation is cheap. With a and b for the two summands, x = e^(2a) and y = e^(2b),

    tanh(a + b) = 1 - 2 r,    1 - tanh^2(a + b) = 4 (r - r^2),    r = 1 / (1 + x y).

x is computed once per photo and y once per state. Each pair then needs a product, a sum
and a quotient. XLA compiles the code once for each number of photos and captions, in a
third of a second.
"""

import functools
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from keras_sat import equations
from keras_sat.accelerated.switch import may_compile

SMALL = 2**14  # values for each caption; below this, all captions of a batch fit into the cache
# |a| and |b| are clipped to this, lest x y be 0 times infinity: see `additive_scores`
LARGEST = 40.0
MOST_PARTS, FEWEST_PARTS = 32, 4  # of an unrolled sum


class Projected(NamedTuple):
    """The projection W_a a_i + b, (photos, regions, attention_dim), and its
    exponential, not differentiated.
    """

    projection: Any
    exponential: Any


def prepare(projected_features):
    """Wrap W_a a_i + b in a `Projected` if it is large and its axes have equal parts.

    Otherwise return it unchanged.
    """
    _, regions, attention_dim = projected_features.shape
    can_be_cut = (
        min(len(_parts(regions, shortest=1)), len(_parts(attention_dim, shortest=16)))
        >= FEWEST_PARTS
    )
    if regions * attention_dim < SMALL or not (can_be_cut and may_compile()):
        return projected_features
    return Projected(projected_features, ops.stop_gradient(_exponential(projected_features)))


def additive_scores(projected_features, projected_state, score_vector):
    """Return e_ti = v . tanh(W_a a_i + b + W_h h_{t-1}) of shape (rows, regions); see
    `equations.additive_scores`.

    `projected_features` is the output of `prepare`. Values equal those of the equation
    unless both summands exceed 30 and cancel. In a trained network the second summand
    is far smaller: h is between -1 and 1, and weights are small.
    """
    if not isinstance(projected_features, Projected):
        return equations.additive_scores(projected_features, projected_state, score_vector)
    return _fused_scores(*projected_features, projected_state, score_vector)


def _exponential(x):
    """Return e^(2x), with |x| clipped to LARGEST."""
    return ops.exp(2 * ops.clip(ops.cast(x, "float32"), -LARGEST, LARGEST))


def _parts(size, shortest):
    """Return slices that cut an axis into equal parts, if possible at most MOST_PARTS
    of them.

    XLA's own reductions are slow on processors. An unrolled sum of parts becomes one
    loop over the positions of a part, each of which accumulates in a register.
    """
    least = max(shortest, -(-size // MOST_PARTS))
    length = next(length for length in range(min(least, size), size + 1) if size % length == 0)
    return [slice(start, start + length) for start in range(0, size, length)]


_compiled = functools.partial(tf.function, jit_compile=True, autograph=False)


@tf.custom_gradient
def _fused_scores(projection, exponential, projected_state, score_vector):
    photos, regions, attention_dim = ops.shape(exponential)
    scores = _scores(exponential, projected_state, score_vector)

    def gradient(upstream):
        of_scores = ops.cast(ops.reshape(upstream, (photos, -1, regions)), "float32")
        of_features = _gradient_of_features(exponential, projected_state, score_vector, of_scores)
        first, second = ops.unstack(
            ops.sum(_sums_over_regions(exponential, projected_state, of_scores), axis=3), num=2
        )
        of_state = (
            4 * ops.cast(score_vector, "float32") * ops.reshape(first - second, (-1, attention_dim))
        )
        of_vector = ops.sum(of_scores) - 2 * ops.sum(first, axis=(0, 1))
        return (
            ops.cast(of_features, projection.dtype),
            None,  # the exponential is computed from the projection
            ops.cast(of_state, projected_state.dtype),
            ops.cast(of_vector, score_vector.dtype),
        )

    return ops.cast(ops.reshape(scores, (-1, regions)), projected_state.dtype), gradient


@_compiled
def _scores(exponential, projected_state, score_vector):
    """Return e_ti = sum_d v_d - 2 sum_d v_d r of shape (photos, captions, regions)."""
    x, y = _x_and_y(exponential, projected_state)
    v = ops.cast(score_vector, "float32")
    total = sum(
        v[part] / (1 + x[..., part] * y[..., part]) for part in _parts(v.shape[0], shortest=16)
    )
    # Not a product with a vector of ones: after such sums, XLA wrote past the end of
    # its buffer.
    return ops.sum(v) - 2 * ops.sum(total, axis=-1)


@_compiled
def _gradient_of_features(exponential, projected_state, score_vector, of_scores):
    """Return the gradient of W_a a_i + b: 4 v_d sum_c de_ti (r - r^2), of shape
    (photos, regions, dim).
    """
    x, y = _x_and_y(exponential, projected_state)
    r = 1 / (1 + x * y)
    return (
        4 * ops.cast(score_vector, "float32") * ops.sum(of_scores[..., None] * (r - r * r), axis=1)
    )


@_compiled
def _sums_over_regions(exponential, projected_state, of_scores):
    """Return sum_i de_ti r and sum_i de_ti r^2 as partial sums of shape (2, photos,
    captions, part, dim).
    """
    x, y = _x_and_y(exponential, projected_state)
    first, second = 0.0, 0.0
    for part in _parts(x.shape[2], shortest=1):
        r = 1 / (1 + x[:, :, part] * y)
        weighed = of_scores[:, :, part, None] * r
        first, second = first + weighed, second + weighed * r
    return ops.stack([first, second])  # one tensor: for two, XLA would compute everything twice


def _x_and_y(exponential, projected_state):
    """Return x of shape (photos, 1, regions, dim) and y of shape (photos, captions, 1,
    dim).
    """
    photos, _, attention_dim = ops.shape(exponential)
    return ops.expand_dims(exponential, 1), ops.reshape(
        _exponential(projected_state), (photos, -1, 1, attention_dim)
    )
