"""What goes beyond the paper: each idea says where it is from and what it brought, and hangs on one line of HOOKS."""

import ast
from pathlib import Path

import pytest

import keras_sat.beyond
from keras_sat.beyond import HOOKS
from keras_sat.options import CaptionerOptions, SelfCriticalOptions, SteadyOptions

IDEAS = [path for path in Path(keras_sat.beyond.__file__).parent.glob("*.py") if path.stem not in ("__init__", "hook")]


@pytest.mark.parametrize("path", IDEAS, ids=lambda path: path.stem)
def test_an_idea_says_where_it_is_from_and_what_it_brought(path):
    described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert "Source: " in described and "What it brought here: " in described


def test_hooks_are_options_of_fit():
    assert HOOKS.keys() <= {*CaptionerOptions.names(), *SteadyOptions.names(), *SelfCriticalOptions.names()}
    assert all(any(part is not None for part in hook) for hook in HOOKS.values())
