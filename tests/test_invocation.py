import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_sat.command_line import invocation
from keras_sat.command_line.arguments import build_parser


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
    assert typed.split()[-1] in build_parser().commands["compare"].format_help()


def test_what_a_real_process_says_can_be_run(tmp_path):
    script = tmp_path / "keras-sat"
    script.write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parents[1])!r})\nimport "
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
