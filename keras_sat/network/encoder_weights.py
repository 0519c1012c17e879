"""Load encoder weights from files without running code that the files may contain."""

import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np

from data_utils.base import file_digest
from keras_sat.checks import ArgumentError
from keras_sat.network.efficientnet_lite import assign_torch_weights, is_efficientnet_lite
from keras_sat.network.weight_paths import IMAGENET


def packaged_weights(name):
    """Return an encoder's ImageNet weights in the package: a list of arrays, in the
    order of the network's weights.
    """
    path = next(IMAGENET.glob(f"{name}-*.npz"), None)
    if path is None:
        raise ArgumentError(
            f"keras_sat has no ImageNet weights of {name}. docs/data.md has the lines that make "
            "an .npz file of the public ones.",
            way_out="its path",
            weights="imagenet",
        )
    if not path.stem.endswith(f"-{file_digest(path)[:16]}"):
        raise ValueError(f"{path}: this file is damaged. Install keras_sat again.")
    with np.load(path, allow_pickle=False) as packed:
        # Numbered, in the order of the layers.
        return [packed[name].astype(np.float32) for name in sorted(packed.files)]


def assign_weights(network, weights):
    """Load the weights of an encoder's whole network, a `keras.Model` without
    classifier.

    `weights` is a list of arrays of all weights, None to keep the current ones, or the
    path of a file: `.weights.h5`, the `.h5` that Keras downloads, or for
    EfficientNet-Lite `.npz` with the names of the PyTorch packages. A classifier in the
    file is ignored.
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
            problem += ', and "bundled" works only for a captioner, `fit` and `keras-sat features`'
        raise ArgumentError(f"The weights file {problem}.", way_out="its path", weights=str(path))
    try:
        _reject_oversized(network, path)
        with warnings.catch_warnings():
            # Keras only warns when a layer finds no weights in the file.
            warnings.simplefilter("error")
            if path.name.endswith(".weights.h5"):
                network.load_weights(path)
            elif path.suffix == ".npz":
                _load_torch_weights(network, path)
            else:
                _load_legacy_weights(network, path)
        if not all(np.isfinite(array).all() for array in network.get_weights()):
            raise ValueError("some weights are NaN or infinite")
    except Exception as error:  # a damaged file raises many kinds of errors
        reason = str(error).strip().split("\n")[0]
        raise ArgumentError(
            f"The file does not contain the weights of {network.name} without its "
            f"classifier: it is damaged or for another network ({reason}). Expected a "
            ".weights.h5 file saved by Keras 3, the .h5 file that Keras downloads or, for "
            "EfficientNet-Lite, an .npz file with PyTorch's names (docs/data.md).",
            weights=str(path),
        ) from None


def _load_torch_weights(network, path):
    """Load arrays with PyTorch names; only EfficientNet-Lite supports them."""
    if not is_efficientnet_lite(network):
        raise ValueError(".npz files are supported only for EfficientNet-Lite")
    with np.load(path, allow_pickle=False) as packed:
        assign_torch_weights(network, dict(packed))


def _load_legacy_weights(network, path):
    """Load a `.h5` file from Keras 1 or 2.

    Raise ValueError if a layer is missing, which Keras would ignore.
    """
    with h5py.File(path, "r") as file:
        names = file.get("model_weights", file).attrs["layer_names"]
        stored = {name.decode() if isinstance(name, bytes) else name for name in names}
    missing = [layer.name for layer in network.layers if layer.weights and layer.name not in stored]
    if missing:
        raise ValueError(f"the layer {missing[0]} is missing")
    network.load_weights(path, by_name=True)


def _reject_oversized(network, path):
    """Raise ValueError if a file declares far more data than the network needs, which
    could exhaust memory.
    """
    declared = _bytes_of_zip(path) if path.suffix == ".npz" else _bytes_of_h5(path)
    expected = 4 * network.count_params()
    # The top of VGG16 alone takes 0.5 GB, and optimizers more.
    if declared > 2 * expected + 4_000_000_000:
        raise ValueError(
            f"it declares {declared / 1e9:.1f} GB, but the network has {expected / 1e9:.1f} GB"
        )


def _bytes_of_zip(path):
    """Return the size of an archive's files, as it declares them."""
    with zipfile.ZipFile(path) as archive:
        return sum(entry.file_size for entry in archive.infolist())


def _bytes_of_h5(path):
    """Return the size of the arrays in an HDF5 file, as it declares them."""
    sizes = []

    def note_size(name, item):
        if isinstance(item, h5py.Dataset):
            sizes.append(item.nbytes)

    with h5py.File(path, "r") as file:
        file.visititems(note_size)
    return sum(sizes)
