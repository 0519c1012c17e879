"""The house rules, held with `ast`: who may import whom, and what stays light."""

import ast
import configparser
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_sat

ROOT = Path(__file__).parents[2]
PACKAGES = ("data_utils", "keras_sat")
PAGE = ROOT / "docs" / "architecture.md"
# Its table of folders in the order of imports: (folder, the files that it names).
TABLE = re.findall(
    r"^\| ((?:data_utils|keras_sat)\S*) \|.*\| (.*) \|$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE,
)
# Imported inside a function, when it is called.
DOORS = {
    ("captioner", "export"),
    ("captioner", "looking"),
}
# The paper in one file, and who may import it: what trains it.
ALONE = {
    "keras_sat.show_attend_tell": set(),
    "keras_sat.show_attend_tell_numpy": {"keras_sat.train_in_numpy"},
}
# caption_script.py imports these modules themselves: an export has their source.
SOURCE_IN_EXPORTS = {"data_utils.base.foreign_text", "data_utils.photos.decoding"}
HEAVY_IN_DATA_UTILS = {"batches", "features"}  # the others deal with text
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))  # an sdist has none
MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.stem != "__init__"
)
INITS = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py"))


def is_program(node):
    """Return whether a statement begins with `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


@functools.cache
def imports_of(path, inside_functions=True):
    """Return the full names of the modules that a file imports when it is imported:
    without what it imports as a program.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not is_program(node)]
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
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {module_name(path) for path in [*MODULES, *INITS]}


def ours(path):
    """Return the names of our own modules that a file imports."""
    return imports_of(path) & KNOWN - {module_name(path), *PACKAGES}


def room(name):
    """Return the folder of a module of keras_sat, or itself if it is in none."""
    return name.split(".")[1]


def import_order():
    """Return {room: number}: a file may import from rooms with smaller numbers.

    Files in no folder come first, except `captioner`, which comes after files, and the
    two programs, which come last.
    """
    folders = [folder.partition("/")[2] for folder, _ in TABLE if folder.startswith("keras_sat/")]
    folders.insert(folders.index("files") + 1, "captioner")
    alone = {room(module_name(path)) for path in MODULES if path.parent == ROOT / "keras_sat"}
    programs = ["train_in_numpy", "__main__"]
    first = dict.fromkeys(alone - {"captioner", *programs}, 0)
    return first | {name: number for number, name in enumerate([*folders, *programs], start=1)}


ORDER = import_order()


def test_the_table_of_docs_architecture_has_every_folder_and_its_files_exist():
    folders = {path.parent.relative_to(ROOT).as_posix() for path in MODULES}
    assert sorted(folder for folder, _ in TABLE) == sorted(folders)
    for folder, names in TABLE:
        for name in re.findall(r"`(.+?)`", names):
            assert (ROOT / folder / name).exists(), f"{folder}/{name}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.is_relative_to(ROOT / "keras_sat")], ids=module_name
)
def test_a_file_imports_only_from_its_own_folder_and_from_those_above_it_in_the_table(path):
    own = room(module_name(path))
    at_import = imports_of(path, inside_functions=False)
    for name in ours(path):
        if not name.startswith("keras_sat."):
            continue
        other = room(name)
        are_neighbours = other == own or ORDER[other] == ORDER[own] == 0
        is_door = (own, other) in DOORS and name not in at_import
        assert are_neighbours or is_door or ORDER[other] < ORDER[own], (
            f"{own} imports {name}, which comes after it in {PAGE.name}"
        )


def in_folder(name):
    """Return whether a name is that of a module in a folder of a package."""
    return name.count(".") == 2


def folder_of(name):
    return name.rpartition(".")[0]


@pytest.mark.parametrize(
    "path",
    [path for path in [*MODULES, *INITS] if path.parent.name not in PACKAGES],
    ids=module_name,
)
def test_a_file_imports_from_another_folder_what_its_init_exports(path):
    own = folder_of(module_name(path)) if path.stem != "__init__" else module_name(path)
    others = {name for name in ours(path) if in_folder(name) and folder_of(name) != own}
    assert others == (SOURCE_IN_EXPORTS if path.stem == "caption_script" else set())


@pytest.mark.parametrize(
    "path", [path for path in INITS if path.parent.name not in PACKAGES], ids=module_name
)
def test_the_names_that_a_folder_exports_are_those_of_its_modules_and_no_module_hides_one(path):
    """A module would hide it: Python sets it as an attribute of its package."""
    package = importlib.import_module(module_name(path))
    for module, names in package.NAMES_BY_MODULE.items():
        assert (path.parent / f"{module}.py").exists()
        for name in names:
            assert not (path.parent / f"{name}.py").exists()
            assert getattr(package, name) is not None


@pytest.mark.parametrize("alone", ALONE)
def test_the_paper_in_one_file_stands_alone(alone):
    for path in MODULES:
        name = module_name(path)
        if name == alone:
            assert not ours(path)
        elif name not in ALONE[alone]:
            assert alone not in ours(path), path


def modules_of_exported_names():
    """Return {name that a folder exports: the module that has it}, in full."""
    folders = [module_name(path) for path in INITS if path.parent.name not in PACKAGES]
    return {
        f"{folder}.{name}": f"{folder}.{module}"
        for folder in folders
        for module, names in importlib.import_module(folder).NAMES_BY_MODULE.items()
        for name in names
    }


