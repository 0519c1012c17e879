"""Soft and hard attention: functions that turn attention weights into the weights of
the context.

To add one, write a function of (attention_weights, noise, sampled), and add a
`Selection` with it to ATTENTIONS.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_sat import equations


def soft(attention_weights, noise, sampled):
    """Return alpha_t unchanged: the context is the expectation in equation (13)."""
    return attention_weights


def hard(attention_weights, noise, sampled):
    """Return a one-hot sample from alpha_t, (rows, regions).

    Args:
        noise: Gumbel noise (rows, regions). Without it, the result is alpha_t.
        sampled: (rows,), 1 for a sample, 0 for the expectation alpha_t; None samples in
            all rows.
    """
    if noise is None:
        return attention_weights
    sample = equations.sample_locations(attention_weights, noise)
    if sampled is None:
        return sample
    return ops.where(ops.expand_dims(sampled, -1) > 0, sample, attention_weights)


def forced(selection, forced_map):
    """Return the rows of `forced_map` that have any weight, and those of `selection`
    elsewhere.

    Both are (rows, regions). This is no kind of attention: it asks what a word would be
    if the decoder looked elsewhere, see `keras_sat.scoring.faithfulness`.
    """
    has_weight = ops.any(forced_map > 0, axis=-1, keepdims=True)
    return ops.where(has_weight, forced_map, selection)


class Selection(NamedTuple):
    """A kind of attention in ATTENTIONS. Other code reads these fields instead of
    checking names.

    Attributes:
        select: function of (attention_weights, noise, sampled), see `hard`; returns
            (rows, regions).
        draws_places: whether it samples regions. The objective is then equation (12).
        chooses: whether it weights regions differently. If not, its layer is
            NoAttention.
    """

    select: Callable
    draws_places: bool = False
    chooses: bool = True


ATTENTIONS = {
    "soft": Selection(soft),
    "hard": Selection(hard, draws_places=True),
    "none": Selection(soft, chooses=False),
}
