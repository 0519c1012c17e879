"""Lists of photos that need not fit into memory, for captions in parts.

A folder of captions contains

    _photos.jsonl     the paths, one JSON string a line, as the first run found them
    _settings.json    the settings of the first run, which later runs must share, and a
                      digest of the paths
"""

import errno
import glob
import itertools
import json
import os
import warnings
from typing import NamedTuple

import numpy as np

from data_utils.base import file_digest, read_sealed_json, write_sealed_json
from data_utils.captions import IMAGE_ENDINGS, pictures_by_folder
from data_utils.features import reject_differences
from data_utils.photos import find_pictures


class Part(NamedTuple):
    """Some of the lines of a list.

    Attributes:
        start: the first byte.
        num_bytes, num_photos: the size of the part.
    """

    start: int
    num_bytes: int
    num_photos: int


def list_of_photos(folder, settings):
    """Return the path of the list of photos in a folder, written by the first run.

    Reject other settings than those of that run.

    Args:
        folder: the Path of a folder of captions.
        settings: dict with "images", "recursive", and others that later runs must
            share; see `distributed_caption`.
    """
    path, settings_path = folder / "_photos.jsonl", folder / "_settings.json"
    if not settings_path.exists():
        if any(folder.glob("part-*")):
            problem = f"{folder} contains parts of captions, but not their settings"
            raise ValueError(f"{problem}. Choose another folder (--output).")
        with open(path, "wb") as file:
            file.writelines(_lines(settings))
            file.flush()
            os.fsync(file.fileno())
        write_sealed_json(settings_path, {**settings, "photos_digest": file_digest(path)})
        return path
    way_out = f"Choose another folder (--output); the parts in {folder} can still be read."
    first_settings = read_sealed_json(settings_path, "settings of captions", way_out)
    reject_differences(first_settings, settings, folder)
    # None in folders from before there was a digest.
    digest = first_settings.get("photos_digest")
    if not path.is_file() or digest not in (None, file_digest(path)):
        problem = f"{path}: the list of photos is missing or was changed"
        raise ValueError(f"{problem}, so the rest of it cannot be captioned. {way_out}")
    _warn_of_added_photos(path, settings)
    return path


def parts_of(path, part_size):
    """Yield the Parts of the list at a path, with at most `part_size` photos each."""
    with open(path, "rb") as lines:
        start = 0
        while True:
            sizes = [len(line) for line in itertools.islice(lines, part_size)]
            if not sizes:
                return
            yield Part(start, sum(sizes), len(sizes))
            start += sum(sizes)


def photos_of_part(path, part):
    """Return the paths and addresses of the photos in a Part of the list at a path."""
    with open(path, "rb") as file:
        file.seek(part.start)
        lines = file.read(part.num_bytes).splitlines()
    return [json.loads(line) for line in lines]


def absolute(path):
    """Return a path or address that means the same in all processes.

    Anything else stays as it is.
    """
    is_path = isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path)
    return os.path.abspath(os.path.expanduser(path)) if is_path else path


def _lines(settings):
    """Yield the lines of the list of photos."""
    if not settings["images"]:
        raise ValueError("No photos were found. Received: images=[]")
    for photo in photos_in(settings["images"], settings["recursive"]):
        yield json.dumps(photo).encode() + b"\n"


def _warn_of_added_photos(path, settings):
    """Warn of photos that the first run did not find.

    Ten million photos take 160 MB of memory: two hashes each.
    """
    with open(path, "rb") as lines:
        listed_photos = np.fromiter(map(hash, lines), np.int64)
    try:
        photos_now = np.fromiter(map(hash, _lines(settings)), np.int64)
    except Exception:  # they were moved since; file systems have their own kinds of errors
        return
    num_added = len(np.setdiff1d(photos_now, listed_photos))
    if num_added:
        problem = f"{num_added} photos were added after the first run and are left out"
        way_out = "list their paths in a .txt file, and choose another folder (--output)"
        warnings.warn(f"{problem}. To caption them, {way_out}.", stacklevel=2)


def photos_in(images, recursive):
    """Yield the paths and addresses of photos; see `distributed_caption`."""
    for image in images:
        photos = _photos_of(image, recursive)
        first = next(photos, None)
        if first is None:
            raise ValueError(f"{image}: no pictures were found here.")
        yield first
        yield from photos


def _photos_of(image, recursive):
    """Yield the photos that one of `images` stands for."""
    if "://" in image:
        yield from _photos_at(image, recursive)
    elif image.endswith(".txt") and not os.path.isdir(image):
        with open(image, encoding="utf-8-sig", errors="surrogateescape") as lines:
            yield from (absolute(line.rstrip("\r\n")) for line in lines if line.strip())
    elif recursive and os.path.isdir(image):
        yield from itertools.chain.from_iterable(pictures_by_folder(image))
    else:
        paths = find_pictures(image)
        if paths == [image] and not os.path.exists(image):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), image)
        yield from (path for path in paths if not os.path.isdir(path))


def _photos_at(address, recursive):
    """Yield the addresses of a photo, of a pattern's photos, or of a folder's."""
    try:
        import fsspec

        files, root = fsspec.url_to_fs(address)
    # The package for s3 or gcs is missing, or the protocol is unknown.
    except (ImportError, ValueError) as error:
        raise ValueError(f"{address}: {error}") from None
    if glob.has_magic(root) or files.isfile(root):
        yield from map(files.unstrip_protocol, sorted(files.glob(root)))
        return
    for folder, _, names in files.walk(root, maxdepth=None if recursive else 1, on_error="raise"):
        for name in sorted(names):
            if name.lower().endswith(IMAGE_ENDINGS):
                yield files.unstrip_protocol(f"{folder}/{name}")
