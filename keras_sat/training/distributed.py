"""Synchronous data-parallel training on several GPUs or several hosts.

Each device ("replica") has a copy of all weights and computes the gradients of its part
of each batch. All take the same step with the sum, as one device would with the whole
batch. `tf.distribute` makes the copies and the sums. Here:

1. Make the captioner inside `strategy.scope()`, which copies each variable to each
   replica.
2. Give each replica its part of each batch: `make_batches(..., shares=...)`.
3. Run `Captioner.train_step` on all replicas. Sums over the batch are divided by the
   captions of all replicas (`sum_over_replicas`). Each replica draws the random numbers
   of the whole batch and uses those of its part.
4. Let one process, the chief, decide and write, and broadcast its state to the others
   before each epoch.

If a host fails, the training ends: the others raise an error after some seconds. When
the same command is run again on all hosts, they resume after the last epoch that the
chief has saved.
"""

import contextlib
import json
import os
import re
import signal

import keras
import numpy as np
import tensorflow as tf

from data_utils.base import write_whole
from keras_sat import bounds
from keras_sat.checks import check_no_keras_distribution
from keras_sat.files import state_of
from keras_sat.training.callbacks import StopWhenLost

SEED_STRIDE = 1_000_003  # between the seeds of two replicas' dropout
ADDRESS = re.compile(r"(?:[^\s/:]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
TF_CONFIG = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)


def several_gpus(count, kind="GPU"):
    """Return the strategy that trains on the first `count` GPUs of this computer."""
    bounds.count().check("gpus", count)
    devices = tf.config.list_logical_devices(kind)
    if count > len(devices):
        raise ValueError(
            f"TensorFlow finds only {len(devices)} {kind}s on this computer. Received: gpus={count}"
        )
    return tf.distribute.MirroredStrategy([device.name for device in devices[:count]])


def several_hosts():
    """Return the strategy for all GPUs of all hosts in TF_CONFIG.

    Call it before TensorFlow computes anything.
    """
    this_host = read_tf_config(os.environ.get("TF_CONFIG"))
    print(f"{this_host}: waiting for the others", flush=True)
    # The wait is in C++ and would block Python's handler.
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            "This host cannot connect: its address belongs to another process or "
            "computer, or TensorFlow has already "
            f"been used ({getattr(error, 'message', error)}). Received: {this_host}"
        ) from None
    finally:
        signal.signal(signal.SIGINT, on_interrupt)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow has replaced the default
    print("all hosts are connected; the first host reports progress", flush=True)
    return strategy


