"""The command line as argparse reads it, and the table of commands."""

import inspect
import io
import re
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from keras_sat.__main__ import main
from keras_sat.commands import parser as parser_file
from keras_sat.commands.commands import COMMANDS, module_of
from keras_sat.commands.parser import build_parser, command_parser, parse

each_command = pytest.mark.parametrize("command", COMMANDS)


def help_of(*words):
    shown = io.StringIO()
    with pytest.raises(SystemExit) as stopped, redirect_stdout(shown):
        main([*words, "--help"])
    assert stopped.value.code == 0
    return shown.getvalue()


def loaded_after(*calls):
    """Return the modules that a process has loaded after these calls of `main`, which
    end with a help.
    """
    code = (
        "import contextlib, io, sys\n"
        "from keras_sat.__main__ import main\n"
        f"for words in {calls}:\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        main(words)\n"
        "print(*sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {*ran.stdout.split()}


def commands_in(modules):
    return {name for name in COMMANDS if f"keras_sat.commands.{name}" in modules}


@each_command
def test_the_help_of_a_command_says_what_it_is_and_shows_its_flags(command):
    shown = help_of(command)
    assert f"keras-sat {command}" in shown
    assert shown.partition("\n\n")[2].startswith(module_of(command).DESCRIPTION.split("\n")[0])
    assert re.search(r"^  (-\w, )?--(?!help)\w", shown, re.MULTILINE)


def test_the_whole_help_names_each_command_and_loads_none():
    shown = " ".join(help_of().split())
    for name, summary in COMMANDS.items():
        assert f" {name} {summary} " in shown
    assert not commands_in(loaded_after(["--help"]))


def test_no_help_loads_what_takes_long_to_load():
    loaded = loaded_after(*([name, "--help"] for name in COMMANDS))
    assert commands_in(loaded) == {*COMMANDS}
    heavy = {"tensorflow", "keras", "matplotlib", "nltk", "numpy"}
    assert not {name.partition(".")[0] for name in loaded} & heavy


@each_command
def test_only_the_command_that_is_called_gets_its_flags(command):
    parsers = build_parser(command).commands
    assert "[" in parsers.pop(command).format_usage()
    assert not any("[" in parser.format_usage() for parser in parsers.values())


def test_only_the_command_that_is_called_is_loaded():
    assert commands_in(loaded_after(["caption", "--help"])) == {"caption"}


def test_a_photo_may_have_the_name_of_a_command(monkeypatch):
    built = []

    def record(command):
        built.append(command)
        return module_of(command)

    monkeypatch.setattr(parser_file, "module_of", record)
    assert parse(["caption", "demo", "fit"]) == {"command": "caption", "images": ["demo", "fit"]}
    assert built == ["caption"]


@each_command
def test_a_command_takes_what_its_flags_give(command):
    # Argparse has no public list of what a parser takes.
    destinations = {action.dest for action in command_parser(command)._actions}
    given = dict.fromkeys(destinations - {"help", "help_all"})
    inspect.signature(module_of(command).run).bind(**given)
