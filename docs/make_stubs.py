"""Write the files that tell type checkers and editors what they cannot see in the code.

    python docs/make_stubs.py

`__init__.pyi` of each folder says where the names that it exports are defined, because
`__init__.py` imports names on first use. The stubs of the modules in WITH_OPTIONS write
out what `**options` stands for: each setting with its type, default and meaning, from
the dataclasses of keras_sat/settings.py. A test compares the files with the output of
this script.
"""

import ast
import importlib
import inspect
import operator
import subprocess
import sys
from pathlib import Path

from data_utils.base import import_tensorflow

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in ("data_utils", "keras_sat")
    for path in (ROOT / package).rglob("__init__.py")
    if "NAMES_BY_MODULE" in path.read_text(encoding="utf-8")
)
# The modules whose functions and classes are decorated by `with_options`, and typed.
WITH_OPTIONS = (
    "keras_sat.captioner",
    "keras_sat.scale.ray_data",
    "keras_sat.measuring.evaluation",
    "keras_sat.search.generation",
    "keras_sat.training.recipe",
)
HEAD = '"""Made by docs/make_stubs.py: {}"""\n\n'


def stub_of(package):
    """Return the text of a package's `__init__.pyi`."""
    module = importlib.import_module(package)
    lines = [
        f"from {package}.{source} import {name} as {name}"
        for source, names in module.NAMES_BY_MODULE.items()
        for name in names
    ]
    head = HEAD.format("where the exported names are.")
    imports = "\n".join(sorted(lines))
    version = "__version__: str\n" if hasattr(module, "__version__") else ""
    return f"{head}{imports}\n\n__all__ = {module.__all__}\n{version}"


# === Modules with options ===


def stub_with_options(name):
    """Return the text of a module's stub: its public names without the code, and with
    options written out.
    """
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    tree.body = _declared(tree.body, module)
    return HEAD.format("the signatures, with all options.") + ast.unparse(tree)


def _declared(statements, module, owner="", options=None):
    """Return the statements of a module or class that declare something, without code.

    Args:
        owner: the name of the class with a dot; "" for a module.
        options: the call of `with_options` that decorates the class, or None.
    """
    declared = []
    for statement in statements:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            declared += statement.body
        elif isinstance(statement, (ast.Import, ast.ImportFrom, ast.AnnAssign, ast.Assign)):
            declared.append(statement)
        elif isinstance(statement, ast.ClassDef):
            name, decorated_by = statement.name, _options_of(statement)
            statement.decorator_list = []
            body = _declared(statement.body, module, f"{name}.", decorated_by)
            statement.body = [*_docstring(module, name, decorated_by), *body]
            declared.append(statement)
        elif isinstance(statement, ast.FunctionDef):
            if statement.name == "__init__":
                declared += _attributes(statement)
                declared.append(_without_code(statement, module, owner, options))
            elif not statement.name.startswith("_"):
                declared.append(_without_code(statement, module, owner, _options_of(statement)))
    return declared


def _without_code(function, module, owner, options):
    """Return a function with a docstring, if it takes options, and without its code."""
    if options is not None:
        _write_out(function, module, options)
    function.decorator_list = [
        decorator
        for decorator in function.decorator_list
        if ast.unparse(decorator) in ("property", "classmethod", "staticmethod")
    ]
    name = owner + function.name
    is_decorated = options is not None and function.name != "__init__"
    docstring = _docstring(module, name, is_decorated)
    function.body = [*docstring, ast.Expr(ast.Constant(...))]
    return function


def _options_of(decorated):
    """Return the call of `with_options` that decorates a function or class, or None."""
    for decorator in decorated.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "with_options":
            return decorator
    return None


def _docstring(module, name, is_decorated):
    """Return a list with the docstring that lists the options; empty where there are
    none: editors then show that of the code.
    """
    if not is_decorated:
        return []
    text = inspect.getdoc(operator.attrgetter(name)(module))
    depth = 4 * (name.count(".") + 1)
    return [ast.Expr(ast.Constant(text.replace("\n", "\n" + " " * depth)))]


def _attributes(init):
    """Return declarations of the public attributes that an `__init__` sets, with the
    types that it shows.
    """
    types = {}
    annotations = {arg.arg: arg.annotation for arg in init.args.args}
    for node in ast.walk(init):
        if not isinstance(node, ast.Assign):
            continue
        value = node.value.body if isinstance(node.value, ast.IfExp) else node.value
        shown = "Any"
        if isinstance(value, ast.Name) and annotations.get(value.id):
            shown = ast.unparse(annotations[value.id])
        elif isinstance(value, ast.Call) and ast.unparse(value.func)[0].isupper():
            shown = ast.unparse(value.func)
        for target in node.targets:
            if ast.unparse(target).startswith("self.") and not target.attr.startswith("_"):
                types.setdefault(target.attr, shown)
    return [ast.parse(f"{name}: {shown}").body[0] for name, shown in types.items()]


def _write_out(function, module, options):
    """Replace the `**options` of a function with keyword-only parameters.

    `options` is the call of `with_options` that decorates the function or its class.
    """
    from keras_sat import settings
    from keras_sat.captioner import LAYER_ARGUMENTS
    from keras_sat.training import CAPTIONER_ARGUMENTS

    taking = inspect.signature(settings.with_options)
    taken = eval(ast.unparse(options), {**vars(module), "with_options": taking.bind})
    taken.apply_defaults()
    kind, names, shown, defaults = taken.args
    also = {
        settings.CaptionerSettings: LAYER_ARGUMENTS,
        settings.FitSettings: CAPTIONER_ARGUMENTS,
    }
    parameters = {}
    for name in dict.fromkeys([*shown, *(names or kind.names())]):
        field = kind.fields()[name]
        default = None if name in kind.defaults_in_words else field.default
        # To `fit`, None is the same as not passed.
        takes_none = default is None or kind is settings.FitSettings
        parameters[name] = (_text(field.type, takes_none), "..." if defaults else repr(default))
    parameters |= dict.fromkeys(also.get(kind, ()), ("Any", "..."))
    for argument in function.args.kwonlyargs:
        parameters.pop(argument.arg, None)
    signature = ", ".join(f"{name}: {text} = {value}" for name, (text, value) in parameters.items())
    written = ast.parse(f"def f(*, {signature}): ...").body[0].args
    function.args.kwonlyargs += written.kwonlyargs
    function.args.kw_defaults += written.kw_defaults
    function.args.kwarg = None


def _text(annotation, takes_none):
    """Return a type as text."""
    text = inspect.formatannotation(annotation).replace("typing.", "")
    return f"{text} | None" if takes_none and text != "Any" and "None" not in text else text


# === All files ===


def texts():
    """Return a dict from the paths of the files to their texts."""
    import_tensorflow()
    made = {f"{name.replace('.', '/')}/__init__.pyi": stub_of(name) for name in PACKAGES}
    made |= {f"{name.replace('.', '/')}.pyi": stub_with_options(name) for name in WITH_OPTIONS}
    return {path: _formatted(text, path) for path, text in made.items()}


def _formatted(text, path):
    """Return text as ruff formats it, with its imports in order, and only those that it
    uses.
    """
    for command in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return text


if __name__ == "__main__":
    for path, text in texts().items():
        (ROOT / path).write_text(text, encoding="utf-8")
