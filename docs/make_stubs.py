"""Write the files that tell type checkers and editors what they cannot see in the code.

    python docs/make_stubs.py

`__init__.pyi` of both packages says where each public name is defined, because
`__init__.py` imports names on first use. keras_sat/option_types.py has the types of
`**options`, because type checkers need a TypedDict for them, and cannot make one from
the dataclasses of keras_sat/settings.py. A test compares the files with the output of
this script.
"""

import importlib
import inspect
from pathlib import Path

from data_utils.tf_logging import import_tensorflow

ROOT = Path(__file__).parents[1]
STUBS = {
    "data_utils/__init__.pyi": "data_utils",
    "keras_sat/__init__.pyi": "keras_sat",
}
OPTION_TYPES = "keras_sat/option_types.py"
HEAD = '"""Made by docs/make_stubs.py: {}"""\n\n'


def stub_of(package):
    """Return the text of a package's `__init__.pyi`."""
    module = importlib.import_module(package)
    lines = [
        f"from {package}.{source} import {name} as {name}"
        for source, names in module.NAMES_BY_MODULE.items()
        for name in names
    ]
    head = HEAD.format("where the public names are.")
    imports = "\n".join(sorted(lines))
    return f"{head}{imports}\n\n__all__ = {module.__all__}\n__version__: str\n"


def option_types():
    """Return the text of keras_sat/option_types.py."""
    import_tensorflow()
    from keras_sat import settings
    from keras_sat.captioner import LAYER_ARGUMENTS
    from keras_sat.training.plan import CAPTIONER_ARGUMENTS

    text = HEAD.format("the types of `**options`, from keras_sat/settings.py.")
    text += "from typing import Any, TypedDict\n"
    text += _typed_dict("CaptionerKeywords", settings.CaptionerSettings, also=LAYER_ARGUMENTS)
    text += _typed_dict("SearchKeywords", settings.Search)
    text += _typed_dict("BeamSearchKeywords", settings.Search, settings.BeamSearch.names())
    text += _typed_dict("AlgorithmKeywords", settings.Search, settings.ALGORITHM_OPTIONS)
    text += _typed_dict(
        "FitKeywords", settings.FitSettings, also=CAPTIONER_ARGUMENTS, takes_none=True
    )
    return text


def _typed_dict(name, kind, names=None, also=(), takes_none=False):
    """Return a TypedDict with the settings of a Part or Settings.

    Args:
        names: only of these.
        also: names of other keyword arguments.
        takes_none: whether each setting may be None.
    """
    fields = kind.fields()
    types = {
        option: _text(fields[option].type, takes_none or option in kind.defaults_in_words)
        for option in names or fields
    }
    types |= dict.fromkeys(also, "Any")
    lines = [f"    {option}: {text}" for option, text in types.items()]
    return f"\n\nclass {name}(TypedDict, total=False):\n" + "\n".join(lines) + "\n"


def _text(annotation, takes_none):
    """Return a type as text."""
    text = inspect.formatannotation(annotation).replace("typing.", "")
    return f"{text} | None" if takes_none and text != "Any" and "None" not in text else text


def texts():
    """Return a dict from the paths of the files to their texts."""
    return {path: stub_of(package) for path, package in STUBS.items()} | {
        OPTION_TYPES: option_types()
    }


if __name__ == "__main__":
    for path, text in texts().items():
        (ROOT / path).write_text(text, encoding="utf-8")
