"""Try the notebooks: `make notebooks-check`. With --write, `make notebooks`, the executed .ipynb files are made anew.

A trial runs each notebook once, made from its source (assemble.py). It first leaves each gap empty, which the check
after it must fill with the solution. Then it fills the gap with each mistake, which the check must notice, and with the
solution, which must pass; the notebook goes on with it to its end, the assertions of what its text claims. Last come
the solutions of the exercises. The committed .ipynb must have the same cells, and be small.

As a reader does it, the chapters run one after another in one folder, and the rooms in a folder within it: what one
notebook stores there must not stop the next.

With --write, a notebook is run with its gaps empty, and in an empty folder, so that the outputs that are stored do not
depend on other notebooks.
"""

import argparse
import base64
import io
import os
import sys
import tempfile
import time
from pathlib import Path

import assemble
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from PIL import Image

FOLDER = Path(__file__).resolve().parent
MAX_BYTES = 500_000
REAL_DATA = "KERAS_SAT_DATA"
NO_END = (CellExecutionError, CellTimeoutError, DeadKernelError)  # a notebook that does not get to its end


def sources(names=()):
    """Return the paths of the sources: all of them, or those that begin with one of the names (01, say)."""
    every = sorted((FOLDER / "src").glob("*.py")) + sorted((FOLDER / "src" / "rooms").glob("*.py"))
    stems = [Path(name).stem for name in names]  # "notebooks/src/01_words.py" is a name too
    unknown = [stem for stem in stems if not any(source.stem.startswith(stem) for source in every)]
    if unknown:
        raise ValueError(
            f"Expected the beginning of one of: {', '.join(source.stem for source in every)}. "
            f"Received: {', '.join(unknown)}"
        )
    return [source for source in every if not stems or any(source.stem.startswith(stem) for stem in stems)]


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def execute(notebook, folder):
    """Run a notebook in a fresh kernel, with this folder as its own; its outputs are put into it."""
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


def make_storable(notebook):
    """Remove what belongs to the run and its machine from a notebook that has been run, and make it smaller."""
    for cell in code_cells(notebook):
        cell.metadata.pop("execution", None)  # the times of this run
        # What TensorFlow logs of its devices is about this machine, not about the notebook.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "data" in output:
                make_smaller(output.data, cell.metadata.get("stored"))


def make_smaller(data, stored=None):
    """Make an output smaller. `data` has its forms by their type, and `stored` is the mark of its cell."""
    if stored == "without HTML":
        data.pop("text/html", None)
    if "image/png" not in data:
        return
    if stored == "JPEG":
        data["image/jpeg"] = as_jpeg(data.pop("image/png"))
    else:
        data["image/png"] = with_palette(data["image/png"])


def as_jpeg(picture):
    """Return a picture, PNG in base64, as a JPEG: a figure with photos has then a quarter of the bytes."""
    smaller = io.BytesIO()
    pixels = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    pixels.save(smaller, format="jpeg", quality=75, subsampling=0)  # full colour: sharp text
    return base64.b64encode(smaller.getvalue()).decode("ascii")


def with_palette(picture):
    """Return a picture, PNG in base64, in 256 colours if it is a large one: a photo has then a third of the bytes."""
    content = base64.b64decode(picture)
    if len(content) < 100_000:
        return picture
    smaller = io.BytesIO()
    pixels = Image.open(io.BytesIO(content)).convert("RGB")
    pixels.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(smaller, format="png", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode("ascii")


def cells_of(notebook):
    """Return what a notebook has in common with the same notebook in another run."""
    return [(cell.cell_type, cell.source, cell.metadata, cell.get("attachments")) for cell in notebook.cells]


def problem_with(source, folder):
    """Try a notebook in a folder, and return what is wrong with it or with its .ipynb, or None."""
    trial = assemble.trial(source)
    try:
        execute(trial, folder)
    except NO_END as error:
        return str(error)
    return "; ".join(assemble.problems_of_trial(trial)) or problem_of_file(source)


def problem_after_writing(source):
    """Run a notebook and write it with its outputs. Return what is wrong with it, or None."""
    notebook = assemble.assemble(source)
    with tempfile.TemporaryDirectory() as folder:
        try:
            execute(notebook, folder)
        except NO_END as error:
            return str(error)
    make_storable(notebook)
    target = assemble.target_of(source)
    target.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, target)
    return problem_of_file(source)


def problem_of_file(source):
    """Return what is wrong with the .ipynb of a source, or None."""
    target = assemble.target_of(source)
    if not target.exists():
        return f"{target.name} is missing: run `make notebooks`"
    if cells_of(nbformat.read(target, 4)) != cells_of(assemble.assemble(source)):
        return f"{target.name} is not made from {source.name} as it is now: run `make notebooks`"
    if target.stat().st_size > MAX_BYTES:
        return f"{target.name} has {target.stat().st_size} bytes, more than {MAX_BYTES}"
    return None


def problems_with(chosen, write):
    """Try or write the chosen notebooks; yield each with what is wrong with it, or None."""
    with tempfile.TemporaryDirectory() as shared:
        for source in chosen:
            folder = (Path(shared) / assemble.target_of(source).relative_to(FOLDER)).parent
            folder.mkdir(exist_ok=True)
            yield source, problem_after_writing(source) if write else problem_with(source, folder)


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
    start, processor_start = time.perf_counter(), _processor_seconds()
    for source, problem in problems_with(chosen, options.write):
        passed, failed = passed + (problem is None), failed + (problem is not None)
        end, processor_end = time.perf_counter(), _processor_seconds()
        said = problem or f"runs, {end - start:.0f} s, {processor_end - processor_start:.0f} s of the processor"
        print(f"{source.name}: {said}", flush=True)
        start, processor_start = end, processor_end
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _processor_seconds():
    """Return the processor time of all kernels that have ended: it hardly depends on what else the machine does."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
