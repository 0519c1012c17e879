"""The repository's address stands in setup.cfg alone, and what follows from it is
written by a script; while it is a placeholder, nothing installs what is there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import module_in

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
ON_GITHUB = "https://github.com/Somebody/keras_sat"
TEXTS = ("*.md", "*.py", "*.cfg", "*.toml", "*.cff", "*.yml", "*.ipynb", "*.html", "Makefile")


def module(name):
    return module_in([NOTEBOOKS], name)


@pytest.fixture(scope="module")
def address():
    return module("address")


def settings(folder, source):
    """Write a setup.cfg with this address into a folder."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    start = text.index("    Source = ")
    end = text.index("\n", start)
    (folder / "setup.cfg").write_text(f"{text[:start]}    Source = {source}{text[end:]}")
    return folder


@pytest.mark.parametrize(
    "source, expected",
    [
        ("https://example.org/keras_sat", None),
        (ON_GITHUB, ON_GITHUB),
        (f"{ON_GITHUB}.git", ON_GITHUB),
        ("file:///srv/keras_sat", "file:///srv/keras_sat"),
    ],
)
def test_it_is_read_from_setup(address, tmp_path, source, expected):
    assert address.repository_address(settings(tmp_path, source)) == expected


def test_it_stands_in_one_place(address):
    """Whatever else has it was written by the script: README and the notebooks."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    (line,) = [line for line in text.split("\n") if line.startswith("    Source = ")]
    written = line.removeprefix("    Source = ")
    folders = [ROOT, *(path for path in ROOT.iterdir() if path.is_dir() and path.name != "build")]
    files = {
        path
        for folder in folders
        if not folder.name.startswith(".venv")
        for pattern in TEXTS
        for path in (folder.glob(pattern) if folder == ROOT else folder.rglob(pattern))
    }
    having = {path for path in files if written in path.read_text(encoding="utf-8")}
    made = (
        {ROOT / "README.md", *NOTEBOOKS.rglob("*.ipynb")} if address.repository_address() else set()
    )
    assert having - made - {Path(__file__)} == {ROOT / "setup.cfg"}
    assert len(files) > 100


def test_the_readme_has_the_badges_of_the_address(address):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text == address.with_badges(text, address.repository_address())


def test_badges_are_written_once_and_go_with_the_address(address):
    plain = "# keras_sat\n\nA captioner.\n"
    assert address.with_badges(plain, None) == plain
    once = address.with_badges(plain, ON_GITHUB)
    assert f"{ON_GITHUB}/actions/workflows/ci.yml/badge.svg" in once
    assert "(https://somebody.github.io/keras_sat/)" in once
    assert address.with_badges(once, ON_GITHUB) == once
    assert address.with_badges(once, None) == plain
    assert address.without_badges(once) == plain
    assert address.badges("file:///srv/keras_sat") is None


def test_the_workflows_of_the_badges_exist():
    folder = ROOT / ".github" / "workflows"
    if not folder.exists():
        pytest.skip("an sdist has no workflows")
    assert {"ci.yml", "site.yml"} <= {path.name for path in folder.iterdir()}


def test_colab_opens_what_is_on_github_alone(address):
    path = "notebooks/01_words.ipynb"
    assert address.colab_link(ON_GITHUB, path) == (
        f"https://colab.research.google.com/github/Somebody/keras_sat/blob/main/{path}"
    )
    assert address.colab_link(None, path) is None
    assert address.colab_link("file:///srv/keras_sat", path) is None
    assert address.site_address("file:///srv/keras_sat") is None


@pytest.mark.slow
def test_a_stored_notebook_keeps_its_outputs_under_a_new_address(address):
    pytest.importorskip("jupytext", reason="the notebooks need the extra `notebooks`")
    nbformat = pytest.importorskip("nbformat")
    assemble = module("assemble")
    source = NOTEBOOKS / "src" / "01_words.py"
    stored = nbformat.read(assemble.target_of(source), 4)
    before = address.with_outputs_of(stored, assemble.assemble(source, address=None))
    after = address.with_outputs_of(stored, assemble.assemble(source, address=ON_GITHUB))
    outputs = [[cell.get("outputs") for cell in notebook.cells] for notebook in (before, after)]
    assert after.cells[1].source == address.installation(ON_GITHUB)
    assert outputs[1][:1] + outputs[1][2:] == outputs[0]
    assert sum(bool(output) for output in outputs[0]) > 10


@pytest.mark.slow
def test_with_an_address_the_notebook_alone_is_enough(tmp_path, monkeypatch):
    """Install from a notebook's own line where the package is not installed, with the
    address of a repository on this machine.
    """
    pytest.importorskip("jupytext", reason="the notebooks need the extra `notebooks`")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    repository, elsewhere = tmp_path / "keras_sat", tmp_path / "elsewhere"
    ignored = shutil.ignore_patterns(
        ".*", "build", "tests", "docs", "notebooks", "benchmarks", "*.egg-info", "__pycache__"
    )
    shutil.copytree(ROOT, repository, ignore=ignored)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(repository)]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], check=True)
    elsewhere.mkdir()
    # An environment that has all packages of this one but ours.
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    (packages,) = [path for path in environment.rglob("site-packages") if path.is_dir()]
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others))
    kernel = {"argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    kernel |= {"display_name": "alone", "language": "python"}
    (tmp_path / "kernels" / "alone").mkdir(parents=True)
    (tmp_path / "kernels" / "alone" / "kernel.json").write_text(json.dumps(kernel))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)

    local = repository.as_uri()
    notebook = module("assemble").assemble(NOTEBOOKS / "src" / "01_words.py", address=local)
    assert notebook.cells[1].source == f"%pip install --quiet git+{local}"
    assert not any("colab" in cell.source for cell in notebook.cells)
    before, after = "import keras_sat", "print(keras_sat.__file__)"
    codes = (before, notebook.cells[1].source, before, after)
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in codes]
    notebook.cells[0].metadata["tags"] = ["raises-exception"]
    resources = {"metadata": {"path": str(elsewhere)}}
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="alone", resources=resources
    )
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError:
        printed = str(notebook.cells[1].outputs)
        if any(reason in printed for reason in ("Could not find a version", "Connection")):
            pytest.skip("pip cannot fetch setuptools, which builds the package")
        raise
    assert notebook.cells[0].outputs[0].ename == "ModuleNotFoundError"
    assert notebook.cells[-1].outputs[0].text.startswith(str(packages))
