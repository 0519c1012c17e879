"""Try the notebooks: `make notebooks-check`. With --write, `make notebooks`, the executed .ipynb files are made anew.

A trial runs each notebook once, made from its source (assemble.py). It first leaves each gap empty, which the check
after it must fill with the solution. Then it fills the gap with each mistake, which the check must notice, and with the
solution, which must pass; the notebook goes on with it to its end, the assertions of what its text claims. Last come
the solutions of the exercises. The committed .ipynb must have the same cells, and be small.

As a reader does it, the chapters run one after another in one folder, and the rooms in a folder within it: what one
notebook stores there must not stop the next. A chapter and a room run at a time, with a thread each; after the last
chapter, two rooms.

With --write, a notebook is run with its gaps empty, and in an empty folder, so that the outputs that are stored do not
depend on other notebooks. Then only one runs at a time, since some measure how long things take.
"""

import argparse
import base64
import contextlib
import io
import itertools
import os
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import assemble
import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from PIL import Image

FOLDER = Path(__file__).resolve().parent
MAX_BYTES = 500_000
REAL_DATA = "KERAS_SAT_DATA"
# The last cell of each: this time hardly depends on what else the machine does.
PROCESSOR_SECONDS = "import time\nprint(time.process_time())"


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
    """Run a notebook in a fresh kernel, with this folder as its own; its outputs are put into it.

    Return how long this took, in words.
    """
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources)
    start = time.perf_counter()
    notebook.cells.append(nbformat.v4.new_code_cell(PROCESSOR_SECONDS))
    with tempfile.TemporaryFile("w+") as errors:  # of the kernel itself; what a cell writes there is its output
        try:
            client.execute(stderr=errors)
            processor_seconds = float(notebook.cells[-1].outputs[0].text)
        except Exception as error:
            errors.seek(0)
            error.add_note(errors.read())
            raise
        finally:
            notebook.cells.pop()
    return f"{time.perf_counter() - start:.0f} s, {processor_seconds:.0f} s of the processor"


def why_it_stopped(error):
    """Return what to say of a notebook that did not get to its end."""
    if isinstance(error, (CellExecutionError, CellTimeoutError)):
        return str(error)
    return "".join(traceback.format_exception(error))  # the kernel died, say


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


def trial(source, folder):
    """Try a notebook in a folder. Return what is wrong with it or with its .ipynb, or None, and how long it took."""
    notebook = assemble.trial(source)
    duration = execute(notebook, folder)
    return "; ".join(assemble.problems_of_trial(notebook)) or problem_of_file(source), duration


def writing(source):
    """Run a notebook and write it with its outputs. Return what is wrong with it, or None, and how long it took."""
    notebook = assemble.assemble(source)
    with tempfile.TemporaryDirectory() as folder:
        duration = execute(notebook, folder)
    make_storable(notebook)
    target = assemble.target_of(source)
    target.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, target)
    return problem_of_file(source), duration


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


def outcomes(chosen, write):
    """Try or write the chosen notebooks; yield each with what is wrong with it, or None, and how long it took, in the
    order in which they end.

    A thread goes through the chapters, another one, and in the end both, through the rooms. Whatever stops this early,
    Ctrl-C for one, ends the kernels that run.
    """
    chapters = iter([source for source in chosen if source.parent.name != "rooms"])
    rooms = iter([source for source in chosen if source.parent.name == "rooms"])
    running = {}

    def begin_next(queue):
        for source in itertools.chain(queue, rooms):
            place = (Path(folder) / assemble.target_of(source).relative_to(FOLDER)).parent
            place.mkdir(exist_ok=True)
            outcome = pool.submit(writing, source) if write else pool.submit(trial, source, place)
            running[outcome] = source, queue
            return

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        try:
            for queue in (chapters,) if write else (chapters, rooms):
                begin_next(queue)
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for outcome in ended:
                    source, queue = running.pop(outcome)
                    begin_next(queue)
                    error = outcome.exception()
                    yield source, *((why_it_stopped(error), None) if error else outcome.result())
        finally:
            while wait(running, timeout=1).not_done:  # again and again: a kernel may be about to start
                for kernel in psutil.Process().children():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        kernel.kill()


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
    else:
        for threads in ("TF_NUM_INTRAOP_THREADS", "OPENBLAS_NUM_THREADS"):  # of TensorFlow and of numpy
            os.environ.setdefault(threads, "1")
    passed = failed = 0
    for source, problem, duration in outcomes(chosen, options.write):
        passed, failed = passed + (problem is None), failed + (problem is not None)
        print(f"{source.name}: {problem or f'runs, {duration}'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
