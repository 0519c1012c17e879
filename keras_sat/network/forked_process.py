"""Reject forked processes: TensorFlow would wait forever for its threads, which a fork
does not copy.
"""

import functools
import os


@functools.cache
def _first_process():
    """Return the id of the process that first called this function.

    Forked processes inherit the cached id.
    """
    return os.getpid()


def reject_fork():
    """Raise ValueError in a process that was forked after this function was first
    called.
    """
    if _first_process() != os.getpid():
        raise ValueError(
            "This process was forked from one that has used TensorFlow, and would hang. "
            "Start processes with "
            'multiprocessing.get_context("spawn"), or create the first captioner after '
            "the fork. Captioners from "
            f"keras_sat.load_litert can be forked. Received: process {os.getpid()}, "
            f"forked from {_first_process()}"
        )
