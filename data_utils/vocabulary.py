"""Map words to ids and back, with a vocabulary built from the training split only."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from typing import Any

from data_utils.base import UNSEEN, brief, read_sealed_json, write_sealed_json
from data_utils.captions import CaptionedImage, tokenise

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unk>")
# In the vocabulary of captioners of version 0.1.0, where it started a phrase. No search
# says it.
REGION_TOKEN = "<region>"
FORMAT_VERSION = 1
MOST_LETTERS_IN_WORD = 1_000  # a longer word would not fit into any plot


class Vocabulary:
    """The words of a captioner and their ids; the four special tokens come first, and
    `<pad>` has id 0.

    Attributes:
        words: the words without the special tokens, in the order of their ids.
        tokens: the special tokens and the words; the id is the index in this list.
        pad_token_id, start_token_id, end_token_id, unk_token_id: the ids of the special
            tokens.
    """

    words: list[str]
    tokens: list[str]
    pad_token_id: int
    start_token_id: int
    end_token_id: int
    unk_token_id: int

    def __init__(self, words: list[str]):
        words = list(words)
        odd = [word for word in words if not _is_word(word)]
        odd = odd or [word for word, times in Counter(words).items() if times > 1]
        if odd:
            raise ValueError(
                "Expected distinct words without whitespace or control characters, of at most "
                f"{MOST_LETTERS_IN_WORD} characters, and none of "
                f"{', '.join(SPECIAL_TOKENS)}. Received: {brief(odd[0])}"
            )
        self.words = words
        self.tokens = [*SPECIAL_TOKENS, *words]
        self.pad_token_id, self.start_token_id, self.end_token_id, self.unk_token_id = range(
            len(SPECIAL_TOKENS)
        )
        self._ids = {token: token_id for token_id, token in enumerate(self.tokens)}

    @classmethod
    def build(
        cls,
        captioned_images: list[CaptionedImage],
        *,
        min_count: int = 1,
        max_size: int | None = 10_000,
    ) -> Vocabulary:
        """Build a vocabulary of the most frequent words in the training captions.

        Words of equal frequency are in alphabetical order. Words longer than
        MOST_LETTERS_IN_WORD are skipped.

        Args:
            captioned_images: list of CaptionedImage; only those of the split "train"
                are counted.
            min_count: a word must occur at least this often.
            max_size: the maximum number of words, not counting special tokens; None
                keeps all.
        """
        if min_count < 1 or (max_size is not None and max_size < 1):
            raise ValueError(
                f"Expected values of at least 1. Received: min_count={min_count}, "
                f"max_size={max_size}"
            )
        captioned_images = list(captioned_images)
        odd = [image for image in captioned_images if not isinstance(image, CaptionedImage)]
        if odd:
            raise ValueError(
                "Expected a list of CaptionedImage; Vocabulary(words) takes words. Received: "
                f"{brief(odd[0])}"
            )
        captions = (
            caption
            for image in captioned_images
            if image.split == "train"
            for caption in image.captions
        )
        counts = Counter(
            word
            for text in captions
            for word in tokenise(text)
            if len(word) <= MOST_LETTERS_IN_WORD
        )
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words = [word for word, count in ordered if count >= min_count][:max_size]
        if not words:
            problem = (
                "No word occurs at least `min_count` times in the captions of the split 'train'."
            )
            raise ValueError(
                f"{problem} To draw a split, pass split_seed=0 to `read_data`. Received: "
                f"{min_count=}"
            )
        return cls(words)

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other):
        return isinstance(other, Vocabulary) and self.words == other.words

    @property
    def digest(self) -> str:
        """A short digest of the words in the order of their ids."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()[:16]

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def __repr__(self):
        return f"Vocabulary({len(self.words)} words and {len(SPECIAL_TOKENS)} special tokens)"

    def caption_to_ids(self, caption: str | list[str]) -> list[int]:
        """Return the ids of the words of a caption, a string or a list of words.

        Unknown words become `<unk>`.
        """
        words = tokenise(caption) if isinstance(caption, str) else caption
        return [self._ids.get(word, self.unk_token_id) for word in words]

    def ids_to_words(self, token_ids: Any) -> list[str]:
        """Return the words up to the first `<end>`, without `<pad>` and `<start>`."""
        words = []
        for token_id in map(int, token_ids):
            if not 0 <= token_id < len(self.tokens):
                raise ValueError(
                    f"A token id must be at least 0 and below {len(self)}. Received: {token_id}"
                )
            if token_id == self.end_token_id:
                break
            if token_id not in (self.pad_token_id, self.start_token_id):
                words.append(self.tokens[token_id])
        return words

    def ids_to_caption(self, token_ids: Any) -> str:
        """Return the caption for token ids: the words of `ids_to_words`, joined by
        spaces.
        """
        return " ".join(self.ids_to_words(token_ids))

    def unknown_share(self, captions: list[str]) -> float:
        """Return the fraction of the captions' words that are not in the vocabulary; 0
        if there are no words.
        """
        ids = [token_id for caption in captions for token_id in self.caption_to_ids(caption)]
        return ids.count(self.unk_token_id) / len(ids) if ids else 0.0

    def save(self, path: str | os.PathLike) -> None:
        """Save the vocabulary as JSON, atomically."""
        write_sealed_json(
            path, {"format": "vocabulary", "version": FORMAT_VERSION, "words": self.words}
        )

    @classmethod
    def load(cls, path: str | os.PathLike) -> Vocabulary:
        """Load a vocabulary that `save` wrote."""
        expected = "a vocabulary that Vocabulary.save wrote"
        content = read_sealed_json(
            path, expected, "Copy the file again, or rebuild it from the captions."
        )
        try:
            if (content.get("format"), content.get("version")) != ("vocabulary", FORMAT_VERSION):
                raise ValueError(f"This is not a vocabulary of version {FORMAT_VERSION}.")
            return cls(content["words"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error} Expected: {expected}.") from None


def _is_word(word):
    is_one = isinstance(word, str) and word.split() == [word] and not UNSEEN.search(word)
    return is_one and len(word) <= MOST_LETTERS_IN_WORD and word not in SPECIAL_TOKENS
