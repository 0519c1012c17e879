"""Boxes of phrases: read from Flickr30k Entities' files and from JSON, and laid over a
grid.
"""

import json

import numpy as np
import pytest

from data_utils import CaptionedImage
from data_utils.datasets.phrase_boxes import (
    Boxes,
    CellBoxes,
    Phrase,
    covered_fraction,
    read_boxes,
)
from data_utils.photos.views import boxes_in_view, part_of_photo, view_of

GIRL = CaptionedImage("12_ab", "12_ab.jpg", ["A dog .", "A girl in a T-shirt holds the kite ."])
SENTENCE = "[/EN#1/people A girl] in [/EN#2/clothing a T-shirt] holds [/EN#3/other/toys the kite] ."
OBJECT = (
    "<object>{names}<bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax>"
    "</bndbox></object>"
)


def write_entities(
    folder, objects, *, size="<width>200</width><height>100</height>", sentences=SENTENCE
):
    for part in ("Annotations", "Sentences"):
        (folder / part).mkdir(exist_ok=True)
    (folder / "Sentences" / "12.txt").write_text(sentences + "\n")
    xml = f"<annotation><size>{size}</size>{''.join(objects)}</annotation>"
    (folder / "Annotations" / "12.xml").write_text(xml)
    return folder


def thing(*sides, names=("1",)):
    return OBJECT.format(*sides, names="".join(f"<name>{name}</name>" for name in names))


def test_flickr30k_entities(tmp_path):
    objects = [
        thing(0, 0, 100, 50),
        thing(100, 50, 200, 100, names=("1", "3")),
        "<object><name>2</name></object>",
    ]
    boxes = read_boxes(write_entities(tmp_path, objects), [GIRL])
    right = (0.5, 0.5, 1.0, 1.0)
    assert boxes.phrases["12_ab"] == [
        Phrase(1, 0, 2, ((0.0, 0.0, 0.5, 0.5), right)),
        Phrase(1, 6, 2, (right,)),
    ]
    assert list(boxes.phrases) == ["12_ab"] and not boxes.unsure


def test_the_json_form(tmp_path):
    phrases = [
        {"phrase": "a t shirt", "first_word": 3, "boxes": [[0.1, 0.2, 0.3, 0.4]]},
        # Cut otherwise by the annotators.
        {"phrase": "the kite", "first_word": 9, "boxes": [[0.5, 0.5, 0.6, 0.7]]},
    ]
    path = tmp_path / "boxes.json"
    path.write_text(
        json.dumps({"12_ab.jpg": {"caption": 1, "size_known": False, "phrases": phrases}})
    )
    with pytest.warns(UserWarning, match="unknown aspect ratio"):
        boxes = read_boxes(path, [GIRL])
    assert boxes.phrases["12_ab"] == [
        Phrase(1, 3, 2, ((0.1, 0.2, 0.3, 0.4),)),
        Phrase(1, 6, 2, ((0.5, 0.5, 0.6, 0.7),)),
    ]
    assert boxes.unsure == {"12_ab"}


def test_phrases_and_boxes_that_do_not_fit_are_counted(tmp_path):
    sentences = f"{SENTENCE}\n[/EN#1/people A woman] sings ."
    objects = [thing(150, 0, 300, 50), thing(300, 0, 400, 50), thing(10, 20, 10, 30, names=("3",))]
    folder = write_entities(tmp_path, objects, sentences=sentences)
    with pytest.warns(UserWarning) as caught:
        boxes = read_boxes(folder, [GIRL, CaptionedImage("14", "14.jpg", ["A cat ."])])
    assert boxes.phrases["12_ab"] == [Phrase(1, 0, 2, ((0.75, 0.0, 1.0, 0.5),))]
    counts = {"phrases that are not in the photo's captions": 1, "boxes outside the photo": 2}
    assert all(
        f"{reason}: {count} (first: " in str(caught[0].message) for reason, count in counts.items()
    )


def with_boxes(*boxes, caption="1"):
    """Return the JSON form of one photo with one phrase."""
    phrase = f'{{"phrase": "a", "first_word": 0, "boxes": [{", ".join(boxes)}]}}'
    return f'{{"12_ab.jpg": {{"caption": {caption}, "phrases": [{phrase}]}}}}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected a folder of Flickr30k Entities"),
        ('{"12_ab.jpg": []}', "phrases with phrase, first_word and boxes"),
        (with_boxes("[1, 2]"), "four"),
        (with_boxes(caption="true"), "four"),
        (with_boxes("[0, 0, 1, 1]", "[0, 0, 90, 50]"), "not pixels"),
        (with_boxes("[0, 0, 1, Infinity]"), "fractions"),
        (with_boxes("[0, 0, 1, 1" + 400 * "0" + "]"), "fractions"),
        (with_boxes(*["[0, 0, 1, 1]"] * 1001), "at most 1000 boxes"),
        ('{"99.jpg": {"caption": 0, "phrases": []}}', "no phrase has boxes for these 1 photos"),
        (with_boxes("[0.5, 0, 0.25, 1]"), "for these 1 photos; boxes outside the photo: 1"),
    ],
)
def test_json_without_boxes(tmp_path, content, message):
    path = tmp_path / "boxes.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_boxes(path, [GIRL])


