"""A captioner as one file, captioner.keras, in Keras' own format.

Keras writes such a file in four parts: config.json with `Captioner.get_config` and the
shapes that the layers were built for, the weights of all layers (those of a frozen
encoder too), the state of the optimizer, and assets. This module has what a captioner
adds: which layers are not trained, and as assets what its captions depend on besides
weights. `Captioner` calls it from the methods that Keras expects. `load_file` looks at
a file before Keras does: nothing is made of it that it does not have the weights for.
"""

import json
import math
import os
import re
import shutil
import warnings
import zipfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from data_utils.base import brief, check_is_file, read_sealed_json, whole_file, write_sealed_json
from keras_sat.bounds import one_of
from keras_sat.files.model_folder import INDEX, read_arrays, round_trip, write_index
from keras_sat.files.records import index_of, records_of, restore_records
from keras_sat.files.untrusted_settings import reject_claims, reject_grid
from keras_sat.learning import TERMS
from keras_sat.network import BUNDLED
from keras_sat.removed_options import without_removed

RECORDS = "records.json"  # among the assets
CONFIG, WEIGHTS = "config.json", "model.weights.h5"  # Keras' names in the archive
REGISTERED_NAME = "keras_sat>Captioner"
EXPECTED = "a file that Captioner.save wrote"
# Of a file that Keras reads without `load_file`: 128 MB in one matrix of the decoder.
MOST_NUMBERS = 2**25
MOST_CONFIG_BYTES = 50_000_000
MOST_COMPRESSION = 100  # weights that were rounded take a third to a half of their size
ERRORS = (
    AttributeError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    tf.errors.OpError,
    zipfile.BadZipFile,
)


def save_file(captioner, path, precision):
    """Write a captioner as one file, or replace the file.

    If training keeps averages of the weights, these are written.

    Args:
        path: ends with ".keras".
        precision: see `Captioner.save`. Other than "float32", the weights are rounded
            as in a folder of this precision, the file is compressed, and it has no
            state of the optimizer: it is not for training on.
    """
    one_of("float32", "float16", "int8").check("precision", precision)
    with captioner.averaged_weights(), whole_file(path) as temporary:
        if precision == "float32":
            keras.saving.save_model(captioner, temporary)
        else:
            keras.saving.save_model(_rounded(captioner, precision), temporary)
            _compress(temporary)


def load_file(path, ignored=()):
    """Return the captioner in a file that `save_file`, or Keras, wrote.

    Args:
        ignored: names of arguments that apply to folders alone, for a warning.
    """
    path = Path(path).expanduser()
    if ignored:
        warnings.warn(
            f"A .keras file has its whole encoder: {' and '.join(ignored)} is ignored.",
            stacklevel=4,
        )
    check_is_file(path, "model")
    try:
        _reject_other_file(path)
        captioner = keras.saving.load_model(path, safe_mode=True)
    except ERRORS as error:
        raise ValueError(f"{path}: {_reason_of(error)} Expected: {EXPECTED}.") from None
    for weight in captioner.weights:
        if not np.isfinite(weight).all():
            raise ValueError(f"{path}: {weight.path} contains NaN or infinite values.")
    return captioner


def _reject_other_file(path):
    """Raise ValueError if a file is no captioner, or describes a larger one than it has
    the weights for. Nothing of the file is used but its numbers and names.
    """
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(CONFIG).file_size > MOST_CONFIG_BYTES:
            raise ValueError(f"its {CONFIG} is too large.")
        model = json.loads(archive.read(CONFIG))
        num_bytes = archive.getinfo(WEIGHTS).file_size
    if num_bytes > MOST_COMPRESSION * path.stat().st_size:
        raise ValueError("its weights are compressed more than weights can be.")
    made_class = keras.saving.get_registered_object(model["registered_name"])
    is_captioner = model["registered_name"] == REGISTERED_NAME or hasattr(made_class, "caption")
    if not is_captioner:
        raise ValueError(f"this is a {str(model['class_name'])[:80]}, not a captioner.")
    options = dict(model["config"])
    vocabulary, encoder = options.pop("vocabulary"), options.pop("encoder")
    feature_shape = model["build_config"]["feature_shape"]
    num_stored = num_bytes // 4
    reject_claims(options, feature_shape, len(vocabulary), num_stored)
    num_described = _num_weights(encoder) if isinstance(encoder, dict) else 0
    if num_described > num_stored:
        raise ValueError(
            "its encoder is larger than the stored weights: it describes "
            f"{num_described} numbers, and {num_stored} are stored."
        )


