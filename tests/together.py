"""Run by test_distribution.py in processes of their own: trainings on several replicas, and the same on one.

python together.py devices FOLDER          on two and on three logical CPUs, and on one
python together.py host FOLDER [EPOCH]     on one of the hosts of TF_CONFIG; it kills itself in that epoch
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
QUIET = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
SIZES = {"encoder": "tiny", "embedding_dim": 4, "hidden_dim": 6, "attention_dim": 4, "epochs": 3, "patience": None}
# With bounds that the gradients exceed, and batches that leave some of three replicas without a caption.
HARD = {"attention": "hard", "group_by": "image", "batch_size": 20, "num_samples": 2, "average_momentum": 0.5}
HARD |= {
    "clip_norm": 0.5,
    "learning_rate": 0.02,
    "schedule": "cosine",
    "expectation_epochs": 1,
    "attention_penalty_weight": 0.1,
}
SOFT = {"attention": "soft", "group_by": "length", "batch_size": 7, "epochs": 1, "clip_norm": 0.5, "optimizer": "sgd"}
REWARDS = {"epochs": 1, "self_critical_epochs": 2, "num_drawn": 3, "self_critical_rate": 0.01}


def train(folder, strategy=None, **options):
    from data_utils import DATASETS
    import keras_sat

    images = DATASETS["scenes"](None, num_scenes=20, seed=3)
    return keras_sat.fit(
        images, output_dir=folder, strategy=strategy, show_progress=False, **{**QUIET, **SIZES, **options}
    )


def report(name, captioner):
    """Print what the training has come to."""
    weights = [weight.numpy().tolist() for weight in captioner.weights if weight.dtype == "float32"]
    history = {name: values for name, values in captioner.history.items() if name != "seconds"}
    print(json.dumps({"name": name, "weights": weights, "history": history}), flush=True)


def train_on_devices():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    from keras_sat.distribution import several_gpus

    three = several_gpus(3, kind="CPU")
    for name, options in (("hard", HARD), ("soft", SOFT), ("rewards", {**HARD, **REWARDS})):
        report(name, train(FOLDER / f"{name}-1", **options))
        report(name, train(FOLDER / f"{name}-3", three, **options))


def train_on_host(kill_in=None):
    from keras_sat.distribution import Team, several_hosts

    strategy = several_hosts()
    share_state, epochs = Team.share_state, []

    def count(self, captioner):
        share_state(self, captioner)
        epochs.append(True)
        if len(epochs) == kill_in:
            os.kill(os.getpid(), signal.SIGKILL)

    Team.share_state = count
    report("host", train(FOLDER, strategy, **HARD))


if KIND == "devices":
    train_on_devices()
else:
    train_on_host(*map(int, sys.argv[3:]))
