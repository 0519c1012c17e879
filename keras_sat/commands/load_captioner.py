"""The captioner that a command uses: of which models, and with or without TensorFlow.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

import contextlib
import sys

from data_utils.captions import tokenise
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.settings import Search


def models_or_default(models, data=None):
    """Return the models given by --model, or else the bundled model, even if a local
    folder has its name.
    """
    from keras_sat.files import BUNDLED_MODELS

    if models is not None:
        return models
    name = "scenes" if data == "scenes" else DEFAULT_MODEL
    print(f"keras-sat: no --model given, using {name!r}", file=sys.stderr)
    return [BUNDLED_MODELS / name]


def load_captioner(models, request):
    """Return the captioner for a CaptionRequest, and whether it needs no TensorFlow.

    It runs on LiteRT where it makes the same captions; else it is a Captioner or an
    Ensemble.
    """
    from keras_sat.export import ready_captioner

    captioner = ready_captioner(models[0]) if fits_litert(models, request) else None
    if captioner is not None:
        # The LiteRT file of a model with an index has more beams than --num-beams 3.
        with contextlib.suppress(ValueError):
            captioner.search_for("caption", request.search)
            return captioner, True
    from keras_sat.scale import load_models  # takes longer to import

    return load_models(models, request.encoder_weights), False


def fits_litert(models, request):
    """Return whether LiteRT can be used: it supports one model, its own weights,
    default search, short sentences, no votes and no traces.
    """
    from keras_sat.export import is_installed

    default = Search()
    is_default_search = request.search in ({}, {"num_beams": default.resolved_num_beams()})
    is_short = len(tokenise(request.say or "")) < default.max_length
    is_one_model = len(models) == 1 and request.encoder_weights is None
    is_supported = is_default_search and is_short and is_one_model
    needs_network = request.votes or "trace" in request.drawings
    return is_supported and not needs_network and is_installed()


def prepare_litert(model):
    """Write the LiteRT file of a model, which can then be used without TensorFlow."""
    from keras_sat.export import is_made, make_file

    if is_made(model):
        return
    if sys.stderr.isatty():
        print(
            "keras-sat: preparing this model (once) to caption without TensorFlow", file=sys.stderr
        )
    with contextlib.suppress(OSError, ValueError):  # captions that were printed remain valid
        make_file(model)
