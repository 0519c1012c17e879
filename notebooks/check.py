"""Run the notebooks: `make notebooks-check`. With --write, `make notebooks`, the executed .ipynb files are made anew.

The sources are notebooks/src/*.py in jupytext's percent format. Each is run from top to bottom in an empty folder; it
ends with assertions of what its text claims. The committed .ipynb must have the cells of its source, and be small.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

FOLDER = Path(__file__).resolve().parent
MAX_BYTES = 500_000
REAL_DATA = "KERAS_SAT_DATA"


def sources(names=()):
    """Return the paths of the sources: all of them, or those that begin with one of the names (01, say)."""
    every = sorted((FOLDER / "src").glob("*.py"))
    stems = [Path(name).stem for name in names]  # "notebooks/src/01_words_and_ids.py" is a name too
    unknown = [stem for stem in stems if not any(source.stem.startswith(stem) for source in every)]
    if unknown:
        raise ValueError(
            f"Expected the beginning of one of: {', '.join(source.stem for source in every)}. "
            f"Received: {', '.join(unknown)}"
        )
    return [source for source in every if not stems or any(source.stem.startswith(stem) for stem in stems)]


def read_source(source):
    """Return the notebook of a source file, not executed."""
    notebook = jupytext.read(source)
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same in every run, so that differences are real ones
        cell.metadata = {}
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def execute(notebook):
    """Run a notebook in a fresh kernel and an empty folder; its outputs are put into it."""
    with tempfile.TemporaryDirectory() as directory:
        resources = {"metadata": {"path": directory}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    for cell in code_cells(notebook):
        cell.metadata = {}
        # What TensorFlow logs of its devices is about this machine, not about the story.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


def cells_of(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def problem_with(source, write=False):
    """Run one source, and return what is wrong with it or with its .ipynb, or None."""
    target = FOLDER / f"{source.stem}.ipynb"
    notebook = read_source(source)
    try:
        execute(notebook)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return str(error)
    if write:
        nbformat.write(notebook, target)
    if not target.exists():
        return f"{target.name} is missing: run `make notebooks`"
    if cells_of(nbformat.read(target, 4)) != cells_of(notebook):
        return f"{target.name} is not made from {source.name} as it is now: run `make notebooks`"
    if target.stat().st_size > MAX_BYTES:
        return f"{target.name} has {target.stat().st_size} bytes, more than {MAX_BYTES}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, by the beginning of their names: 01 02")
    parser.add_argument("--write", action="store_true", help="write the executed notebooks")
    options = parser.parse_args()
    try:
        chosen = sources(options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.write:
        os.environ.pop(REAL_DATA, None)  # nothing made of the real photos may get into a file that is committed
    passed = failed = 0
    for source in chosen:
        start, processor_start = time.perf_counter(), _processor_seconds()
        problem = problem_with(source, write=options.write)
        passed, failed = passed + (problem is None), failed + (problem is not None)
        seconds, processor = time.perf_counter() - start, _processor_seconds() - processor_start
        said = problem or f"runs, {seconds:.0f} s, {processor:.0f} s of the processor"
        print(f"{source.name}: {said}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _processor_seconds():
    """Return the processor time of all kernels that have ended: it hardly depends on what else the machine does."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
