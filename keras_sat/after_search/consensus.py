"""Consensus: choose the caption of a beam search whose words agree most with those that
people use for similar photos.

For the mean annotation vector x of a photo, a ridge regression predicts which share of
its captions has each word. It is fitted on n training photos, whose standardised
vectors are the rows of X, and whose shares are the rows of Y:

    expected = shares + ((x - mean) / deviation) W,
    W = (X^T X + RIDGE n I)^-1 X^T (Y - shares),    shares = the mean row of Y.

A beam's score grows by `consensus_weight` times its agreement: the cosine of the
expected words and its own, both times the words' rarity.

Source: Devlin et al., 2015, Exploring Nearest Neighbor Approaches for Image Captioning,
who compare with the captions of the nearest photos. Gain here: CIDEr .663
instead of .619, and BLEU-4 26.1 instead of 25.9, for the bundled captioner (10 beams,
dev; benchmarks/flickr8k/tried.md).
"""

import dataclasses
import warnings
from collections import Counter

import numpy as np

from data_utils.base import Progress
from keras_sat.checks import reject_few_photos
from keras_sat.search import ComparedCaption, caption_score

FEWEST_TRAINING_PHOTOS = 300  # fewer do not pay
MOST_PHOTOS = 20_000  # more would take long to encode
FEWEST_WITH_WORD, MOST_WORDS = 3, 1000  # photos of an indexed word; indexed words
CONSENSUS_WEIGHT = 8.0  # `keras-sat index` saves it with a model
RIDGE = 0.1  # for each training photo
NUM_LIKELY = 5  # words that a result names, at most
SMALLEST, LARGEST = 1e-6, 1e6  # a deviation, and any number in a file
EARLIER = (
    "The index of training photos was made by an earlier version, and is not used: captions are "
    "chosen by their probability. Build it again with `keras-sat index`."
)
DAMAGED = "The index of training photos is damaged. Build it again with `keras-sat index`."


