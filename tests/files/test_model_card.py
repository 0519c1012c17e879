"""The tables of the model card are those of the records of the bundled captioners."""

import json
import re
import sys

import pytest
from helpers import ROOT, all_slow_but

from keras_sat import Captioner

sys.path.insert(0, str(ROOT / "docs"))

import make_tables  # noqa: E402

RECORDS = make_tables.records()


def test_the_tables_are_up_to_date():
    for path, tables, figures in make_tables.pages():
        page = path.read_text(encoding="utf-8")
        filled = make_tables.filled(page, tables, figures)
        assert filled == page, "Run: python docs/make_tables.py"
    results = json.loads(make_tables.RESULTS.read_text(encoding="utf-8"))
    assert results["bundled"] == make_tables.on_test(RECORDS), "Run: python docs/make_tables.py"


@pytest.mark.parametrize("name", all_slow_but("flickr8k-paper", RECORDS))
def test_a_record_is_of_the_bundled_weights(name):
    assert RECORDS[name]["weights_digest"] == Captioner.from_pretrained(name).weights_digest()


def test_readme_says_how_often_captions_are_right_as_the_card_does():
    card = " ".join(make_tables.PAGE.read_text(encoding="utf-8").split())
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    percent = re.search(r"On dev, (\d+) % of flickr8k's captions are right", card)[1]
    assert f"On photos of this kind, {percent} % of its captions are right." in readme
    named, total = re.search(
        r"For (\d+) of the (\d+), the caption contains a correct noun", card
    ).groups()
    assert f"On {total} free photos from elsewhere, {named} captions name something" in readme


def test_numbers_are_written_as_on_the_page():
    assert make_tables.percent(0.2634) == "26.3"
    assert make_tables.decimal(0.638) == ".638" and make_tables.decimal(1.0384) == "1.038"
    assert make_tables.row("a", 1) == "| a | 1 |"
