"""The tables of the model card are those of the records of the bundled captioners."""

import sys

import pytest
from helpers import ROOT

from keras_sat import Captioner

sys.path.insert(0, str(ROOT / "docs"))

import make_tables  # noqa: E402

RECORDS = make_tables.records()


def test_the_tables_are_up_to_date():
    page = make_tables.PAGE.read_text(encoding="utf-8")
    assert make_tables.filled(page, RECORDS) == page, "Run: python docs/make_tables.py"


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_of_the_bundled_weights(name):
    assert RECORDS[name]["weights_digest"] == Captioner.from_pretrained(name).weights_digest()


def test_numbers_are_written_as_on_the_page():
    assert make_tables.percent(0.2634) == "26.3"
    assert make_tables.decimal(0.638) == ".638" and make_tables.decimal(1.0384) == "1.038"
    assert make_tables.row("a", 1) == "| a | 1 |"