def read_tf_config(text):
    """Describe this process and all hosts, for example "worker 0 of 10.0.0.1:2222,
    10.0.0.2:2222".
    """
    try:
        config = json.loads(text)
        kind, index, cluster = config["task"]["type"], config["task"]["index"], config["cluster"]
        hosts = [*cluster.get("chief", []), *cluster.get("worker", [])]
        is_listed = index >= 0 and cluster[kind][index] in hosts
        are_addresses = all(ADDRESS.fullmatch(host) for host in hosts)
        is_valid = is_listed and are_addresses and len({*hosts}) == len(hosts)
    except (ValueError, LookupError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:  # TensorFlow would silently train on one host, or wait forever
        raise ValueError(
            "The environment variable TF_CONFIG must list each host once, as address:port, "
            "and this host's index. Expected, on the first of two hosts: "
            f"{TF_CONFIG}. Received: TF_CONFIG={text!r}"
        )
    return f"{kind} {index} of {', '.join(hosts)}"


class Cluster:
    """The replicas that train a captioner, and the hosts on which they run.

    Args:
        strategy: tf.distribute.MirroredStrategy or MultiWorkerMirroredStrategy. None:
            that of the current scope, or a single device.

    Attributes:
        shares: (numbers of this host's parts of a batch, number of all parts), for
            make_batches; None on one device.
        num_hosts, host_number: number of processes, usually one on each host, and the
            number of this one.
        is_chief: whether this is the process that decides and writes.
    """

    def __init__(self, strategy=None):
        check_no_keras_distribution()
        if strategy is None and tf.distribute.has_strategy():
            strategy = tf.distribute.get_strategy()
        supported = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)
        if strategy is not None and not isinstance(strategy, supported):
            raise ValueError(
                f"Expected a MirroredStrategy or MultiWorkerMirroredStrategy. Received: {strategy=}"
            )
        self.strategy = strategy
        self.shares = None
        self.num_hosts = 1
        self.host_number = 0
        if strategy is not None:
            count = strategy.num_replicas_in_sync
            numbers = strategy.experimental_distribute_values_from_function(
                lambda at: at.replica_id_in_sync_group
            )
            numbers = [int(number) for number in strategy.experimental_local_results(numbers)]
            self.shares = numbers, count
            self.num_hosts = count // len(numbers)
            self.host_number = min(numbers) // len(numbers)
        self.is_chief = self.host_number == 0

    @contextlib.contextmanager
    def scope(self):
        """The context in which all variables must be created. Creating them takes all
        hosts, too.
        """
        if self.strategy is None:
            yield
            return
        with self.strategy.scope(), self._host_failures_named():
            yield

    def broadcast(self, value):
        """Return the chief's value on every host; JSON must be able to represent it."""
        if self.num_hosts == 1:
            return value
        content = json.dumps(value).encode()
        size = int.from_bytes(self._broadcast_bytes(len(content).to_bytes(8)))
        return json.loads(self._broadcast_bytes(content[:size].ljust(size)))

    def check_same(self, described):
        """Raise ValueError on a host where a value in this dict differs from the
        chief's.
        """
        chief_values = self.broadcast(described)
        names = [
            name
            for name in {**chief_values, **described}
            if chief_values.get(name) != described.get(name)
        ]
        if names:
            expected = ", ".join(f"{name}={chief_values.get(name)!r}" for name in names)
            received = ", ".join(f"{name}={described.get(name)!r}" for name in names)
            raise ValueError(
                "All hosts must have the same data, weights and arguments. Expected, as on the "
                f"first host: {expected}. Received: {received}"
            )

    def _broadcast_bytes(self, content):
        """Return the chief's bytes on every host; all hosts must pass the same number
        of bytes.

        `tf.distribute` has no public broadcast, so this is a sum of the chief's values
        and of zeros. It uses float64, which every all-reduce supports, and which
        represents 32 bits exactly.
        """
        if not content:
            return content
        num_words = -(-len(content) // 4)  # of 32 bits
        padded = content.ljust(4 * num_words, b"\0")
        words = np.frombuffer(padded, "<u4").astype("float64")

        # `strategy.reduce` would do, but its threads print a traceback when the process
        # exits
        def add_up():
            context = tf.distribute.get_replica_context()
            is_chief = tf.cast(tf.equal(context.replica_id_in_sync_group, 0), tf.float64)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, words * is_chief)

        with self._host_failures_named():
            total = self.strategy.experimental_local_results(self.strategy.run(add_up))[0]
        return total.numpy().astype("<u4").tobytes()[: len(content)]

    @contextlib.contextmanager
    def one_host_at_a_time(self):
        """Run the block on one host after another, starting with the chief, since they
        may share a disk.
        """
        for _ in range(self.host_number):
            self.broadcast(None)
        yield
        for _ in range(self.host_number, self.num_hosts - 1):
            self.broadcast(None)

    def share_folder(self, directory):
        """Copy the files in the chief's folder to the other hosts."""
        if self.num_hosts == 1:
            return
        sizes = {}
        if self.is_chief:
            files = [path for path in directory.glob("[!.]*") if path.is_file()]
            sizes = {path.name: path.stat().st_size for path in files}
        for name, size in self.broadcast(sizes).items():
            path = directory / name
            content = self._broadcast_bytes(path.read_bytes() if self.is_chief else bytes(size))
            if not self.is_chief:
                write_whole(path, content)

    def share_state(self, captioner):
        """Copy the chief's state to all hosts, since a checkpoint or a callback may
        have changed it.
        """
        if self.num_hosts > 1:
            for variable in state_of(captioner).values():
                array = variable.numpy()
                content = self._broadcast_bytes(array.tobytes())
                variable.assign(np.frombuffer(content, array.dtype).reshape(array.shape))
        # Each replica gets other masks of dropout for its part of a batch.
        numbers, _ = self.shares
        for variable in captioner.variables:
            is_seed = variable.name == "seed_generator_state"
            if is_seed and variable is not captioner.random_generator.state:
                seed = variable.numpy()
                copies = self.strategy.experimental_local_results(variable.value)
                for number, copy in zip(numbers, copies):
                    copy.assign(seed + np.array([SEED_STRIDE * number, 0], seed.dtype))

    @contextlib.contextmanager
    def _host_failures_named(self):
        """Turn a TensorFlow error on several hosts into advice on what to do."""
        try:
            yield
        except tf.errors.OpError as error:
            if self.num_hosts == 1:
                raise
            reason = error.message.rpartition("aborted by: ")[2].partition("\n")[0]
            raise ConnectionError(
                "Another host in this training run has exited or cannot be reached, or "
                "this one has failed. Check the "
                "output of all hosts, and run the same command on all of them again: it "
                "resumes after the last "
                f"complete epoch. (TensorFlow's message: {reason[:200]})"
            ) from None

    def fit(
        self, captioner, batches, *, validation_data=None, initial_epoch=0, epochs=1, callbacks=()
    ):
        """Train on several devices: only the chief has callbacks and decides when to
        stop. On one device use `Captioner.fit`, which is that of Keras.

        Keras 3.15 cannot: its `fit` begins with the mean of the replicas' first parts,
        which stops at parts of other sizes (InvalidArgumentError: "Inputs to operation
        AddN of type AddN must have the same size and shape") and always on several
        hosts (ValueError: "Attempt to convert a value (PerReplica ...) with an
        unsupported type"), where the mean of a metric would fail next ("Invalid
        reduction dimension 0 for input with 0 dimensions").

        Args:
            captioner: created and compiled within `scope`.
            batches, validation_data: made by `make_batches` with `shares`.
            callbacks: called only on the chief, whose weights, optimizer and
                `stop_training` are broadcast at the end of each epoch. StopWhenLost is
                called on all hosts: they must leave the loop at the same step.
        """
        self._check_has_strategy()
        callbacks = [each for each in callbacks if self.is_chief or isinstance(each, StopWhenLost)]
        with self.strategy.scope(), self._host_failures_named():
            captioner.build_for(batches)
            captioner.check_vocabulary(validation_data, "validation_data")
            captioner.make_training_state()
            num_steps = self.num_steps(batches)
            train = self._on_all_replicas(captioner.train_step, batches)
            measure = None
            if validation_data is not None:
                measure = self._on_all_replicas(captioner.test_step, validation_data)
            captioner.stop_training = False
            called = keras.callbacks.CallbackList(
                callbacks, model=captioner, epochs=epochs, steps=num_steps, verbose=0
            )
            called.on_train_begin()
            try:
                for epoch in range(initial_epoch, epochs):
                    called.on_epoch_begin(epoch)
                    self.share_state(captioner)
                    logs = self._train_epoch(captioner, train, num_steps, called)
                    if measure is not None:
                        measured = self._measured(captioner, measure, validation_data)
                        logs |= {f"val_{name}": value for name, value in measured.items()}
                    called.on_epoch_end(epoch, logs)
                    if self.broadcast(captioner.stop_training):
                        break
            finally:
                captioner.end_averaging()
            called.on_train_end()

    def _train_epoch(self, captioner, train, num_steps, called):
        """Train for one epoch and return its metrics, a dict of floats.

        Args:
            train: the function that `_on_all_replicas` made of the training step.
            called: the CallbackList.
        """
        captioner.reset_metrics()
        for step in range(num_steps):
            called.on_train_batch_begin(step)
            logs = train()
            called.on_train_batch_end(step, logs)
            if captioner.stop_training and self.num_hosts == 1:
                break
        return logs

    def evaluate(self, captioner, batches):
        """Return the metrics of `Captioner.evaluate` as a dict, from several devices.
        The captioner must be created within `scope`.
        """
        self._check_has_strategy()
        with self.strategy.scope(), self._host_failures_named():
            captioner.build_for(batches)
            measure = self._on_all_replicas(captioner.test_step, batches)
            return self._measured(captioner, measure, batches)

    def _check_has_strategy(self):
        if self.strategy is None:
            raise ValueError(
                "On one device, use `Captioner.fit` and `Captioner.evaluate`. For several, pass "
                "a strategy. Received: strategy=None"
            )

    def _measured(self, captioner, measure, batches):
        """Return the metrics of all batches with the averaged weights; `measure` is the
        function that `_on_all_replicas` made of the step.
        """
        with captioner.averaged_weights():
            captioner.reset_metrics()
            return [measure() for _ in range(self.num_steps(batches))][-1]

    def num_steps(self, batches):
        """Return the number of whole batches, each of which has one part for each
        replica.
        """
        if self.shares is None:
            return len(batches)
        numbers, _ = self.shares
        return len(batches) // len(numbers)

    def _on_all_replicas(self, step, batches):
        """Return a function that runs a step on the next batch and returns its metrics
        as a dict of floats.
        """
        # A finite dataset would ask the other hosts at each step whether they have a
        # batch left.
        iterator = iter(self.strategy.distribute_datasets_from_function(lambda _: batches.repeat()))

        @tf.function(autograph=False)
        def run(iterator):
            figures = self.strategy.run(step, args=(next(iterator),))
            return {
                name: self.strategy.experimental_local_results(copies)[0]
                for name, copies in figures.items()
            }

        return lambda: {name: float(value) for name, value in run(iterator).items()}
