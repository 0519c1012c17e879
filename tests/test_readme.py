"""What README.md and docs/ tell people to type works: commands parse, Python runs,
links lead somewhere.
"""

import ast
import inspect
import re
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, fences, python_blocks, write_copy_of_data_set
from PIL import Image

import data_utils
import keras_sat
from data_utils import DATASETS
from keras_sat import ENCODERS
from keras_sat.__main__ import main
from keras_sat.command_line.arguments import build_parser
from keras_sat.model import scorings, selections

IN_THE_ROOT = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES = [*IN_THE_ROOT, *sorted((ROOT / "docs").glob("*.md"))]
OURS = ("keras-sat ", "python -m keras_sat ")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SMALLER = {
    "epochs=20": "epochs=1",
    "embedding_dim=128": "embedding_dim=16",
    "hidden_dim=256": "hidden_dim=16",
}


def blocks(page):
    """Return the texts of the fenced blocks of a page."""
    return [text for _, text in fences(page)]


def commands(page):
    """Return the lines of a page that start with our command: in its blocks and its
    tables.
    """
    lines = [line for block in blocks(page) for line in block.splitlines()]
    lines += re.findall(r"^\| `([^`]+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [line for line in lines if line.startswith(OURS)]


def links(page):
    """Return where the links of a page lead, those in code left out."""
    prose = re.sub(
        r"^```.*?^```$|`[^`\n]+`",
        "",
        page.read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    return re.findall(r"\]\(([^)\s]+)", prose)


def arguments_of(command):
    """Return what our command line parses from a line of a page, or exits on."""
    words = shlex.split(command, comments=True)
    return build_parser().parse_args(words[1:] if words[0] == "keras-sat" else words[3:])


PYTHON = [
    (page.name, number, block) for page in PAGES for number, block in enumerate(python_blocks(page))
]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_every_block_is_fenced_and_names_its_language(page):
    assert {language for language, _ in fences(page)} <= {
        "bash",
        "python",
        "csv",
        "json",
        "text",
        "yaml",
    }
    outside = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert "```" not in outside and not re.search(r"\n\n {4}\S", outside), "a block without a fence"


def test_readme_leads_to_every_page():
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(
        links(ROOT / "README.md")
    )


@each_page
def test_every_command_parses_and_works_in_bash_powershell_and_cmd(page):
    """Double quotes or none, nothing that a shell replaces, no backslash at the end, no
    comma (PowerShell splits).
    """
    for command in commands(page):
        arguments_of(command)
    others = [line for block in blocks(page) for line in block.splitlines()]
    others = [
        line
        for line in others
        if re.match(r"(python3?|pip|make) ", line) and not line.startswith(OURS)
    ]
    for command in [*commands(page), *others]:
        assert not re.search(r"""['\\`,;&|<>*~#^]""", re.sub(r'"[^"]*"', "", command)), command
        # Its array job is for bash.
        assert not re.search(r"[$%]", command) or page.name == "scale.md", command


@pytest.mark.parametrize(("page", "number", "block"), PYTHON, ids=lambda value: str(value)[:20])
def test_python_names_what_there_is(page, number, block):
    """Every block compiles.

    Every name of ours in it exists, and takes the arguments that it is given.
    """
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and of_ours(node) is None and is_module(node.value):
            pytest.fail(f"{ast.unparse(node)} does not exist")
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in (
            "keras_sat",
            "data_utils",
        ):
            exec(f"from {node.module} import {', '.join(alias.name for alias in node.names)}", {})
        if isinstance(node, ast.Call) and (function := of_ours(node.func)) is not None:
            keywords = dict.fromkeys(
                keyword.arg for keyword in node.keywords if keyword.arg is not None
            )
            signature = inspect.signature(function)
            signature.bind_partial(*node.args, **keywords)
            for name in keywords.keys() - signature.parameters.keys():  # of `**options`
                assert re.search(rf"^ +{name}: ", inspect.getdoc(function), re.MULTILINE), name


def is_module(node):
    return isinstance(node, ast.Name) and node.id in ("keras_sat", "data_utils")


def of_ours(node):
    """Return what `keras_sat.name` and `data_utils.name` stand for, and methods of it;
    None for anything else.
    """
    if not isinstance(node, ast.Attribute):
        return None
    owner = (
        {"keras_sat": keras_sat, "data_utils": data_utils}[node.value.id]
        if is_module(node.value)
        else None
    )
    owner = of_ours(node.value) if owner is None else owner
    return getattr(owner, node.attr, None)


def test_from_a_clone_to_a_caption_in_two_commands(in_empty_folder, monkeypatch, capsys):
    """The second of README's first two commands, on the files of the repository."""
    install, caption = blocks(ROOT / "README.md")[0].splitlines()
    assert install == "make install"
    command, promised = caption.split("#")
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/keras-sat"
    shutil.copytree(ROOT / "docs", "docs")
    # The command line sets its own.
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    assert not main(arguments)
    assert capsys.readouterr().out.strip().split("\t")[-1] == promised.strip()
    assert Path("where.png").stat().st_size > 5000


def test_the_first_steps_in_python_run(in_empty_folder, capsys):
    """The first block of README.md; it prints the caption that its comment promises."""
    first = python_blocks(ROOT / "README.md")[0]
    exec(compile(first, "README.md", "exec"), {})
    promised = re.search(r"print\(result\.caption\) *# (.+)", first)[1]
    assert capsys.readouterr().out == promised + "\n"
    assert Path("where.png").stat().st_size > 5000


def test_from_photos_to_batches_runs(in_empty_folder, monkeypatch):
    """The blocks of "From photos and captions to batches", on a small copy of Flickr8k
    and with a small encoder.
    """
    write_copy_of_data_set("flickr8k", Path("flickr8k"))
    monkeypatch.setitem(ENCODERS, "vgg16", lambda: ENCODERS["tiny"]())
    wanted = ("data_utils.flickr8k(", "FeatureCache.build(", "make_batches(train")
    chosen = [
        next(block for block in python_blocks(ROOT / "docs" / "data.md") if text in block)
        for text in wanted
    ]
    names = {"data_utils": data_utils}
    for block in chosen:
        exec(compile(block, "README.md", "exec"), names)
    assert len(names["cache"]) == len(names["images"]) == 8
    assert tuple(names["features"].shape[1:]) == (256, 66)


@pytest.mark.slow
def test_the_training_step_by_step_runs(in_empty_folder, monkeypatch):
    """The block of "Without `fit`": fewer scenes, one epoch, a small decoder."""
    draw = DATASETS["scenes"]
    monkeypatch.setitem(DATASETS, "scenes", lambda folder: draw(folder, num_scenes=40))
    block = next(
        block for block in python_blocks(ROOT / "docs" / "training.md") if "captioner.fit(" in block
    )
    for text, smaller in SMALLER.items():
        assert text in block
        block = block.replace(text, smaller)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["images"]) == 40 and names["result"].attention_weights.shape[1:] == (16, 16)
    loaded = keras_sat.Captioner.load("my_model")
    assert loaded.caption(names["photo"], num_beams=3).caption == names["result"].caption


@pytest.mark.slow
def test_what_extends_the_packages_runs(in_empty_folder, monkeypatch):
    """The blocks of docs/extending.md, each of which stands alone."""
    added = {
        "cosine": scorings.SCORINGS,
        "pairs": selections.ATTENTIONS,
        "shades": DATASETS,
        "dog": keras_sat.SCORES,
    }
    for name, entries in added.items():
        monkeypatch.setitem(entries, name, None)  # removed again at the end
        del entries[name]
    names, of_block = {}, {}
    for block in python_blocks(ROOT / "docs" / "extending.md"):
        if "import " in block:  # a block without continues the one before
            of_block = {}
        exec(compile(block, "extending.md", "exec"), of_block)
        names |= of_block
    assert np.allclose(names["attended"].attention_weights, 0.2)
    assert {*np.unique(names["result"].attention_weights)} == {0.0, 0.5}
    assert names["captioner"].caption(names["images"][0].image_path).attention_weights.shape[
        1:
    ] == (8, 8)
    assert len(names["images"]) == 30 and {image.split for image in names["images"]} == {
        "train",
        "dev",
        "test",
    }


@each_page
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def anchors(page):
    """Return what GitHub calls the headings of a page in links."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


def test_every_make_target_that_is_named_has_its_plain_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`make ([\w-]+)`", page.read_text(encoding="utf-8"))
    }
    assert named <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    windows = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    assert named <= set(re.findall(r"^`make ([\w-]+)`[^:\n]*:\n\n```bash\n", windows, re.MULTILINE))


@pytest.mark.slow
def test_the_blocks_of_architecture_run(in_empty_folder):
    """The photo's caption is that of `caption`."""
    write_copy_of_data_set("flickr8k", Path("flickr8k"))
    names = {}
    ways = python_blocks(ROOT / "docs" / "architecture.md")
    assert len(ways) == 2
    exec(compile(ways[0], "architecture.md", "exec"), names)
    assert names["captioner"].built
    names["captioner"] = keras_sat.Captioner.from_pretrained("scenes")
    Image.fromarray(data_utils.draw_scenes(1, seed=1502)[0].image).save("photo.jpg", quality=95)
    exec(compile(ways[1], "architecture.md", "exec"), names)
    assert names["result"].caption == names["captioner"].caption("photo.jpg", num_beams=1).caption
    assert Path("where.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_blocks_of_trace_run(in_empty_folder, capsys):
    """They print what their comments promise."""
    examples = Path("keras_sat", "deploy", "page", "examples")
    shutil.copytree(ROOT / examples, examples)
    Path("docs").mkdir()
    shutil.copy(ROOT / "docs" / "photo.jpg", "docs")
    names = {}
    for block in python_blocks(ROOT / "docs" / "trace.md"):
        exec(compile(block, "trace.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"^(?:print\(.+\)  )?# (.+)", block, re.MULTILINE)
        assert not promised or printed == promised
    assert Path("raft.png").stat().st_size > 5000


def test_no_file_of_the_repository_is_ignored_by_git():
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--ignored", "--exclude-standard"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or git is missing")
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""
