"""Scores of captions, as coco-caption computes them, in plain Python; METEOR is in `keras_sat.scoring.meteor`.

A score is a function of `references`, one list of captions for each photo, and `candidates`, one caption for each
photo. Captions are texts, which `tokenise` cuts into words, or lists of words. Special tokens never belong in them.
Each score has a companion that says how much each photo contributes to it.
"""

import math
from collections import Counter

import numpy as np

from data_utils.captions import tokenise
from keras_sat.scoring.meteor import score_meteor

MAX_ORDER = 4
_TINY, _SMALL = 1e-15, 1e-9  # coco-caption adds these, so that nothing is divided by zero

# === BLEU ===


def bleu(references, candidates):
    """Return the corpus's BLEU: dict with "bleu_1" to "bleu_4", and "bleu_1_no_penalty" to "bleu_4_no_penalty".

    BLEU-n is the geometric mean of the shares of 1-grams to n-grams that stand in a reference too, each counted at most
    as often as in the reference that has it most often. The brevity penalty compares the length of all candidates
    with that of the references closest in length. The paper's table is without the penalty.

    Args:
        references: list of lists of captions.
        candidates: list of captions.

    >>> scores = bleu([["a dog runs", "the brown dog runs fast"]], ["a dog runs"])
    >>> round(scores["bleu_1"], 6), round(scores["bleu_3"], 6)
    (1.0, 1.0)
    """
    return bleu_of_counts(bleu_counts(references, candidates).sum(axis=0))


def bleu_counts(references, candidates):
    """Return what each photo adds to BLEU: matches of 1 to 4 words, guesses, and both lengths; (photos, 10), whole."""
    counts = []
    for photo_references, candidate in zip(*_as_words(references, candidates)):
        most = Counter()
        for reference in photo_references:
            most |= _ngram_counts(reference)
        matches, guesses = [0] * MAX_ORDER, [0] * MAX_ORDER
        for ngram, count in _ngram_counts(candidate).items():
            matches[len(ngram) - 1] += min(count, most[ngram])
            guesses[len(ngram) - 1] += count
        lengths = map(len, photo_references)
        closest = min(lengths, key=lambda length: (abs(length - len(candidate)), length))
        counts.append([*matches, *guesses, len(candidate), closest])
    return np.array(counts)


def bleu_of_counts(counts):
    """Return BLEU from the sum of the `bleu_counts` of some photos, (..., 10): a dict of numbers or of arrays."""
    counts = np.asarray(counts, dtype=float)
    matches, guesses = counts[..., :MAX_ORDER], counts[..., MAX_ORDER : 2 * MAX_ORDER]
    candidate_length, reference_length = counts[..., -2], counts[..., -1]
    precisions = (matches + _TINY) / (guesses + _SMALL)
    means = np.cumprod(precisions, axis=-1) ** (1 / np.arange(1, MAX_ORDER + 1))
    penalty = np.exp(np.minimum(0.0, 1 - (reference_length + _SMALL) / (candidate_length + _TINY)))
    scores = {f"bleu_{n}": means[..., n - 1] * penalty for n in range(1, MAX_ORDER + 1)}
    scores |= {f"bleu_{n}_no_penalty": means[..., n - 1] for n in range(1, MAX_ORDER + 1)}
    return scores if counts.ndim > 1 else {name: float(score) for name, score in scores.items()}


# === ROUGE-L ===

ROUGE_BETA = 1.2  # recall counts this many times as much as precision


def rouge_l(references, candidates):
    """Return {"rouge_l": ..}: how long a part of a reference comes in a candidate in the same order, on average.

    Args:
        references: list of lists of captions.
        candidates: list of captions.

    >>> rouge_l([["a dog runs"]], ["a dog runs"])
    {'rouge_l': 1.0}
    """
    return {"rouge_l": float(rouge_l_of_photos(references, candidates).mean())}


def rouge_l_of_photos(references, candidates):
    """Return ROUGE-L of each photo: best precision and best recall over its references, as an F score; (photos,)."""
    scores = []
    for photo_references, candidate in zip(*_as_words(references, candidates)):
        common = [_longest_common_subsequence(reference, candidate) for reference in photo_references]
        if not any(common):
            scores.append(0.0)
            continue
        precision = max(common) / len(candidate)
        recall = max(length / len(reference) for length, reference in zip(common, photo_references) if reference)
        scores.append((1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision))
    return np.array(scores)


def _longest_common_subsequence(first, second):
    """Return the length of the longest sequence of words that both have in this order, perhaps with gaps."""
    lengths = [0] * (len(second) + 1)  # of the words of `first` so far and the first j words of `second`
    for word in first:
        before = 0  # lengths[j - 1] before this word
        for j, other in enumerate(second, start=1):
            before, lengths[j] = lengths[j], before + 1 if word == other else max(lengths[j - 1], lengths[j])
    return lengths[-1]


