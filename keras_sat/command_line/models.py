"""The models that a command uses."""

import sys

from keras_sat.presets import DEFAULT_MODEL


def models_or_default(models, data=None):
    """Return the models given by --model, or else the bundled model, even if a local
    folder has its name.
    """
    from keras_sat.files.model_folder import PRETRAINED

    if models is not None:
        return models
    name = "scenes" if data == "scenes" else DEFAULT_MODEL
    print(f"keras-sat: no --model given, using {name!r}", file=sys.stderr)
    return [PRETRAINED / name]
