"""The names of both packages: which are public, where the reference has them, and which
of them a piece of Python or a word in a text means.

A name is written as the reference has it: `keras_sat.fit` for a public one, and
`keras_sat.equations.lstm` for one that is imported from its module.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re

PACKAGES = ("keras_sat", "data_utils")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@functools.cache
def package(name):
    return importlib.import_module(name)


@functools.cache
def public_names():
    """Return (package, module, name) for each public name, in the packages' order."""
    return [
        (name, f"{name}.{module}", public)
        for name in PACKAGES
        for module, names in package(name).NAMES_BY_MODULE.items()
        for public in names
    ]


@functools.cache
def public_by_home():
    """Return the public name of each name where it is defined."""
    return {
        home_of(getattr(package(owner), name), module, name): f"{owner}.{name}"
        for owner, module, name in public_names()
    }


@functools.cache
def modules():
    """Return the names of all modules that are not private."""
    found = []
    for name in PACKAGES:
        found.append(name)
        walk = pkgutil.walk_packages(package(name).__path__, f"{name}.")
        found += [module.name for module in walk]
    return [name for name in found if not re.search(r"\._", name)]


@functools.cache
def resolve(dotted):
    """Return what the reference calls a name, or None if there is no such name.

    `keras_sat.captioner.Captioner.caption` is `keras_sat.Captioner.caption`.
    """
    parts = dotted.split(".")
    if parts[0] not in PACKAGES or any(part.startswith("_") for part in parts):
        return None
    length = len(parts)
    while ".".join(parts[:length]) not in modules():
        length -= 1
    module, rest = ".".join(parts[:length]), parts[length:]
    if not rest:
        return module
    value = importlib.import_module(module)
    home = None
    for number, part in enumerate(rest):
        if not hasattr(value, part):
            return None
        if number and not inspect.isclass(value):
            break  # an attribute of an object: the object is documented
        value = getattr(value, part)
        home = f"{home}.{part}" if home else home_of(value, module, part)
    return public_by_home().get(home) or _of_public_class(home)


def home_of(value, module, name):
    """Return the name of a value where it is defined."""
    home = getattr(value, "__module__", None)
    defined = inspect.isclass(value) or inspect.isfunction(value)
    if defined and home and home.split(".")[0] in PACKAGES:
        return f"{home}.{value.__qualname__}"
    for source, names in getattr(package(module), "NAMES_BY_MODULE", {}).items():
        if name in names:
            return f"{module}.{source}.{name}"
    return f"{module}.{name}"


def _of_public_class(home):
    owner, _, member = home.rpartition(".")
    return f"{public_by_home()[owner]}.{member}" if owner in public_by_home() else home


def meant(word):
    """Return the name that a word in a text means, `Captioner.trace()` say, or None.

    A public name alone counts only if it has a capital letter: `fit` is also a command.
    """
    word = re.sub(r"\(.*\)$", "", word.strip(), flags=re.DOTALL)
    if not DOTTED.fullmatch(word):
        return None
    first = word.split(".")[0]
    if first in PACKAGES:
        return resolve(word)
    for owner, _, public in public_names():
        if public == first and first.lower() != first:
            return resolve(f"{owner}.{word}")
    return (
        resolve(f"keras_sat.{word}") if f"keras_sat.{first}" in modules() and "." in word else None
    )


class Code:
    """The Python of a page: which of our names its words mean.

    Args:
        blocks: pieces of Python, in their order; what one imports, the next may use.
    """

    def __init__(self, blocks):
        self.imported = {}
        self.classes = {}
        trees = [tree for tree in map(parsed, blocks) if tree]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        for node in nodes:
            if isinstance(node, ast.Import):
                for name in node.names:
                    known = name.asname or name.name.split(".")[0]
                    self.imported[known] = name.name if name.asname else known
            elif isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    self.imported[name.asname or name.name] = f"{node.module}.{name.name}"
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = self.class_of(node.value)
                for target in node.targets:
                    if isinstance(target, ast.Name) and made:
                        self.classes[target.id] = made
        self.names = {
            name for node in nodes for name in [self.name_of(written(node))] if name is not None
        }
        self.names |= {
            name
            for known in self.imported.values()
            for name in [resolve(known)]
            if name is not None and name not in PACKAGES
        }

    def class_of(self, call):
        """Return the class of which a call makes an object, if it is one of ours:
        `Captioner(...)`, or `Captioner.from_pretrained(...)`.
        """
        name = self.name_of(written(call.func))
        for candidate in (name, name and name.rpartition(".")[0]):
            if candidate and candidate != name and ".from_" not in name:
                break
            if candidate and inspect.isclass(value_of(candidate)):
                return candidate
        return None

    def name_of(self, chain):
        """Return our name for a chain such as `captioner.caption`, or None."""
        if not chain:
            return None
        first, _, rest = chain.partition(".")
        known = self.imported.get(first) or self.classes.get(first) or first
        if first not in self.imported and not rest and first not in PACKAGES:
            return None
        name = resolve(f"{known}.{rest}" if rest else known)
        return None if name in PACKAGES else name


def value_of(name):
    """Return the object with this name."""
    parts = name.split(".")
    length = len(parts)
    while ".".join(parts[:length]) not in modules():
        length -= 1
    return functools.reduce(
        getattr, parts[length:], importlib.import_module(".".join(parts[:length]))
    )


def parsed(block):
    """Return the syntax tree of a block, without the lines that IPython alone reads, or
    None if it is no Python.
    """
    lines = ["" if line.startswith(("%", "!")) else line for line in block.split("\n")]
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        return None


def written(node):
    """Return the dotted name that a syntax tree is, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = written(node.value)
        return owner and f"{owner}.{node.attr}"
    return None
