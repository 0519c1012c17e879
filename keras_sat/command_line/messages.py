"""What the command line says of errors, warnings and Ctrl-C: one line on standard error, with the way out."""

import contextlib
import errno
import os
import re
import signal
import sys
import textwrap
import threading

from data_utils.foreign_text import visible
from data_utils.tf_logging import reason_of
from keras_sat.checks import ArgumentError
from keras_sat.command_line.arguments import options_of

RESUMING = ("demo", "fit", "features")  # commands that resume where they were stopped
MOST_SHOWN = 1500  # letters of a message: errors of Keras may quote whatever they were given
WAYS_OUT = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG), "Free some space, and run the same command again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose a folder that can be written to"),
    **dict.fromkeys(
        (errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
        "Check that the path exists and has the right type, then run the command again",
    ),
}


@contextlib.contextmanager
def ctrl_c_noted():
    """Yield a list that is empty until Ctrl-C is pressed, which is a KeyboardInterrupt as always."""
    pressed = []

    def note(number, frame):
        pressed.append(number)
        raise KeyboardInterrupt

    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is not ours to change
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_ctrl_c(error, pressed):
    """Return whether Ctrl-C caused an error: TensorFlow, and an import that was interrupted, raise another one."""
    if pressed and isinstance(error, ImportError):
        return True
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def say_what_is_kept(command, kept=""):
    """Say what Ctrl-C has left, and what the same command does next; return the exit status."""
    new_line = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
    if command in RESUMING:
        kept = kept or "what was complete is kept, and the same command resumes there."
    print(f"{new_line}keras-sat: stopped: {kept or 'the same command starts over.'}", file=sys.stderr)
    return 130


def say_what_is_wrong(command, error):
    """Say in one line what is wrong, and return the exit status; raise an error again that no user could mend."""
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, (ValueError, OSError)):
        line = one_line(error, command)
    elif isinstance(error, MemoryError):
        reason = f" ({one_line(error, command)})" if str(error) else ""
        line = f"There is not enough memory for this{reason}. Use smaller numbers."
    elif isinstance(error, RuntimeError) and "home directory" in str(error):  # as Path.expanduser says it
        line = "A path begins with ~ and the name of no user here. Write it out."
    elif type(error).__module__.startswith("tensorflow."):
        # An error in one of TensorFlow's threads, a photo that vanished for example, wrapped in one of its own.
        wrapped = re.search(r"(?:ValueError|\w*Error): (.+)", str(error))
        reason = wrapped[1] if wrapped else reason_of(error)
        number = next((number for number in WAYS_OUT if reason.endswith(os.strerror(number))), None)
        line = f"{visible(reason)}{_way_out(number, command)}"
    else:
        raise error
    print(f"keras-sat: {line}", file=sys.stderr)
    return 2


def one_line(error, command):
    """Return what an error says in one line: arguments as flags of the command, and what to do about it."""
    text = error.text(options_of(command)) if isinstance(error, ArgumentError) else without_number(error)
    way_out = _way_out(error.errno, command) if isinstance(error, OSError) else ""
    return visible(textwrap.shorten(text, MOST_SHOWN, placeholder=" ...") + way_out)


def _way_out(number, command):
    """Return what to do about an error of the operating system, as the end of a message; "" where that is not known."""
    if number not in WAYS_OUT:
        return ""
    return f". {WAYS_OUT[number]}{': it resumes where it was' if command in RESUMING else ''}."


def without_number(error):
    """Return what an error says, without the number that Python puts before one of the operating system."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{visible(error.filename)}: {error.strerror}"
    return str(error)


def show_warning(command, message, category, filename, lineno, file=None, line=None):
    print(f"keras-sat: {one_line(message, command)}", file=sys.stderr)
