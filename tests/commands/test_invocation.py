import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_sat.commands import invocation
from keras_sat.commands.parser import command_parser
from keras_sat.shadowed import reject_other_data_utils


@pytest.mark.parametrize(
    "started, found, typed",
    [
        ([".venv/bin/python", "-m", "keras_sat"], None, ".venv/bin/python -m keras_sat"),
        (["/my home/bin/python", "-m", "keras_sat"], None, "'/my home/bin/python' -m keras_sat"),
        (["/v/bin/python", "/v/bin/keras-sat"], "/v/bin/keras-sat", "keras-sat"),
        (["/v/bin/python", ".venv/bin/keras-sat"], "/v/bin/keras-sat", ".venv/bin/keras-sat"),
        (["python", "train.py"], None, "keras-sat"),
    ],
)
def test_a_command_is_typed_as_keras_sat_itself_was(started, found, typed, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", started)
    monkeypatch.setattr(
        sys, "argv", ["/somewhere/keras_sat/__main__.py" if "-m" in started else started[1], "fit"]
    )
    monkeypatch.setattr(invocation.shutil, "which", lambda name: found)
    assert invocation.command("caption", "my photos") == f"{typed} caption 'my photos'"
    assert typed.split()[-1] in command_parser("compare").format_help()


def test_what_a_real_process_says_can_be_run(tmp_path):
    script = tmp_path / "keras-sat"
    script.write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parents[2])!r})\nimport "
        "keras_sat.__main__ as m\n"
    )
    script.write_text(script.read_text() + "m.main()\n")
    ran = subprocess.run(
        [sys.executable, str(script), "fit", "--epoks"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ran.returncode == 2 and shlex.split(ran.stderr.split("`")[1]) == [
        str(script),
        "fit",
        "--help",
    ]


# === A file of the user that is called data_utils ===


@pytest.fixture(params=["data_utils.py", "data_utils/__init__.py"])
def hiding(request, tmp_path):
    """A file of the user that Python imports in the place of our package."""
    path = tmp_path / request.param
    path.parent.mkdir(exist_ok=True)
    path.write_text("import keras_sat\nraise SystemExit('it was run')\n")
    return path


def run_in(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def test_a_file_that_hides_our_package_is_named_by_an_import(hiding, tmp_path):
    place = hiding.parent if hiding.name == "__init__.py" else hiding
    ran = run_in(tmp_path, "-c", "import keras_sat")
    error = ran.stderr.splitlines()[-1]
    assert ran.returncode == 1
    assert error.startswith(f"ImportError: '{place}' hides the package data_utils")
    assert "Rename it, or keep its folder out of Python's path" in error


def test_a_program_that_is_called_like_our_package_is_named(tmp_path):
    program = tmp_path / "data_utils.py"
    program.write_text("import keras_sat\n")
    ran = run_in(tmp_path, program)
    assert f"ImportError: '{program}' hides the package data_utils" in ran.stderr


def test_a_file_that_hides_our_package_is_one_line_on_the_command_line(hiding, tmp_path):
    script = tmp_path / "keras-sat"
    script.write_text("from keras_sat.__main__ import main\nmain()\n")
    for words in (["-m", "keras_sat", "info"], [script, "info"]):
        ran = run_in(tmp_path, *words)
        assert ran.returncode == 2 and ran.stdout == ""
        assert ran.stderr.count("\n") == 1 and ran.stderr.startswith("keras-sat: ")
        assert "data_utils" in ran.stderr and "hides the package" in ran.stderr


def test_a_package_without_its_other_half_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "data_utils", None)
    with pytest.raises(ImportError, match="data_utils, which belongs to keras_sat, is missing"):
        reject_other_data_utils()
