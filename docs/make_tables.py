"""Write the tables of docs/model-card.md that say how the bundled photo captioners were
made and how good they are, those of docs/does-it-explain.md, and the test scores of the
bundled captioners, or that they have none, into benchmarks/results.json: `python
docs/make_tables.py`.

The figures are those of keras_sat/files/pretrained/NAME/record.json, which
benchmarks/flickr8k/make_bundled.py wrote, and of benchmarks/explain/explain.json, which
benchmarks/explain/table.py wrote. A table stands between `<!-- table: NAME -->` and
`<!-- end -->`; tests/files/test_model_card.py checks that the pages are up to date.
"""

import re
from pathlib import Path

from data_utils.base import read_json, write_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "model-card.md"
RESULTS = ROOT / "benchmarks" / "results.json"
EXPLAINED_PAGE = ROOT / "docs" / "does-it-explain.md"
EXPLAINED = ROOT / "benchmarks" / "explain" / "explain.json"
NAMES = ("flickr8k", "flickr8k-hard", "flickr8k-paper")
SCORES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider")
TITLES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR 1.5", "ROUGE-L", "CIDEr")
# Settings of a stage that have columns of their own, or are the same in all.
NOT_SHOWN = {"epochs", "consistency_epochs", "self_critical_epochs", "preset", "dtype"}
PHASES = {"words": "of cross-entropy", "rewards": "of rewards"}


def records():
    """Return the records of the captioners that have one, a dict by their names."""
    folder = ROOT / "keras_sat" / "files" / "pretrained"
    paths = {name: folder / name / "record.json" for name in NAMES}
    return {name: read_json(path) for name, path in paths.items() if path.is_file()}


def percent(value):
    """Return a fraction as a percentage without the sign, "26.3"."""
    return f"{100 * value:.1f}"


def decimal(value, digits=3):
    """Return a number below 1 as ".638"."""
    return f"{value:.{digits}f}".removeprefix("0")


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def table(*head):
    return [row(*head), "|" + "---|" * len(head)]


def scores(all_records):
    """The scores on dev, one row for each captioner."""
    lines = table("dev", *TITLES, "distinct captions", "words")
    for name, record in all_records.items():
        values = record["dev"]["scores"]
        shown = [
            decimal(values[score]) if score == "cider" else percent(values[score])
            for score in SCORES
        ]
        statistics = record["dev"]["statistics"]
        counts = (statistics["distinct_captions"], statistics["vocabulary_used"])
        lines.append(row(name, *shown, *counts))
    return lines


def looks(all_records):
    """How much attention is on what a word names, and how often its peak is."""
    lines = table("percent", "mass", "peak", "small: mass", "peak", "own captions: mass", "peak")
    grounding = all_records["flickr8k"]["dev"]["grounding"]
    own = all_records["flickr8k"]["dev"]["grounding_generated"]
    for kind, title in (("uniform_", "uniform"), ("centre_", "maximum in the middle")):
        lines.append(row(title, *_looks_of(grounding, own, kind)))
    for name, record in all_records.items():
        shown = _looks_of(record["dev"]["grounding"], record["dev"]["grounding_generated"])
        lines.append(row(name, *shown))
    return lines


def _looks_of(grounding, own, kind=""):
    parts = (grounding, grounding["small"], own)
    return [percent(part[f"{kind}{figure}"]) for part in parts for figure in ("mass", "pointing")]


def confidence(all_records):
    """The bins of the confidence of flickr8k, by cross-validation on dev."""
    lines = table("confidence", "photos", "mean confidence", "fraction right")
    for found in all_records["flickr8k"]["dev"]["calibration"]["bins"]:
        first, last = (decimal(found["from"] + width, 1) for width in (0, 0.1))
        lines.append(
            row(
                f"{first} to {last}",
                found["photos"],
                decimal(found["confidence"], 2),
                decimal(found["right"], 2),
            )
        )
    return lines


