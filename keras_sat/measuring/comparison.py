"""Compare the scores of two captioners, with bootstrap confidence intervals for the
differences.
"""

import csv
import glob
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.base import brief, visible, write_whole
from keras_sat.measuring.faithfulness import FAITHFULNESS
from keras_sat.measuring.latex import Numbers, latex_table
from keras_sat.measuring.phrase_grounding import GROUNDING
from keras_sat.measuring.scores import SCORES, score_titles, unit_and_digits
from keras_sat.measuring.table import MEASURED, ScoreTable

NUM_RESAMPLES = 1000
SIDES = ("first", "second")


@dataclass(frozen=True)
class Comparison:
    """A comparison of two captioners' scores on the same photos. It prints as a table.

    Attributes:
        names: of the two captioners, or of the files with their scores.
        num_photos, num_seeds: number of photos that both captioned, and of training
            runs of each.
        rows: dict from the name of a score to a dict of "first" and "second" (one score
            for each seed), "difference" (second minus first, averaged over seeds) and
            "interval" (low, high): the 95 % interval over resampled photos and seeds.
    """

    names: tuple
    num_photos: int
    num_seeds: tuple
    rows: dict

    def __str__(self):
        lines = [f"{'':26}{'first':>16}{'second':>16}{'difference':>12}  95 % interval"]
        for title, (name, row) in zip(self._titles(), self.rows.items()):
            first, second = (" ± ".join(_mean_and_deviation(name, row[side])) for side in SIDES)
            difference, low, high = _differences(name, row)
            lines.append(f"{title:26}{first:>16}{second:>16}{difference:>12}  {low} to {high}")
        return "\n".join([*lines, *self._notes()])

    def to_csv(self, path: str | os.PathLike) -> None:
        """Write a CSV file with a row for each score: means and standard deviations
        over seeds (empty with one seed), the difference and its 95 % interval, as
        fractions.
        """
        text = io.StringIO()
        writer = csv.writer(text)
        sides = [f"{side}{figure}" for side in SIDES for figure in ("", "_deviation")]
        writer.writerow(["score", *sides, "difference", "interval_low", "interval_high"])
        for name, row in self.rows.items():
            cells = []
            for side in SIDES:
                values = np.array(row[side])
                deviation = f"{values.std(ddof=1):.6f}" if len(values) > 1 else ""
                cells += [f"{values.mean():.6f}", deviation]
            cells += [f"{value:.6f}" for value in (row["difference"], *row["interval"])]
            writer.writerow([name, *cells])
        write_whole(Path(path).expanduser(), text.getvalue())

    def to_latex(self, path: str | os.PathLike) -> None:
        """Write the comparison as a LaTeX table, with the lines below it as comments.
        It needs the package booktabs.
        """
        numbers = []
        for side, heading in zip(SIDES, self._headings()):
            cells = [_mean_and_deviation(name, row[side]) for name, row in self.rows.items()]
            numbers.append(Numbers(heading, tuple(zip(*cells)), " $\\pm$ "))
        differences = [_differences(name, row) for name, row in self.rows.items()]
        difference, low, high = ([texts[part] for texts in differences] for part in range(3))
        numbers.append(Numbers("difference", (difference,)))
        numbers.append(Numbers("95 % interval", (low, high), " to "))
        write_whole(Path(path).expanduser(), latex_table(self._titles(), numbers, self._notes()))

    def _headings(self):
        """Return a short name of each captioner: that of a file without folder and
        ending, or the sides if these are the same.
        """
        headings = [Path(name).stem for name in self.names]
        return headings if headings[0] != headings[1] else SIDES

    def _titles(self):
        titles = score_titles() | {
            name: title for score in MEASURED for name, title in score.columns.items()
        }
        return [titles[name] for name in self.rows]

    def _notes(self):
        """Return lines that say what was compared."""
        notes = [
            f"{side}: {visible(name)}, seeds: {num_seeds}"
            for side, name, num_seeds in zip(SIDES, self.names, self.num_seeds)
        ]
        notes.append(f"{self.num_photos} photos; intervals: bootstrap over photos and seeds")
        if "meteor" in self.rows:
            notes.append(
                "METEOR is the mean over photos here; `evaluate` prints that of the whole corpus."
            )
        if "mass" in self.rows:
            notes.append(
                "On boxes, peak: attention on human captions; small: boxes below a "
                "quarter of the photo."
            )
        left_out = [title for name, title in score_titles().items() if name not in self.rows]
        if left_out:
            notes.append(f"Left out, missing or of different kinds: {', '.join(left_out)}")
        return notes


def _unit_and_digits(name):
    if name in GROUNDING.columns:
        return GROUNDING.unit, GROUNDING.digits
    return unit_and_digits(name)


def _mean_and_deviation(name, values):
    """Return the mean of a score over seeds and, for several, the standard deviation,
    as a list of texts.
    """
    unit, digits = _unit_and_digits(name)
    return mean_and_deviation(unit * np.array(values), digits, digits + 1).split(" ± ")


def _differences(name, row):
    """Return the difference of a score, and the ends of its interval, as texts."""
    unit, digits = _unit_and_digits(name)
    numbers = (row["difference"], *row["interval"])
    return [f"{unit * number:+.{digits + 1}f}" for number in numbers]


