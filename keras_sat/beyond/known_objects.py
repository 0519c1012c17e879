"""Known objects: what an ImageNet classifier is sure of may enter a caption, and what
it excludes may leave it.

A captioner trained on 6,000 photos has seen few cats and no espresso, and calls them
dogs and people. The classifier has seen a thousand photos of each of a thousand
classes. WordNet says which of them are a dog, a cat or a vehicle, so that each noun w
of the vocabulary has a probability p(w), the sum over its classes. How often people
mention w in a photo with p(w) is learnt from the training captions:

    mentioned(w) = p(w) seen(w) + (1 - p(w)) unseen(w)

where seen(w) and unseen(w) are the shares of photos with and without w, as the
classifier sees them, whose captions say w. In the search, each step's logit of w grows
by log(mentioned(w) / usual(w)), where usual(w) is the share among all photos: what the
decoder expects anyway. Only nouns of which the classifier is sure are changed, and a
caption that fits what it sees stays as it is.

Source: for the product of two experts' probabilities Hinton, 2002, Training Products of
Experts by Minimizing Contrastive Divergence; for objects that captions lack Lu et al.,
2018, Neural Baby Talk, and Li et al., 2019, Pointing Novel Objects in Image Captioning.
Gain here: of 14 nouns that come into 14 of 1,000 captions, people say 9, and CIDEr is
.624 instead of .622 (dev). On photos unlike Flickr8k they come more often: see
docs/model-card.md.
"""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np

from data_utils.captions import tokenise
from data_utils.images import load_image
from data_utils.progress import Progress
from keras_sat.rounding import SCALE

RAISED_FROM = 0.4  # mentioned(w) from which w is raised
LOWERED_FROM = -0.5  # the shift from which w is lowered
LARGEST = 8.0  # of the shifts
# So that nouns that the training photos lack have rates: as if the classifier had seen
# them in ten more photos, and people had mentioned them in 80 % of those.
PRIOR_PHOTOS, PRIOR_RATE = 10.0, 0.8
NUM_CLASSES = 1000
NOUNS = Path(__file__).parent.parent / "files/pretrained/imagenet/nouns.json"
NETWORK = "network/"  # prefix of the names of the classifier's arrays
DAMAGED = "The recogniser of this captioner is damaged. Copy or save the captioner again."


