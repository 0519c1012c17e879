"""Pictures of attention: the photo, and for each word of its caption where the model looked."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data_utils.atomic_files import write_whole
from data_utils.foreign_text import brief, visible
from data_utils.images import load_image
from keras_sat.options import count
from keras_sat.pictures.brightness import full_light, times_even_text
from keras_sat.pictures.player import (
    OPACITY,
    PAGE_ENDINGS,
    bounded_size,
    player_frame,
    player_page,
    shown_aspect,
    stretch_note,
)
from keras_sat.scoring.scores import unit_and_digits

if TYPE_CHECKING:
    from keras_sat.search.result import CaptionResult

LARGEST_SIDE = 1024  # pixels: a larger photo is shrunk, since every word has a panel of that size
NAN_COLOUR = (0.9, 0.0, 0.63)  # of cells whose attention is NaN
STRIP = 3  # times as wide as high, or as high as wide: such photos have another layout
CURVES = {
    "cross-entropy of a word": ("cross_entropy", "val_cross_entropy"),
    "reward": ("reward",),
    "BLEU on dev": ("val_bleu_1", "val_bleu_2", "val_bleu_3", "val_bleu_4"),
    "CIDEr on dev": ("val_cider",),
}
CURVE_NAMES = {"cross_entropy": "training", "val_cross_entropy": "dev", "reward": "training", "val_cider": "dev"}
CURVE_NAMES |= {f"val_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)}


@dataclass(frozen=True)
class AttentionDisplay:
    """A photo, its caption and the attention of each word, ready to be drawn. A notebook shows it as its player.

    Attributes:
        image: the photo: a path, a PIL image or an array with values 0..255; kept as uint8 (height, width, 3), and
            shrunk if it is larger than 1024 pixels. A panorama is drawn at most five times as wide as high, or as high
            as wide: it is stretched, not cropped, and the picture says by how much.
        words: list of the caption's words.
        attention_weights: (words, rows, columns), for a grid of any shape that covers the photo.
        from_photo: how much of each word came from the photo, (words,), from 0 to 1, of a sentinel; or None.
        confidence: the probability that the caption is right, or None; pages show it.
        aspect: the aspect ratio, width by height, of the photo before it was shrunk.
    """

    image: Any = field(repr=False)
    words: list[str]
    attention_weights: np.ndarray = field(repr=False)
    from_photo: np.ndarray | None = field(default=None, repr=False)
    confidence: float | None = None
    aspect: float = field(init=False, repr=False)

    def __post_init__(self):
        if self.image is None:
            raise ValueError("Results made from features have no photo: pass it as `image`. Received: image=None")
        words = [None] if isinstance(self.words, str) else list(self.words)
        if not all(isinstance(word, str) for word in words):
            raise ValueError(
                "Expected a list of words as text, such as a result's `words` (decode() makes text of bytes). "
                f"Received: words={brief(self.words)}"
            )
        maps = np.asarray(self.attention_weights, dtype=float)
        if maps.ndim != 3 or len(maps) != len(words) or 0 in maps.shape[1:]:
            raise ValueError(
                "Expected one map (rows, columns) for each word. "
                f"Received: {len(words)} words, attention_weights of shape {maps.shape}"
            )
        if self.from_photo is not None and np.shape(self.from_photo) != (len(words),):
            raise ValueError(
                "Expected one number from 0 to 1 for each word. "
                f"Received: {len(words)} words, from_photo of shape {np.shape(self.from_photo)}"
            )
        photo, aspect = _as_photo(self.image)
        for name, value in (("image", photo), ("words", words), ("attention_weights", maps), ("aspect", aspect)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_result(cls, result: CaptionResult, *, image: Any = None) -> AttentionDisplay:
        """Return the display of a CaptionResult; `image`, such as the photo's path, replaces the result's own."""
        if not hasattr(result, "attention_weights"):
            raise ValueError(f"Expected one CaptionResult. Received: result of type {type(result).__name__}")
        further = (getattr(result, name, None) for name in ("from_photo", "confidence"))
        return cls(result.image if image is None else image, result.words, result.attention_weights, *further)

    def upsampled(self, position: int) -> np.ndarray:
        """Return the map of the word at `position`, enlarged to (height, width) of the photo; cells of NaN stay NaN."""
        from PIL import Image

        size = self.image.shape[1::-1]
        attention_map = self.attention_weights[position].astype(np.float32)
        known = np.isfinite(attention_map)
        smooth = Image.fromarray(np.where(known, attention_map, 0)).resize(size, Image.Resampling.BICUBIC)
        shown = Image.fromarray(known.astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
        return np.where(np.array(shown) > 0, np.array(smooth).clip(min=0), np.nan)

    # === Panels ===

    def plot(
        self, ax: Any = None, *, columns: int | None = None, opacity: float = OPACITY, colour_map: Any = None
    ) -> Any:
        """Draw the photo and a panel for each word: bright where the model looked, dark elsewhere.

        Below each panel is written how many times an even share its maximum is and, with a sentinel, how much of the
        word came from the photo. Brightness follows `keras_sat.pictures.brightness`.

        Args:
            ax: an array of axes, at least one more than there are words; None makes a new figure.
            columns: panels side by side in a new figure; None takes 5, for a wide panorama 1, for a tall one 10.
            opacity: how dark a cell without attention becomes, from 0 to 1.
            colour_map: one of matplotlib's or its name, such as "jet": its colours instead, transparent where the
                model did not look; `opacity` is then that of the maximum.

        Returns: the array of axes.
        """
        _check_opacity(opacity)
        if ax is None:
            import matplotlib.pyplot as plt

            ax = self._new_axes(plt.figure, columns)
        panels, num_panels = np.asarray(ax).ravel(), len(self.words) + 1
        if len(panels) < num_panels:
            raise ValueError(f"A caption of {len(self.words)} words needs {num_panels} axes. Received: {len(panels)}")
        for panel in panels:
            panel.set_axis_off()
        panels[0].imshow(self.image, aspect=self._pixel_aspect())
        _write_below(panels[0], stretch_note(self.aspect))
        for position, (panel, word) in enumerate(zip(panels[1:], self.words)):
            self._draw_map(panel, position, opacity, colour_map)
            nan_note = "" if np.isfinite(self.attention_weights[position]).all() else " (NaN)"
            panel.set_title(visible(word) + nan_note, parse_math=False)  # matplotlib's PDF fails on U+FEFF
            _write_below(panel, self._note(position))
        return ax

    @staticmethod
    def compare(
        displays: list[AttentionDisplay],
        *,
        names: list[str] | None = None,
        ax: Any = None,
        opacity: float = OPACITY,
        colour_map: Any = None,
    ) -> Any:
        """Draw several captions, a row each, as the paper compares soft and hard attention.

        Args:
            displays: list of AttentionDisplay or of CaptionResult, such as [soft, hard, none].
            names: list of a name for each row.
            ax: an array of axes, a row for each display, with at least one more column than there are words; None makes
                a new figure.
            opacity, colour_map: see `plot`.

        Returns: the array of axes.
        """
        displays = [
            item if isinstance(item, AttentionDisplay) else AttentionDisplay.from_result(item) for item in displays
        ]
        names = [""] * len(displays) if names is None else names
        if not displays or isinstance(names, str) or len(names) != len(displays):
            raise ValueError(
                "Expected at least one display, and a list with a name for each. "
                f"Received: {len(displays)} displays, names={brief(names)}"
            )
        if ax is None:
            import matplotlib.pyplot as plt

            columns = max(len(display.words) for display in displays) + 1
            height = sum(display._size(columns, 1)[1] for display in displays)
            _, ax = plt.subplots(
                len(displays), columns, figsize=(2 * columns, height), layout="constrained", squeeze=False
            )
        if np.ndim(ax) != 2 or len(ax) != len(displays):
            raise ValueError(f"Expected axes (rows, columns), {len(displays)} rows. Received: shape {np.shape(ax)}")
        for row, display, name in zip(ax, displays, names):
            display.plot(row, opacity=opacity, colour_map=colour_map)
            row[0].set_title(visible(name), parse_math=False)
        return ax

    def save(self, path: str | os.PathLike, *, columns: int | None = None, **options: Any) -> None:
        """Draw the same into a picture file, of the type that the name's ending says."""
        from matplotlib.figure import Figure

        path = Path(path).expanduser()
        if path.is_dir():
            raise ValueError(f"Expected the name of a picture file, not a folder. Received: {str(path)!r}")
        path = path if path.suffix else path.with_suffix(".png")
        axes = self.plot(self._new_axes(Figure, columns), **options)
        drawing = io.BytesIO()
        axes[0, 0].figure.savefig(drawing, format=path.suffix[1:].lower())
        write_whole(path, drawing.getvalue())

    def _note(self, position):
        """Return what is written below the map of a word."""
        note = times_even_text(self.attention_weights[position])
        if self.from_photo is None or not np.isfinite(self.from_photo[position]):
            return note
        return ", ".join(filter(None, (f"{100 * float(self.from_photo[position]):.0f} % photo", note)))

    def _full_light(self, position):
        share = 1.0 if self.from_photo is None else float(self.from_photo[position])
        return full_light(self.attention_weights[position], share)

    def _draw_map(self, panel, position, opacity, colour_map):
        import matplotlib

        attention_map = self.upsampled(position)
        full = self._full_light(position)
        colours = matplotlib.colormaps.get_cmap("gray" if colour_map is None else colour_map)
        alpha = opacity
        if colour_map is not None:
            alpha = opacity * np.where(np.isfinite(attention_map), (attention_map / full).clip(max=1), 1)
        pixels = self._pixel_aspect()
        panel.imshow(self.image, aspect=pixels)
        colours = colours.with_extremes(bad=NAN_COLOUR)
        panel.imshow(attention_map, cmap=colours, alpha=alpha, vmin=0, vmax=full, aspect=pixels)

    def _pixel_aspect(self):
        """Return the height of a drawn pixel by its width: 1, except of a panorama."""
        height, width = self.image.shape[:2]
        return width / height / shown_aspect(self.image)

    def _new_axes(self, make_figure, columns):
        """Return the axes of a new figure, (rows, columns)."""
        if columns is None:
            aspect, num_panels = shown_aspect(self.image), len(self.words) + 1
            columns = 1 if aspect > STRIP else min(num_panels, 10) if aspect < 1 / STRIP else 5
        count().check("columns", columns)
        rows = math.ceil((len(self.words) + 1) / columns)
        figure = make_figure(figsize=self._size(columns, rows), layout="constrained")
        return figure.subplots(rows, columns, squeeze=False)

    def _size(self, columns, rows):
        """Return width and height of a figure in inches."""
        aspect = shown_aspect(self.image)
        width = max(2, 8 / columns) if aspect > STRIP else 1.3 if aspect < 1 / STRIP else 2
        return width * columns, rows * (width / aspect + 0.6)

    # === The cartoon and the player ===

    def animate(
        self,
        path: str | os.PathLike,
        *,
        seconds_per_word: float = 0.7,
        width: int | None = None,
        opacity: float = OPACITY,
    ) -> None:
        """Write a GIF: the caption appears word by word, while the light moves over the photo as in `plot`.

        Args:
            path: of the file, ending in .gif.
            seconds_per_word: how long each word stays.
            width: of the picture in pixels; None takes 240, for a wide panorama 480, for a tall one 120.
            opacity: see `plot`.
        """
        from keras_sat.pictures.cartoon import write_cartoon

        _check_opacity(opacity)
        if width is None:
            aspect = shown_aspect(self.image)
            width = 480 if aspect > STRIP else 120 if aspect < 1 / STRIP else 240
        lights = [self.upsampled(i) / self._full_light(i) for i in range(len(self.words))]
        notes = [stretch_note(self.aspect), *map(self._note, range(len(self.words)))]
        options = {"seconds_per_word": seconds_per_word, "width": width, "opacity": opacity}
        write_cartoon(path, self.image, self.words, lights, notes, **options)

    def to_html(self, path: str | os.PathLike, *, title: str | None = None, opacity: float = OPACITY) -> None:
        """Write the player: one HTML page that needs no other file and no network.

        Args:
            path: of the file, ending in .html.
            title: of the page; None takes the caption.
            opacity: of the map at first, from 0 to 1.
        """
        path = Path(path).expanduser()
        if path.suffix.lower() not in ("", *PAGE_ENDINGS) or path.is_dir():
            raise ValueError(f"Expected the name of a page, ending in .html. Received: {str(path)!r}")
        _check_opacity(opacity)
        write_whole(path, player_page(self, title=title, opacity=opacity))

    def _repr_html_(self):
        return player_frame(player_page(self), self.words, shown_aspect(self.image))