# === CIDEr ===

CIDER_SIGMA = 6.0  # in words: how fast a difference in length lowers the score


def cider(references, candidates, frequencies=None):
    """Return {"cider": ..}, CIDEr-D as coco-caption computes it: agreement in the n-grams that are rare elsewhere.

    With a single photo no n-gram is rarer than another, and the score is 0.

    Args:
        references: list of lists of captions.
        candidates: list of captions.
        frequencies: DocumentFrequencies; None takes those of the references, as coco-caption does.
    """
    return {"cider": float(cider_of_photos(references, candidates, frequencies).mean())}


def cider_of_photos(references, candidates, frequencies=None):
    """Return CIDEr of each photo, (photos,): 10 times a mean cosine of n-gram vectors. See `cider`."""
    references, candidates = _as_words(references, candidates)
    frequencies = frequencies or DocumentFrequencies(references)
    scores = []
    for photo_references, candidate in zip(references, candidates):
        vectors = [frequencies.vectors(reference) for reference in photo_references]
        scores.append(cider_of_vectors(frequencies.vectors(candidate), vectors))
    return np.array(scores)


def cider_of_vectors(candidate, references):
    """Return CIDEr of one caption, from its `DocumentFrequencies.vectors` and those of its references."""
    return 10 * sum(_cider_similarity(candidate, reference) for reference in references) / len(references)


class DocumentFrequencies:
    """In the references of how many photos each n-gram occurs.

    Args:
        references: list of lists of captions.
    """

    def __init__(self, references):
        self.counts = Counter()
        num_photos = 0
        for photo_references in references:
            num_photos += 1
            self.counts.update({ngram for caption in photo_references for ngram in _ngram_counts(_words(caption))})
        self.log_num_photos = math.log(max(num_photos, 1))

    def vectors(self, words):
        """Return a caption as n-gram vectors, count times inverse document frequency: dicts, norms, number of pairs."""
        weights, squares = [{} for _ in range(MAX_ORDER)], [0.0] * MAX_ORDER
        for ngram, count in _ngram_counts(words).items():
            weight = count * (self.log_num_photos - math.log(max(self.counts[ngram], 1)))
            weights[len(ngram) - 1][ngram] = weight
            squares[len(ngram) - 1] += weight**2
        return weights, [math.sqrt(square) for square in squares], max(len(words) - 1, 0)


def _cider_similarity(guess, reference):
    """Return the mean over n of the clipped cosine of two captions, less for captions of different length."""
    (guess_weights, guess_norms, guess_pairs), (weights, norms, pairs) = guess, reference
    total = 0.0
    for n in range(MAX_ORDER):
        if guess_norms[n] and norms[n]:
            other = weights[n]
            shared = sum(min(w, other[ngram]) * other[ngram] for ngram, w in guess_weights[n].items() if ngram in other)
            total += shared / (guess_norms[n] * norms[n])
    return math.exp(-((guess_pairs - pairs) ** 2) / (2 * CIDER_SIGMA**2)) * total / MAX_ORDER


# === METEOR ===


def meteor(references, candidates):
    """Return {"meteor": .., "meteor_kind": ..}: which METEOR depends on what is installed, see `scoring.meteor`.

    Args:
        references: list of lists of captions.
        candidates: list of captions.
    """
    found = score_meteor(*_as_words(references, candidates))
    return {"meteor": found.corpus, "meteor_kind": found.kind}


SCORES = {"bleu": bleu, "rouge_l": rouge_l, "cider": cider, "meteor": meteor}


# === Captions as words ===


def _as_words(references, candidates):
    """Return both as lists of words, and refuse what cannot be scored."""
    references, candidates = list(references), list(candidates)
    if len(references) != len(candidates) or not candidates:
        raise ValueError(
            "Expected as many lists of references as candidates, and at least one. "
            f"Received: {len(references)} lists of references, {len(candidates)} candidates"
        )
    for number, photo_references in enumerate(references):
        if isinstance(photo_references, str) or not len(photo_references):
            raise ValueError(
                f"Expected a list of captions for each photo. Received: references[{number}]={photo_references!r}"
            )
    return [[_words(caption) for caption in captions] for captions in references], [*map(_words, candidates)]


def _words(caption):
    return tokenise(caption) if isinstance(caption, str) else list(caption)


def _ngram_counts(words):
    return Counter(tuple(words[i : i + n]) for n in range(1, MAX_ORDER + 1) for i in range(len(words) - n + 1))
