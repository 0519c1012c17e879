"""The value of the training objective for a batch, and metrics averaged over an epoch
and all devices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_sat import equations
from keras_sat.learning.replicas import sum_over_replicas

# Known before the first batch.
NAMES = ("loss", "cross_entropy", "penalty", "token_accuracy", "attention_entropy")


class ObjectiveValue(NamedTuple):
    """The value and the metrics of a training objective for one batch.

    Attributes:
        mean: the value to minimise: the mean over the captions of all replicas.
        figures: dict from each metric to its values and weights.
        log_prob: log p(y | s, a) of each row (a caption, or one sample of its
            attention).
        sampled: 1 for each row in which attention sampled regions, else 0.
        after_step: function to call after the weights are updated, or None.
        variables: variables that are also shown as metrics, with their values after the
            step.
    """

    mean: Any
    figures: dict
    log_prob: Any = None
    sampled: Any = None
    after_step: Callable | None = None
    variables: dict = {}


class Means:
    """The running means of an objective's metrics over an epoch."""

    def __init__(self):
        self.by_name = {name: keras.metrics.Mean(name=name) for name in NAMES}

    def update(self, objective):
        """Add the metrics of a batch.

        Return the means so far, per caption or per word.
        """
        figures = objective.figures
        totals = [ops.sum(values * weights) for values, weights in figures.values()]
        weights = [ops.sum(weights) for _, weights in figures.values()]
        # One tensor: one message between the replicas.
        sums = sum_over_replicas(ops.stack([*totals, *weights]))
        sums = ops.unstack(sums, num=2 * len(figures))
        results = {}
        for name, total, weight in zip(figures, sums[: len(figures)], sums[len(figures) :]):
            mean = self._metric(name)
            mean.update_state(total / ops.maximum(weight, equations.SMALLEST), sample_weight=weight)
            results[name] = mean.result()
        for name, variable in objective.variables.items():
            results[name] = ops.convert_to_tensor(variable)
        return results

    def _metric(self, name):
        """Return the Keras metric of this name, a new one if it is not known."""
        if name not in self.by_name:
            with tf.init_scope():
                self.by_name[name] = keras.metrics.Mean(name=name)
        return self.by_name[name]
