"""Define SCORES, the scores that `evaluate` and `compare` use, computed as in
coco-caption.

To add one, write a function of `references`, a list of captions for each photo, and
`candidates`, one caption for each photo, all lists of words. It returns a number for
each photo, (photos,). Then add a line with `mean_over_photos`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_sat.scoring.bleu import bleu_counts, bleu_of_counts
from keras_sat.scoring.cider import cider_of_photos
from keras_sat.scoring.meteor import score_meteor
from keras_sat.scoring.rouge import rouge_l_of_photos
from keras_sat.scoring.words import MAX_ORDER, as_words


@dataclass(frozen=True, kw_only=True)
class Score:
    """A metric for captions. Call it with references and candidates to get a dict of
    its figures.

    Attributes:
        columns: dict from the name of a figure to its title in tables; a score such as
            BLEU has several.
        measure: function of references and candidates, as lists of words. It returns a
            dict of figures, None if they cannot be computed, and the contribution of
            each photo, (photos, *shape), or None. None: it needs more.
        of_sums: function that returns a dict of figures, (...), from contributions
            summed over photos, (..., *shape), and the number of these photos, (...).
        contributions: the key of the contributions in `ScoreTable.photos`.
        shape: shape of the contribution of one photo.
        unit, digits: a figure is multiplied by `unit` and shown with `digits` decimals.
    """

    columns: dict
    measure: Callable | None
    of_sums: Callable
    contributions: str
    shape: tuple = ()
    unit: int = 100
    digits: int = 1

    def __call__(self, references, candidates):
        return self.measure(*as_words(references, candidates))[0]


def mean_over_photos(name, title, of_photos, **shown):
    """Return a Score that averages `of_photos(references, candidates)` over photos.

    For `shown` see `Score`.
    """

    def measure(references, candidates):
        values = np.asarray(of_photos(references, candidates), dtype=float)
        return {name: float(values.mean())}, values

    parts = {"measure": measure, "of_sums": lambda sums, num_photos: {name: sums / num_photos}}
    return Score(columns={name: title}, contributions=name, **parts, **shown)


def meteor(references: list[list[str]], candidates: list[str]) -> dict[str, Any]:
    """Return {"meteor": .., "meteor_kind": ..} for references and candidates. See
    `scoring.meteor`.
    """
    return _measure_meteor(*as_words(references, candidates))[0]


def _measure_meteor(references, candidates):
    found = score_meteor(references, candidates)
    return {"meteor": found.corpus, "meteor_kind": found.kind}, found.of_photos


def _measure_bleu(references, candidates):
    counts = bleu_counts(references, candidates)
    return bleu_of_counts(counts.sum(axis=0)), counts


SCORES = {
    "bleu": Score(
        columns={f"bleu_{n}": f"BLEU-{n}" for n in range(1, MAX_ORDER + 1)},
        measure=_measure_bleu,
        of_sums=lambda counts, num_photos: bleu_of_counts(counts),
        contributions="bleu_counts",
        shape=(2 * MAX_ORDER + 2,),
    ),
    # The corpus score of METEOR 1.5 is not the mean over photos.
    "meteor": replace(mean_over_photos("meteor", "METEOR", None), measure=_measure_meteor),
    "rouge_l": mean_over_photos("rouge_l", "ROUGE-L", rouge_l_of_photos),
    "cider": mean_over_photos("cider", "CIDEr", cider_of_photos, unit=1, digits=3),
}


def columns():
    """Return the columns of a table of scores: a dict from the name of a figure to its
    title.
    """
    return {name: title for score in SCORES.values() for name, title in score.columns.items()}


def unit_and_digits(name):
    """Return the factor and the number of decimals for printing a figure; (1, 3) if it
    is not a score.

    >>> unit_and_digits("cider"), unit_and_digits("bleu_4")
    ((1, 3), (100, 1))
    """
    return next(
        ((score.unit, score.digits) for score in SCORES.values() if name in score.columns), (1, 3)
    )


def shown(name, value):
    """Return a figure as text: "21.3" for BLEU-4, "0.520" for CIDEr, "-" for None."""
    unit, digits = unit_and_digits(name)
    return "-" if value is None else f"{unit * value:.{digits}f}"


def named(name, value):
    """Return a figure with its title: "BLEU-4 21.3 %" for the fraction 0.213, or "CIDEr
    0.520".
    """
    unit, _ = unit_and_digits(name)
    return f"{columns().get(name, name)} {shown(name, value)}{' %' if unit == 100 else ''}"
