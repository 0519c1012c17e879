import csv

import numpy as np
import pytest

from data_utils import CaptionedImage
from keras_sat.measuring.bleu_score import bleu
from keras_sat.measuring.comparison import compare
from keras_sat.measuring.evaluation import evaluate_captions
from keras_sat.measuring.scores import score_titles

pytestmark = pytest.mark.usefixtures("quick_meteor")
WORDS = [
    "a",
    "the",
    "dog",
    "cat",
    "man",
    "runs",
    "sleeps",
    "jumps",
    "on",
    "in",
    "grass",
    "snow",
    "red",
    "white",
    "big",
]


@pytest.fixture(scope="module")
def images():
    choose = np.random.default_rng(2)
    texts = [[" ".join(choose.choice(WORDS, 7)) for _ in range(4)] for _ in range(60)]
    return [
        CaptionedImage(f"photo{number}", "nowhere.jpg", captions, "test")
        for number, captions in enumerate(texts)
    ]


def table_of(images, right, seed=0):
    """The ScoreTable of captions of which a share is a reference, and the rest is about
    another photo.
    """
    choose = np.random.default_rng(seed)
    texts = [
        image.captions[0] if choose.random() < right else images[number - 1].captions[1]
        for number, image in enumerate(images)
    ]
    captions = [{"image_id": image.image_id, "caption": text} for image, text in zip(images, texts)]
    return evaluate_captions(captions, images)


def test_a_captioner_that_is_better(images, tmp_path):
    poor, good = table_of(images, 0.2), table_of(images, 0.8)
    poor.to_json(tmp_path / "poor.json")
    good.to_json(tmp_path / "good.json")
    good.to_json(tmp_path / "\x1b[31m.json")
    assert str(compare(tmp_path / "\x1b[31m.json", poor)).replace("\n", "").isprintable()
    comparison = compare(tmp_path / "poor.json", str(tmp_path / "good.json"))
    for name, row in comparison.rows.items():
        low, high = row["interval"]
        assert row["difference"] == pytest.approx(row["second"][0] - row["first"][0])
        assert low < row["difference"] < high and low > 0, name
    assert comparison.rows["bleu_4"]["second"] == [pytest.approx(good.scores["bleu_4"])]
    assert list(comparison.rows) == [*score_titles()]
    text = str(comparison)
    assert (
        "good.json, seeds: 1" in text
        and "60 photos" in text
        and f"{good.scores['cider']:.3f}" in text
    )


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution(images):
    one, two = table_of(images, 0.3, seed=1), table_of(images, 0.6, seed=2)
    row = compare(one, two, num_resamples=4000).rows["rouge_l"]
    differences = np.array(two.photos["rouge_l"]) - np.array(one.photos["rouge_l"])
    half = 1.96 * differences.std() / len(differences) ** 0.5
    np.testing.assert_allclose(
        row["interval"], [differences.mean() - half, differences.mean() + half], atol=0.1 * half
    )


def test_resampled_bleu_is_bleu_of_the_drawn_photos(images):
    """The counts of photos that were drawn twice count twice: checked with BLEU of that
    very corpus.
    """
    # `compare` draws photos itself, and shows only intervals of many draws.
    from keras_sat.measuring.comparison import _scores_of_draws

    table = table_of(images, 0.5)
    drawn = np.random.default_rng(0).integers(0, len(images), len(images))
    counts = np.bincount(drawn, minlength=len(images))[None]
    texts = [entry["caption"] for entry in table.captions]
    expected = bleu([images[i].captions for i in drawn], [texts[i] for i in drawn])
    assert _scores_of_draws(table.photos, counts)["bleu_4"][0] == pytest.approx(expected["bleu_4"])