class Consensus:
    """An index of the words of training photos: a step after a search, which chooses
    one of the results of each photo; see `CaptionGenerator.steps_after`.

    Args:
        vocabulary, feature_dim: of the captioner.
        arrays: a dict of

            mean, deviation: of the photos' mean annotation vectors, (feature_dim,).
            word_ids: of the indexed words, int32 (words,).
            shares: of the captions of a photo that have each word, the mean over all
                photos, (words,).
            rarities: log of all photos / photos with each word, (words,).
            weights: W, int8 (feature_dim, words), and scales: of its columns, (words,).

    They may come from somebody else: a ValueError says that they do not fit each other.
    """

    def __init__(self, vocabulary, arrays, feature_dim):
        _check_arrays(arrays, feature_dim, len(vocabulary))
        self.vocabulary = vocabulary
        self.arrays = arrays
        word_ids = arrays["word_ids"]
        self.words = [vocabulary.tokens[word_id] for word_id in word_ids]
        self._column_of = {word_id: column for column, word_id in enumerate(word_ids.tolist())}
        self._weights = arrays["weights"] * arrays["scales"]  # (feature_dim, words)

    @classmethod
    def of(cls, vocabulary, arrays, feature_dim):
        """Return the Consensus with the arrays of a file; None, with a warning, if they
        are those of an earlier version.
        """
        if "captions" in arrays:  # of the nearest photos
            warnings.warn(EARLIER, stacklevel=2)
            return None
        return cls(vocabulary, arrays, feature_dim)

    @classmethod
    def build(cls, captioner, images, *, cache=None, show_progress=True):
        """Return the index of a captioner's training photos.

        Args:
            images: list of CaptionedImage; of more than MOST_PHOTOS, some are chosen at
                equal distances.
            cache: FeatureCache with their features; None reads and encodes the photos.
        """
        reject_few_photos(images, FEWEST_TRAINING_PHOTOS)
        images = images[:: -(-len(images) // MOST_PHOTOS)]
        features_of_images = Progress.over(
            captioner.encode_each(images, cache=cache),
            len(images),
            label="photos indexed",
            unit="photos",
            show=show_progress,
        )
        vectors = np.stack([features.mean(axis=0) for _, features in features_of_images])
        mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
        # So that features which hardly vary here are not blown up in other photos.
        deviation = np.maximum(deviation, deviation.mean() / 100 + SMALLEST)
        word_ids, with_word, said = _words_of(images, captioner.vocabulary)
        weights = ridge_regression((vectors - mean) / deviation, said - said.mean(axis=0), RIDGE)
        scales = np.maximum(np.abs(weights).max(axis=0), 1e-12) / 127
        arrays = {
            "mean": mean,
            "deviation": deviation,
            "word_ids": word_ids,
            "shares": said.mean(axis=0),
            "rarities": np.log(len(images) / with_word),
            "weights": np.round(weights / scales),
            "scales": scales,
        }
        types = {"word_ids": np.int32, "weights": np.int8}
        arrays = {name: x.astype(types.get(name, np.float32)) for name, x in arrays.items()}
        return cls(captioner.vocabulary, arrays, mean.size)

    def __call__(self, results, features, search):
        """Return the result with the best sum of score and agreement of each photo,
        with the others as `alternatives`.

        Args:
            results: list of CaptionResults, with the other beams in `alternatives`,
                best first.
            features: of the photos, (photos, regions, feature_dim).
            search: Search.
        """
        expected = self.expected_words(np.asarray(features).mean(axis=1))
        return [self._chosen(result, row, search) for result, row in zip(results, expected)]

    def expected_words(self, vectors):
        """Return the expected share of a photo's captions that has each of `words`,
        times the word's rarity, (photos, words).

        Args:
            vectors: the mean annotation vectors, (photos, feature_dim).
        """
        standardised = (vectors - self.arrays["mean"]) / self.arrays["deviation"]
        shares = self.arrays["shares"] + standardised @ self._weights
        return shares * self.arrays["rarities"]

    def agreement(self, captions, expected):
        """Return the cosines of captions, lists of words, with a row of
        `expected_words`: (captions,), 0 for a caption without an indexed word.
        """
        said = np.zeros((len(captions), len(self.words)), np.float32)
        for row, words in zip(said, captions):
            ids = set(self.vocabulary.caption_to_ids(words))
            row[[self._column_of[word_id] for word_id in ids if word_id in self._column_of]] = 1
        return of_length_1(said * self.arrays["rarities"]) @ of_length_1(expected)

    def _chosen(self, result, expected, search):
        """Do what `__call__` does, for one photo."""
        beams = [result, *result.alternatives]
        agreement = self.agreement([beam.words for beam in beams], expected)
        added = search.consensus_weight * agreement
        log_probs = np.array([beam.log_prob for beam in beams])
        lengths = np.array([len(beam.words) + beam.is_finished for beam in beams])
        scores = caption_score(log_probs, lengths, search.length_penalty)
        is_unfinished = [not beam.is_finished for beam in beams]
        order = np.lexsort((-(scores + added), is_unfinished))  # finished ones first
        compared = [
            ComparedCaption(
                beams[number].words,
                beams[number].is_finished,
                score=float(scores[number]),
                agreement=float(added[number]),
            )
            for number in order
        ]
        most_expected = np.argsort(-expected, kind="stable")[:NUM_LIKELY]
        likely_words = [self.words[number] for number in most_expected if expected[number] > 0]
        beams = [
            dataclasses.replace(
                beam, consensus=float(x), likely_words=likely_words, alternatives=[]
            )
            for beam, x in zip(beams, agreement)
        ]
        chosen = beams.pop(order[0])
        chosen.alternatives.extend(beams[: search.num_results - 1])
        return dataclasses.replace(chosen, compared=compared)


def ridge_regression(inputs, targets, ridge):
    """Return the W that minimises the mean squared error of `inputs W`, plus `ridge`
    times the sum of the squares of W.

    Args:
        inputs: (n, features); targets: (n, outputs).
    """
    num_rows, num_features = inputs.shape
    covariance = inputs.T @ inputs / num_rows + ridge * np.eye(num_features, dtype=inputs.dtype)
    return np.linalg.solve(covariance, inputs.T @ targets / num_rows)


def _words_of(images, vocabulary):
    """Return the words in the captions of photos that are worth an index.

    Returns: their ids, (words,), the number of photos that have each, (words,), and the
    share of each photo's captions that has it, (photos, words).
    """
    captions_of_photos = [
        [set(vocabulary.caption_to_ids(caption)) for caption in image.captions] for image in images
    ]
    photos_with = Counter()
    for captions in captions_of_photos:
        photos_with.update(set().union(*captions) - {vocabulary.unk_token_id})
    word_ids = [
        word_id
        for word_id, count in photos_with.most_common(MOST_WORDS)
        if count >= FEWEST_WITH_WORD
    ]
    column_of = {word_id: column for column, word_id in enumerate(word_ids)}
    said = np.zeros((len(images), len(word_ids)), np.float32)
    for row, captions in zip(said, captions_of_photos):
        for caption in captions:
            row[[column_of[word_id] for word_id in caption & column_of.keys()]] += 1 / len(captions)
    return np.array(word_ids), np.array([photos_with[i] for i in word_ids]), said


def _check_arrays(arrays, feature_dim, vocabulary_size):
    """Raise ValueError if an array is missing, or has another type or shape."""
    word_ids = arrays.get("word_ids")
    if word_ids is None or word_ids.dtype != np.int32 or word_ids.ndim != 1:
        raise ValueError(DAMAGED)
    num_words = len(word_ids)
    are_distinct = len(np.unique(word_ids)) == num_words
    are_known = np.isin(word_ids, range(vocabulary_size)).all()
    if num_words > MOST_WORDS or not (are_distinct and are_known):
        raise ValueError(DAMAGED)
    of_features, of_words = (feature_dim,), (num_words,)
    shapes = {"mean": of_features, "deviation": of_features, "weights": of_features + of_words}
    shapes |= {"shares": of_words, "rarities": of_words, "scales": of_words}
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.shape != shape:
            raise ValueError(DAMAGED)
        expected_type = np.int8 if name == "weights" else np.float32
        if array.dtype != expected_type or not (np.abs(array.astype(float)) <= LARGEST).all():
            raise ValueError(DAMAGED)
    if not (arrays["deviation"] >= SMALLEST).all():
        raise ValueError(DAMAGED)


def of_length_1(vectors):
    """Divide vectors (..., dim) by their length."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
