"""Checks that `data_utils` is the package that belongs to this one.

Its name is a common one: Python would import a data_utils.py of the user in its place,
if that is in the current folder or in PYTHONPATH.
"""

import importlib.util
import sys
from pathlib import Path

SCRIPTS = ("keras-sat", "keras-sat.exe")


def reject_other_data_utils():
    """Raise ImportError if a file or folder of the user hides `data_utils`.

    On the command line, print the same in one line, and exit with status 2.
    """
    found = importlib.util.find_spec("data_utils")  # does not run it
    if found is None:
        missing = "The package data_utils, which belongs to keras_sat, is missing."
        problem = f"{missing} Install keras_sat again."
    elif _is_ours(found):
        return
    else:
        problem = (
            f"{_place_of(found)!r} hides the package data_utils, which belongs to keras_sat. "
            "Rename it, or keep its folder out of Python's path: run the program from another "
            "folder, and leave it out of PYTHONPATH."
        )
    if _is_command_line():
        print(f"keras-sat: {problem}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(problem, name="data_utils")


def _is_ours(found):
    folders = found.submodule_search_locations or []  # none for a file
    return any((Path(folder) / "base" / "lazy_imports.py").is_file() for folder in folders)


def _place_of(found):
    """Return the path of a file, or of a package's folder."""
    folders = list(found.submodule_search_locations or [])
    return folders[0] if folders else found.origin


def _is_command_line():
    """Return whether Python was started as `keras-sat` or `python -m keras_sat`."""
    program, started = sys.argv[0], sys.orig_argv
    is_module = program == "-m" and ("-m", "keras_sat") in zip(started, started[1:])
    return is_module or Path(program).name in SCRIPTS
