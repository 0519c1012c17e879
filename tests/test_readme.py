"""What README.md and docs/ tell people to type works: commands parse, Python runs, links lead somewhere."""

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
from conftest import write_copy_of_data_set
from PIL import Image

import data_utils
import keras_sat
from data_utils import DATASETS
from keras_sat import ENCODERS
from keras_sat.__main__ import main
from keras_sat.command_line.arguments import build_parser
from keras_sat.model import scorings, selections

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OURS = ("keras-sat ", "python -m keras_sat ")
WRITTEN = ("plot", "html", "gif", "gallery", "output_dir", "json", "csv", "coco_results")
WRITTEN += ("cache_dir", "data_dir", "directory")
WRITTEN_FROM_PYTHON = (
    r"""(?:save|animate|to_html|export|build|download)\(\s*(?:"flickr8k", )?"([^"]+)\"|\]\("([^"]+)"\)"""
)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SMALLER = {"epochs=20": "epochs=1", "embedding_dim=128": "embedding_dim=16", "hidden_dim=256": "hidden_dim=16"}


def fences(page):
    """Return (language, text) of the fenced blocks of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def blocks(page):
    """Return the texts of the fenced blocks of a page."""
    return [text for _, text in fences(page)]


def python_blocks(page):
    """Return the blocks of Python."""
    return [text for language, text in fences(page) if language == "python"]


def commands(page):
    """Return the lines of a page that start with our command: in its blocks and its tables."""
    lines = [line for block in blocks(page) for line in block.splitlines()]
    lines += re.findall(r"^\| `([^`]+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [line for line in lines if line.startswith(OURS)]


def links(page):
    """Return where the links of a page lead, those in code left out."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)", prose)


def arguments_of(command):
    """Return what our command line parses from a line of a page, or exits on."""
    words = shlex.split(command, comments=True)
    return build_parser().parse_args(words[1:] if words[0] == "keras-sat" else words[3:])


