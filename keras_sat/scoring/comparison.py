"""Compare the scores of two captioners, with bootstrap confidence intervals for the
differences.
"""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.foreign_text import brief, visible
from keras_sat.scoring.faithfulness import FAITHFULNESS
from keras_sat.scoring.phrases import GROUNDING
from keras_sat.scoring.scores import SCORES, columns, unit_and_digits
from keras_sat.scoring.table import MEASURED, ScoreTable

NUM_RESAMPLES = 1000


@dataclass(frozen=True)
class Comparison:
    """A comparison of two captioners' scores on the same photos. It prints as a table.

    Attributes:
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
        titles = columns() | {
            name: title for score in MEASURED for name, title in score.columns.items()
        }
        lines = [f"{'':26}{'first':>16}{'second':>16}{'difference':>12}  95 % interval"]
        for name, row in self.rows.items():
            unit, digits = (
                (GROUNDING.unit, GROUNDING.digits)
                if name in GROUNDING.columns
                else unit_and_digits(name)
            )
            sides = (
                mean_and_deviation(unit * np.array(row[side]), digits, digits + 1)
                for side in ("first", "second")
            )
            numbers = (
                f"{unit * number:+.{digits + 1}f}"
                for number in (row["difference"], *row["interval"])
            )
            lines.append("{:26}{:>16}{:>16}{:>12}  {} to {}".format(titles[name], *sides, *numbers))
        for side, name, num_seeds in zip(("first", "second"), self.names, self.num_seeds):
            lines.append(f"{side}: {visible(name)}, seeds: {num_seeds}")
        lines.append(f"{self.num_photos} photos; intervals: bootstrap over photos and seeds")
        if "meteor" in self.rows:
            lines.append(
                "METEOR is the mean over photos here; `evaluate` prints that of the whole corpus."
            )
        if "mass" in self.rows:
            lines.append(
                "On boxes, peak: attention on human captions; small: boxes below a "
                "quarter of the photo."
            )
        left_out = [title for name, title in columns().items() if name not in self.rows]
        lines += (
            [f"Left out, missing or of different kinds: {', '.join(left_out)}"] if left_out else []
        )
        return "\n".join(lines)


def compare(
    first: Any, second: Any, *, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> Comparison:
    """Compare two captioners, each with one set of scores or with one per seed; return
    a Comparison.

    The interval is from a paired bootstrap over photos, and over seeds if there are
    several.

    Args:
        first, second: a ScoreTable, the path of a file that `to_json` wrote, a pattern
            of such paths ("runs/soft-*.json"), or a list of these, one per seed.
        num_resamples, seed: number of resamples and random seed of the bootstrap.
    """
    sides = [_tables(first), _tables(second)]
    _check_same_photos([*sides[0], *sides[1]])
    num_photos = len(sides[0][0].captions)
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(num_photos, [1 / num_photos] * num_photos, size=num_resamples)
    counts = np.concatenate([np.ones((1, num_photos)), draws])  # the first row: every photo once
    scored = [[_scores_of_draws(table.photos, counts) for table in tables] for tables in sides]
    rows = {}
    names = [*columns(), *(GROUNDING.columns if _have_same_phrases([*sides[0], *sides[1]]) else ())]
    for name in [*names, *(name for score in FAITHFULNESS for name in score.columns)]:
        kinds = {table.scores.get(f"{name}_kind") for tables in sides for table in tables}
        if (
            any(
                name not in scores or np.isnan(scores[name][0])
                for side in scored
                for scores in side
            )
            or len(kinds) > 1
        ):
            # METEOR, if a table lacks it or has another kind; what was measured on no
            # words
            continue
        # (seeds, 1 + resamples)
        one, two = (np.stack([scores[name] for scores in side]) for side in scored)
        differences = _mean_of_seeds(two, rng) - _mean_of_seeds(one, rng)
        interval = tuple(np.percentile(differences[1:], [2.5, 97.5]).tolist())
        rows[name] = {"first": one[:, 0].tolist(), "second": two[:, 0].tolist()}
        rows[name] |= {"difference": float(differences[0]), "interval": interval}
    names = (str(side) if isinstance(side, (str, Path)) else "scores" for side in (first, second))
    return Comparison(tuple(names), num_photos, tuple(map(len, sides)), rows)


def _have_same_phrases(tables):
    """Return whether all tables measured attention on the same number of phrases in
    each photo.
    """
    of_tables = [table.photos.get(GROUNDING.contributions) for table in tables]
    counts = [
        np.array(of_photos, dtype=float)[..., 0] for of_photos in of_tables if of_photos is not None
    ]
    return all(np.array_equal(counts[0], other) for other in counts)


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
        if (contributions := photos.get(score.contributions)) is not None:
            scores |= score.of_sums(
                np.tensordot(counts, np.array(contributions, dtype=float), 1), counts.sum(axis=1)
            )
    return scores


def _tables(source):
    tables = []
    for item in source if isinstance(source, (list, tuple)) else [source]:
        if isinstance(item, ScoreTable):
            tables.append(item)
            continue
        path = Path(item).expanduser()
        is_pattern = glob.has_magic(str(path)) and not path.exists()
        tables += [
            ScoreTable.from_json(name)
            for name in (sorted(glob.glob(str(path))) if is_pattern else [path])
        ]
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
        for other in values:
            if other != values[0]:
                received = f"{brief(values[0])} and {brief(other)}"
                raise ValueError(
                    f"These scores cannot be compared: `{name}` differs. Received: {received}"
                )


def mean_and_deviation(values, digits, deviation_digits):
    """Format the mean of an array and, for several values, the standard deviation:
    "22.2 ± 0.4".
    """
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.{deviation_digits}f}"
