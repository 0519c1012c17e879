"""`make docs`: the reference has every public name, and says so without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import data_utils
import keras_sat

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_public_name_and_option_is_in_it(tmp_path):
    pytest.importorskip("pdoc", reason="pdoc is not installed")
    command = [sys.executable, str(ROOT / "docs" / "make_reference.py"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and "Warn" not in result.stderr, result.stderr
    for package in (data_utils, keras_sat):
        page = (tmp_path / f"{package.__name__}.html").read_text(encoding="utf-8")
        assert set(package.__all__) <= set(re.findall(r'id="(\w+)"', page))
    assert all(
        name in page for name in ("attention_penalty_weight", "self_critical_rate", "num_beams")
    )
