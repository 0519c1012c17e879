"""Calibration: fit a captioner's confidence on photos with ground-truth captions, and
measure its quality.

A caption counts as correct if at least two thirds of its content words (not "a", "is",
"with" and the like) occur in the photo's ground-truth captions.

Source: expected calibration error: Naeini et al., 2015, Obtaining Well Calibrated
Probabilities Using Bayesian Binning. Gain here: see `keras_sat.beyond.confidence`.
"""

from dataclasses import dataclass

import numpy as np

from data_utils.captions import tokenise
from data_utils.datasets.phrase_boxes import PLACELESS
from data_utils.images import readable_photos
from data_utils.progress import Progress
from keras_sat.beyond.confidence import LIMITS, Confidence, clues_of
from keras_sat.checks import reject_few_photos
from keras_sat.options import SearchOptions
from keras_sat.scoring.leakage import check_training_photos

FRACTION_NAMED = 2 / 3  # of the content words
FEWEST_PHOTOS = 100
NUM_FOLDS = 5
NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """How well the confidence predicts correct captions. `print` shows a table.

    Attributes:
        confidences: the confidence of each photo's caption, (photos,), fitted on the
            other four fifths of the photos.
        are_right: whether the caption is correct, (photos,).
    """

    confidences: np.ndarray
    are_right: np.ndarray

    @property
    def expected_error(self) -> float:
        """Expected calibration error: the mean difference between confidence and
        accuracy, over ten bins.
        """
        errors = [row["photos"] * abs(row["confidence"] - row["right"]) for row in self.bins()]
        return sum(errors) / len(self.are_right)

    @property
    def separation(self) -> float:
        """The area under the ROC curve: how often a correct caption has a higher
        confidence than an incorrect one.
        """
        right = self.confidences[self.are_right, None]
        wrong = self.confidences[~self.are_right]
        if not (right.size and wrong.size):
            return 0.5
        return float(np.mean((right > wrong) + 0.5 * (right == wrong)))

    def bins(self) -> list[dict]:
        """Return start, photos, mean confidence and accuracy of non-empty bins."""
        tenths = (self.confidences * NUM_BINS).astype(int).clip(0, NUM_BINS - 1)
        rows = []
        for tenth in np.unique(tenths).tolist():
            is_in_bin = tenths == tenth
            rows.append(
                {
                    "from": tenth / NUM_BINS,
                    "photos": int(is_in_bin.sum()),
                    "confidence": float(self.confidences[is_in_bin].mean()),
                    "right": float(self.are_right[is_in_bin].mean()),
                }
            )
        return rows

    def to_dict(self) -> dict:
        """Return the metrics as a dict for JSON."""
        return {
            "photos": len(self.are_right),
            "right": float(self.are_right.mean()),
            "expected_calibration_error": self.expected_error,
            "separation": self.separation,
            "bins": self.bins(),
        }

    def plot(self, ax=None):
        """Draw the reliability curve, the fraction of correct captions by confidence.

        Return the axes.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.gca()
        confidences = [row["confidence"] for row in self.bins()]
        accuracies = [row["right"] for row in self.bins()]
        ax.plot([0, 1], [0, 1], color="0.7", label="ideal")
        ax.plot(confidences, accuracies, marker="o", label="measured")
        ax.set(
            xlabel="confidence",
            ylabel="fraction right",
            title=f"calibration error {self.expected_error:.3f}",
        )
        ax.legend()
        return ax

    def __str__(self):
        row = "{from:>8.1f}{photos:>9}{confidence:>12.2f}{right:>8.2f}\n"
        return (
            f"{'from':>8}{'photos':>9}{'confidence':>12}{'right':>8}\n"
            f"{''.join(row.format(**figures) for figures in self.bins())}"
            f"{self.are_right.mean():.1%} of {len(self.are_right)} captions are correct "
            "(2 of 3 content words).\n"
            f"Expected calibration error: {self.expected_error:.3f}. A correct caption "
            f"has a higher confidence than an incorrect one in {self.separation:.1%} of "
            "the pairs."
        )


def calibrate(
    captioner, images, *, cache=None, skip_unreadable=False, show_progress=True
) -> Calibration:
    """Fit a captioner's `confidence` on photos with captions; measure its quality by
    five-fold cross-validation.

    Args:
        captioner: Captioner, trained without these photos.
        images: list of CaptionedImage, at least 100.
        cache: FeatureCache with their features; None reads and encodes the photos.
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
    clues, norms, are_right = _examples(captioner, images, cache, show_progress)
    folds = np.arange(len(images)) % NUM_FOLDS
    confidences = np.zeros(len(images))
    for number in range(NUM_FOLDS):
        held_out = folds == number  # (photos,)
        fitted = _fitted(clues[~held_out], norms[~held_out], are_right[~held_out])
        confidences[held_out] = fitted.of_clues(clues[held_out], norms[held_out])
    captioner.confidence = _fitted(clues, norms, are_right)
    return Calibration(confidences, are_right)


def _examples(captioner, images, cache, show_progress):
    """Caption photos.

    For each, return the regression inputs, the norm, and whether the caption is
    correct.
    """
    recorded_clues, recorded_norms = [], []  # of all results of all searches

    def numbers_of_results(word_probs, features):
        """Record the inputs of all results of a search, called like a Confidence.

        Return each result's number among all recorded ones as its confidence: it says
        later which was chosen.
        """
        clues, norms = clues_of(word_probs, features)
        photos, num_results, num_clues = clues.shape
        first = len(recorded_norms)
        recorded_clues.extend(np.reshape(clues, (-1, num_clues)))
        recorded_norms.extend(np.repeat(np.ravel(norms), num_results))
        return first + np.arange(photos * num_results).reshape(photos, num_results)

    options = SearchOptions()
    batches = captioner.batches(images, options.batch_size, cache)
    results = captioner._captions_of_batches(batches, options, numbers_of_results)
    results = Progress.over(
        results, len(images), label="photos captioned", unit="photos", show=show_progress
    )
    chosen, are_right = [], []
    for image, result in results:
        references = map(tokenise, image.captions)
        chosen.append(int(result.confidence))
        are_right.append(fraction_named(result.words, references) >= FRACTION_NAMED)
    clues = np.array(recorded_clues)[chosen]  # (photos, inputs)
    norms = np.array(recorded_norms)[chosen]  # (photos,)
    return clues, norms, np.array(are_right)


def fraction_named(words, references):
    """Return the fraction of a caption's content words that occur in the photo's
    references (lists of words).
    """
    content_words = {*words} - PLACELESS
    reference_words = {word for reference in references for word in reference}
    return len(content_words & reference_words) / max(len(content_words), 1)


def _fitted(clues, norms, are_right):
    """Return the Confidence fitted on these examples, see `_examples`."""
    return Confidence(logistic_regression(clues, are_right), np.quantile(norms, LIMITS))


def logistic_regression(clues, are_right, steps=25):
    """Fit a logistic regression with a ridge penalty of 1 by Newton's method.

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
