"""Options that earlier versions had: what files and calls that name one are told."""

import warnings
from typing import Any, NamedTuple


class Removed(NamedTuple):
    """An option that this version does without.

    Attributes:
        value: what this version does, as a value of the option. Who gave this value
            loses nothing.
        way_out: a sentence: what to do instead.
        is_harmless: whether a call that gives another value can do without it. If not,
            the call is an error, for its result would not be what was asked for.
    """

    value: Any
    way_out: str
    is_harmless: bool = False


REMOVED: dict[str, Removed] = {}


def without_removed(asking, options, *, is_saved=False):
    """Return a copy of a dict of options without those that were removed.

    Args:
        asking: the function, folder or file whose options these are, for messages.
        is_saved: whether the options are those of a saved captioner. They say how it
            was made, so that it can be read without them.
    """
    kept = {name: value for name, value in options.items() if name not in REMOVED}
    for name in options.keys() - kept.keys():
        removed = REMOVED[name]
        if options[name] == removed.value:
            continue
        message = f"{asking}: there is no option {name} any more. {removed.way_out}"
        if not (is_saved or removed.is_harmless):
            raise ValueError(f"{message} Received: {name}={options[name]!r}")
        warnings.warn(f"{message} {name}={options[name]!r} is ignored.", stacklevel=3)
    return kept
