"""Checkpoints at the end of an epoch, which contain everything needed to resume
training exactly.

    progress.json       the metrics of each epoch so far, and the name of the other file
    state-DIGEST.npz    weights, optimizer, baseline and the state of every random
                        generator

A new state is written next to the old one, and then progress.json is replaced. If the
process is killed at any moment, the folder contains a complete checkpoint.
"""

import re
from pathlib import Path

from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat.files.model_folder import read_arrays, remove_others, write_arrays

EXPECTED = "a training run that keras_sat.fit saved"
STATE = re.compile(r"state-[0-9a-f]{16}\.npz")
CHECKPOINT_WAY_OUT = (
    "It cannot be resumed. Pass another output_dir (initial_model=FOLDER/model starts from "
    "its best weights)."
)


def write_checkpoint(directory, captioner, epochs):
    """Write the state of a compiled captioner, and `epochs`, a list with a dict of
    metrics for each epoch.
    """
    directory = Path(directory)
    arrays = {name: variable.numpy() for name, variable in state_of(captioner).items()}
    name = write_arrays(directory, "state", arrays)
    write_sealed_json(directory / "progress.json", {"epochs": epochs, "state": name})
    remove_others(directory, re.compile(rf"{STATE.pattern}|\..*\.part"), [name])


def read_checkpoint(directory):
    """Read a checkpoint; return (epochs, arrays), or ([], {}) if there is none."""
    directory = Path(directory)
    if not (directory / "progress.json").exists():
        return [], {}
    progress = read_sealed_json(directory / "progress.json", EXPECTED, CHECKPOINT_WAY_OUT)
    try:
        epochs = [dict(figures) for figures in progress["epochs"]]
        name = STATE.fullmatch(progress["state"])[0]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{directory / 'progress.json'}: this is not a checkpoint. Expected: {EXPECTED}."
        ) from None
    return epochs, read_arrays(directory / name, EXPECTED, CHECKPOINT_WAY_OUT)


def state_of(captioner):
    """Return all variables that training changes, as a dict by name."""
    # Variables have no unique names; they are numbered in the order in which the model
    # creates them.
    parts = {"optimizer": captioner.make_training_state(), "model": captioner.variables}
    return {
        f"{part}/{i:04d}": variable
        for part, variables in parts.items()
        for i, variable in enumerate(variables)
    }
