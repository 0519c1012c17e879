"""The commands `calibrate` and `index`: measure something on photos, and save it with a
trained captioner.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from pathlib import Path

from data_utils.atomic_files import write_json
from data_utils.foreign_text import visible
from keras_sat.command_line.paths import prepare_files
from keras_sat.options import CaptionerOptions


def run_calibrate(
    model,
    data,
    split="dev",
    cache_dir=None,
    encoder_weights=None,
    output_dir=None,
    json=None,
    skip_unreadable=False,
    **reading,
):
    """Fit and save the confidence of a captioner; print how well calibrated it is."""
    from keras_sat.beyond.calibration import calibrate
    from keras_sat.files.saving import save_records

    if json is not None:
        json = Path(json).expanduser()
        prepare_files([json])
    folder = _folder_to_change(model, output_dir)
    captioner, images, cache = _read(folder, data, split, cache_dir, encoder_weights, reading)

    calibration = calibrate(captioner, images, cache=cache, skip_unreadable=skip_unreadable)
    print(calibration)
    save_records(captioner, _folder_of_records(folder, output_dir))
    if json is not None:
        write_json(json, calibration.to_dict())


def run_index(
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
    """Index photos and captions for a choice by consensus, and save the index with the
    model.
    """
    from data_utils.images import readable_photos
    from keras_sat.beyond.consensus import WEIGHT, Consensus
    from keras_sat.files.saving import save_records

    weight = WEIGHT if consensus_weight is None else consensus_weight
    CaptionerOptions.check(consensus_weight=weight)
    folder = _folder_to_change(model, output_dir)
    captioner, images, cache = _read(folder, data, split, cache_dir, encoder_weights, reading)
    if cache is None:
        images = readable_photos(images, skip=skip_unreadable)

    captioner.consensus = Consensus.build(captioner, images, cache=cache)
    num_photos = len(captioner.consensus.photo_ids)
    print(f"{num_photos} photos indexed; consensus weight {weight:g}")
    save_records(captioner, _folder_of_records(folder, output_dir), consensus_weight=weight)


def _folder_to_change(model, output_dir):
    """Return the folder of a model that can be changed, or copied to --output-dir.

    Raise ValueError before anything is captioned.
    """
    from keras_sat.files.hub import is_on_hub
    from keras_sat.files.model_folder import (
        PRETRAINED,
        is_keras_file,
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
    elif folder.parent == PRETRAINED or is_on_hub(model):
        raise ValueError(
            "A bundled or downloaded model cannot be changed. For a copy, pass a folder as "
            f"--output-dir. Received: {visible(model)}"
        )
    return folder


def _folder_of_records(folder, output_dir):
    """Return the folder to save into: the model's own, or a copy in --output-dir."""
    from keras_sat.files.model_folder import copy_of_model

    return folder if output_dir is None else copy_of_model(folder, output_dir)


def _read(folder, data, split, cache_dir, encoder_weights, reading):
    """Return the captioner in a folder, the photos of a split that have captions, and
    the FeatureCache in --cache-dir, or None.
    """
    from data_utils.datasets.read import read_data
    from keras_sat.captioner import Captioner
    from keras_sat.scoring.evaluate import described_photos, open_cache

    captioner = Captioner.load(folder, encoder_weights=encoder_weights)
    images = described_photos(read_data(data, **reading), split)
    return captioner, images, open_cache(cache_dir, captioner)
