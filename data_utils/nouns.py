"""Nouns of captions for things that are seen, and whether other captions support them.

nouns.txt lists the nouns, and which words support each.
"""

import functools
import re
from pathlib import Path

LISTED = Path(__file__).with_name("nouns.txt")
IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
    "teeth": "tooth",
}


def noun_positions(words):
    """Return the positions of a caption's listed nouns, a list."""
    nouns, _ = listed_nouns()
    return [position for position, word in enumerate(words) if word in nouns]


def nouns_supported(words, references):
    """Return a dict from the positions of a caption's listed nouns to whether a
    reference has this noun, or a word that supports it: "poodle" supports "dog".

    Args:
        words: list of the caption's words.
        references: list of lists of words.
    """
    _, supporting = listed_nouns()
    said = {singular(word) for reference in references for word in reference}
    nouns = {position: singular(words[position]) for position in noun_positions(words)}
    return {position: bool(said & supporting.get(noun, {noun})) for position, noun in nouns.items()}


@functools.cache
def listed_nouns():
    """Return the nouns of nouns.txt, a set, and a dict from singular words to the sets
    of those that support them.
    """
    nouns, supporting = set(), {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        kind, *words = line.split()
        if kind == ".":
            nouns.update(words)
        for word in words if kind == "=" else words[:1] if kind == "<" else ():
            supporting.setdefault(word, {word}).update(words)
    return nouns, supporting


def singular(word):
    """Return the singular of an English noun, good enough to compare two words of which
    both are passed through it.

    >>> words = "dogs", "women", "glasses", "puppies", "grass", "bus"
    >>> [singular(word) for word in words]
    ['dog', 'woman', 'glass', 'puppy', 'grass', 'bus']
    """
    word = re.sub(r"(?<=\w\w)ies?$", "y", IRREGULAR.get(word, word))
    return re.sub(r"((?<=ss)|(?<=bus)|(?<=[cs]h)|(?<=[xz]))es$|(?<=[^su])s$", "", word)
