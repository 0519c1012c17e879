"""Reads the command line with argparse, by the flags of the command that is called."""

import argparse
import functools
import re
import sys

import keras_sat
from keras_sat.checks import near_name
from keras_sat.commands.commands import COMMANDS, module_of
from keras_sat.commands.invocation import started_as
from keras_sat.removed_options import REMOVED


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line, and suggests the correct name
    for a misspelt one.
    """

    speaker = "keras-sat"  # whose errors they are
    commands = {}  # dict from the names of commands to their parsers

    def error(self, message):
        wrong_word = re.search(r"unrecognized arguments: (\S+)|invalid choice: '(\S+)'", message)
        hint = ""
        if wrong_word:
            flags = self._option_string_actions.items()
            known_words = [flag for flag, action in flags if action.dest not in REMOVED]
            known_words += self.commands
            hint = near_name(wrong_word[1] or wrong_word[2], known_words)
        self.exit(2, f"{self.speaker}: {message}.{hint} See `{self.prog} --help`.\n")

    def _get_option_tuples(self, option_string):
        """Return the flags that an abbreviation may mean: none of earlier versions."""
        found = super()._get_option_tuples(option_string)
        return [flag for flag in found if flag[0].dest not in REMOVED]

    def parse_args(self, args=None, namespace=None):
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # A command's own parser knows the flags that may have been meant.
            parser = self.commands[arguments.command] if self.commands else self
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments


def parse(words=None):
    """Return the command and the options given, but no defaults, as a dict; `words` are
    those after `keras-sat`, by default of this process.
    """
    words = sys.argv[1:] if words is None else words
    # No flag before the command takes a value: another word there is an error.
    called = next((word for word in words if word in COMMANDS), None)
    return vars(build_parser(called).parse_args(words))


def build_parser(called=None):
    """Return the parser of all commands, of which only the one that is called has its
    flags: the others are known by name and summary.
    """
    program = started_as()
    parser = Parser(
        prog=program,
        description="Show, Attend and Tell: train an image captioner and look inside it.",
    )
    parser.add_argument("--version", action="version", version=f"keras-sat {keras_sat.__version__}")
    commands = parser.add_subparsers(prog=program, dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            argument_default=argparse.SUPPRESS,
            add_help=name == called and name != "fit",  # which has its own
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter, max_help_position=26
            ),
        )
        if name == called:
            module = module_of(name)
            command.description = module.DESCRIPTION.replace("keras-sat ", f"{program} ")
            command.register("type", None, _path_or_name)  # of every argument without a type
            module.add_arguments(command)
    parser.commands = commands.choices
    return parser


def command_parser(command):
    """Return the parser of one command, with its flags."""
    return build_parser(command).commands[command]


def options_of(command):
    """Return a dict from the arguments of a command to their flags, such as
    {"num_beams": "--num-beams", ...}.
    """
    actions = command_parser(command)._option_string_actions.values()
    return {action.dest: action.option_strings[0] for action in actions if action.dest != "help"}


def _path_or_name(text):
    if not text:  # pathlib treats it as the current folder
        raise argparse.ArgumentTypeError("the path or name is empty")
    return text
