"""The metrics of every epoch of a training run: they decide which epoch is the best,
and are written to history.csv.
"""

import math
from collections import UserDict

from data_utils.base import write_whole
from keras_sat.measuring import score_in_words

MONITORED = "val_bleu_4"
CROSS_ENTROPY = "val_cross_entropy"  # chooses the epoch if dev is too small for BLEU-4
FEW_DEV_PHOTOS = 50  # with fewer, BLEU-4 can hardly tell epochs apart
LEAST_SCORE = 1e-4  # a lower score counts as 0
LEAST_MATCHES = 10  # with fewer matching 4-grams on the whole dev split, BLEU-4 is at chance level


class Curves(UserDict):
    """The type of `captioner.history` after `fit`: it maps each metric's name to its
    values, one per epoch.

    Scores are fractions, such as .213 for a BLEU-4 of 21.3 %; CIDEr is scaled as in
    coco-caption. `was_interrupted` says whether Ctrl-C or `minutes` ended the training.
    """

    def __init__(self, epochs, *, was_interrupted=False):
        self.was_interrupted = was_interrupted
        names = dict.fromkeys(name for figures in epochs for name in figures)
        super().__init__(
            {name: [figures.get(name, math.nan) for figures in epochs] for name in names}
        )

    @property
    def history(self):
        """The curves as a dict, as in the History of Keras."""
        return self.data


def as_text(monitored, score):
    """Format a monitored score, such as "BLEU-4 21.3 %" or "CIDEr 0.520"."""
    if monitored == CROSS_ENTROPY:
        return f"cross-entropy {score:.3f}"
    return score_in_words(monitored.removeprefix("val_"), score)


def best_epoch(epochs, monitored=MONITORED):
    """Return the index of the epoch with the best monitored metric (the first, if
    tied), or the last if it is missing.

    While the metric is at chance level (see `is_above_chance`), the cross-entropy on
    dev decides; the captioner that rewards start from has none, and stays until an
    epoch is above chance. Warm-up epochs count only if no other epochs follow.
    """
    if not epochs or monitored not in epochs[-1]:
        return len(epochs) - 1

    def quality(number):
        if monitored != CROSS_ENTROPY and is_above_chance(epochs[number], monitored):
            return epochs[number][monitored], 0, -number
        return 0, -epochs[number].get(CROSS_ENTROPY, 0), -number

    numbers = range(len(epochs))
    after_warm_up = [number for number in numbers if not epochs[number].get("warm_up")]
    return max(after_warm_up or numbers, key=quality)


def is_above_chance(figures, monitored=MONITORED):
    """Return whether a score is above chance level; for BLEU-4, this requires
    LEAST_MATCHES matching 4-grams.

    Without any match BLEU-4 is not 0: the tiny numbers that coco-caption adds raise it
    to as much as 0.03.
    """
    enough = monitored != MONITORED or figures.get("val_matches", LEAST_MATCHES) >= LEAST_MATCHES
    return enough and figures[monitored] >= LEAST_SCORE


def has_plateaued(epochs, patience, monitored=MONITORED):
    """Return whether none of the last `patience` epochs was better than the best epoch
    before them (see `best_epoch`).

    Scores at chance level are not a plateau, unless the cross-entropy on dev decided.
    Neither is a warm-up.
    """
    num_left = epochs_to_plateau(epochs, patience, monitored)
    return num_left is not None and num_left <= 0


def epochs_to_plateau(epochs, patience, monitored=MONITORED):
    """Return after how many further epochs there is a plateau (see `has_plateaued`) if
    none of them is better; None if that is unknown or there will be none.
    """
    if not epochs or patience is None or monitored not in epochs[-1] or epochs[-1].get("warm_up"):
        return None
    best = best_epoch(epochs, monitored)
    if not is_above_chance(epochs[best], monitored) and CROSS_ENTROPY not in epochs[best]:
        return None
    return patience - (len(epochs) - 1 - best)


def write_history(path, epochs):
    """Write the metrics of all epochs to a CSV file atomically, unlike Keras'
    CSVLogger, which appends line by line.
    """
    curves = {"epoch": range(1, len(epochs) + 1), **Curves(epochs)}
    rows = zip(*([f"{value:.6g}" for value in values] for values in curves.values()))
    write_whole(path, "".join(f"{','.join(row)}\n" for row in [curves, *rows]))
