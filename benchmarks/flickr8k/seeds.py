"""Rows for several seeds: `python benchmarks/flickr8k/seeds.py "soft=scores/soft-*.json" "hard=scores/hard-*.json"`.

Each pattern stands for what `keras-sat evaluate --json` wrote for the trainings with different seeds. Printed are, as a
table in Markdown, mean and deviation of their scores, and how many different captions and words there are.
"""

import glob
import sys

import numpy as np

from keras_sat import ScoreTable
from keras_sat.evaluation import COLUMNS


def row(tables):
    """Return the cells of a row, texts: the scores of COLUMNS, different captions, words used.

    Args:
        tables: list of ScoreTable, one for each seed.
    """
    cells = []
    for name in COLUMNS:
        values = [table.scores.get(name) for table in tables]
        unit, digits = (1, 3) if name == "cider" else (100, 1)
        cells.append("" if None in values else _mean_and_deviation(unit * np.array(values), digits))
    for name in ("distinct_captions", "vocabulary_used"):
        cells.append(f"{np.mean([table.statistics[name] for table in tables]):.0f}")
    return cells


def _mean_and_deviation(values, digits):
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.{digits}f}"


def main(patterns):
    titles = ["", *COLUMNS.values(), "captions", "words"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for named in patterns:
        name, _, pattern = named.partition("=")
        tables = [ScoreTable.from_json(path) for path in sorted(glob.glob(pattern))]
        if not tables:
            sys.exit(f"No file matches this pattern. Received: {pattern!r}")
        if len({str([table.settings, table.scores["meteor_kind"]]) for table in tables}) > 1:
            sys.exit(
                f"The scores differ in more than their seed: in settings, or in their METEOR. Received: {pattern!r}"
            )
        print(f"| {' | '.join([name, *row(tables)])} |")


if __name__ == "__main__":
    main(sys.argv[1:])
