"""Finds out how keras_sat was started, so that hints show commands that work in the
user's shell.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = "keras-sat"


def command(*words):
    """Return a shell command that runs keras_sat in the same way as this process was
    started.
    """
    return f"{started_as()} {quoted(*words)}"


def started_as():
    """Return the program and arguments that start keras_sat, quoted for a shell."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py" and script.parent.name == "keras_sat":
        return quoted(sys.orig_argv[0], "-m", "keras_sat")
    if script.name.removesuffix(".exe") != SCRIPT or shutil.which(SCRIPT) == str(script):
        return SCRIPT  # a shell finds it by its name
    return quoted(script)


def quoted(*words):
    """Return words quoted for a shell."""
    words = list(map(str, words))
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
