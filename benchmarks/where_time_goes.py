"""Profile a job of the benchmarks with TensorFlow's own profiler: which kinds of operations take the time.

    python benchmarks/where_time_goes.py train_soft
    python benchmarks/where_time_goes.py caption_one --operations 20

Prints a table for profile.md: the seconds that all threads together spent in operations of each kind, as a share of
their sum. An operation that runs on two threads counts once, as long as it takes; two that run side by side count both.
"""

import argparse
import collections
import glob
import os
import re
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bench
import numpy as np
from timing import pin_threads

KINDS = {  # the first that fits
    "waiting for all of it": r"^KernelAndDeviceFunc::Run|^TFE_|^EagerLocalExecute|^FunctionRun|^ProcessFunction",
    "framework": r"^Executor|^ParallelFor|^BlockUntilReady|^CpuExecutable|^EagerCopy|Callback|^Process|^Xla|^function",
    "products in the loop": r"while.*MatMul",
    "convolutions": r"Conv",
    "products outside of the loop": r"MatMul",
    "scores of attention, optimizer (by XLA)": r"fusion|^wrapped_|IdentityN_grad/Sum",
    "gradients added up in the loop": r"AddN",
    "cross-entropy": r"CrossEntropy|LogSumExp",
    "everything else": r"",
}


def operations_of(function):
    """Return two dicts by the name of an operation, numbers left out: seconds that it took by itself, and how often."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    function()
    seconds, counts = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        function()
        tf.profiler.experimental.stop()
        for path in glob.glob(f"{folder}/**/*.xplane.pb", recursive=True):
            space = xplane_pb2.XSpace.FromString(Path(path).read_bytes())
            for plane in space.planes:
                for line in plane.lines:
                    for event, own in _own_durations(line.events):
                        name = re.sub(r"\d+", "#", plane.event_metadata[event.metadata_id].name)
                        seconds[name] += own / 1e12
                        counts[name] += 1
    return seconds, counts


def _own_durations(events):
    """Return (event, picoseconds without those of the events inside it) of one thread's events."""
    events = sorted(events, key=lambda event: (event.offset_ps, -event.duration_ps))
    own, around = [event.duration_ps for event in events], []
    for number, event in enumerate(events):
        while around and events[around[-1]].offset_ps + events[around[-1]].duration_ps <= event.offset_ps:
            around.pop()
        if around:
            own[around[-1]] -= event.duration_ps
        around.append(number)
    return list(zip(events, own))


def kind_of(name):
    """Return which of KINDS an operation is."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name))


# === The jobs ===


def train(attention="soft", **options):
    def job(folder):
        its_bench = bench.Bench(folder)
        captioner = its_bench.captioner(attention, **options)
        batches = bench.training_batches(its_bench, captioner.vocabulary)[3:5]
        return bench.trainer(bench.compiled_step(captioner), batches)

    return job


def caption_one(folder):
    its_bench = bench.Bench(folder)
    captioner, features = its_bench.captioner(), its_bench.features(8)

    def run():
        for number in range(len(features)):
            captioner.caption_features(features[number : number + 1], num_beams=1, max_length=bench.NUM_STEPS)

    return run


def encode(folder):
    from keras_sat.model.encoders import make_encoder

    images = np.random.default_rng(0).uniform(0, 255, (32, 224, 224, 3))
    return bench.bare_encoder(make_encoder("efficientnet_lite0", weights=None), images)


JOBS = {
    "train_soft": train(),
    "train_hard": train("hard"),
    "train_after": train(attends="after"),
    "train_none": train("none"),
    "train_bfloat16": train(dtype="mixed_bfloat16"),
    "caption_one": caption_one,
    "lite0": encode,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=JOBS, metavar="JOB", help=f"of: {', '.join(JOBS)}")
    parser.add_argument("--operations", type=int, default=0, help="so many operations that take longest, too")
    arguments = parser.parse_args()
    pin_threads()
    with tempfile.TemporaryDirectory() as folder:
        run = JOBS[arguments.job](Path(folder))
        run()
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        seconds, counts = operations_of(run)
    by_kind = collections.Counter()
    for name, own in seconds.items():
        by_kind[kind_of(name)] += own
    by_kind.pop("waiting for all of it", None)
    total = sum(by_kind.values())
    print(f"{took:.2f} s; {total:.2f} s in operations\n\n| {arguments.job} | share |\n|---|---|")
    for kind, own in by_kind.most_common():
        print(f"| {kind} | {100 * own / total:.0f} % |")
    shown = [(name, own) for name, own in seconds.most_common() if kind_of(name) in by_kind]
    for name, own in shown[: arguments.operations]:
        print(f"{1000 * own:10.1f} ms {counts[name]:7d} x {name[:100]}")


if __name__ == "__main__":
    main()
