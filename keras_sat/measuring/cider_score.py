"""Compute CIDEr-D as coco-caption does, from the n-grams shared with the references,
weighted by rarity.
"""

import math
from collections import Counter

import numpy as np

from keras_sat.measuring.words import MAX_ORDER, as_words, ngram_counts, words_of

CIDER_SIGMA = 6.0  # in words; a difference in length lowers the score


def cider(references: list[list[str]], candidates: list[str]) -> dict[str, float]:
    """Return {"cider": ..}, the CIDEr-D score.

    For a single photo it is 0, because all n-grams are equally rare.
    """
    return {"cider": float(cider_of_photos(references, candidates).mean())}


def cider_of_photos(references, candidates, frequencies=None):
    """Return each photo's CIDEr-D, (photos,): 10 times the mean cosine of its n-gram
    vectors.

    `frequencies` are DocumentFrequencies; None counts the n-grams of the references.
    """
    references, candidates = as_words(references, candidates)
    if frequencies is None:
        frequencies = DocumentFrequencies(references)
    scores = []
    for photo_references, candidate in zip(references, candidates):
        candidate_vectors = frequencies.vectors(candidate)
        reference_vectors = [frequencies.vectors(reference) for reference in photo_references]
        scores.append(cider_of_vectors(candidate_vectors, reference_vectors))
    return np.array(scores)


def cider_of_vectors(candidate, references):
    """Return the CIDEr-D of a caption, given `DocumentFrequencies.vectors` of it and of
    each of its references.
    """
    total = sum(_cider_similarity(candidate, reference) for reference in references)
    # An empty share has no references, see make_batches.
    return 10 * total / max(len(references), 1)


class DocumentFrequencies:
    """For each n-gram, the number of photos whose references (a list of lists of
    captions) contain it.
    """

    def __init__(self, references):
        self.counts = Counter()
        for photo_references in references:
            photo_ngrams = set()
            for caption in photo_references:
                photo_ngrams.update(ngram_counts(words_of(caption)))
            self.counts.update(photo_ngrams)
        self.log_num_photos = math.log(max(len(references), 1))

    def vectors(self, words):
        """Return the tf-idf vectors of a caption (a dict for each n), their norms, and
        the number of word pairs.
        """
        weights = [{} for _ in range(MAX_ORDER)]
        squares = [0.0] * MAX_ORDER
        for ngram, count in ngram_counts(words).items():
            rarity = self.log_num_photos - math.log(max(self.counts[ngram], 1))
            weight = count * rarity
            order = len(ngram) - 1
            weights[order][ngram] = weight
            squares[order] += weight**2
        norms = [math.sqrt(square) for square in squares]
        num_pairs = max(len(words) - 1, 0)
        return weights, norms, num_pairs


def _cider_similarity(candidate, reference):
    """Return the clipped cosine similarity of two captions, averaged over n and lowered
    if lengths differ.

    Both are outputs of `DocumentFrequencies.vectors`.
    """
    candidate_weights, candidate_norms, candidate_pairs = candidate
    reference_weights, reference_norms, reference_pairs = reference
    total = 0.0
    for n in range(MAX_ORDER):
        norms = candidate_norms[n] * reference_norms[n]
        if not norms:
            continue
        ngram_weights = reference_weights[n]
        product = sum(
            min(weight, ngram_weights[ngram]) * ngram_weights[ngram]
            for ngram, weight in candidate_weights[n].items()
            if ngram in ngram_weights
        )
        total += product / norms
    difference = candidate_pairs - reference_pairs
    penalty = math.exp(-(difference**2) / (2 * CIDER_SIGMA**2))
    return penalty * total / MAX_ORDER
