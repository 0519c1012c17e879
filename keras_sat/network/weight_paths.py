"""Where weights are: in the package, and in the download folder of Keras."""

import os
from pathlib import Path

# Made by benchmarks/flickr8k/bundle_imagenet.py.
IMAGENET = Path(__file__).parents[1] / "files" / "pretrained" / "imagenet"


def keras_home():
    """Return the folder of Keras' downloads: KERAS_HOME, unless it is empty, or
    ~/.keras.
    """
    return Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
