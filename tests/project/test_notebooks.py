"""The notebooks: their frame, what they are made from, and a run of the shortest one.

`make notebooks-check` runs them all.
"""

import ast
import base64
import importlib.resources
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import module_in
from PIL import Image

import data_utils
from data_utils import draw_scenes
from keras_sat import Captioner
from keras_sat.measuring import PUBLISHED

pytest.importorskip("jupytext", reason="the notebooks need the extra `notebooks`")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted((FOLDER / "src").rglob("*.py"))
# Chapters of the course; 5 and 6 wait to become some.
CHAPTERS = [
    "00_look",
    "01_words",
    "02_a_picture_as_vectors",
    "03_one_step_of_attention",
    "04_why_attention",
    "05_build_it_train_it",
    "06_hard_attention",
    "07_words_out",
    "08_how_good_is_it",
]
SHORTEST = "01_words"  # the only one that needs no TensorFlow


def sources_in(folder):
    """Return the sources of the chapters, in "src", or of the rooms, in "rooms"."""
    return [source for source in SOURCES if source.parent.name == folder]


@pytest.fixture(scope="session")
def assemble():
    return module_in([FOLDER], "assemble")


@pytest.fixture(scope="session")
def check():
    return module_in([FOLDER], "check")


@pytest.fixture(params=SOURCES, ids=lambda source: source.stem)
def source(request):
    return request.param


@pytest.fixture(params=CHAPTERS)
def chapter(request):
    return FOLDER / "src" / f"{request.param}.py"


@pytest.fixture(params=[name for name in CHAPTERS if name != "00_look"])  # which has no gaps
def chapter_with_gaps(request):
    return FOLDER / "src" / f"{request.param}.py"


@pytest.fixture(params=sources_in("rooms"), ids=lambda source: source.stem)
def room(request):
    return request.param


def texts_of(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def read(path):
    return nbformat.read(path, 4)


# === Each notebook ===


def test_each_source_has_a_notebook_and_each_notebook_a_source(assemble):
    made = {assemble.target_of(source) for source in SOURCES}
    assert made == set(FOLDER.rglob("*.ipynb"))


def test_it_is_small_enough_to_be_shown_by_web_sites(source, assemble):
    assert assemble.target_of(source).stat().st_size <= 500_000


def test_it_is_made_from_its_source(source, assemble):
    executed = read(assemble.target_of(source))
    made = assemble.assemble(source)

    def content(notebook):
        return [(cell.cell_type, cell.source, cell.get("attachments")) for cell in notebook.cells]

    assert content(executed) == content(made)


def test_it_has_pictures_and_no_errors(source, assemble):
    executed = read(assemble.target_of(source))
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    types = {type_of_output for output in outputs for type_of_output in output.get("data", {})}
    assert types & {"image/png", "image/jpeg"}


def test_nothing_of_the_machine_that_ran_it_is_in_it(source, assemble):
    executed = assemble.target_of(source).read_text(encoding="utf-8")
    # Pictures in base64 may contain anything.
    executed = re.sub(r"[A-Za-z0-9+/]{200,}", "", executed)
    assert not re.search(r"/(home|root|Users|work|tmp|mnt|opt|usr|var)/|[A-Z]:\\\\", executed)


def test_it_ends_with_assertions(source, assemble):
    last = assemble.assemble(source).cells[-1]
    assert last.cell_type == "code"
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(last.source))) >= 3


def test_its_links_lead_to_files(source, assemble):
    folder = assemble.target_of(source).parent
    text = "\n".join(texts_of(assemble.assemble(source)))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [link for link in links if not link.startswith(("http", "attachment:"))]
    assert [link for link in local if not (folder / link).exists()] == []


def test_it_is_in_the_table_of_contents(source, assemble):
    path = assemble.target_of(source).relative_to(FOLDER).as_posix()
    assert f"]({path})" in (FOLDER / "README.md").read_text(encoding="utf-8")


# === The frame of a chapter ===


