"""Reports errors, warnings and Ctrl-C on the command line, each in one line on standard
error.
"""

import contextlib
import errno
import os
import re
import signal
import sys
import textwrap
import threading

from data_utils.base import reason_of, reason_without_number, visible
from keras_sat.checks import ArgumentError
from keras_sat.commands.parser import options_of

RESUMABLE = ("demo", "fit", "features")  # commands that resume where they were stopped
MAX_LENGTH = 1500  # characters of a message: errors of Keras may quote their arguments in full
ELSEWHERE = "or choose a writable folder."
MEMORY_OPTIONS = ("batch_size", "num_beams", "num_samples")  # each costs memory
HINTS = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EFBIG), "Free some space, and run the same command again."
    ),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), f"Check the permissions, {ELSEWHERE}"
    ),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "Check the path."),
    errno.EEXIST: f"Check the path, {ELSEWHERE}",  # a file where a folder is to be made
    RuntimeError: "Write the full path instead of ~.",  # Path.expanduser's error
}


def open_closed_streams():
    """Open the null device for each standard stream that the shell has closed (`>&-`).

    Python has None for such a stream, and would print on standard output what is meant
    for standard error.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))


@contextlib.contextmanager
def track_ctrl_c():
    """Yield a list that stays empty until Ctrl-C is pressed; Ctrl-C still raises
    KeyboardInterrupt.
    """
    pressed = []

    def record(number, frame):
        pressed.append(number)
        raise KeyboardInterrupt

    # Keeps a custom handler.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # Others cannot set handlers.
    installs_handler = is_default and threading.current_thread() is threading.main_thread()
    if installs_handler:
        signal.signal(signal.SIGINT, record)
    try:
        yield pressed
    finally:
        if installs_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def report_stop(command, kept=""):
    """After Ctrl-C, print what is kept and what the same command will do.

    Return the exit status.
    """
    new_line = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
    if command in RESUMABLE:
        kept = kept or "finished parts are kept. Run the same command to resume."
    print(
        f"{new_line}keras-sat: stopped: {kept or 'running the same command again starts over.'}",
        file=sys.stderr,
    )
    return 130


def report_error(command, error):
    """Print an error in one line and return the exit status.

    Raise it again if it is a bug.
    """
    if isinstance(error, BrokenPipeError):  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # Path.expanduser's
    if isinstance(error, (ValueError, OSError, MemoryError)) or "home directory" in str(error):
        line = one_line(error, command)
    elif type(error).__module__.startswith("tensorflow."):
        # An error in one of TensorFlow's threads, such as a photo that vanished, is
        # wrapped in an error of TensorFlow.
        wrapped = re.search(r"\w+Error: (.+)", str(error))
        line = visible(wrapped[1] if wrapped else reason_of(error))
    else:
        raise error
    print(f"keras-sat: {line}", file=sys.stderr)
    return 2


def one_line(error, command):
    """Return the message of an error in one line, with argument names replaced by the
    command's flags.
    """
    names_no_path = isinstance(error, FileNotFoundError) and error.filename is None
    if names_no_path and not _has_current_folder():
        return "The current folder was removed. Change to another folder, and try again there."
    text = (
        error.text(options_of(command))
        if isinstance(error, ArgumentError)
        else reason_without_number(error)
    )
    text = textwrap.shorten(text, MAX_LENGTH, placeholder=" ...")
    hint = _hint(error, command)
    return visible(f"{text.removesuffix('.')}. {hint}" if hint else text)


def _hint(error, command):
    """Return what to do after an error, in a sentence, or "" if its message says it."""
    if isinstance(error, MemoryError):
        return _memory_hint(options_of(command))
    if isinstance(error, PermissionError) and _cannot_be_read(error.filename):
        return "Check the permissions."
    kinds = (getattr(error, "errno", None), *type(error).__mro__)
    return next((HINTS[kind] for kind in kinds if kind in HINTS), "")


def _memory_hint(options):
    """Return what to do without enough memory, given the flags of a command."""
    flags = [options[name] for name in MEMORY_OPTIONS if name in options]
    if not flags:
        return "Not enough memory. Close other programs, and run the same command again."
    return f"Not enough memory. Use a smaller {' or '.join(flags)}."


def _cannot_be_read(path):
    """Return whether something is at a path that this user cannot read or look at."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, TypeError):  # there is nothing, or no path is known
        return False
    return not os.access(path, os.R_OK)


def _has_current_folder():
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def show_warning(command, message, category, filename, lineno, file=None, line=None):
    """Print a warning in one line; given the command, it can stand in for
    `warnings.showwarning`.
    """
    print(f"keras-sat: {one_line(message, command)}", file=sys.stderr)
