"""The commands and the Python of docs/ run as they stand, and print what the pages
show, on few scenes.
"""

import re
import shlex
import shutil
import warnings
from pathlib import Path

import pytest
from helpers import ROOT, fences, mean_colour_encoder, python_blocks

import data_utils
import keras_sat
from data_utils import DATASETS, FeatureCache
from keras_sat.__main__ import main

DOCS = ROOT / "docs"
pytestmark = pytest.mark.slow


@pytest.fixture
def few_scenes(in_empty_folder, monkeypatch):
    """A folder with the photos that the pages name; the scenes are 100 instead of
    2,000.
    """
    draw = DATASETS["scenes"]
    monkeypatch.setitem(DATASETS, "scenes", lambda folder: draw(folder, num_scenes=100))
    shutil.copytree(DOCS, "docs")
    shutil.copy(DOCS / "photo.jpg", ".")
    # The command line sets its own.
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


def outputs(name):
    """Return (commands, printed lines) for each block of commands of a page that is
    followed by its output.
    """
    page = (DOCS / name).read_text(encoding="utf-8")
    lines = r"((?:(?!```).*\n)+)```"
    pairs = re.findall(f"^```bash\n{lines}\n\n```text\n{lines}", page, re.MULTILINE)
    return [(commands.splitlines(), printed.splitlines()) for commands, printed in pairs]


def printed_by(commands, capsys):
    """Run commands of ours, and return the lines that they print."""
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "keras-sat"
        if "--faithfulness" in arguments:
            arguments += ["--pixel-photos", "2"]
        assert not main(arguments)
    printed = capsys.readouterr()
    return (printed.out + printed.err).splitlines()


def form(line):
    """Return a line without what depends on the machine and on the number of scenes."""
    line = re.sub(r"[+-]?\d[\d.,:]*", "0", line)
    return re.sub(r"\s+", " ", re.sub(r"^METEOR: .*", "METEOR", line))


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
@pytest.mark.parametrize("page", ["evaluation.md", "command-line.md"])
def test_commands_print_lines_as_the_page_shows_them(page, capsys):
    shown = outputs(page)
    assert shown
    for commands, promised in shown:
        lines = {form(line) for line in printed_by(commands, capsys)}
        assert {form(line) for line in promised} <= lines


@pytest.mark.usefixtures("few_scenes")
def test_what_info_prints(capsys):
    ((commands, promised),) = outputs("troubleshooting.md")
    begins = {line.split()[0] for line in printed_by(commands, capsys)}
    assert {line.split()[0] for line in promised} <= begins


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
def test_training_on_scenes_prints_its_epochs(capsys):
    (commands, promised), *_ = outputs("training.md")
    lines = printed_by(commands, capsys)
    assert promised[0] in lines and promised[0].startswith("captioner: ")
    for start in ("epoch 1/2: loss ", "    scene-0-", "epoch 2/2: loss "):
        assert any(line.startswith(start) for line in promised)
        assert any(line.startswith(start) for line in lines)
    assert Path("runs/scenes/model/config.json").is_file()


def run_blocks(name, *wanted, smaller=()):
    """Run the blocks of a page that contain one of these texts (all, if there is none),
    one after the other, and return their names.

    `smaller` maps texts of the blocks to those that a test has time for.
    """
    names = {}
    for block in python_blocks(DOCS / name):
        if wanted and not any(text in block for text in wanted):
            continue
        for text, smaller_text in dict(smaller).items():
            block = block.replace(text, smaller_text)
        exec(compile(block, name, "exec"), names)
    return names


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
def test_the_python_of_evaluation(capsys):
    names = run_blocks("evaluation.md")
    assert names["soft"].scores["cider"] > names["without"].scores["cider"]
    assert Path("soft.json").is_file() and Path("soft.csv").is_file()
    assert "CIDEr" in capsys.readouterr().out


