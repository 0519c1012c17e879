"""The command `info`: what a bug report needs."""

import os
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

import keras_sat
from data_utils.base import import_tensorflow, visible
from data_utils.datasets import DATASETS
from keras_sat.commands.flags import add_values
from keras_sat.network import keras_home

DESCRIPTION = "Print versions, devices, and the data, encoder weights and models that were found."


def add_arguments(parser):
    add_values(parser, "DIR", data_dir="look for data sets in this folder")


def run(data_dir=None):
    """Print the versions, devices and files that a bug report needs."""
    from keras_sat.files import WEIGHTS_LICENSE, pretrained_names

    print(f"keras_sat {keras_sat.__version__} in {Path(keras_sat.__file__).parent}")
    print(f"Python {platform.python_version()} on {platform.platform()}")
    for package in ("tensorflow", "keras", "numpy", "pillow", "matplotlib", "nltk"):
        print(f"{package} {version(package)}")
    devices = [device.name for device in import_tensorflow().config.list_physical_devices()]
    print(f"devices: {', '.join(devices)}; {os.cpu_count()} CPU cores")
    _print_encoder_weights()
    print(f"bundled models: {', '.join(pretrained_names())}")
    print(
        f"their licence: {WEIGHTS_LICENSE}; photo captioners are for non-commercial "
        "research and education only"
    )
    if data_dir is not None:
        _print_data_sets(data_dir)


def _print_encoder_weights():
    """Print which encoder weights Keras has downloaded."""
    folder = keras_home() / "models"
    files = sorted(path.name for path in folder.glob("*.h5"))
    print(f"encoder weights in {visible(folder)}: {visible(', '.join(files)) or 'none'}")


def _print_data_sets(data_dir):
    """Print how much each reader of a data set finds in a folder, or why nothing."""
    for name, read in DATASETS.items():
        if name == "scenes":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                images = read(data_dir)
        except (ValueError, OSError) as error:
            print(f"data: {name}: {visible(str(error).partition(' Received: ')[0])}")
            continue
        num_captions = sum(len(image.captions) for image in images)
        print(f"data: {name}: {len(images)} photos, {num_captions} captions")
