"""Consensus: choose the caption of a beam search that agrees most with captions of
similar training photos.

An index holds a short vector for each training photo, and its captions. A beam's score
grows by `consensus_weight` times its agreement: the mean of its greatest similarities
to captions of the nearest photos, as in CIDEr-D, but each n-gram counts once.
Similarities to the other beams, weighted by their probability, count a tenth as much.
The weight falls to 0 for pictures unlike all training photos, whose features lose much
of their norm in the short vector.

Source: Devlin et al., 2015, Exploring Nearest Neighbor Approaches for Image Captioning;
for the other beams Kumar and Byrne, 2004, Minimum Bayes-Risk Decoding for Statistical
Machine Translation. Gain here: CIDEr .622 instead of .619, and BLEU-4 25.1 instead of
25.9, for the bundled captioner (10 beams, dev; benchmarks/flickr8k/tried.md). With
fewer epochs of rewards for CIDEr, it was .634 instead of .603, and BLEU-4 26.2 instead
of 25.5.
"""

import dataclasses
import functools
import itertools

import numpy as np

from data_utils.base import Progress
from keras_sat.after_search.rare_ngrams import NUM_ORDERS, RareNgrams, of_length_1
from keras_sat.checks import reject_few_photos
from keras_sat.search import ComparedCaption, caption_score

FEWEST_TRAINING_PHOTOS, MOST_PHOTOS = 100, 20_000  # more would need much time and memory
MOST_CAPTIONS, MOST_WORDS = 5, 20  # of a photo, of a caption
# Of a photo's captions, with `<end>` between them and `<pad>`.
MOST_IDS = MOST_CAPTIONS * (MOST_WORDS + 1)
CONSENSUS_WEIGHT = 40.0  # `keras-sat index` saves it with a model
DIMS = 64  # of a photo's vector, at most
FAMILIAR = (0.005, 0.03)  # quantiles of the norms of photos' vectors
NUM_PHOTOS, NUM_CAPTIONS = 10, 20  # the nearest ones; of their captions those that count
NUM_NEAREST = 5  # photos that a result names
TEMPERATURE, OTHERS = 5.0, 0.1  # of the beams' probabilities; the weight of their similarities
LENGTH_SPREAD = 6.0  # in words, as in CIDEr-D
TEXT = {"encoding": "utf-8", "errors": "surrogatepass"}
DAMAGED = "The index of training photos is damaged. Build it again with `keras-sat index`."