def test_a_chapter_has_its_frame(chapter, assemble):
    cells = assemble.assemble(chapter).cells
    first = cells[0]
    for words in ("You will be able to", "You need", "on two cores", "attachment:model.png"):
        assert words in first.source
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert text.count("**Predict.**") >= 2
    assert text.count("<summary>What happened</summary>") >= 2
    assert text.count("<summary>Solution</summary>") >= 2
    assert "## In five sentences" in text
    assert "https://" in text[text.index("## Next") :]
    assert cells[-1].source.startswith("# @title For maintainers")
    assert cells[-1].metadata.jupyter.source_hidden


def test_a_room_has_its_frame(room, assemble):
    cells = assemble.assemble(room).cells
    for words in ("You will be able to", "You need", "on two cores"):
        assert words in cells[0].source
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "## In five sentences" in text or "## In short" in text
    assert "https://" in text[text.index("## Next") :]
    assert cells[-1].source.startswith("# @title For maintainers")


def test_no_figure_of_a_room_has_tiny_text(room):
    sizes = re.findall(r"fontsize=(\d+)", room.read_text(encoding="utf-8"))
    assert all(int(size) >= 8 for size in sizes)


def test_a_chapter_installs_nothing_while_the_project_has_no_address(chapter, assemble):
    cells = assemble.assemble(chapter, address=None).cells
    assert not any("pip install" in cell.source or "colab" in cell.source for cell in cells)


def test_a_chapter_installs_the_package_once_there_is_an_address(assemble):
    source = FOLDER / "src" / f"{SHORTEST}.py"
    notebook = assemble.assemble(source, address="https://github.com/somebody/keras_sat")
    assert notebook.cells[1].source == (
        "%pip install --quiet git+https://github.com/somebody/keras_sat"
    )
    assert (
        "(https://colab.research.google.com/github/somebody/keras_sat/blob/main/notebooks/"
        f"{SHORTEST}.ipynb)" in notebook.cells[0].source
    )


# === Gaps ===

A_SOURCE = """\
# %% gap="twice"
def twice(x):
    return ...  # your turn

# %% check="twice" empty="twice(1)"
assert twice(2) == 4

# %% [markdown]
# [solution 1]
"""
ITS_SOLUTIONS = """\
# %% gap="twice"
def twice(x):
    return 2 * x

# %% wrong="twice"
def twice(x):
    return x + 1

# %% exercise=1
print(twice(21))
"""


