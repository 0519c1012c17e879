"""Split captions into words and n-grams for all scores."""

from collections import Counter

from data_utils.base import brief
from data_utils.captions import tokenise

MAX_ORDER = 4  # of the n-grams of BLEU and CIDEr


def as_words(references, candidates):
    """Return references and candidates as lists of words.

    Raise ValueError if they cannot be scored.
    """
    references, candidates = list(references), list(candidates)
    if len(references) != len(candidates) or not candidates:
        raise ValueError(
            "Expected at least one candidate, and a list of references for each. Received: "
            f"{len(references)} lists of references, {len(candidates)} candidates"
        )
    for photo_references in references:
        if isinstance(photo_references, str) or not len(photo_references):
            raise ValueError(
                f"Expected a list of captions for each photo. Received: {brief(photo_references)}"
            )
    reference_words = [[words_of(caption) for caption in captions] for captions in references]
    candidate_words = [words_of(caption) for caption in candidates]
    return reference_words, candidate_words


def words_of(caption):
    """Return a caption, a string or a list of words, as a list of words."""
    return tokenise(caption) if isinstance(caption, str) else list(caption)


def ngram_counts(words):
    """Return how often each n-gram (a tuple of up to MAX_ORDER words) occurs."""
    return Counter(
        tuple(words[i : i + n]) for n in range(1, MAX_ORDER + 1) for i in range(len(words) - n + 1)
    )
