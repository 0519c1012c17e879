"""What `export` and `app` share: the flags and messages of making a page of a model."""

import sys
from pathlib import Path

from data_utils.base import visible
from keras_sat.commands.flags import add_options, add_values
from keras_sat.settings import Encoder


def add_page_options(parser):
    """Add the flags of the page's runtime and of the model's encoder."""
    text = (
        "a folder into which npm has installed @litertjs/core; default: downloaded once from "
        "npm's registry"
    )
    add_values(parser, "FOLDER", runtime=text)
    add_options(parser, Encoder, "encoder_weights")


def say_that_it_takes_time(model):
    name = visible(shown_name(model))
    text = (
        f"page: loading {name}; making the page takes half a minute, or minutes on a busy machine"
    )
    print(text, file=sys.stderr, flush=True)


def shown_name(model):
    """Return the name of a model to show on a page: the name of its folder, or "mine"
    for runs/mine/model.
    """
    path = Path(model).expanduser().resolve()
    return path.parent.name if path.name == "model" else path.name