@pytest.fixture
def small_source(assemble, tmp_path, monkeypatch):
    """A source with a gap and its solutions, in a folder of its own."""
    monkeypatch.setattr(assemble, "FOLDER", tmp_path)
    for folder, text in (("src", A_SOURCE), ("solutions", ITS_SOLUTIONS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "09_small.py").write_text(text, encoding="utf-8")
    return tmp_path / "src" / "09_small.py"


def after_check(notebook, gap):
    """Fill the gap with this code, run the check, and return the names it leaves."""
    names = {}
    exec(gap, names)
    exec(notebook.cells[1].source, names)
    return names


def test_an_empty_gap_goes_on_with_the_solution(small_source, assemble, capsys):
    notebook = assemble.assemble(small_source, address=None)
    names = after_check(notebook, notebook.cells[0].source)
    assert names["twice"](2) == 4
    assert "Not yet" in capsys.readouterr().out


def test_a_filled_gap_is_checked_and_kept(small_source, assemble, capsys):
    notebook = assemble.assemble(small_source, address=None)
    names = after_check(notebook, "def twice(x):\n    return x + x\nmine = twice")
    assert names["twice"] is names["mine"]
    assert capsys.readouterr().out == f"{assemble.RIGHT}\n"
    with pytest.raises(AssertionError):
        after_check(notebook, "def twice(x):\n    return x + 1")


def test_solutions_are_in_the_notebook_folded(small_source, assemble):
    _, check, exercise = assemble.assemble(small_source, address=None).cells
    assert "return 2 * x" in check.source
    assert check.metadata.jupyter.source_hidden
    assert exercise.source.startswith("<details>")
    assert "print(twice(21))" in exercise.source


def answered(trial, answers):
    """Return a trial as if it had been run. `answers` has what marked cells print."""
    for cell in trial.cells:
        (answer,) = [answers[mark] for mark in answers if mark in cell.metadata] or [""]
        cell.outputs = [nbformat.v4.new_output("stream", text=answer)]
    return trial


def test_a_trial_leaves_a_gap_empty_then_fills_it_with_each_mistake_and_the_solution(
    small_source, assemble
):
    solutions = small_source.parents[1] / "solutions" / small_source.name
    another = '# %% wrong="twice"\ndef twice(x):\n    return 4\n'
    solutions.write_text(f"{ITS_SOLUTIONS}\n{another}", encoding="utf-8")
    cells = assemble.trial(small_source).cells
    contents = ["# your turn", "x + 1", "return 4", "2 * x"]
    gaps, checks = cells[0:8:2], cells[1:8:2]
    assert all(content in gap.source for content, gap in zip(contents, gaps, strict=True))
    marks = ["empty", "wrong", "wrong", "solved"]
    assert all(mark in check.metadata for mark, check in zip(marks, checks, strict=True))
    assert cells[-1].source == "print(twice(21))"


def test_the_trial_notices_a_check_that_lets_mistakes_pass(small_source, assemble):
    answers = {"empty": assemble.NOT_YET, "solved": assemble.RIGHT}  # the mistake raises nothing
    (problem,) = assemble.problems_of_trial(answered(assemble.trial(small_source), answers))
    assert "did not notice a mistake" in problem


def test_the_trial_notices_a_check_that_does_not_fill_an_empty_gap(small_source, assemble):
    trial = answered(assemble.trial(small_source), {"solved": assemble.RIGHT})
    assert "does not fill the empty gap" in assemble.problems_of_trial(trial)[0]


def test_the_hint_of_a_check_is_its_own_sentence(source, assemble):
    """That of np.testing is fifteen lines long."""
    checks = [cell for cell in assemble.read_cells(source) if "check" in cell.metadata]
    assert not [cell.source for cell in checks if "np.testing" in cell.source]


def test_a_chapter_has_gaps(chapter_with_gaps, assemble):
    assert any("gap" in cell.metadata for cell in assemble.read_cells(chapter_with_gaps))


def test_each_gap_has_a_check_a_solution_and_a_mistake(source, assemble):
    cells = assemble.read_cells(source)
    solutions = assemble.read_solutions(source)
    for cell in [cell for cell in cells if "gap" in cell.metadata]:
        name = cell.metadata["gap"]
        following = cells[cells.index(cell) + 1]
        assert assemble.YOUR_TURN in cell.source
        assert following.metadata["check"] == name
        assert ("gap", name) in solutions
        assert ("wrong", name) in solutions


# === Pictures ===


def picture_of(pixels):
    """Return pixels (rows, columns, 3) as a PNG in base64."""
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format="png")
    return base64.b64encode(content.getvalue()).decode("ascii")


def test_large_pictures_get_a_palette_and_small_ones_stay(check):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype="uint8")
    large, small = picture_of(noise), picture_of(noise[:20, :20])
    assert len(check.with_palette(large)) < 0.5 * len(large)
    assert check.with_palette(small) == small


def test_a_cell_may_be_stored_as_jpeg_and_without_html(check):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype="uint8")
    picture = picture_of(noise)
    data = {"image/png": picture, "text/plain": "a figure"}
    check.make_smaller(data, stored="JPEG")
    jpeg = base64.b64decode(data["image/jpeg"])
    assert set(data) == {"image/jpeg", "text/plain"}
    assert Image.open(io.BytesIO(jpeg)).format == "JPEG"
    assert len(data["image/jpeg"]) < len(picture)

    data = {"text/html": "<iframe></iframe>", "text/plain": "a trace"}
    check.make_smaller(data, stored="without HTML")
    assert data == {"text/plain": "a trace"}


