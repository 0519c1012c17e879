"""The selections: from attention weights to what the context is made from.

To add one, write a function of (attention_weights, noise, sampled), and name the `Selection` that it is in ATTENTIONS.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_sat import equations


def soft(attention_weights, noise, sampled):
    """Look everywhere at once, each region weighed by alpha_ti: the expectation of equation (13)."""
    return attention_weights


def hard(attention_weights, noise, sampled):
    """Look at one region, drawn from alpha_t; without noise, and in rows that are not `sampled`, at the expectation.

    Args:
        attention_weights: (rows, regions).
        noise: Gumbel noise (rows, regions), or None.
        sampled: (rows,), 1 where a sample is wanted, 0 where the expectation is; None wants samples everywhere.
    """
    if noise is None:
        return attention_weights
    sample = equations.sample_locations(attention_weights, noise)
    return sample if sampled is None else ops.where(ops.expand_dims(sampled, -1) > 0, sample, attention_weights)


class Selection(NamedTuple):
    """An entry of ATTENTIONS: what depends on the kind of attention asks these, never for its name.

    Attributes:
        select: function of (attention_weights, noise, sampled), see `hard`; returns (rows, regions).
        draws_places: whether it draws regions: equation (12) takes the place of log p then.
        chooses: whether it prefers some regions to others. One that does not has NoAttention as its layer.
    """

    select: Callable
    draws_places: bool = False
    chooses: bool = True


ATTENTIONS = {
    "soft": Selection(soft),
    "hard": Selection(hard, draws_places=True),
    "none": Selection(soft, chooses=False),
}
