"""Run by test_distribution.py in processes of their own: trainings on several replicas,
and the same on one.

python distributed_trainings.py devices FOLDER              on two logical CPUs, and on
                                                            one
python distributed_trainings.py host FOLDER NUMBER [BATCH]  on a host of TF_CONFIG; it
                                                            kills itself in that batch
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

NO_DROPOUT = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
SIZES = {
    "encoder": "tiny",
    "image_size": 32,
    "embedding_dim": 4,
    "hidden_dim": 6,
    "attention_dim": 4,
    "patience": None,
}
# All that is drawn by chance, gradients longer than their bound, and a last batch of
# one photo, for two replicas.
HARD = {
    "attention": "hard",
    "num_samples": 2,
    "expectation_epochs": 1,
    "group_by": "image",
    "batch_size": 15,
    "epochs": 2,
    "clip_norm": 0.5,
    "learning_rate": 0.02,
    "schedule": "cosine",
    "average_momentum": 0.5,
    "encoder_rate": 0.5,
}
# Cached features, of an encoder that each host makes when it needs it: when resumed,
# for rewards alone.
FROZEN = {
    "encoder_training": "frozen",
    "learning_rate": 0.02,
    "group_by": "image",
    "batch_size": 15,
}
FROZEN |= {
    "epochs": 1,
    "self_critical_epochs": 2,
    "clip_norm": 0.5,
    "self_critical_rate": 1e-3,
}
FROZEN |= {"max_length": 8, "reward_baseline": "others"}
WEIGHTS = "tiny.weights.h5"  # of that encoder


def scenes():
    """Return photos for training alone: without others, the last epoch counts as the
    best.
    """
    from data_utils import DATASETS

    return [
        image for image in DATASETS["scenes"](None, num_scenes=12, seed=3) if image.split == "train"
    ]


def train(folder, strategy=None, **options):
    import keras_sat

    options = {**NO_DROPOUT, **SIZES, **options}
    return keras_sat.fit(
        scenes(), output_dir=folder, strategy=strategy, show_progress=False, **options
    )


def write_result(path, captioner):
    """Write what a training has come to: all weights, and the curves."""
    weights = {name: weight.numpy() for name, weight in captioner.named_weights().items()}
    curves = {
        f"curve/{name}": values for name, values in captioner.history.items() if name != "seconds"
    }
    np.savez(path, **weights, **curves)


def train_on_devices(folder):
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    import keras_sat
    from keras_sat.training import several_gpus

    two = several_gpus(2, kind="CPU")
    keras_sat.ENCODERS["tiny"](image_size=SIZES["image_size"]).save_weights(folder / WEIGHTS)
    for name, options in (
        ("hard", HARD),
        ("frozen", {**FROZEN, "encoder_weights": folder / WEIGHTS}),
    ):
        for count, strategy in ((1, None), (2, two)):
            captioner = train(folder / f"{name}-{count}", strategy, **options)
            write_result(folder / f"{name}-{count}.npz", captioner)
    image = scenes()[0].image_path  # the scope has ended: captions are those of any other captioner
    print(
        json.dumps(
            [
                captioner.caption(image).caption,
                captioner.history["reward"][-1],
                seeds_of_dropout(two),
            ]
        )
    )


def seeds_of_dropout(strategy):
    """Return the state of a dropout's random generator on each device, and that of hard
    attention's.
    """
    from keras_sat import Captioner
    from keras_sat.training import Cluster

    with strategy.scope():
        captioner = Captioner(["a"], encoder=None, attention="hard")
    for _ in range(2):  # the second time nothing changes
        Cluster(strategy).share_state(captioner)
    generators = captioner.decoder.readout.drop_before.seed_generator, captioner.random_generator
    copies = [
        strategy.experimental_local_results(generator.state.value) for generator in generators
    ]
    return [[copy.numpy().tolist() for copy in of_generator] for of_generator in copies]


def train_on_host(folder, number, kill_in=None):
    import keras

    from keras_sat.training import several_hosts

    strategy = several_hosts()
    begin_batch, batches = keras.callbacks.CallbackList.on_train_batch_begin, []

    def count(called, batch, logs=None):
        begin_batch(called, batch, logs)
        batches.append(batch)
        if len(batches) == kill_in:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    keras.callbacks.CallbackList.on_train_batch_begin = count
    for name, options in (
        ("hard", HARD),
        ("frozen", {**FROZEN, "encoder_weights": folder / WEIGHTS}),
    ):
        write_result(folder / f"{name}-{number}.npz", train(folder / name, strategy, **options))


if __name__ == "__main__":
    kind, folder, *further = sys.argv[1:]
    if kind == "devices":
        train_on_devices(Path(folder))
    else:
        train_on_host(Path(folder), *map(int, further))