def test_the_mark_of_what_is_stored_is_kept(small_source, assemble):
    text = small_source.read_text(encoding="utf-8")
    small_source.write_text(f'{text}\n# %% stored="JPEG"\n1 + 1\n', encoding="utf-8")
    notebook = assemble.assemble(small_source, address=None)
    assert notebook.cells[-1].metadata == {"stored": "JPEG"}


# === What single notebooks say ===


def test_the_first_chapter_shows_a_photo_with_its_explorer_in_its_second_cell(assemble):
    second, _, figure = assemble.assemble(FOLDER / "src" / "00_look.py", address=None).cells[1:4]
    assert "hat.jpg" in second.source and second.source.endswith("\nhat")
    assert second.metadata.stored == "without HTML"  # a website shows the figure instead
    assert figure.source.startswith("hat.plot(")
    stored = read(FOLDER / "00_look.ipynb").cells
    assert [set(output.data) for output in stored[1].outputs] == [{"text/plain"}]
    assert "image/jpeg" in stored[3].outputs[0].data


def test_the_first_chapter_says_which_captions_are_wrong():
    text = "\n".join(texts_of(read(FOLDER / "00_look.ipynb")))
    for words in (
        "Beach: only one word is **wrong**",
        "Motorcycles: two things are **wrong**",
        "Cat: two words are **wrong**",
        "above this figure is wrong",
    ):
        assert words in text


def output_of(stem, beginning):
    """Return the text that the code cell with this line in it has printed."""
    executed = read(FOLDER / f"{stem}.ipynb")
    (cell,) = [
        cell for cell in executed.cells if cell.cell_type == "code" and beginning in cell.source
    ]
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_person_and_captioner_have_the_scores_of_the_model_card_against_as_many_references():
    card = (FOLDER.parent / "docs" / "model-card.md").read_text(encoding="utf-8")
    row = re.search(r"^\| flickr8k \| (.*) \|$", card, re.MULTILINE)[1]
    of_five = row.split(" | ")[3]
    scores = r"a BLEU-4 of (\S+), a METEOR of (\S+) and a CIDEr of \.(\d\d)"
    person, captioner = re.findall(scores, " ".join(card.split()))
    text = " ".join("\n".join(texts_of(read(FOLDER / "08_how_good_is_it.ipynb"))).split())
    assert f"has a BLEU-4 of {captioner[0]}, and a person has {person[0]}" in text
    assert f"METEOR ({captioner[1]} against {person[1]})" in text
    assert f"CIDEr (.{captioner[2]} against .{person[2]})" in text
    assert f"Against all five references, the captioner has a BLEU-4 of {of_five}" in text


def test_the_reader_s_own_model_speaks():
    """One true caption word by word, and a false one."""
    said = output_of("05_build_it_train_it", "for p in probabilities:")
    assert said.startswith("true:\n") and said.count("false:\n") == 1
    assert said.count("<end> 100.0%") == 2
    assert len(re.findall(r"\d\.\d%", said)) > 40


def test_the_hard_attention_that_was_trained_is_nearly_as_true_as_soft_attention():
    table = output_of("06_hard_attention", "def scatter(")
    soft, hard = (int(n) for n in re.search(r"with expectation +(\d+)% +(\d+)%", table).groups())
    soft_drawn, hard_drawn = (
        int(n) for n in re.search(r"with draws +(\d+)% +(\d+)%", table).groups()
    )
    assert soft > 86 and hard > max(86, soft - 8)  # percent
    assert hard_drawn > soft_drawn + 15
    longer = (FOLDER.parent / "docs" / "training.md").read_text(encoding="utf-8")
    assert re.search(r"\| soft \| \S+ % \| 93.6 %", longer)  # as the chapter quotes it
    assert re.search(r"\| hard \| \S+ % \| 92.5 %", longer)


