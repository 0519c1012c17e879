"""Confidence: the estimated probability that a caption is correct, and that a noun of
it is one that people use for the photo.

The first is a logistic regression on a few inputs, and falls to 0 if the norm of the
features is unusual for photos, as for black pictures. The second is one on WORD_CLUES.

Source: Platt, 1999, Probabilistic Outputs for Support Vector Machines; for the norm Yu
et al., 2023, Block Selection Method for Using Feature Norm in Out-of-Distribution
Detection. Gain here: the expected calibration error is .038, and in 72 % of the pairs
of a correct and an incorrect caption the correct one has the higher confidence (1,000
dev photos). For nouns in a reference and others it is .023 and 71 %, with the caption's
confidence alone 64 %. Measured with `keras-sat calibrate`; see docs/model-card.md.
"""

import numpy as np
from keras import ops

from data_utils.nouns import noun_positions
from keras_sat.equations import SMALLEST
from keras_sat.search import families_of, with_values

CLUES = (
    "mean log p of the tokens",
    "lowest log p of a token",
    "number of tokens",
    "fraction of features above 0",
)
WORD_CLUES = ("log p of the word", "confidence of the caption")
LIMITS = (0.005, 0.02, 0.995, 1.0)  # quantiles of the norm


class Confidence:
    """Estimates the probability that captions are correct, from their words'
    probabilities and the features: a step after a search, see
    `CaptionGenerator.steps_after`.

    Args:
        coefficients: coefficients of the logistic regression: the bias and one for each
            of CLUES.
        limits: the quantiles LIMITS of the photos' norms. Outside the middle two, the
            confidence falls to 0.
        word_coefficients: the same for nouns and WORD_CLUES; None where too few were
            there to fit them.
    """

    def __init__(self, coefficients, limits, word_coefficients=None):
        self.coefficients = np.asarray(coefficients, np.float32)
        self.limits = np.asarray(limits, np.float32)
        self.word_coefficients = None
        expected = [(1 + len(CLUES),), (len(LIMITS),)]
        shapes = [self.coefficients.shape, self.limits.shape]
        is_finite = np.isfinite(self.coefficients).all()
        if word_coefficients is not None:
            self.word_coefficients = np.asarray(word_coefficients, np.float32)
            expected.append((1 + len(WORD_CLUES),))
            shapes.append(self.word_coefficients.shape)
            is_finite = is_finite and np.isfinite(self.word_coefficients).all()
        is_ascending = (np.diff(self.limits) > 0).all()
        if shapes != expected or not is_finite or not is_ascending:
            raise ValueError(
                "The confidence of this model is damaged. Expected: finite coefficients "
                f"and ascending limits of shapes {expected}. Received: shapes {shapes}, "
                f"limits {self.limits}"
            )

    def __call__(self, results, features):
        """Return CaptionResults with their `confidence` and `word_confidence`, and
        those of their alternatives.

        Args:
            results: list of the CaptionResult of each photo.
            features: those of the encoder, (photos, regions, feature_dim).
        """
        families = families_of(results)
        token_probs = token_probs_of(families)
        confidences = np.asarray(self.of_word_probs(token_probs, features))
        results = with_values(families, "confidence", confidences.tolist())
        if self.word_coefficients is None:
            return results
        of_words = np.asarray(self.of_words(token_probs, confidences))
        of_captions = [
            [of_nouns(result.words, row) for result, row in zip(family, rows)]
            for family, rows in zip(families, of_words)
        ]
        return with_values(families_of(results), "word_confidence", of_captions)

    def of_word_probs(self, word_probs, features):
        """Return the confidence of shape (photos, captions), from arrays or tensors.

        For the arguments, see `clues_of`.
        """
        return self.of_clues(*clues_of(word_probs, features))

    def of_clues(self, clues, norms):
        """Return the confidence, given the output of `clues_of`."""
        bias, coefficients = self.coefficients[0], self.coefficients[1:]
        probability = ops.sigmoid(bias + ops.sum(clues * coefficients, axis=-1))
        lowest, low, high, highest = self.limits
        inside = ops.minimum(
            (norms - lowest) / (low - lowest), (highest - norms) / (highest - high)
        )
        return probability * ops.clip(inside, 0.0, 1.0)

    def of_words(self, word_probs, confidences):
        """Return the confidence of words if they are nouns, (photos, captions, tokens),
        from arrays or tensors.

        Args:
            word_probs: see `clues_of`.
            confidences: those of the captions, (photos, captions).
        """
        bias, of_word, of_caption = self.word_coefficients
        log_probs = ops.log(ops.maximum(ops.cast(word_probs, "float32"), SMALLEST))
        of_captions = ops.expand_dims(ops.cast(confidences, "float32"), -1)
        return ops.sigmoid(bias + of_word * log_probs + of_caption * of_captions)

    def to_dict(self):
        """Return the constructor's arguments as a dict for JSON."""
        arguments = {"coefficients": self.coefficients.tolist(), "limits": self.limits.tolist()}
        if self.word_coefficients is not None:
            arguments["word_coefficients"] = self.word_coefficients.tolist()
        return arguments


def of_nouns(words, values):
    """Return the values of a caption's nouns, (words,), NaN for other words.

    Args:
        words: list of the caption's words.
        values: at least as many as words.
    """
    found = np.full(len(words), np.nan, np.float32)
    positions = noun_positions(words)
    found[positions] = np.asarray(values)[positions]
    return found


def token_probs_of(families):
    """Return p of each token of captions, `<end>` included, as an array (photos,
    captions, tokens), which is 0 where there is none.

    Args:
        families: a list of CaptionResults for each photo.
    """
    token_probs = [
        [np.append(result.word_probs, result.end_prob or 0.0) for result in family]
        for family in families
    ]
    num_captions = max(map(len, token_probs))
    num_tokens = max(len(probs) for family in token_probs for probs in family)
    padded = np.zeros((len(families), num_captions, num_tokens), np.float32)
    for photo, family in enumerate(token_probs):
        for number, probs in enumerate(family):
            padded[photo, number, : len(probs)] = probs
    return padded


def clues_of(word_probs, features):
    """Return the regression's inputs (photos, captions, inputs) and the mean norm of
    the features (photos, 1).

    They are computed from p of each token, (photos, captions, max_length), and the
    features of the photos.
    """
    word_probs, features = ops.cast(word_probs, "float32"), ops.cast(features, "float32")
    is_token = word_probs > 0
    log_probs = ops.log(ops.where(is_token, word_probs, 1.0))
    length = ops.maximum(ops.sum(ops.cast(is_token, "float32"), axis=-1), 1.0)
    active = ops.mean(ops.cast(features > 0, "float32"), axis=(1, 2))  # (photos,)
    active = active[:, None] + ops.zeros_like(length)
    mean_log_prob = ops.sum(log_probs, axis=-1) / length
    lowest_log_prob = ops.min(log_probs, axis=-1)
    # In the order of CLUES.
    clues = ops.stack([mean_log_prob, lowest_log_prob, length, active], axis=-1)
    region_norms = ops.sqrt(ops.sum(features**2, axis=-1))  # (photos, regions)
    return clues, ops.mean(region_norms, axis=1, keepdims=True)
