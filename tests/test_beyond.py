"""Beyond the paper: each idea names its source and gain, and is in HOOKS."""

import ast
from pathlib import Path

import pytest

import keras_sat
from keras_sat.beyond.extensions import HOOKS
from keras_sat.settings import CaptionerSettings

FOLDER = Path(keras_sat.__file__).parent
IDEAS = [
    path
    for path in (FOLDER / "beyond").glob("*.py")
    if path.stem not in ("__init__", "extensions", "hook")
]


@pytest.mark.parametrize("path", IDEAS, ids=lambda path: path.stem)
def test_an_idea_names_its_source_and_its_gain(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    described = " ".join(docstring.split())
    assert "Source: " in described and "Gain here: " in described


def test_hooks_are_options_of_fit():
    assert HOOKS.keys() <= {*CaptionerSettings.names()}
    assert all(any(part is not None for part in hook) for hook in HOOKS.values())
