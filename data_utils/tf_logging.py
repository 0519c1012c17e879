"""TensorFlow without the messages that are not about the user's work: its startup log, and most lines of its errors."""

import contextlib
import os
import re
import sys
import threading

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
QUIET = "3"  # only what ends the process
_STANDARD_ERROR = threading.RLock()  # each of two threads would restore what the other has redirected


def import_tensorflow():
    """Return the module tensorflow, imported without its startup log."""
    with without_greetings():
        import tensorflow

        return tensorflow


@contextlib.contextmanager
def without_greetings():
    """Keep TensorFlow from writing to standard error while it is imported inside the block.

    It reports the processor, and GPU drivers that it does not find, from C++, some of it before it reads the
    environment variable TF_CPP_MIN_LOG_LEVEL. Where that is set to 0, 1 or 2, everything is shown.
    """
    if os.environ.setdefault(LOG_LEVEL, QUIET) != QUIET or "tensorflow" in sys.modules:
        yield
        return
    with nothing_on_standard_error():
        yield


@contextlib.contextmanager
def nothing_on_standard_error():
    """Discard what is written to standard error inside the block, from C++ too."""
    with contextlib.suppress(AttributeError, ValueError, OSError):  # a program may have no console
        sys.stderr.flush()
    with _STANDARD_ERROR:
        try:
            before = os.dup(2)
        except OSError:  # standard error is closed
            yield
            return
        try:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


def reason_of(error):
    """Return the first line of TensorFlow's error, without the operations and where they were defined."""
    around = ("Graph execution error:", "Detected at ", "  File ")
    lines = [line for line in str(error).split("\n") if line.strip() and not line.startswith(around)]
    return re.sub(r"\{\{.*?\}\} *| *\[Op:.*", "", lines[0] if lines else str(error))
