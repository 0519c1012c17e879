"""Editors and type checkers know the public names, their arguments and what they
return.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests" / "user_program.py"


@pytest.mark.parametrize("package", ["data_utils", "keras_sat"])
def test_the_stubs_are_those_of_the_public_names(package):
    """If they are not, `make stubs` writes them."""
    pytest.importorskip("ruff", reason="the stubs are compared as ruff formats them")
    sys.path.insert(0, str(ROOT / "docs"))
    stub_of = importlib.import_module("make_stubs").stub_of
    sys.path.remove(str(ROOT / "docs"))
    text, options = stub_of(package), ["--stdin-filename", "__init__.pyi", "-"]
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *command, *options]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    assert text == (ROOT / package / "__init__.pyi").read_text(encoding="utf-8")


def checked(folder, text):
    """Return what mypy says of a program."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    (folder / "program.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "setup.cfg"),
        "--no-incremental",
    ]
    return subprocess.run(
        [*command, str(folder / "program.py")], capture_output=True, text=True, cwd=ROOT
    )


def test_a_right_program_passes(tmp_path):
    result = checked(tmp_path, PROGRAM.read_text(encoding="utf-8"))
    assert result.returncode == 0, result.stdout + result.stderr


def test_mistakes_are_found(tmp_path):
    """Each use with one of them is named: a program that passes is checked."""
    wrong = {
        "num_beams=1": 'num_beams="one"',
        "found.caption,": "found.captoin,",
        "epochs=12": "epoch=12",
        'precision="int8"': "precision=8",
        'split="dev"': 'splitt="dev"',
        "table.to_json": "table.to_jsn",
        "train[0].image_id": "train[0].imageid",
        "cache.feature_dim": "cache.feature_dims",
    }
    text = PROGRAM.read_text(encoding="utf-8")
    for right, mistake in wrong.items():
        assert text.count(right) == 1, right
        text = text.replace(right, mistake)
    result = checked(tmp_path, text)
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
