"""How the benchmarks time: in turn, medians, spreads, and the machine's own rates in
the same rounds.

A rate is that of the fastest of several kernels (`KERNELS`): large ones, and ones of
the shapes that the benchmarks have. Hence a job whose work is done at these rates takes
the least time that it can take, up to the noise of the measurement.
"""

import functools
import os
import statistics
import time

NUM_ROUNDS = 3
LARGE_SPREAD = 0.15


def num_cores():
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def set_up():
    """Give TensorFlow and PyTorch, which must not be loaded yet, all cores.

    On a GPU they share its memory.
    """
    for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, str(num_cores()))
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)  # nor does PyTorch


def seconds(function):
    """Return how long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Seconds(float):
    """The median of what something took, in seconds.

    Attributes:
        rounds: what it took in each round.
    """

    def __new__(cls, rounds):
        median = super().__new__(cls, statistics.median(rounds))
        median.rounds = list(rounds)
        return median

    def spread_over(self, other):
        """Return half the range of the ratios of the two in the rounds, as a fraction
        of their median.
        """
        ratios = [own / its for own, its in zip(self.rounds, other.rounds)]
        return (max(ratios) - min(ratios)) / 2 / statistics.median(ratios)


def in_turn(*functions, num_rounds=NUM_ROUNDS, warm_up=True):
    """Return the Seconds of each function, measured in turn, after a first call that
    does not count, if `warm_up`.
    """
    if warm_up:
        for function in functions:
            function()
    rounds = [[seconds(function) for function in functions] for _ in range(num_rounds)]
    return [Seconds(measured) for measured in zip(*rounds)]


def in_turn_with_rates(names, *functions):
    """Return the machine's rates by name (see `KERNELS`), and the Seconds of each
    function, measured in the same rounds.
    """
    kernels = [(name, *kernel()) for name in names for kernel in KERNELS[name]]
    took = in_turn(*functions, *(run for _, run, _ in kernels))
    return _highest_rates(kernels, took[len(functions) :]), took[: len(functions)]


@functools.cache
def measured_rates():
    """Return all of the machine's rates, each in its unit a second."""
    rates, _ = in_turn_with_rates(KERNELS)
    return rates


def _highest_rates(kernels, took):
    """Return by name the highest rate of its kernels, (name, function, amount)."""
    rates = {}
    for (name, _, amount), its_seconds in zip(kernels, took):
        rates[name] = max(rates.get(name, 0.0), amount / its_seconds)
    return rates


# === Kernels: each returns a function, and how much a call of it does ===


def _times(number, job, amount):
    """Repeat a job that returns a tensor of one number; wait for each, as on a GPU."""

    def repeated():
        for _ in range(number):
            job().numpy()

    return repeated, number * amount


def product(rows, inputs, outputs, number, dtype="float32"):
    """Products of matrices, (rows, inputs) and (inputs, outputs)."""
    import tensorflow as tf

    one, other = (
        tf.cast(tf.random.normal(shape), dtype) for shape in ((rows, inputs), (inputs, outputs))
    )
    return _times(number, lambda: tf.matmul(one, other)[0, 0], 2 * rows * inputs * outputs)


def convolution(side, channels):
    """A layer of VGG16 for 16 photos."""
    import tensorflow as tf

    images = tf.random.normal((16, side, side, channels))
    filters = tf.random.normal((3, 3, channels, channels))
    run = tf.function(lambda: tf.nn.conv2d(images, filters, 1, "SAME")[0, 0, 0, 0])
    return _times(1, run, 2 * 16 * side**2 * 9 * channels**2)


def large_tanh():
    import tensorflow as tf

    large = tf.random.normal((4096, 4096))
    return _times(5, lambda: tf.tanh(large)[0, 0], 4096**2)


def fused_scores(photos=64, captions=5, regions=196, dim=512):
    """Additive scores, which need a tanh for each region and dimension, without any."""
    import tensorflow as tf

    from keras_sat.network import fused_scores as fused

    features = fused.prepare(tf.random.normal((photos, regions, dim)))
    state, vector = tf.random.normal((photos * captions, dim)), tf.random.normal((dim,))
    return _times(
        5,
        lambda: fused.additive_scores(features, state, vector)[0, 0],
        photos * captions * regions * dim,
    )


def one_row():
    """A product of one row with a matrix of 32 MB, as when one photo is captioned."""
    import tensorflow as tf

    row, matrix = tf.random.normal((1, 2048)), tf.random.normal((2048, 4096))
    return _times(5, lambda: tf.matmul(row, matrix)[0, 0], 4 * 2048 * 4096)


def reading(num_bytes):
    import tensorflow as tf

    large = tf.random.normal((num_bytes // 4,))
    return _times(5, lambda: tf.reduce_max(large), num_bytes)


KERNELS = {
    "flops": [
        functools.partial(product, 4096, 2048, 2048, number=1),
        functools.partial(product, 768, 512, 8000, number=3),  # the logits of a batch
        functools.partial(product, 320, 512, 2048, number=30),  # the LSTM of a word,
        functools.partial(product, 64, 512, 2048, number=100),  # with and without beams
    ],
    "flops_bfloat16": [functools.partial(product, 4096, 2048, 2048, number=2, dtype="bfloat16")],
    "flops_of_convolutions": [
        functools.partial(convolution, side, channels)
        for side, channels in ((56, 256), (28, 512), (14, 512))
    ],
    "evaluations": [large_tanh, fused_scores],
    "bytes_read": [
        functools.partial(reading, 2**28),
        functools.partial(reading, 2**25),  # as much as the matrices of a word
        one_row,
    ],
}


def figure(value, unit, share_of_limit=None, **details):
    """Return a figure as it is written; `ratios` are by peer, `spreads` those of the
    ratios.
    """
    return {
        "value": value,
        "unit": unit,
        "share_of_limit": share_of_limit,
        "ratios": {},
        "spreads": {},
        **details,
    }


def compare(result, peer, own, theirs, their_share=1.0):
    """Put into a figure how many times as fast as a peer it is.

    Args:
        result: the figure.
        peer: a name.
        own, theirs: Seconds.
        their_share: the fraction of our work that the peer does in these.
    """
    result["ratios"][peer] = theirs / own / their_share
    result["spreads"][peer] = theirs.spread_over(own)


def ratio_in_words(peer, result):
    """Return a ratio of a figure with its spread, marked where that is large."""
    spread = result["spreads"].get(peer, 0.0)
    return (
        f"{result['ratios'][peer]:.2f} x {peer} (± "
        f"{spread:.0%}{'!' if spread > LARGE_SPREAD else ''})"
    )
