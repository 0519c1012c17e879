"""The wheel is complete: an editable install does not notice a file that setup.cfg
forgets.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OFFLINE = ("Could not find a version", "No matching distribution", "Connection")
NO_NETWORK = """
import socket
def reject(*address, **options):
    raise SystemExit(f"somebody asked for the network: {address}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = reject
"""

pytestmark = pytest.mark.slow


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, **options
    )


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """Options of a process that sees the wheel alone, from an empty folder, with no
    network and an empty home.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a copy: a build leaves files behind, which a later one would pack
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".*", "build", "tests", "notebooks", "benchmarks"),
    )
    built = run("-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "wheel", source)
    if built.returncode and any(reason in built.stdout + built.stderr for reason in OFFLINE):
        pytest.skip("pip cannot fetch setuptools, which builds the wheel")
    assert built.returncode == 0, built.stderr
    (wheel,) = (folder / "wheel").glob("*.whl")
    assert wheel.stat().st_size <= 55_000_000
    installed, elsewhere = folder / "installed", folder / "elsewhere"
    ran = run("-m", "pip", "install", "--no-deps", "--target", installed, wheel)
    assert ran.returncode == 0, ran.stderr
    (folder / "hooks").mkdir()
    (folder / "hooks" / "sitecustomize.py").write_text(NO_NETWORK)
    elsewhere.mkdir()
    paths = os.pathsep.join(map(str, (installed, folder / "hooks")))
    return {
        "cwd": elsewhere,
        "env": {**os.environ, "PYTHONPATH": paths, "KERAS_HOME": str(folder / "home")},
    }


def test_the_wheel_alone_captions_a_scene_and_a_photo_without_network(inside):
    ran = run(
        "-c",
        "import data_utils, keras_sat; print(data_utils.__file__, keras_sat.__file__)",
        **inside,
    )
    assert ran.stdout.count(str(inside["cwd"].parent / "installed")) == 2, (
        "the clone would be no proof"
    )
    ran = run(
        "-c", "import socket; socket.create_connection(('192.0.2.1', 9), timeout=1)", **inside
    )
    assert "somebody asked for the network" in ran.stderr, "or the next assertions prove nothing"
    drawings = ["--plot", "where.png", "--html", "where.html", "--gif", "where.gif"]
    drawings += ["--trace", "trace.html"]
    ran = run(
        "-m",
        "keras_sat",
        "caption",
        ROOT / "docs" / "scene.png",
        "--model",
        "scenes",
        *drawings,
        **inside,
    )
    assert ran.returncode == 0, ran.stderr
    assert "circle" in ran.stdout and len(list(inside["cwd"].iterdir())) == 4
    ran = run("-m", "keras_sat", "caption", ROOT / "docs" / "photo.jpg", **inside)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.partition("\t")[2].split()) >= 4


def test_the_wheel_alone_has_the_encoder_of_a_computer_without_a_gpu(inside):
    program = "from keras_sat import ENCODERS; print(ENCODERS['efficientnet_lite0']().output_shape)"
    ran = run("-c", program, **inside)
    assert ran.stdout.strip() == "(None, 7, 7, 1280)", ran.stderr


def test_the_wheel_has_the_licence_of_the_weights(inside):
    installed = inside["cwd"].parent / "installed"
    (packed,) = installed.glob("keras_sat-*.dist-info/**/WEIGHTS_LICENSE.txt")
    (shipped,) = (installed / "keras_sat").rglob("WEIGHTS_LICENSE.txt")
    assert shipped.read_text() == packed.read_text() and "not commercial" in packed.read_text()
    licence = "LICENSE-EfficientNet.txt"
    (packed,) = installed.glob(f"keras_sat-*.dist-info/**/{licence}")
    (weights,) = (installed / "keras_sat").rglob("efficientnet_lite0-*.npz")
    assert (weights.parent / licence).read_text() == packed.read_text()
    assert "Apache License" in packed.read_text()
    ran = run("-m", "keras_sat", "info", **inside)
    assert f"their licence: {shipped}; photo captioners are for non-commercial" in ran.stdout
