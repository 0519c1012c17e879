"""The least that a job costs: its matrix arithmetic, and its tanh and exp evaluations.

Work is counted as the equations have it, a tanh for each region, dimension and word. It
knows nothing of operations that are neither a product nor a tanh nor an exp, of
padding, or of work done twice, and of memory only what `weights_of_a_word` says. All of
it is done at the rates that timing.py measures: those of the fastest kernels, also of
one that gets the same scores without a tanh. So no job can take less.
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


def train_work(sizes, num_photos, num_words):
    """Return the Work of one training step on photos with `num_words` words to predict
    in all their captions.

    A product y = x W costs as much again for the gradient of W, and again for that of
    x. Features get no gradient.
    """
    per_photo, context, others = _products(sizes)
    flops = num_photos * 2 * per_photo + num_words * (2 * context + 3 * others)
    return Work(flops, _evaluations(sizes, num_photos, num_words))


def caption_work(sizes, num_photos, num_steps, num_beams):
    """Return the Work of a search of `num_steps` words for each photo."""
    per_photo, context, others = _products(sizes)
    rows = num_photos * num_steps * num_beams
    return Work(
        num_photos * per_photo + rows * (context + others), _evaluations(sizes, num_photos, rows)
    )


def weights_of_a_word(sizes):
    """Return how many matrix weights a search reads for each word of a photo."""
    return (
        sizes.hidden_dim * sizes.attention_dim  # W_h
        + (sizes.embedding_dim + sizes.feature_dim + sizes.hidden_dim)
        * 4
        * sizes.hidden_dim  # the LSTM
        + (sizes.hidden_dim + sizes.feature_dim) * sizes.embedding_dim  # L_h, L_z
        + sizes.embedding_dim * sizes.vocabulary  # L_o
    )


def _products(sizes):
    """Return the operations of a forward pass: for a photo; for a word's context; for
    all else of a word.
    """
    state = 2 * sizes.feature_dim * sizes.hidden_dim  # h_0, and c_0
    per_photo = 2 * sizes.regions * sizes.feature_dim * sizes.attention_dim + 2 * state
    context = 2 * sizes.regions * sizes.feature_dim
    scores_and_gate = sizes.regions * sizes.attention_dim + sizes.hidden_dim
    return per_photo, context, 2 * (weights_of_a_word(sizes) + scores_and_gate)


def _evaluations(sizes, num_photos, num_words):
    """Return the tanh and exp evaluations: scores, both softmaxes, gates.

    H_0 and c_0.
    """
    per_word = (
        sizes.regions * sizes.attention_dim
        + sizes.regions
        + 1
        + 5 * sizes.hidden_dim
        + sizes.vocabulary
    )
    return num_words * per_word + num_photos * 2 * sizes.hidden_dim
