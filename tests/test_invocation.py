import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_sat.command_line import invocation
from keras_sat.command_line.arguments import build_parser
from keras_sat.command_line.demo import _conclusion


@pytest.fixture
def started(monkeypatch):
    def start(*words, path=None):
        monkeypatch.setattr(sys, "orig_argv", list(words))
        monkeypatch.setattr(sys, "argv", [w for w in words if w != "-m"][1:])
        if "-m" in words:
            sys.argv[0] = "/somewhere/keras_sat/__main__.py"
        monkeypatch.setattr(invocation.shutil, "which", lambda name: path)

    return start


def test_a_command_is_typed_as_keras_sat_itself_was(started):
    started(".venv/bin/python", "-m", "keras_sat", "demo")
    assert invocation.command("caption", "my photos") == ".venv/bin/python -m keras_sat caption 'my photos'"
    started("/my home/bin/python", "-m", "keras_sat")
    assert invocation.command() == "'/my home/bin/python' -m keras_sat"
    started("/v/bin/python", "/v/bin/keras-sat", "fit", path="/v/bin/keras-sat")
    assert invocation.command("fit", "--help") == "keras-sat fit --help"
    started("/v/bin/python", "/v/bin/keras-sat", "fit", path=None)
    assert invocation.command("fit") == "/v/bin/keras-sat fit"
    started("/v/bin/python", ".venv/bin/keras-sat", "fit", path=os.path.abspath(".venv/bin/keras-sat"))
    assert invocation.command("fit") == ".venv/bin/keras-sat fit"


def test_a_program_that_uses_keras_sat_is_told_its_own_python(started, monkeypatch):
    started("python", "train.py")
    monkeypatch.setattr(sys, "executable", "/v/bin/python")
    assert invocation.started_as() is None and invocation.command("fit") == "/v/bin/python -m keras_sat fit"
    assert build_parser().prog == "keras-sat"


def test_usage_and_the_end_of_the_demo_name_commands_that_can_be_typed(started):
    started("/home/100%/.venv/bin/python", "-m", "keras_sat", "demo")
    commands = build_parser()._command_parsers()[0]
    assert commands["compare"].prog == f"{invocation.started_as()} compare"
    assert f"{invocation.started_as()} evaluate --json" in " ".join(commands["compare"].format_help().split())
    for parser in commands.values():
        parser.format_help()
    numbers = dict.fromkeys([f"bleu_{n}" for n in range(1, 5)], 0.5)
    report = {**numbers, "num_test": 1, "attention": "soft", "train_seconds": 1}
    for name in ("true_captions", "true_captions_two_objects", "attention_mass", "attention_mass_uniform", "pointing"):
        report[name] = 0.5
    caption, demo, _ = [line for line in _conclusion(report, Path("my demo")) if "keras_sat" in line]
    python, *words = shlex.split(caption)
    assert python == sys.orig_argv[0]
    assert words[2:] == ["caption", "my demo/scenes", "--model", "my demo/model", "--num-beams", "5"]
    assert shlex.split(demo)[-2:] == ["--output-dir", "my demo-hard"]


def test_what_a_real_process_says_can_be_run(tmp_path):
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    script = tmp_path / "bin" / "keras-sat"
    script.parent.mkdir()
    script.write_text("from keras_sat.__main__ import main\nmain()\n")
    for start in ([sys.executable, "-m", "keras_sat"], [sys.executable, str(script)]):
        ran = subprocess.run([*start, "fit", "--epoks"], capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert ran.returncode == 2
        advice = ran.stderr.split("`")[1]
        if start[1] == "-m":
            assert shlex.split(advice) == [*start, "fit", "--help"]
        else:
            assert shlex.split(advice) == [str(script), "fit", "--help"]
