"""The result of captioning a photo, and the score that compares captions."""

import os
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from keras_sat.bounds import one_of
from keras_sat.settings import EXTRAS, MAP_KINDS

# Nouns of less `word_confidence` are marked: for the bundled captioner a tenth of the
# nouns of dev. Readers found 40 % of them not in the photo, and 15 % of the others.
DOUBTFUL = 0.6
DOUBT_MARK = "(?)"  # beside them


class ComparedCaption(NamedTuple):
    """A caption that consensus compared with others; see
    `keras_sat.after_search.consensus`.

    Attributes:
        words: list of its words.
        is_finished: False if it was cut off at `max_length`.
        score: with which a beam search compares it, see `caption_score`.
        agreement: what its agreement with the words that people use for similar photos
            adds to the score.
    """

    words: list[str]
    is_finished: bool
    score: float
    agreement: float

    @property
    def total(self) -> float:
        """The number that decides: the greatest is said, of finished captions."""
        return self.score + self.agreement


class SearchResult(NamedTuple):
    """The captions of each photo, best first; samples are in any order.

    During a search, each caption is one row.
    """

    token_ids: Any  # (photos, results, max_length), `<pad>` after `<end>`
    # Log p of each caption under the model, (photos, results); -inf for missing
    # captions.
    log_probs: Any
    lengths: Any  # number of tokens, `<end>` included, (photos, results)
    is_finished: Any  # whether the caption ended within max_length, (photos, results)
    attention_weights: Any  # (photos, results, max_length, regions), 0 after the end
    extras: dict[str, Any]  # from names to (photos, results, max_length, dim), 0 after the end
    # p of each token given the previous ones, (photos, results, max_length), 0 after
    # `<end>`
    word_probs: Any
    # Of each caption, (photos, results), from a network that estimates it, as that of a
    # LiteRT file; otherwise empty.
    confidences: Any = ()
    # Of each token, (photos, results, max_length), -1 if it is no noun; or empty.
    word_confidences: Any = ()


