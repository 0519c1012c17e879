"""A captioner as one file, captioner.keras, in Keras' own format.

Keras writes such a file in four parts: config.json with `Captioner.get_config` and the
shapes that the layers were built for, the weights of all layers, those of the
optimizer, and assets. This module has what a captioner adds to them: the weights of a
frozen encoder, which Keras would not find, and as assets what its captions depend on
besides weights. `Captioner` calls it from the methods that Keras expects.
"""

import os
import shutil
import warnings
import zipfile
from pathlib import Path

import keras
import numpy as np

from data_utils.atomic_files import read_sealed_json, whole_file, write_sealed_json
from data_utils.training_photos import as_settings, from_settings
from keras_sat.beyond.confidence import Confidence
from keras_sat.beyond.consensus import Consensus
from keras_sat.files.hub import checked_source
from keras_sat.files.model_folder import INDEX, read_arrays, round_trip, write_arrays
from keras_sat.files.untrusted import reject_claims, reject_grid
from keras_sat.options import one_of

ENDING = ".keras"
RECORDS = "records.json"  # among the assets
EXPECTED = "what a captioner saved with its weights"
ENCODER = "encoder_"  # prefix of the names of a frozen encoder's weights
MOST_NUMBERS = 2**28  # in one matrix, 1 GB; a file that claims more is rejected


def is_keras_file(path):
    """Return whether a path, or None, is of a model in one file of Keras' format."""
    return path is not None and os.fspath(path).lower().endswith(ENDING)


def save_file(captioner, path, precision):
    """Write a captioner as one file, or replace the file.

    Args:
        path: ends with ".keras".
        precision: see `Captioner.save`. Other than "float32", the weights are those
            that a folder of this precision has, the file is compressed, and it is not
            for training on: it has no state of the optimizer.
    """
    one_of("float32", "float16", "int8").check("precision", precision)
    with whole_file(path) as temporary:
        if precision == "float32":
            with captioner.averaged_weights():
                keras.saving.save_model(captioner, temporary)
        else:
            keras.saving.save_model(_rounded(captioner, precision), temporary)
            _compress(temporary)


def load_file(path):
    """Return the captioner in a file that `save_file`, or Keras, wrote."""
    path = Path(path).expanduser()
    captioner = keras.saving.load_model(path, safe_mode=True)
    if not hasattr(captioner, "caption"):
        raise ValueError(
            f"{path}: this file has a {type(captioner).__name__}, not a captioner. Load it with "
            "keras.saving.load_model."
        )
    return captioner


def _rounded(captioner, precision):
    """Return a copy of a captioner whose weights have the values of a folder that is
    saved with this precision.
    """
    rounded = captioner.adapted()
    rounded.confidence, rounded.consensus = captioner.confidence, captioner.consensus
    variables = rounded.named_weights()
    arrays = {name: np.asarray(variable) for name, variable in variables.items()}
    for name, array in round_trip(arrays, precision).items():
        variables[name].assign(array)
    return rounded


def _compress(path):
    """Compress the members of a zip archive, which Keras writes uncompressed."""
    compressed = path.with_name(f"{path.name}.zip")
    with (
        zipfile.ZipFile(path) as source,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            with source.open(name) as member, target.open(name, "w") as copy:
                shutil.copyfileobj(member, copy)
    os.replace(compressed, path)


# === What Keras asks for ===


def build_config(captioner):
    """Return the shapes that a captioner was built for; None if it is not built."""
    if not captioner.built:
        return None
    return {
        "feature_shape": [*captioner.feature_shape],
        "rows_and_columns": [*captioner.rows_and_columns()],
    }


def from_config(kind, config):
    """Return a captioner of the class `kind` from the result of `get_config`, without
    reading any file: a trained encoder has random weights until others are assigned.
    """
    encoder = config.get("encoder")
    if isinstance(encoder, dict):
        encoder = keras.saving.deserialize_keras_object(encoder)
    captioner = kind(**{**config, "encoder": encoder, "encoder_weights": None})
    captioner.photo_encoder.weights = config.get("encoder_weights", "imagenet")
    return captioner


def build_from_config(captioner, config):
    """Create the weights of a captioner for the shapes that `build_config` returned."""
    options = captioner.options.to_dict()
    reject_claims(options, config["feature_shape"], len(captioner.vocabulary), MOST_NUMBERS)
    captioner.build(((None, *config["feature_shape"]), (None, None)))
    reject_grid(config, captioner.num_regions)
    captioner.photo_encoder.saved_grid = tuple(config["rows_and_columns"])


def save_encoder(captioner, store):
    """Add the weights of a frozen encoder to the weights that Keras stores.

    Those of a trained encoder are found by Keras.
    """
    encoder = captioner.photo_encoder
    if encoder.name is None or not encoder.is_frozen:
        return
    try:
        weights = encoder.network.weights
    except (OSError, ValueError) as error:
        warnings.warn(
            f"The weights of the encoder {encoder.name!r} are not in the file, because they "
            f"cannot be read here: {error} The captioner can be loaded, but needs them for photos.",
            stacklevel=2,
        )
        return
    for number, weight in enumerate(weights):
        store[f"{ENCODER}{number:04d}"] = np.asarray(weight)


def take_encoder(captioner, stored):
    """Take the weights of a frozen encoder from what `save_encoder` stored.

    Args:
        stored: what Keras stored for the captioner, by name.

    Returns: a dict of the other arrays.
    """
    names = list(stored.keys())  # Keras' stores have no more of a dict than this
    arrays = {name: np.asarray(stored[name]) for name in names}
    names = sorted(name for name in arrays if name.startswith(ENCODER))
    if names:
        captioner.photo_encoder.take_weights([arrays.pop(name) for name in names])
    return arrays


def save_assets(captioner, directory):
    """Write what a captioner's captions depend on besides its weights into a folder."""
    directory, records = Path(directory), {}
    if captioner.training_photos is not None:
        records |= as_settings(captioner.training_photos)
    if captioner.confidence is not None:
        records["confidence"] = captioner.confidence.to_dict()
    if captioner.source is not None:
        records["source"] = captioner.source
    if captioner.consensus is not None:
        records[INDEX] = write_arrays(directory, INDEX, captioner.consensus.arrays)
    write_sealed_json(directory / RECORDS, records)


def load_assets(captioner, directory):
    """Give a captioner what `save_assets` wrote."""
    directory = Path(directory)
    if not (directory / RECORDS).is_file():
        return
    records = read_sealed_json(directory / RECORDS, EXPECTED)
    captioner.training_photos = from_settings(records)
    captioner.source = checked_source(records.get("source"))
    if "confidence" in records:
        captioner.confidence = Confidence(**records["confidence"])
    if INDEX in records:
        arrays = read_arrays(directory / Path(records[INDEX]).name, EXPECTED)
        captioner.consensus = Consensus(captioner.vocabulary, arrays, captioner.feature_shape[-1])