class Consensus:
    """An index of training photos: a step after a search, which chooses one of the
    results of each photo; see `CaptionGenerator.steps_after`.

    Args:
        vocabulary, feature_dim: of the captioner.
        arrays: a dict of

            mean: of the photos' features, which are averaged over the regions,
                (feature_dim,).
            projection: from centred features of length 1 to a photo's vector,
                (feature_dim, dims).
            limits: the norm of a vector up to which the weight is 0, and from which it
                is whole, (2,).
            vectors: of the photos, rounded, int8 (photos, dims).
            names: UTF-8 text with one photo's id per line, uint8.
            captions: UTF-8 text, uint8, in which each character is a word's id. `<end>`
                separates captions, `<pad>` ends a photo.

    They may come from somebody else: a ValueError says that they do not fit each other.
    """

    def __init__(self, vocabulary, arrays, feature_dim):
        _check_arrays(arrays, feature_dim)
        self.vocabulary = vocabulary
        self.arrays = arrays
        self.photo_ids = _as_string(arrays["names"]).split("\n")
        self._mean = arrays["mean"]
        self._projection = arrays["projection"]
        self._limits = arrays["limits"]
        self._vectors = arrays["vectors"].astype(np.float32)
        self._captions = self._unpacked_captions(_as_string(arrays["captions"]))
        if not len(self._captions) == len(self.photo_ids) == len(self._vectors):
            raise ValueError(DAMAGED)

    @functools.cached_property
    def _rare_ngrams(self):
        return RareNgrams(self._captions, len(self.vocabulary))

    def _unpacked_captions(self, text):
        """Return a list of captions for each photo, from the text of all photos."""
        *photos, rest = text.split(chr(self.vocabulary.pad_token_id))
        is_whole = len(photos) > 0 and rest == ""
        if not is_whole or ord(max(text)) >= len(self.vocabulary):
            raise ValueError(DAMAGED)
        if max(map(len, photos)) >= MOST_IDS:
            raise ValueError(DAMAGED)
        return [photo.split(chr(self.vocabulary.end_token_id)) for photo in photos]

    @classmethod
    def build(cls, captioner, images, *, cache=None, show_progress=True):
        """Return the index of a captioner's training photos.

        Args:
            images: list of CaptionedImage; of more than MOST_PHOTOS, some are chosen at
                equal distances.
            cache: FeatureCache with their features; None reads and encodes the photos.
        """
        reject_few_photos(images, FEWEST_TRAINING_PHOTOS)
        distance = -(-len(images) // MOST_PHOTOS)
        images = images[::distance]
        features_of_images = Progress.over(
            captioner.encode_each(images, cache=cache),
            len(images),
            label="photos indexed",
            unit="photos",
            show=show_progress,
        )
        means = [features.mean(axis=0) for _, features in features_of_images]
        mean = np.mean(means, axis=0, dtype=np.float32)  # (feature_dim,)
        units = of_length_1(means - mean)  # (photos, feature_dim)
        projection = _projection(units)
        vectors = units @ projection  # (photos, dims)
        # Of photos unknown to the projection.
        norms = np.linalg.norm(units[1::2] @ _projection(units[::2]), axis=1)
        names = "\n".join(image.image_id.replace("\n", " ") for image in images)
        captions = _packed_captions(images, captioner.vocabulary)
        arrays = {
            "names": _as_bytes(names),
            "captions": _as_bytes(captions),
            "mean": mean,
            "projection": projection,
            "limits": np.quantile(norms, FAMILIAR) + (0, 1e-6),
            "vectors": np.round(vectors * (127 / np.abs(vectors).max())).astype(np.int8),
        }
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
        means = np.asarray(features).mean(axis=1)
        vectors = of_length_1(means - self._mean) @ self._projection  # (photos, dims)
        low, high = self._limits
        familiarity = np.clip((np.linalg.norm(vectors, axis=1) - low) / (high - low), 0, 1)
        weights = search.consensus_weight * familiarity  # (photos,)
        similarities = vectors @ self._vectors.T  # (photos, indexed photos)
        return [
            self._chosen(result, photo_similarities, weight, search)
            for result, photo_similarities, weight in zip(results, similarities, weights)
        ]

    def _chosen(self, result, similarities, weight, search):
        """Do what `__call__` does, for one photo.

        Args:
            result: CaptionResult with the other beams in `alternatives`.
            similarities: of the photo to those in the index, (indexed photos,).
            weight: of the agreement.
            search: Search.
        """
        beams = [result, *result.alternatives]
        nearest = np.argsort(-similarities, kind="stable")
        agreement, alike = self._agreement(
            [beam.words for beam in beams],
            nearest[:NUM_PHOTOS],
        )
        log_probs = np.array([beam.log_prob for beam in beams])
        lengths = np.array([len(beam.words) + beam.is_finished for beam in beams])
        probabilities = np.exp((log_probs - log_probs.max()) / TEMPERATURE)
        agreement_of_beams = (alike @ probabilities) / probabilities.sum()
        added = weight * (agreement + OTHERS * agreement_of_beams)
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

        similar_photos = [self.photo_ids[photo] for photo in nearest[:NUM_NEAREST]]
        beams = [
            dataclasses.replace(
                beam, consensus=float(x), similar_photos=similar_photos, alternatives=[]
            )
            for beam, x in zip(beams, agreement)
        ]
        chosen = beams.pop(order[0])
        chosen.alternatives.extend(beams[: search.num_results - 1])
        return dataclasses.replace(chosen, compared=compared)

    def _agreement(self, captions, photos):
        """Compare captions with those of photos in the index, and with each other.

        Args:
            captions: list of lists of words.
            photos: numbers of the photos.

        Returns: the mean of each caption's greatest similarities to captions of the
        photos, (captions,), and its similarities to the other captions, (captions,
        captions).
        """
        num_ours = len(captions)
        texts = [_as_text(self.vocabulary, words) for words in captions]
        texts += itertools.chain(*(self._captions[photo] for photo in photos))
        vectors = self._rare_ngrams.vectors(texts, num_ours)  # (texts, n-grams)
        lengths = np.array([len(text) for text in texts])
        differences = lengths[:num_ours, None] - lengths
        alike = np.exp(-(differences**2) / (2 * LENGTH_SPREAD**2))  # (captions, texts)
        alike *= vectors[:num_ours] @ vectors.T / NUM_ORDERS
        greatest = np.sort(alike[:, num_ours:], axis=1)[:, -NUM_CAPTIONS:]
        return greatest.mean(axis=1), alike[:, :num_ours]


def _check_arrays(arrays, feature_dim):
    """Raise ValueError if an array is missing, or has another type or shape."""
    if not {"mean", "projection", "limits", "vectors", "names", "captions"} <= arrays.keys():
        raise ValueError(DAMAGED)
    if arrays["vectors"].dtype != np.int8 or arrays["vectors"].ndim != 2:
        raise ValueError(DAMAGED)
    num_photos, dims = arrays["vectors"].shape
    if num_photos > MOST_PHOTOS:
        raise ValueError(DAMAGED)
    shapes = {"mean": (feature_dim,), "projection": (feature_dim, dims), "limits": (2,)}
    for name, shape in shapes.items():
        array = arrays[name]
        is_float = np.issubdtype(array.dtype, np.floating)
        if not is_float or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(DAMAGED)
    low, high = arrays["limits"]
    if low >= high:
        raise ValueError(DAMAGED)
    for name in ("names", "captions"):
        if arrays[name].dtype != np.uint8:
            raise ValueError(DAMAGED)


def _as_bytes(text):
    """Return a text as an array of bytes."""
    return np.frombuffer(text.encode(**TEXT), np.uint8)


def _as_string(array):
    """Reverse `_as_bytes`; raise ValueError if the bytes are no text."""
    try:
        return array.tobytes().decode(**TEXT)
    except UnicodeDecodeError:
        raise ValueError(DAMAGED) from None


def _packed_captions(images, vocabulary):
    """Return the captions of all images as one text, see Consensus."""
    end, pad = chr(vocabulary.end_token_id), chr(vocabulary.pad_token_id)
    photos = []
    for image in images:
        texts = [_as_text(vocabulary, caption) for caption in image.captions[:MOST_CAPTIONS]]
        photos.append(end.join(text[:MOST_WORDS] for text in texts) + pad)
    return "".join(photos)


def _as_text(vocabulary, caption):
    """Return the ids of a caption's words as characters."""
    return "".join(map(chr, vocabulary.caption_to_ids(caption)))


def _projection(units):
    """Return the principal axes of vectors, (feature_dim, dims)."""
    _, axes = np.linalg.eigh(units.T @ units)  # the most important last
    return axes[:, -min(DIMS, len(axes) // 4) :]
