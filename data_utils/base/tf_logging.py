"""Hide TensorFlow's startup log, and shorten its errors to one line."""

import contextlib
import importlib
import os
import re
import sys
import threading

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
QUIET = "3"  # only fatal errors
_STANDARD_ERROR = threading.RLock()  # without it, one thread could restore the other's redirection


def import_tensorflow():
    """Import TensorFlow without its startup log, and return the module."""
    with without_startup_log():
        return importlib.import_module("tensorflow")


@contextlib.contextmanager
def without_startup_log():
    """Hide the startup log of a TensorFlow import inside the block, unless
    TF_CPP_MIN_LOG_LEVEL is 0, 1 or 2.

    Its C++ code logs messages about the processor and GPU drivers, some of them before
    it reads that variable.
    """
    log_level = os.environ.setdefault(LOG_LEVEL, QUIET)
    if log_level != QUIET or "tensorflow" in sys.modules:
        yield
        return
    with nothing_on_standard_error():
        yield


@contextlib.contextmanager
def nothing_on_standard_error():
    """Discard standard error inside the block, including output from C++."""
    with _STANDARD_ERROR, contextlib.ExitStack() as restored:
        # a program may have no standard error
        with contextlib.suppress(AttributeError, ValueError, OSError):
            sys.stderr.flush()
            usual_standard_error = os.dup(2)
            restored.callback(os.close, usual_standard_error)
            restored.callback(os.dup2, usual_standard_error, 2)
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)
        yield


def reason_of(error):
    """Return the line that describes the cause from a multi-line TensorFlow error
    message.
    """
    around = ("Graph execution error:", "Detected at ", "  File ")
    lines = [
        line for line in str(error).split("\n") if line.strip() and not line.startswith(around)
    ]
    return re.sub(r"\{\{.*?\}\} *| *\[Op:.*", "", lines[0] if lines else str(error))
