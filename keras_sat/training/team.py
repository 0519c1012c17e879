"""Training on several GPUs, and on several hosts: the same step everywhere, on shares of the same batch.

Each device (TensorFlow says "replica") has a copy of all weights. A batch is cut into as many shares as there are
replicas; each replica computes the gradients of its share; they are added up over all replicas, and each replica takes
the same step with the sum. So the copies stay equal, and the training is that of one device with the whole batch.

`tf.distribute` makes the copies and adds up. What is left to do:

1. Make the captioner inside `strategy.scope()`, so that each of its variables is one copy for each replica.
2. Give each replica its share of each batch: `make_batches(..., shares=...)`.
3. Run `Captioner.train_step` on all replicas, `strategy.run`. Where it takes a mean over the batch, it divides by the
   captions of all replicas (`sum_over_replicas`). Random numbers for the whole batch are the same on each replica,
   which takes the part for its own share (`draw_for_photos`).
4. Let one process, the chief, decide and write; it sends what it decides to the others (`Team.tell`). They keep
   nothing: at the beginning of each epoch they take over the chief's state.

A host failure ends the training: the other hosts notice it after some seconds, and end with an error. When all of them
are started again with the same command, they resume after the last epoch that the chief has kept.
"""

import contextlib
import json
import math
import os
import re
import signal
import tempfile
import textwrap
import threading
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from data_utils.files import write_whole
from keras_sat import options
from keras_sat.checks import check_no_keras_distribution
from keras_sat.files.checkpoint import state_of