def _num_weights(config):
    """Return the number of numbers in the weights of a serialized model, without
    allocating memory for them: in a graph that is never run, variables have no values.
    """
    with tf.Graph().as_default():
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
    return sum(math.prod(variable.shape) for variable in model.variables)


def _reason_of(error):
    """Return why Keras could not load a file, in one sentence."""
    if isinstance(error, (zipfile.BadZipFile, OSError)):
        return "this file is damaged, or no .keras file."
    reason = str(error)
    unknown_class = re.search(r"Could not locate class '([^']+)'", reason)
    if unknown_class is not None:
        return (
            f"a layer of the class {brief(unknown_class[1])} is not known to Keras. Import its "
            "module, which must register it (keras.saving.register_keras_serializable)."
        )
    if "Lambda" in reason:
        return "its encoder has a Lambda layer, whose code Keras' safe mode does not run."
    if "Example error message" in reason:  # then the reason is the second paragraph
        reason = reason.split("\n\n")[1]
    reason = reason.split("\n")[0].strip()[:300]
    if isinstance(error, ValueError):
        return reason if reason.endswith(".") else f"{reason}."
    return f"it is incomplete, or from another version ({type(error).__name__}: {reason})."


def _rounded(captioner, precision):
    """Return a copy of a captioner whose weights are rounded as in a folder of this
    precision.
    """
    options = captioner.current_options()
    kept = {name: options[name] for name in TERMS if name in options}
    rounded = captioner.adapted(dtype=captioner.decoder.dtype_policy.name, **kept)
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
    """Return the shapes that a captioner was built for and the layers that are not
    trained; None if it is not built.
    """
    if not captioner.built:
        return None
    frozen = [layer.path for layer in captioner._flatten_layers() if not layer.trainable]
    return {
        "feature_shape": [*captioner.feature_shape],
        "rows_and_columns": [*captioner.rows_and_columns()],
        "frozen_layers": frozen,
    }


def from_config(kind, config):
    """Return a captioner of the class `kind` from the result of `get_config`, without
    reading a file: a trained encoder has random weights until others are assigned.
    (The weights of the bundled encoder are part of the package, and are read.)
    """
    config = without_removed("This file", config, is_saved=True)
    encoder, weights = config.get("encoder"), config.get("encoder_weights", "imagenet")
    if isinstance(encoder, dict):
        encoder = keras.saving.deserialize_keras_object(encoder)
    weights_to_read = BUNDLED if weights == BUNDLED else None
    captioner = kind(**{**config, "encoder": encoder, "encoder_weights": weights_to_read})
    captioner.photo_encoder.note_weights(weights)
    return captioner


def build_from_config(captioner, config):
    """Create the weights of a captioner for the shapes that `build_config` returned."""
    options = captioner.current_options()
    reject_claims(options, config["feature_shape"], len(captioner.vocabulary), MOST_NUMBERS)
    captioner.build(((None, *config["feature_shape"]), (None, None)))
    reject_grid(config, captioner.num_regions)
    captioner.photo_encoder.saved_grid = tuple(config["rows_and_columns"])
    frozen = {*config.get("frozen_layers", [])}
    for layer in captioner._flatten_layers(include_self=False):
        if layer.path in frozen:
            layer.trainable = False


def check_encoder(captioner):
    """Raise ValueError if a captioner has an encoder whose weights are not at hand, so
    that no file can have them.
    """
    if captioner.encoder is None:
        return
    try:
        captioner.encoder_model  # noqa: B018 (made, and read, when it is first asked for)
    except (OSError, ValueError) as error:
        raise ValueError(
            "A file has all weights, and those of the encoder cannot be read here. Save a "
            f"folder, which has the encoder's name. {error}"
        ) from None


def save_assets(captioner, directory):
    """Write what a captioner's captions depend on besides its weights into a folder."""
    directory = Path(directory)
    records = {**records_of(captioner), **write_index(directory, index_of(captioner))}
    write_sealed_json(directory / RECORDS, records)


def load_assets(captioner, directory):
    """Give a captioner what `save_assets` wrote."""
    directory = Path(directory)
    if not (directory / RECORDS).is_file():
        return
    records = read_sealed_json(directory / RECORDS, EXPECTED)
    if INDEX in records:
        # The name alone: the file lies beside its record.
        records[INDEX] = read_arrays(directory / Path(records[INDEX]).name, EXPECTED)
    restore_records(captioner, records)
