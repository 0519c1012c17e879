"""The least that a job can cost on this machine: its matrix arithmetic and its tanh and exp evaluations.

The machine's rates are measured: those of a large float32 product and of a large vectorised tanh. Nothing is counted
for memory, for what is neither a product nor a tanh nor an exp, for padding, or for work done twice.
"""

import functools
from dataclasses import dataclass

VGG16_FLOPS = 30.7e9  # a photo of 224 x 224, up to block5_conv3


@dataclass(frozen=True)
class Sizes:
    """Sizes of the benchmark's decoder."""

    regions: int = 196
    feature_dim: int = 512
    attention_dim: int = 512
    embedding_dim: int = 512
    hidden_dim: int = 512
    vocabulary: int = 8000


@dataclass(frozen=True)
class Work:
    """What a job needs at least."""

    flops: float
    evaluations: float

    def seconds(self, rates):
        return self.flops / rates["flops"] + self.evaluations / rates["evaluations"]


def product_and_tanh():
    """Return two functions, and what each does in one call: a large float32 product, a large vectorised tanh."""
    import tensorflow as tf

    one, other = tf.random.normal((4096, 2048)), tf.random.normal((2048, 2048))
    large = tf.random.normal((4096, 4096))
    graph = functools.partial(tf.function, autograph=False)
    product, tanh = graph(lambda: tf.matmul(one, other)), graph(lambda: tf.tanh(large))
    return (product, 2 * 4096 * 2048 * 2048), (tanh, 4096 * 4096)


def train_work(sizes, num_photos, num_words):
    """Return the Work of one training step on photos with `num_words` words to predict, all their captions together.

    A product y = x W costs as much again for the gradient of W, and again for that of x. Features get no gradient.
    """
    per_photo, context, others = _products(sizes)
    flops = num_photos * 2 * per_photo + num_words * (2 * context + 3 * others)
    return Work(flops, _evaluations(sizes, num_photos, num_words))


def caption_work(sizes, num_photos, num_steps, num_beams):
    """Return the Work of a search of `num_steps` words for each photo."""
    per_photo, context, others = _products(sizes)
    rows = num_photos * num_steps * num_beams
    return Work(num_photos * per_photo + rows * (context + others), _evaluations(sizes, num_photos, rows))


def _products(sizes):
    """Return the operations of a forward pass: for a photo; for a word's context; for all else of a word."""
    state = 2 * sizes.feature_dim * sizes.hidden_dim  # h_0, and c_0
    per_photo = 2 * sizes.regions * sizes.feature_dim * sizes.attention_dim + 2 * state
    context = 2 * sizes.regions * sizes.feature_dim
    inputs = sizes.embedding_dim + sizes.feature_dim + sizes.hidden_dim
    others = (
        2 * sizes.hidden_dim * sizes.attention_dim  # W_h h
        + 2 * sizes.regions * sizes.attention_dim  # v . tanh
        + 2 * sizes.hidden_dim  # the gate
        + 2 * inputs * 4 * sizes.hidden_dim  # the LSTM
        + 2 * (sizes.hidden_dim + sizes.feature_dim) * sizes.embedding_dim  # L_h, L_z
        + 2 * sizes.embedding_dim * sizes.vocabulary  # L_o
    )
    return per_photo, context, others


def _evaluations(sizes, num_photos, num_words):
    """Return the tanh and exp evaluations: scores, both softmaxes, gates; h_0 and c_0."""
    per_word = sizes.regions * sizes.attention_dim + sizes.regions + 1 + 5 * sizes.hidden_dim + sizes.vocabulary
    return num_words * per_word + num_photos * 2 * sizes.hidden_dim
