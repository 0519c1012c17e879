"""Attention held against the boxes of phrases: figures by hand, through `evaluate`, the
command line and `compare`.
"""

import json

import numpy as np
import pytest

import keras_sat
from data_utils import CaptionedImage
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from keras_sat.__main__ import main
from keras_sat.measuring.phrase_grounding import (
    ground_captions,
    ground_phrases,
    grounding_figures,
    grounding_table,
)
from keras_sat.search import CaptionResult

LEFT, CORNER = (0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 0.75, 0.5)
DOG = CaptionedImage("a", "a.jpg", ["a black dog chases the ball", "dogs"])
BOXES = Boxes(
    {"a": [Phrase(0, 0, 3, (LEFT,)), Phrase(0, 4, 2, (CORNER,))], "b": [Phrase(0, 0, 1, (LEFT,))]},
    {"b"},
)
MAPS = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.4, 0.3], [0.2, 0.1]]])


class Reader:
    """A captioner whose maps are chosen: of the words dog and ball, and one cell for
    all others.
    """

    def attend_each(self, images, captions, **options):
        for image, caption in zip(images, captions):
            words = caption.split()
            other = [[1.0, 0.0], [0.0, 0.0]]
            maps = np.array(
                [MAPS[("dog", "ball").index(w)] if w in ("dog", "ball") else other for w in words]
            )
            yield image, CaptionResult(caption, words, 0.0, maps)


def test_figures_by_hand():
    grounding = ground_phrases(Reader(), [DOG, CaptionedImage("b", "b.jpg", ["dog"])], BOXES)
    figures = grounding_figures(grounding)
    # dog: .1 + .3 on the left half, whose cells the peak (bottom right) is not; ball:
    # half of the cell of .3.
    assert figures["num_phrases"] == 2
    assert figures["mass"] == pytest.approx((0.4 + 0.15) / 2) and figures["pointing"] == 0
    assert figures["uniform_mass"] == pytest.approx((0.5 + 0.125) / 2)
    assert figures["uniform_pointing"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    # dog: the cells of .4 and .3 (grown to the box's area) meet one of two; ball: all
    # of .4 and a third of .3.
    ball = (0.5 / 3) / (4 / 3 + 0.5 - 0.5 / 3)
    assert figures["coverage"] == pytest.approx((1 / 3 + ball) / 2)
    assert figures["uniform_coverage"] == pytest.approx((1 / 3 + 0.25 / 2.25) / 2)
    assert figures["small"]["coverage"] == pytest.approx(ball)
    assert figures["small"]["num_phrases"] == 1 and figures["small"]["mass"] == pytest.approx(0.15)
    assert figures["small"]["uniform_mass"] == pytest.approx(0.125)
    assert np.all(grounding[1] == 0)  # of a photo of unsure size nothing is measured


def test_words_of_its_own_captions_are_held_against_all_boxes_of_their_phrases():
    boxes = Boxes(
        {"a": [Phrase(0, 0, 3, (LEFT,)), Phrase(0, 4, 2, (CORNER,)), Phrase(1, 0, 1, (CORNER,))]}
    )
    maps = np.stack([MAPS[0], MAPS[1], MAPS[0]])
    result = CaptionResult("the dog dogs", ["the", "dog", "dogs"], 0.0, maps)
    figures = grounding_figures(ground_captions([result], [DOG], boxes))
    assert figures["num_phrases"] == 2  # "the" is no last content word
    assert figures["mass"] == pytest.approx((0.4 + 0.2 + 0.2 / 2) / 2)
    assert figures["pointing"] == 0.5


def test_boxes_of_a_quarter_of_the_photo_are_not_small():
    quarter = (0.0, 0.0, 0.5, 0.5)
    less = (0.0, 0.0, 0.5, 0.49)
    result = CaptionResult("the dog", ["the", "dog"], 0.0, np.full((2, 4, 4), 1 / 16))
    for box, num_small in ((quarter, 0), (less, 1)):
        boxes = Boxes({"a": [Phrase(0, 0, 3, (box,))]})
        figures = grounding_figures(ground_captions([result], [DOG], boxes))
        assert figures["num_phrases"] == 1 and figures["small"]["num_phrases"] == num_small


def test_nothing_to_measure():
    figures = grounding_figures(np.zeros((3, 2, 10)))
    assert (
        figures["num_phrases"] == 0
        and figures["mass"] is None
        and figures["small"]["pointing"] is None
    )
    assert grounding_table({"captions": figures}).count(" -") == 18


@pytest.fixture
def scenes_with_boxes(scene_images, tmp_path):
    """The scenes of dev, and a JSON file with a box for the first two words of their
    first captions.
    """
    dev = [image for image in scene_images if image.split == "dev"]
    entries = {}
    for image in dev:
        phrase = {
            "phrase": " ".join(image.captions[0].split()[:2]),
            "first_word": 0,
            "boxes": [[0, 0, 0.5, 0.4]],
        }
        entries[f"{image.image_id}.png"] = {"caption": 0, "phrases": [phrase]}
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(entries))
    return dev, path