@dataclass(frozen=True)
class CaptionResult:
    """A caption of one photo, with an attention map for each word.

    Attributes:
        caption: the text.
        words: list of its words.
        log_prob: log p(caption | photo) under the model, including `<end>`.
        attention_weights: (words, rows, columns); each map sums to 1, also where little
            of the word came from the photo: see `photo_weights`.
        extras: dict from the names in `keras_sat.settings.EXTRAS`, such as
            "from_photo", to (words,) or (words, dim).
        is_finished: False if the caption was cut off at `max_length`.
        confidence: the probability that the caption is right; None without calibration
            and for a given caption.
        image: the photo, or the crop of a region, in the encoder's size, uint8 (height,
            width, 3); None if only features were given.
        alternatives: the other results, best first.
        consensus: agreement, at most 1, with the words that people use for similar
            photos; None without an index.
        likely_words: those of these words that are expected most and are rare, at most
            five; an empty list without an index.
        image_path: the photo's file, if it was given as a path; AttentionDisplay reads
            it again, in its own shape.
        region: the rectangle (left, top, right, bottom) that it describes, in fractions
            of the photo's sides, or None. The maps are those of its crop, see
            `data_utils.photos.regions.crop_of`.
        word_probs: p of each word given the previous words, (words,).
        end_prob: p(`<end>`) after the last word; None if the caption was cut off.
        votes: (words, rows, columns): what each region added to the logit of each word,
            compared with the mean of the photo, positive or negative; None without the
            option `votes`. See `keras_sat.equations.votes`.
        compared: list of the ComparedCaptions among which consensus chose this one,
            best first; empty without consensus, and for `alternatives`.
        word_confidence: for each noun the probability that people name it in the photo,
            (words,), NaN for other words; None where `confidence` is.
    """

    caption: str
    words: list[str]
    log_prob: float
    attention_weights: np.ndarray = field(repr=False)
    extras: dict = field(default_factory=dict, repr=False)
    is_finished: bool = True
    confidence: float | None = None
    image: Any = field(default=None, repr=False)
    alternatives: list = field(default_factory=list, repr=False)
    consensus: float | None = None
    likely_words: list = field(default_factory=list, repr=False)
    word_probs: np.ndarray | None = field(default=None, repr=False)
    end_prob: float | None = field(default=None, repr=False)
    region: tuple | None = None
    image_path: str | None = field(default=None, repr=False)
    votes: np.ndarray | None = field(default=None, repr=False)
    compared: list = field(default_factory=list, repr=False)
    word_confidence: np.ndarray | None = field(default=None, repr=False)

    @property
    def from_photo(self) -> np.ndarray | None:
        """The share of the photo in each word, (words,); None without a sentinel."""
        return self.extras.get("from_photo")

    @property
    def doubtful(self) -> list[bool]:
        """Whether each word is a noun that may be made up: its `word_confidence` is
        below DOUBTFUL. Without calibration, none is.
        """
        if self.word_confidence is None:
            return [False] * len(self.words)
        return (self.word_confidence < DOUBTFUL).tolist()  # False for NaN

    @property
    def photo_weights(self) -> np.ndarray:
        """The weight of each region in each word, (words, rows, columns); a word's sum
        is its `from_photo`. Without a sentinel, these are the attention weights.
        """
        if self.from_photo is None:
            return self.attention_weights
        return self.attention_weights * np.asarray(self.from_photo)[:, None, None]

    def to_dict(self, *, maps: bool = False) -> dict[str, Any]:
        """Return a dict for JSON.

        With `maps`, it has the attention maps, and the votes if there are any, rounded
        to six decimals.
        """
        parts = {} if self.region is None else {"region": self.region}
        parts |= {"caption": self.caption, "words": self.words, "log_prob": self.log_prob}
        if not self.is_finished:
            parts["is_finished"] = False
        if self.confidence is not None:
            parts["confidence"] = round(self.confidence, 4)
        if self.word_confidence is not None:
            rounded = _rounded(self.word_confidence, 4)
            parts["word_confidence"] = [None if np.isnan(x) else x for x in rounded]
        if self.consensus is not None:
            parts |= {"consensus": round(self.consensus, 4), "likely_words": self.likely_words}
        for name in EXTRAS:
            if name in self.extras:
                parts[name] = _rounded(self.extras[name], 4)
        if self.word_probs is not None:
            parts["word_probs"] = _rounded(self.word_probs, 6)
        if maps:
            _, rows, columns = self.attention_weights.shape
            weights = _rounded(self.attention_weights, 6)
            parts |= {"rows": rows, "columns": columns, "attention_weights": weights}
        if maps and self.votes is not None:
            parts["votes"] = _rounded(self.votes, 6)
        return parts

    def maps(self, kind: str = "attention") -> np.ndarray:
        """Return a map for each word, (words, rows, columns), each with the sum 1.

        Args:
            kind: "attention" for the attention weights, or "votes" for the positive
                votes; where no region has one, the map is even.
        """
        one_of(*MAP_KINDS).check("map_kind", kind)
        if kind == "attention":
            return self.attention_weights
        if self.votes is None:
            raise ValueError(
                "This result has no votes: pass votes=True to `caption` or `attend`. "
                "Received: map_kind='votes'"
            )
        _, rows, columns = self.votes.shape
        positive = np.maximum(self.votes, 0)
        sums = positive.sum(axis=(1, 2), keepdims=True)
        has_positive = sums > 0
        return np.where(
            has_positive, positive / np.where(has_positive, sums, 1), 1 / rows / columns
        )

    def _with(self, **changes):
        """Return a copy with changes in this result and in its alternatives."""
        alternatives = [replace(other, **changes) for other in self.alternatives]
        return replace(self, alternatives=alternatives, **changes)


