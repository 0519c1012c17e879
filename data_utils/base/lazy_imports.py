"""Import the names of a package when they are first used (PEP 562).

lazy_loader does this too, but cannot silence TensorFlow's startup log.
"""

import contextlib
import importlib
import sys

from data_utils.base.tf_logging import without_startup_log


def attach_lazily(package_name, names_by_module):
    """Return `__getattr__`, `__dir__` and `__all__` for a package, from a dict of
    module names to public names.
    """
    module_of = {name: module for module, names in names_by_module.items() for name in names}

    def __getattr__(name):
        if name not in module_of:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        module_name = f"{package_name}.{module_of[name]}"
        is_imported = module_name in sys.modules
        with contextlib.nullcontext() if is_imported else without_startup_log():
            # also waits for another thread that is importing it
            module = importlib.import_module(module_name)
        return getattr(module, name)

    def __dir__():
        return sorted(module_of)

    return __getattr__, __dir__, sorted(module_of)
