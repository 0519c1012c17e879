"""What the command line says of errors, warnings and Ctrl-C: one line on standard error, with the way out."""

import contextlib
import errno
import os
import re
import signal
import sys
import threading

from data_utils.foreign_text import shortened, visible
from data_utils.quiet import reason_of
from keras_sat.checks import WHOSE_ENCODER_WEIGHTS
from keras_sat.command_line.arguments import options_of

RESUMING = ("demo", "fit", "features")  # commands that go on where they were stopped
WAYS_OUT = {
    errno.ENOSPC: "Make room {and_again}",
    getattr(errno, "EDQUOT", errno.ENOSPC): "Make room {and_again}",  # Windows has none
    errno.EFBIG: "Allow larger files (`ulimit -f` shows the limit) {and_again}",
    errno.EISDIR: "Name a file instead.",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose a folder that can be written to."),
    **dict.fromkeys(  # a folder may vanish while it is made, or it is a file
        (errno.ENOENT, errno.EEXIST, errno.ENOTDIR),
        "Look whether it is there, and a file or a folder as it should be, and run the same command again.",
    ),
}

# What Ctrl-C leaves of a command, and what the same command does next. A training that has a captioner ends with it.
BEGINS_ANEW = "nothing was written, and the same command begins anew."
KEPT = {
    "demo": "epochs that were complete are kept, and the same command resumes after them.",
    "fit": "epochs and features that were complete are kept, and the same command resumes after them.",
    "caption": "captions and drawings so far are whole, and the same command begins at the first picture again.",
    "evaluate": "files that were written are whole, and the same command begins anew.",
    "compare": BEGINS_ANEW,
    "features": "the features so far are kept, and the same command continues with the other photos.",
    "calibrate": "the model is as it was before, and the same command begins anew.",
    "export": "only a whole export is kept, and the same command begins a new one.",
    "app": "nothing is left behind, and the same command begins anew.",
    "info": BEGINS_ANEW,
}


@contextlib.contextmanager
def ctrl_c_noted():
    """Yield a list that is empty as long as Ctrl-C has not been pressed, which is a KeyboardInterrupt as always."""
    pressed = []

    def note(number, frame):
        pressed.append(number)
        raise KeyboardInterrupt

    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is not ours to change
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_ctrl_c(error, pressed):
    """Return whether an error came of Ctrl-C: TensorFlow, and an import that was broken off, make another one of it."""
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
    print(f"{new_line}keras-sat: stopped: {kept or KEPT[command]}", file=sys.stderr)
    return 130


def say_what_is_wrong(command, error):
    """Say in one line what is wrong, and return the exit status; raise an error again that no user could mend."""
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, (ValueError, OSError)):
        line = as_options(one_line(error, command), command)
    elif isinstance(error, MemoryError):
        reason = f" ({one_line(error, command)})" if str(error) else ""
        line = f"There is not enough memory for this{reason}. Use smaller numbers."
    elif isinstance(error, RuntimeError) and "home directory" in str(error):  # as Path.expanduser says it
        line = "A path begins with ~ and the name of no user here. Write it out."
    elif type(error).__module__.startswith("tensorflow."):
        # TensorFlow wraps what went wrong in its threads, a photo that vanished for example, into an error of its own.
        wrapped = re.search(r"(?:ValueError|\w*Error): (.+)", str(error))
        reason = wrapped[1] if wrapped else reason_of(error)
        number = next((number for number in WAYS_OUT if reason.endswith(os.strerror(number))), None)
        line = f"{visible(reason)}{_way_out(number, command)}"
    else:
        raise error
    print(f"keras-sat: {line}", file=sys.stderr)
    return 2


def one_line(error, command):
    """Return what an error says, and what to do about it, in one line; long values that it quotes are cut."""
    text = re.sub(r"(?<!\w)(['\"])(.*?)\1", lambda quoted: shortened(quoted[0]), without_number(error), flags=re.DOTALL)
    if isinstance(error, OSError):
        text += _way_out(error.errno, command)
    return visible(" ".join(text.split()))


def _way_out(number, command):
    """Return what to do about an error of the operating system, as the end of a message; "" where that is not known."""
    and_again = "and run the same command again" + (": it resumes where it was." if command in RESUMING else ".")
    return f". {WAYS_OUT[number].format(and_again=and_again)}" if number in WAYS_OUT else ""


def without_number(error):
    """Return what an error says; of the operating system's, without the number that Python puts before."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{visible(error.filename)}: {error.strerror}"
    return str(error)


def as_options(text, command):
    """Return a message that names arguments in Python's way, with options of a command in their place.

    `num_beams` is --num-beams; what is said of the command line in parentheses takes the place of what stands before.
    """
    text = text.replace(WHOSE_ENCODER_WEIGHTS, "")
    text = re.sub(r"`?\b\w+`?(?:=[^\s(]+)? \((--[^)]*?)(?: on the command line)?\)", r"\1", text)
    for name, option in options_of(command).items():
        if "_" in name:
            text = re.sub(rf"(?<![\w./-]){name}(?=[`=\s,;:.]|$)", option, text)
    return text


def show_warning(command, message, category, filename, lineno, file=None, line=None):
    print(f"keras-sat: {as_options(one_line(message, command), command)}", file=sys.stderr)