def test_through_evaluate_files_and_compare(captioner, scenes_with_boxes, tmp_path, quick_meteor):
    dev, path = scenes_with_boxes
    options = {"split": "dev", "num_beams": 1, "show_progress": False}
    table = keras_sat.evaluate(captioner, dev, boxes=path, regions=True, **options)
    assert table.grounding["num_phrases"] > 0 and 0 < table.grounding["mass"] < 1
    assert table.grounding["uniform_mass"] == pytest.approx(0.2)
    assert "attention on the boxes" in str(table)
    table.to_json(tmp_path / "table.json")
    parts = json.loads((tmp_path / "table.json").read_text())
    for damaged in (5, {"mass": 1}, {**parts["grounding"], "small": {}}):
        (tmp_path / "damaged.json").write_text(json.dumps({**parts, "grounding": damaged}))
        with pytest.raises(ValueError, match="written by `keras-sat evaluate --json`"):
            keras_sat.ScoreTable.from_json(tmp_path / "damaged.json")
    again = keras_sat.ScoreTable.from_json(tmp_path / "table.json")
    assert (
        again.regions == table.regions
        and f"{table.regions['num_regions']} regions: noun said " in str(again)
    )
    assert (
        again.grounding == table.grounding
        and again.grounding_generated == table.grounding_generated
    )
    other = keras_sat.ScoreTable.from_json(tmp_path / "table.json")
    other.photos["grounding"] = (2 * np.array(other.photos["grounding"])).tolist()
    other.photos["grounding"] = [
        [[row[0] / 2, row[1], *row[2:]] for row in photo] for photo in other.photos["grounding"]
    ]
    rows = keras_sat.compare(table, other).rows
    assert rows["mass"]["difference"] == pytest.approx(table.grounding["mass"])
    low, high = rows["mass"]["interval"]
    assert low <= rows["mass"]["difference"] <= high
    assert "small: peak" in str(keras_sat.compare(table, other))
    assert rows["coverage"]["first"][0] == pytest.approx(table.grounding["coverage"])
    assert rows["small_coverage"]["first"][0] == pytest.approx(table.grounding["small"]["coverage"])
    other.photos["grounding"][0] = [[0.0] * 10] * 2  # as with other boxes
    assert "mass" not in keras_sat.compare(table, other).rows
    without = keras_sat.evaluate(captioner, dev, **options)
    assert without.grounding is None and "mass" not in keras_sat.compare(table, without).rows


def test_the_command_line_says_what_it_needs(capsys):
    for option in (
        ["--grounding"],
        ["--boxes", "b.json"],
        ["--regions"],
        ["--regions", "--grounding"],
    ):
        assert main(["evaluate", "--data", "flickr8k", *option]) == 2
        assert "Pass --boxes with --grounding or --regions" in capsys.readouterr().err