def test_the_papers_table_says_of_hard_attention_what_its_chapter_says():
    pairs = [list(rows.values()) for rows in PUBLISHED.values()]  # soft, hard on each data set
    assert all(hard["bleu_4_no_penalty"] > soft["bleu_4_no_penalty"] for soft, hard in pairs)
    assert sum(hard["meteor"] < soft["meteor"] for soft, hard in pairs) == 2
    text = " ".join("\n".join(texts_of(read(FOLDER / "06_hard_attention.ipynb"))).split())
    said = "ahead of soft attention in BLEU-4 on all three data sets, and behind in METEOR on two"
    assert said in text


def test_chapter_4_has_the_scores_on_photos_of_the_page_of_results():
    text = " ".join("\n".join(texts_of(read(FOLDER / "04_why_attention.ipynb"))).split())
    page = (FOLDER.parent / "docs" / "results.md").read_text(encoding="utf-8")
    for attention in ("soft", "none"):
        _, bleu_4, meteor, _, cider = re.search(
            rf"^\| {attention} \| (.* ± .*) \|$", page, re.MULTILINE
        )[1].split(" | ")
        assert f"| {attention} | {bleu_4} | {meteor} | {cider} |" in text
    for interval in ("-0.7 to +1.2", "+0.2 to +1.2", "+.007 to +.056"):
        assert interval in text and interval in page.replace("\n", " ")


def test_a_real_photo_has_captions():
    said = output_of("rooms/your_own_photos_and_flickr8k", "views = {")
    assert said.count(": a ") == 5 and "the lower half: a" in said


# === Running ===


def test_chapters_run_in_order_in_one_folder_and_rooms_beside_them_in_a_folder_within_it(
    check, monkeypatch
):
    runs, meeting = [], threading.Barrier(2, timeout=60)

    def trial(source, folder):
        runs.append((source, folder))
        if source in (chapters[0], rooms[0]):
            meeting.wait()
        return None, "1 s"

    monkeypatch.setattr(check, "trial", trial)
    chapters, rooms = sources_in("src"), sources_in("rooms")
    outcomes = list(check.outcomes([*chapters, *rooms], write=False))
    assert sorted(outcomes) == sorted((source, None, "1 s") for source, _ in runs)
    assert [source for source, _ in runs if source in chapters] == chapters
    assert sorted(source for source, _ in runs if source in rooms) == sorted(rooms)
    (of_chapters,) = {folder for source, folder in runs if source in chapters}
    (of_rooms,) = {folder for source, folder in runs if source in rooms}
    assert of_rooms == of_chapters / "rooms"


def test_notebooks_are_written_one_at_a_time(check, monkeypatch):
    written = []
    monkeypatch.setattr(check, "writing", lambda source: (written.append(source), (None, "1 s"))[1])
    chosen = [*sources_in("src"), *sources_in("rooms")]
    assert [source for source, *_ in check.outcomes(chosen, write=True)] == written == chosen


def test_a_kernel_that_dies_is_a_problem_of_its_notebook_alone(check, monkeypatch, capsys):
    def trial(source, folder):
        if source.stem == SHORTEST:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return None, "1 s"

    monkeypatch.setattr(check, "trial", trial)
    monkeypatch.setattr(sys, "argv", ["check.py", "00", "01", "02"])
    assert check.main() == 1
    assert "Kernel died before replying" in (printed := capsys.readouterr().out)
    assert "02_a_picture_as_vectors.py: runs, 1 s\n2 passed, 1 failed\n" in printed


@pytest.mark.slow
def test_the_shortest_one_runs():
    command = [sys.executable, FOLDER / "check.py", SHORTEST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed" in done.stdout and not done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX does")