def test_no_imports_go_in_circles():
    """Within a folder too, and through what folders export: a file is never needed by
    one that it needs.
    """
    modules = modules_of_exported_names()
    needed = {
        module_name(path): ours(path)
        | {modules[name] for name in imports_of(path) & modules.keys()} - {module_name(path)}
        for path in [*MODULES, *INITS]
    }
    while needed:
        free = {name for name, others in needed.items() if not others & needed.keys()}
        assert free, f"there is a circle among {sorted(needed)}"
        needed = {name: others for name, others in needed.items() if name not in free}


OF_DATA_UTILS = [path for path in [*MODULES, *INITS] if path.is_relative_to(ROOT / "data_utils")]


@pytest.mark.parametrize("path", OF_DATA_UTILS, ids=module_name)
def test_data_utils_never_imports_keras_sat(path):
    assert not any(name.split(".")[0] == "keras_sat" for name in imports_of(path))


@pytest.mark.parametrize("path", OF_DATA_UTILS, ids=module_name)
def test_what_deals_with_text_imports_neither_tensorflow_nor_matplotlib(path):
    imported = imports_of(path)
    heavy = {name.split(".")[0] for name in imported} & {"tensorflow", "keras", "matplotlib"}
    heavy |= {name for name in imported if name.endswith(".import_tensorflow")}
    assert (
        not heavy
        or path.relative_to(ROOT / "data_utils").with_suffix("").parts[0] in HEAVY_IN_DATA_UTILS
    )


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_nothing_is_posix_only_or_unsafe(path):
    assert not imports_of(path) & {"fcntl", "pwd", "resource", "pickle", "shelve", "dill"}
    source = path.read_text(encoding="utf-8")
    assert "allow_pickle=True" not in source and "os.rename(" not in source


def modules_after(code):
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "from data_utils import *",
        "from data_utils import flickr8k, Vocabulary, tokenise, draw_scenes; draw_scenes(1)",
        "import keras_sat.__main__",
        "import keras_sat.export.litert_captioner",
        "from keras_sat.search.generation import CaptionGenerator",
    ],
)
def test_importing_loads_no_tensorflow(code):
    assert not {"tensorflow", "keras", "matplotlib", "nltk"} & {*modules_after(code)}


@pytest.mark.slow
def test_to_caption_a_picture_imports_nothing_of_training(tmp_path):
    from data_utils import draw_scenes

    picture = tmp_path / "scene.png"
    picture.write_bytes(draw_scenes(1)[0].png())
    # With TensorFlow.
    arguments = ["caption", str(picture), "--model", "scenes", "--num-beams", "2"]
    loaded = modules_after(f"from keras_sat.__main__ import main; main({arguments})")
    folders = {name.split(".")[1] for name in loaded if name.startswith("keras_sat.")}
    assert "captioner" in folders and not folders & {"training", "looking"}
    scoring = {name for name in loaded if name.startswith("keras_sat.measuring.")}
    # Of keras_sat.learning.self_critical.
    assert scoring <= {"keras_sat.measuring.cider_score", "keras_sat.measuring.words"}


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
        "CaptionedImage load_document load_descriptions clean_descriptions vocabulary_words "
        "save_descriptions"
    )
    names += (
        " flickr8k flickr30k coco folder draw_scenes is_true download Vocabulary "
        "FeatureCache make_batches"
    )
    assert {*names.split(), "load_image", "tokenise"} <= set(data_utils.__all__)


def read_setup():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup


def test_every_dependency_has_a_lower_bound_that_can_be_pinned():
    setup = read_setup()
    lines = [
        line
        for line in setup["options"]["install_requires"].split("\n")
        if line and not line.startswith("#")
    ]
    assert lines and all(
        re.fullmatch(r"[a-z][a-z0-9-]*>=\d+(\.\d+)+(; .+)?", line) for line in lines
    )
    printed = subprocess.run(
        [sys.executable, ROOT / "tests" / "lowest.py"], capture_output=True, text=True, check=True
    )
    assert len(printed.stdout.split()) == len(lines)


def test_pre_commit_and_the_extras_ask_for_one_ruff():
    """Another version may format the same file in another way."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    extras = read_setup()["options.extras_require"]
    wanted = [line for line in extras["test"].split("\n") if line.startswith("ruff")]
    assert wanted and re.findall(r'\["(ruff.+)"\]', hooks) == wanted * 2


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_by_their_commit(path):
    """A tag can be moved to other code, a commit cannot."""
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert used and all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", u) for u in used)


def test_every_file_that_is_no_code_is_named_in_setup():
    """Else an installed package would lack it, which a clone does not notice;
    tests/project/test_wheel.py installs it.
    """
    setup = read_setup()
    patterns = setup["options.package_data"]["keras_sat"].split()
    files = {
        path
        for path in (ROOT / "keras_sat").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    packed = {path for pattern in patterns for path in (ROOT / "keras_sat").glob(pattern)}
    assert files and files <= packed
    assert {f"{package}*" for package in PACKAGES} <= set(
        setup["options.packages.find"]["include"].split()
    )


def test_version_and_changelog_agree():
    assert f"## {keras_sat.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