def plot_history(history: Any, ax=None) -> Any:
    """Draw the curves of a training: cross-entropy, the reward, and the scores of the dev split's captions.

    Args:
        history: `captioner.history`, a trained captioner, a dict from a name to its value in each epoch, or the folder
            of a training by `fit` (with its history.csv).
        ax: an array of axes, one for each kind of figure; None makes a new figure.

    Returns: the array of axes.
    """
    history = _curves_of(history)
    kinds = {
        title: [name for name in names if name in history and np.isfinite(history[name]).any()]
        for title, names in CURVES.items()
    }
    kinds = {title: names for title, names in kinds.items() if names}
    if not kinds:
        known = ", ".join(name for names in CURVES.values() for name in names)
        raise ValueError(f"Expected at least one of: {known}. Received: history with {', '.join(history) or 'nothing'}")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(1, len(kinds), figsize=(4 * len(kinds), 3.6), layout="constrained", squeeze=False)
        ax = ax[0]
    panels = np.asarray(ax).ravel()
    if len(panels) < len(kinds):
        raise ValueError(f"This history needs {len(kinds)} axes: {', '.join(kinds)}. Received: {len(panels)}")
    for panel, (title, names) in zip(panels, kinds.items()):
        for name in names:
            unit, _ = unit_and_digits(name.removeprefix("val_"))
            values = unit * np.asarray(history[name], dtype=float)
            panel.plot(np.arange(1, len(values) + 1), values, marker=".", label=CURVE_NAMES[name])
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4, ncols=2)  # below, off the curves
    return ax


