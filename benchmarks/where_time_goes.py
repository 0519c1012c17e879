"""Profile a job of the benchmarks with TensorFlow's own profiler: which kinds of
operations take the time.

    python benchmarks/where_time_goes.py train_soft
    python benchmarks/where_time_goes.py caption_one --operations 20

Prints a table for profile.md: the seconds that all threads spent in operations of each
kind, as a fraction of their sum. An operation that runs on two threads counts once, as
long as it takes; two that run in parallel count both.
"""

import argparse
import collections
import re
import tempfile
from pathlib import Path

import bench
import numpy as np
from timing import seconds, set_up

KINDS = {  # the first that fits
    "waiting for all of it": r"^KernelAndDeviceFunc::Run|^TFE_|^EagerLocalExecute"
    r"|^FunctionRun|^ProcessFunction",
    "framework": r"^Executor|^ParallelFor|^BlockUntilReady|^CpuExecutable|^EagerCopy"
    r"|Callback|^Process|^Xla|^function",
    "products in the loop": r"while.*MatMul",
    "convolutions": r"Conv",
    "products outside of the loop": r"MatMul",
    "scores of attention (by XLA)": r"fusion|^wrapped_|IdentityN_grad/Sum",
    "gradients added up in the loop": r"AddN",
    "cross-entropy": r"CrossEntropy|LogSumExp",
    "everything else": r"",
}


def operations_of(function):
    """Return two Counters by the name of an operation without numbers: its own seconds,
    and how often it ran.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    own_seconds, counts = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            function()
        for path in Path(folder).rglob("*.xplane.pb"):
            for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
                for line in plane.lines:
                    for event, own in own_durations(line.events):
                        name = re.sub(r"\d+", "#", plane.event_metadata[event.metadata_id].name)
                        own_seconds[name] += own / 1e12
                        counts[name] += 1
    return own_seconds, counts


def own_durations(events):
    """Return (event, picoseconds without those of the events inside it) of one thread's
    events.
    """
    events = sorted(events, key=lambda event: (event.offset_ps, -event.duration_ps))
    own, around = [event.duration_ps for event in events], []
    for number, event in enumerate(events):
        while (
            around
            and events[around[-1]].offset_ps + events[around[-1]].duration_ps <= event.offset_ps
        ):
            around.pop()
        if around:
            own[around[-1]] -= event.duration_ps
        around.append(number)
    return list(zip(events, own))


def kind_of(name):
    """Return which of KINDS an operation is."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name))


# === The jobs ===


def train(its_bench, attention="soft", **options):
    captioner = its_bench.captioner(attention, **options)
    return bench.trainer(captioner, bench.training_batches(its_bench, captioner.vocabulary)[3:5])


def caption_one(its_bench):
    captioner, features = (
        its_bench.captioner(),
        np.random.default_rng(0).random((8, 1, 196, 512), "float32"),
    )
    return lambda: [
        captioner.caption_features(one, num_beams=1, max_length=bench.NUM_STEPS) for one in features
    ]


def encode(_):
    from keras_sat.network import make_encoder

    return bench.bare_encoder(
        make_encoder("efficientnet_lite0", weights=None), bench.random_photos(32)
    )


JOBS = {
    "train_soft": train,
    "train_none": lambda its_bench: train(its_bench, "none"),
    "train_bfloat16": lambda its_bench: train(its_bench, dtype="mixed_bfloat16"),
    "caption_one": caption_one,
    "lite0": encode,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", choices=JOBS, metavar="JOB", help=f"of: {', '.join(JOBS)}")
    parser.add_argument(
        "--operations", type=int, default=0, help="how many of the slowest operations to list"
    )
    arguments = parser.parse_args()
    set_up()
    with tempfile.TemporaryDirectory() as folder:
        run = JOBS[arguments.job](bench.Bench(Path(folder)))
        run()
        took = seconds(run)
        own_seconds, counts = operations_of(run)
    by_kind = collections.Counter()
    for name, own in own_seconds.items():
        by_kind[kind_of(name)] += own
    del by_kind["waiting for all of it"]
    total = sum(by_kind.values())
    print(f"{took:.2f} s; {total:.2f} s in operations\n\n| {arguments.job} | fraction |\n|---|---|")
    for kind, own in by_kind.most_common():
        print(f"| {kind} | {100 * own / total:.0f} % |")
    shown = [(name, own) for name, own in own_seconds.most_common() if kind_of(name) in by_kind]
    for name, own in shown[: arguments.operations]:
        print(f"{1000 * own:10.1f} ms {counts[name]:7d} x {name[:100]}")


if __name__ == "__main__":
    main()
