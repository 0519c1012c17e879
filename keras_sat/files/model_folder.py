"""Reads and writes model folders, which contain the settings, vocabulary and weights of
a trained captioner.

    config.json               settings, the confidence, if any, and the names of the
                              other files with their digests
    vocabulary-DIGEST.json    the words
    weights-DIGEST.npz        named arrays; rounded ones have 16 bits, or 8 bits and a
                              scale per column (matrices)
    index-DIGEST.npz          optional: the index of training photos, see
                              `keras_sat.after_search.consensus`
    encoder-DIGEST.npz        the encoder's arrays; bundled models with equal encoders
                              share it, in pretrained/encoders
    graph.json                of bundled models, see `keras_sat.export.litert_graph`
    lock                      empty; it lets one process save at a time

The files contain only data: nothing is executed when they are read. Saving into the
same folder again writes new files next to the old ones and then replaces config.json: a
save that is killed leaves the previous model.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np

from data_utils.base import (
    check_is_file,
    exclusive_lock,
    expectation,
    file_digest,
    read_sealed_json,
    write_sealed_json,
    write_whole,
)
from data_utils.vocabulary import Vocabulary
from keras_sat.bounds import one_of
from keras_sat.checks import checked_path, near_name
from keras_sat.files.hub import hub_folder, is_on_hub
from keras_sat.files.rounding import SCALE, rounded_to_8_bits
from keras_sat.presets import DEFAULT_MODEL

FORMAT_VERSION = 1
BUNDLED_MODELS = Path(__file__).parent / "pretrained"
BUNDLED_ENCODERS = BUNDLED_MODELS / "encoders"
WEIGHTS_LICENSE = BUNDLED_MODELS / "WEIGHTS_LICENSE.txt"
EXPECTED_MODEL = "a captioner that Captioner.save wrote"
WAY_OUT = "Copy the whole folder again, or save the captioner again."
# `objects` are from version 0.1.0: they are not read, and the next save removes them.
OURS = re.compile(
    r"lock(-journal)?|config\.json|vocabulary-[0-9a-f]{16}\.json"
    r"|(weights|encoder|index|objects)-[0-9a-f]{16}\.npz"
    r"|\.(config|weights|vocabulary|encoder|index|objects).*\.part"
)
ENCODER = "encoder"  # may have a separate file; prefix of the names of its arrays
INDEX = "index"


def write_model(directory, settings, vocabulary, arrays, precision="float32", index=None):
    """Write a model folder, or replace the model in it.

    Args:
        directory: created if needed. A folder that contains other files is rejected.
        settings: dict that JSON can represent.
        vocabulary: Vocabulary.
        arrays: dict from names to numpy arrays.
        precision: of the arrays on disk: "float32", "float16" or "int8".
        index: the arrays of a Consensus, or None.
    """
    one_of("float32", "float16", "int8").check("precision", precision)
    directory = Path(directory).expanduser()
    _reject_foreign_files(directory)
    json.dumps(settings)  # fails before anything is written
    arrays = _rounded(arrays, precision)
    with exclusive_lock(directory / "lock", f"is saving a model into {directory}"):
        weights = write_arrays(directory, "weights", arrays)
        files = {"weights": weights, "vocabulary": f"vocabulary-{vocabulary.digest}.json"}
        files |= write_index(directory, index)
        content = {"format": "captioner", "version": FORMAT_VERSION, "files": files, **settings}
        vocabulary.save(directory / files["vocabulary"])
        write_sealed_json(directory / "config.json", content)
        remove_others(directory, OURS, ["config.json", "lock", "lock-journal", *files.values()])


def write_index(directory, arrays):
    """Write the arrays of a Consensus, or None, into a folder.

    Return a dict from INDEX to the name of the file, which is empty without arrays.
    """
    return {} if arrays is None else {INDEX: write_arrays(directory, INDEX, arrays)}


def copy_of_model(directory, copy):
    """Copy a model into a new or empty folder; return its path."""
    directory, copy = Path(directory), Path(copy).expanduser()
    reject_taken_folder(copy)
    read_model(directory)  # rejects a damaged model with one clear error
    files = read_sealed_json(directory / "config.json", EXPECTED_MODEL, WAY_OUT)["files"].values()
    for name in (*files, "config.json"):  # which lists the others, and is written last
        write_whole(copy / name, _path_of(directory, name).read_bytes())
    return copy


def reject_taken_folder(directory):
    """Raise ValueError if a folder exists and is not empty."""
    directory = Path(directory).expanduser()
    if directory.is_file() or any(directory.glob("*")):
        raise ValueError(
            "A model can only be copied to a new or empty folder. Received: "
            f"{str(directory)!r}, which is not empty"
        )


def remove_others(directory, pattern, kept):
    """Remove the files of a folder that match `pattern`, except those in `kept`."""
    for path in directory.iterdir():
        if pattern.fullmatch(path.name) and path.name not in kept:
            with contextlib.suppress(OSError):  # a file that cannot be removed does no harm
                path.unlink()


def _reject_foreign_files(directory):
    """Raise ValueError for a folder with files other than a model or the leftovers of
    an interrupted save.
    """
    if (directory / "config.json").is_file():
        read_sealed_json(
            directory / "config.json", EXPECTED_MODEL, "Choose another folder, or remove this file."
        )
    elif directory.is_file() or not all(OURS.fullmatch(path.name) for path in directory.glob("*")):
        problem = (
            "A model must have its own folder. Choose a new or empty folder, or one that "
            "contains only a model."
        )
        raise ValueError(f"{problem} Received: directory={str(directory)!r}")


def read_model(directory):
    """Read a model folder and return the settings, the Vocabulary and a dict of arrays.

    The names of the encoder's arrays start with "encoder/". Under INDEX, the settings
    have the arrays of the index, if any. An incomplete or damaged folder is a
    ValueError.
    """
    directory = Path(directory).expanduser()
    config, inside = directory / "config.json", directory / "model"
    if directory.is_file():
        raise ValueError(_no_model(directory))
    if not config.is_file():
        hint = f" Did you mean {inside}?" if (inside / "config.json").is_file() else ""
        raise ValueError(
            f"{directory}: this folder has no model (config.json is missing). Expected: "
            f"{EXPECTED_MODEL}.{hint}"
        )
    settings = read_sealed_json(config, EXPECTED_MODEL, WAY_OUT)
    try:
        return _read_files(directory, dict(settings))
    except (OSError, ValueError):
        if read_sealed_json(config, EXPECTED_MODEL, WAY_OUT) == settings:
            raise
    # Another process has just replaced the model, and removed its old files.
    return read_model(directory)


def _no_model(file):
    """Return the message about a file that stands where a model should."""
    return (
        f"{file}: this file is no model. Expected: a folder, or a file that ends with .keras, "
        "that Captioner.save wrote."
    )


def _read_files(directory, settings):
    """Read the files listed in the settings; see `read_model`."""
    config = directory / "config.json"
    kind, version, files = (settings.pop(name, None) for name in ("format", "version", "files"))
    is_whole = False
    if isinstance(files, dict) and {"weights", "vocabulary"} <= files.keys():
        is_whole = all(isinstance(name, str) and OURS.fullmatch(name) for name in files.values())
    if (kind, version) != ("captioner", FORMAT_VERSION) or not is_whole:
        raise ValueError(
            f"{config}: this is not a model, or it was saved by another version of "
            f"keras_sat. Expected: {EXPECTED_MODEL}, "
            f"version {FORMAT_VERSION}. Received: {str(kind)[:80]}, version {str(version)[:80]}"
        )
    path, words_path = directory / files["weights"], directory / files["vocabulary"]
    try:
        vocabulary = Vocabulary.load(words_path)
    except OSError as error:
        raise ValueError(
            f"{words_path}: this file cannot be read ({error.strerror}). {WAY_OUT}"
        ) from None
    if words_path.name != f"vocabulary-{vocabulary.digest}.json":
        raise ValueError(f"{words_path}: this vocabulary belongs to another model. {WAY_OUT}")
    arrays = _unrounded(read_arrays(path, EXPECTED_MODEL, WAY_OUT), path)
    if ENCODER in files:
        encoder_path = _path_of(directory, files[ENCODER])
        stored = _unrounded(read_arrays(encoder_path, EXPECTED_MODEL, WAY_OUT), encoder_path)
        arrays |= {f"{ENCODER}/{name}": array for name, array in stored.items()}
    if INDEX in files:
        settings[INDEX] = read_arrays(_path_of(directory, files[INDEX]), EXPECTED_MODEL, WAY_OUT)
    return settings, vocabulary, arrays


def _path_of(directory, name):
    """Return the path of a file in a model folder, or in the folder of the files that
    bundled models share.
    """
    is_shared = (
        name.startswith((ENCODER, INDEX)) and directory.resolve().parent == BUNDLED_MODELS.resolve()
    )
    return (BUNDLED_ENCODERS if is_shared else directory) / name


def _rounded(arrays, precision):
    """Round arrays to the precision used on disk; return a dict of arrays.

    With "int8" each matrix has 8 bits per number and a scale per column. Vectors keep
    32 bits. Convolution kernels get 16: errors add up over layers, and 8 bits cost up
    to .8 BLEU-4 in an encoder's last layers, none in the decoder.
    """
    if precision == "float32":
        return arrays
    stored = {}
    for name, array in arrays.items():
        is_halved = precision == "float16" or array.ndim > 2
        largest = np.finfo("float16" if is_halved else "float32").max
        if not (np.abs(array) <= largest).all():
            raise ValueError(
                f"{name} contains values that are NaN, infinite or too large for this "
                f"precision. Received: {precision=}"
            )
        if is_halved:
            stored[name] = array.astype(np.float16)
        elif array.ndim == 2:
            stored[name], stored[name + SCALE] = rounded_to_8_bits(array, axis=1)
        else:
            stored[name] = array
    return stored


def _unrounded(stored, path):
    """Convert stored arrays back to float32."""
    arrays = {}
    for name, array in stored.items():
        if name.endswith(SCALE):
            continue
        if array.dtype == np.int8:
            if name + SCALE not in stored or stored[name + SCALE].shape != (1, *array.shape[1:]):
                raise ValueError(
                    f"{path}: the scales of {name} are missing. Expected: {EXPECTED_MODEL}."
                )
            array = array * stored[name + SCALE]
        arrays[name] = array.astype(np.float32, copy=False)
        if not np.isfinite(arrays[name]).all():
            raise ValueError(
                f"{path}: {name} contains NaN or infinite values. "
                f"{expectation(EXPECTED_MODEL, WAY_OUT)}"
            )
    return arrays


def round_trip(arrays, precision):
    """Return arrays with the values that they have after they were stored with this
    precision.
    """
    return _unrounded(_rounded(arrays, precision), "the weights")


def assign_arrays(variables, arrays, source):
    """Assign arrays to variables (two dicts with the same names).

    Error messages start with `source`.
    """
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    received = {name: array.shape for name, array in arrays.items()}
    for name in expected | received:
        if expected.get(name) != received.get(name):
            problem = (
                f"{source}: the weights do not fit the model. Expected: {expected.get(name)} "
                f"for {name[:80]}."
            )
            raise ValueError(f"{problem} Received: {received.get(name)}")
    for name, variable in variables.items():
        variable.assign(arrays[name])


def write_arrays(directory, kind, arrays):
    """Write arrays to the file KIND-DIGEST.npz in a folder, and return its name."""
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    content = packed.getvalue()
    name = f"{kind}-{_digest(content)}.npz"
    write_whole(directory / name, content)
    return name


def read_arrays(path, expected, way_out=""):
    """Read the arrays that `write_arrays` wrote.

    Raise ValueError, see `read_json`, for a damaged or missing file.
    """
    hint = expectation(expected, way_out)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: this file is missing or cannot be read ({error.strerror}). {hint}"
        ) from None
    if not path.name.endswith(f"-{_digest(content)}.npz"):
        raise ValueError(
            f"{path}: this file is damaged (its content does not match its digest). {hint}"
        )
    with contextlib.suppress(Exception):  # of many kinds: numpy parses an untrusted header
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_small = sum(entry.file_size for entry in archive.infolist()) <= len(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files} if is_small else {}
        if is_small and all(array.dtype.kind in "biuf" for array in arrays.values()):
            return arrays
    raise ValueError(
        f"{path}: this is not an uncompressed file of numeric arrays, as written by "
        f"numpy.savez. {hint}"
    )


def pretrained_names():
    """Return the names of the bundled models."""
    return sorted(
        path.name for path in BUNDLED_MODELS.glob("*") if (path / "config.json").is_file()
    )


def pretrained_directory(name):
    """Return the folder of a bundled model."""
    names = pretrained_names()
    if name not in names:
        problem = (
            "There is no folder or bundled model with this name. Expected one of: "
            f"{', '.join(names)}."
        )
        raise ValueError(f"{problem} Received: name={name!r}.{near_name(str(name), names)}")
    return BUNDLED_MODELS / name


def is_keras_file(path):
    """Return whether a path, or None, is that of one file in Keras' format, and no
    folder.
    """
    return path is not None and os.fspath(path).endswith(".keras") and not os.path.isdir(path)


def model_digest(path):
    """Return a digest of the saved model at a path that `model_directory` returned."""
    return file_digest(path if path.is_file() else path / "config.json")


def model_directory(model):
    """Return the folder of a saved model, or of the bundled model with this name; for a
    model in one .keras file, the path of the file.

    Args:
        model: a folder, a file, a name, or an address on the hub, which is downloaded;
            None: the bundled photo captioner, even if a local folder has its name.
    """
    if model is None:
        return BUNDLED_MODELS / DEFAULT_MODEL
    if is_on_hub(model):
        return hub_folder(model)
    folder = checked_path(model, "model")
    if is_keras_file(folder):
        check_is_file(folder, "model")
        return folder
    if folder.is_dir() and (
        (folder / "config.json").exists() or str(model) not in pretrained_names()
    ):
        return folder  # a folder of photos may be called "scenes" too
    if folder.is_file() and str(model) not in pretrained_names():
        raise ValueError(_no_model(folder))
    return pretrained_directory(os.fspath(model))


def _digest(content):
    return hashlib.sha256(content).hexdigest()[:16]
