"""Nouns that no reference supports."""

import pytest

from data_utils import CaptionedImage
from data_utils.nouns import listed_nouns, noun_positions, nouns_supported
from keras_sat import evaluate_captions
from keras_sat.measuring.unsupported_nouns import unsupported_figures


def test_the_list_can_be_read():
    nouns, supporting = listed_nouns()
    assert {"dog", "dogs", "people"} <= nouns and "red" not in nouns
    # Each word supports itself, and those on both sides of "=" each other.
    assert all(word in words for word, words in supporting.items())
    assert "bicycle" in supporting["bike"] and "bike" in supporting["bicycle"]
    # "<" goes one way: whoever sees a poodle sees a dog.
    assert "poodle" in supporting["dog"] and "dog" not in supporting.get("poodle", ())


@pytest.mark.parametrize(
    "noun, reference, expected",
    [
        ("dog", "two dogs run", True),  # singular and plural
        ("dogs", "a dog runs", True),
        ("bike", "a man on a bicycle", True),  # "="
        ("dog", "a poodle sits", True),  # "<"
        ("horse", "a poodle sits", False),
        ("kayak", "people in a boat", True),
        ("dog", "", False),
    ],
)
def test_what_supports_a_noun(noun, reference, expected):
    assert nouns_supported([noun], [["nothing"], reference.split()]) == {0: expected}


def test_figures_of_known_captions():
    references = [[["a", "dog"]], [["a", "man", "in", "snow"]], [["a", "cat"]]]
    candidates = [["a", "dog", "on", "a", "horse"], ["a", "man", "in", "the", "snow"], ["red"]]
    assert noun_positions(candidates[0]) == [1, 4] and noun_positions(["red"]) == []
    assert unsupported_figures(references, candidates) == {
        "unsupported_nouns": 1 / 4,
        "captions_with_unsupported_nouns": 1 / 3,
    }


def test_without_nouns_there_are_no_figures():
    none = {"unsupported_nouns": None, "captions_with_unsupported_nouns": None}
    assert unsupported_figures([[["a", "dog"]]], [["red"]]) == none
    assert unsupported_figures([[["a", "dog"]]], [[]]) == none


def test_scores_of_captions_from_elsewhere_have_them(quick_meteor):
    images = [
        CaptionedImage(f"{number}", f"{number}.jpg", ["a dog runs in the grass"], "test")
        for number in range(2)
    ]
    captions = [{"image_id": "0", "caption": "a dog"}, {"image_id": "1", "caption": "a cat"}]
    with pytest.warns(UserWarning, match="few photos"):
        table = evaluate_captions(captions, images)
    assert (
        table.statistics["unsupported_nouns"] == table.statistics["captions_with_unsupported_nouns"]
    )
    assert "50.0 % of the nouns are in no reference" in str(table)
    assert "50.0 % of the captions have such a noun" in str(table)