def test_several_seeds(images, tmp_path):
    for seed in range(3):
        table_of(images, 0.3, seed).to_json(tmp_path / f"soft-{seed}.json")
    others = [table_of(images, 0.7, seed) for seed in (3, 4)]
    comparison = compare(str(tmp_path / "soft-*.json"), others)
    assert comparison.num_seeds == (3, 2)
    row = comparison.rows["cider"]
    assert row["difference"] == pytest.approx(np.mean(row["second"]) - np.mean(row["first"]))
    low, high = row["interval"]
    assert low < row["difference"] < high
    deviation = np.std(row["first"], ddof=1)
    assert f"{np.mean(row['first']):.3f} ± {deviation:.4f}" in str(comparison)


def test_a_comparison_is_a_table_for_a_paper(images, tmp_path):
    one, two = ([table_of(images, right, seed) for seed in range(3)] for right in (0.7, 0.3))
    comparison = compare(one, two[0])
    comparison.to_csv(tmp_path / "compared.csv")
    rows = list(csv.DictReader((tmp_path / "compared.csv").read_text().splitlines()))
    assert [row["score"] for row in rows] == list(comparison.rows)
    cider = comparison.rows["cider"]
    low, high = cider["interval"]
    deviation = np.std(cider["first"], ddof=1)
    expected = [
        np.mean(cider["first"]),
        deviation,
        *cider["second"],
        cider["difference"],
        low,
        high,
    ]
    (of_cider,) = [row for row in rows if row["score"] == "cider"]
    numbers = [float(text) for name, text in of_cider.items() if name != "score" and text]
    np.testing.assert_allclose(numbers, expected, atol=1e-6)
    assert rows[-1]["second_deviation"] == "", "one seed has no deviation"

    comparison.to_latex(tmp_path / "compared.tex")
    text = (tmp_path / "compared.tex").read_text()
    assert r"{lr@{ $\pm$ }rrrr@{ to }r}" in text and r"{95 \% interval}" in text
    assert "% 60 photos; intervals: bootstrap" in text
    cells = [line.rstrip("\\ ").split(" & ") for line in text.splitlines() if line.endswith(r"\\")]
    heading, *cells = cells
    assert [row[0] for row in cells] == [
        line.split()[0] for line in str(comparison).splitlines()[1 : 1 + len(score_titles())]
    ]
    assert {len(row) for row in cells} == {7}
    for column in range(1, 7):
        ends = {
            len(row[column].replace(r"\phantom{", "").replace("}", "").partition(".")[2])
            for row in cells
        }
        assert len(ends) == 1, "the decimals are below each other"
    (of_cider,) = [row for row in cells if row[0] == "CIDEr"]
    assert of_cider[4].startswith("$-$0.") and of_cider[1] == f"{np.mean(cider['first']):.3f}"


def test_what_cannot_be_compared(images, tmp_path):
    table = table_of(images, 0.5)
    with pytest.raises(ValueError, match="`photos` differs"):
        compare(table, table_of(images[::-1], 0.5))
    from dataclasses import replace

    with pytest.raises(ValueError, match="`split` differs"):
        compare(table, replace(table, settings={**table.settings, "split": "dev"}))
    other = replace(table, scores={**table.scores, "meteor_kind": "METEOR 1.5"})
    assert "meteor" not in compare(table, other).rows and "kinds: METEOR" in str(
        compare(table, other)
    )
    for nothing in ([], str(tmp_path / "*.json")):
        with pytest.raises(ValueError, match="at least one ScoreTable"):
            compare(table, nothing)


def test_the_columns_of_a_comparison_have_the_names_of_the_captioners(images, tmp_path):
    one, two = table_of(images, 0.7, 1), table_of(images, 0.3, 1)
    for name, table in (("no_attention", one), ("soft", two)):
        table.to_json(tmp_path / f"{name}.json")

    def heading(*sources, **options):
        compare(*sources, **options).to_latex(tmp_path / "a.tex")
        return (tmp_path / "a.tex").read_text().split(r"\toprule")[1].split(r"\midrule")[0]

    from_files = heading(tmp_path / "no_attention.json", tmp_path / "soft.json")
    assert r"no\_attention & soft & difference" in from_files
    assert "none & soft & difference" in heading(one, two, names=("none", "soft"))
    assert "first & second & difference" in heading(one, two)
