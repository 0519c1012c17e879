"""Saving and loading captioners."""

import json
import warnings
import zlib
from pathlib import Path

import numpy as np

from data_utils.base import brief, exclusive_lock, read_sealed_json, write_sealed_json
from data_utils.seen_photos import from_settings
from keras_sat.checks import checked_path
from keras_sat.files.keras_file import load_file, save_file
from keras_sat.files.model_folder import (
    BUNDLED_MODELS,
    EXPECTED_MODEL,
    WAY_OUT,
    assign_arrays,
    is_keras_file,
    read_model,
    write_index,
    write_model,
)
from keras_sat.files.records import index_of, records_of, restore_records
from keras_sat.files.untrusted_settings import named_errors, reject_claims, reject_grid
from keras_sat.network import BUNDLED
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.removed_options import without_removed

# Of models in one file that are not Keras' own format of today.
OTHER_ENDINGS = (".h5", ".hdf5", ".zip", ".npz")


def save(captioner, directory, overwrite, precision):
    """Write the settings, vocabulary and weights of a captioner.

    See `Captioner.save`.
    """
    reject_unbuilt(captioner, "save")
    path = checked_path(directory, "directory")
    is_misspelt = path.suffix.lower() == ".keras" != path.suffix  # as Keras sees it
    if path.suffix.lower() in OTHER_ENDINGS or is_misspelt:
        raise ValueError(
            "A captioner is saved as a folder, or as one file that ends with .keras. "
            f"Received: {str(directory)!r}"
        )
    if not overwrite and (path.is_file() or (path / "config.json").exists()):
        raise ValueError(
            f"There is a model already. Received: overwrite=False, path={str(directory)!r}"
        )
    if is_keras_file(path):
        save_file(captioner, path, precision)
        return
    options = {
        name: x.item() if isinstance(x, np.generic) else x
        for name, x in {"name": captioner.name, **captioner.current_options()}.items()
    }
    settings = {
        "captioner": options,
        "feature_shape": list(captioner.feature_shape),
        "rows_and_columns": list(captioner.rows_and_columns()),
        "has_own_encoder": captioner.photo_encoder.is_custom,
        **records_of(captioner),
    }
    arrays = {name: np.asarray(variable) for name, variable in captioner.named_weights().items()}
    write_model(directory, settings, captioner.vocabulary, arrays, precision, index_of(captioner))


def save_records(captioner, directory, *, consensus_weight=None):
    """Add confidence, index and `consensus_weight` to a captioner's folder.

    None saves the captioner's own weight.
    """
    if consensus_weight is None:
        consensus_weight = captioner.search_settings.consensus_weight
    directory = Path(directory).expanduser()
    with exclusive_lock(directory / "lock", f"is saving a model into {directory}"):
        settings = read_sealed_json(directory / "config.json", EXPECTED_MODEL, WAY_OUT)
        if captioner.confidence is not None:
            settings["confidence"] = captioner.confidence.to_dict()
            # Version 0.1.0 would correct the new confidence by it.
            settings.pop("second_opinion", None)
        settings["files"] |= write_index(directory, index_of(captioner))
        settings["captioner"]["consensus_weight"] = consensus_weight
        write_sealed_json(directory / "config.json", settings)


def load(kind, directory, encoder, encoder_weights):
    """Load a captioner from a folder as an instance of the class `kind`.

    See `Captioner.load`.
    """
    directory = checked_path(directory, "directory")
    if is_keras_file(directory):
        given = {"encoder": encoder, "encoder_weights": encoder_weights}
        return load_file(directory, [name for name, value in given.items() if value is not None])
    settings, vocabulary, arrays = read_model(directory)
    with named_errors(directory):
        settings["captioner"] = without_removed(directory, settings["captioner"], is_saved=True)
        num_stored = sum(array.size for array in arrays.values())
        reject_claims(settings["captioner"], settings["feature_shape"], len(vocabulary), num_stored)
        has_encoder = any(name.startswith("encoder/") for name in arrays)
        captioner = _made_from(settings, kind, vocabulary, encoder, encoder_weights, has_encoder)
        reject_grid(settings, captioner.num_regions)
        _restore_encoder(settings, captioner, encoder, encoder_weights, has_encoder)
        restore_records(captioner, settings)
    assign_arrays(captioner.named_weights(), arrays, directory)
    if captioner.photo_encoder.is_present:  # others are read when they are first used
        with named_errors(directory):
            captioner.photo_encoder.check_saved_shapes(captioner.feature_shape)
    return captioner


