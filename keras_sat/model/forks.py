"""An error instead of a deadlock in a process that was forked from one in which TensorFlow ran.

A fork has none of its parent's threads, and TensorFlow waits for them forever.
"""

import functools
import os


@functools.cache
def _first_process():
    """Return the id of the process that called this first; forks inherit the answer."""
    return os.getpid()


def reject_fork():
    """Raise ValueError in a fork of the process that called this first, the first one to run TensorFlow."""
    if _first_process() != os.getpid():
        raise ValueError(
            "This process was forked from one that has used TensorFlow, and would hang. Start processes with "
            'multiprocessing.get_context("spawn"), or create the first captioner after the fork. Captioners of '
            "keras_sat.load_litert, which need no TensorFlow, can be forked. "
            f"Received: process {os.getpid()}, forked from {_first_process()}"
        )
