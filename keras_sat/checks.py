"""Checks of what a user passes, mostly numbers: each raises a ValueError with the argument and what was expected."""

import difflib
import functools
import inspect
import math
import numbers

from data_utils.foreign_text import brief

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
