"""Does the model look where the word is? On the built-in scenes the box of every word is known.

The paper shows it in pictures; here it is a number. Two baselines do not depend on the photo: a uniform map, and a map
with its maximum in the middle, where most photos have their subject.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sat.options import count

if TYPE_CHECKING:
    from keras_sat.search.result import CaptionResult

CENTRE_WIDTH = 0.25  # standard deviation of the map in the middle, as a fraction of the photo's sides


@dataclass(frozen=True)
class Grounding:
    """How well the attention meets the objects, averaged over words. Printed, it is a table of the word classes.

    Attributes:
        mass: the fraction of the attention on the objects' cells.
        uniform_mass: the same of a uniform map.
        pointing: the fraction of words whose attention has its maximum in one of the objects' cells; see `meets`.
        num_words: how many words were measured.
        uniform_pointing, centre_mass, centre_pointing: the same of a uniform map, and of one with its maximum in the
            middle.
        enlarge: how many cells around an object were counted as part of it.
        word_classes: dict from a word class to its own Grounding.
    """

    mass: float
    uniform_mass: float
    pointing: float
    num_words: int
    uniform_pointing: float = float("nan")
    centre_mass: float = float("nan")
    centre_pointing: float = float("nan")
    enlarge: int = 0
    word_classes: dict = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as a dict for JSON: None where there was no word to measure."""
        return {name: _plain(value) for name, value in vars(self).items()}

    def __str__(self):
        rows = self.word_classes if len(self.word_classes) == 1 else {**self.word_classes, "all of these": self}
        columns = ("mass", "uniform_mass", "centre_mass", "pointing", "uniform_pointing", "centre_pointing")
        lines = [
            f"{'':13}{'words':>7}{'attention on it':>21}{'peak on it':>27}",
            f"{'':20}" + f"{'here':>9}{'uniform':>9}{'middle':>9}" * 2,
        ]
        for name, row in rows.items():
            cells = "".join(f"{_percent(getattr(row, column)):>9}" for column in columns)
            lines.append(f"{name:13}{row.num_words:>7}{cells}")
        around = f", {self.enlarge} cell{'s' * (self.enlarge > 1)} around them included" if self.enlarge else ""
        lines.append(f"Percent, on the boxes of what the word names{around}.")
        return "\n".join([*lines, "uniform: a map that is the same everywhere; middle: a map with its maximum there."])


def ground(
    results: list[CaptionResult],
    places: Any,
    *,
    word_classes: tuple[str, ...] | None = ("colour", "shape"),
    enlarge: int = 1,
) -> Grounding:
    """Return the Grounding of captions, from the boxes of what their words name.

    Args:
        results: list of CaptionResult.
        places: one for each result: a Scene, or for other data a list of data_utils.scenes.WordPlace. Captions of
            scenes that are not true have none, and do not count.
        word_classes: those that count: of scenes "colour", "shape", "size", "relation", "number". None takes all.
        enlarge: count so many cells around an object as part of it: features of a cell depend on its neighbours.

    Returns: Grounding.
    """
    count(0).check("enlarge", enlarge)
    results, places = list(results), list(places)
    if len(results) != len(places):
        raise ValueError(
            f"Expected places for each result. Received: {len(results)} results, places of {len(places)} photos"
        )
    figures = {}
    for result, its_places in zip(results, places):
        its_places = its_places.places(result.caption) if hasattr(its_places, "places") else its_places
        for place in its_places:
            if word_classes is not None and place.word_class not in word_classes:
                continue
            if not 0 <= place.position < len(result.attention_weights):
                raise ValueError(
                    f"A place names a word that the caption does not have. Received: position={place.position} "
                    f"of {place.word!r} in {result.caption!r}"
                )
            attention_map = np.asarray(result.attention_weights[place.position], dtype=float)
            cells = place.cells(attention_map.shape, enlarge=enlarge).astype(float)
            maps = (attention_map, np.full(cells.shape, 1 / cells.size), centred_map(cells.shape))
            figures.setdefault(place.word_class, []).append([figure for one in maps for figure in meets(one, cells)])
    by_class = {name: _averaged(figures[name], enlarge) for name in sorted(figures)}
    return _averaged([row for rows in figures.values() for row in rows], enlarge, by_class)


def ground_scenes(images, results, **options):
    """Return the Grounding of captions of the data set "scenes", whose scenes are drawn again for their boxes.

    Args:
        images: list of CaptionedImage of that data set, as it is drawn by default.
        results: list of CaptionResult, one for each.
        **options: see `ground`.
    """
    from data_utils.scenes import draw_scenes

    last = max(int(image.image_id.rpartition("-")[2]) for image in images)
    scenes = {scene.image_id: scene for scene in draw_scenes(last + 1)}
    return ground(results, [scenes[image.image_id] for image in images], **options)


def centred_map(grid_shape):
    """Return a map (rows, columns) with its maximum in the middle; it sums to 1."""
    rows, columns = (np.exp(-0.5 * (((np.arange(n) + 0.5) / n - 0.5) / CENTRE_WIDTH) ** 2) for n in grid_shape)
    attention_map = rows[:, None] * columns
    return attention_map / attention_map.sum()


def meets(attention_map, covered):
    """Return (mass, pointing) of a map, with the fraction of each cell that is covered, both (rows, columns).

    Pointing is whether the cell with the greatest weight is covered by half or more; of several such cells, the mean.
    """
    peaks = attention_map >= attention_map.max() * (1 - 1e-9)  # of NaN, none is
    return (attention_map * covered).sum(), (covered[peaks] >= 0.5).mean() if peaks.any() else np.nan


def _averaged(rows, enlarge, word_classes=None):
    means = np.mean(rows, axis=0) if rows else np.full(6, np.nan)
    names = ("mass", "pointing", "uniform_mass", "uniform_pointing", "centre_mass", "centre_pointing")
    figures = dict(zip(names, means.tolist()))
    return Grounding(**figures, num_words=len(rows), enlarge=enlarge, word_classes=word_classes or {})


def _plain(value):
    if isinstance(value, dict):
        return {name: row.to_dict() for name, row in value.items()}
    return None if np.isnan(value) else value


def _percent(value):
    return "-" if np.isnan(value) else f"{100 * value:.1f}"
