"""An error instead of a deadlock: a forked process has no threads of its parent's TensorFlow, which waits for them."""

import functools
import os


@functools.cache
def _first_process():
    """Return the id of the process that called this first; forks inherit the answer."""
    return os.getpid()


def reject_fork():
    """Raise ValueError in a fork of the first process that called this, which runs TensorFlow."""
    if _first_process() != os.getpid():
        raise ValueError(
            "This process was forked from one that has used TensorFlow, and would hang. Start processes with "
            'multiprocessing.get_context("spawn"), or create the first captioner after the fork. Captioners of '
            f"keras_sat.load_litert can be forked. Received: process {os.getpid()}, forked from {_first_process()}"
        )