class Recogniser:
    """An ImageNet classifier that knows nouns of a vocabulary.

    Args:
        vocabulary: Vocabulary of the captioner.
        arrays: a dict of

            word_ids, class_ids: pairs of a noun and one of its classes, (pairs,).
            rates: seen, unseen and usual of each noun, (nouns, 3), in the order of
                their ids.
            network/NUMBER: the weights of the classifier, in their order: int8 kernels
                with the scales of their outputs, and float32 biases.

    They may come from somebody else: a ValueError says that they do not fit.

    Attributes:
        words: list of the nouns.
    """

    def __init__(self, vocabulary, arrays):
        self.arrays = arrays
        self.vocabulary = vocabulary
        self._check_arrays()
        # The nouns' ids, and (classes, nouns): whether a class is such a thing.
        self._noun_ids, columns = np.unique(arrays["word_ids"], return_inverse=True)
        self._is_a = np.zeros((NUM_CLASSES, len(self._noun_ids)), np.float32)
        self._is_a[arrays["class_ids"], columns] = 1
        self._seen, self._unseen, self._usual = arrays["rates"].T  # (nouns,)
        self.words = [vocabulary.tokens[word_id] for word_id in self._noun_ids]

    def _check_arrays(self):
        """Raise ValueError if an array is missing, or has another type or shape."""
        arrays = self.arrays
        if not {"word_ids", "class_ids", "rates"} <= arrays.keys():
            raise ValueError(DAMAGED)
        word_ids, class_ids = arrays["word_ids"], arrays["class_ids"]
        limits = [(word_ids, len(self.vocabulary)), (class_ids, NUM_CLASSES)]
        for ids, limit in limits:
            is_fit = ids.ndim == 1 and ids.dtype.kind in "iu" and ids.size > 0
            if not is_fit or not (0 <= ids.min() <= ids.max() < limit):
                raise ValueError(DAMAGED)
        rates, num_nouns = arrays["rates"], len(np.unique(word_ids))
        is_fit = rates.shape == (num_nouns, 3) and rates.dtype.kind == "f"
        if len(word_ids) != len(class_ids) or not is_fit:
            raise ValueError(DAMAGED)
        if not ((rates > 0) & (rates < 1)).all():
            raise ValueError(DAMAGED)

    @classmethod
    def build(cls, captioner, images, network, *, show_progress=True):
        """Return the recogniser of a captioner.

        Args:
            images: list of CaptionedImage, the training photos.
            network: a dict of the arrays `network/...`, of another recogniser or from
                `object_classifier.rounded_network`.
        """
        vocabulary = captioner.vocabulary
        pairs = [
            (word_id, class_id)
            for word_id, word in enumerate(vocabulary.tokens)
            for class_id in nouns().get(word, ())
        ]
        if not pairs:
            raise ValueError("This vocabulary has no noun that is a class of ImageNet.")
        word_ids, class_ids = np.array(pairs, np.int32).T
        rates = np.full((len(np.unique(word_ids)), 3), 0.5, np.float32)
        arrays = {"word_ids": word_ids, "class_ids": class_ids, "rates": rates, **network}
        recogniser = cls(vocabulary, arrays)
        photos = Progress.over(
            images, len(images), label="photos classified", unit="photos", show=show_progress
        )
        size = captioner.photo_sizes[0]
        probabilities = [
            recogniser.classifier.probabilities(load_image(image.image_path, size)[None])
            for image in photos
        ]
        probabilities = np.concatenate([*map(np.asarray, probabilities)]) @ recogniser._is_a
        said = np.array([recogniser.nouns_in(image.captions) for image in images])
        return cls(vocabulary, {**arrays, "rates": _rates(probabilities, said)})

    def nouns_in(self, captions):
        """Return which nouns a photo's captions (texts) say, boolean (nouns,)."""
        said = {word for caption in captions for word in tokenise(caption)}
        return np.isin(self.words, [*said])

    @functools.cached_property
    def classifier(self):
        """The ObjectClassifier."""
        from keras_sat.beyond.object_classifier import ObjectClassifier

        try:
            return ObjectClassifier(float_weights(self.arrays))
        except (KeyError, ValueError):
            raise ValueError(DAMAGED) from None

    def recognised(self, probabilities):
        """Return what is Recognised, given the probabilities of the classes, (photos,
        classes).
        """
        probabilities = np.asarray(probabilities) @ self._is_a  # (photos, nouns)
        mentioned = probabilities * self._seen + (1 - probabilities) * self._unseen
        return Recognised(self, probabilities, mentioned, np.log(mentioned / self._usual))

    def shifts(self, noun_shifts):
        """Return shifts of the logits, (photos, vocabulary), given those of nouns."""
        shifts = np.zeros((len(noun_shifts), len(self.vocabulary)), np.float32)
        shifts[:, self._noun_ids] = noun_shifts
        return shifts

    def are_named(self, is_said):
        """Return of which nouns a caption says one with a class in common, such as
        "boat" for "canoe", given which it says; both boolean (nouns,).
        """
        return self._has_common_class[:, is_said].any(axis=1)

    @functools.cached_property
    def _has_common_class(self):
        return self._is_a.T @ self._is_a > 0  # (nouns, nouns)


