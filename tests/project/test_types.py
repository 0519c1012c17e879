"""Editors and type checkers know the public names, their arguments and what they
return.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "user_program.py"


def test_the_files_for_type_checkers_are_up_to_date(monkeypatch):
    """If they are not, `make stubs` writes them."""
    pytest.importorskip("ruff", reason="the files are compared as ruff formats them")
    monkeypatch.syspath_prepend(ROOT / "docs")
    for path, text in importlib.import_module("make_stubs").texts().items():
        assert text == (ROOT / path).read_text(encoding="utf-8"), path


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory):
    """The folder of what mypy knows of the packages, which takes long to find out."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def checked(tmp_path, mypy_cache):
    """Return a function that returns what mypy says of a program."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    program = tmp_path / "program.py"
    options = ["--config-file", str(ROOT / "setup.cfg"), "--cache-dir", str(mypy_cache)]
    command = [sys.executable, "-m", "mypy", *options, str(program)]

    def check(text):
        program.write_text(text, encoding="utf-8")
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    return check


@pytest.mark.slow
def test_a_right_program_passes(checked):
    result = checked(PROGRAM.read_text(encoding="utf-8"))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_mistakes_are_found(checked):
    """Each use with one of them is named: a program that passes is checked."""
    wrong = {
        "num_beams=1": 'num_beams="one"',
        "num_beams=3": "num_beam=3",
        "max_length=16": "max_length=1.6",
        "hidden_dim=64": 'hidden_dim="64"',
        "dropout_words=": "dropout_word=",
        "attention_penalty_weight=": "attention_penalty=",
        "embedding_dim=None": 'embedding_dim="wide"',
        "found.caption,": "found.captoin,",
        "epochs=12": "epoch=12",
        'precision="int8"': "precision=8",
        'split="dev"': 'splitt="dev"',
        "table.to_json": "table.to_jsn",
        "train[0].image_id": "train[0].imageid",
        "cache.feature_dim": "cache.feature_dims",
        "patience=3": "patiense=3",
        "allow_unknown=True": 'allow_unknown="yes"',
        "loss.label_smoothing": "loss.label_smothing",
    }
    text = PROGRAM.read_text(encoding="utf-8")
    for right, mistake in wrong.items():
        assert text.count(right) == 1, right
        text = text.replace(right, mistake)
    result = checked(text)
    named = {int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error:" in line}
    for mistake in wrong.values():
        places = [lines for source, lines in uses(text) if mistake.rstrip(",") in source]
        assert any(named & lines for lines in places), f"{mistake} passed:\n{result.stdout}"


def uses(text):
    """Yield the source and the set of line numbers of each call and each attribute."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Call, ast.Attribute)):
            lines = range(node.lineno, node.end_lineno + 1)
            yield ast.get_source_segment(text, node), {*lines}
