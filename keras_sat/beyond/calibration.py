"""How far can a caption be trusted? Learn it on photos with captions that people wrote, and measure what was learnt.

A caption is counted as right where at least two of three of the words with which it names something (all but "a",
"is", "with" and the like) are among those that people wrote of the photo.

Source: the expected calibration error is that of Naeini et al., 2015, Obtaining Well Calibrated Probabilities Using
Bayesian Binning.
What it brought here: see `keras_sat.beyond.confidence`, which is what is learnt.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_utils.captions import tokenise
from data_utils.datasets.boxes import PLACELESS
from data_utils.images import load_image, readable_photos
from data_utils.progress import Progress
from keras_sat.beyond.confidence import (
    NUM_QUANTILES,
    Confidence,
    clues,
    directions_of,
    probability_of,
    strongest,
    unlikeness,
)
from keras_sat.scoring.evaluate import are_too_many, learnt_photos

SHARE_NAMED = 2 / 3  # of the words that name something
FEWEST_PHOTOS = 100
NUM_FOLDS = 5
NUM_BINS = 10
RIDGE = 1.0  # how much the logistic regression shrinks its coefficients, as if so many photos said nothing
BATCH_SIZE = 64


@dataclass(frozen=True)
class Calibration:
    """What a captioner's confidence is worth, on photos that it was not learnt from. Printed, it is a table.

    Attributes:
        confidences: of the caption of each photo, (photos,), each learnt from the other four fifths of the photos.
            (How unlike the others these are themselves was measured with all of them.)
        are_right: whether it is right, (photos,).
    """

    confidences: np.ndarray
    are_right: np.ndarray

    @property
    def expected_error(self) -> float:
        """The expected calibration error: how far confidence is from the share of right captions, over ten bins."""
        return float(sum(count * abs(said - right) for _, count, said, right in self.bins()) / len(self.are_right))

    @property
    def separation(self) -> float:
        """How often the right one of a right and a wrong caption has the greater confidence; .5 is chance."""
        right, wrong = self.confidences[self.are_right, None], self.confidences[~self.are_right]
        return float(np.mean((right > wrong) + 0.5 * (right == wrong))) if right.size and wrong.size else float("nan")

    def bins(self) -> list[tuple[float, int, float, float]]:
        """Return for each tenth with photos: where it begins, how many, mean confidence, share that is right."""
        of_bin = (self.confidences * NUM_BINS).astype(int).clip(0, NUM_BINS - 1)
        return [
            (
                number / NUM_BINS,
                int((of_bin == number).sum()),
                float(self.confidences[of_bin == number].mean()),
                float(self.are_right[of_bin == number].mean()),
            )
            for number in np.unique(of_bin)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        names = ("from", "photos", "confidence", "right")
        return {
            "photos": len(self.are_right),
            "right": float(self.are_right.mean()),
            "expected_calibration_error": self.expected_error,
            "separation": self.separation if np.isfinite(self.separation) else None,
            "bins": [dict(zip(names, row)) for row in self.bins()],
        }

    def plot(self, ax: Any = None):
        """Draw the reliability curve: the share of right captions by confidence; return the axes."""
        import matplotlib.pyplot as plt

        ax = plt.gca() if ax is None else ax
        _, counts, said, right = zip(*self.bins())
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="as said")
        ax.plot(said, right, marker="o", label="measured")
        for count, x, y in zip(counts, said, right):
            ax.annotate(str(count), (x, y), textcoords="offset points", xytext=(4, -10), fontsize="small")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="share of captions that are right")
        ax.set_title(f"expected calibration error {self.expected_error:.3f}")
        ax.legend()
        return ax

    def __str__(self):
        lines = [f"{'confidence':>14}{'photos':>9}{'mean':>8}{'right':>8}"]
        lines += [
            f"{f'{begin:.1f} to {begin + 1 / NUM_BINS:.1f}':>14}{count:>9}{said:>8.2f}{right:>8.2f}"
            for begin, count, said, right in self.bins()
        ]
        share = self.are_right.mean()
        lines.append(f"right: {share:.1%} of {len(self.are_right)} captions (2 of 3 of the words that name something)")
        lines.append(
            f"expected calibration error {self.expected_error:.3f}; the right one of a right and a wrong caption has "
            f"the greater confidence in {self.separation:.1%}"
        )
        return "\n".join(lines)


def calibrate(captioner, images, *, cache=None, skip_unreadable=False, show_progress=True) -> Calibration:
    """Let a captioner learn its `confidence` from photos with captions, and return what that is worth.

    Args:
        captioner: Captioner. It has been trained without these photos.
        images: list of CaptionedImage, at least 100.
        cache: FeatureCache with their features; None reads and encodes the photos. Those that it lists as unreadable
            are left out.
        skip_unreadable: without a cache, leave out photos that cannot be read, with a warning that counts them.
        show_progress: show progress on standard error.

    Returns: Calibration, by cross-validation over five parts of the photos.
    """
    images = [image for image in images if image.captions and (cache is None or image.image_id not in cache.unreadable)]
    noted = {} if cache is None else cache.noted_of([image.image_id for image in images])
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable, show_progress=show_progress, noted=noted)
    if getattr(captioner, "captioners", None) is not None or len(images) < FEWEST_PHOTOS:
        raise ValueError(
            f"Expected a Captioner, and at least {FEWEST_PHOTOS} photos with captions that it was not trained on. "
            f"Received: {type(captioner).__name__}, {len(images)} photos"
        )
    if cache is not None:
        cache.refuse_changed([image.image_id for image in images], [image.image_path for image in images])
    learnt, alike = learnt_photos(captioner, images), learnt_photos(captioner, images, noted)
    if not learnt and are_too_many(captioner, alike, images):
        warnings.warn(
            f"{len(alike)} of the {len(images)} photos look like photos that the captioner learnt from "
            f"({alike[0]!r}, for example): if they are copies, its confidence will be too high.",
            stacklevel=2,
        )
    if learnt:
        raise ValueError(
            "How far captions can be trusted shows on photos that the captioner has not learnt from: choose another "
            f"split. Received: {len(learnt)} photos that it has learnt from ({learnt[0]!r}, for example)"
        )
    results, responses = _captioned(captioner, images, cache, show_progress)
    references = [[tokenise(caption) for caption in image.captions] for image in images]
    are_right = np.array([share_named(r.words, of_photo) >= SHARE_NAMED for r, of_photo in zip(results, references)])
    lengths = np.array([[len(result.words) + result.is_finished] for result in results])
    given = clues(np.array([[result.log_prob] for result in results]), lengths)[:, 0]
    fold = np.arange(len(images)) % NUM_FOLDS
    found, far = np.zeros(len(images)), np.zeros(len(images))
    directions = [directions_of(responses[fold != number]) for number in range(NUM_FOLDS)]
    for number in range(NUM_FOLDS):
        far[fold == number] = unlikeness(responses[fold == number], *directions[number])
    for number in range(NUM_FOLDS):
        others, own = fold != number, fold == number
        learnt = _learnt(given[others], are_right[others], responses[others], far[others], directions[number])
        right = probability_of(learnt.arrays["coefficients"], given[own])
        found[own] = right * learnt.likeness(responses[own])
    captioner.confidence = _learnt(given, are_right, responses, far, directions_of(responses))
    return Calibration(found, are_right)


def share_named(words, references):
    """Return which share of the words that name something are in the references of a photo; 0 where none does.

    Args:
        words: of a caption.
        references: list of lists of words.
    """
    naming = [word for word in dict.fromkeys(words) if word not in PLACELESS]
    said = {word for reference in references for word in reference}
    return sum(word in said for word in naming) / len(naming) if naming else 0.0


def _learnt(given, are_right, responses, far, directions):
    """Return the Confidence of photos: clues (photos, 3), whether right, strongest features, unlikeness, directions."""
    quantiles = np.linspace(0, 1, NUM_QUANTILES)
    return Confidence(
        logistic_regression(given, are_right),
        *directions,
        np.quantile(far, quantiles),
        np.quantile(responses.mean(axis=1), quantiles),
    )


def logistic_regression(given, are_right, steps=25):
    """Return the coefficients (clues,) that make what was seen most probable, by Newton's method.

    Args:
        given: (photos, clues), the first of them 1.
        are_right: (photos,).
        steps: of Newton's method.
    """
    centre, spread = given.mean(axis=0), given.std(axis=0)
    centre[0], spread[0] = 0, 1
    spread[spread == 0] = 1
    scaled = (given - centre) / spread
    shrinking = np.diag([0.0, *[RIDGE] * (given.shape[1] - 1)])
    shrinking[0, 0] = 1e-6  # all right, or all wrong: the bias stays finite
    coefficients = np.zeros(given.shape[1])
    for _ in range(steps):
        said = probability_of(coefficients, scaled)
        gradient = scaled.T @ (are_right - said) - shrinking @ coefficients
        curvature = (scaled * (said * (1 - said))[:, None]).T @ scaled + shrinking
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step * min(1, 2 / np.abs(step).max(initial=1e-9))
    unscaled = coefficients / spread
    unscaled[0] -= (coefficients * centre / spread).sum()
    return unscaled


def _captioned(captioner, images, cache, show_progress):
    """Return the CaptionResult of each photo, and its strongest features, (photos, feature_dim)."""
    results, responses = [], []
    with Progress(len(images), label="photos captioned", unit="photos", show=show_progress) as progress:
        for start in range(0, len(images), BATCH_SIZE):
            batch = images[start : start + BATCH_SIZE]
            if cache is None:
                (size,) = captioner.photo_sizes
                features = captioner.encode(np.stack([load_image(image.image_path, size) for image in batch]))
            else:
                features = cache.features([image.image_id for image in batch]).astype(np.float32)
            results += captioner.caption_features(features)
            responses.append(strongest(features))
            progress.advance(len(batch))
    return results, np.concatenate(responses)
