"""Pictures of attention: the photo, and for each word of its caption where the model looked."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class AttentionDisplay:
    """A photo, its caption and the attention of each word, ready to be drawn.

    Attributes:
        image: the photo, an array (height, width, 3) with values 0..255, or a PIL image.
        words: list of the caption's words.
        attention_weights: (words, rows, columns).
    """

    image: Any
    words: list
    attention_weights: np.ndarray

    def __post_init__(self):
        image, maps = np.asarray(self.image), np.asarray(self.attention_weights)
        if image.ndim != 3:
            raise ValueError(
                "Expected the photo as an array (height, width, 3). Results that were made from features alone have "
                f"none: pass it as `image`. Received: image of shape {image.shape}"
            )
        if maps.ndim != 3 or len(maps) != len(self.words):
            raise ValueError(
                "Expected one map (rows, columns) for each word. "
                f"Received: {len(self.words)} words, attention_weights of shape {maps.shape}"
            )
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "attention_weights", maps)

    @classmethod
    def from_result(cls, result, *, image=None):
        """Return the display of a CaptionResult; `image` stands in where the result has no photo."""
        if not hasattr(result, "attention_weights"):
            raise ValueError(f"Expected one CaptionResult. Received: result of type {type(result).__name__}")
        return cls(result.image if image is None else image, result.words, result.attention_weights)

    def upsampled(self, position):
        """Return the map of the word at `position` as smooth as a photo: (height, width), values of at least 0."""
        from PIL import Image

        height, width = self.image.shape[:2]
        attention_map = Image.fromarray(np.asarray(self.attention_weights[position], dtype=np.float32))
        return np.array(attention_map.resize((width, height), Image.Resampling.BICUBIC)).clip(min=0)

    def plot(self, ax=None, *, columns=5, opacity=0.75):
        """Draw the photo and a panel for each word: bright where the model looked, dark elsewhere.

        Args:
            ax: an array of axes, one more than there are words at least; None makes a new figure.
            columns: panels side by side in a new figure.
            opacity: how dark a place becomes that was not looked at, from 0 to 1.

        Returns: the array of axes; those that are not needed are switched off.
        """
        num_panels = len(self.words) + 1
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(*self._grid(columns), figsize=self._size(columns), layout="constrained", squeeze=False)
        panels = np.asarray(ax).ravel()
        if len(panels) < num_panels:
            raise ValueError(f"A caption of {len(self.words)} words needs {num_panels} axes. Received: {len(panels)}")
        for panel in panels:
            panel.set_axis_off()
        panels[0].imshow(self.image)
        for position, (panel, word) in enumerate(zip(panels[1:], self.words)):
            attention_map = self.upsampled(position)
            panel.imshow(self.image)
            panel.imshow(attention_map, cmap="gray", alpha=opacity, vmin=0, vmax=max(attention_map.max(), 1e-12))
            panel.set_title(word)
        return ax

    def save(self, path, *, columns=5, **options):
        """Draw the same into a picture file; the kind of file follows from the name's ending."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=self._size(columns), layout="constrained")
        self.plot(figure.subplots(*self._grid(columns), squeeze=False), **options)
        figure.savefig(path)

    def _grid(self, columns):
        return math.ceil((len(self.words) + 1) / columns), columns

    def _size(self, columns):
        height, width = self.image.shape[:2]
        rows, columns = self._grid(columns)
        return 2 * columns, rows * (2 * height / width + 0.4)
