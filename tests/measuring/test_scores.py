import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from data_utils import CaptionedImage, draw_scenes
from data_utils.captions import tokenise
from keras_sat.measuring.bleu_score import bleu, bleu_counts, bleu_of_counts
from keras_sat.measuring.cider_score import cider, cider_of_photos
from keras_sat.measuring.comparison import compare
from keras_sat.measuring.evaluation import evaluate_captions
from keras_sat.measuring.rouge import rouge_l, rouge_l_of_photos
from keras_sat.measuring.scores import SCORES, mean_over_photos, score_in_words, score_titles, shown
from keras_sat.measuring.table import ScoreTable


@pytest.fixture(scope="module")
def scene_captions():
    """References of scenes, and candidates: captions of the scenes before, which share
    many words with them.
    """
    scenes = draw_scenes(60, seed=8)
    return [list(scene.captions[:4]) for scene in scenes], [
        scenes[i - 1].captions[4] for i in range(len(scenes))
    ]


@pytest.fixture(scope="module")
def golden():
    """Captions of all kinds, and what coco-caption says of them:
    tests/golden/make_coco_caption.py.
    """
    return json.loads((Path(__file__).parents[1] / "golden" / "coco_caption.json").read_text())


def test_agrees_with_coco_caption(golden):
    references, candidates = golden["references"], golden["candidates"]
    assert (
        len(candidates) >= 200
        and all(len(captions) == 5 for captions in references)
        and "" in candidates
    )
    scores = {
        **bleu(references, candidates),
        **rouge_l(references, candidates),
        **cider(references, candidates),
    }
    for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"):
        assert scores[name] == pytest.approx(golden["scores"][name], abs=1e-6), name
    for name, of_photos in (("rouge_l", rouge_l_of_photos), ("cider", cider_of_photos)):
        np.testing.assert_allclose(
            of_photos(references, candidates), golden["of_photos"][name], atol=1e-6
        )
    short = bleu(references, [tokenise(candidate)[:-2] for candidate in candidates])
    expected = golden["bleu_without_the_last_two_words"]
    assert short["bleu_4"] < 0.95 * short["bleu_4_no_penalty"], (
        "the brevity penalty is part of the comparison"
    )
    assert [short[f"bleu_{n}"] for n in range(1, 5)] == pytest.approx(expected, abs=1e-6)


def test_bleu_of_parts_is_bleu_of_all(golden):
    references, candidates = golden["references"], golden["candidates"]
    counts = bleu_counts(references, candidates)
    assert bleu_of_counts(counts.sum(axis=0)) == bleu(references, candidates)
    halves = np.stack([counts[:100].sum(axis=0), counts[100:].sum(axis=0)])
    both = bleu_of_counts(halves)
    assert both["bleu_4"][1] == pytest.approx(bleu(references[100:], candidates[100:])["bleu_4"])


def test_rouge_l_by_hand():
    # "a dog runs" is common to both, 3 of 4 words on either side; nothing is common
    # with the other reference.
    value = rouge_l([["a brown dog runs", "cats"]], ["a dog runs fast"])["rouge_l"]
    # Precision and recall are equal, and so is any mean of them.
    assert value == pytest.approx(3 / 4)
    value = rouge_l([["a dog"]], ["a dog runs fast"])["rouge_l"]
    precision, recall = 2 / 4, 2 / 2
    assert value == pytest.approx((1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision))
    best_of_each = rouge_l([["a dog", "a dog runs fast today with cats"]], ["a dog runs fast"])[
        "rouge_l"
    ]
    # Precision from the second reference, recall from the first.
    assert best_of_each == pytest.approx(1.0)


def test_cider_by_hand():
    # Three photos; of the first one's words, "a" stands in all references and weighs
    # nothing, "dog" and the pair "a dog" in one only. A caption equal to its reference
    # has cosine 1 for the n that it has n-grams of.
    references = [["a dog"], ["a cat"], ["a bird sings"]]
    values = cider_of_photos(references, ["a dog", "a cat sleeps", "zebra"])
    assert values[0] == pytest.approx(10 * (1 + 1 + 0 + 0) / 4)
    weight = math.log(3)
    # "sleeps" is in no reference: it weighs log 3
    one = weight**2 / (weight * math.hypot(weight, weight))
    two = weight**2 / (weight * math.hypot(weight, weight))
    assert values[1] == pytest.approx(10 * math.exp(-1 / 72) * (one + two) / 4)
    assert values[2] == 0
    assert cider(references, ["a dog", "a cat sleeps", "zebra"])["cider"] == pytest.approx(
        values.mean()
    )


def test_brevity_penalty_compares_with_the_closest_reference():
    scores = bleu([["a dog runs on the grass today", "a dog runs on"]], ["a dog runs"])
    assert scores["bleu_1_no_penalty"] == pytest.approx(1.0)
    assert scores["bleu_1"] == pytest.approx(math.exp(1 - 4 / 3))


