import csv
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import keras_sat
from data_utils import DATASETS, CaptionedImage, FeatureCache
from keras_sat.measuring import evaluation, scores
from keras_sat.measuring.bleu_score import bleu
from keras_sat.measuring.cider_score import cider
from keras_sat.measuring.evaluation import evaluate_captions
from keras_sat.measuring.published import PUBLISHED
from keras_sat.measuring.rouge import rouge_l
from keras_sat.measuring.table import ScoreTable
from keras_sat.training.callbacks import captions_of

pytestmark = pytest.mark.usefixtures("quick_meteor")


@pytest.fixture(scope="module")
def images():
    return DATASETS["scenes"](None, num_scenes=40, seed=4)


def test_scores_settings_and_captions(whole_training, images, tmp_path):
    _, captioner = whole_training
    table = keras_sat.evaluate(
        captioner, images, split="train", num_beams=2, max_length=8, show_progress=False
    )
    train = [image for image in images if image.split == "train"]
    results = captioner.caption([image.image_path for image in train], num_beams=2, max_length=8)
    assert [entry["caption"] for entry in table.captions] == [result.caption for result in results]
    assert [entry["image_id"] for entry in table.captions] == [image.image_id for image in train]
    references = [image.captions for image in train]
    captions = [result.caption for result in results]
    expected = {
        **bleu(references, captions),
        **rouge_l(references, captions),
        **cider(references, captions),
    }
    assert {name: table.scores[name] for name in expected} == pytest.approx(expected)
    assert table.scores["meteor_kind"] == "for tests"
    assert table.settings["num_beams"] == 2 and table.settings["split"] == "train"
    table.to_json(tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == table.scores
    text = str(table)
    assert (
        f"{100 * table.scores['bleu_1']:.1f}" in text
        and "32 photos" in text
        and "encoder tiny" in text
    )


def test_results_are_kept_where_they_are_asked_for(whole_training, images):
    _, captioner = whole_training
    options = {"split": "dev", "num_beams": 1, "max_length": 8, "show_progress": False}
    table = keras_sat.evaluate(captioner, images, keep_results=True, **options)
    assert [image.image_id for image in table.images] == [
        entry["image_id"] for entry in table.captions
    ]
    assert [result.caption for result in table.results] == [
        entry["caption"] for entry in table.captions
    ]
    assert (
        table.results[0].attention_weights.shape[1:] == (16, 16) and table.results[0].image is None
    )
    without = keras_sat.evaluate(captioner, images, **options)
    assert without == table and without.results == without.images == []


def test_bars_beside_the_rows_of_the_paper(described):
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    plt.switch_backend("agg")
    table = replace(evaluate_captions(entries(), described), settings={"data": "flickr8k"})
    ax = Figure().subplots()
    assert table.plot(ax) is ax
    assert table.plot() is not ax, "without axes, it makes a figure of its own"
    plt.close("all")
    rows = ["these captions", "without brevity penalty", *PUBLISHED["flickr8k"]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == rows
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights[0][:4] == pytest.approx([100 * table.scores[f"bleu_{n}"] for n in range(1, 5)])
    cider_bar = [*scores.score_titles()].index("cider")
    assert heights[0][cider_bar] == pytest.approx(100 * table.scores["cider"])
    assert (
        heights[2][:5] == pytest.approx([67.0, 44.8, 29.9, 19.5, 18.93])
        and np.isnan(heights[2][5:]).all()
    )


def test_only_five_references_count(whole_training, images):
    _, captioner = whole_training
    caption = captioner.caption(images[0].image_path, num_beams=1).caption
    wrong = ["zebra"] * 5
    extra = replace(images[0], captions=[*wrong, caption], split="test")
    table = keras_sat.evaluate(captioner, [extra], num_beams=1, show_progress=False)
    assert table.scores["bleu_1"] < 1e-6


def test_features_of_a_cache_give_the_captions_of_the_photos(whole_training, images, tmp_path):
    _, captioner = whole_training
    ids, pictures = [image.image_id for image in images], [image.image_path for image in images]
    encoder = captioner.encoder_model
    cache = FeatureCache.build(
        tmp_path, ids, pictures, encoder, dtype="float32", show_progress=False
    )
    assert not cache.photos["size"].any()  # pictures in memory have no file
    direct = captions_of(captioner, images, num_beams=1, batch_size=7)
    cached = captions_of(captioner, images, cache, num_beams=1, batch_size=9)
    assert [result.caption for result in direct] == [result.caption for result in cached]
    np.testing.assert_allclose(
        [r.log_prob for r in direct], [r.log_prob for r in cached], atol=1e-4
    )
    drawn = [
        captions_of(captioner, images, temperature=1.0, seed=0, batch_size=size) for size in (7, 40)
    ]
    assert [r.caption for r in drawn[0]] == [r.caption for r in drawn[1]], (
        "each photo has its own chance"
    )


def test_a_folder_of_features_is_opened_and_its_unreadable_photos_are_left_out(
    whole_training, images, tmp_path
):
    _, captioner = whole_training
    photos = []
    for image in images[:3]:
        path = tmp_path / f"{image.image_id}.png"
        Image.fromarray(image.image_path).save(path)
        photos.append(replace(image, image_path=path, split="test"))
    photos[1].image_path.write_bytes(b"no picture")
    ids, paths = [photo.image_id for photo in photos], [photo.image_path for photo in photos]
    folder, encoder = tmp_path / "features", captioner.encoder_model
    with pytest.warns(UserWarning, match="left out: 1 of 3"):
        FeatureCache.build(folder, ids, paths, encoder, errors="skip", show_progress=False)
    options = {"split": "test", "num_beams": 1, "show_progress": False}
    with pytest.warns(UserWarning, match=f"left out: 1 of 3 .*{ids[1]}"):
        cached = keras_sat.evaluate(captioner, photos, cache=folder, **options)
    direct = keras_sat.evaluate(captioner, [photos[0], photos[2]], **options)
    assert cached.captions == direct.captions and len(cached.captions) == 2


CAPTIONS = ["a dog runs", "a dog runs", "two cats", ""]


@pytest.fixture
def described():
    """Four test photos with two captions each, and two training photos."""
    texts = [
        ["A dog runs.", "the dog"],
        ["a man walks", "the man"],
        ["two cats sleep", "cats"],
        ["snow", "white snow"],
    ]
    images = [
        CaptionedImage(f"photo{n}", "nowhere.jpg", captions, "test")
        for n, captions in enumerate(texts)
    ]
    train = [
        CaptionedImage(f"t{number}", "nowhere.jpg", ["Two cats!", "a horse"], "train")
        for number in range(2)
    ]
    return [*images, *train]


def entries(captions=CAPTIONS):
    return [{"image_id": f"photo{number}", "caption": text} for number, text in enumerate(captions)]


def test_captions_of_any_system_are_measured_like_ours(described, tmp_path):
    table = evaluate_captions(entries(), described)
    assert (
        table.scores["bleu_1"]
        == bleu([image.captions for image in described[:4]], CAPTIONS)["bleu_1"]
    )
    assert table.statistics == {
        "photos": 4,
        "distinct_captions": 3,
        "empty_captions": 1,
        "vocabulary_used": 5,
        "seen_in_training": 0.25,
        "unsupported_nouns": 0.5,
        "captions_with_unsupported_nouns": 0.25,
    }
    assert "4 photos, 3 distinct captions, 1 empty captions" in str(table)
    assert "25.0 % of the captions occur in the training split" in str(table)
    for name, write in (("ours.json", table.to_json), ("coco.json", table.to_coco_results)):
        write(tmp_path / name)
        assert evaluate_captions(tmp_path / name, described[::-1]).scores["cider"] == pytest.approx(
            table.scores["cider"]
        ), "the order of photos does not matter"
    again = ScoreTable.from_json(tmp_path / "ours.json")
    assert replace(again, compare_with=table.compare_with) == table


def test_ids_with_endings_and_the_numbers_of_coco(tmp_path):
    image = CaptionedImage(
        "COCO_val2014_000000391895", "nowhere.jpg", ["a man rides", "a man"], "test"
    )
    for image_id in (
        391895,
        "391895",
        "COCO_val2014_000000391895",
        "COCO_val2014_000000391895.jpg",
        "000000391895",
    ):
        table = evaluate_captions([{"image_id": image_id, "caption": "a man"}], [image])
        assert table.captions[0]["image_id"] == image.image_id
    table.to_coco_results(tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text()) == [
        {"image_id": 391895, "caption": "a man"}
    ]


def test_search_options_are_in_the_settings(whole_training, images):
    _, captioner = whole_training
    options = {"split": "train", "show_progress": False, "num_beams": 1}
    short = keras_sat.evaluate(captioner, images[:4], max_length=3, **options)
    assert short.settings["max_length"] == 3 and "max_length 3" in str(short)
    assert "max_length" not in keras_sat.evaluate(captioner, images[:4], **options).settings


def test_scores_of_few_photos_are_told_to_say_little(described):
    few = [image for image in described if image.split == "test"]
    with pytest.warns(UserWarning, match="so few photos .* Received: 4 photos") as told:
        evaluate_captions(entries(), few)
    assert len(told) == 1
    copies = range(evaluation.FEW_PHOTOS)
    many = [replace(few[0], image_id=f"photo{number}") for number in copies]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate_captions(entries(["a dog"] * len(many)), many)


def test_evaluate_says_once_that_its_photos_are_few(whole_training, images):
    _, captioner = whole_training
    options = {"split": "train", "num_beams": 1, "max_length": 3, "show_progress": False}
    with pytest.warns(UserWarning, match="so few photos .* Received: 2 photos") as told:
        keras_sat.evaluate(captioner, images[:2], **options)
    assert len([warning for warning in told if "so few photos" in str(warning.message)]) == 1


def test_a_line_for_each_photo(described, tmp_path):
    evaluate_captions(entries(), described).to_csv(tmp_path / "photos.csv")
    rows = list(csv.DictReader((tmp_path / "photos.csv").read_text().splitlines()))
    assert [row["image_id"] for row in rows] == ["photo0", "photo1", "photo2", "photo3"]
    assert (
        float(rows[0]["bleu_3"]) == pytest.approx(1.0, abs=1e-6) and float(rows[1]["bleu_1"]) > 0.3
    )
    assert float(rows[0]["rouge_l"]) == pytest.approx(1.0)


def test_without_meteor_the_column_stays_empty(described, tmp_path, monkeypatch):
    from keras_sat.measuring import meteor

    monkeypatch.setattr(
        scores, "score_meteor", lambda *_: meteor.Meteor(meteor.NO_METEOR, None, None)
    )
    table = evaluate_captions(entries(), described)
    assert table.scores["meteor"] is None and "nltk.downloader wordnet" in str(table)
    table.to_csv(tmp_path / "photos.csv")
    assert next(csv.DictReader((tmp_path / "photos.csv").read_text().splitlines()))["meteor"] == ""


def test_the_averages_are_a_table_for_a_paper(described, tmp_path):
    table = evaluate_captions(entries(), described, compare_with=["human"])
    rows = {**table.compare_with, "=R&D_100 %": {"cider": 12.3456}}
    table = replace(table, compare_with=rows)
    table.averages_to_csv(tmp_path / "averages.csv")
    these, _, person, theirs = csv.DictReader((tmp_path / "averages.csv").read_text().splitlines())
    assert float(these["bleu_4"]) == pytest.approx(table.scores["bleu_4"], abs=1e-6)
    assert float(person["cider"]) == pytest.approx(rows["a person"]["cider"], abs=1e-6)
    assert theirs["scores_of"] == "'=R&D_100 %" and theirs["bleu_4"] == ""

    table.to_latex(tmp_path / "averages.tex")
    text = (tmp_path / "averages.tex").read_text()
    lines = text.splitlines()
    columns = "r" * len(scores.score_titles())
    assert rf"\begin{{tabular}}{{l{columns}}}" in lines and lines[-1] == r"\end{tabular}"
    assert r" & BLEU-1 & BLEU-2 &".strip() in text and r"=R\&D\_100 \% & -- & --" in text
    cells = [line.rstrip("\\ ").split(" & ") for line in lines if line.startswith("these")]
    shown = [scores.shown(name, table.scores[name]) for name in scores.score_titles()]
    assert cells == [["these captions", *shown]]
    assert "% Human captions have one reference fewer." in lines
    assert any(line.startswith("% ") and "split test" in line for line in lines), "the settings"


def test_rows_of_the_paper_and_of_a_person(described):
    table = evaluate_captions(entries(), described, compare_with=["human"])
    firsts, others = (
        [image.captions[:1] for image in described[:4]],
        [image.captions[1:] for image in described[:4]],
    )
    assert (
        table.compare_with["a person"]["bleu_1"]
        == bleu(others, [captions[0] for captions in firsts])["bleu_1"]
    )
    assert "a person" in str(table)
    with pytest.raises(ValueError, match="The paper has scores for flickr8k, flickr30k, coco."):
        evaluate_captions(entries(), described, compare_with=["paper"])
    with pytest.raises(ValueError, match="at least two per photo: .* Received: 4 photos"):
        single = [replace(image, captions=image.captions[:1]) for image in described]
        evaluate_captions(entries(), single, compare_with=["human"])
    shown = str(replace(table, compare_with=PUBLISHED["flickr8k"]))
    hard = next(line for line in shown.splitlines() if "hard attention" in line)
    values = dict(zip(scores.score_titles(), hard.split()[-len(scores.score_titles()) :]))
    assert [values[f"bleu_{n}"] for n in range(1, 5)] == ["67.0", "45.7", "31.4", "21.3"]
    assert values["meteor"] == "20.3" and values["cider"] == "-"


@pytest.mark.parametrize(
    "captions, message",
    [
        (entries(CAPTIONS[:3]), "no caption for 1 of its 4 photos.*'photo3'"),
        ([*entries(), {"image_id": "else", "caption": "a"}], "1 for other photos .first: 'else'"),
        (
            [*entries(), entries()[0] | {"image_id": "photo0.jpg"}],
            "one caption per photo.*two captions for 'photo0",
        ),
        ([{"image_id": "photo0"}], "a list of objects with image_id and caption"),
        (["a dog"], "a list of objects with image_id and caption"),
        (7, "a list of objects with image_id and caption"),
    ],
)
def test_captions_that_do_not_fit(captions, message, described, tmp_path):
    with pytest.raises(ValueError, match=message):
        evaluate_captions(captions, described)
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    with pytest.raises(ValueError, match=message):
        evaluate_captions(tmp_path / "captions.json", described)


@pytest.mark.parametrize(
    "damage",
    [
        lambda parts: parts.update(scores=3),
        lambda parts: parts["photos"]["cider"].pop(),
        lambda parts: parts["photos"].update(bleu_counts=[1, 2]),
        lambda parts: parts["photos"].update(cider=["x"] * 4),
        lambda parts: parts["photos"].update(cider=[None] * 4),
        lambda parts: parts.update(captions=[1, 2, 3, 4]),
        lambda parts: parts.clear(),
    ],
)
def test_damaged_scores(damage, described, tmp_path):
    evaluate_captions(entries(), described).to_json(tmp_path / "scores.json")
    parts = json.loads((tmp_path / "scores.json").read_text())
    damage(parts)
    (tmp_path / "scores.json").write_text(json.dumps(parts))
    with pytest.raises(ValueError, match="scores.json: expected a JSON object"):
        ScoreTable.from_json(tmp_path / "scores.json")


def test_errors(whole_training, images):
    _, captioner = whole_training
    with pytest.raises(ValueError, match="Expected one of: train, dev, test"):
        keras_sat.evaluate(captioner, images, split="val")
    with pytest.raises(ValueError, match="first argument must be a Captioner"):
        keras_sat.evaluate(images, captioner)


def test_meteor_of_sentences_names_its_kind():
    found = scores.meteor([["A dog runs."]], ["a dog sleeps"])
    assert found == {"meteor": pytest.approx(2 / 4), "meteor_kind": "for tests"}
