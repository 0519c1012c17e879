"""The record of a training run: arguments.json has its arguments, and a checksum of
photos' ids, captions and sizes; photos.json has the photos' times and digests.
"""

import base64
import contextlib
import json
import os
import zlib
from pathlib import Path

import keras
import numpy as np

from data_utils.base import brief, read_sealed_json, write_sealed_json
from data_utils.photos import PHOTO, find_changes, size_of
from keras_sat.files import CHECKPOINT_WAY_OUT
from keras_sat.network import ENCODERS
from keras_sat.removed_options import record_without_removed
from keras_sat.settings import CaptionerSettings, FitSettings

PHOTOS = "photos.json"
CAPTIONER = CaptionerSettings.names()
# The folders of the self-critical phase, and of a phase of earlier versions.
REWARDS, CONSISTENCY = "self_critical", "consistency"


def checksum(value):
    """Return a checksum of eight hexadecimal digits for a value that JSON can
    represent.
    """
    return f"{zlib.crc32(json.dumps(value).encode()):08x}"


def describe(arguments, images, initial_model):
    """Return the record of a training run, a dict for JSON, from its arguments, images
    and initial model or None.
    """
    photos = [
        [image.image_id, image.captions, image.split, _size_or_checksum(image.image_path)]
        for image in images
    ]
    described = {
        "data": f"{len(images)} photos, checksum {checksum(photos)}",
        "initial_model": None,
    }
    if initial_model is not None:
        described["initial_model"] = initial_model.weights_digest()
        described["initial_options"] = _checksum_of_options(initial_model)
    return json.loads(json.dumps({**described, **arguments}, default=_as_json))


def _checksum_of_options(captioner):
    """Return a checksum of the options that are not a captioner's defaults: it is the
    same in a version that has more options, or fewer.
    """
    defaults = CaptionerSettings.defaults()
    options = {
        name: value
        for name, value in captioner.current_options().items()
        if value != defaults[name]
    }
    options["name"] = captioner.name
    settings = json.dumps(options, sort_keys=True, default=repr)
    return f"{zlib.crc32(settings.encode()):08x}"


def _size_or_checksum(photo):
    """Return the size of a photo's file, or a checksum if the photo is in memory."""
    if isinstance(photo, (str, os.PathLike)):
        return size_of(photo)
    return zlib.crc32(np.ascontiguousarray(photo))


