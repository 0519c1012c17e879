"""Define SCORES, the scores that `evaluate` and `compare` use, computed as in
coco-caption.

To add one, write a function of `references`, a list of captions for each photo, and
`candidates`, one caption for each photo, all lists of words. It returns a number for
each photo, (photos,). Then add a line with `mean_over_photos`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_sat.measuring.bleu_score import bleu_counts, bleu_of_counts
from keras_sat.measuring.cider_score import cider_of_photos
from keras_sat.measuring.meteor import score_meteor
from keras_sat.measuring.rouge import rouge_l_of_photos
from keras_sat.measuring.words import MAX_ORDER, as_words


@dataclass(frozen=True, kw_only=True)
class Score:
    """A metric for captions. Call it with references and candidates to get a dict of
    its figures.

    Attributes:
        columns: dict from the name of a figure to its title in tables; a score such as
            BLEU has several.
        measure: function of references and candidates, as lists of words. It returns a
            dict of figures, whose values are None if they cannot be computed, and the
            contribution of each photo, (photos, *shape), which is then None. None if
            the metric needs more than captions.
        figures_of_sums: function that returns a dict of figures, (...), from the sums
            of contributions over photos, (..., *shape), and the number of these photos,
            (...).
        contributions: the key of the contributions in `ScoreTable.photos`.
        shape: shape of the contribution of one photo.
        unit, digits: a figure is multiplied by `unit` and shown with `digits` decimals.
    """

    columns: dict
    measure: Callable | None
    figures_of_sums: Callable
    contributions: str
    shape: tuple = ()
    unit: int = 100
    digits: int = 1

    def __call__(self, references, candidates):
        return self.measure(*as_words(references, candidates))[0]


def mean_over_photos(name, title, photo_scores, *, unit=100, digits=1):
    """Return a Score that averages `photo_scores(references, candidates)`, (photos,),
    over photos.

    For `unit` and `digits` see `Score`.
    """

    def measure(references, candidates):
        values = np.asarray(photo_scores(references, candidates), dtype=float)
        return {name: float(values.mean())}, values

    def mean(sums, num_photos):
        return {name: sums / num_photos}

    return Score(
        columns={name: title},
        measure=measure,
        figures_of_sums=mean,
        contributions=name,
        unit=unit,
        digits=digits,
    )


def meteor(references: list[list[str]], candidates: list[str]) -> dict[str, Any]:
    """Return {"meteor": .., "meteor_kind": ..} for references and candidates. See
    `measuring.meteor`.
    """
    return _measure_meteor(*as_words(references, candidates))[0]


def _measure_meteor(references, candidates):
    result = score_meteor(references, candidates)
    return {"meteor": result.corpus_score, "meteor_kind": result.kind}, result.photo_scores


def _mean_meteor(sums, num_photos):
    # The corpus score of METEOR 1.5 is not the mean over photos.
    return {"meteor": sums / num_photos}


def _measure_bleu(references, candidates):
    counts = bleu_counts(references, candidates)
    return bleu_of_counts(counts.sum(axis=0)), counts


def _bleu_of_sums(counts, num_photos):
    return bleu_of_counts(counts)


SCORES = {
    "bleu": Score(
        columns={f"bleu_{n}": f"BLEU-{n}" for n in range(1, MAX_ORDER + 1)},
        measure=_measure_bleu,
        figures_of_sums=_bleu_of_sums,
        contributions="bleu_counts",
        shape=(2 * MAX_ORDER + 2,),
    ),
    "meteor": Score(
        columns={"meteor": "METEOR"},
        measure=_measure_meteor,
        figures_of_sums=_mean_meteor,
        contributions="meteor",
    ),
    "rouge_l": mean_over_photos("rouge_l", "ROUGE-L", rouge_l_of_photos),
    "cider": mean_over_photos("cider", "CIDEr", cider_of_photos, unit=1, digits=3),
}


def score_titles():
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
    for score in SCORES.values():
        if name in score.columns:
            return score.unit, score.digits
    return 1, 3


def shown(name, value):
    """Return a figure as text: "21.3" for BLEU-4, "0.520" for CIDEr, "-" for None."""
    unit, digits = unit_and_digits(name)
    return "-" if value is None else f"{unit * value:.{digits}f}"


def score_in_words(name, value):
    """Return a figure with its title: "BLEU-4 21.3 %" for the fraction 0.213, or "CIDEr
    0.520".
    """
    unit, _ = unit_and_digits(name)
    percent = " %" if unit == 100 else ""
    return f"{score_titles().get(name, name)} {shown(name, value)}{percent}"
