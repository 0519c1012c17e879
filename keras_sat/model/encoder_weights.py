"""Weights files of encoders: read as data, with a message that says what is wrong and what to pass instead."""

import contextlib
import re
import warnings
from pathlib import Path

import h5py


@contextlib.contextmanager
def weights_called(name, whose=""):
    """Inside the block, messages about the argument `weights` call it as the caller's own caller knows it.

    Args:
        name: what it is called there: "encoder_weights".
        whose: what the first mention is followed by, for example " of Captioner.load".
    """
    try:
        yield
    except ValueError as error:
        text = re.sub(r"(?<=as )`weights`", f"`{name}`{whose}", str(error))
        raise ValueError(re.sub(r"(?<![\w.-])weights(?==)", name, text)) from None


def load_encoder_weights(network, path):
    """Load weights into a network of keras.applications: `.weights.h5`, or the `.h5` files that Keras downloads.

    Args:
        network: the network without its top.
        path: the file. An `.h5` file may hold the top too; it is left out.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ValueError(
            f"The weights file does not exist. Pass where it lies now as `weights`. Received: weights={str(path)!r}"
        )
    try:
        _refuse_oversized(network, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Keras only warns when a layer finds no weights in the file
            if path.name.endswith(".weights.h5"):
                network.load_weights(path)
            else:
                _load_legacy_weights(network, path)
    except Exception as error:  # readers of damaged files raise errors of many kinds
        reason = str(error).strip().split("\n")[0]
        if "layer_names" in reason and not path.name.endswith(".weights.h5"):
            reason += "; a file that Keras 3 saved must be called NAME.weights.h5"
        raise ValueError(
            f"The file does not hold the weights of {network.name} without top, or is damaged ({reason}). Expected: "
            "a .weights.h5 file that Keras 3 saved, or the .h5 file that keras.applications downloads. "
            f"Received: weights={str(path)!r}"
        ) from None


def _refuse_oversized(network, path):
    """Raise ValueError for a file that claims to hold far more than the network: it would not fit into memory."""
    claimed = []
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: claimed.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    expected = 4 * network.count_params()
    if sum(claimed) > 2 * expected + 4_000_000_000:  # the top of VGG16 alone has 0.5 GB, and optimizers more
        raise ValueError(f"it claims {sum(claimed) / 1e9:.1f} GB for a network of {expected / 1e9:.1f} GB")


def _load_legacy_weights(network, path):
    """Load the `.h5` format of Keras 1 and 2 layer by layer, and insist that no layer is left without."""
    with h5py.File(path, "r") as file:
        group = file.get("model_weights", file)
        in_file = {_text(name): group[_text(name)] for name in group.attrs["layer_names"]}
        for layer in network.layers:
            if not layer.weights:
                continue
            if layer.name not in in_file:
                raise ValueError(f"the layer {layer.name} is missing")
            stored = in_file[layer.name]
            arrays = [stored[_text(name)][()] for name in stored.attrs["weight_names"]]
            expected = [tuple(weight.shape) for weight in layer.weights]
            if [array.shape for array in arrays] != expected:
                raise ValueError(
                    f"the layer {layer.name} has the shapes {[array.shape for array in arrays]} instead of {expected}"
                )
            layer.set_weights(arrays)


def _text(name):
    return name.decode() if isinstance(name, bytes) else name
