"""How the benchmarks time: in turn, medians, spreads, and the machine's own rates in
the same rounds.
"""

import functools
import os
import statistics
import time

NUM_ROUNDS = 5
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


def in_turn(*functions, num_rounds=NUM_ROUNDS):
    """Return the Seconds of each function, measured in turn, after a first call that
    does not count.
    """
    for function in functions:
        function()
    rounds = [[seconds(function) for function in functions] for _ in range(num_rounds)]
    return [Seconds(measured) for measured in zip(*rounds)]


def in_turn_with_the_limit(*functions):
    """Return the machine's rates, as `limits.Work.seconds` takes them, and the Seconds
    of each function.
    """
    jobs = _jobs("flops", "evaluations")
    *measured, of_product, of_tanh = in_turn(*functions, *(job for job, _ in jobs.values()))
    return dict(_rates(jobs, (of_product, of_tanh))), measured


@functools.cache
def measured_rates():
    """Return the machine's own rates: operations, tanh and bytes a second."""
    jobs = _jobs("flops", "flops_bfloat16", "evaluations", "bytes_read")
    return _rates(jobs, in_turn(*(job for job, _ in jobs.values())))


def _rates(jobs, took):
    return {
        name: amount / its_seconds for (name, (_, amount)), its_seconds in zip(jobs.items(), took)
    }


def _jobs(*names):
    """Return by name a function and how much it does: large products, a large
    vectorised tanh, reading from memory.
    """
    import tensorflow as tf

    def product(dtype):
        one, other = (
            tf.cast(tf.random.normal(shape), dtype) for shape in ((4096, 2048), (2048, 2048))
        )
        return lambda: tf.matmul(one, other)[0, 0], 2 * 4096 * 2048 * 2048

    def tanh():
        large = tf.random.normal((4096, 4096))
        return lambda: tf.tanh(large)[0, 0], 4096 * 4096

    def reading():
        large = tf.random.normal((2**26,))
        return lambda: tf.reduce_max(large), 4 * 2**26

    makers = {
        "flops": lambda: product("float32"),
        "flops_bfloat16": lambda: product("bfloat16"),
        "evaluations": tanh,
        "bytes_read": reading,
    }

    def five_times(job):
        for _ in range(5):
            job().numpy()  # waits for a GPU

    jobs = {name: makers[name]() for name in names}
    return {
        name: (functools.partial(five_times, job), 5 * amount)
        for name, (job, amount) in jobs.items()
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
