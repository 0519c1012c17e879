"""The notebooks: how they are built, and a run of the shortest one.

`make notebooks-check` runs them all.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext", reason="the notebooks need the extra `notebooks`")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parents[1] / "notebooks"
STORIES = [
    "00_the_paper_on_two_screens",
    "01_words_and_ids",
    "02_an_image_as_196_vectors",
    "03_one_step_of_attention",
    "04_kinds_of_attention",
    "05_without_attention",
    "06_soft_attention_trained",
    "07_hard_attention",
    "08_words_out",
    "09_how_good_is_it",
    "10_your_own_photos",
    "11_when_to_look",
    "12_point_and_tell",
]
SHORTEST = "01_words_and_ids"  # the only one that needs no TensorFlow
SOURCES = sorted((FOLDER / "src").glob("*.py"))


def cells_of(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@pytest.fixture(params=SOURCES, ids=lambda source: source.stem)
def source(request):
    return request.param


@pytest.fixture
def cells(source):
    return cells_of(jupytext.read(source))


def code(cells):
    return [text for kind, text in cells if kind == "code"]


def test_there_are_the_thirteen_stories():
    assert [source.stem for source in SOURCES] == STORIES
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == STORIES


def test_it_is_small_enough_to_be_shown_by_web_sites(source):
    assert (FOLDER / f"{source.stem}.ipynb").stat().st_size <= 500_000


def test_it_installs_the_package_where_it_is_missing(cells):
    first = code(cells)[0]
    ast.parse(first)  # plain Python, no magic
    assert (
        "keras_sat" in first and "subprocess" in first and re.search(r'"pip",\s*"install"', first)
    )


def test_outside_of_a_clone_it_installs_nothing(cells, tmp_path, monkeypatch):
    """A package of the same name on an index need not be ours."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(ModuleNotFoundError, match="Clone its repository"):
        exec(code(cells)[0], {})
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command))
    (tmp_path / "keras_sat").mkdir()
    exec(code(cells)[0].partition("from data_utils")[0], {})
    assert ran == [[sys.executable, "-m", "pip", "install", "--quiet", str(tmp_path)]]


def test_it_ends_with_assertions(cells):
    kind, last = cells[-1]
    assert kind == "code"
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(last))) >= 3


def test_it_has_exercises_and_links_to_the_next(source, cells):
    text = "\n".join(text for kind, text in cells if kind == "markdown")
    following = [f"{name}.ipynb" for name in STORIES[1:]] + ["README.md"]
    assert "Exercises" in text
    assert f"]({following[STORIES.index(source.stem)]})" in text[text.index("Exercises") :]


def test_the_captioner_for_photos_has_the_scores_of_its_model_card():
    card = (FOLDER.parent / "docs" / "model-card.md").read_text(encoding="utf-8")
    _, _, _, bleu_4, meteor, _, cider = re.search(
        r"^\| this model \| (.*) \|$", card, re.MULTILINE
    )[1].split(" | ")
    story = (FOLDER / "src" / "09_how_good_is_it.py").read_text(encoding="utf-8")
    assert f"the shipped captioner has BLEU-4 {bleu_4} and a person" in story
    assert f"METEOR ({meteor} and" in story and f"CIDEr ({f'{float(cider):.2f}'[1:]} and" in story


def test_its_links_lead_to_files(cells):
    known = {f"{name}.ipynb" for name in STORIES} | {"README.md"}
    links = {
        link
        for kind, text in cells
        if kind == "markdown"
        for link in re.findall(r"\]\(([^)]+)\)", text)
    }
    assert {link for link in links if not link.startswith("http")} <= known


def test_it_is_in_the_table_of_contents(source):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"]({source.stem}.ipynb)" in text
    assert any(source.stem[:2] in notebooks for _, notebooks, _ in concepts())


def test_the_executed_notebook_is_made_from_it(source, cells):
    executed = nbformat.read(FOLDER / f"{source.stem}.ipynb", 4)
    assert cells_of(executed) == cells
    errors = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    assert not errors
    assert any(
        "image/png" in output.get("data", {})
        for cell in executed.cells
        for output in cell.get("outputs", [])
    )


def test_nothing_of_the_machine_that_ran_it_is_in_it(source):
    executed = (FOLDER / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    # Pictures in base64 may contain anything.
    executed = re.sub(r"[A-Za-z0-9+/]{200,}", "", executed)
    assert not re.search(r"/(home|root|Users|work|tmp|mnt|opt|usr|var)/|[A-Z]:\\\\", executed)


def output_of(stem, beginning):
    """Return the text that the code cell with this line in it has printed."""
    executed = nbformat.read(FOLDER / f"{stem}.ipynb", 4)
    (cell,) = [
        cell for cell in executed.cells if cell.cell_type == "code" and beginning in cell.source
    ]
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_the_soft_attention_that_was_trained_speaks():
    said = output_of("06_soft_attention_trained", "captions = {")
    assert said.count("scene ") == 4 and said.count("with penalty:") == said.count("without:") == 4
    assert said.count("(true)") > 4
    word_by_word = output_of("06_soft_attention_trained", "def speak(")
    assert word_by_word.count("<end>") == 2 and len(re.findall(r"\d\.\d%", word_by_word)) > 40


def test_a_real_photo_has_captions():
    said = output_of("10_your_own_photos", "views = {")
    assert said.count(": a ") == 5 and "the lower half: a" in said


@pytest.mark.slow
def test_the_shortest_one_runs():
    command = [sys.executable, FOLDER / "check.py", SHORTEST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed" in done.stdout


def test_the_check_knows_its_notebooks():
    command = [sys.executable, FOLDER / "check.py", "99"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and f"Expected the beginning of one of: {STORIES[0]}" in done.stderr


def concepts():
    """Return (concept, numbers of notebooks, functions) of each row of the table."""
    rows = []
    for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| concept", "|---")):
            concept, _, notebooks, functions = (cell.strip() for cell in line.strip("|").split("|"))
            rows.append((concept, notebooks.split(", "), re.findall(r"`([^`]+)`", functions)))
    return rows


def test_every_concept_has_a_notebook_and_a_function_that_exists():
    rows = concepts()
    numbers = {name[:2] for name in STORIES}
    assert len({concept for concept, _, _ in rows}) == len(rows)
    assert {number for _, notebooks, _ in rows for number in notebooks} == numbers
    for concept, _, functions in rows:
        assert functions, concept
        for name in functions:
            assert found(name) is not None, f"{concept}: there is no {name}"


def found(name):
    """Return the object of a dotted name, or None: the longest part of it that is a
    module is imported.
    """
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            value = getattr(value, part, None)
        return value
    return None
