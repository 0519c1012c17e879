"""A captioner as ONNX file gives the captions of Python, in a process with numpy,
Pillow and onnxruntime alone.
"""

import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

from data_utils import draw_scenes
from keras_sat import Captioner
from keras_sat.__main__ import main

MISSING = "tf2onnx or onnxruntime is not installed: ONNX files are not tested"
WITHOUT = "import runpy, sys; sys.argv = sys.argv[1:]; sys.modules |= dict.fromkeys({hidden}); "
WITHOUT += "runpy.run_path(sys.argv[0], run_name='__main__')"
OURS = ["tensorflow", "keras", "keras_sat", "data_utils", "ai_edge_litert", "onnx", "tf2onnx"]


def caption_py(folder, *paths, hidden=OURS):
    command = [sys.executable, "-c", WITHOUT.format(hidden=hidden), folder / "caption.py", *paths]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    pytest.importorskip("tf2onnx", reason=MISSING)
    pytest.importorskip("onnxruntime", reason=MISSING)
    folder = tmp_path_factory.mktemp("exports") / "exported"
    assert main(["export", "scenes", str(folder), "--onnx"]) == 0
    return folder / "1"


@pytest.mark.slow
def test_its_captions_are_those_of_the_captioner(exported, tmp_path):
    captioner, paths = Captioner.from_pretrained("scenes"), []
    for number, scene in enumerate(draw_scenes(30, seed=44)):
        paths.append(tmp_path / f"{number:02}.png")
        paths[-1].write_bytes(scene.png())
    expected = captioner.caption(paths, num_beams=3)
    ran = caption_py(exported, *paths)
    assert ran.returncode == 0 and ran.stderr == ""
    same = [
        line == f"{path}\t{result.caption}"
        for line, path, result in zip(ran.stdout.splitlines(), paths, expected)
    ]
    assert len(same) == 30 and sum(same) >= 29
    outputs_of, size, _ = runpy.run_path(str(exported / "caption.py"))["load"]()
    found, best = outputs_of(expected[0].image[None]), expected[0]
    count = len(best.words)
    assert size == (64, 64) and found["num_words"][0] == count
    assert found["log_prob"][0] == pytest.approx(best.log_prob, abs=1e-3)
    np.testing.assert_allclose(
        found["attention_weights"][0, :count], best.attention_weights, atol=1e-3
    )
    np.testing.assert_array_equal(found["attention_weights"][0, count:], 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.onnx", "onnx.json", "the package"])
def test_caption_py_names_what_is_damaged_or_missing(exported, tmp_path, name):
    for path in exported.iterdir():
        if path.is_file():
            content = path.read_bytes()
            (tmp_path / path.name).write_bytes(b"!" + content[1:] if path.name == name else content)
    hidden = [*OURS, "onnxruntime"] if name == "the package" else OURS
    ran = caption_py(tmp_path, "a.png", hidden=hidden)
    expected = "pip install onnxruntime" if name == "the package" else f"{tmp_path}: {name}"
    assert ran.returncode == 1 and expected in ran.stderr and ran.stderr.count("\n") == 1


def test_without_the_converter_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    assert main(["export", "scenes", str(tmp_path / "exported"), "--onnx"]) == 2
    said = capsys.readouterr().err
    assert re.search(
        r"Export to ONNX requires tf2onnx: pip install tf2onnx onnxruntime\.$", said.strip()
    )
    assert list(tmp_path.iterdir()) == []
