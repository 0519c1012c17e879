"""Additive scores again, with hardly any traffic to memory: the same numbers as `equations.additive_scores`.

At each step, tanh(W_a a_i + b + W_h h_{t-1}) is a tensor (photos, captions, regions, attention_dim): 25 million bytes
for 64 captions of the paper's sizes. No processor's cache holds that, so that what costs time is to read and to write
it, not to compute it. Here it is never written: XLA computes it wherever it is needed, and adds it up on the spot.

That pays since it is cheap. With a and b for the two summands, x = e^(2a) and y = e^(2b),

    tanh(a + b) = 1 - 2 r,    1 - tanh^2(a + b) = 4 (r - r^2),    r = 1 / (1 + x y),

so that a photo's x is computed once for all words, a state's y once for all regions, and what is left to do for each
pair is a product, a sum and a quotient. XLA compiles each number of photos and captions once, in a third of a second.
"""

import functools
from typing import Any, NamedTuple

from keras import ops

from keras_sat import equations
from keras_sat.accelerated.switch import fast_twins_are_on, has_xla

SMALL = 2**14  # numbers for each caption; where they are fewer, all captions of a batch fit into a cache
LARGEST = 40.0  # |a| and |b| are cut off there, so that x y is never 0 times infinity; see `additive_scores`
MOST_PARTS, FEWEST_PARTS = 32, 4  # of a sum, written one after the other


class Projected(NamedTuple):
    """What the scores need of a photo.

    Attributes:
        projection: W_a a_i + b, (photos, regions, attention_dim).
        exponential: x = e^(2 (W_a a_i + b)), float32. No gradient goes through it.
    """

    projection: Any
    exponential: Any


def prepare(projected_features):
    """Return the Projected of W_a a_i + b, (photos, regions, attention_dim), or the same tensor.

    It is the same where it is small, or where one of its sizes, such as a prime, cannot be cut into even parts.
    """
    _, regions, attention_dim = projected_features.shape
    can_be_cut = min(len(_parts(regions, shortest=1)), len(_parts(attention_dim, shortest=16))) >= FEWEST_PARTS
    if regions * attention_dim < SMALL or not (can_be_cut and fast_twins_are_on() and has_xla()):
        return projected_features
    return Projected(projected_features, ops.stop_gradient(_exponential(projected_features)))


def additive_scores(projected_features, projected_state, score_vector):
    """Return e_ti = v . tanh(W_a a_i + b + W_h h_{t-1}), (rows, regions); see `equations.additive_scores`.

    The numbers are those of the equation unless both summands are beyond 30 and cancel each other. The second cannot be
    in a network that has learnt anything: h is between -1 and 1, and matrices are small.

    Args:
        projected_features: what `prepare` returned.
        projected_state: W_h h_{t-1}, (rows, attention_dim).
        score_vector: v, (attention_dim,).
    """
    if not isinstance(projected_features, Projected):
        return equations.additive_scores(projected_features, projected_state, score_vector)
    return _functions()["additive_scores"](*projected_features, projected_state, score_vector)


def _exponential(x):
    return ops.exp(2 * ops.clip(ops.cast(x, "float32"), -LARGEST, LARGEST))


def _parts(size, shortest):
    """Return slices that cut an axis into equal parts, at most MOST_PARTS if its length can be divided so.

    XLA's own sums over an axis are slow on processors. A sum of parts that is written out is one loop over the places
    of a part, each of which adds up its numbers in a register.
    """
    least = max(shortest, -(-size // MOST_PARTS))
    length = next(length for length in range(min(least, size), size + 1) if size % length == 0)
    return [slice(start, start + length) for start in range(0, size, length)]


@functools.cache
def _functions():
    import tensorflow as tf

    compiled = functools.partial(tf.function, jit_compile=True, autograph=False)

    def as_exponentials(exponential, projected_state):
        """Return x (photos, 1, regions, dim) and y (photos, captions, 1, dim)."""
        photos, _, attention_dim = ops.shape(exponential)
        y = ops.reshape(_exponential(projected_state), (photos, -1, 1, attention_dim))
        return ops.expand_dims(exponential, 1), y

    @compiled
    def scores_of(exponential, projected_state, score_vector):
        """Return e_ti = sum_d v_d - 2 sum_d v_d r, (photos, captions, regions)."""
        x, y = as_exponentials(exponential, projected_state)
        v = ops.cast(score_vector, "float32")
        parts = _parts(v.shape[0], shortest=16)
        total = sum(v[part] / (1 + x[..., part] * y[..., part]) for part in parts)
        # No product with a vector of ones: behind such sums, XLA's wrote past the end of its memory.
        return ops.sum(v) - 2 * ops.sum(total, axis=-1)

    @compiled
    def gradient_of_features(exponential, projected_state, score_vector, of_scores):
        """Return the gradient of W_a a_i + b: 4 v_d sum_c de_ti (r - r^2), (photos, regions, dim)."""
        x, y = as_exponentials(exponential, projected_state)
        r = 1 / (1 + x * y)
        return 4 * ops.cast(score_vector, "float32") * ops.sum(of_scores[..., None] * (r - r * r), axis=1)

    @compiled
    def sums_over_regions(exponential, projected_state, of_scores):
        """Return sum_i de_ti r and sum_i de_ti r^2 but for a last sum: (2, photos, captions, length of a part, dim)."""
        x, y = as_exponentials(exponential, projected_state)
        first, second = 0.0, 0.0
        for part in _parts(x.shape[2], shortest=1):
            r = 1 / (1 + x[:, :, part] * y)
            weighed = of_scores[:, :, part, None] * r
            first, second = first + weighed, second + weighed * r
        return ops.stack([first, second])  # as one tensor, since XLA would compute all twice for two

    @tf.custom_gradient
    def additive_scores(projection, exponential, projected_state, score_vector):
        photos, regions, attention_dim = ops.shape(exponential)
        scores = scores_of(exponential, projected_state, score_vector)

        def gradient(upstream):
            of_scores = ops.cast(ops.reshape(upstream, (photos, -1, regions)), "float32")
            of_features = gradient_of_features(exponential, projected_state, score_vector, of_scores)
            first, second = ops.unstack(
                ops.sum(sums_over_regions(exponential, projected_state, of_scores), axis=3), num=2
            )
            of_state = 4 * ops.cast(score_vector, "float32") * ops.reshape(first - second, (-1, attention_dim))
            of_vector = ops.sum(of_scores) - 2 * ops.sum(first, axis=(0, 1))
            return (
                ops.cast(of_features, projection.dtype),
                None,
                ops.cast(of_state, projected_state.dtype),
                ops.cast(of_vector, score_vector.dtype),
            )

        return ops.cast(ops.reshape(scores, (-1, regions)), projected_state.dtype), gradient

    return {"additive_scores": additive_scores}
