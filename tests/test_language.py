"""One language: words that have a better one in the field (CONTRIBUTING.md has the glossary) do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OUT = r"anew|comes? along|learnt from|manieth|no number|refus(e|ed|es|al)|steady|strangers?|team|thinn(ing|ed)"
TEXTS = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
TEXTS += [path for package in ("keras_sat", "data_utils") for path in (ROOT / package).rglob("*.py")]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_words_that_are_out_stay_out(path):
    text = path.read_text(encoding="utf-8")
    assert [match[0] for match in re.finditer(rf"(?<![\w-])({OUT})(?![\w-])", text, re.IGNORECASE)] == []
