"""How the benchmarks time: turn about turn, medians, spreads, and the machine's limit in the same turns."""

import functools
import os
import statistics
import time

import limits

NUM_ROUNDS = 5
LARGE_SPREAD = 0.15


def num_cores():
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def pin_threads():
    """Let TensorFlow and PyTorch, which must not be loaded yet, use as many threads as there are cores."""
    for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, str(num_cores()))


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
        """Return half the range of the ratios of the two in the rounds, as a share of their median."""
        ratios = [own / its for own, its in zip(self.rounds, other.rounds)]
        return (max(ratios) - min(ratios)) / 2 / statistics.median(ratios)


def in_turn(*functions, num_rounds=NUM_ROUNDS):
    """Return the Seconds of each function, turn about turn, after a first call that does not count."""
    for function in functions:
        function()
    rounds = [[seconds(function) for function in functions] for _ in range(num_rounds)]
    return [Seconds(measured) for measured in zip(*rounds)]


def in_turn_with_the_limit(*functions):
    """Return the machine's rates, as `limits.Work.seconds` takes them, and the Seconds of each function."""
    jobs = limits.product_and_tanh()

    def repeated(function):
        for _ in range(5):
            function()

    *measured, of_product, of_tanh = in_turn(*functions, *(lambda job=job: repeated(job) for job, _ in jobs))
    (_, flops), (_, evaluations) = jobs
    return {"flops": 5 * flops / of_product, "evaluations": 5 * evaluations / of_tanh}, measured


@functools.cache
def measured_rates():
    """Return the machine's own rates: operations, tanh evaluations and bytes a second."""
    jobs = {
        "flops": limits.product("float32"),
        "flops_of_64_rows": limits.product("float32", rows=64),
        "flops_bfloat16": limits.product("bfloat16"),
        "flops_bfloat16_of_64_rows": limits.product("bfloat16", rows=64),
        "evaluations": limits.product_and_tanh()[1],
        "bytes_read": limits.reading(),
    }
    took = in_turn(*(function for function, _ in jobs.values()), num_rounds=7)
    return {name: amount / its_seconds for (name, (_, amount)), its_seconds in zip(jobs.items(), took)}


def rate_names(rates):
    return f"{rates['flops'] / 1e9:.0f} GFLOP/s and {rates['evaluations'] / 1e6:.0f} M/s"


def figure(value, unit, share_of_limit=None, **details):
    """Return a figure as it is written; `ratios` are by peer, `spreads` those of the ratios."""
    return {"value": value, "unit": unit, "share_of_limit": share_of_limit, "ratios": {}, "spreads": {}, **details}


def compare(result, peer, own, theirs, their_share=1.0):
    """Put into a figure how many times as fast as a peer it is.

    Args:
        result: the figure.
        peer: a name.
        own, theirs: Seconds.
        their_share: how much of our work the peer does in these.
    """
    result["ratios"][peer] = theirs / own / their_share
    result["spreads"][peer] = theirs.spread_over(own)


def ratio_in_words(peer, result):
    """Return a ratio of a figure with its spread, marked where that is large."""
    spread = result["spreads"].get(peer, 0.0)
    return f"{result['ratios'][peer]:.2f} x {peer} (± {spread:.0%}{'!' if spread > LARGE_SPREAD else ''})"
