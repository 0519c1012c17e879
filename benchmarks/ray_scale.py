"""How much a Ray cluster costs: photos/s with workers of one core, and the scheduling
of many blocks.

    python benchmarks/ray_scale.py [--seconds 600] [--num-photos 2048] [--nodes 1 2 3]

For the scheduling, async actors wait instead of captioning, so that few cores stand for
many. A block of 1,024 photos takes a core 26 s (features_mobilenet_v2: 79 photos/s on
two); here each block waits one second, which makes scheduling 26 times as important.
The last table is computed, not measured.
"""

import argparse
import asyncio
import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import data_utils
from keras_sat.scale import ray_data, ray_workers

os.environ |= ray_workers.ENVIRONMENT | {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "TF_NUM_INTRAOP_THREADS": "1",
}
os.environ |= {"RAY_worker_niceness": "0"}  # as without Ray
PART_SIZE, PHOTOS_PER_SECOND, MOST_PHOTOS, WAIT_S = 1024, 79.1, 10_000_000, 1.0


class Wait:
    """An async actor: it holds as many blocks at once as Ray Data sends."""

    async def __call__(self, batch):
        await asyncio.sleep(WAIT_S)
        yield batch


def waits(blocks_at_once, seconds):
    """Print the fraction of time lost to scheduling when so many blocks wait at once,
    and the driver's memory.
    """
    ray = ray_workers.Workers("local").ray
    num_blocks = min(-(-MOST_PHOTOS // PART_SIZE), int(blocks_at_once * seconds / WAIT_S))
    pool = ray.data.ActorPoolStrategy(size=1, max_tasks_in_flight_per_actor=2 * blocks_at_once)
    dataset = ray.data.from_items(
        [{"number": number} for number in range(num_blocks)], override_num_blocks=num_blocks
    )
    dataset = dataset.map_batches(
        Wait, batch_size=None, compute=pool, num_cpus=1, max_concurrency=blocks_at_once
    )
    dataset.context.enable_progress_bars = dataset.context.print_on_execution_start = False
    times = []
    for _ in dataset.iter_rows():
        times.append(time.monotonic())
    # From the first block to the last.
    ideal = (num_blocks - blocks_at_once) / blocks_at_once * WAIT_S
    lost = 1 - ideal / (times[-1] - times[0]) if ideal > 0 else float("nan")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rate = (num_blocks - 1) / (times[-1] - times[0])
    print(
        f"| {blocks_at_once} | {num_blocks} | {rate:.1f} | {100 * lost:.0f} % | {memory:.2f} GB |",
        flush=True,
    )


def photos_per_second(folder, num_nodes):
    """Return the speed between the first and the last block: of one process (0 nodes),
    or of nodes with one core.
    """
    paths = sorted(map(str, Path(folder).glob("*.png")))
    blocks = [paths[start : start + 64] for start in range(0, len(paths), 64)]
    source, times = ray_data.loading(None, None), []
    if not num_nodes:
        captioner = source.load()
        for block in blocks:
            captioner.caption(block)
            times.append(time.monotonic())
    else:
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        for _ in range(num_nodes):
            cluster.add_node(num_cpus=1)
        make = functools.partial(ray_data._captioning, source, source.digests(), {})
        workers = ray_workers.Workers(cluster.address)
        for _ in workers.do(make, [*enumerate(blocks)]):
            times.append(time.monotonic())
        workers.ray.shutdown()
        cluster.shutdown()
    return 64 * (len(times) - 2) / (times[-1] - times[1])  # the first blocks compile graphs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600, help="of each number of blocks at once"
    )
    parser.add_argument("--num-photos", type=int, default=2048)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 3], help="numbers of nodes")
    parser.add_argument(
        "--blocks", type=int, nargs="*", default=[1, 8, 64, 512], help="numbers of blocks at once"
    )
    parser.add_argument("--only", help=argparse.SUPPRESS)  # one measurement in a process of its own
    given = parser.parse_args()
    if given.only:
        kind, number, folder = given.only.split(":", 2)
        if kind == "wait":
            waits(int(number), given.seconds)
        else:
            print(f"| {number} | {photos_per_second(folder, int(number)):.1f} |", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for scene in data_utils.draw_scenes(given.num_photos, seed=0):
            Path(folder, f"{scene.image_id}.png").write_bytes(scene.png())
        one = [sys.executable, __file__, "--seconds", str(given.seconds), "--only"]
        print("| nodes (0: one process without Ray) | photos/s |\n|---|---|", flush=True)
        for number in (0, *given.nodes):
            subprocess.run([*one, f"photos:{number}:{folder}"], check=True)
        print(
            "\n| blocks at once | blocks | blocks/s | time lost | memory of the driver "
            "|\n|---|---|---|---|---|",
            flush=True,
        )
        for number in given.blocks:
            subprocess.run([*one, f"wait:{number}:"], check=True)
    print("\n| machines of 32 cores (computed) | 10,000,000 photos |\n|---|---|")
    for machines in (10, 100):
        rounds = -(-MOST_PHOTOS // PART_SIZE // (32 * machines))  # of blocks, one for each core
        print(f"| {machines} | {rounds * PART_SIZE / (PHOTOS_PER_SECOND / 2) / 60:.0f} minutes |")


if __name__ == "__main__":
    main()
