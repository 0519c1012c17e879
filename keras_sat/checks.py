"""Checks of what a user passes, mostly numbers: each raises a ValueError with the argument and what was expected."""

import difflib
import functools
import inspect
import math
import numbers

from data_utils.foreign_text import brief

MOST_WORDS = 10_000  # of a caption: memory for all of them is taken at once
MOST = 2**31 - 1  # TensorFlow counts no further
# What a training says that Ctrl-C has ended before there was anything to keep.
STOPPED_EARLY = "Stopped before the first epoch was complete: no epoch is kept."
NO_EPOCH = "no epoch was complete. The same command begins the training anew; features that were built are kept."
# Where the argument encoder_weights is passed in Python; the command line has one option, and leaves this out.
WHOSE_ENCODER_WEIGHTS = " of Captioner, Captioner.load, Captioner.from_pretrained or fit"


def check_options(options, *functions, beside=(), also=()):
    """Raise ValueError for options that no function has, and guess which one was meant.

    Args:
        options: dict, or names.
        *functions: the first one was called with the options; it passes on what it does not know to the others.
        beside: arguments of the functions that are no options here.
        also: further options.
    """
    known = {name: None for function in functions for name in inspect.signature(function).parameters}
    known = [name for name in known if name not in ("self", "kwargs", *beside)] + list(also)
    for name in options:
        if name not in known:
            hint = near_name(name, known) or f" Expected one of: {', '.join(known)}."
            raise ValueError(f"{functions[0].__name__} has no such option.{hint} Received: {name}")


def near_name(name, known):
    """Return " Did you mean num_beams?" for a misspelt name, or "" where no known one is near it."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def with_known_options(*further):
    """Return a decorator: what a function, and those that it passes options on to, does not know is a ValueError."""

    def decorate(function):
        @functools.wraps(function)
        def checked(*arguments, **options):
            check_options(options, function, *further)
            return function(*arguments, **options)

        return checked

    return decorate


def check_learning_rate(learning_rate):
    """Raise ValueError for a learning rate that is no number above 0, no schedule and no function."""
    if callable(learning_rate):  # as Keras' schedules are
        return
    if not isinstance(learning_rate, numbers.Real) or not 0 < learning_rate < math.inf:
        raise ValueError(
            "`learning_rate` must be above 0: a number such as 0.0004, or a schedule of Keras. "
            f"Received: learning_rate={brief(learning_rate)}"
        )


def check_counts(least=1, most=MOST, **counts):
    """Raise ValueError unless each is a whole number from `least` to `most`; `max_length` is at most MOST_WORDS."""
    for name, count in counts.items():
        highest = min(most, MOST_WORDS) if name == "max_length" else most
        if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}. Received: {name}={brief(count)}")
        if count > highest:
            raise ValueError(f"`{name}` must be a whole number of at most {highest}. Received: {name}={brief(count)}")


def check_weights(**weights):
    """Raise ValueError unless each is a finite number of at least 0."""
    for name, weight in weights.items():
        if not isinstance(weight, numbers.Real) or not 0 <= weight < math.inf:
            raise ValueError(f"`{name}` must be a number of at least 0. Received: {name}={brief(weight)}")


def check_above_zero(**values):
    """Raise ValueError unless each is a finite number above 0."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or not 0 < value < math.inf:
            raise ValueError(f"`{name}` must be above 0. Received: {name}={brief(value)}")


def check_shares(**shares):
    """Raise ValueError unless each is a number from 0 to below 1."""
    for name, share in shares.items():
        if not isinstance(share, numbers.Real) or not 0 <= share < 1:
            raise ValueError(f"`{name}` must be a share from 0 to below 1. Received: {name}={brief(share)}")


def check_rates(*, average_momentum, encoder_rate, weight_decay, clip_norm):
    """Raise ValueError for rates that `Captioner.compile` cannot train with."""
    if clip_norm is not None:
        check_above_zero(clip_norm=clip_norm)  # with one below 0 the training would go uphill
    if average_momentum is not None:
        check_shares(average_momentum=average_momentum)
    if weight_decay is not None:
        check_weights(weight_decay=weight_decay)
    if not isinstance(encoder_rate, numbers.Real) or not 0 < encoder_rate <= 1:
        raise ValueError(f"`encoder_rate` must be above 0 and at most 1. Received: encoder_rate={brief(encoder_rate)}")


def check_axes(ax):
    """Raise ValueError for anything but matplotlib axes, or an array of them."""
    import numpy as np
    from matplotlib.axes import Axes

    for panel in np.asarray(ax, dtype=object).ravel():
        if not isinstance(panel, Axes):
            raise ValueError(
                "Expected matplotlib axes, as plt.subplots() returns them, or None for a new figure. "
                f"Received: ax with {panel!r}"
            )


def check_list_of_results(results):
    """Raise ValueError for one CaptionResult where a list of them is expected."""
    if hasattr(results, "attention_weights"):
        raise ValueError(
            f"Expected a list of CaptionResult: put the one into [ ]. Received: one {type(results).__name__}"
        )


def check_no_keras_distribution():
    """Raise ValueError for Keras' own distributions, which do nothing on TensorFlow."""
    import keras

    if keras.distribution.distribution() is not None:
        raise ValueError(
            "On TensorFlow, Keras' own distributions do nothing: the training would be on one device. Call "
            "keras.distribution.set_distribution(None), and pass keras_sat.fit a tf.distribute.MirroredStrategy() as "
            f"`strategy`. Received: keras.distribution.distribution()={keras.distribution.distribution()!r}"
        )


def check_strategy_of_fit(strategy):
    """Raise ValueError where Keras' `fit` cannot train: on several hosts, and with Keras' own distributions."""
    import tensorflow as tf

    check_no_keras_distribution()
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise ValueError(
            "Keras' `fit` does not work on several hosts: use keras_sat.fit(..., strategy=strategy), or "
            f"keras_sat.training.team.Team(strategy).fit. Received: strategy={strategy!r}"
        )


def check_batches(name, batches):
    """Raise ValueError for arrays where batches are expected; `validation_data` may be None."""
    import numpy as np

    if isinstance(batches, (list, np.ndarray)) or (batches is None and name == "x"):
        raise ValueError(
            "Expected batches, as make_batches(images, vocabulary, ...) makes them. "
            f"Received: {name} of type {type(batches).__name__}"
        )
