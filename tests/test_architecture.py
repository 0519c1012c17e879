"""The house rules, held with `ast`: who may import whom, and what stays light."""

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA_UTILS = [
    "lazy", "files", "progress", "captions", "scenes", "datasets", "downloads", "sources", "vocabulary", "images",
    "views", "feature_files", "feature_shards", "feature_cache", "batches",
]  # fmt: skip
KERAS_SAT = [
    "checks", "encoders", "adapter", "equations", "replicas", "objective", "fused", "loop", "attention", "decoder",
    "search", "saved_model", "learnt_photos", "captioning", "export", "saving", "captioner", "checkpoint", "meteor", "scores",
    "published", "presets", "arguments", "evaluation", "comparison", "callbacks", "player", "cartoon", "display",
    "overview", "grounding", "self_critical", "ensemble", "distribution", "training_folder", "training_photos",
    "training", "recipe", "demo", "__main__",
]  # fmt: skip
ORDER = [f"data_utils.{name}" for name in DATA_UTILS] + [f"keras_sat.{name}" for name in KERAS_SAT]
TEXT_MODULES = ["captions", "datasets", "downloads", "sources", "vocabulary", "files", "progress", "lazy", "scenes"]
MODULES = sorted(path for package in ("data_utils", "keras_sat") for path in (ROOT / package).glob("*.py"))


def imports_of(path, inside_functions=True):
    """Return the full names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if inside_functions else tree.body
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_name(path):
    return f"{path.parent.name}.{path.stem}"


def ids(path):
    return module_name(path)


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_a_module_imports_only_what_stands_above_it(path):
    if path.stem == "__init__":
        return
    assert module_name(path) in ORDER, f"{path.name} has no place in the order of the modules"
    allowed = ORDER[: ORDER.index(module_name(path))]
    ours = {name for name in imports_of(path) if name in ORDER}
    assert ours <= set(allowed)


@pytest.mark.parametrize("path", [path for path in MODULES if path.parent.name == "data_utils"], ids=ids)
def test_data_utils_never_imports_keras_sat(path):
    assert not any(name.split(".")[0] == "keras_sat" for name in imports_of(path))


@pytest.mark.parametrize("name", TEXT_MODULES)
def test_text_modules_import_neither_tensorflow_nor_matplotlib(name):
    heavy = {imported.split(".")[0] for imported in imports_of(ROOT / "data_utils" / f"{name}.py")}
    assert not heavy & {"tensorflow", "keras", "matplotlib"}


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_nothing_is_posix_only_or_unsafe(path):
    assert not imports_of(path) & {"fcntl", "pwd", "resource", "pickle", "shelve", "dill"}
    source = path.read_text(encoding="utf-8")
    assert "allow_pickle=True" not in source and "os.rename(" not in source


def modules_after(code):
    command = f"import sys; {code}; print(*sorted(name for name in sys.modules if '.' not in name))"
    return set(
        subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize(
    "code",
    [
        "import data_utils",
        "import keras_sat",
        "from data_utils import *",
        "from data_utils import flickr8k, Vocabulary, tokenise, draw_scenes; draw_scenes(1)",
        "import keras_sat.__main__; keras_sat.__main__.build_parser()",
    ],
)
def test_importing_loads_no_tensorflow(code):
    loaded = modules_after(code)
    assert not loaded & {"tensorflow", "keras", "matplotlib", "nltk"}


def test_public_names_are_there():
    import data_utils
    import keras_sat

    for package in (data_utils, keras_sat):
        for name in package.__all__:
            assert getattr(package, name) is not None
            assert name in dir(package)
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            package.nonsense  # noqa: B018
    names = (
        "CaptionedImage load_document load_descriptions clean_descriptions vocabulary_words save_descriptions flickr8k "
        "flickr30k coco folder draw_scenes is_true download Vocabulary FeatureCache make_batches load_image tokenise"
    )
    assert set(names.split()) <= set(data_utils.__all__)


def test_every_dependency_has_a_lower_bound_that_can_be_pinned():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = [line for line in setup["options"]["install_requires"].split("\n") if line and not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[a-z]+>=\d+(\.\d+)+", line) for line in lines)
    printed = subprocess.run([sys.executable, ROOT / "tests" / "lowest.py"], capture_output=True, text=True, check=True)
    assert len(printed.stdout.split()) == len(lines)


def test_version_and_changelog_agree():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert f"## {setup['metadata']['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