def test_it_can_be_stopped_and_so_are_the_notebooks_that_run(tmp_path):
    psutil = pytest.importorskip("psutil", reason="it comes with Jupyter")
    command = [sys.executable, FOLDER / "check.py", "02", "point"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as stopped:
        while len(kernels := psutil.Process(stopped.pid).children()) < 2:
            with pytest.raises(subprocess.TimeoutExpired):
                stopped.wait(0.1)
        stopped.terminate()  # handled as Ctrl-C, which what runs in the background ignores
        output, errors = stopped.communicate(timeout=300)
    assert (stopped.returncode, output) == (1, "") and errors.startswith("stopped\n")
    assert not any(kernel.is_running() for kernel in kernels)
    assert not [*tmp_path.glob("*/rooms")], "the folder of the chapters is cleared away"


@pytest.mark.parametrize("folder", ["src", "rooms"])
def test_notebooks_in_one_folder_can_build_their_feature_caches_in_reverse_order(
    folder, assemble, tmp_path, monkeypatch
):
    """In order, `make notebooks-check` builds them."""
    captioner = Captioner.from_pretrained("scenes")
    names = {name: getattr(data_utils, name) for name in data_utils.__all__}
    names |= {"np": np, "tf": tf, "keras": keras, "layers": keras.layers}
    names |= dict.fromkeys(("trained", "bundled", "scenes_captioner"), captioner)
    names |= {"vocabulary": captioner.vocabulary, "Captioner": Captioner, "Path": Path}
    names |= {"files": importlib.resources.files}
    names["draw_scenes"] = lambda number, **options: draw_scenes(number // 100, **options)
    monkeypatch.chdir(tmp_path)
    built = []
    for source in reversed(sources_in(folder)):
        for cell in assemble.read_cells(source):
            if re.search(r'FeatureCache\.build\((folder|"\w+"),', cell.source):
                until_training, *_ = cell.source.split("\ndef train(")
                exec(until_training, dict(names))
                built.append(source.stem)
    assert len(built) == 3
    assert len([*tmp_path.glob("*/manifest.json")]) >= 3


def test_the_check_knows_its_notebooks():
    command = [sys.executable, FOLDER / "check.py", "99"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"Expected the beginning of one of: {SOURCES[0].stem}" in done.stderr


# === README.md ===


def rows_under(heading):
    """Return the cells of the first table under a heading, without its head."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    section = text[text.index(f"\n## {heading}") + 1 :].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def text_with_number(number):
    """Return all that the notebooks with this number, or the room with this name, say
    and print, in one line.
    """
    parts = []
    for path in sorted(FOLDER.rglob(f"{number}*.ipynb")):
        for cell in read(path).cells:
            parts.append(cell.source)
            parts += [output.get("text", "") for output in cell.get("outputs", [])]
    return " ".join(" ".join(parts).split())


def test_each_question_is_answered_where_the_table_says():
    questions = rows_under("Questions")
    assert len(questions) >= 30
    for _, question, number, answer in questions:
        assert answer in text_with_number(number), f"{question} {number}: {answer}"


def concepts():
    """Return (concept, notebooks, functions) of each row of the index.

    A chapter goes by its number, and a room by its name.
    """
    return [
        (concept, notebooks.split(", "), re.findall(r"`([^`]+)`", functions))
        for concept, _, notebooks, functions in rows_under("Where each idea is")
    ]


def test_every_concept_has_a_notebook_and_a_function_that_exists():
    rows = concepts()
    assert len({concept for concept, _, _ in rows}) == len(rows)
    named = {name for _, notebooks, _ in rows for name in notebooks}
    chapters = {source.stem[:2] for source in sources_in("src")}
    rooms = {source.stem for source in sources_in("rooms")}
    assert chapters <= named <= chapters | rooms
    for concept, _, functions in rows:
        assert functions, concept
        for name in functions:
            assert found(name) is not None, f"{concept}: there is no {name}"


def test_the_word_of_each_concept_is_in_its_first_notebook():
    """The word in question is set in bold."""
    for concept, notebooks, _ in concepts():
        (word,) = re.findall(r"\*\*([^*]+)\*\*", concept)
        word = word.strip("`").lower()
        assert word in text_with_number(notebooks[0]).lower(), f"{concept}: {notebooks[0]}"


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
