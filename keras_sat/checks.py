"""Checks of numbers that a user passes: each raises a ValueError that names the argument and what was expected."""

import math
import numbers


def check_counts(least=1, **counts):
    """Refuse what is no whole number of at least `least`."""
    for name, count in counts.items():
        if not isinstance(count, numbers.Integral) or count < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}. Received: {name}={count!r}")


def check_weights(**weights):
    """Refuse what is no number of at least 0."""
    for name, weight in weights.items():
        if not isinstance(weight, numbers.Real) or not 0 <= weight < math.inf:
            raise ValueError(f"`{name}` must be a number of at least 0. Received: {name}={weight!r}")


def check_above_zero(**values):
    """Refuse what is no number above 0."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or not 0 < value < math.inf:
            raise ValueError(f"`{name}` must be above 0. Received: {name}={value!r}")
