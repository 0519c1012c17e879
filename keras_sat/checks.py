"""Argument checks shared by several modules, and the error that names an argument."""

import contextlib
import difflib
import os
from pathlib import Path

from data_utils.base import brief

# What other libraries call options of ours.
OTHER_NAMES = {
    "beam_size": "num_beams",
    "beam_width": "num_beams",
    "beams": "num_beams",
    "num_return_sequences": "num_results",
    "lr": "learning_rate",
}
STOPPED_EARLY = "Training stopped before the first epoch was completed, so nothing was saved."


class ArgumentError(ValueError):
    """A ValueError about arguments, whose names can be replaced in the message by flags
    such as --num-beams.

    Args:
        problem: what is wrong, in a sentence.
        expected, way_out: what the first argument must be, "above 0", and what to pass
            instead, "its path".
        **received: the arguments, with their values.
    """

    def __init__(self, problem="", *, expected="", way_out="", **received):
        self.problem, self.expected, self.way_out, self.received = (
            problem,
            expected,
            way_out,
            received,
        )
        super().__init__(problem)

    def __str__(self):
        return self.text({})

    def text(self, names):
        """Return the message, in which arguments are renamed according to the dict
        `names`.
        """
        called = [names.get(name, name) for name in self.received]
        parts = [self.problem] if self.problem else []
        parts += [f"`{called[0]}` must be {self.expected}."] if self.expected else []
        parts += [f"Pass {self.way_out} as `{called[0]}`."] if self.way_out else []
        received = (f"{name}={brief(value)}" for name, value in zip(called, self.received.values()))
        return " ".join([*parts, f"Received: {', '.join(received)}"])


@contextlib.contextmanager
def argument_called(name, shown):
    """Rename the argument `name` to `shown` in an ArgumentError raised inside the
    block.
    """
    try:
        yield
    except ArgumentError as error:
        error.received = {
            shown if key == name else key: value for key, value in error.received.items()
        }
        raise


def near_name(name, known):
    """Return " Did you mean num_beams?" for a misspelt name, or for that of another
    library, and "" if no known name is similar. Names may be flags.
    """
    by_option = {_option_of(known_name): known_name for known_name in known}
    meant = OTHER_NAMES.get(_option_of(name))
    near = [by_option[meant]] if meant in by_option else []
    near = near or difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _option_of(name):
    """Return the name of the option that a flag sets."""
    return name.removeprefix("--").replace("-", "_")


def checked_path(path, name="path"):
    """Return a Path without ~; raise ArgumentError for the argument `name` if it is no
    path, or empty.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ArgumentError(expected="the path of a file or folder", **{name: path})
    return Path(path).expanduser()


def reject_few_photos(images, fewest):
    """Raise ValueError for fewer than `fewest` photos, and name their splits.

    `images` is a list of CaptionedImage.
    """
    if len(images) >= fewest:
        return
    splits = dict.fromkeys(repr(image.split) for image in images if image.split is not None)
    origin = f" of {', '.join(splits)}" if splits else ""
    raise ValueError(
        f"Expected at least {fewest} photos with captions. Received: {len(images)} "
        f"photos{origin}. Choose a larger split, or add photos."
    )


def check_no_keras_distribution():
    """Raise ValueError if a keras.distribution is set, which has no effect on
    TensorFlow.
    """
    import keras

    if (found := keras.distribution.distribution()) is not None:
        raise ValueError(
            "keras.distribution has no effect on TensorFlow. Pass a tf.distribute "
            "strategy to keras_sat.fit, "
            f"and call keras.distribution.set_distribution(None). Received: {found!r}"
        )
