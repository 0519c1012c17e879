"""The command `index`: index the words of training photos, and save the index with the
model.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from keras_sat.commands.changed_model import (
    add_model_and_photos,
    folder_of_records,
    folder_to_change,
    read_model_and_photos,
)
from keras_sat.commands.flags import add_options
from keras_sat.settings import SearchRules

DESCRIPTION = """\
Index the words in the captions of the photos that a model was trained on. Of several
beams, the model then chooses the one that agrees most with the words of similar photos."""


def add_arguments(parser):
    add_model_and_photos(parser, split="train")
    add_options(parser, SearchRules, "consensus_weight")


def run(
    model,
    data,
    split="train",
    cache_dir=None,
    encoder_weights=None,
    output_dir=None,
    consensus_weight=None,
    skip_unreadable=False,
    **reading,
):
    """Index words for a choice by consensus, and save the index with the model."""
    from data_utils.photos import readable_photos
    from keras_sat.after_search import CONSENSUS_WEIGHT, Consensus
    from keras_sat.files import save_records

    weight = CONSENSUS_WEIGHT if consensus_weight is None else consensus_weight
    SearchRules.check(consensus_weight=weight)
    folder = folder_to_change(model, output_dir)
    captioner, images, cache = read_model_and_photos(
        folder, data, split, cache_dir, encoder_weights, reading
    )
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable)
    else:
        images = cache.readable(images)

    captioner.consensus = Consensus.build(captioner, images, cache=cache)
    num_words = len(captioner.consensus.words)
    print(f"{num_words} words indexed; consensus weight {weight:g}")
    save_records(captioner, folder_of_records(folder, output_dir), consensus_weight=weight)
