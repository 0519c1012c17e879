"""How well a confidence predicts correct captions.

A caption counts as correct if at least two thirds of its content words (not "a", "is",
"with" and the like) occur in the photo's ground-truth captions.

Source: expected calibration error: Naeini et al., 2015, Obtaining Well Calibrated
Probabilities Using Bayesian Binning.
"""

from dataclasses import dataclass

import numpy as np

from data_utils.datasets import PLACELESS

FRACTION_NAMED = 2 / 3  # of the content words
NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """How well the confidence predicts correct captions. `print` shows a table.

    Attributes:
        confidences: the confidence of each photo's caption, (photos,), fitted on the
            other four fifths of the photos.
        are_right: whether the caption is correct, (photos,).
        of_nouns: the same for nouns, and whether a reference supports each; or None.
    """

    confidences: np.ndarray
    are_right: np.ndarray
    of_nouns: "Calibration | None" = None

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
        figures = {
            "photos": len(self.are_right),
            "right": float(self.are_right.mean()),
            "expected_calibration_error": self.expected_error,
            "separation": self.separation,
            "bins": self.bins(),
        }
        if self.of_nouns is not None:
            figures["nouns"] = self.of_nouns.to_dict()
            figures["nouns"]["nouns"] = figures["nouns"].pop("photos")
        return figures

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
        text = (
            f"{'from':>8}{'photos':>9}{'confidence':>12}{'right':>8}\n"
            f"{''.join(row.format(**figures) for figures in self.bins())}"
            f"{self.are_right.mean():.1%} of {len(self.are_right)} captions are correct "
            "(2 of 3 content words).\n"
            f"Expected calibration error: {self.expected_error:.3f}. A correct caption "
            f"has a higher confidence than an incorrect one in {self.separation:.1%} of "
            "the pairs."
        )
        nouns = self.of_nouns
        if nouns is None:
            return text
        return (
            f"{text}\n{nouns.are_right.mean():.1%} of {len(nouns.are_right)} nouns are in a "
            f"reference. Expected calibration error: {nouns.expected_error:.3f}. Such a noun has "
            f"a higher confidence than another one in {nouns.separation:.1%} of the pairs."
        )


def fraction_named(words, references):
    """Return the fraction of a caption's content words that occur in the photo's
    references (lists of words).
    """
    content_words = {*words} - PLACELESS
    reference_words = {word for reference in references for word in reference}
    return len(content_words & reference_words) / max(len(content_words), 1)
