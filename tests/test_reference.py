"""`make docs`: the reference has every public name, and says so without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import data_utils
import keras_sat

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    pytest.importorskip("pdoc", reason="pdoc is not installed")
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, str(ROOT / "docs" / "make_reference.py"), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and "Warn" not in result.stderr, result.stderr
    return {name: (folder / f"{name}.html").read_text(encoding="utf-8") for name in ("keras_sat", "data_utils")}


@pytest.mark.slow
@pytest.mark.parametrize("package", [data_utils, keras_sat], ids=lambda package: package.__name__)
def test_every_public_name_is_in_it(pages, package):
    listed = set(re.findall(r'id="(\w+)"', pages[package.__name__]))
    assert set(package.__all__) <= listed


@pytest.mark.slow
def test_options_are_listed_with_their_defaults(pages):
    assert all(name in pages["keras_sat"] for name in ("attention_penalty_weight", "self_critical_rate", "num_beams"))
