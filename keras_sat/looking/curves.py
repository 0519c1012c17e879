"""Plot training curves."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.base import brief
from keras_sat.measuring import unit_and_digits

# From the title of each plot to its curves: from a name in the history to its label.
CURVES = {
    "cross-entropy per word": {"cross_entropy": "training", "val_cross_entropy": "dev"},
    "reward": {"reward": "training"},
    "BLEU on dev": {f"val_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    "CIDEr on dev": {"val_cider": "dev"},
}


def plot_history(history: Any, ax=None) -> Any:
    """Plot training curves, cross-entropy, reward and caption scores on the dev split;
    return the array of axes.

    Args:
        history: `captioner.history`, a trained captioner, a dict from a name to its
            values per epoch, or the output folder of `fit` (with history.csv).
        ax: an array of axes, one for each kind of curve; None makes a new figure.
    """
    if isinstance(history, (str, os.PathLike)):
        history = _read_history(Path(history).expanduser())
    while hasattr(history, "history"):  # of a captioner, and of Keras' History
        history = history.history
    plots = _plots_of(history) if isinstance(history, Mapping) else {}
    if not plots:
        expected = (
            "Expected `captioner.history` or the output folder of `fit`; a loaded captioner "
            "has no history."
        )
        raise ValueError(f"{expected} Received: history={brief(history)}")
    if ax is None:
        import matplotlib.pyplot as plt

        size = (4 * len(plots), 3.6)
        _, rows = plt.subplots(1, len(plots), figsize=size, layout="constrained", squeeze=False)
        (ax,) = rows
    if np.size(ax) < len(plots):
        raise ValueError(
            f"This history needs {len(plots)} axes: {', '.join(plots)}. Received: {np.size(ax)}"
        )
    for panel, (title, curves) in zip(np.ravel(ax), plots.items()):
        _draw_curves(panel, title, curves)
    return ax


def _read_history(path):
    """Return the columns of history.csv, given its path or its folder's."""
    file = path / "history.csv" if path.is_dir() else path
    table = np.genfromtxt(file, delimiter=",", names=True)
    return {name: np.atleast_1d(table[name]) for name in table.dtype.names}


def _plots_of(history):
    """Return a dict from the title of each plot to a dict from the names of its curves
    to their values, without curves that have no finite value.
    """
    plots = {}
    for title, labels in CURVES.items():
        curves = {}
        for name in labels:
            if name in history and np.isfinite(history[name]).any():
                curves[name] = np.asarray(history[name], dtype=float)
        if curves:
            plots[title] = curves
    return plots


def _draw_curves(panel, title, curves):
    """Draw one plot of `_plots_of`."""
    for name, values in curves.items():
        unit, _ = unit_and_digits(name.removeprefix("val_"))
        epochs = np.arange(1, len(values) + 1)
        panel.plot(epochs, unit * values, marker=".", label=CURVES[title][name])
    panel.set_title(title)
    panel.set_xlabel("epoch")
    panel.xaxis.get_major_locator().set_params(integer=True)
    # below, off the curves
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4, ncols=2)
