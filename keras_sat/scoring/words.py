"""Split captions into words and n-grams for all scores."""

from collections import Counter

from data_utils.captions import tokenise
from data_utils.foreign_text import brief

MAX_ORDER = 4  # of the n-grams of BLEU and CIDEr


def as_words(references, candidates):
    """Return references and candidates as lists of words.

    Raise ValueError if they cannot be scored.
    """
    references, candidates = list(references), list(candidates)
    if len(references) != len(candidates) or not candidates:
        problem = "Expected at least one candidate, and a list of references for each."
        raise ValueError(
            f"{problem} Received: {len(references)} lists of references, "
            f"{len(candidates)} candidates"
        )
    for photo_references in references:
        if isinstance(photo_references, str) or not len(photo_references):
            raise ValueError(
                f"Expected a list of captions for each photo. Received: {brief(photo_references)}"
            )
    return [[words_of(caption) for caption in captions] for captions in references], [
        *map(words_of, candidates)
    ]


def words_of(caption):
    return tokenise(caption) if isinstance(caption, str) else list(caption)


def ngram_counts(words):
    return Counter(
        tuple(words[i : i + n]) for n in range(1, MAX_ORDER + 1) for i in range(len(words) - n + 1)
    )
