"""The commands: a dict from their names to what the help says of each, in one line.

A command is a file of this folder, named after it. It has a DESCRIPTION for its help,
`add_arguments`, which adds its flags to a parser, and `run`, which takes the arguments
that were parsed. The file is imported when its command is called.
"""

import importlib

COMMANDS = {
    "demo": "train on the built-in scenes, without a download",
    "fit": "train a captioner",
    "caption": "caption pictures",
    "evaluate": "score a captioner on a data set",
    "compare": "compare two captioners by their scores",
    "features": "encode the photos of a data set once",
    "calibrate": "calibrate the confidence of captions",
    "index": "choose captions by consensus with training photos",
    "export": "export a captioner for programs without keras_sat, or for browsers",
    "app": "try a captioner in the browser",
    "info": "print information for a bug report",
}


def module_of(command):
    """Import the file of a command."""
    return importlib.import_module(f"keras_sat.commands.{command}")
