"""Measure whether attention is on the object that a word names, for data with a box for
every word.

The paper shows this in pictures; here it is measured, on the built-in scenes. Two
baselines do not depend on the photo: a uniform map, and a map with its maximum in the
middle, where most photos have their subject.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_sat.measuring.measured_maps import measured_maps
from keras_sat.search import CaptionResult

CENTRE_WIDTH = 0.25  # standard deviation of the centred map, as a fraction of the photo's sides
MEASURES = ("mass", "pointing", "coverage")
BASELINES = ("", "uniform_", "centre_")  # "": the map itself
FIGURES = tuple(f"{baseline}{measure}" for baseline in BASELINES for measure in MEASURES)


@dataclass(frozen=True)
class Grounding:
    """How much attention is on the named objects, averaged over words. It prints as a
    table by word class.

    Attributes:
        mass: the fraction of the attention on the objects' boxes, if each cell's weight
            is spread over its pixels.
        pointing: the fraction of words whose attention peaks in a cell that the boxes
            cover; see `measures_of_map`.
        coverage: intersection over union of the boxes and the region of a map; see
            `coverage`.
        uniform_mass, uniform_pointing, uniform_coverage: the same for a uniform map.
        centre_mass, centre_pointing, centre_coverage: the same for a map with its
            maximum in the middle.
        num_words: number of measured words.
        word_classes: dict from a word class to its own Grounding.
    """

    mass: float
    uniform_mass: float
    pointing: float
    num_words: int
    coverage: float = float("nan")
    uniform_pointing: float = float("nan")
    uniform_coverage: float = float("nan")
    centre_mass: float = float("nan")
    centre_pointing: float = float("nan")
    centre_coverage: float = float("nan")
    word_classes: dict = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as a dict for JSON.

        They are None if no word was measured.
        """
        figures = {}
        for name, value in vars(self).items():
            is_nan = value != value
            figures[name] = None if is_nan else value
        figures["word_classes"] = {name: row.to_dict() for name, row in self.word_classes.items()}
        return figures

    def __str__(self):
        rows = dict(self.word_classes)
        if len(rows) != 1:
            rows["all of these"] = self
        table = table_of([(name, row.num_words, vars(row)) for name, row in rows.items()], "words")
        return f"{table}\nOn the boxes of the named objects, pixel by pixel."


def ground(
    results: list[CaptionResult],
    places: Any,
    *,
    word_classes: tuple[str, ...] | None = ("colour", "shape"),
    map_kind: str = "attention",
) -> Grounding:
    """Measure how much attention is on the objects that captions name; return a
    Grounding.

    Args:
        places: a list with one entry per result: a Scene, or for other data a list of
            data_utils.scenes.WordPlace. False captions of scenes have no boxes, and are
            not counted.
        word_classes: the word classes to measure, in scenes "colour", "shape", "size",
            "relation", "number"; None: all.
        map_kind: "attention", or "votes" or "votes-blurred" for results that have
            votes; see `keras_sat.measuring.measured_maps`.
    """
    if len(places) != len(results):
        raise ValueError(
            f"Expected `places` with an entry for each of {len(results)} results. "
            f"Received: {len(places)}"
        )
    figures = {}  # dict from word classes to the FIGURES of their words
    for result, scene_or_places in zip(results, places):
        maps = measured_maps(result, map_kind)
        word_places = scene_or_places
        if hasattr(scene_or_places, "places"):  # a Scene
            word_places = scene_or_places.places(result.caption)
        for place in word_places:
            if word_classes is not None and place.word_class not in word_classes:
                continue
            attention_map = np.asarray(maps[place.position], dtype=float)
            map_figures = figures_of_map(attention_map, place.cells(attention_map.shape))
            figures.setdefault(place.word_class, []).append(map_figures)
    groundings = {name: _averaged(figures[name]) for name in sorted(figures)}
    return _averaged([row for rows in figures.values() for row in rows], groundings)


def ground_scenes(images, results, **options):
    """Return the Grounding (see `ground`) of captions of the data set "scenes", drawn
    again with its defaults.
    """
    from data_utils.scenes import draw_scenes

    last = max(int(image.image_id.rpartition("-")[2]) for image in images)
    scenes = {scene.image_id: scene for scene in draw_scenes(last + 1)}
    return ground(results, [scenes[image.image_id] for image in images], **options)