COMMANDS = [command for page in PAGES for command in commands(page)]
PYTHON = [(page.name, number, block) for page in PAGES for number, block in enumerate(python_blocks(page))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_there_is_something_to_test():
    assert len(COMMANDS) > 25 and len(PYTHON) >= 25 and sum(len(links(page)) for page in PAGES) > 10


@each_page
def test_every_block_is_fenced_and_names_its_language(page):
    assert {language for language, _ in fences(page)} <= {"bash", "python", "csv", "json", "text"}
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "```" not in outside and not re.search(r"\n\n {4}\S", outside), "a block without a fence"


def test_readme_is_short_and_leads_to_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 180
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(links(ROOT / "README.md"))


@each_page
def test_every_command_parses_and_works_in_bash_powershell_and_cmd(page):
    """Double quotes or none, nothing that a shell replaces, no backslash at the end, no comma (PowerShell splits)."""
    for command in commands(page):
        arguments_of(command)
    others = [line for block in blocks(page) for line in block.splitlines()]
    others = [line for line in others if re.match(r"(python3?|pip|make) ", line) and not line.startswith(OURS)]
    for command in [*commands(page), *others]:
        assert not re.search(r"""['\\`,;&|<>*~#^]""", re.sub(r'"[^"]*"', "", command)), command
        assert not re.search(r"[$%]", command) or page.name == "scale.md", command  # its array job is for bash


@pytest.mark.parametrize("command", ["keras-sat fit --data flickr8k --attention loud", "keras-sat evaluate --beam 3"])
def test_a_wrong_command_would_be_noticed(command):
    with pytest.raises(SystemExit):
        arguments_of(command)


@pytest.mark.parametrize(("page", "number", "block"), PYTHON, ids=lambda value: str(value)[:20])
def test_python_names_what_there_is(page, number, block):
    """Every block compiles; every name of ours in it exists, and takes the arguments that it is given."""
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and of_ours(node) is None and is_module(node.value):
            pytest.fail(f"{ast.unparse(node)} does not exist")
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("keras_sat", "data_utils"):
            exec(f"from {node.module} import {', '.join(alias.name for alias in node.names)}", {})
        if isinstance(node, ast.Call) and (function := of_ours(node.func)) is not None:
            keywords = dict.fromkeys(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            inspect.signature(function).bind_partial(*node.args, **keywords)


def is_module(node):
    return isinstance(node, ast.Name) and node.id in ("keras_sat", "data_utils")


def of_ours(node):
    """Return what `keras_sat.name` and `data_utils.name` stand for, and methods of it; None for anything else."""
    if not isinstance(node, ast.Attribute):
        return None
    owner = {"keras_sat": keras_sat, "data_utils": data_utils}[node.value.id] if is_module(node.value) else None
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
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command line sets its own
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
    """The blocks of "From photos and captions to batches", on a small copy of Flickr8k and with a small encoder."""
    write_copy_of_data_set("flickr8k", Path("flickr8k"))
    monkeypatch.setitem(ENCODERS, "vgg16", lambda: ENCODERS["tiny"]())
    wanted = ("data_utils.flickr8k(", "FeatureCache.build(", "make_batches(train")
    chosen = [next(block for block in python_blocks(ROOT / "docs" / "data.md") if text in block) for text in wanted]
    names = {"data_utils": data_utils}
    for block in chosen:
        exec(compile(block, "README.md", "exec"), names)
    assert len(names["cache"]) == len(names["images"]) == 8
    assert tuple(names["features"].shape[1:]) == (64, 66)


@pytest.mark.slow
def test_the_training_step_by_step_runs(in_empty_folder, monkeypatch):
    """The block of "Without `fit`", with fewer scenes, one epoch and a smaller decoder."""
    draw = DATASETS["scenes"]
    monkeypatch.setitem(DATASETS, "scenes", lambda folder: draw(folder, num_scenes=40))
    block = next(block for block in python_blocks(ROOT / "docs" / "training.md") if "captioner.fit(" in block)
    for text, smaller in SMALLER.items():
        assert text in block
        block = block.replace(text, smaller)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert len(names["images"]) == 40 and names["result"].attention_weights.shape[1:] == (8, 8)
    loaded = keras_sat.Captioner.load("my_model")
    assert loaded.caption(names["photo"], num_beams=3).caption == names["result"].caption


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
def test_what_extends_the_packages_runs(in_empty_folder, monkeypatch):
    """The blocks of docs/extending.md."""
    monkeypatch.setitem(scorings.SCORINGS, "cosine", None)  # removed again at the end
    monkeypatch.setitem(selections.ATTENTIONS, "pairs", None)
    monkeypatch.setitem(DATASETS, "shades", None)
    monkeypatch.setitem(keras_sat.SCORES, "dog", None)
    names = {}
    for block in python_blocks(ROOT / "docs" / "extending.md"):
        exec(compile(block, "extending.md", "exec"), names)
    assert np.allclose(names["attended"].attention_weights, 0.2)
    assert {*np.unique(names["result"].attention_weights)} == {0.0, 0.5}
    assert names["captioner"].caption(names["images"][0].image_path).attention_weights.shape[1:] == (8, 8)
    assert len(names["images"]) == 30 and {image.split for image in names["images"]} == {"train", "dev", "test"}


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


# === Windows, and without make: docs/windows.md ===


def recipes():
    """Return the commands of each target of the Makefile, after those of the targets that it needs but `install`."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    values = dict(re.findall(r"^(\w+) \??:?= (.+)$", text, re.MULTILINE))

    def filled_in(line):
        while name := re.search(r"\$\((\w+)\)", line):
            line = line.replace(name[0], values[name[1]])
        return line

    rules = {
        filled_in(target): (
            [filled_in(name) for name in needs.split()],
            [filled_in(line) for line in body.split("\n\t")[1:]],
        )
        for target, needs, body in re.findall(r"^(\S+):(?: +(.*))?((?:\n\t.*)*)$", text, re.MULTILINE)
        if target != ".PHONY"
    }
    installed = values["INSTALLED"]

    def commands_of(target):
        needs, lines = rules.get(target, ([], []))  # a file such as setup.cfg has no rule
        needs = [name for name in needs if name != installed or target == "install"]
        before = [line for name in needs for line in commands_of(name)]
        return before + [line for line in lines if not line.startswith(("touch ", "@echo "))]

    return {target: commands_of(target) for target in rules}


def plain_commands():
    """Return the commands that docs/windows.md gives for each target."""
    text = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    return {
        target: [line.strip() for line in block.splitlines()]
        for target, block in re.findall(r"^`make ([\w-]+)`[^:\n]*:\n\n```bash\n((?:.+\n)+?)```", text, re.MULTILINE)
    }


def as_on_windows(line):
    """Return a line of the Makefile as it is typed there; variables before it are set otherwise there."""
    line = re.sub(r"^(\w+=\S+ )+", "", line)
    return re.sub(r"^(\.venv[\w-]*)/bin/", r"\1\\Scripts\\", line).replace("python3 ", "py -3.12 ", 1)


def test_every_make_target_that_is_named_has_its_plain_commands():
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    named = {
        target
        for text in pages
        for target in re.findall(r"\bmake ((?:test|bench|notebooks)-?\w*|install|demo|lint)\b", text)
    }
    assert named >= {"install", "demo", "test", "lint", "notebooks"} and named <= set(plain_commands())


@pytest.mark.parametrize("target", list(plain_commands()))
def test_the_plain_commands_are_those_of_the_makefile(target):
    assert plain_commands()[target] == [as_on_windows(line) for line in recipes()[target]]


def test_the_variables_that_make_sets_are_named():
    text = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    names = {name for lines in recipes().values() for line in lines for name in re.findall(r"^(\w+)=", line)}
    names |= set(re.findall(r"^export (\w+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert names and all(f"`{name}`" in text for name in names)


# === What the commands leave in a clone: .gitignore ===


def written_paths():
    """Return the relative paths that the commands and the Python of the pages write, as text."""
    found = {"demo"}
    for command in COMMANDS:
        options = vars(arguments_of(command))
        found |= {options[name] for name in WRITTEN if isinstance(options.get(name), str)}
    for page in PAGES:
        for block in python_blocks(page):
            found |= {first or second for first, second in re.findall(WRITTEN_FROM_PYTHON, block)}
            found |= set(re.findall(r'(?:output_dir|data_dir|cache_dir)="([^"]+)"', block))
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"^python benchmarks/\S*blend\.py (\S+)", text, re.MULTILINE))
        found |= set(re.findall(r'"sqlite:///([^"]+)"', text))
    return sorted(path for path in found if not path.startswith("/"))


@pytest.fixture(scope="module")
def git():
    def run(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)

    if shutil.which("git") is None or run("rev-parse", "--show-prefix").stdout != "\n":
        pytest.skip("this is no clone of its own, or git is missing")
    return run


def test_what_the_commands_write_is_ignored_by_git(git):
    paths = written_paths()
    assert {"where.png", "where.gif", "where.html", "gallery", "pages", "my_model", "exported", "runs/mine"} <= set(
        paths
    )
    files = [path if Path(path).suffix else f"{path}/file" for path in paths]
    ignored = git("check-ignore", "--no-index", *files).stdout.splitlines()
    assert not set(files) - set(ignored)


def test_no_file_of_the_repository_is_ignored_by_git(git):
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard").stdout == ""
