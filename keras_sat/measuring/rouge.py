"""Compute ROUGE-L as coco-caption does: how many words a caption shares with a
reference, in the same order.
"""

import numpy as np

from keras_sat.measuring.words import as_words

ROUGE_BETA = 1.2  # recall counts this many times as much as precision


def rouge_l(references: list[list[str]], candidates: list[str]) -> dict[str, float]:
    """Return {"rouge_l": ..}: the mean F score of the longest common subsequence of
    candidate and reference.

    >>> rouge_l([["a dog runs"]], ["a dog runs"])
    {'rouge_l': 1.0}
    """
    return {"rouge_l": float(rouge_l_of_photos(references, candidates).mean())}


def rouge_l_of_photos(references, candidates):
    """Return an array with the ROUGE-L of each photo: the F score of its best precision
    and its best recall.
    """
    scores = []
    for photo_references, candidate in zip(*as_words(references, candidates)):
        lengths = [
            _longest_common_subsequence(reference, candidate) for reference in photo_references
        ]
        if not any(lengths):
            scores.append(0.0)
            continue
        precision = max(lengths) / len(candidate)
        recall = max(
            length / len(reference)
            for length, reference in zip(lengths, photo_references)
            if reference
        )
        scores.append(
            (1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision)
        )
    return np.array(scores)


def _longest_common_subsequence(first, second):
    """Return the length of the longest common subsequence of two lists of words."""
    # lengths[j]: of the words of `first` so far and the first j words of `second`.
    lengths = [0] * (len(second) + 1)
    for first_word in first:
        previous_lengths = lengths  # without this word
        lengths = [0]
        for j, second_word in enumerate(second):
            if first_word == second_word:
                lengths.append(previous_lengths[j] + 1)
            else:
                lengths.append(max(previous_lengths[j + 1], lengths[j]))
    return lengths[-1]
