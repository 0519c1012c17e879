"""The command `calibrate`: fit the confidence of captions, and save it with the model.

Dependencies are imported where they are used, which keeps `--help` fast.
"""

from pathlib import Path

from data_utils.base import write_json
from keras_sat.commands.changed_model import (
    add_model_and_photos,
    folder_of_records,
    folder_to_change,
    read_model_and_photos,
)
from keras_sat.commands.paths import prepare_files

DESCRIPTION = """Fit the confidence of captions and of their nouns on photos that the model was not
trained on, save it with the model, and print how well calibrated it is. `keras-sat
fit` ends with the same step, on the dev split."""


def add_arguments(parser):
    add_model_and_photos(parser, split="dev")
    parser.add_argument("--json", metavar="OUT", help="write the figures as JSON")


def run(
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
    from keras_sat.after_search import calibrate
    from keras_sat.files import save_records

    if json is not None:
        json = Path(json).expanduser()
        prepare_files([json])
    folder = folder_to_change(model, output_dir)
    captioner, images, cache = read_model_and_photos(
        folder, data, split, cache_dir, encoder_weights, reading
    )

    calibration = calibrate(captioner, images, cache=cache, skip_unreadable=skip_unreadable)
    print(calibration)
    save_records(captioner, folder_of_records(folder, output_dir))
    if json is not None:
        write_json(json, calibration.to_dict())
