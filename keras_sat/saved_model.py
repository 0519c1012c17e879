"""A trained captioner on the disk: one folder with its settings, its vocabulary and its weights.

    config.json               settings, and the names and digests of the other two files
    vocabulary-DIGEST.json    the words
    weights-DIGEST.npz        the arrays, named

All of it is data: nothing in there is executed when it is read. Saving again into the same folder writes new files
beside the old ones and then replaces config.json, so that a save which is killed leaves the model from before.
"""

import contextlib
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np

from data_utils.files import read_json, read_sealed_json, write_sealed_json, write_whole
from data_utils.vocabulary import Vocabulary

FORMAT_VERSION = 1
EXPECTED = "a captioner that Captioner.save wrote"
OURS = re.compile(
    r"config\.json|weights-[0-9a-f]{16}\.npz|vocabulary-[0-9a-f]{16}\.json|\.(config|weights|vocabulary).*\.part"
)


def write_model(directory, settings, vocabulary, arrays):
    """Write a model folder, or replace the model in it.

    Args:
        directory: made if it is not there. A folder that holds anything else is refused.
        settings: dict that JSON can hold.
        vocabulary: Vocabulary.
        arrays: dict from names to numpy arrays.
    """
    directory = Path(directory).expanduser()
    _refuse_foreign_files(directory)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    weights = packed.getvalue()
    files = {"weights": f"weights-{_digest(weights)}.npz", "vocabulary": f"vocabulary-{_words_digest(vocabulary)}.json"}
    content = {"format": "captioner", "version": FORMAT_VERSION, "files": files, **settings}
    json.dumps(content)  # settings that JSON cannot hold are noticed before anything is written
    write_whole(directory / files["weights"], weights)
    vocabulary.save(directory / files["vocabulary"])
    write_sealed_json(directory / "config.json", content)
    for path in directory.iterdir():
        if OURS.fullmatch(path.name) and path.name not in ("config.json", *files.values()):
            with contextlib.suppress(OSError):  # a file that cannot be removed does no harm
                path.unlink()


def _refuse_foreign_files(directory):
    """Raise ValueError where a folder holds anything but a model, or what a save that was killed left of one."""
    if not directory.exists():
        return
    if not directory.is_dir():
        foreign = True
    elif (directory / "config.json").exists():
        try:
            foreign = read_json(directory / "config.json").get("format") != "captioner"
        except (ValueError, OSError, AttributeError):
            foreign = True
    else:
        foreign = any(not OURS.fullmatch(path.name) for path in directory.iterdir())
    if foreign:
        raise ValueError(
            "A model is saved into a folder of its own: a new one, or that of a model which it replaces. "
            f"Received: directory={str(directory)!r}"
        )


def read_model(directory):
    """Return settings, Vocabulary and arrays; anything but a whole model folder is one clear ValueError."""
    directory = Path(directory).expanduser()
    if not directory.is_dir():
        raise ValueError(f"There is no such model folder. Received: directory={str(directory)!r}")
    if not (directory / "config.json").is_file():
        raise ValueError(f"{directory}: there is no config.json in this folder. Expected: {EXPECTED}.")
    settings = read_sealed_json(directory / "config.json", EXPECTED)
    if settings.pop("format", None) != "captioner":
        raise ValueError(f"{directory / 'config.json'}: this is something else. Expected: {EXPECTED}.")
    version = settings.pop("version", None)
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{directory}: another version of keras_sat saved this model. Expected: version {FORMAT_VERSION}. "
            f"Received: version {version}"
        )
    try:
        files = settings.pop("files")
        path, words_path = (directory / Path(files[name]).name for name in ("weights", "vocabulary"))
    except (KeyError, TypeError):
        raise ValueError(f"{directory / 'config.json'}: it names no files. Expected: {EXPECTED}.") from None
    try:
        content = path.read_bytes()
        vocabulary = Vocabulary.load(words_path)
    except FileNotFoundError as error:
        raise ValueError(f"{error.filename}: this file of the model is missing. Expected: {EXPECTED}.") from None
    except OSError as error:
        raise ValueError(f"{error.filename}: this file of the model cannot be read ({error.strerror}).") from None
    if words_path.name != f"vocabulary-{_words_digest(vocabulary)}.json":
        raise ValueError(f"{words_path}: this is the vocabulary of another model. Expected: {EXPECTED}.")
    if path.name != f"weights-{_digest(content)}.npz":
        raise ValueError(f"{path}: the file is damaged: its content does not match its digest. Expected: {EXPECTED}.")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files}
    except (ValueError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path}: the weights cannot be read ({error}). Expected: {EXPECTED}.") from None
    return settings, vocabulary, arrays


def _words_digest(vocabulary):
    return _digest(json.dumps(vocabulary.words).encode())


def _digest(content):
    return hashlib.sha256(content).hexdigest()[:16]
