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
from keras_sat.scoring.evaluate import check_training_photos

FRACTION_NAMED = 2 / 3  # of the content words
FEWEST_PHOTOS = 100
NUM_FOLDS = 5
NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """How well the confidence predicts whether captions are correct. `print` shows it
    as a table.

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
        return sum(
            row["photos"] * abs(row["confidence"] - row["right"]) for row in self.bins()
        ) / len(self.are_right)

    @property
    def separation(self) -> float:
        """The area under the ROC curve: how often a correct caption has a higher
        confidence than an incorrect one.
        """
        right, wrong = self.confidences[self.are_right, None], self.confidences[~self.are_right]
        return (
            float(np.mean((right > wrong) + 0.5 * (right == wrong)))
            if right.size and wrong.size
            else 0.5
        )

    def bins(self) -> list[dict]:
        """Return the start, number of photos, mean confidence and accuracy of each
        non-empty bin.
        """
        tenths = (self.confidences * NUM_BINS).astype(int).clip(0, NUM_BINS - 1)
        rows = []
        for tenth in np.unique(tenths).tolist():
            confidences, are_right = (
                self.confidences[tenths == tenth],
                self.are_right[tenths == tenth],
            )
            row = {"from": tenth / NUM_BINS, "photos": len(are_right)}
            rows.append(
                row | {"confidence": float(confidences.mean()), "right": float(are_right.mean())}
            )
        return rows

    def to_dict(self) -> dict:
        """Return the metrics as a dict for JSON."""
        figures = {"photos": len(self.are_right), "right": float(self.are_right.mean())}
        figures |= {
            "expected_calibration_error": self.expected_error,
            "separation": self.separation,
        }
        return figures | {"bins": self.bins()}

    def plot(self, ax=None):
        """Draw the reliability curve, the fraction of correct captions by confidence.

        Return the axes.
        """
        import matplotlib.pyplot as plt

        ax, bins = plt.gca() if ax is None else ax, self.bins()
        ax.plot([0, 1], [0, 1], color="0.7", label="ideal")
        ax.plot(
            [row["confidence"] for row in bins],
            [row["right"] for row in bins],
            marker="o",
            label="measured",
        )
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
            "has a higher confidence "
            f"than an incorrect one in {self.separation:.1%} of the pairs."
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
    digests = {} if cache is None else cache.noted_of([image.image_id for image in images])
    if cache is None:
        images = readable_photos(
            images, skip=skip_unreadable, show_progress=show_progress, noted=digests
        )
    if len(images) < FEWEST_PHOTOS:
        raise ValueError(
            f"Expected at least {FEWEST_PHOTOS} photos with captions. Received: "
            f"{len(images)} photos"
        )
    if cache is not None:
        cache.reject_changed(
            [image.image_id for image in images], [image.image_path for image in images]
        )
    check_training_photos(
        captioner, images, digests, "for the calibration", "Choose another split."
    )
    clues, norms, are_right = _examples(captioner, images, cache, show_progress)
    fold, confidences = np.arange(len(images)) % NUM_FOLDS, np.zeros(len(images))
    for number in range(NUM_FOLDS):
        own = fold == number
        confidences[own] = _fitted(clues[~own], norms[~own], are_right[~own]).of_clues(
            clues[own], norms[own]
        )
    captioner.confidence = _fitted(clues, norms, are_right)
    return Calibration(confidences, are_right)


def _examples(captioner, images, cache, show_progress):
    """Caption photos.

    For each, return the regression inputs, the norm, and whether the caption is
    correct.
    """
    recorded, chosen, are_right, before = [], [], [], captioner.confidence

    def record(word_probs, features):
        clues, norms = map(np.asarray, clues_of(word_probs, features))
        recorded.append((clues, norms[:, 0]))
        # As confidence: the number of the result.
        return np.tile(np.arange(clues.shape[1]), (len(clues), 1))

    captioner.confidence = record  # called with each batch, like a Confidence
    try:
        shown = {"label": "photos captioned", "unit": "photos", "show": show_progress}
        for image, result in Progress.over(
            captioner.caption_each(images, cache=cache), len(images), **shown
        ):
            chosen.append(int(result.confidence))
            are_right.append(
                fraction_named(result.words, map(tokenise, image.captions)) >= FRACTION_NAMED
            )
    finally:
        captioner.confidence = before
    clues, norms = map(np.concatenate, zip(*recorded))
    return clues[np.arange(len(chosen)), chosen], norms, np.array(are_right)


def fraction_named(words, references):
    """Return the fraction of a caption's content words that occur in the photo's
    references (lists of words).
    """
    naming, known = {*words} - PLACELESS, {word for reference in references for word in reference}
    return len(naming & known) / max(len(naming), 1)


def _fitted(clues, norms, are_right):
    return Confidence(logistic_regression(clues, are_right), np.quantile(norms, LIMITS))


def logistic_regression(clues, are_right, steps=25):
    """Fit a logistic regression with a ridge penalty of 1 by Newton's method.

    Return the bias and coefficients.
    """
    mean, spread = clues.mean(axis=0), np.maximum(clues.std(axis=0), 1e-9)
    inputs = np.insert((clues - mean) / spread, 0, 1, axis=1).astype(float)
    weights, ridge = np.zeros(inputs.shape[1]), np.eye(inputs.shape[1])
    for _ in range(steps):
        probability = 1 / (1 + np.exp(-inputs @ weights))
        gradient = inputs.T @ (are_right - probability) - weights
        weights += np.linalg.solve(
            inputs.T * (probability * (1 - probability)) @ inputs + ridge, gradient
        )
    return np.append(weights[0] - weights[1:] @ (mean / spread), weights[1:] / spread)
