"""A small training with everything that is drawn by chance: `python small_training.py
FOLDER [WHEN]`.

WHEN: "in-epoch" kills the process in the middle of its third epoch, "in-save" while the
second checkpoint is written. As a program, it trains three epochs, to be repeated bit
for bit. Hard attention with dropout needs every part of the state: weights, optimizer,
learning rate, baseline, and all random generators.
"""

import os
import signal
import subprocess
import sys

import keras

import keras_sat
from data_utils import DATASETS

OPTIONS = {
    "encoder": "tiny",
    "attention": "hard",
    "attention_penalty_weight": 0.0,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "attention_dim": 8,
    "epochs": 4,
    "batch_size": 40,
    "group_by": "image",
    "learning_rate": 3e-3,
    "schedule": "cosine",
    "warmup_steps": 3,
    "average_momentum": 0.5,
    "expectation_epochs": 1,
    "seed": 5,
}
SELF_CRITICAL = {"self_critical_epochs": 3, "self_critical_rate": 1e-3}


class At(keras.callbacks.Callback):
    """Do something in the second batch of an epoch."""

    def __init__(self, epoch, action):
        super().__init__()
        self.epoch, self.action, self.current = epoch, action, None

    def on_epoch_begin(self, epoch, logs=None):
        self.current = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if (self.current, batch) == (self.epoch, 1):
            self.action()


def train(output_dir, *, splits=("train", "dev", "test"), **options):
    images = [
        image for image in DATASETS["scenes"](None, num_scenes=40, seed=3) if image.split in splits
    ]
    return keras_sat.fit(
        images, output_dir=output_dir, **{"show_progress": False, **OPTIONS, **options}
    )


def run_training(folder, *arguments):
    """Run this file as a process of its own."""
    return subprocess.run(
        [sys.executable, __file__, folder, *arguments], capture_output=True, text=True
    )


def kill():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def kill_at_the_second_checkpoint():
    rename, seen = os.replace, []

    def replace(source, target):
        seen.append(str(target))
        if sum(name.endswith("progress.json") for name in seen) == 2:
            kill()
        rename(source, target)

    os.replace = replace


if __name__ == "__main__":
    folder, when = [*sys.argv[1:], ""][:2]
    callbacks = []
    if when == "in-epoch":
        callbacks.append(At(2, kill))
    elif when == "in-save":
        kill_at_the_second_checkpoint()
    options = {"deterministic": True, "epochs": 3, "splits": ["train"]}
    captioner = train(folder, callbacks=callbacks, show_progress=True, **options)
    print("digest:", captioner.weights_digest())
