"""The flags that several commands have, and how an option becomes a flag.

Only flags that are given are passed on; functions define their own defaults.
"""

import argparse

from data_utils.datasets import DATASETS, SPLITS
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.removed_options import REMOVED

METAVARS = {
    "encoder": "NAME",
    "encoder_layer": "LAYER",
    "encoder_weights": "FILE",
    "trained_up_to": "LAYER",
}
METAVARS |= {int: "N", float: "X"}
MODEL_HELP = "a saved model (folder or .keras file), a bundled name, or hf://owner/name[@revision]"
BOXES_HELP = "the folder of Flickr30k Entities, or a JSON file of boxes"


def flag_of(option):
    """Return the flag of an option: "--num-beams" for "num_beams"."""
    return f"--{option.replace('_', '-')}"


# === Flags of options ===


def add_options(parser, kind, *names):
    """Add the flags of a Part or Settings to a parser: the named ones or all."""
    fields = kind.fields()
    for name in names or fields:
        _add_option(parser, name, fields[name], kind.defaults_in_words.get(name))


def _add_option(parser, name, field, default_in_words):
    """Add the flag of a setting, given the field that defines it, if it has one."""
    bound = field.metadata["bound"]
    metavar = _metavar(name, bound)
    text = _help_text(field, default_in_words, shows_choices=metavar is not None)
    if bound.kind is bool:
        parser.add_argument(flag_of(name), action=argparse.BooleanOptionalAction, help=text)
    elif bound.kind is not None:
        parser.add_argument(
            flag_of(name),
            # A word is a path or a name, see `build_parser`.
            type=None if bound.kind is str else bound.kind,
            choices=bound.choices or None,
            metavar=metavar,
            help=text,
        )


def _metavar(name, bound):
    """Return what stands for the value of an option in the help; None lets argparse
    show the choices.
    """
    if name in METAVARS:
        return METAVARS[name]
    return None if bound.choices else METAVARS.get(bound.kind)


def _help_text(field, default, *, shows_choices):
    """Return the help of an option: its meaning, choices and default, in words or None
    for that of the field.
    """
    choices = field.metadata["bound"].choices
    if default is None:
        default = field.metadata["none_means"] if field.default is None else field.default
    text = field.metadata["help"]
    if choices and shows_choices:
        text += f": {', '.join(choices)}"
    return f"{text}; default: {default or repr(default)}"


def add_removed(parser):
    """Add flags of earlier versions, which the help does not show: with their values
    they are recognised, so that the message about them is `without_removed`'s.
    """
    for name, removed in REMOVED.items():
        if isinstance(removed.value, bool):
            kind = {"action": argparse.BooleanOptionalAction}
        else:
            kind = {"type": type(removed.value)}
        parser.add_argument(flag_of(name), help=argparse.SUPPRESS, **kind)


# === Flags of commands ===


def add_switches(parser, **texts):
    """Add flags without a value, with their help."""
    for name, text in texts.items():
        parser.add_argument(flag_of(name), action="store_true", help=text)


def add_values(parser, metavar, **texts):
    """Add flags with a path or name, with their help."""
    for name, text in texts.items():
        parser.add_argument(flag_of(name), metavar=metavar, help=text)


def add_data(parser, group=None, split=None, needs_cache=False):
    """Add the flags that select the data; `split` is the default of --split, and
    `group` gets --skip-unreadable.
    """
    parser.add_argument("--data", required=True, choices=list(DATASETS), help="the data set")
    add_values(parser, "DIR", data_dir="the folder with its photos and captions")
    parser.add_argument(
        "--split-seed", type=int, metavar="N", help="split the photos at random with this seed"
    )
    if split is not None:
        parser.add_argument("--split", choices=SPLITS, help=f"default: {split}")
    parser.add_argument(
        "--cache-dir", required=needs_cache, metavar="DIR", help="the folder of the feature cache"
    )
    add_switches(group or parser, skip_unreadable="leave out photos that cannot be read")


def add_models(parser, default=DEFAULT_MODEL):
    """Add the flag of the captioner, which may be an ensemble."""
    text = f"{MODEL_HELP}; if repeated, the models form an ensemble; default: {default}"
    parser.add_argument("--model", dest="models", action="append", help=text)


def add_ray(parser, part_size=False):
    """Add the flags of work on a Ray cluster; return their group in the help."""
    group = parser.add_argument_group("Many machines (docs/scale.md)")
    text = (
        'work on a Ray cluster: "local" starts one on this computer, "auto" or HOST:PORT joins one'
    )
    add_values(group, "ADDRESS", ray=text)
    group.add_argument(
        "--worker-cpus", type=float, metavar="X", help="CPUs of each worker process; default: 1"
    )
    group.add_argument(
        "--worker-gpus", type=float, metavar="X", help="GPUs of each worker process; default: 0"
    )
    if part_size:
        group.add_argument(
            "--part-size", type=int, metavar="N", help="photos in a block of work; default: 1024"
        )
    return group