def stages(all_records):
    """How the captioners of an earlier program were trained, one row for each stage."""
    lines = table("stage", "starts from", "epochs", "settings", "CIDEr on dev", "hours")
    seen = {}
    for record in all_records.values():
        seen |= record.get("stages", {})
    for name, stage in seen.items():
        settings = stage["settings"]
        epochs = next(settings[phase] for phase in KINDS if settings.get(phase))
        kind = next(phase for phase in KINDS if settings.get(phase))
        shown = [f"{key}={value}" for key, value in settings.items() if key not in NOT_SHOWN]
        lines.append(
            row(
                name,
                stage["starts_from"] or "ImageNet",
                f"{epochs} {KINDS[kind]}",
                ", ".join(f"`{setting}`" for setting in shown),
                decimal(max(stage["epochs"]["val_cider"])),
                f"{stage['hours']:.1f}",
            )
        )
    return lines


def recipes(all_records):
    """How the captioners were trained, one row for each."""
    lines = table(
        "captioner", "starts from", "settings", "epochs", "CIDEr on dev", "processor hours"
    )
    made = {name: record for name, record in all_records.items() if "made_by" in record}
    for name, record in made.items():
        made_by = record["made_by"][-1]
        settings = [f"`{key}={value}`" for key, value in made_by["training"].items()]
        epochs = [
            (len(curves["val_cider"]), PHASES[phase], decimal(max(curves["val_cider"])))
            for phase, curves in record["epochs"].items()
        ]
        lines.append(
            row(
                name,
                made_by["starts_from"] or "ImageNet",
                ", ".join(settings),
                ", ".join(f"{number} {phase}" for number, phase, _ in epochs),
                ", ".join(cider for _, _, cider in epochs),
                f"{record['processor_hours']:.1f}",
            )
        )
    return lines


KINDS = {
    "epochs": "of cross-entropy",
    "consistency_epochs": "of feature consistency",
    "self_critical_epochs": "of rewards",
}


def explained(grid, measure):
    """Return the function of a table with a row for each method and a column for each
    captioner; a star marks a difference from votes.

    Args:
        grid, measure: the keys of benchmarks/explain/table.py.
    """

    def of_figures(figures):
        of_captioners = [of_captioner[grid] for of_captioner in figures.values()]
        lines = table("", *figures)
        for method in [name for name in of_captioners[0] if name != "words"]:
            cells = []
            for of_methods in of_captioners:
                value, differs = of_methods[method][measure]
                cells.append(f"{value:.2f}" + (r"\*" if differs else ""))
            lines.append(row(method, *cells))
        return [*lines, row("words", *(of_methods["words"] for of_methods in of_captioners))]

    return of_figures


EXPLAINED_TABLES = {
    "fall": explained("everywhere", "fall"),
    "deletion": explained("everywhere", "deletion"),
    "insertion": explained("everywhere", "insertion"),
    "correlation": explained("everywhere", "correlation"),
    "blurred_photo": explained("blurred photo", "fall"),
    "blurred_photo_deletion": explained("blurred photo", "deletion"),
    "step": explained("step", "fall"),
    "blurred_maps": explained("blurred maps", "fall"),
    "mass": explained("boxes", "mass"),
    "other_word": explained("controls", "other word"),
    "random_attention": explained("controls", "random and attention"),
}
TABLES = {
    "scores": scores,
    "looks": looks,
    "confidence": confidence,
    "stages": stages,
    "recipes": recipes,
}


def filled(text, tables, figures):
    """Return the text of a page with its tables filled in.

    Args:
        tables: a dict from names to functions from the figures to lines.
        figures: records, or the figures of methods that explain.
    """

    def fill(match):
        lines = tables[match["name"]](figures)
        return "\n".join([match["start"], *lines, "<!-- end -->"])

    pattern = r"(?P<start><!-- table: (?P<name>\w+) -->)\n.*?<!-- end -->"
    return re.sub(pattern, fill, text, flags=re.DOTALL)


def pages():
    """Return the pages, the functions of their tables, and the figures."""
    return [
        (PAGE, TABLES, records()),
        (EXPLAINED_PAGE, EXPLAINED_TABLES, read_json(EXPLAINED)),
    ]


def on_test(all_records):
    """Return the scores on the test split, None if there are none: a dict by the names
    of the captioners.
    """
    fields = ("weights_digest", "test")
    return {name: {key: record[key] for key in fields} for name, record in all_records.items()}


if __name__ == "__main__":
    write_json(RESULTS, {**read_json(RESULTS), "bundled": on_test(records())})
    for page, tables, figures in pages():
        page.write_text(filled(page.read_text(encoding="utf-8"), tables, figures), encoding="utf-8")
