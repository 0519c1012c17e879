"""What `fit(deterministic=True)` costs: seconds of an epoch with it over seconds without, as a ratio of medians.

    python benchmarks/deterministic.py

The setting cannot be switched off, so that there are two processes: each trains on captions as long as Flickr8k's, from
a cache of 196 x 512 features, and they take turns, an epoch at a time. Leave the machine alone meanwhile: it takes
about five minutes on two cores.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bench

NUM_ROUNDS = 5
NUM_PHOTOS = 128  # with five captions each
KINDS = ("plain", "deterministic")


def work(folder, kind, attention, group_by):
    """Train one epoch for each line of standard input, and answer with the seconds that it took."""
    import keras
    import tensorflow as tf

    from data_utils import make_batches

    keras.utils.set_random_seed(0)
    if kind == "deterministic":
        tf.config.experimental.enable_op_determinism()
    captioner = bench.Bench(folder).captioner(attention)
    images = bench.flickr8k_captions()[:NUM_PHOTOS]
    cache = bench.random_cache(Path(folder) / "training", [image.image_id for image in images])
    batches = make_batches(images, captioner.vocabulary, cache, bench.BATCH_SIZE, group_by=group_by)
    captioner.fit(batches, verbose=0)  # makes the graph
    print("ready", flush=True)
    for _ in sys.stdin:
        print(bench.seconds(lambda: captioner.fit(batches, verbose=0)), flush=True)


def epochs_in_turn(attention, group_by, num_rounds):
    """Return the seconds of epochs: dict from the kind of process to a list."""
    with contextlib.ExitStack() as stack:
        folder, workers = stack.enter_context(tempfile.TemporaryDirectory()), {}
        for kind in KINDS:
            (Path(folder) / kind).mkdir()
            command = [sys.executable, __file__, "--work", f"{folder}/{kind}", kind, attention, group_by]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            workers[kind] = stack.enter_context(worker)  # ends where its standard input does
            answer(worker)
        seconds = {kind: [] for kind in KINDS}
        for _ in range(num_rounds):
            for kind, worker in workers.items():
                print("go", file=worker.stdin, flush=True)
                seconds[kind].append(float(answer(worker)))
    return seconds


def answer(worker):
    """Return the next line that a worker prints."""
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"A training of the benchmark ended with exit status {worker.wait()}.")
    return line.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS, help=f"epochs of each kind; default: {NUM_ROUNDS}")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return
    for attention in ("soft", "hard"):
        for group_by in ("length", "image"):
            seconds = epochs_in_turn(attention, group_by, arguments.rounds)
            plain, deterministic = (statistics.median(seconds[kind]) for kind in KINDS)
            spread = "; ".join(f"{kind} {min(some):.1f} to {max(some):.1f} s" for kind, some in seconds.items())
            print(
                f"{attention} attention, group_by={group_by!r}: {deterministic / plain:.2f} "
                f"({deterministic:.1f} over {plain:.1f} s; {spread})",
                flush=True,
            )


if __name__ == "__main__":
    main()
