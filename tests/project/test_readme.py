"""What README.md and docs/ tell people to type works: commands parse, Python runs,
links lead somewhere.
"""

import ast
import inspect
import re
import shlex
import shutil
import subprocess
import sys
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
from keras_sat.commands import parse
from keras_sat.network import attention

IN_THE_ROOT = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES = [*IN_THE_ROOT, *sorted((ROOT / "docs").glob("*.md"))]
OURS = ("keras-sat ", "python -m keras_sat ")
# A card, an essay and a list of questions.
WITH_OWN_SHAPE = {"model-card.md", "trace.md", "backward.md", "questions.md"}
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
    return parse(words[1:] if words[0] == "keras-sat" else words[3:])


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


@pytest.mark.parametrize(
    "name", sorted({page.name for page in (ROOT / "docs").glob("*.md")} - WITH_OWN_SHAPE)
)
def test_pages_open_with_what_they_show_and_end_with_what_comes_next(name):
    paragraphs = (ROOT / "docs" / name).read_text(encoding="utf-8").split("\n\n")
    assert paragraphs[1].startswith("This page ") and paragraphs[-1].startswith("Next: ")


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
    """The second of README's first two commands, on the files of the repository, prints
    on a terminal what the block below promises.
    """
    commands_to_type, promised = blocks(ROOT / "README.md")[:2]
    install, caption = commands_to_type.splitlines()
    assert install == "make install"
    program, *arguments = shlex.split(caption)
    assert program == ".venv/bin/keras-sat"
    shutil.copytree(ROOT / "docs", "docs")
    # The command line sets its own.
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert not main(arguments)
    printed = capsys.readouterr()
    lines = [*printed.out.splitlines(), *printed.err.splitlines()]
    assert sorted(lines) == sorted(promised.splitlines())
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
def test_batches_without_make_batches_train():
    blocks = python_blocks(ROOT / "docs" / "data.md")
    (block,) = (block for block in blocks if "from_tensor_slices(" in block)
    names = {}
    exec(compile(block, "data.md", "exec"), names)
    assert names["captioner"].caption(names["photos"][0]).words


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
        "cosine": attention.SCORINGS,
        "top two": attention.ATTENTIONS,
        "pairs": attention.ATTENTIONS,
        "shades": DATASETS,
        "exact": keras_sat.SCORES,
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
    assert (in_empty_folder / "top_two.png").is_file()
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
    assert names["result"].caption == names["captioner"].caption("photo.jpg").caption
    assert Path("where.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_blocks_of_trace_run(in_empty_folder, capsys):
    """They print what their comments promise."""
    examples = Path("keras_sat", "export", "page", "examples")
    shutil.copytree(ROOT / examples, examples)
    Path("docs").mkdir()
    shutil.copy(ROOT / "docs" / "photo.jpg", "docs")
    names = {}
    for block in python_blocks(ROOT / "docs" / "trace.md"):
        exec(compile(block, "trace.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"^(?:print\(.+\)  )?# (.+)", block, re.MULTILINE)
        assert not promised or printed == promised
    assert Path("hat.png").stat().st_size > 5000


def block_of_questions(text):
    """Return the one block of docs/questions.md that contains a text."""
    (block,) = [block for block in python_blocks(ROOT / "docs" / "questions.md") if text in block]
    return block


def run_question(text, smaller=()):
    """Run the block of docs/questions.md that contains a text; return its names.

    `smaller` maps numbers of the block to those that a test has time for.
    """
    block = block_of_questions(text)
    for number, smaller_number in dict(smaller).items():
        assert number in block
        block = block.replace(number, smaller_number)
    names = {"__name__": "questions"}  # in which Keras finds the class of a layer
    exec(compile(block, "questions.md", "exec"), names)
    return names


@pytest.mark.slow
def test_the_questions_about_attention_and_teacher_forcing_run(in_empty_folder, capsys):
    names = run_question("display.plot(")
    maps = names["result"].attention_weights
    assert capsys.readouterr().out.strip().endswith(str(maps.shape))
    assert np.allclose(maps.sum(axis=(1, 2)), 1, atol=1e-4)
    assert Path("where.png").stat().st_size > 5000

    names = run_question("teacher forcing: it reads")
    read = names["read"]
    assert read.words == data_utils.tokenise(names["scene"].captions[0])
    assert len(read.word_probs) == len(read.words)


def test_the_words_of_other_languages_are_as_promised(capsys):
    run_question("一只")
    promised = re.findall(r"# (\[.+\]|\w+)", block_of_questions("一只"))
    assert capsys.readouterr().out.splitlines() == promised


@pytest.mark.slow
def test_word_vectors_of_your_own_are_where_training_starts(in_empty_folder, without_graphs):
    words = {"red": 0.4, "circle": -0.3, "zebra": 0.1}
    lines = [" ".join([word, *[str(value)] * 300]) for word, value in words.items()]
    Path("glove.6B.300d.txt").write_text("\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = run_question("glove")
    trained = names["trained"]
    table = trained.decoder.embedding.embeddings.numpy()
    for word in ("red", "circle"):
        (token_id,) = trained.vocabulary.caption_to_ids(word)
        assert np.allclose(table[token_id], words[word], atol=0.02)
    assert names["vectors"].keys() == {"red", "circle"}

    # Frozen, as the text below the block says.
    captioner, table = names["captioner"], names["table"]
    captioner.decoder.embedding.trainable = False
    captioner.compile()
    captioner.fit(data_utils.make_batches(names["images"][:2], captioner.vocabulary, image_size=64))
    assert np.array_equal(captioner.decoder.embedding.embeddings, table)


@pytest.mark.slow
def test_captions_in_german(in_empty_folder, without_graphs, capsys):
    names = run_question("German", {"40_000": "40", "epochs=6": "epochs=1"})
    captions = [image.captions[0] for image in names["images"]]
    assert any("grünes" in caption or "grüner" in caption for caption in captions)
    assert names["captioner"].vocabulary.words[0] == "ein"
    assert "of 4 captions of unseen scenes are right" in capsys.readouterr().out


@pytest.mark.slow
def test_a_transformer_trains_on_the_same_batches(
    in_empty_folder, without_graphs, quick_meteor, capsys
):
    names = run_question(
        "transformer.fit(", {"num_scenes=2000": "num_scenes=40", "epochs=20": "epochs=1"}
    )
    assert len(names["captions"]) == 4
    num_heads = names["maps"].shape[1]
    assert num_heads == 4
    assert "CIDEr" in capsys.readouterr().out


@pytest.mark.slow
def test_the_questions_about_photos_run(in_empty_folder, monkeypatch, capsys):
    """The second block needs LiteRT, which other tests do without."""
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr("keras_sat.export.litert_captioner.is_installed", lambda: True)
    shutil.copy(ROOT / "docs" / "photo.jpg", ".")
    names = run_question('from_pretrained("flickr8k")')
    answer = run_question("def answer(")["answer"](Path("photo.jpg").read_bytes())
    assert answer["caption"] == names["result"].caption
    assert answer["caption"] in capsys.readouterr().out


def test_no_file_of_the_repository_is_ignored_by_git():
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--ignored", "--exclude-standard"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or git is missing")
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""
