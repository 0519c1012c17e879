"""The record of a training in its folder: the arguments and the photos that its result depends on.

arguments.json   the arguments, with a checksum of the photos' ids, captions and sizes
photos.json      size, time and digest of each photo's file, which tell whether it has changed; they are not among the
                 arguments, since the times of a copy differ
"""

import json
import os
import zlib
from pathlib import Path

import keras
import numpy as np

from data_utils.atomic_files import read_sealed_json, write_sealed_json
from data_utils.photo_digests import PHOTO, find_changes, size_of
from keras_sat.files.checkpoint import WAY_OUT
from keras_sat.model.encoders import ENCODERS


def checksum(value):
    """Return a checksum, eight digits, of anything that JSON can hold."""
    return f"{zlib.crc32(json.dumps(value).encode()):08x}"


def describe(arguments, images, initial_model):
    """Return what the result of a training depends on, as a dict that JSON can hold.

    Args:
        arguments: dict of arguments.
        images: list of CaptionedImage.
        initial_model: the Captioner that it starts from, or None.
    """
    photos = [[image.image_id, image.captions, image.split, _picture(image.image_path)] for image in images]
    described = {"data": f"{len(images)} photos, checksum {checksum(photos)}"}
    described["initial_model"] = None
    if initial_model is not None:
        settings = json.dumps(initial_model.get_config(), sort_keys=True, default=repr)
        described["initial_model"] = f"{initial_model.weights_digest()}-{zlib.crc32(settings.encode()):08x}"
    return json.loads(json.dumps({**described, **arguments}, default=_as_json))


def _picture(path):
    """Return what distinguishes pictures at low cost: the size of a file, or the checksum of an array."""
    if not isinstance(path, (str, os.PathLike)):
        return zlib.crc32(np.ascontiguousarray(path))
    return size_of(path)


def _as_json(value):
    """Return an argument that is an object as plain values that are the same in every process."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, keras.Model):
        digest = 0
        for weight in value.weights:
            digest = zlib.crc32(np.ascontiguousarray(weight.numpy()), digest)
        return f"a keras.Model {value.input_shape} to {value.output_shape}, checksum {digest:08x}"
    if hasattr(value, "get_config"):
        config = {name: option for name, option in value.get_config().items() if name != "name"}
        return {"class": type(value).__name__, **config}
    return getattr(value, "__qualname__", type(value).__name__)


def note_photos(output_dir, noted):
    """Write into the folder of a training which files its photos are; pictures in memory have none.

    Args:
        output_dir: the folder.
        noted: dict from ids to what is noted of photos, see `data_utils.photo_digests`.
    """
    files = {image_id: photo.item()[:3] for image_id, photo in noted.items() if photo["digest"]}
    if files:
        write_sealed_json(Path(output_dir) / "photos.json", {"photos": files})


def check_photos(output_dir, images, *, show_progress=False):
    """Raise ValueError where a photo has changed since the training in a folder started.

    Only files of another size or time are read. If they have the same bytes, the new times are written down.

    Args:
        output_dir: the folder.
        images: list of CaptionedImage.
        show_progress: show progress on standard error where many are read.
    """
    path = Path(output_dir) / "photos.json"
    if not path.exists():
        return
    files = read_sealed_json(path, "the photos of a training", WAY_OUT)["photos"]
    images = [image for image in images if image.image_id in files]
    before = np.zeros(len(images), PHOTO)
    for photo, image in zip(before, images):
        photo["size"], photo["mtime_ns"], photo["digest"] = files[image.image_id]
    changed, now = find_changes(before, [image.image_path for image in images], show_progress=show_progress)
    if changed:
        image = images[changed[0]]
        raise ValueError(
            f"The photo {image.image_id!r} has changed since the training in this folder started: {image.image_path} "
            "has other bytes. Put the old one back to resume, or pass another output_dir (initial_model=FOLDER/model "
            f"starts from its weights). Received: output_dir={str(output_dir)!r}"
        )
    if (now != before).any():
        note_photos(output_dir, dict(zip((image.image_id for image in images), now)))


def noted_encoder(output_dir):
    """Return the name of the encoder of the training in a folder, or None where there is none, or it has no name."""
    try:
        noted = read_sealed_json(Path(output_dir).expanduser() / "arguments.json", "the arguments of a training")
    except (OSError, ValueError):  # there are none; or `note_arguments` will say what is wrong with them
        return None
    encoder = noted.get("encoder")
    return encoder if isinstance(encoder, str) and encoder in ENCODERS else None


def note_arguments(output_dir, described, epochs, *, has_ended=False):
    """Write the arguments of a training into its folder; reject a folder that holds epochs with other arguments.

    Args:
        output_dir: the folder.
        described: what `describe` returned.
        epochs: the figures of the epochs so far.
        has_ended: whether the training has ended and is only loaded.
    """
    path = output_dir / "arguments.json"
    if not path.exists():
        foreign = [name for name in ("model", "checkpoint", "history.csv", "logs") if (output_dir / name).exists()]
        if foreign:
            raise ValueError(
                f"The folder holds a {foreign[0]} that is not from a training of keras_sat. Choose another one. "
                f"Received: output_dir={str(output_dir)!r}"
            )
    if not epochs:  # there are no epochs yet to which the arguments must fit
        write_sealed_json(path, described)
        return
    before = read_sealed_json(path, "the arguments of a training", WAY_OUT)
    names = [name for name in {**described, **before} if before.get(name) != described.get(name)]
    # When to stop may change: the epochs so far stay the same, unless the learning rate depends on it.
    may_change = {"epochs", "patience"} if described["schedule"] == "constant" else {"patience"}
    if before.get("deterministic"):  # may be switched off, but not on for epochs that are over
        may_change.add("deterministic")
    if {*names} <= may_change:
        if not has_ended:
            write_sealed_json(path, described)
        return
    differences = "; ".join(f"{name} was {before.get(name)!r} and is {described.get(name)!r}" for name in names)
    hint = ""
    if "initial_model" in names:
        hint = "from_scratch (--from-scratch) decides what photos of your own start from. "
    if "dtype" in names:
        hint += "dtype='auto' (--dtype auto) depends on the machine; the other ones can be passed by name. "
    raise ValueError(
        f"This folder holds a training with other arguments: {differences}. {hint}Pass the same ones to resume it, or "
        "another output_dir (initial_model=FOLDER/model starts from its weights). "
        f"Received: output_dir={str(output_dir)!r}"
    )