def _rates(probabilities, said):
    """Return seen, unseen and usual of nouns, (nouns, 3), given their probabilities and
    whether captions say them, both (photos, nouns).
    """

    def rate(weights, prior_photos, prior_rate):
        mentions = (said * weights).sum(axis=0) + prior_photos * prior_rate
        return mentions / (weights.sum(axis=0) + prior_photos)

    seen = rate(probabilities, PRIOR_PHOTOS, PRIOR_RATE)
    unseen = rate(1 - probabilities, 1, 0.5)
    usual = rate(np.ones_like(probabilities), 1, 0.5)
    return np.stack([seen, unseen, usual], axis=-1).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Recognised:
    """What a Recogniser sees in photos.

    Attributes:
        recogniser: Recogniser.
        probabilities: p(w) of the nouns, (photos, nouns).
        mentioned: mentioned(w), (photos, nouns).
        log_ratios: log(mentioned(w) / usual(w)), (photos, nouns).
    """

    recogniser: Recogniser
    probabilities: np.ndarray
    mentioned: np.ndarray
    log_ratios: np.ndarray

    @functools.cached_property
    def noun_shifts(self):
        """By how much the logits of nouns grow, (photos, nouns)."""
        is_sure = np.where(
            self.log_ratios > 0, self.mentioned >= RAISED_FROM, self.log_ratios <= LOWERED_FROM
        )
        return np.where(is_sure, self.log_ratios.clip(-LARGEST, LARGEST), 0)

    def evidence(self, row, words):
        """Return the greatest of `log_ratios` among the nouns that a photo's caption
        (list of words) says; 0 if it says none.
        """
        is_said = np.isin(self.recogniser.words, words)
        return float(self.log_ratios[row, is_said].max()) if is_said.any() else 0.0

    def changes(self, results):
        """Return the numbers of the photos whose caption should change, and the shifts
        of the logits for searching it again, (such photos, vocabulary).

        It should if it does not name a noun that is raised, or says one that is
        lowered. What it names already is not raised.

        Args:
            results: list of the CaptionResult of each photo.
        """
        rows, shifts_of_rows = [], []
        for row, result in enumerate(results):
            is_said = np.isin(self.recogniser.words, result.words)
            shifts = self.noun_shifts[row]
            is_named = self.recogniser.are_named(is_said)
            shifts = np.where(is_named, np.minimum(shifts, 0), shifts)
            if (shifts > 0).any() or (shifts[is_said] < 0).any():
                rows.append(row)
                shifts_of_rows.append(shifts)
        shifts_of_rows = np.reshape(shifts_of_rows, (len(rows), len(self.recogniser.words)))
        return rows, self.recogniser.shifts(shifts_of_rows)

    def revised(self, results, search_again):
        """Return the results after captions that should change were searched again,
        with their `known_objects` and `evidence`.

        Args:
            results: list of the CaptionResult of each photo.
            search_again: function of the numbers of some photos and the shifts of
                their logits that returns their new results.
        """
        results = list(results)
        rows, shifts = self.changes(results)
        if rows:
            for row, result in zip(rows, search_again(rows, shifts)):
                results[row] = self.noted(row, result, instead_of=results[row])
        return self.with_evidence(results)

    def with_evidence(self, results):
        """Return the CaptionResults of the photos with their `evidence`, and that of
        their alternatives.
        """

        def with_its_own(row, result):
            return dataclasses.replace(result, evidence=self.evidence(row, result.words))

        return [
            dataclasses.replace(
                with_its_own(row, result),
                alternatives=[with_its_own(row, other) for other in result.alternatives],
            )
            for row, result in enumerate(results)
        ]

    def noted(self, row, result, *, instead_of):
        """Return the CaptionResult of a photo, with the nouns that came and went in
        comparison with another as `known_objects`.
        """
        changes = []
        for word, probability in zip(self.recogniser.words, self.probabilities[row].tolist()):
            comes, went = word in result.words, word in instead_of.words
            if comes != went:
                change = {"word": word, "probability": round(probability, 4), "came": comes}
                changes.append(change)
        return dataclasses.replace(result, known_objects=changes)


def float_weights(arrays):
    """Return the weights of a recogniser's classifier as float32.

    Args:
        arrays: those of the recogniser.

    Return a dict from the names `network/NUMBER` to arrays, in their order.
    """
    weights = {}
    for name, array in sorted(arrays.items()):
        if name.startswith(NETWORK) and not name.endswith(SCALE):
            if array.dtype == np.int8:
                array = array * arrays[name + SCALE]
            weights[name] = array.astype(np.float32)
    return weights


def network_of(arrays):
    """Return those of a recogniser's arrays that are its classifier's."""
    return {name: array for name, array in arrays.items() if name.startswith(NETWORK)}


def without_network(arrays):
    """Return the arrays of a recogniser without those of its classifier."""
    return {name: array for name, array in arrays.items() if not name.startswith(NETWORK)}


@functools.cache
def nouns():
    """Return a dict from nouns, singular and plural, to the classes that are one.

    benchmarks/imagenet_nouns.py made the file from WordNet.
    """
    return json.loads(NOUNS.read_text())
