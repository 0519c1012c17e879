"""Names of a package that are imported when they are first used (PEP 562).

The package lazy_loader does this too, but it cannot silence TensorFlow's startup log; and its stubs, which import the
names, would show `**options` to type checkers instead of the options that docs/make_stubs.py writes out.
"""

import importlib
import sys

from data_utils.tf_logging import without_greetings


def attach_lazily(package_name, names_by_module):
    """Return `__getattr__`, `__dir__` and `__all__` for a package's `__init__.py`.

    Args:
        package_name: the package's `__name__`.
        names_by_module: dict from a module inside the package to the list of public names that it holds.
    """
    module_of = {name: module for module, names in names_by_module.items() for name in names}

    def __getattr__(name):
        if name not in module_of:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        with without_greetings():
            module = importlib.import_module(f"{package_name}.{module_of[name]}")
        value = getattr(module, name)
        setattr(sys.modules[package_name], name, value)
        return value

    def __dir__():
        return sorted(module_of)

    return __getattr__, __dir__, sorted(module_of)
