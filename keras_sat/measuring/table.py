"""Print, plot, save and load tables of scores."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.base import read_json, visible, write_json, write_whole
from data_utils.datasets import cell_of
from keras_sat.measuring import faithfulness, phrase_grounding
from keras_sat.measuring.latex import Numbers, latex_table
from keras_sat.measuring.published import PUBLISHED
from keras_sat.measuring.scores import SCORES, score_titles, shown

PERSON = "a person"
STATISTICS = {
    "photos": "{} photos",
    "distinct_captions": "{} distinct captions",
    "empty_captions": "{} empty captions",
    "vocabulary_used": "{} different words",
    "seen_in_training": "{:.1%} of the captions occur in the training split",
    "unsupported_nouns": "{:.1%} of the nouns are in no reference",
    "captions_with_unsupported_nouns": "{:.1%} of the captions have such a noun",
    "training_photos": "{} photos used in training",
}


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores, with the settings and captions that they depend on. It can be
    printed.

    Attributes:
        scores: dict from the name of a score to its value, as a fraction; CIDEr as in
            coco-caption. "meteor" is None if it cannot be computed, and "meteor_kind"
            says which METEOR was used.
        settings: dict: data, split, encoder, num_beams, length_penalty, tokenisation;
            None for captions from a file. Also max_length and split_seed, if not the
            default, and models, the number of captioners in an Ensemble.
        statistics: dict: photos, distinct_captions, empty_captions, vocabulary_used;
            seen_in_training, the fraction of captions that occur in the training split
            (None without a training split); those of `unsupported_figures`;
            training_photos, the number of photos that the captioner was trained on
            (None if unknown); and for scenes with
            `keras-sat evaluate --grounding` grounding, see `Grounding.to_dict`.
        captions: list with a dict of image_id and caption for each photo.
        photos: the contribution of each photo to each of SCORES: dict of lists,
            "bleu_counts" (see `bleu.bleu_counts`), "rouge_l", "cider" and "meteor"
            (None if it cannot be computed), and of MEASURED if it was measured.
        grounding, grounding_generated: with boxes, `grounding_figures` for
            human captions and for these captions.
        regions: with boxes, if requested, see `keras_sat.measuring.region_nouns`.
        faithfulness, faithfulness_references: if measured, `faithfulness_figures`
            for these captions and for the first human caption of each photo.
        compare_with: dict from a label to other scores, which are printed below.
        images, results: list of CaptionedImage and list of CaptionResult (without the
            photo); empty unless `evaluate` was called with keep_results=True. They are
            not saved.
    """

    scores: dict
    settings: dict
    captions: list = dataclasses.field(repr=False)
    statistics: dict = dataclasses.field(default_factory=dict)
    photos: dict = dataclasses.field(default_factory=dict, repr=False)
    grounding: dict | None = dataclasses.field(default=None, repr=False)
    grounding_generated: dict | None = dataclasses.field(default=None, repr=False)
    regions: dict | None = dataclasses.field(default=None, repr=False)
    faithfulness: dict | None = dataclasses.field(default=None, repr=False)
    faithfulness_references: dict | None = dataclasses.field(default=None, repr=False)
    compare_with: dict = dataclasses.field(default_factory=dict, repr=False)
    images: list = dataclasses.field(default_factory=list, repr=False, compare=False)
    results: list = dataclasses.field(default_factory=list, repr=False, compare=False)

    def __str__(self):
        lines = [*self._lines_of_scores(), self._statistics_line(), self._settings_line()]
        if self.grounding is not None:
            rows = {"human captions": self.grounding, "these captions": self.grounding_generated}
            lines += ["", phrase_grounding.grounding_table(rows)]
        if self.regions is not None:
            lines += ["", self._regions_line()]
        if self.faithfulness is not None:
            rows = {
                "these captions": self.faithfulness,
                "human captions": self.faithfulness_references,
            }
            lines += ["", faithfulness.faithfulness_table(rows)]
        return "\n".join(lines)

    def _lines_of_scores(self):
        rows = self._rows(self.compare_with)
        width = max(map(len, rows)) + 1
        lines = [" " * width + "".join(f"{title:>8}" for title in score_titles().values())]
        for label, scores in rows.items():
            cells = "".join(f"{shown(name, scores.get(name)):>8}" for name in score_titles())
            lines.append(f"{label:{width}}{cells}")
        return [*lines, *self._notes()]

    def _notes(self):
        """Return lines that say how to read the scores."""
        notes = []
        if self.compare_with.keys() - {PERSON}:
            notes.append("The paper's BLEU is without brevity penalty.")
        if PERSON in self.compare_with:
            notes.append("Human captions have one reference fewer.")
        for name, title in score_titles().items():
            kind = self.scores.get(f"{name}_kind")
            if kind is not None:
                notes.append(f"{title}: {kind}")
        return notes

    def _statistics_line(self):
        texts = []
        for name, text in STATISTICS.items():
            value = self.statistics.get(name)
            if isinstance(value, (int, float)):
                texts.append(text.format(value).replace("%", " %"))
        return ", ".join(texts)

    def _settings_line(self):
        return ", ".join(
            f"{name} {visible(value)}" for name, value in self.settings.items() if value is not None
        )

    def _regions_line(self):
        def percent(name):
            fraction = self.regions[name]
            return "-" if fraction is None else f"{fraction:.1%}".replace("%", " %")

        return (
            f"{self.regions['num_regions']:d} regions: noun said {percent('noun_said')}, small "
            f"{percent('small_noun_said')}, captions {percent('whole_noun_said')}"
        )

    def _rows(self, other_rows):
        """Return the rows of the table as a dict from labels to dicts of scores."""
        no_penalty = {name: self.scores.get(f"{name}_no_penalty") for name in score_titles()}
        rows = {"these captions": self.scores, "  without brevity penalty": no_penalty}
        for label, scores in other_rows.items():
            # The paper has BLEU without penalty only.
            as_columns = {name.removesuffix("_no_penalty"): x for name, x in scores.items()}
            rows[label] = {**as_columns, **scores}
        return rows

    def plot(self, ax=None) -> Any:
        """Draw the scores as bars, next to the scores in `compare_with` or, if it is
        empty, those of the paper.

        All scores are multiplied by 100, CIDEr too. The paper's BLEU has no brevity
        penalty; ours is shown both ways. Return the axes; `ax` None makes a new figure.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
        rows = self._rows(self.compare_with or PUBLISHED.get(self.settings["data"], {}))
        titles = score_titles()
        width = 0.8 / len(rows)
        for number, (label, scores) in enumerate(rows.items()):
            heights = [
                math.nan if scores.get(name) is None else 100 * scores[name] for name in titles
            ]
            bars = ax.bar(
                np.arange(len(titles)) - 0.4 + (number + 0.5) * width,
                heights,
                width,
                label=label.strip(),
            )
            ax.bar_label(
                bars,
                ["" if math.isnan(height) else f"{height:.1f}" for height in heights],
                fontsize=6,
            )
        ax.set_xticks(range(len(titles)), titles.values())
        ax.set_xlim(-0.5, len(titles) - 0.5)
        ax.set_ylabel("score × 100")
        ax.legend(fontsize="small")
        return ax

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the table to a JSON file, without `compare_with`, `images` and
        `results`.
        """
        parts = {name: getattr(self, name) for name in _PARTS}
        for name in _OPTIONAL_PARTS:
            if getattr(self, name) is not None:
                parts[name] = getattr(self, name)
        write_json(path, parts)

    @classmethod
    def from_json(cls, path: str | os.PathLike) -> ScoreTable:
        """Load a table from a file that `to_json` wrote."""
        parts = read_json(path, "the scores that `keras-sat evaluate --json` wrote")
        try:
            arguments = {name: parts[name] for name in _PARTS}
            arguments |= {name: parts[name] for name in _OPTIONAL_PARTS if name in parts}
            table = cls(**arguments)
            table._check_contributions()
            if not all("image_id" in entry for entry in table.captions):
                raise ValueError
            str(table)  # fails for values of other types
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            expected = (
                f"a JSON object with {', '.join(_PARTS)}, written by `keras-sat evaluate --json`"
            )
            raise ValueError(f"{path}: expected {expected}.") from None
        return table

    def _check_contributions(self):
        """Raise an error if contributions of photos do not fit the captions."""
        for score in (*SCORES.values(), *MEASURED):
            contributions = np.array(self.photos.get(score.contributions) or [], dtype=float)
            if not contributions.size:
                continue
            if contributions.shape != (len(self.captions), *score.shape):
                raise ValueError
            if not np.isfinite(contributions).all():
                raise ValueError

    def to_coco_results(self, path: str | os.PathLike) -> None:
        """Write the captions in coco-caption's JSON format.

        For COCO's photos, image_id is a number.
        """
        write_json(
            path,
            [{**entry, "image_id": coco_image_id(entry["image_id"])} for entry in self.captions],
        )

    def to_latex(self, path: str | os.PathLike) -> None:
        """Write the averages as a LaTeX table: the rows that are printed, with the
        other lines as comments. It needs the package booktabs.
        """
        rows = self._rows(self.compare_with)
        numbers = [
            Numbers(title, ([shown(name, scores.get(name)) for scores in rows.values()],))
            for name, title in score_titles().items()
        ]
        notes = [*self._notes(), self._statistics_line(), self._settings_line()]
        labels = [label.strip() for label in rows]
        write_whole(Path(path).expanduser(), latex_table(labels, numbers, notes))

    def averages_to_csv(self, path: str | os.PathLike) -> None:
        """Write the averages as a CSV file: the rows that are printed, as fractions."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["scores_of", *score_titles()])
        for label, scores in self._rows(self.compare_with).items():
            values = [scores.get(name) for name in score_titles()]
            cells = ["" if value is None else f"{value:.6f}" for value in values]
            writer.writerow([cell_of(label.strip()), *cells])
        write_whole(Path(path).expanduser(), text.getvalue())

    def to_csv(self, path: str | os.PathLike) -> None:
        """Write a CSV file with each photo's caption (harmless in spreadsheets, see
        `cell_of`) and scores. For the averages, see `averages_to_csv`.
        """
        figures = {}  # dict from names to the figures of the photos
        for score in SCORES.values():
            contributions = self.photos.get(score.contributions)
            if contributions is not None:  # "sums" over one photo each
                figures |= score.figures_of_sums(np.array(contributions, dtype=float), 1)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["image_id", "caption", *score_titles()])
        for number, entry in enumerate(self.captions):
            cells = [cell_of(str(entry["image_id"])), cell_of(str(entry["caption"]))]
            for name in score_titles():
                cells.append(f"{figures[name][number]:.6f}" if name in figures else "")
            writer.writerow(cells)
        write_whole(Path(path).expanduser(), text.getvalue())


_PARTS = ("scores", "settings", "statistics", "captions", "photos")
# Those that are None if they were not measured.
_OPTIONAL_PARTS = (
    "grounding",
    "grounding_generated",
    "regions",
    "faithfulness",
    "faithfulness_references",
)
# Other scores that `compare` shows, if a table has them.
MEASURED = (phrase_grounding.GROUNDING, *faithfulness.FAITHFULNESS)


def coco_image_id(image_id):
    """Return the number in a COCO name, COCO_val2014_000000391895 or 000000391895, and
    any other id unchanged.
    """
    number = re.fullmatch(r"(?:COCO_\w+_)?(\d{12})", image_id)
    return int(number[1]) if number else image_id
