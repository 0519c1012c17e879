"""Write `__init__.pyi` of both packages, which type checkers and editors read for names
that are imported lazily.

    python docs/make_stubs.py

Each public name has its signature there, with the options that `**options` takes. A
test compares the files with the output of this script.
"""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PACKAGES = ("data_utils", "keras_sat")
HEAD = '"""Made by docs/make_stubs.py from the signatures of the public names."""\n'
IMPORTS = (  # those that are used are written, the first one always: pdoc runs these files
    "from __future__ import annotations",
    "",
    "import os",
    "from collections.abc import Callable",
    "from collections.abc import Iterator",
    "from pathlib import Path",
    "from typing import Any",
    "from typing import NamedTuple",
    "from typing import Self",
    "",
    "import keras",
    "import numpy as np",
    "import tensorflow as tf",
)
SPECIAL = ("__len__", "__contains__", "__call__")  # methods that users call by an operator
KNOWN = {
    "Any",
    "Callable",
    "Dataset",
    "Iterator",
    "Model",
    "NamedTuple",
    "None",
    "Path",
    "PathLike",
    "Self",
    "bool",
}
KNOWN |= {
    "bytes",
    "data",
    "dict",
    "float",
    "int",
    "keras",
    "list",
    "ndarray",
    "np",
    "os",
    "set",
    "str",
    "tf",
}
KNOWN |= {"tuple", "type"}


def stub_of(package):
    """Return the text of a package's `__init__.pyi`."""
    module = importlib.import_module(package)
    others = [] if package == "data_utils" else importlib.import_module("data_utils").__all__
    every = {name: getattr(module, name) for name in sorted(module.__all__)}
    modules = [name for name, value in every.items() if inspect.ismodule(value)]
    names = {name: value for name, value in every.items() if name not in modules}
    known = KNOWN | names.keys() | {*others}
    body = "\n\n".join(_declared(name, value, known) for name, value in names.items())
    used = [name for name in others if re.search(rf"\b{name}\b", body) and name not in names]
    imports = [
        line
        for line in IMPORTS
        if not line or "__future__" in line or re.search(rf"\b{line.split()[-1]}\b", body)
    ]
    head = (
        HEAD
        + "\n"
        + "\n".join(imports)
        + "\n"
        + (f"\nfrom data_utils import {', '.join(sorted(used))}\n" if used else "")
    )
    head += "".join(f"\nfrom {package} import {name} as {name}\n" for name in modules)
    listed = ", ".join(f'"{name}"' for name in every)
    return f"{head}\n__all__ = [{listed}]\n__version__: str\n\n{body}\n".replace("\n\n\n", "\n\n")


def _declared(name, value, known):
    if inspect.isclass(value):
        return _class(name, value, known)
    if callable(value):
        return _function(name, value, known)
    return (
        f"{name}: {type(value).__name__}[str, Any]" if isinstance(value, dict) else f"{name}: Any"
    )


def _class(name, value, known):
    if issubclass(value, tuple):
        lines = [
            f"{field}: {_text(value.__annotations__.get(field), known)}" for field in value._fields
        ]
        base = "NamedTuple"
    else:
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        lines = [f"{field.name}: {_text(field.type, known)}" for field in fields]
        lines += [] if fields else _attributes(value, known)
        base = next(
            (
                f"keras.{kind.__name__}"
                for kind in value.__mro__
                if kind.__module__.startswith("keras.")
            ),
            "",
        )
        base = "keras.Model" if base.startswith("keras.Functional") else base
        lines += (
            [_function("__init__", value.__init__, known)]
            if value.__init__ is not object.__init__
            else []
        )
    for member, descriptor in _members(value).items():
        if isinstance(descriptor, property):
            lines += ["@property", _function(member, descriptor.fget, known, default="(self)")]
        elif isinstance(descriptor, (classmethod, staticmethod)):
            lines += [
                f"@{type(descriptor).__name__}",
                _function(member, descriptor.__func__, known, owner=type(descriptor)),
            ]
        else:
            lines.append(_function(member, descriptor, known))
    base = base if base in ("", "NamedTuple", "keras.Model") else "Any"
    return f"class {name}({base}):\n" + "\n".join(f"    {line}" for line in lines or ["..."])


def _attributes(value, known):
    """Return the lines of the attributes that a class of its packages declares, or that
    its `__init__` sets.
    """
    kinds = [kind for kind in value.__mro__ if kind.__module__.split(".")[0] in PACKAGES]
    annotations = {}
    for kind in reversed(kinds):
        source = inspect.getsource(kind.__init__) if "__init__" in vars(kind) else ""
        annotations |= dict.fromkeys(re.findall(r"self\.([a-z]\w*)(?:, [\w., ]+)? = ", source))
        annotations |= vars(kind).get("__annotations__", {})
    hidden = [name for name in annotations if isinstance(getattr(value, name, None), property)]
    return [
        f"{name}: {_text(kind, known)}" for name, kind in annotations.items() if name not in hidden
    ]


def _members(value):
    """Return the public methods and properties of a class that its packages define, by
    name.
    """
    members = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.split(".")[0] in PACKAGES:
            members |= {
                name: item
                for name, item in vars(kind).items()
                if name in SPECIAL or not name.startswith("_")
            }
    kinds = (property, classmethod, staticmethod)
    return {
        name: item
        for name, item in members.items()
        if inspect.isfunction(item) or isinstance(item, kinds)
    }


def _function(name, function, known, default=None, owner=None):
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return f"def {name}{default or '(*args: Any, **kwargs: Any)'}: ..."
    parameters, last = [], None
    # a property has `self` alone
    for parameter in [*signature.parameters.values()][: 1 if default else None]:
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            parameters.append("*")
        last = parameter.kind
        if parameter.name == "self" or (owner is classmethod and not parameters):
            parameters.append("self" if parameter.name == "self" else "cls")
            continue
        kind = _text(parameter.annotation, known)
        is_optional = parameter.default is None and kind != "Any" and "None" not in kind
        parameters.append(
            f"{star}{parameter.name}: {kind}{' | None' if is_optional else ''}"
            + (" = ..." if parameter.default is not parameter.empty else "")
        )
    returned = "None" if name == "__init__" else _text(signature.return_annotation, known)
    return f"def {name}({', '.join(parameters)}) -> {returned}: ..."


def _text(annotation, known):
    """Return an annotation as text, Any where there is none, or one with a name that
    the stub does not know.
    """
    if annotation in (None, inspect.Parameter.empty):
        return "Any"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("typing.", "").replace("numpy.", "np.").replace("collections.abc.", "")
    text = re.sub(
        r"\w[\w.]*\.(\w+)",
        lambda found: found[0] if found[0].split(".")[0] in known else found[1],
        text,
    )
    if annotation is np.ndarray:
        return "np.ndarray"
    return text if {*re.findall(r"[A-Za-z_]\w*", text)} <= known else "Any"


if __name__ == "__main__":
    for package in PACKAGES:
        (ROOT / package / "__init__.pyi").write_text(stub_of(package), encoding="utf-8")
