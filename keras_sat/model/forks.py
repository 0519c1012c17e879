"""A process that was forked from one in which TensorFlow ran: it is told so, instead of waiting forever.

A fork has none of the threads of its parent, and TensorFlow waits for its own.
"""

import functools
import os


@functools.cache
def _first_process():
    """Return the process that asked first; its forks inherit the answer."""
    return os.getpid()


def refuse_fork():
    """Raise ValueError in a fork of the process that called this first, which is the first one to run TensorFlow."""
    if _first_process() != os.getpid():
        raise ValueError(
            "This process was forked from one that has used TensorFlow, which would hang here. Start processes with "
            'multiprocessing.get_context("spawn"), or make the first captioner in each of them instead of before the '
            "fork; a captioner of keras_sat.load_litert, without TensorFlow, can be forked while no thread captions. "
            f"Received: process {os.getpid()}, forked from {_first_process()}"
        )
