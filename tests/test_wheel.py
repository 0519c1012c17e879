"""What is installed is what is needed: an editable install does not notice a file that setup.cfg forgets."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OFFLINE = (
    "Could not find a version that satisfies the requirement setuptools",
    "No matching distribution",
    "Connection",
)


def run(*arguments, **options):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, **options)


@pytest.mark.slow
def test_the_wheel_alone_captions_a_scene_from_elsewhere(tmp_path):
    source = tmp_path / "source"  # a copy: a build leaves files behind, which a later one would pack
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "tests", "notebooks", "benchmarks"))
    built = run("-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path / "wheel", source)
    if built.returncode and any(reason in built.stdout + built.stderr for reason in OFFLINE):
        pytest.skip("pip cannot fetch setuptools, which builds the wheel")
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    ran = run("-m", "pip", "install", "--no-deps", "--target", installed, wheel)
    assert ran.returncode == 0, ran.stderr
    elsewhere.mkdir()
    inside = {"cwd": elsewhere, "env": {**os.environ, "PYTHONPATH": str(installed)}}
    ran = run("-c", "import data_utils, keras_sat; print(data_utils.__file__, keras_sat.__file__)", **inside)
    assert ran.stdout.count(str(installed)) == 2, "the clone would be no proof"
    drawings = ["--plot", "where.png", "--html", "where.html", "--gif", "where.gif"]
    ran = run("-m", "keras_sat", "caption", ROOT / "docs" / "scene.png", "--model", "scenes", *drawings, **inside)
    assert ran.returncode == 0, ran.stderr
    assert "circle" in ran.stdout and len(list(elsewhere.iterdir())) == 3
