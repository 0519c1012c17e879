"""Plot a photo and, for each word of its caption, where the model looked."""

from __future__ import annotations

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
from keras_sat.pictures.brightness import NAN_COLOUR, full_light, times_uniform
from keras_sat.pictures.player import player_frame, player_page
from keras_sat.scoring.scores import unit_and_digits

if TYPE_CHECKING:
    from keras_sat.search.result import CaptionResult

OPACITY = 0.75
LARGEST_SIDE = 1024  # pixels: a larger photo is shrunk, since every word has a panel of that size
STEEPEST_ASPECT = 5  # a longer panorama would be drawn as a line
CURVES = {
    "cross-entropy per word": {"cross_entropy": "training", "val_cross_entropy": "dev"},
    "reward": {"reward": "training"},
    "BLEU on dev": {f"val_bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    "CIDEr on dev": {"val_cider": "dev"},
}


@dataclass(frozen=True)
class AttentionDisplay:
    """A photo, its caption and the attention map of each word, ready to plot. Notebooks show it as a player.

    Attributes:
        image: the photo: a path, a PIL image or an array with values 0..255; kept as uint8 (height, width, 3), and
            shrunk if it is larger than 1024 pixels. A panorama is stretched to an aspect ratio of 5 or 1/5.
        words: list of the caption's words.
        attention_weights: (words, rows, columns), for a grid of any shape that covers the photo.
        from_photo: with a sentinel, the fraction of each word that came from the photo, (words,); else None.
        confidence: the probability that the caption is right, or None; pages show it.
    """

    image: Any = field(repr=False)
    words: list[str]
    attention_weights: np.ndarray = field(repr=False)
    from_photo: np.ndarray | None = field(default=None, repr=False)
    confidence: float | None = None

    def __post_init__(self):
        if self.image is None:
            raise ValueError("A result computed from features has no photo: pass one as `image`. Received: image=None")
        if isinstance(self.words, str) or not all(isinstance(word, str) for word in self.words):
            raise ValueError(f"`words` must be a list of words. Received: words={brief(self.words)}")
        words, maps = list(self.words), np.asarray(self.attention_weights, dtype=float)
        num_fractions = len(words) if self.from_photo is None else len(self.from_photo)
        if maps.ndim != 3 or not len(maps) == len(words) == num_fractions:
            raise ValueError(
                "Expected, for each word, one map (rows, columns) and, with a sentinel, one number in `from_photo`. "
                f"Received: {len(words)} words, attention_weights of shape {maps.shape}, {num_fractions} numbers"
            )
        for name, value in (("image", _as_photo(self.image)), ("words", words), ("attention_weights", maps)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_result(cls, result: CaptionResult, *, image: Any = None) -> AttentionDisplay:
        """Make an AttentionDisplay from a CaptionResult; `image`, such as a path, replaces the result's photo."""
        if not hasattr(result, "attention_weights"):
            raise ValueError(f"`result` must be a single CaptionResult. Received: {brief(result)}")
        image = result.image if image is None else image
        return cls(image, result.words, result.attention_weights, result.from_photo, result.confidence)

    def upsampled(self, position: int) -> np.ndarray:
        """Return the map of the word at `position`, resized to the photo's size; NaN spreads to pixels nearby."""
        from PIL import Image

        attention_map = Image.fromarray(self.attention_weights[position].astype(np.float32))
        return np.array(attention_map.resize(self.image.shape[1::-1], Image.Resampling.BICUBIC)).clip(min=0)

    def _light(self, position):
        """Return the resized map of a word, scaled so that 1 is fully bright."""
        fraction = 1.0 if self.from_photo is None else float(self.from_photo[position])
        return self.upsampled(position) / full_light(self.attention_weights[position], fraction)

    def _note(self, position):
        """Return the line of text below the map of a word."""
        note = f"{times_uniform(self.attention_weights[position]):.1f} × uniform"
        return note if self.from_photo is None else f"{100 * self.from_photo[position]:.0f} % photo, {note}"

    # === Panels ===

    def plot(
        self, ax: Any = None, *, columns: int | None = None, opacity: float = OPACITY, colour_map: Any = None
    ) -> Any:
        """Draw the photo and a panel for each word: bright where the model looked, dark elsewhere.

        The text below a panel shows the maximum of the map as a multiple of the uniform weight and, with a sentinel,
        how much of the word came from the photo. For the brightness see `keras_sat.pictures.brightness`.

        Args:
            ax: an array of axes, at least one more than there are words; None makes a new figure.
            columns: panels per row in a new figure; None uses 5.
            opacity: how dark a cell without attention becomes, from 0 to 1.
            colour_map: a matplotlib colour map or its name, such as "jet", instead of light; it is transparent where
                the model did not look, and `opacity` applies to the maximum.

        Returns: the array of axes.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = self._new_axes(plt.figure, columns)
        panels, num_panels = np.ravel(ax), len(self.words) + 1
        if len(panels) < num_panels:
            raise ValueError(f"A caption of {len(self.words)} words needs {num_panels} axes. Received: {len(panels)}")
        for panel in panels:
            panel.set_axis_off()
        panels[0].imshow(self.image)
        for position, (panel, word) in enumerate(zip(panels[1:], self.words)):
            self._draw_map(panel, self._light(position), opacity, colour_map)
            panel.set_title(visible(word), parse_math=False)  # matplotlib's PDF backend fails on U+FEFF
            below = {"ha": "center", "va": "top", "fontsize": "small", "transform": panel.transAxes}
            panel.text(0.5, -0.03, self._note(position), **below)
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
        """Draw several captions, one per row, as in the paper's comparison of soft and hard attention.

        Args:
            displays: list of AttentionDisplay or of CaptionResult, such as [soft, hard, none].
            names: list of titles, one for each row.
            ax: an array of axes, a row for each display, with at least one more column than there are words; None makes
                a new figure.
            opacity, colour_map: see `plot`.

        Returns: the array of axes.
        """
        is_list = isinstance(displays, (list, tuple)) and displays
        if not is_list or any(np.shape(each)[:1] != (len(displays),) for each in (names, ax) if each is not None):
            raise ValueError(
                "`displays` must be a list with at least one display; `names` and `ax` must have the same length. "
                f"Received: displays={brief(displays)}, names={brief(names)}, ax of shape {np.shape(ax)}"
            )
        displays = [
            item if isinstance(item, AttentionDisplay) else AttentionDisplay.from_result(item) for item in displays
        ]
        names = [""] * len(displays) if names is None else names
        if ax is None:
            import matplotlib.pyplot as plt

            columns = max(len(display.words) for display in displays) + 1
            size = 2 * columns, sum(display._row_height() for display in displays)
            _, ax = plt.subplots(len(displays), columns, figsize=size, layout="constrained", squeeze=False)
        for row, display, name in zip(ax, displays, names):
            display.plot(row, opacity=opacity, colour_map=colour_map)
            row[0].set_title(visible(name), parse_math=False)
        return ax

    def save(self, path: str | os.PathLike, *, columns: int | None = None, **options: Any) -> None:
        """Save the output of `plot` as a picture file; the file extension determines the format."""
        from matplotlib.figure import Figure

        path = Path(path).expanduser()
        path = path if path.suffix else path.with_suffix(".png")
        axes = self.plot(self._new_axes(Figure, columns), **options)
        drawing = io.BytesIO()
        axes[0, 0].figure.savefig(drawing, format=path.suffix[1:].lower())
        write_whole(path, drawing.getvalue())

    def _draw_map(self, panel, light, opacity, colour_map):
        import matplotlib

        panel.imshow(self.image)
        colours = matplotlib.colormaps.get_cmap("gray" if colour_map is None else colour_map)
        colours = colours.with_extremes(bad=np.divide(NAN_COLOUR, 255))
        alpha = opacity if colour_map is None else opacity * np.nan_to_num(light, nan=1).clip(max=1)
        panel.imshow(light, cmap=colours, alpha=alpha, vmin=0, vmax=1)

    def _new_axes(self, make_figure, columns):
        """Make a new figure; return its axes as an array (rows, columns)."""
        columns = columns or 5
        rows = math.ceil((len(self.words) + 1) / columns)
        figure = make_figure(figsize=(2 * columns, rows * self._row_height()), layout="constrained")
        return figure.subplots(rows, columns, squeeze=False)

    def _row_height(self):
        """Return the height, in inches, of a row of panels that are 2 inches wide."""
        height, width = self.image.shape[:2]
        return 2 * height / width + 0.6

    # === GIF and player ===

    def animate(
        self,
        path: str | os.PathLike,
        *,
        seconds_per_word: float = 0.7,
        width: int | None = None,
        opacity: float = OPACITY,
    ) -> None:
        """Write a GIF: the caption appears word by word, while the bright area moves over the photo.

        Args:
            path: path of the file, ending in .gif.
            seconds_per_word: how long each word is shown.
            width: width of the picture in pixels; None uses 240.
            opacity: see `plot`.
        """
        from keras_sat.pictures.cartoon import cartoon

        path = _path_ending_in(".gif", path)
        lights, notes = ([of(i) for i in range(len(self.words))] for of in (self._light, self._note))
        content = cartoon(self.image, self.words, lights, notes, seconds_per_word, width or 240, opacity)
        write_whole(path, content)

    def to_html(self, path: str | os.PathLike, *, title: str | None = None) -> None:
        """Write an interactive player: a single HTML page that needs no other files and no network.

        Args:
            path: path of the file, ending in .html.
            title: title of the page; None uses the caption.
        """
        path = _path_ending_in(".html", path)
        write_whole(path, player_page(self, title=title))

    def _repr_html_(self):
        return player_frame(self)


def plot_history(history: Any, ax=None) -> Any:
    """Plot training curves: cross-entropy, reward, and caption scores on the dev split.

    Args:
        history: `captioner.history`, a trained captioner, a dict from a name to its values per epoch, or the output
            folder of `fit` (with history.csv).
        ax: an array of axes, one for each kind of curve; None makes a new figure.

    Returns: the array of axes.
    """
    if isinstance(history, (str, os.PathLike)):
        path = Path(history).expanduser()
        table = np.genfromtxt(path / "history.csv" if path.is_dir() else path, delimiter=",", names=True)
        history = {name: np.atleast_1d(table[name]) for name in table.dtype.names}
    while hasattr(history, "history"):  # of a captioner, and of Keras' History
        history = history.history
    curves = history if isinstance(history, Mapping) else {}
    kinds = {
        title: [name for name in names if np.isfinite(curves.get(name, math.nan)).any()]
        for title, names in CURVES.items()
    }
    kinds = {title: names for title, names in kinds.items() if names}
    if not kinds:
        raise ValueError(
            "Expected `captioner.history` or the output folder of `fit`; a loaded captioner has no history. "
            f"Received: history={brief(history)}"
        )
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(1, len(kinds), figsize=(4 * len(kinds), 3.6), layout="constrained", squeeze=False)
        ax = ax[0]
    if np.size(ax) < len(kinds):
        raise ValueError(f"This history needs {len(kinds)} axes: {', '.join(kinds)}. Received: {np.size(ax)}")
    for panel, (title, names) in zip(np.ravel(ax), kinds.items()):
        for name in names:
            unit, _ = unit_and_digits(name.removeprefix("val_"))
            values = unit * np.asarray(curves[name], dtype=float)
            panel.plot(np.arange(1, len(values) + 1), values, marker=".", label=CURVES[title][name])
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4, ncols=2)  # below, off the curves
    return ax


def _path_ending_in(ending, path):
    path = Path(path).expanduser()
    if path.suffix.lower() != ending:
        raise ValueError(f"Expected a file name ending in {ending}. Received: {str(path)!r}")
    return path


def _as_photo(image):
    """Return a photo as uint8 (height, width, 3), with sides up to LARGEST_SIDE pixels and a bounded aspect ratio."""
    image = load_image(image)
    longest = max(image.shape[:2])
    sides = (max(side, longest / STEEPEST_ASPECT) for side in image.shape[:2])
    size = tuple(round(side * min(LARGEST_SIDE / longest, 1)) for side in sides)
    return image if size == image.shape[:2] else load_image(image, size)