def _as_json(value):
    """Convert an object into JSON values that are the same in every process."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, keras.Model):
        digest = zlib.crc32(b"".join(weight.numpy().tobytes() for weight in value.weights))
        return f"a keras.Model {value.input_shape} to {value.output_shape}, checksum {digest:08x}"
    if hasattr(value, "get_config"):
        config = {name: option for name, option in value.get_config().items() if name != "name"}
        return {"class": type(value).__name__, **config}
    return getattr(value, "__qualname__", type(value).__name__)


def recorded_encoder(output_dir):
    """Return the name of the encoder used by the training run in a folder, or None if
    it is unknown.
    """
    encoder = _recorded(Path(output_dir).expanduser()).get("encoder")
    return encoder if isinstance(encoder, str) and encoder in ENCODERS else None


def record_to_resume(folder):
    """Return the record of the training run in a folder; None if it has no epoch yet,
    {} if the record cannot be read.

    Raise ValueError for a run of an earlier version with epochs of feature consistency:
    they are no part of its record, and the captioner went on from them.
    """
    if (folder / CONSISTENCY / "checkpoint").exists():
        phases = (REWARDS, CONSISTENCY)
        last = next(phase for phase in phases if (folder / phase / "checkpoint").exists())
        raise ValueError(
            f"{folder}: this run had epochs of feature consistency, which this version has no "
            f"more. Its captioner is {str(folder / last / 'model')!r}. To train it further, pass "
            "that as initial_model, and another output_dir; epochs=0 if only "
            "self_critical_epochs are left."
        )
    if not (folder / "checkpoint").exists():
        return None
    return _recorded(folder)


def _recorded(folder):
    """Return the record of the training run in a folder; {} if there is none."""
    with contextlib.suppress(OSError, ValueError):  # `record_arguments` reports the error
        return read_sealed_json(folder / "arguments.json", "arguments of a training run")
    return {}


def record_arguments(output_dir, described, epochs, *, has_ended=False):
    """Write arguments.json, or reject a folder whose epochs were trained with other
    arguments.

    Args:
        described: the result of `describe`.
        epochs: the metrics of the epochs so far.
        has_ended: whether the training is finished and is only loaded.
    """
    path = output_dir / "arguments.json"
    foreign = [
        name
        for name in ("model", "checkpoint", "history.csv", "logs")
        if (output_dir / name).exists()
    ]
    if foreign and not path.exists():
        raise ValueError(
            f"The folder contains a {foreign[0]}, but no arguments.json, which keras_sat writes "
            "at the start of each training. Choose another folder, or put that file back. "
            f"Received: output_dir={str(output_dir)!r}"
        )
    recorded = described
    if epochs:
        recorded = read_sealed_json(path, "the arguments of a training run", CHECKPOINT_WAY_OUT)
        recorded = _as_written_today(recorded, described, output_dir)
    names = [
        name for name in {**described, **recorded} if recorded.get(name) != described.get(name)
    ]
    # These may change: the result so far is the same, unless the learning rate depends
    # on `epochs`.
    may_change = {"patience", "minutes"}
    if described["schedule"] == "constant":
        may_change.add("epochs")
    if recorded.get("deterministic"):  # may be switched off, but not on after the start
        may_change.add("deterministic")
    if not {*names} <= may_change:
        differences = "; ".join(
            f"{name} was {recorded.get(name)!r} and is {described.get(name)!r}" for name in names
        )
        raise ValueError(
            f"The folder has a training run with other arguments: {differences}. Pass the "
            "same arguments to resume it, or another output_dir "
            "(initial_model=FOLDER/model starts from its weights). "
            f"Received: output_dir={str(output_dir)!r}"
        )
    if not has_ended:
        write_sealed_json(path, described)


def _as_written_today(recorded, described, folder):
    """Return the record of a run, which an earlier version may have written, as this
    version would have written it.

    An option that is gone, and had no effect, is left out; one that is new has its
    default: {"epochs": 3, "consistency_epochs": 0} from before `minutes` becomes
    {"epochs": 3, "minutes": None}.
    """
    recorded = record_without_removed(folder, recorded)
    if recorded.get("initial_model") is not None and "initial_options" not in recorded:
        # The two were one, with a checksum of all options, also of those that are gone.
        recorded["initial_model"] = recorded["initial_model"].partition("-")[0]
        recorded["initial_options"] = described.get("initial_options")
    # An option that was added since is not in the record. It had no effect then, as
    # with its default. Those of an initial model are recorded only if they were passed.
    defaults = FitSettings.defaults()
    if recorded.get("initial_model") is not None:
        defaults = {name: defaults[name] for name in defaults if name not in CAPTIONER}
    added = [name for name in defaults if name in described and name not in recorded]
    return recorded | {name: defaults[name] for name in added}


def record_photos(folder, images, records):
    """Write photos.json, unless all photos are in memory.

    Args:
        images: list of CaptionedImage.
        records: dict from image ids to PHOTO; photos that are not in it are not read.
    """
    photos = np.zeros(len(images), PHOTO)
    for number, image in enumerate(images):
        if image.image_id in records:
            photos[number] = records[image.image_id]
    if photos["digest"].any():
        _write_photos(folder / PHOTOS, photos)


def reject_changed_photos(folder, images, *, show_progress=False):
    """Raise ValueError if the files of photos have changed since photos.json was
    written.

    Files whose size or time differs are read. Runs of earlier versions have no such
    record.

    Args:
        images: list of CaptionedImage, those of the training run.
        show_progress: show progress on standard error if many files are read.
    """
    path = folder / PHOTOS
    if not path.exists():
        return
    recorded = _read_photos(path, len(images))
    paths = [image.image_path for image in images]
    changed, current = find_changes(recorded, paths, show_progress=show_progress)
    if changed:
        image = images[changed[0]]
        raise ValueError(
            f"Photos have changed since this training run read them: {len(changed)} (first: "
            f"{brief(image.image_id)}, {image.image_path}). Restore them, or pass another "
            "output_dir (initial_model=FOLDER/model starts from its weights). "
            f"Received: output_dir={str(folder)!r}"
        )
    if (current != recorded).any():  # copies are read once
        _write_photos(path, current)


def _write_photos(path, photos):
    content = base64.b64encode(photos.tobytes()).decode("ascii")
    write_sealed_json(path, {"photos": content})


def _read_photos(path, number):
    """Return the array (number,) of PHOTO in photos.json."""
    expected = f"the record of the {number} photos of a training run"
    way_out = "Remove it: the photos then count as unchanged."
    content = read_sealed_json(path, expected, way_out).get("photos", "")
    with contextlib.suppress(TypeError, ValueError):
        photos = np.frombuffer(base64.b64decode(content, validate=True), PHOTO)
        if len(photos) == number:
            return photos
    raise ValueError(f"{path}: the file is of the wrong kind. Expected: {expected}. {way_out}")
