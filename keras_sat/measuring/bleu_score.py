"""Compute BLEU as coco-caption does: the fraction of a caption's n-grams (n up to 4)
that occur in its references.
"""

from collections import Counter

import numpy as np

from keras_sat.measuring.words import MAX_ORDER, as_words, ngram_counts

_TINY, _SMALL = 1e-15, 1e-9  # coco-caption adds these to avoid division by zero


def bleu(references: list[list[str]], candidates: list[str]) -> dict[str, float]:
    """Return corpus BLEU: a dict with "bleu_1" to "bleu_4", and "bleu_1_no_penalty" to
    "bleu_4_no_penalty".

    BLEU-n is the geometric mean of the clipped precisions of 1-grams to n-grams. The
    brevity penalty compares the length of all candidates with that of the references
    closest in length. The paper reports BLEU without the penalty. There is a list of
    references for each candidate.

    >>> scores = bleu([["a dog runs", "the brown dog runs fast"]], ["a dog runs"])
    >>> round(scores["bleu_1"], 6), round(scores["bleu_3"], 6)
    (1.0, 1.0)
    """
    return bleu_of_counts(bleu_counts(references, candidates).sum(axis=0))


def bleu_counts(references, candidates):
    """Return the counts from which BLEU is computed, as integers of shape (photos, 10).

    The columns are the matched n-grams for n = 1 to 4, all n-grams for n = 1 to 4, the
    length of the candidate, and the length of the closest reference, in words.
    """
    counts = []
    for photo_references, candidate in zip(*as_words(references, candidates)):
        most = Counter()  # how often each n-gram occurs in one reference, at most
        for reference in photo_references:
            most |= ngram_counts(reference)
        num_matched = [0] * MAX_ORDER
        num_ngrams = [0] * MAX_ORDER
        for ngram, count in ngram_counts(candidate).items():
            order = len(ngram) - 1
            num_matched[order] += min(count, most[ngram])
            num_ngrams[order] += count
        closest_length = min(
            map(len, photo_references), key=lambda length: (abs(length - len(candidate)), length)
        )
        counts.append([*num_matched, *num_ngrams, len(candidate), closest_length])
    return np.array(counts)


def bleu_of_counts(counts):
    """Return BLEU as a dict of numbers or arrays, given sums of `bleu_counts` over
    photos, of shape (..., 10).
    """
    counts = np.asarray(counts, dtype=float)
    num_matched = counts[..., :MAX_ORDER]
    num_ngrams = counts[..., MAX_ORDER : 2 * MAX_ORDER]
    candidate_length, reference_length = counts[..., -2], counts[..., -1]
    precisions = (num_matched + _TINY) / (num_ngrams + _SMALL)  # (..., MAX_ORDER)
    orders = np.arange(1, MAX_ORDER + 1)
    means = np.cumprod(precisions, axis=-1) ** (1 / orders)  # geometric, of 1 to n
    penalty = np.exp(np.minimum(0.0, 1 - (reference_length + _SMALL) / (candidate_length + _TINY)))
    scores = {f"bleu_{n}": means[..., n - 1] * penalty for n in range(1, MAX_ORDER + 1)}
    scores |= {f"bleu_{n}_no_penalty": means[..., n - 1] for n in range(1, MAX_ORDER + 1)}
    return scores if counts.ndim > 1 else {name: float(score) for name, score in scores.items()}