def figures_of_map(attention_map, covered):
    """Return the FIGURES of an attention map; `covered` is the fraction of each cell
    that boxes cover.
    """
    baselines = _baselines(covered.tobytes(), covered.shape)
    return *measures_of_map(attention_map, covered), *baselines


@functools.lru_cache(maxsize=10_000)
def _baselines(covered, shape):
    """Return the MEASURES of the uniform map, then those of the map with its maximum in
    the middle.
    """
    covered = np.frombuffer(covered).reshape(shape)
    uniform_map = np.full(shape, 1 / covered.size)
    return *measures_of_map(uniform_map, covered), *measures_of_map(centred_map(shape), covered)


def centred_map(grid_shape):
    """Return a map (rows, columns) that sums to 1 and has its maximum in the middle."""

    def bell_curve(num_cells):
        centres = (np.arange(num_cells) + 0.5) / num_cells
        return np.exp(-0.5 * ((centres - 0.5) / CENTRE_WIDTH) ** 2)

    num_rows, num_columns = grid_shape
    attention_map = bell_curve(num_rows)[:, None] * bell_curve(num_columns)
    return attention_map / attention_map.sum()


def measures_of_map(attention_map, covered):
    """Return the MEASURES of an attention map; `covered` is the fraction of each cell
    that boxes cover.

    Pointing is 1 if at least half of the cell with the greatest weight is covered, else
    0; ties are averaged.
    """
    peaks = attention_map >= attention_map.max() * (1 - 1e-9)
    if not peaks.any():  # the map contains NaN
        return (np.nan,) * len(MEASURES)
    return (
        (attention_map * covered).sum(),
        (covered[peaks] >= 0.5).mean(),
        coverage(attention_map, covered),
    )


def smallest_region(attention_map, *, share=0.5, at_least=0.0):
    """Return the smallest region that holds a share of a map, as the fraction of each
    cell that belongs to it.

    Cells enter in the order of their weights. Cells of equal weight enter in equal
    fractions, so that the region of a uniform map is what chance gives. A region
    smaller than `at_least` cells grows to that size in the same order.

    >>> smallest_region(np.array([[0.4, 0.2], [0.2, 0.2]]))
    array([[1.        , 0.16666667],
           [0.16666667, 0.16666667]])
    """
    weights = np.round(attention_map / attention_map.max(), 9)  # ties may differ by rounding
    levels, level_of, counts = np.unique(-weights, return_inverse=True, return_counts=True)
    held = np.concatenate([[0.0], np.cumsum(counts * -levels)])  # by the cells above each level
    areas = np.concatenate([[0.0], np.cumsum(counts)])
    area = max(np.interp(share * held[-1], held, areas), at_least)
    fractions = ((area - areas[:-1]) / counts).clip(0, 1)  # of the cells of each level
    return fractions[level_of].reshape(attention_map.shape)


def coverage(attention_map, covered):
    """Return the intersection over union of boxes and the region with half of a map,
    grown to their area if smaller.
    """
    region = smallest_region(attention_map, at_least=covered.sum())
    intersection = (region * covered).sum()
    union = region.sum() + covered.sum() - intersection
    return intersection / union


def table_of(rows, count_title):
    """Format a table of percentages from a list of rows: (title, count, dict of
    FIGURES). The column of counts is headed `count_title`.
    """
    lines = [
        f"{'percent':24}{count_title:>8}"
        f"{'attention on the boxes':>27}{'peak on the boxes':>27}{'coverage':>27}"
    ]
    lines.append(" " * 32 + f"{'here':>9}{'uniform':>9}{'middle':>9}" * 3)
    for title, number, figures in rows:
        cells = "".join(
            f"{_percent(figures[f'{baseline}{measure}']):>9}"
            for measure in MEASURES
            for baseline in BASELINES
        )
        lines.append(f"{title:24}{number:>8}{cells}")
    return "\n".join(lines)


def _percent(fraction):
    """Return "31.4" for .314, and "-" for None and NaN."""
    if fraction is None or np.isnan(fraction):
        return "-"
    return f"{100 * fraction:.1f}"


def _averaged(rows, word_classes=None):
    """Return the Grounding of words, given a list of their FIGURES."""
    means = np.mean(rows, axis=0) if rows else np.full(len(FIGURES), np.nan)
    return Grounding(
        **dict(zip(FIGURES, means.tolist())), num_words=len(rows), word_classes=word_classes or {}
    )
