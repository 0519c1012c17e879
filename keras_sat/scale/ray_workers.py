"""Processes on a Ray cluster that do blocks of work, https://docs.ray.io.

Ray Data sends blocks to workers, and the blocks of workers and nodes that died to
others. So a block may be done twice.
"""

from __future__ import annotations

import functools
import logging
import os
import warnings
from types import SimpleNamespace

from data_utils.base import nothing_on_standard_error, reason_without_number
from keras_sat.bounds import above_zero, at_least_zero

MOST_IDLE_PASSES = 3  # over the blocks that failed, before giving up
# Of Ray: no reports to its makers, no log on the terminal, and a wrong address fails
# soon.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no lines about dying workers on standard output
}
# A Ray node ends if one of its helpers has not started within 15 s, as on a busy
# computer.
NUM_STARTS = 3


class Workers:
    """Processes on a Ray cluster that do blocks of work.

    Args:
        ray: "local" starts a cluster that only this computer can reach; "auto" or
            host:port joins a running one. If `ray.init` was called before, its cluster
            is used.
        worker_cpus, worker_gpus: what each process gets; a fraction of a GPU lets
            several share it.
    """

    def __init__(self, ray: str = "local", *, worker_cpus: float = 1, worker_gpus: float = 0):
        above_zero.check("worker_cpus", worker_cpus)
        at_least_zero.check("worker_gpus", worker_gpus)
        self.resources = {"num_cpus": worker_cpus, "num_gpus": worker_gpus}
        self.ray = connected(ray)
        cluster = self.ray.cluster_resources()
        num_cpus, num_gpus = cluster.get("CPU", 0), cluster.get("GPU", 0)
        if worker_cpus > num_cpus or worker_gpus > num_gpus:
            problem = (
                f"The cluster has {num_cpus:g} CPUs and {num_gpus:g} GPUs, too few for a worker"
            )
            if ray == "local":
                raise ValueError(f"{problem}. Received: {worker_cpus=}, {worker_gpus=}")
            warnings.warn(f"{problem}: waiting for more.", stacklevel=2)

    def do(self, make, blocks):
        """Yield (block, result) for each block, in the order in which they are done.

        Args:
            make: function that each worker calls once; it returns a function from a
                block to its result.
            blocks: list of anything that Ray can send.
        """
        remaining = dict(enumerate(blocks))
        passes_left = MOST_IDLE_PASSES
        last_problem = "its worker did not start or died"
        while remaining and passes_left:
            passes_left -= 1
            for row in self._pass(make, remaining):
                last_problem = row["problem"] or last_problem
                if row["is_final"]:
                    raise ValueError(f"{last_problem} (Finished blocks are kept.)")
                is_done = not row["problem"]
                if is_done and row["number"] in remaining:  # a block may be done twice
                    passes_left = MOST_IDLE_PASSES
                    yield remaining.pop(row["number"]), row["result"].value
        if remaining:
            raise ValueError(
                f"{len(remaining)} of {len(blocks)} blocks of photos could not be done; "
                f"one of them: {last_problem.rstrip('.')}. The others are kept. Run the same "
                "command to do the rest."
            )

    def _pass(self, make, blocks):
        """Try each block once, or more often if its worker or node dies.

        Args:
            make: see `do`.
            blocks: dict from their numbers to blocks.

        Yield rows: dicts with the number of a block, its result in a SimpleNamespace,
        the problem ("" if there is none), and whether trying again is useless.
        """
        # A SimpleNamespace keeps Ray from converting its value.
        rows = [
            {"number": number, "block": SimpleNamespace(value=block)}
            for number, block in blocks.items()
        ]
        num_cpus = self.ray.cluster_resources().get("CPU", 0)
        num_workers = max(1, int(num_cpus // self.resources["num_cpus"]))
        pool = self.ray.data.ActorPoolStrategy(min_size=1, initial_size=min(num_workers, len(rows)))
        dataset = self.ray.data.from_items(rows, override_num_blocks=len(rows))
        # Ray 2.60 deprecates the retries without a replacement.
        with warnings.catch_warnings(action="ignore"):
            dataset = dataset.map(
                _Worker,
                fn_constructor_args=(make, self.resources["num_cpus"]),
                compute=pool,
                max_restarts=-1,
                max_task_retries=2,
                **self.resources,
            )
        dataset.context.max_errored_blocks = -1  # they remain
        dataset.context.enable_progress_bars = False
        dataset.context.print_on_execution_start = False
        try:
            yield from dataset.iter_rows()
        except Exception as error:  # a node that died may also end a pass
            problem = f"the Ray cluster failed: {str(error).strip()[:200]}"
            yield {"problem": problem, "is_final": False}


class _Worker:
    """What Ray starts in each process, and calls with rows of `Workers._pass`."""

    def __init__(self, make, num_cpus):
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, int(num_cpus))))
        self.make = functools.cache(make)

    def __call__(self, row):
        result, problem, is_final = None, "", False
        try:
            do_block = self.make()
            result = do_block(row["block"].value)
        except Exception as error:  # such as a full disk: another worker may succeed
            problem = reason_without_number(error)
            is_final = isinstance(error, ValueError)
        return {
            "number": row["number"],
            "result": SimpleNamespace(value=result),
            "problem": problem,
            "is_final": is_final,
        }


def connected(address):
    """Connect to a Ray cluster, unless this was done before; return the package `ray`.

    For the address see Workers.
    """
    if address.startswith(("local", "127.")):
        # On every system: loopback only.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError(
            "Ray is not installed. Run `pip install 'ray[data]'` on every machine."
        ) from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # `Workers.do` reports problems
    if not ray.is_initialized():
        _initialise(ray, address)
    return ray


def _initialise(ray, address):
    """Start a Ray cluster on this computer, or connect to a running one."""
    is_local = address == "local"
    options = {"include_dashboard": False} if is_local else {}
    for number in range(NUM_STARTS if is_local else 1):
        if number:
            warnings.warn("Ray did not start: trying again.", stacklevel=2)
        try:
            with nothing_on_standard_error():  # Ray says that its log is off
                ray.init(address=address, logging_level="ERROR", log_to_driver=False, **options)
            return
        except Exception as error:  # Ray raises many kinds
            lines = (str(error).strip() or type(error).__name__).splitlines()
            reason = lines[0].rstrip(".")
        ray.shutdown()
    if is_local:
        problem = "Ray did not start on this computer, which may be busy"
        raise ValueError(f"{problem}: run the same command again. Ray's reason: {reason}.")
    expected = 'Expected: "local", "auto" or host:port'
    raise ValueError(f"The Ray cluster did not answer: {reason}. {expected}. Received: {address}")
