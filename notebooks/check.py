"""Run the notebooks: `make notebooks-check`. With --write, `make notebooks`, the executed .ipynb files are made anew.

The sources are notebooks/src/*.py in jupytext's percent format. Each is run from top to bottom in an empty folder; it
ends with assertions of what its text claims. The committed .ipynb must have the cells of its source.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parent
MAX_BYTES = 600_000


def cells_of(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def execute(source):
    """Return the executed notebook of a source file."""
    notebook = jupytext.read(source)
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same in every run, so that differences are real ones
        cell.metadata = {}
    with tempfile.TemporaryDirectory() as directory:
        resources = {"metadata": {"path": directory}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":  # what TensorFlow logs of its devices is about this machine, not about the story
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the executed notebooks")
    write = parser.parse_args().write
    passed = failed = 0
    for source in sorted((FOLDER / "src").glob("*.py")):
        target = FOLDER / f"{source.stem}.ipynb"
        start = time.perf_counter()
        problem = None
        try:
            notebook = execute(source)
        except CellExecutionError as error:
            problem = str(error)
        if problem is None and write:
            nbformat.write(notebook, target)
        if problem is None and not target.exists():
            problem = f"{target.name} is missing: run `make notebooks`"
        elif problem is None and cells_of(nbformat.read(target, 4)) != cells_of(notebook):
            problem = f"{target.name} is not made from {source.name} as it is now: run `make notebooks`"
        elif problem is None and target.stat().st_size > MAX_BYTES:
            problem = f"{target.name} has {target.stat().st_size} bytes, more than {MAX_BYTES}"
        passed, failed = passed + (problem is None), failed + (problem is not None)
        print(f"{source.name}: {problem or f'runs, {time.perf_counter() - start:.0f} s'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
