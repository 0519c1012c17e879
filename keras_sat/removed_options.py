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


_NO_CONSISTENCY = "For captions that stay the same under noise: photo_blur=1."

REMOVED: dict[str, Removed] = {
    "consensus_captions": Removed(20, "Consensus compares words, not captions."),
    "consensus_photos": Removed(10, "Consensus learns from all training photos."),
    "consistency_epochs": Removed(0, _NO_CONSISTENCY),
    "consistency_rate": Removed(1.5e-4, _NO_CONSISTENCY, is_harmless=True),
    "drawing_temperature": Removed(0.5, "Self-critical training samples at temperature 0.5."),
    "dropout_embedding": Removed(0.0, "Instead: dropout_words, or dropout_before_readout."),
    "expectation_for": Removed("image", "Each image is sampled or not, as in the paper."),
    "expectation_probability": Removed(0.5, "It is 0.5, as in the paper."),
    "known_objects": Removed(
        False, "Captions are chosen without an ImageNet classifier.", is_harmless=True
    ),
    "no_repeat_around": Removed("", "Instead: no_repeat_ngram=3.", is_harmless=True),
    "num_drawn": Removed(5, "Self-critical training samples 5 captions of each photo."),
    "photo_jitter": Removed(0.0, _NO_CONSISTENCY),
    "region_weight": Removed(
        0.0,
        "Train without it: `region=` crops the photo, and any captioner captions the crop.",
    ),
    "use_baseline": Removed(True, "The baseline b is always subtracted, as in the paper."),
}


def without_removed(asking, options, *, is_saved=False, called=str):
    """Return a copy of a dict of options without those that were removed.

    Args:
        asking: the function, command, folder or file whose options these are, for
            messages.
        is_saved: whether the options are those of a saved captioner. They say how it
            was made, so that it can be read without them.
        called: function that turns the name of an option into what messages call it.
    """
    for name, value in _missed(options).items():
        message = f"{asking}: there is no option {called(name)} any more. {REMOVED[name].way_out}"
        if not (is_saved or REMOVED[name].is_harmless):
            raise ValueError(f"{message} Received: {called(name)}={value!r}")
        warnings.warn(f"{message} {called(name)}={value!r} is ignored.", stacklevel=3)
    return _others(options)


def record_without_removed(folder, record):
    """Return a copy of the record of a training run, a dict of its arguments, without
    options that were removed; reject a run that cannot be resumed without them.
    """
    for name, value in _missed(record).items():
        message = (
            f"{folder}: this run was made with {name}={value!r}, which this version has no more. "
            f"{REMOVED[name].way_out}"
        )
        if not REMOVED[name].is_harmless:
            raise ValueError(
                f"{message} To go on from its weights, pass another output_dir and "
                f"initial_model={str(folder / 'model')!r}."
            )
        warnings.warn(f"{message} It goes on without.", stacklevel=3)
    return _others(record)


def _missed(options):
    """Return those options that were removed, and whose value this version does not
    stand for. None was never more than the default.
    """
    return {
        name: value
        for name, value in options.items()
        if name in REMOVED and value is not None and value != REMOVED[name].value
    }


def _others(options):
    return {name: value for name, value in options.items() if name not in REMOVED}