def test_folders_without_annotations(tmp_path):
    with pytest.raises(ValueError, match="a folder of Flickr30k Entities"):
        read_boxes(tmp_path, [GIRL])
    for objects, size in (
        ([thing(0, 0, "many", 9)], "<width>2</width><height>1</height>"),
        ([thing(0, 0, 9, 9)], ""),
    ):
        folder = write_entities(tmp_path, objects, size=size)
        with pytest.raises(ValueError, match="12.xml: expected an annotation"):
            read_boxes(folder, [GIRL])
    bomb = (
        '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;">]><annotation>&c;</annotation>'
    )
    (folder / "Annotations" / "12.xml").write_text(bomb)
    with pytest.raises(ValueError, match="without declarations"):
        read_boxes(folder, [GIRL])


def test_covered_fraction_agrees_with_points():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.random((5, 2, 2)), axis=1)  # (boxes, first or second corner, x or y)
    boxes = [(x0, y0, x1, y1) for (x0, y0), (x1, y1) in corners]
    points = (np.arange(700) + 0.5) / 700
    inside = np.zeros((700, 700), bool)
    for left, top, right, bottom in boxes:
        inside |= ((top <= points) & (points < bottom))[:, None] & (
            (left <= points) & (points < right)
        )
    expected = inside.reshape(7, 100, 5, 140).mean(axis=(1, 3))
    np.testing.assert_allclose(covered_fraction(boxes, (7, 5)), expected, atol=0.02)
    np.testing.assert_allclose(covered_fraction([], (2, 3)), np.zeros((2, 3)))


@pytest.mark.parametrize("view", range(4))
def test_boxes_follow_a_view(view):
    """A photo that is white in its box and black elsewhere: the view is white where the
    box of the view is.
    """
    photo, box = np.zeros((80, 80, 3), np.uint8), (0.25, 0.1, 0.75, 0.6)
    photo[8:48, 20:60] = 255
    seen = view_of(photo, view, "some photo")[:, :, 0] / 255
    boxes = boxes_in_view([box], view, "some photo")
    np.testing.assert_allclose(
        covered_fraction(boxes, (8, 8)), seen.reshape(8, 10, 8, 10).mean(axis=(1, 3)), atol=0.08
    )
    assert covered_fraction(boxes, (8, 8)).mean() > 0.1
    assert view == 0 or boxes != (box,) or view % 2


def test_a_box_that_a_view_does_not_show_is_left_out():
    left, *_ = part_of_photo(2, "some photo")
    assert left > 0.01
    assert boxes_in_view([(0.0, 0.0, left / 2, 1.0)], 2, "some photo") == ()


def test_boxes_cover_nothing_for_words_without_a_place():
    image = CaptionedImage("1", "1.jpg", ["a dog in front of a house"])
    boxes = Boxes({"1": [Phrase(0, 0, 7, ((0.0, 0.0, 1.0, 1.0),))]})
    covered = CellBoxes(boxes, (1, 2)).covered([(image, 0)], [0], (1, 8))
    assert covered[0].any(axis=-1).tolist() == [False, True, False, True, False, False, True, False]


def test_words_of_other_captions_have_the_same_boxes():
    left, right = ((0.0, 0.0, 0.5, 1.0),), ((0.5, 0.0, 1.0, 1.0),)
    image = CaptionedImage(
        "1", "1.jpg", ["a dog and a cat", "the dog of a man", "a man hits a dog", "man"]
    )
    phrases = [
        Phrase(0, 0, 2, left),
        Phrase(0, 3, 2, right),
        Phrase(1, 3, 2, left),
        Phrase(2, 0, 2, right),
    ]
    boxes = CellBoxes(Boxes({"1": phrases}), (1, 2))
    covered = boxes.covered([(image, n) for n in range(4)], [0] * 4, (4, 6))
    names = [
        {0: "", 1: "left", 2: "right", 3: "both"}[n] for n in (covered @ [1, 2]).astype(int).ravel()
    ]
    assert names[:6] == ["", "left", "", "", "right", ""]
    assert names[6:12] == ["", "left", "", "", "left", ""], (
        "its dog has the box of the first caption's"
    )
    assert names[12:18] == ["", "right", "", "", "left", ""]
    assert names[18:] == [""] * 6, "two phrases disagree where the man is"
