"""Bounds: which values of an argument are valid, and what a message says of others."""

import importlib
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass

from keras_sat.checks import ArgumentError

MOST = 2**31 - 1  # of an int32
# The names in the dicts of `keras_sat.network`, which would import TensorFlow; a test
# compares them.
ENCODER_NAMES = (
    "vgg16",
    "vgg19",
    "resnet50",
    "mobilenet_v2",
    "efficientnet_b0",
    "efficientnet_lite0",
    "efficientnet_lite2",
    "tiny",
)
ATTENTION_NAMES = ("soft", "hard", "none")
SCORING_NAMES = ("additive", "dot", "bilinear")
CELL_NAMES = ("lstm", "gru")


@dataclass(frozen=True)
class Bound:
    """The set of valid values of an option, for which `is_valid` returns True.

    Attributes:
        expected: their description in messages, such as "above 0", or a function that
            returns it.
        kind: type of the command-line flag: int, float, str or bool; None: there is no
            flag.
        choices: the choices on the command line; () if they are not listed.
        takes_none: whether None is valid too.
    """

    expected: str | Callable
    is_valid: Callable
    kind: type | None = str
    choices: tuple = ()
    takes_none: bool = False

    def check(self, name, value):
        """Raise an ArgumentError for an invalid value."""
        if not ((value is None and self.takes_none) or self.is_valid(value)):
            raise ArgumentError(
                expected=self.expected() if callable(self.expected) else self.expected,
                **{name: value},
            )


def count(least=1, most=MOST):
    """Return a Bound that allows whole numbers from `least` to `most`."""

    def is_valid(value):
        return (
            isinstance(value, numbers.Integral)
            and not isinstance(value, bool)
            and least <= value <= most
        )

    return Bound(f"a whole number from {least} to {most}", is_valid, int)


def _number(expected, is_within):
    return Bound(
        expected, lambda value: isinstance(value, numbers.Real) and is_within(value), float
    )


at_least_zero = _number("a number of at least 0", lambda value: 0 <= value < math.inf)
above_zero = _number("a number above 0", lambda value: 0 < value < math.inf)
pixels = _number("a number from 0 to 100", lambda value: 0 <= value <= 100)
probability = _number("a number from 0 to 1", lambda value: 0 <= value <= 1)
fraction = _number("a number of at least 0 and below 1", lambda value: 0 <= value < 1)
positive_fraction = _number("a number above 0 and at most 1", lambda value: 0 < value <= 1)
_RATE = "a number above 0, such as 0.0004, or a Keras learning rate schedule"
a_learning_rate = Bound(_RATE, lambda value: callable(value) or above_zero.is_valid(value), float)
flag = Bound(
    "True or False", lambda value: type(value).__name__ in ("bool", "bool_"), bool
)  # numpy's too


def one_of(*choices):
    """Return a Bound that allows only these words."""
    return Bound(
        f"one of: {', '.join(choices)}",
        lambda word: isinstance(word, str) and word in choices,
        str,
        choices,
    )


def name_in(module, registry, listed, also=""):
    """Return a Bound that allows the keys of a dict in `keras_sat.network`, which is
    not imported for `listed` keys.

    If `also` is given, a keras.Model is valid too; `also` is then the end of the error
    message.
    """

    def names():
        return getattr(importlib.import_module(f"keras_sat.network.{module}"), registry)

    def is_valid(value):
        if isinstance(value, str):
            return value in listed or value in names()
        return bool(also) and isinstance(value, importlib.import_module("keras").Model)

    return Bound(lambda: f"one of: {', '.join(names())}{also}", is_valid, str, listed)


an_encoder = name_in("encoders", "ENCODERS", ENCODER_NAMES, also=", or a keras.Model, or None")
an_attention = name_in("attention", "ATTENTIONS", ATTENTION_NAMES)
a_scoring = name_in("attention", "SCORINGS", SCORING_NAMES)
a_cell = name_in("cells", "CELLS", CELL_NAMES)


def unchecked(kind=None, *choices):
    """Return a Bound that allows any value, because the code that uses the value checks
    it.
    """
    return Bound("", lambda value: True, kind, choices, takes_none=True)
