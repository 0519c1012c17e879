"""Whether a word depends on the regions that a map says it depends on.

- fall: what log p loses if the tenth of the regions with the greatest values is
  removed, and "least" the tenth with the lowest.
- deletion, insertion: the area below p, as a fraction of p for the whole photo, while
  regions are removed, greatest first (less is better), or put back, greatest first
  (more is better). Petsiuk et al., 2018.
- correlation: of a map's sum over a random tenth of the regions with what log p loses
  without it. Bhatt et al., 2020, Evaluating and Aggregating Feature-based Model
  Explanations.
"""

import numpy as np

from keras_sat.measuring.explaining import removed_in_order

LEVELS = 20
SUBSETS = 100
TENTH = LEVELS // 10  # the level at which a tenth is removed
MEASURES = ("fall", "least", "deletion", "insertion", "correlation")


def measured(maps, log_prob, *, seed):
    """Return the MEASURES of each map, followed by p / p for the whole photo with 5,
    10, .. 100 % of the regions removed, greatest first: a dict from names to lists.

    Args:
        maps: a dict from names to the maps of a word, (regions,).
        log_prob: from how much of each region is kept, (n, regions), to log p of the
            word, (n,).
    """
    num_regions = len(next(iter(maps.values())))
    random = np.random.default_rng(seed)
    size = max(round(num_regions / 10), 1)
    subsets = np.zeros((SUBSETS, num_regions), bool)
    for subset in subsets:
        subset[random.choice(num_regions, size, replace=False)] = True
    removed = [np.zeros((1, num_regions), bool), subsets]
    for one in maps.values():
        removed += [removed_in_order(one, LEVELS), removed_in_order(-one, LEVELS)]
    log_probs = log_prob(1.0 - np.concatenate(removed))
    unchanged, falls = log_probs[0], log_probs[0] - log_probs[1 : 1 + SUBSETS]
    curves = log_probs[1 + SUBSETS :].reshape(len(maps), 2, LEVELS)
    found = {}
    for (name, one), (greatest, least) in zip(maps.items(), curves):
        found[name] = [
            unchanged - greatest[TENTH - 1],
            unchanged - least[TENTH - 1],
            _area(greatest - unchanged),
            _area(least - unchanged),
            _correlation(subsets @ one, falls),
            *np.exp(greatest - unchanged).round(4),
        ]
    return {name: [float(value) for value in values] for name, values in found.items()}


def _area(log_ratios):
    """Return the area below p / p for the whole photo, given its log at each level."""
    return np.trapezoid(np.exp([0.0, *log_ratios]), dx=1 / LEVELS)


def _correlation(first, second):
    """Return Pearson's correlation, 0 where one is constant."""
    if np.std(first) < 1e-12 or np.std(second) < 1e-12:
        return 0.0
    return np.corrcoef(first, second)[0, 1]


def rank_correlation(first, second):
    """Return Spearman's correlation of two maps; ties share no rank."""
    return _correlation(*(np.argsort(np.argsort(one)).astype(float) for one in (first, second)))
