"""Compute CIDEr-D as coco-caption does, from the n-grams shared with the references,
weighted by rarity.
"""

import math
from collections import Counter

import numpy as np

from keras_sat.scoring.words import MAX_ORDER, as_words, ngram_counts, words_of

CIDER_SIGMA = 6.0  # in words; a difference in length lowers the score


def cider(references: list[list[str]], candidates: list[str]) -> dict[str, float]:
    """Return {"cider": ..}, the CIDEr-D score.

    For a single photo it is 0, because all n-grams are equally rare.
    """
    return {"cider": float(cider_of_photos(references, candidates).mean())}


def cider_of_photos(references, candidates, frequencies=None):
    """Return each photo's CIDEr-D, 10 times the mean cosine of n-gram vectors;
    `frequencies` None: the references'.
    """
    references, candidates = as_words(references, candidates)
    frequencies = frequencies or DocumentFrequencies(references)
    vectors = ([*map(frequencies.vectors, of_photo)] for of_photo in references)
    return np.array(
        [cider_of_vectors(frequencies.vectors(words), of) for words, of in zip(candidates, vectors)]
    )


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
            self.counts.update(
                {ngram for caption in photo_references for ngram in ngram_counts(words_of(caption))}
            )
        self.log_num_photos = math.log(max(len(references), 1))

    def vectors(self, words):
        """Return the tf-idf vectors of a caption (a dict for each n), their norms, and
        the number of word pairs.
        """
        weights, squares = [{} for _ in range(MAX_ORDER)], [0.0] * MAX_ORDER
        for ngram, count in ngram_counts(words).items():
            weight = count * (self.log_num_photos - math.log(max(self.counts[ngram], 1)))
            weights[len(ngram) - 1][ngram] = weight
            squares[len(ngram) - 1] += weight**2
        return weights, [math.sqrt(square) for square in squares], max(len(words) - 1, 0)


def _cider_similarity(guess, reference):
    """Return the clipped cosine similarity of two captions, averaged over n and lowered
    if lengths differ.
    """
    (guess_weights, guess_norms, guess_pairs), (weights, norms, pairs) = guess, reference
    total = 0.0
    for n in range(MAX_ORDER):
        if guess_norms[n] and norms[n]:
            other = weights[n]
            shared = sum(
                min(w, other[ngram]) * other[ngram]
                for ngram, w in guess_weights[n].items()
                if ngram in other
            )
            total += shared / (guess_norms[n] * norms[n])
    return math.exp(-((guess_pairs - pairs) ** 2) / (2 * CIDER_SIGMA**2)) * total / MAX_ORDER
