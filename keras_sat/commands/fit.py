"""The command `fit`: train a captioner.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import argparse

from keras_sat.commands.flags import (
    BOXES_HELP,
    add_data,
    add_options,
    add_removed,
    add_switches,
    add_values,
)
from keras_sat.commands.option_groups import reject_alone
from keras_sat.presets import DEFAULT_MODEL, PRESETS, RENAMED
from keras_sat.settings import SHOWN_IN_HELP, FitSettings, Rewards, fields_by_heading

DESCRIPTION = """Train a captioner and keep its best epoch. If killed, it resumes when run again.

  keras-sat fit --data folder --data-dir my_photos --split-seed 0

Flickr8k, Flickr30k and COCO have presets, which change the defaults below."""


class FirstHelp(argparse.Action):
    """Print only the first group of flags in a command's help, and exit."""

    def __call__(self, parser, namespace, values, option_string=None):
        for group in parser._action_groups[2:]:
            for action in group._group_actions:
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def add_arguments(parser):
    """Add the flags: first those that users need first, then the others by kind."""
    parser.usage = f"{parser.prog} --data DATA [options]"
    parser.add_argument(
        "--help", "-h", nargs=0, action=FirstHelp, help="show the most important options"
    )
    parser.add_argument("--help-all", action="help", help="show all options")
    group = parser.add_argument_group("Data and devices")
    add_data(parser, group)
    add_values(parser, "DIR", output_dir="default: runs/DATA-ENCODER-ATTENTION")
    text = "preset settings; default: the preset of the data set"
    parser.add_argument("--preset", choices=[*PRESETS, *RENAMED], metavar="NAME", help=text)
    add_values(parser, "MODEL", initial_model="start from a saved or a bundled model")
    add_switches(parser, from_scratch=f"for your own photos: do not start from {DEFAULT_MODEL}")
    add_options(parser, FitSettings, *SHOWN_IN_HELP)
    add_values(group, "PATH", boxes=f"with --box-weight: {BOXES_HELP}")
    devices = group.add_mutually_exclusive_group()
    devices.add_argument(
        "--gpus", type=int, metavar="N", help="train on the first N GPUs; default: one"
    )
    add_switches(devices, hosts="train on all GPUs of the hosts listed in TF_CONFIG")
    for heading, fields in fields_by_heading(FitSettings).items():
        names = [name for name in fields if name not in SHOWN_IN_HELP]
        add_options(parser.add_argument_group(heading), FitSettings, *names)
    add_removed(parser)


def run(data, gpus=None, hosts=False, **options):
    """Train a captioner with the given options."""
    epochs, *settings = Rewards.names()
    for name in settings:
        if name in options and not options.get(epochs):
            reject_alone(name, epochs)
    if hosts or gpus is not None:  # first: hosts can only be connected before TensorFlow computes
        from keras_sat.training import several_gpus, several_hosts

        options["strategy"] = several_hosts() if hosts else several_gpus(gpus)
    from keras_sat.training import fit

    captioner = fit(data, **options)
    if not captioner.history and captioner.history.was_interrupted:
        raise KeyboardInterrupt(
            "no epoch was completed. Run the same command to start again; features are kept."
        )
