"""The least that a job can cost on this machine: its matrix arithmetic and its tanh and exp evaluations.

The rates of the machine are measured: a large float32 product, a large vectorised tanh. Work is counted as the
equations have it, a tanh for each region, dimension and word, though cheaper ways to the same numbers may be found.
Work knows nothing of memory, of what is neither a product nor a tanh nor an exp, of padding, or of work done twice; the
bytes that memory must move at least are counted apart.
"""

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
    """Return two functions, each with what it does in one call: a large float32 product, a large vectorised tanh."""
    import tensorflow as tf

    large = tf.random.normal((4096, 4096))
    tanh = tf.function(lambda: tf.tanh(large), autograph=False)
    return product("float32"), (tanh, 4096 * 4096)


def product(dtype, rows=4096):
    """Return a function that computes a product of that many rows, and its operations."""
    import tensorflow as tf

    one, other = (tf.cast(tf.random.normal(shape), dtype) for shape in ((rows, 2048), (2048, 2048)))
    return tf.function(lambda: tf.matmul(one, other), autograph=False), 2 * rows * 2048 * 2048


def reading(num_bytes=2**28):
    """Return a function that reads as many bytes once, and that number."""
    import tensorflow as tf

    large = tf.random.normal((num_bytes // 4,))
    return tf.function(lambda: tf.reduce_max(large), autograph=False), num_bytes


def bytes_of_a_word(sizes):
    """Return how many bytes of float32 matrices a search reads for each word of one photo."""
    inputs = sizes.embedding_dim + sizes.feature_dim + sizes.hidden_dim
    numbers = (
        sizes.hidden_dim * sizes.attention_dim
        + inputs * 4 * sizes.hidden_dim
        + (sizes.hidden_dim + sizes.feature_dim) * sizes.embedding_dim
        + sizes.embedding_dim * sizes.vocabulary
    )
    return 4 * numbers


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


def search_traffic(sizes, num_photos, num_steps, num_beams, width):
    """Return the bytes that a search reads at least if no cache keeps anything from one word to the next.

    Args:
        width: bytes of a number.
    """
    of_photos = num_photos * sizes.regions * (sizes.feature_dim + sizes.attention_dim)
    logits = 2 * num_photos * num_beams * sizes.vocabulary  # written and read
    return num_steps * (width * (of_photos + logits) + width * bytes_of_a_word(sizes) // 4)


def train_traffic(sizes, num_photos, num_words, num_steps, width):
    """Return the bytes that a training step moves at least if no cache keeps anything from one word to the next."""
    of_photos = num_steps * num_photos * sizes.regions * (sizes.feature_dim + sizes.attention_dim)
    in_loop = sizes.hidden_dim * sizes.attention_dim + (sizes.feature_dim + sizes.hidden_dim) * 4 * sizes.hidden_dim
    logits = 2 * num_words * sizes.vocabulary  # written and read
    matrices = bytes_of_a_word(sizes) // 4
    weights = matrices + sizes.embedding_dim * sizes.vocabulary  # E too
    of_matrices = num_steps * in_loop + (matrices - in_loop)
    return 2 * width * (of_photos + of_matrices + logits) + 7 * 4 * weights  # there and back; Adam reads 4, writes 3


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