def compare(
    first: Any,
    second: Any,
    *,
    names: tuple[str, str] | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two captioners, each with one set of scores or with one per seed; return
    a Comparison.

    The interval is from a paired bootstrap over photos, and over seeds if there are
    several.

    Args:
        first, second: a ScoreTable, the path of a file that `to_json` wrote, a pattern
            of such paths ("runs/soft-*.json"), or a list of these, one per seed.
        names: of the two captioners, for tables; None: those of the files.
        num_resamples, seed: number of resamples and random seed of the bootstrap.
    """
    first_tables, second_tables = _tables(first), _tables(second)
    all_tables = [*first_tables, *second_tables]
    _check_same_photos(all_tables)
    num_photos = len(first_tables[0].captions)
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(num_photos, [1 / num_photos] * num_photos, size=num_resamples)
    counts = np.concatenate([np.ones((1, num_photos)), draws])  # the first row: every photo once
    # One dict from names to scores for each seed.
    first_seeds = [_scores_of_draws(table.photos, counts) for table in first_tables]
    second_seeds = [_scores_of_draws(table.photos, counts) for table in second_tables]
    rows = {}
    for name in _compared_names(all_tables):
        if not all(_has_score(scores, name) for scores in (*first_seeds, *second_seeds)):
            continue
        kinds = {table.scores.get(f"{name}_kind") for table in all_tables}
        if len(kinds) > 1:  # two kinds of METEOR
            continue
        first_scores = np.stack([scores[name] for scores in first_seeds])  # (seeds, 1 + resamples)
        second_scores = np.stack([scores[name] for scores in second_seeds])
        differences = _mean_of_seeds(second_scores, rng) - _mean_of_seeds(first_scores, rng)
        rows[name] = {
            "first": first_scores[:, 0].tolist(),
            "second": second_scores[:, 0].tolist(),
            "difference": float(differences[0]),
            "interval": tuple(np.percentile(differences[1:], [2.5, 97.5]).tolist()),
        }
    num_seeds = (len(first_tables), len(second_tables))
    names = (_source_name(first), _source_name(second)) if names is None else tuple(names)
    return Comparison(names, num_photos, num_seeds, rows)


def _source_name(source):
    return str(source) if isinstance(source, (str, Path)) else "scores"


def _compared_names(tables):
    """Return the names of the figures that `compare` shows if all tables have them."""
    names = [*score_titles()]
    if _have_same_phrases(tables):
        names += GROUNDING.columns
    for score in FAITHFULNESS:
        names += score.columns
    return names


def _has_score(scores, name):
    """Return whether a score was measured: METEOR may be missing, and faithfulness is
    NaN without words.
    """
    return name in scores and not np.isnan(scores[name][0])


def _have_same_phrases(tables):
    """Return whether all tables measured attention on the same number of phrases in
    each photo.
    """
    contributions = [table.photos.get(GROUNDING.contributions) for table in tables]
    counts = [
        np.array(photo_sums, dtype=float)[..., 0]
        for photo_sums in contributions
        if photo_sums is not None
    ]
    return all(np.array_equal(counts[0], table_counts) for table_counts in counts)


def _mean_of_seeds(scores, rng):
    """Average scores (seeds, 1 + resamples) over resampled seeds.

    The first column uses each seed once.
    """
    num_seeds, num_columns = scores.shape
    chosen = rng.integers(num_seeds, size=(num_seeds, num_columns))
    chosen[:, 0] = np.arange(num_seeds)
    return np.take_along_axis(scores, chosen, axis=0).mean(axis=0)


def _scores_of_draws(photos, counts):
    """Return the scores of each bootstrap draw; `counts` (draws, photos) says how often
    each photo was drawn.
    """
    scores = {}
    for score in (*SCORES.values(), *MEASURED):
        contributions = photos.get(score.contributions)
        if contributions is None:
            continue
        contributions = np.array(contributions, dtype=float)  # (photos, *score.shape)
        sums = np.tensordot(counts, contributions, 1)  # (draws, *score.shape)
        scores |= score.figures_of_sums(sums, counts.sum(axis=1))
    return scores


def _tables(source):
    """Return the list of ScoreTables that `compare` accepts as one argument."""
    tables = []
    items = source if isinstance(source, (list, tuple)) else [source]
    for item in items:
        if isinstance(item, ScoreTable):
            tables.append(item)
            continue
        path = Path(item).expanduser()
        is_pattern = glob.has_magic(str(path)) and not path.exists()
        paths = sorted(glob.glob(str(path))) if is_pattern else [path]
        tables += [ScoreTable.from_json(path) for path in paths]
    if not tables:
        raise ValueError(
            "Expected at least one ScoreTable or file for each captioner. Received: "
            f"{str(source)!r}"
        )
    return tables


def _check_same_photos(tables):
    """Raise ValueError unless all tables score the same photos in the same order, with
    the same tokenisation.
    """
    ids = [[entry["image_id"] for entry in table.captions] for table in tables]
    for name in ("data", "split", "split_seed", "tokenisation", "photos"):
        values = ids if name == "photos" else [table.settings.get(name) for table in tables]
        for value in values:
            if value != values[0]:
                received = f"{brief(values[0])} and {brief(value)}"
                raise ValueError(
                    f"These scores cannot be compared: `{name}` differs. Received: {received}"
                )


def mean_and_deviation(values, digits, deviation_digits):
    """Format the mean of an array and, for several values, the standard deviation:
    "22.2 ± 0.4".
    """
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.{deviation_digits}f}"