def test_texts_and_words_are_the_same(scene_captions):
    references, candidates = scene_captions
    tokens = (
        [[tokenise(caption) for caption in captions] for captions in references],
        [*map(tokenise, candidates)],
    )
    assert bleu(*tokens) == bleu(references, candidates)
    assert bleu([["A dog, running."]], ["a dog running"])["bleu_3"] == pytest.approx(1.0)


@pytest.mark.parametrize("name", SCORES)
def test_contract(name, scene_captions, quick_meteor):
    references, candidates = scene_captions
    scores = SCORES[name](references, candidates)
    perfect = SCORES[name](references, [captions[0] for captions in references])
    nothing = SCORES[name](references, ["zebra"] * len(references))
    empty = SCORES[name](references, [""] * len(references))
    for key, value in scores.items():
        if key == "meteor_kind":
            continue
        assert nothing[key] < 1e-3 and empty[key] < 1e-3
        assert nothing[key] <= value < perfect[key]
    for bad in ([], ["one"]):
        with pytest.raises(
            ValueError, match="at least one candidate, and a list of references for each"
        ):
            SCORES[name](references, bad)
    with pytest.raises(ValueError, match="list of captions for each photo"):
        SCORES[name](["a dog"], ["a dog"])
    with pytest.raises(ValueError, match="list of captions for each photo"):
        SCORES[name]([[]], ["a dog"])


def test_a_score_is_a_function_and_a_line(monkeypatch, quick_meteor, tmp_path):
    """A score that is added to SCORES is measured, printed, drawn, written, read again
    and compared.
    """

    def of_photos(references, candidates):
        return [len(words) / 10 for words in candidates]

    images = [
        CaptionedImage(str(n), "nowhere.jpg", ["a dog runs", "the dog"], "test") for n in range(4)
    ]
    short, long = (
        [{"image_id": str(n), "caption": caption} for n in range(4)]
        for caption in ("a dog", "a dog runs fast")
    )
    before = evaluate_captions(short, images)
    before.to_json(tmp_path / "before.json")
    monkeypatch.setitem(
        SCORES, "toy", mean_over_photos("toy_length", "Toy", of_photos, unit=1, digits=4)
    )
    assert SCORES["toy"]([["a dog"]], ["a dog runs"]) == {"toy_length": 0.3}
    table = evaluate_captions(short, images, compare_with=["human"])
    assert table.scores == {**before.scores, "toy_length": 0.2}
    heading, these, *_ = str(table).splitlines()
    assert heading.split()[-1] == "Toy" and these.split()[-1] == "0.2000"
    assert table.compare_with["a person"]["toy_length"] == pytest.approx(0.3)
    ticks = table.plot(Figure().subplots()).get_xticklabels()
    assert ticks[-1].get_text() == "Toy"
    table.to_json(tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text())["scores"]["toy_length"] == 0.2
    assert ScoreTable.from_json(tmp_path / "table.json").photos["toy_length"] == [0.2] * 4
    table.to_csv(tmp_path / "table.csv")
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["toy_length"] for row in rows] == ["0.200000"] * 4
    compared = compare(tmp_path / "table.json", evaluate_captions(long, images))
    assert compared.rows["toy_length"]["difference"] == pytest.approx(0.2)
    assert any(
        line.split()[:3] == ["Toy", "0.2000", "0.4000"] for line in str(compared).splitlines()
    )
    older = ScoreTable.from_json(tmp_path / "before.json")  # a file from before the score was added
    assert "different kinds: Toy" in str(compare(older, table)) and "-" in str(older)


def test_the_names_that_programs_read(quick_meteor, tmp_path):
    image = CaptionedImage("a", "nowhere.jpg", ["a dog runs", "the dog"], "test")
    table = evaluate_captions([{"image_id": "a", "caption": "=1+1"}], [image])
    bleu_names = {f"bleu_{n}{ending}" for n in range(1, 5) for ending in ("", "_no_penalty")}
    assert table.scores.keys() >= bleu_names | {"rouge_l", "cider", "meteor", "meteor_kind"}
    assert table.photos.keys() >= {"bleu_counts", "rouge_l", "cider", "meteor"}
    table.to_csv(tmp_path / "photos.csv")
    header, row = (tmp_path / "photos.csv").read_text().splitlines()
    assert header.split(",") == ["image_id", "caption", *score_titles()]
    assert header.startswith("image_id,caption,bleu_1,bleu_2,bleu_3,bleu_4,meteor,rouge_l,cider")
    assert row.startswith("a,'=1+1,0.")  # no formula to a spreadsheet


def test_cider_in_three_digits_and_the_others_in_hundredths():
    assert [shown(name, 0.12345) for name in ("bleu_1", "meteor", "cider")] == [
        "12.3",
        "12.3",
        "0.123",
    ]
    assert shown("meteor", None) == "-" and score_in_words("bleu_4", 0.213) == "BLEU-4 21.3 %"
    assert (
        score_in_words("cider", 0.52) == "CIDEr 0.520"
        and score_in_words("val_loss", 2.0) == "val_loss 2.000"
    )
