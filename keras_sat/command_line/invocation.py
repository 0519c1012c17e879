"""How keras_sat was started, so that hints name commands that work where they are typed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = "keras-sat"


def command(*words):
    """Return a command of keras_sat as it is typed into a shell: the way in which it was itself started, and words.

    That is `.venv/bin/python -m keras_sat` where it was started so, and the installed script where that was. A program
    or a notebook has started neither: then it is its Python with `-m keras_sat`.
    """
    return " ".join([started_as() or python("-m", "keras_sat"), *([quoted(*words)] if words else [])])


def started_as():
    """Return how the command line was started, quoted for a shell; None in a program that only uses keras_sat."""
    script = Path(sys.argv[0] if sys.argv else "")
    if script.name == "__main__.py" and script.parent.name == "keras_sat":
        return quoted(sys.orig_argv[0], "-m", "keras_sat")
    if script.name.removesuffix(".exe") != SCRIPT:
        return None
    found = shutil.which(SCRIPT)  # a shell passes the whole path of what was typed as a name alone
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(script)
    return SCRIPT if is_found and script.is_absolute() else quoted(str(script))


def python(*words):
    """Return a command of the Python that runs, as it is typed into a shell."""
    return quoted(sys.executable or "python", *words)


def quoted(*words):
    """Return words as a shell takes them."""
    words = list(map(str, words))
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
