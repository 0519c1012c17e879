"""Scores of captions, as coco-caption computes them, in plain Python.

A score is a function of `references`, one list of captions for each photo, and `candidates`, one caption for each
photo. Captions are texts, which `tokenise` cuts into words, or lists of words. Special tokens never belong in them.
"""

import math
from collections import Counter

from data_utils.captions import tokenise

MAX_ORDER = 4
_TINY, _SMALL = 1e-15, 1e-9  # coco-caption adds these, so that nothing is divided by zero


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
    references, candidates = _as_words(references, candidates)
    matches, guesses = [0] * MAX_ORDER, [0] * MAX_ORDER
    candidate_length = reference_length = 0
    for photo_references, candidate in zip(references, candidates):
        most = Counter()
        for reference in photo_references:
            most |= _ngram_counts(reference)
        for ngram, count in _ngram_counts(candidate).items():
            matches[len(ngram) - 1] += min(count, most[ngram])
            guesses[len(ngram) - 1] += count
        candidate_length += len(candidate)
        lengths = map(len, photo_references)
        reference_length += min(lengths, key=lambda length: (abs(length - len(candidate)), length))
    ratio = (candidate_length + _TINY) / (reference_length + _SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    scores, product = {}, 1.0
    for n in range(1, MAX_ORDER + 1):
        product *= (matches[n - 1] + _TINY) / (guesses[n - 1] + _SMALL)
        scores[f"bleu_{n}_no_penalty"] = product ** (1 / n)
    with_penalty = {f"bleu_{n}": scores[f"bleu_{n}_no_penalty"] * penalty for n in range(1, MAX_ORDER + 1)}
    return {**with_penalty, **scores}


SCORES = {"bleu": bleu}


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
