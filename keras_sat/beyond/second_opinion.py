"""A second opinion on a caption's confidence, from what is known about similar photos
and objects.

The network is as sure of photos unlike its training photos as of others, and less often
right. The index of training photos and the recogniser of objects know better. A
logistic regression corrects the confidence by CLUES. It is fitted on dev photos and on
some that were made strange: cut, recoloured, drawn, or no photo at all, see
`data_utils.strange_photos`.

Source: for the idea to fit confidence on shifted data Salehi et al., 2022, A Unified
Survey on Anomaly, Novelty, Open-Set, and Out-of-Distribution Detection; for distances
to training data Sun et al., 2022, Out-of-Distribution Detection with Deep Nearest
Neighbors. Gain here: see docs/model-card.md.
"""

import dataclasses

import numpy as np

CLUES = (
    "log odds of the confidence",
    "agreement with captions of similar photos",
    "nearness of these photos",
    "evidence for a noun of the caption",
)
STRANGE_WEIGHT = 0.25  # of a strange photo in the regression; of a drawn one half of it


class SecondOpinion:
    """Corrects the confidence of captions.

    Args:
        coefficients: of the logistic regression: the bias and one for each of CLUES.
    """

    def __init__(self, coefficients):
        self.coefficients = np.asarray(coefficients, np.float64)
        expected = (1 + len(CLUES),)
        if self.coefficients.shape != expected or not np.isfinite(self.coefficients).all():
            raise ValueError(
                "The second opinion of this model is damaged. Expected: finite coefficients of "
                f"shape {expected}. Received: shape {self.coefficients.shape}"
            )

    def __call__(self, results):
        """Return CaptionResults whose confidence is corrected, and that of their
        alternatives. Those without confidence or consensus stay as they are.
        """
        return [
            dataclasses.replace(
                self._corrected(result),
                alternatives=[self._corrected(other) for other in result.alternatives],
            )
            for result in results
        ]

    def _corrected(self, result):
        """Return the CaptionResult of a photo with the corrected confidence."""
        if not result.confidence or result.consensus is None:
            return result
        confidence = self.of_clues(clues_of(result, result.confidence))
        return dataclasses.replace(result, confidence=float(confidence))

    def of_clues(self, clues):
        """Return the confidence, given CLUES (..., clues)."""
        bias, coefficients = self.coefficients[0], self.coefficients[1:]
        return 1 / (1 + np.exp(-(bias + clues @ coefficients)))

    def to_dict(self):
        """Return the constructor's arguments as a dict for JSON."""
        return {"coefficients": self.coefficients.tolist()}


def clues_of(result, confidence):
    """Return the CLUES of a CaptionResult with a consensus, (clues,), given its
    confidence before it is corrected.
    """
    confidence = np.clip(confidence, 1e-4, 1 - 1e-4)
    log_odds = np.log(confidence / (1 - confidence))
    return np.array([log_odds, result.consensus, result.nearness, result.evidence or 0.0])
