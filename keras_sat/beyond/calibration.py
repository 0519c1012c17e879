"""Calibration: fit a captioner's confidence, and the second opinion on it, on photos
with ground-truth captions.

Source: logistic regression with a ridge penalty, by Newton's method (iteratively
reweighted least squares). Gain here: see `keras_sat.beyond.confidence` and
`keras_sat.beyond.second_opinion`.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from data_utils.captions import tokenise
from data_utils.images import load_image, readable_photos
from data_utils.progress import Progress
from data_utils.strange_photos import cut, recoloured, scene, texture
from keras_sat.beyond import second_opinion
from keras_sat.beyond.confidence import LIMITS, Confidence, clues_of
from keras_sat.beyond.second_opinion import STRANGE_WEIGHT, SecondOpinion
from keras_sat.checks import reject_few_photos
from keras_sat.options import SearchOptions
from keras_sat.scoring.calibration_error import FRACTION_NAMED, Calibration, fraction_named
from keras_sat.scoring.leakage import check_training_photos

FEWEST_PHOTOS = 100
NUM_FOLDS = 5
SOME = 8  # one synthetic scene and one texture for so many photos


def calibrate(
    captioner, images, *, cache=None, skip_unreadable=False, show_progress=True
) -> Calibration:
    """Fit a captioner's `confidence` on photos with captions, and its `second_opinion`
    if it chooses captions by consensus; measure them by five-fold cross-validation.

    Args:
        captioner: Captioner, trained without these photos.
        images: list of CaptionedImage, at least 100.
        cache: FeatureCache with their features; None reads and encodes the photos. With
            a cache, there is no second opinion: it needs photos made strange.
        skip_unreadable: without a cache, leave out unreadable photos, with a warning
            that counts them.
    """
    images = [
        image
        for image in images
        if image.captions and (cache is None or image.image_id not in cache.unreadable)
    ]
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress)
    reject_few_photos(images, FEWEST_PHOTOS)
    if cache is not None:
        cache.reject_changed(
            [image.image_id for image in images], [image.image_path for image in images]
        )
    check_training_photos(captioner, images, "for the calibration", "Choose another split.")
    references = [[*map(tokenise, image.captions)] for image in images]
    examples = _examples(captioner, images, references, cache, show_progress=show_progress)
    strange = None
    if cache is None and captioner.consensus_options(SearchOptions()) is not None:
        photos, numbers = _strange_photos(images, captioner.photo_sizes[0])
        references = [references[number] if number is not None else [] for number in numbers]
        strange = _examples(captioner, photos, references, show_progress=show_progress)
        strange = strange.of_photos(numbers)
    confidences = np.zeros(len(images))
    for fold in range(NUM_FOLDS):
        held_out = examples.photos % NUM_FOLDS == fold
        others = None if strange is None else strange.rows(strange.photos % NUM_FOLDS != fold)
        fitted = _fitted(examples.rows(~held_out), others)
        confidences[held_out] = _confidences(examples.rows(held_out), *fitted)
    captioner.confidence, captioner.second_opinion = _fitted(examples, strange)
    return Calibration(confidences, examples.are_right)


class _Examples(NamedTuple):
    """What the confidence is fitted on, for each photo."""

    clues: Any  # of the confidence, (photos, clues)
    norms: Any  # of the features, (photos,)
    results: Any  # CaptionResults, an array (photos,)
    are_right: Any  # whether the caption is right, (photos,)
    photos: Any  # their numbers, (photos,)
    weights: Any  # in the second opinion, (photos,)

    def rows(self, rows):
        return _Examples(*(values[rows] for values in self))

    def of_photos(self, numbers):
        """Return strange examples: made of the photos of these numbers, or of none
        (None), which are numbered on.
        """
        photos = [row if number is None else number for row, number in enumerate(numbers)]
        halves = [0.5 if number is None else 1.0 for number in numbers]
        return self._replace(photos=np.array(photos), weights=STRANGE_WEIGHT * np.array(halves))


def _strange_photos(images, size):
    """Return photos made strange, uint8 (height, width, 3), and for each the number of
    the image that it is made of; None for scenes and textures.
    """
    generator = np.random.default_rng(0)
    photos = []
    for number, image in enumerate(images):
        photo = load_image(image.image_path, size)
        photos.append((cut if number % 2 else recoloured)(photo, generator))
    numbers = [*range(len(images))]
    for number in range(len(images) // SOME):
        photos += [scene(size, seed=number), texture(size, generator)]
        numbers += [None, None]
    return photos, numbers


def _examples(captioner, photos, references, cache=None, *, show_progress):
    """Caption photos; return _Examples, given the references (lists of words) of
    each.
    """
    recorded_clues, recorded_norms = [], []  # of all results of all searches

    def numbers_of_results(word_probs, features):
        """Record the clues of all results of a search, called like a Confidence.

        Return each result's number among all recorded ones as its confidence: it says
        later which was chosen.
        """
        clues, norms = clues_of(word_probs, features)
        num_photos, num_results, num_clues = clues.shape
        first = len(recorded_norms)
        recorded_clues.extend(np.reshape(clues, (-1, num_clues)))
        recorded_norms.extend(np.repeat(np.ravel(norms), num_results))
        return first + np.arange(num_photos * num_results).reshape(num_photos, num_results)

    options = SearchOptions()
    batches = captioner.batches(photos, options.batch_size, cache)
    pairs = captioner._captions_of_batches(batches, options, numbers_of_results)
    pairs = Progress.over(
        pairs, len(photos), label="photos captioned", unit="photos", show=show_progress
    )
    results = [dataclasses.replace(result, image=None) for _, result in pairs]
    chosen = [int(result.confidence) for result in results]
    are_right = [
        fraction_named(result.words, texts) >= FRACTION_NAMED
        for result, texts in zip(results, references)
    ]
    return _Examples(
        clues=np.array(recorded_clues)[chosen],
        norms=np.array(recorded_norms)[chosen],
        results=np.array(results, object),
        are_right=np.array(are_right),
        photos=np.arange(len(results)),
        weights=np.ones(len(results)),
    )


def _fitted(examples, strange):
    """Return the Confidence fitted on examples, and the SecondOpinion fitted on these
    and on strange ones; None without strange ones.
    """
    limits = np.quantile(examples.norms, LIMITS)
    if not (np.diff(limits) > 0).all():
        raise ValueError(
            "The photos are too alike to fit a confidence. Expected: different photos. "
            f"Received: {len(examples.norms)} photos, of which "
            f"{len(np.unique(examples.norms))} have different features"
        )
    coefficients = logistic_regression(examples.clues, examples.are_right)
    confidence = Confidence(coefficients, limits)
    if strange is None:
        return confidence, None
    both = _Examples(*(np.concatenate(values) for values in zip(examples, strange)))
    first = _confidences(both, confidence)
    both, first = both.rows(first > 0), first[first > 0]  # for which a second is asked
    clues = [second_opinion.clues_of(*pair) for pair in zip(both.results, first)]
    return confidence, SecondOpinion(
        logistic_regression(np.array(clues), both.are_right, both.weights)
    )


def _confidences(examples, confidence, second=None):
    """Return the confidence of each example, (photos,)."""
    confidences = np.asarray(confidence.of_clues(examples.clues, examples.norms))
    if second is None:
        return confidences
    clues = [second_opinion.clues_of(*pair) for pair in zip(examples.results, confidences)]
    return np.where(confidences > 0, second.of_clues(np.array(clues)), 0)


def logistic_regression(clues, are_right, weights_of_photos=1.0, *, steps=25):
    """Fit a logistic regression with a ridge penalty of 1 by Newton's method.

    Args:
        clues: (photos, clues).
        are_right, weights_of_photos: (photos,).

    Return the bias and coefficients.
    """
    mean = clues.mean(axis=0)
    spread = np.maximum(clues.std(axis=0), 1e-9)
    # A column of ones for the bias: (photos, 1 + inputs).
    inputs = np.insert((clues - mean) / spread, 0, 1, axis=1).astype(float)
    weights = np.zeros(inputs.shape[1])
    ridge = np.eye(inputs.shape[1])
    for _ in range(steps):
        probability = 1 / (1 + np.exp(-inputs @ weights))  # (photos,)
        gradient = inputs.T @ (weights_of_photos * (are_right - probability)) - weights
        variance = weights_of_photos * probability * (1 - probability)
        curvature = inputs.T * variance @ inputs + ridge
        weights += np.linalg.solve(curvature, gradient)
    bias, coefficients = weights[0], weights[1:]
    # Of the clues as they are, not normalised.
    return np.append(bias - coefficients @ (mean / spread), coefficients / spread)
