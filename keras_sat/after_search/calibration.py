"""Calibration: fit a captioner's confidence on photos with ground-truth captions.

Source: logistic regression with a ridge penalty, by Newton's method (iteratively
reweighted least squares). Gain here: see `keras_sat.after_search.confidence`.
"""

import numpy as np

from data_utils.base import Progress
from data_utils.captions import tokenise
from data_utils.nouns import nouns_supported
from data_utils.photos import readable_photos
from keras_sat.after_search.confidence import LIMITS, Confidence, clues_of, token_probs_of
from keras_sat.checks import reject_few_photos
from keras_sat.equations import SMALLEST
from keras_sat.measuring import FRACTION_NAMED, Calibration, check_training_photos, fraction_named

FEWEST_DEV_PHOTOS = 100
FEWEST_NOUNS = 100
NUM_FOLDS = 5


def calibrate(
    captioner, images, *, cache=None, skip_unreadable=False, show_progress=True
) -> Calibration:
    """Fit a captioner's `confidence` in its captions and their nouns on photos with
    captions; measure it by five-fold cross-validation.

    Args:
        captioner: Captioner, trained without these photos.
        images: list of CaptionedImage, at least 100.
        cache: FeatureCache with their features; None reads and encodes the photos.
        skip_unreadable: without a cache, leave out unreadable photos, with a warning
            that counts them.
    """
    images = [image for image in images if image.captions]
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress)
    else:
        images = cache.readable(images)
    reject_few_photos(images, FEWEST_DEV_PHOTOS)
    if cache is not None:
        cache.reject_changed(
            [image.image_id for image in images], [image.image_path for image in images]
        )
    check_training_photos(captioner, images, "for the calibration", "Choose another split.")
    clues, norms, are_right, nouns = _examples(captioner, images, cache, show_progress)
    folds = np.arange(len(images)) % NUM_FOLDS
    confidences = np.zeros(len(images))
    for number in range(NUM_FOLDS):
        held_out = folds == number  # (photos,)
        fitted = _fitted(clues[~held_out], norms[~held_out], are_right[~held_out])
        confidences[held_out] = fitted.of_clues(clues[held_out], norms[held_out])
    word_coefficients, of_nouns = _fitted_on_nouns(nouns, confidences, folds)
    captioner.confidence = _fitted(clues, norms, are_right, word_coefficients)
    return Calibration(confidences, are_right, of_nouns)


def _examples(captioner, images, cache, show_progress):
    """Caption photos.

    Return for each the clues of the confidence, (photos, clues), the norm of the
    features, (photos,), whether the caption is right, (photos,), and for each noun the
    number of its photo, its log p, and whether a reference supports it, (nouns, 3).
    """
    search = captioner.search_settings
    shown = {"label": "photos captioned", "unit": "photos", "show": show_progress}
    clues, norms, are_right, nouns = [], [], [], []
    with Progress(len(images), **shown) as progress:
        for batch in captioner.batches(images, search.batch_size, cache):
            results = captioner.caption_batch(batch, search)
            token_probs = token_probs_of([[result] for result in results])
            batch_clues, batch_norms = clues_of(token_probs, batch.features)
            clues.extend(np.asarray(batch_clues)[:, 0])
            norms.extend(np.ravel(batch_norms))
            for image, result in zip(batch.images, results):
                references = [tokenise(caption) for caption in image.captions]
                for t, supported in nouns_supported(result.words, references).items():
                    log_prob = np.log(max(result.word_probs[t], SMALLEST))
                    nouns.append((len(are_right), log_prob, supported))
                are_right.append(fraction_named(result.words, references) >= FRACTION_NAMED)
            progress.advance(len(results))
    return np.array(clues), np.array(norms), np.array(are_right), np.array(nouns)


def _fitted_on_nouns(nouns, confidences, folds):
    """Return the coefficients of WORD_CLUES, and the Calibration of nouns; both are
    None if too few are there, or all or none are supported.

    Args:
        nouns: see `_examples`.
        confidences, folds: of each photo, (photos,).
    """
    if len(nouns) < FEWEST_NOUNS or nouns[:, 2].std() == 0:
        return None, None
    photos, are_supported = nouns[:, 0].astype(int), nouns[:, 2].astype(bool)
    clues = np.stack([nouns[:, 1], confidences[photos]], axis=-1)  # those of WORD_CLUES
    found = cross_validated(clues, are_supported, folds[photos])
    return logistic_regression(clues, are_supported), Calibration(found, are_supported)


def _fitted(clues, norms, are_right, word_coefficients=None):
    """Return the Confidence fitted on examples, see `_examples`."""
    limits = np.quantile(norms, LIMITS)
    if not (np.diff(limits) > 0).all():
        raise ValueError(
            "The photos are too alike to fit a confidence. Expected: different photos. "
            f"Received: {len(norms)} photos, of which "
            f"{len(np.unique(norms))} have different features"
        )
    return Confidence(logistic_regression(clues, are_right), limits, word_coefficients)


def cross_validated(clues, are_right, folds):
    """Return the probability of each example, (examples,), by a logistic regression on
    those of the other folds.

    Args:
        clues, are_right: see `logistic_regression`.
        folds: the number of the fold of each example, (examples,).
    """
    found = np.zeros(len(clues))
    for number in np.unique(folds):
        held_out = folds == number
        bias, *slopes = logistic_regression(clues[~held_out], are_right[~held_out])
        found[held_out] = 1 / (1 + np.exp(-bias - clues[held_out] @ slopes))
    return found


def logistic_regression(clues, are_right, *, steps=25):
    """Fit a logistic regression with a ridge penalty of 1 by Newton's method.

    Args:
        clues: (photos, clues).
        are_right: (photos,).

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
        gradient = inputs.T @ (are_right - probability) - weights
        variance = probability * (1 - probability)
        curvature = inputs.T * variance @ inputs + ridge
        weights += np.linalg.solve(curvature, gradient)
    bias, coefficients = weights[0], weights[1:]
    # Of the clues as they are, not normalised.
    return np.append(bias - coefficients @ (mean / spread), coefficients / spread)