def results_of(found, vocabulary, rows_and_columns, photos=None):
    """Return the best CaptionResult of each photo in a SearchResult, with the others in
    its `alternatives`.

    Args:
        found: SearchResult of arrays or tensors.
        rows_and_columns: shape of the maps.
        photos: `CaptionResult.image` for each photo, or None.
    """
    extras = {name: np.asarray(values) for name, values in found.extras.items()}
    found = SearchResult(*map(np.asarray, found._replace(extras=())))._replace(extras=extras)
    results = []
    for photo, log_probs in enumerate(found.log_probs):
        image = None if photos is None else photos[photo]
        best, *others = [
            _result_of(found, (photo, number), vocabulary, rows_and_columns, image)
            for number in np.flatnonzero(~np.isneginf(log_probs))
        ]
        results.append(replace(best, alternatives=others))
    return results


def _result_of(found, place, vocabulary, rows_and_columns, image):
    """Return the CaptionResult of one caption in a SearchResult of arrays; `place` is
    (photo, number of the result).
    """
    is_finished = bool(found.is_finished[place])
    num_words = found.lengths[place] - is_finished  # without `<end>`
    word_places = (*place, slice(num_words))
    words = [vocabulary.tokens[token_id] for token_id in found.token_ids[word_places]]
    maps = found.attention_weights[word_places]  # (words, regions)
    extras = {}
    for name, values in found.extras.items():
        extra = values[word_places]  # (words, dim)
        extras[name] = extra[:, 0] if extra.shape[1] == 1 else extra
    word_confidence = None
    if found.word_confidences.size:
        of_words = found.word_confidences[word_places]
        word_confidence = np.where(of_words < 0, np.nan, of_words)
    return CaptionResult(
        caption=" ".join(words),
        words=words,
        log_prob=float(found.log_probs[place]),
        attention_weights=maps.reshape(len(words), *rows_and_columns),
        extras=extras,
        word_probs=found.word_probs[word_places],
        end_prob=float(found.word_probs[(*place, num_words)]) if is_finished else None,
        is_finished=is_finished,
        confidence=float(found.confidences[place]) if found.confidences.size else None,
        image=image,
        word_confidence=word_confidence,
    )


def families_of(results):
    """Return for each of CaptionResults the list of it and its alternatives."""
    return [[result, *result.alternatives] for result in results]


def with_values(families, name, values):
    """Reverse `families_of`, with a value for a field of each result.

    Args:
        families: see `families_of`.
        name: of the field.
        values: for each family, those of its results.
    """
    results = []
    for family, its_values in zip(families, values):
        best, *others = [replace(one, **{name: value}) for one, value in zip(family, its_values)]
        results.append(replace(best, alternatives=others))
    return results


def _rounded(array, decimals):
    """Return an array as lists of Python floats, for JSON."""
    return array.astype("float64").round(decimals).tolist()


def caption_score(log_prob, length, length_penalty):
    """Return log p / length ** length_penalty: numbers, arrays or tensors.

    `length` is the number of tokens, `<end>` included. A penalty of 0 compares log p,
    which favours short captions; 1 compares the mean over the tokens.
    """
    return log_prob / length**length_penalty


def with_image_paths(results):
    """Yield (image, result) pairs; results of paths get them as `image_path`.

    Instead of a result there may be a list of results, for regions, or the error of an
    unreadable image.
    """
    for image, result in results:
        path = getattr(image, "image_path", image)
        if isinstance(path, (str, os.PathLike)):
            path = os.fspath(path)
            if isinstance(result, list):
                result = [one._with(image_path=path) for one in result]
            elif isinstance(result, CaptionResult):
                result = result._with(image_path=path)
        yield image, result


def by_photo(images, regions, results):
    """Yield (image, list of the CaptionResults of its regions) for each image, or
    (image, error) for an unreadable one.

    Args:
        images, regions: the images, and a list of regions for each.
        results: iterator of (crop, its CaptionResult or error) for each region.
    """
    for image, image_regions in zip(images, regions):
        found = [next(results)[1] for _ in image_regions]
        errors = [result for result in found if isinstance(result, Exception)]
        if errors:
            yield image, errors[0]
        else:
            yield image, [one._with(region=region) for one, region in zip(found, image_regions)]
