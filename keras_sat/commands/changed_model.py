"""What `calibrate` and `index` share: a saved model, and photos on which something is
measured that is saved with it.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from data_utils.base import visible
from keras_sat.commands.flags import MODEL_HELP, add_data, add_options, add_values
from keras_sat.settings import Encoder


def add_model_and_photos(parser, split):
    """Add the flags of the model and of the photos; `split` is their default split."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_data(parser, split=split)
    add_options(parser, Encoder, "encoder_weights")
    add_values(
        parser,
        "DIR",
        output_dir="save a copy of the model in this folder; default: change MODEL itself",
    )


def folder_to_change(model, output_dir):
    """Return the folder of a model that can be changed, or copied to --output-dir.

    Raise ValueError before anything is captioned.
    """
    from keras_sat.files import (
        BUNDLED_MODELS,
        is_keras_file,
        is_on_hub,
        model_directory,
        reject_taken_folder,
    )

    folder = model_directory(model)
    if is_keras_file(folder):
        raise ValueError(
            "This command changes the folder of a captioner, not a file. Save it as one: "
            f"keras_sat.Captioner.load(file).save(folder). Received: {visible(model)}"
        )
    if output_dir is not None:
        reject_taken_folder(output_dir)
    elif folder.parent == BUNDLED_MODELS or is_on_hub(model):
        raise ValueError(
            "A bundled or downloaded model cannot be changed. For a copy, pass a folder as "
            f"--output-dir. Received: {visible(model)}"
        )
    return folder


def folder_of_records(folder, output_dir):
    """Return the folder to save into: the model's own, or a copy in --output-dir."""
    from keras_sat.files import copy_of_model

    return folder if output_dir is None else copy_of_model(folder, output_dir)


def read_model_and_photos(folder, data, split, cache_dir, encoder_weights, reading):
    """Return the captioner in a folder, the photos of a split that have captions, and
    the FeatureCache in --cache-dir, or None.
    """
    from data_utils.datasets import read_data
    from keras_sat.captioner import Captioner
    from keras_sat.measuring import described_photos, open_cache

    captioner = Captioner.load(folder, encoder_weights=encoder_weights)
    images = described_photos(read_data(data, **reading), split)
    return captioner, images, open_cache(cache_dir, captioner)