def _curves_of(history):
    """Return the mapping from a name to its value in each epoch, of whatever `plot_history` takes."""
    if isinstance(history, (str, os.PathLike)):
        return _read_history(Path(history).expanduser())
    curves = history
    while not isinstance(curves, Mapping):
        if not hasattr(curves, "history"):
            raise ValueError(
                "Expected `captioner.history` after `fit`, or the folder of the training. A captioner that was loaded "
                f"has no history. Received: history of type {type(history).__name__}"
            )
        curves = curves.history
    return curves


def _read_history(path):
    """Return the history.csv of a training: a dict from a name to its value in each epoch."""
    path = path / "history.csv" if path.is_dir() else path
    try:
        with open(path, newline="", encoding="utf-8") as file:
            names, *rows = csv.reader(file)
        return dict(zip(names, np.array(rows, dtype=float).T.tolist(), strict=True))
    except (ValueError, csv.Error):
        raise ValueError(f"{path}: this is not a history.csv that `fit` wrote.") from None


def _as_photo(image):
    """Return a photo as uint8 (height, width, 3), shrunk if it is very large, and its aspect ratio before."""
    if not (isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3):
        image = load_image(image)
    height, width = image.shape[:2]
    size = bounded_size(height, width, LARGEST_SIDE)
    return image if size == (height, width) else load_image(image, size), width / max(height, 1)


def _write_below(panel, text):
    """Write a small line below a panel."""
    panel.text(0.5, -0.03, text, transform=panel.transAxes, ha="center", va="top", fontsize="small", parse_math=False)


def _check_opacity(opacity):
    if not 0 <= opacity <= 1:
        raise ValueError(f"Expected a number from 0 to 1. Received: opacity={opacity}")
