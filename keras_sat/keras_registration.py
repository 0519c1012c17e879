"""Lets `keras.saving.load_model` find a captioner after `import keras_sat` alone.

Keras makes an object from a file only if its class was registered under the name in the
file; that happens when the class's module is imported. `import keras_sat` imports
neither these modules nor Keras, which take seconds. Once Keras is imported, this module
registers stand-ins under the same names: they import the real class when Keras asks for
it, and are replaced by it.
"""

import importlib
import importlib.abc
import importlib.util
import sys

# The captioner, and the layers that people use in models of their own. The last two are
# in encoders.
MODULE_OF = {
    "Captioner": "keras_sat.captioner",
    "CaptionDecoder": "keras_sat.model.decoder",
    "AttendAfter": "keras_sat.beyond.attend_after",
    "WithSentinel": "keras_sat.beyond.sentinel",
    "BahdanauAttention": "keras_sat.model.scorings",
    "BilinearAttention": "keras_sat.model.scorings",
    "DotAttention": "keras_sat.model.scorings",
    "FeatureAdapter": "keras_sat.model.adapter",
    "BlurPhotos": "keras_sat.model.photo_blur",
    "CaffePreprocessing": "keras_sat.model.encoders",
}


def register_with_keras():
    """Register stand-ins now, or when Keras is imported."""
    if "keras" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _WhenKerasIsImported())


def _register():
    registered = importlib.import_module("keras.saving").get_custom_objects()
    for name, module in MODULE_OF.items():
        registered.setdefault(f"keras_sat>{name}", _stand_in(name, module))


def _stand_in(name, module):
    """Return a class whose `from_config` makes an object of the real class."""

    class StandIn:
        @classmethod
        def from_config(cls, config):
            return getattr(importlib.import_module(module), name).from_config(config)

    return StandIn


class _WhenKerasIsImported(importlib.abc.MetaPathFinder):
    """Finds nothing itself; lets the loader of Keras register the stand-ins.

    It stays until Keras has been imported: others may only look whether Keras is there.
    """

    def __init__(self):
        self.is_looking = False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "keras" or self.is_looking:
            return None
        self.is_looking = True  # `find_spec` below asks all finders, and this one again
        try:
            spec = importlib.util.find_spec("keras")
        finally:
            self.is_looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader, self)
        return spec


class _ThenRegister(importlib.abc.Loader):
    """Loads a module as its own loader does, then registers the stand-ins."""

    def __init__(self, loader, finder):
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name):  # what else is asked of a loader, such as `get_source`
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        _register()