@pytest.mark.usefixtures("few_scenes")
def test_the_python_of_pictures(capsys):
    names = run_blocks("pictures.md")
    for file in ("where.pdf", "where.html", "where.gif", "trace.html"):
        assert Path(file).stat().st_size > 5000
    assert names["voted"].votes.shape == names["voted"].attention_weights.shape
    assert str(names["read"].attention_weights.shape) in capsys.readouterr().out


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
def test_the_python_of_training(capsys):
    smaller = {"epochs=2": "epochs=1, embedding_dim=16, hidden_dim=16, attention_dim=16"}
    names = run_blocks("training.md", "keras_sat.fit(", "captioner.keras", smaller=smaller)
    assert list(Path("runs/logged/logs").glob("*.pictures"))
    assert re.search(r"^1 [\d.]+$", capsys.readouterr().out, re.MULTILINE)
    assert names["again"].weights_digest() == names["captioner"].weights_digest()


@pytest.mark.usefixtures("few_scenes")
def test_the_python_of_troubleshooting(capsys):
    images = DATASETS["scenes"]("scenes")[:8]
    FeatureCache.build(
        "features/vgg16",
        [image.image_id for image in images],
        [image.image_path for image in images],
        mean_colour_encoder,
        image_size=64,
        show_progress=False,
    )
    run_blocks("troubleshooting.md", "attention_weights", "FeatureCache.open(")
    spread_of_maps, *peaks, spread_of_features = capsys.readouterr().out.splitlines()
    assert float(spread_of_maps) > 0 and float(spread_of_features) > 0
    assert peaks[0].startswith("[0.")


@pytest.mark.usefixtures("few_scenes")
def test_the_ensemble_of_results():
    names = run_blocks("results.md")
    assert len(names["names"]) == 2 and isinstance(names["ensemble"], keras_sat.Ensemble)


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
def test_the_python_of_distribution():
    smaller = {"epochs=20": "epochs=1", "epochs=2": "epochs=1, hidden_dim=16, embedding_dim=16"}
    names = run_blocks("distribution.md", "distribute.MirroredStrategy()", smaller=smaller)
    assert names["captioner"].built
    assert Path("runs/scenes-tiny-soft/model/config.json").is_file()


@pytest.mark.usefixtures("few_scenes")
def test_the_captioner_without_tensorflow_of_export(monkeypatch):
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr("keras_sat.export.litert_captioner.is_installed", lambda: True)
    names = run_blocks("export.md", "load_litert(")
    assert names["result"].caption


@pytest.mark.usefixtures("few_scenes", "quick_meteor")
@pytest.mark.parametrize(
    "page", [ROOT / "README.md", DOCS / "pictures.md"], ids=lambda page: page.name
)
def test_commands_that_draw_write_their_files(page):
    for name in ("photos/a.jpg", "photos/b.jpg", "docs/photo.jpg"):
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy(DOCS / "photo.jpg", name)
    lines = [line for _, block in fences(page) for line in block.splitlines()]
    drawing = [
        line
        for line in lines
        if re.match("keras-sat (caption (docs/)?photo|evaluate --data scenes)", line)
    ]
    assert len(drawing) >= 3
    for command in drawing:
        assert not main(shlex.split(command)[1:])
        for place in re.findall(r"--(?:plot|html|gif|trace|gallery) (\S+)", command):
            assert Path(place).exists(), command


@pytest.mark.usefixtures("in_empty_folder")
def test_a_table_of_captions_is_read_as_data_md_shows(capsys):
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    table, printed = re.search(r"```csv\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    Path("my_photos/pets").mkdir(parents=True)
    for name in ("beach.jpg", "pets/dog.jpg"):
        shutil.copy(DOCS / "photo.jpg", Path("my_photos", name))
    Path("my_photos/captions.csv").write_text(table, encoding="utf-8")
    images = data_utils.read_data("folder", "my_photos")
    assert [str(image) for image in images] == printed.splitlines()
