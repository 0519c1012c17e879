"""What `fit(deterministic=True)` costs: seconds of an epoch with it over seconds
without, as a ratio of medians.

    python benchmarks/deterministic.py

The setting cannot be switched off. So two processes train in turn, an epoch at a time,
on captions as long as Flickr8k's, from a cache of 196 x 512 features. Nothing else
should run meanwhile: five minutes on two cores.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bench
from timing import seconds

NUM_PHOTOS = 128  # with five captions each
NUM_ROUNDS = 5  # the difference is small
KINDS = ("plain", "deterministic")


def work(folder, kind, attention, group_by):
    """Train one epoch for each line of standard input, and answer with the seconds that
    it took.
    """
    import keras
    import tensorflow as tf

    from data_utils import make_batches

    keras.utils.set_random_seed(0)
    if kind == "deterministic":
        tf.config.experimental.enable_op_determinism()
    captioner = bench.Bench(folder).captioner(attention)
    images = bench.flickr8k_captions(NUM_PHOTOS)
    cache = bench.random_cache(Path(folder) / "training", [image.image_id for image in images])
    batches = make_batches(images, captioner.vocabulary, cache, bench.BATCH_SIZE, group_by=group_by)
    for _ in sys.stdin:
        print(seconds(lambda: captioner.fit(batches, verbose=0)), flush=True)


def epochs_in_turn(attention, group_by):
    """Return the seconds of epochs: dict from the kind of process to a list."""
    with contextlib.ExitStack() as stack:
        workers = {}
        for kind in KINDS:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            command = [sys.executable, __file__, folder, kind, attention, group_by]
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            workers[kind] = stack.enter_context(worker)  # ends where its standard input does
        took = {kind: [] for kind in KINDS}
        for _ in range(NUM_ROUNDS + 1):
            for kind, worker in workers.items():
                print("go", file=worker.stdin, flush=True)
                took[kind].append(float(worker.stdout.readline()))
    return {kind: some[1:] for kind, some in took.items()}  # the first epoch makes the graph


def main():
    for attention in ("soft", "hard"):
        for group_by in ("length", "image"):
            took = epochs_in_turn(attention, group_by)
            plain, deterministic = (statistics.median(took[kind]) for kind in KINDS)
            spread = "; ".join(
                f"{kind} {min(some):.1f} to {max(some):.1f} s" for kind, some in took.items()
            )
            print(
                f"{attention} attention, group_by={group_by!r}: "
                f"{deterministic / plain:.2f} ({spread})",
                flush=True,
            )


if __name__ == "__main__":
    work(*sys.argv[1:]) if sys.argv[1:] else main()