SEED_STRIDE = 1_000_003  # between the seeds of two replicas' dropout
HOST_FAILURES = (  # what TensorFlow raises on the other hosts
    tf.errors.UnavailableError,
    tf.errors.FailedPreconditionError,  # the host was started again, alone
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def several_gpus(count, kind="GPU"):
    """Return the strategy that trains on the first `count` GPUs of this computer."""
    options.count().check("gpus", count)
    devices = tf.config.list_logical_devices(kind)
    if count > len(devices):
        raise ValueError(f"TensorFlow finds {len(devices)} {kind}s on this computer. Received: gpus={count}")
    return tf.distribute.MirroredStrategy([device.name for device in devices[:count]])


def several_hosts():
    """Return the strategy that trains on all hosts that TF_CONFIG names, on all GPUs of each.

    It waits for the other hosts, and must be made before TensorFlow computes anything.
    """
    (kind, index), hosts = read_tf_config(os.environ.get("TF_CONFIG"))
    print(f"{kind} {index} of {', '.join(hosts)}: waits for the others", flush=True)
    try:
        with _signals_end_the_process():
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise ValueError(f"Hosts can only be connected before TensorFlow is used for anything else: {error}") from None
    except tf.errors.OpError as error:
        raise ValueError(
            "This host cannot listen at its own address: is it that of another computer, or is a process there "
            f"already, such as a host with the same index? ({error.message}.) "
            f"Received: {kind} {index} of {', '.join(hosts)}"
        ) from None
    print("all hosts are here; the first one reports the progress", flush=True)
    return strategy


@contextlib.contextmanager
def _signals_end_the_process():
    """Let Ctrl-C end the wait, which is in C++ and blocks Python's own handler, and SIGTERM the process after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow has replaced the default


def read_tf_config(text):
    """Return which task this process has, ("worker", 0) for example, and the addresses of all hosts."""
    example = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
    try:
        if not text:
            raise ValueError("it is not set")
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        if not isinstance(cluster, dict) or not isinstance(task, dict):
            raise ValueError("its cluster and its task must be objects")
        hosts = [host for kind in ("chief", "worker") for host in cluster.get(kind, [])]
        kind, index = task["type"], task["index"]
        if set(cluster) - {"chief", "worker"}:
            raise ValueError("its cluster may have a chief and workers, and nothing else")
        if not hosts or not all(isinstance(host, str) and _is_address(host) for host in hosts):
            raise ValueError("its hosts must be given as address:port")
        if len(cluster.get("chief", [])) > 1:
            raise ValueError("its cluster may have one chief")
        if len(set(hosts)) < len(hosts):  # each would wait for the other without end
            raise ValueError("its hosts must have different addresses")
        if type(index) is not int or not 0 <= index < len(cluster.get(kind, [])):
            raise ValueError("its task is not in its cluster")
    except (ValueError, KeyError, TypeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"The environment variable TF_CONFIG must name all hosts, and which of them this one is: {reason}. "
            f"Expected, on the first of two hosts: {example}. Received: TF_CONFIG={text!r}"
        ) from None
    return (kind, index), hosts


def _is_address(host):
    address = re.fullmatch(r"(?:[^\s/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", host)
    return bool(address) and 0 < int(address[1]) < 2**16


class Team:
    """The replicas that train together, and the hosts that they run on.

    Args:
        strategy: tf.distribute.MirroredStrategy or MultiWorkerMirroredStrategy. None: the one in whose scope this is
            called, or a single device.

    Attributes:
        shares: which shares of a batch are those of this host, as make_batches takes them; None on a single device.
        num_hosts, host_number: how many processes there are, as a rule each on its own host, and which this is.
        is_chief: whether this is the process that decides and writes.
    """

    def __init__(self, strategy=None):
        check_no_keras_distribution()
        if strategy is None and tf.distribute.has_strategy():
            strategy = tf.distribute.get_strategy()
        _check_strategy(strategy)
        self.strategy = strategy
        self.shares, self.num_hosts, self.host_number = None, 1, 0
        if strategy is not None:
            count = strategy.num_replicas_in_sync
            numbers = strategy.experimental_distribute_values_from_function(lambda at: at.replica_id_in_sync_group)
            numbers = [int(number) for number in strategy.experimental_local_results(numbers)]
            self.shares, self.num_hosts = (numbers, count), count // len(numbers)
            self.host_number = min(numbers) // len(numbers)
        self.is_chief = self.host_number == 0
        self._take_over = tf.function(self._take_over, input_signature=[tf.TensorSpec((None,), tf.float64)])

    def scope(self):
        """Return the context within which all variables that the replicas share must be made."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    def check_encoder(self, encoder, encoder_training):
        """Refuse a user's own encoder that is to be trained, but was made outside `scope`: it has only one copy."""
        trained = isinstance(encoder, keras.Model) and encoder_training not in (None, "frozen")
        if self.strategy is None or not trained:
            return
        if not all(self.strategy.extended.variable_created_in_scope(weight.value) for weight in encoder.weights):
            raise ValueError(
                "An encoder that is trained on several devices must have been made within `strategy.scope()`. "
                f"Received: encoder={encoder.name!r}, encoder_training={encoder_training!r}"
            )

    # === What the chief sends ===

    def tell(self, value):
        """Return the chief's value on every host: anything that JSON can hold."""
        if self.num_hosts == 1:
            return value
        content = json.dumps(value).encode()
        size = int(np.frombuffer(self._tell_bytes(np.int64(len(content)).tobytes()), np.int64)[0])
        return json.loads(self._tell_bytes(content[:size].ljust(size)))

    def check_same(self, described):
        """Refuse a host where something differs from the chief: dict of what JSON can hold."""
        of_chief = self.tell(described)
        everywhere = {**of_chief, **described}  # compared as JSON, where NaN equals itself
        names = [name for name in everywhere if json.dumps(of_chief.get(name)) != json.dumps(described.get(name))]
        if names:
            raise ValueError(
                "All hosts must be given the same data, weights and arguments. On the first one they are: "
                f"{', '.join(f'{name}={of_chief.get(name)!r}' for name in names)}. "
                f"Received: {', '.join(f'{name}={described.get(name)!r}' for name in names)}"
            )

    def _tell_bytes(self, content):
        """Return the chief's bytes; every host must pass as many.

        A replica context of `tf.distribute` has `all_reduce` but no public broadcast, so this is a sum of the chief's
        values and of zeros; it is in float64, which every all-reduce supports, and which holds 32 bits exactly.
        """
        if not content:
            return content
        words = np.frombuffer(content.ljust(-(-len(content) // 4) * 4, b"\0"), "<u4")
        with self._host_failures_named():
            return self._take_over(words.astype("float64")).numpy().astype("<u4").tobytes()[: len(content)]

    def _take_over(self, words):
        def add_up():
            context = tf.distribute.get_replica_context()
            is_chief = tf.equal(context.replica_id_in_sync_group, 0)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, words * tf.cast(is_chief, words.dtype))

        return self.strategy.experimental_local_results(self.strategy.run(add_up))[0]

    @contextlib.contextmanager
    def in_turn(self):
        """Run the block on one host after another, the chief first: they may share a disk."""
        for _ in range(self.host_number):
            self.tell(None)
        yield
        for _ in range(self.host_number, self.num_hosts - 1):
            self.tell(None)

    @contextlib.contextmanager
    def folder(self, directory):
        """Yield the folder of a training: the chief's own; the others get a temporary one, removed after the block."""
        if self.is_chief:
            yield directory
            return
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)

    def share_folder(self, directory):
        """Copy the files in a folder of the chief into that of the other hosts."""
        if self.num_hosts == 1:
            return
        files = [path for path in directory.glob("[!.]*") if path.is_file()] if self.is_chief else []
        for name, size in self.tell({path.name: path.stat().st_size for path in files}).items():
            content = self._tell_bytes((directory / name).read_bytes() if self.is_chief else b"\0" * size)
            if not self.is_chief:
                write_whole(directory / name, content)

    def share_state(self, captioner):
        """Copy the chief's state to all hosts: it may have read a checkpoint, or its callbacks changed something."""
        if self.num_hosts > 1:
            for variable in state_of(captioner).values():
                array = variable.numpy()
                variable.assign(np.frombuffer(self._tell_bytes(array.tobytes()), array.dtype).reshape(array.shape))
        for variable in captioner.variables:
            is_dropout = variable.name == "seed_generator_state" and variable is not captioner.random_generator.state
            if is_dropout:  # else its mask would be the same for the first caption of each share, for the second ...
                seed, copies = variable.numpy(), self.strategy.experimental_local_results(variable.value)
                for number, copy in zip(self.shares[0], copies):
                    copy.assign(seed + np.array([SEED_STRIDE * number, 0], seed.dtype))

    @contextlib.contextmanager
    def _host_failures_named(self):
        """Turn what TensorFlow raises after a host failure into an error with the way out."""
        try:
            yield
        except HOST_FAILURES as error:
            if self.num_hosts == 1:
                raise
            raise ConnectionError(
                "Another host of this training has ended or cannot be reached, and without it the training cannot "
                "continue. Look at the output of the other hosts, and run the same command on all of them again: it "
                f"resumes after the last epoch that was completed. (TensorFlow says: {_aborted_by(error)})"
            ) from None
        except tf.errors.InternalError as error:
            if "joining a group" not in error.message:
                raise
            raise ValueError(
                "The hosts were given different numbers of hosts: the cluster of TF_CONFIG must be the same on each. "
                f"(TensorFlow says: {_aborted_by(error)})"
            ) from None
        except RuntimeError as error:
            if "KeyboardInterrupt" not in str(error):  # Ctrl-C while TensorFlow reported a host failure
                raise
            raise KeyboardInterrupt from None

    # === Training ===

    # A second loop beside Keras' own (`Captioner.fit`), since that one does not work on several hosts, where the chief
    # alone has callbacks and decides for all when to stop.
    def fit(self, captioner, batches, *, validation_data=None, initial_epoch=0, epochs=1, callbacks=()):
        """Train, as `Captioner.fit` does, on batches of make_batches with `shares`.

        Args:
            captioner: a Captioner that was made and compiled within `scope`.
            callbacks: called on the chief alone, whose weights, optimizer and `stop_training` are sent to all at the
                end of each epoch.
        """
        if self.strategy is None:
            options = {"initial_epoch": initial_epoch, "epochs": epochs, "callbacks": list(callbacks)}
            captioner.fit(batches, validation_data=validation_data, verbose=0, **options)
            return
        with self.strategy.scope(), self._host_failures_named():
            captioner.build_for(batches)
            captioner.make_training_state()
            train = self._on_all_replicas(captioner.train_step, batches)
            measure = validation_data and self._on_all_replicas(captioner.test_step, validation_data)
            captioner.stop_training = False
            options = {"model": captioner, "epochs": epochs, "steps": self.num_steps(batches), "verbose": 0}
            called = keras.callbacks.CallbackList(list(callbacks) if self.is_chief else [], **options)
            called.on_train_begin()
            try:
                for epoch in range(initial_epoch, epochs):
                    called.on_epoch_begin(epoch)
                    self.share_state(captioner)
                    captioner.reset_metrics()
                    for step in range(self.num_steps(batches)):
                        called.on_train_batch_begin(step)
                        logs = train()
                        called.on_train_batch_end(step, logs)
                        # Hosts must leave the loop together: all have the loss, only the chief has callbacks.
                        if not math.isfinite(logs["loss"]) or (captioner.stop_training and self.num_hosts == 1):
                            break
                    if measure:
                        with captioner.averaged_weights():
                            captioner.reset_metrics()
                            for _ in range(self.num_steps(validation_data)):
                                measured = measure()
                        logs |= {f"val_{name}": value for name, value in measured.items()}
                    called.on_epoch_end(epoch, logs)
                    if self.tell(captioner.stop_training):
                        break
            finally:
                captioner.end_averaging()
            called.on_train_end()

    def measure(self, captioner, batches):
        """Return a dict of what `Captioner.evaluate` measures, of a captioner as `fit` takes it."""
        if self.strategy is None:
            return captioner.evaluate(batches, verbose=0, return_dict=True)
        with self.strategy.scope(), self._host_failures_named():
            captioner.build_for(batches)
            step = self._on_all_replicas(captioner.test_step, batches)
            captioner.reset_metrics()
            for _ in range(self.num_steps(batches)):
                measured = step()
        return measured

    def num_steps(self, batches):
        """Return how many batches there are, each of which has a share for each replica."""
        return len(batches) if self.shares is None else len(batches) // len(self.shares[0])

    def _on_all_replicas(self, step, batches):
        """Return a function that runs a step on the next batch, and returns its figures: dict of floats."""
        # A finite dataset would ask the other hosts at each step whether they have a batch left.
        iterator = iter(self.strategy.distribute_datasets_from_function(lambda _: batches.repeat()))

        @tf.function(autograph=False)
        def run(iterator):
            figures = self.strategy.run(step, args=(next(iterator),))
            return {name: self.strategy.experimental_local_results(x)[0] for name, x in figures.items()}

        return lambda: {name: float(value) for name, value in run(iterator).items()}


def _aborted_by(error):
    reason = error.message.rpartition("aborted by: ")[2].partition("\n")[0]
    return textwrap.shorten(reason, 200, placeholder=" ...")


def _check_strategy(strategy):
    if isinstance(strategy, (keras.distribution.DataParallel, keras.distribution.ModelParallel)):
        raise ValueError(
            "On TensorFlow, Keras' own distributions do nothing: the training would be on one device. Pass a "
            f"tf.distribute.MirroredStrategy(). Received: strategy={strategy!r}"
        )
    known = tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy
    if strategy is not None and not isinstance(strategy, known):
        raise ValueError(
            f"Expected a tf.distribute.MirroredStrategy or MultiWorkerMirroredStrategy. Received: strategy={strategy!r}"
        )
