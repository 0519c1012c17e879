"""Rows for several seeds: `python benchmarks/flickr8k/seeds.py
"soft=scores/soft-*.json" "hard=scores/hard-*.json"`.

Each pattern names what `keras-sat evaluate --json` wrote for trainings with different
seeds. Prints a table in Markdown: mean and deviation of the scores, how many different
captions and words there are, and how many captions end badly, with words said twice or
with a word that more must follow.
"""

import glob
import sys

import numpy as np

from data_utils import tokenise
from keras_sat import ScoreTable
from keras_sat.measuring import mean_and_deviation, score_titles, unit_and_digits

OPEN_WORDS = "a an the in on at of with and or to by for from his her their its is are wearing"


def row(tables):
    """Return the cells of a row for ScoreTables, one for each seed: scores, captions,
    words, bad endings.
    """
    cells = []
    for name in score_titles():
        values = [table.scores.get(name) for table in tables]
        unit, digits = unit_and_digits(name)
        cells.append(
            "" if None in values else mean_and_deviation(unit * np.array(values), digits, digits)
        )
    for name in ("distinct_captions", "vocabulary_used"):
        cells.append(f"{np.mean([table.statistics[name] for table in tables]):.0f}")
    endings = [
        [bad_ending(tokenise(entry["caption"])) for entry in table.captions] for table in tables
    ]
    for kind in ("repeats", "breaks off"):
        cells.append(f"{np.mean([kinds.count(kind) for kinds in endings]):.0f}")
    return cells


def bad_ending(words):
    """Return what is wrong with the end of a caption, or None.

    >>> captions = "a dog on a dog on a", "a dog runs runs", "a dog"
    >>> tuple(bad_ending(caption.split()) for caption in captions)
    ('breaks off', 'repeats', None)
    """
    if words and words[-1] in OPEN_WORDS.split():
        return "breaks off"
    repeats = any(len(words) >= 2 * n and words[-n:] == words[-2 * n : -n] for n in (1, 2, 3))
    return "repeats" if repeats else None


def main(patterns):
    titles = ["", *score_titles().values(), "captions", "words", "repeat", "break off"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for named in patterns:
        name, _, pattern = named.partition("=")
        tables = [ScoreTable.from_json(path) for path in sorted(glob.glob(pattern))]
        if not tables:
            sys.exit(f"No file matches this pattern. Received: {pattern!r}")
        if len({str([table.settings, table.scores["meteor_kind"]]) for table in tables}) > 1:
            sys.exit(
                "The scores have different settings, or another kind of METEOR. "
                f"Received: {pattern!r}"
            )
        print(f"| {' | '.join([name, *row(tables)])} |")


if __name__ == "__main__":
    main(sys.argv[1:])