def _made_from(settings, kind, vocabulary, encoder, encoder_weights, has_encoder):
    """Build a captioner from saved settings; its weights are still random."""
    options = dict(settings["captioner"])
    is_custom = settings["has_own_encoder"]
    is_trained = options["encoder_training"] != "frozen"
    if is_custom and is_trained and encoder is None:
        problem = (
            "This captioner was trained with a custom encoder. Pass a model of its "
            "architecture as `encoder`."
        )
        raise ValueError(
            f"{problem} Received: encoder=None (the name was {brief(options['encoder'])})"
        )
    if is_trained or has_encoder:
        options["encoder_weights"] = None  # they are in the folder
        if encoder_weights is not None:
            ignored = f"encoder_weights={encoder_weights!r} is ignored."
            warnings.warn(
                f"This captioner was saved with its whole encoder: {ignored}", stacklevel=4
            )
    elif encoder_weights == BUNDLED:
        raise ValueError(
            "Bundled encoder weights are only for a new captioner, not for a saved one. "
            f"Received: {encoder_weights=}"
        )
    elif encoder_weights is not None:
        options["encoder_weights"] = encoder_weights
    if encoder is not None:
        options["encoder"] = encoder
    elif is_custom:
        options["encoder"] = None
    options["grid_shape"] = None  # `_restore_encoder` sets it: the saved grid counts
    captioner = kind(vocabulary, **options)
    captioner.build(((None, *settings["feature_shape"]), (None, None)))
    return captioner


def _restore_encoder(settings, captioner, encoder, encoder_weights, has_encoder):
    """Set name, weights and grid of an encoder that was built without them."""
    options, saved_grid = settings["captioner"], settings["rows_and_columns"]
    if encoder is None:
        captioner.photo_encoder.name = options["encoder"]
        captioner.photo_encoder.is_custom = settings["has_own_encoder"]
    is_read = captioner.photo_encoder.is_frozen and not has_encoder
    captioner.photo_encoder.set_saved_state(
        weights=encoder_weights if encoder_weights and is_read else options["encoder_weights"],
        grid_shape=None if options["grid_shape"] is None else saved_grid,
        saved_grid=saved_grid,
        from_captioner=has_encoder,
    )


def bundled_encoder(name):
    """Return the encoder arrays, `photo_blur` and `training_photos` of the bundled
    captioner if `name` is its encoder.
    """
    settings, _, arrays = read_model(BUNDLED_MODELS / DEFAULT_MODEL)
    bundled_name = settings["captioner"]["encoder"]
    if name != bundled_name:
        raise ValueError(
            f'"bundled" weights are for the bundled captioner\'s encoder, {bundled_name}. Choose '
            "that encoder, or pass the "
            f"path of a weights file. Received: encoder_weights='{BUNDLED}' with "
            f"encoder={brief(name)}"
        )
    # numbered, in the order of the layers
    names = sorted(name for name in arrays if name.startswith("encoder/"))
    encoder_arrays = [arrays[name] for name in names]
    return encoder_arrays, settings["captioner"]["photo_blur"], from_settings(settings)


def restore_weights(captioner, directory):
    """Load the weights in a folder into a captioner.

    See `Captioner.restore_weights`.
    """
    settings, vocabulary, arrays = read_model(directory)
    if vocabulary != captioner.vocabulary:
        raise ValueError(f"{directory}: the captioner in this folder has a different vocabulary.")
    assign_arrays(captioner.named_weights(), arrays, directory)
    with named_errors(directory):
        restore_records(captioner, settings)


def weights_digest(captioner):
    """Return a digest of a captioner's vocabulary and weights.

    See `Captioner.weights_digest`.
    """
    digest = zlib.crc32(json.dumps(captioner.vocabulary.words).encode())
    for name, weight in captioner.named_weights().items():
        digest = zlib.crc32(name.encode(), digest)
        digest = zlib.crc32(np.ascontiguousarray(weight.numpy()), digest)
    return f"{digest:08x}"


def reject_unbuilt(captioner, verb):
    """Raise ValueError for a captioner that has no weights yet."""
    if not captioner.built:
        raise ValueError(
            f"There is nothing to {verb}: a captioner has no weights until it is built. "
            "Call `build`, caption "
            "photos, or train it first. Received: a captioner that is not built"
        )
