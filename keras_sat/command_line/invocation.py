"""How keras_sat was started: hints name commands that work where they are typed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = "keras-sat"


def command(*words):
    """Return a command of keras_sat as it is typed into a shell, started like this process."""
    return f"{started_as()} {quoted(*words)}"


def started_as():
    """Return how the command line was started, quoted for a shell, or would be by the installed script."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py" and script.parent.name == "keras_sat":
        return quoted(sys.orig_argv[0], "-m", "keras_sat")
    if script.name.removesuffix(".exe") != SCRIPT or shutil.which(SCRIPT) == str(script):
        return SCRIPT  # a shell finds it by its name
    return quoted(script)


def quoted(*words):
    """Return words as a shell takes them."""
    words = list(map(str, words))
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
