"""Detect changed photos and copies by digests of the bytes of their files.

A photo has changed if its file differs in size or modification time, and in bytes: a
mere copy has a new time.
"""

import contextlib
import hashlib
import os

import numpy as np

from data_utils.base import Progress, check_is_file

# The file's size in bytes, time in nanoseconds and digest (0 for a picture in memory).
# "pixels" is unused: the files of feature caches have had it since version 3.
PHOTO = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("digest", "<u8"), ("pixels", "<u8")])


def photo_of(path):
    """Return the PHOTO record of a file, before it is decoded.

    Zeros for pictures in memory and unreadable files.
    """
    photo = np.zeros((), PHOTO)
    with contextlib.suppress(OSError, TypeError, ValueError):
        path = os.path.expanduser(path)
        check_is_file(path)
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").digest()
        photo["size"], photo["mtime_ns"] = stat.st_size, stat.st_mtime_ns
        photo["digest"] = int.from_bytes(digest[:8], "little")
    return photo


def size_of(path):
    """Return the size of a file in bytes, or None for a picture in memory or a missing
    file.
    """
    with contextlib.suppress(OSError, TypeError, ValueError):
        return os.path.getsize(os.path.expanduser(path))
    return None


def find_changes(photos, paths, *, verify=False, show_progress=False):
    """Return the indices of changed photos, and `photos` with the current modification
    times.

    Args:
        photos: array (photos,) of PHOTO. Records without a digest are skipped, and
            missing files count as unchanged.
        verify: compare the bytes of all files, not only of files whose size or time
            differs.
        show_progress: show progress on standard error if many files are read.
    """
    photos, changed, to_read = photos.copy(), [], []
    for number in np.flatnonzero(photos["digest"]):
        with contextlib.suppress(OSError, TypeError, ValueError):
            stat = os.stat(os.path.expanduser(paths[number]))
            if verify or (stat.st_size, stat.st_mtime_ns) != photos[number].item()[:2]:
                to_read.append(number)
    show = show_progress and len(to_read) >= 1000  # fewer take a second or less
    for number in Progress.over(to_read, label="photos compared", unit="photos", show=show):
        now = photo_of(paths[number])
        if now["digest"] == photos[number]["digest"]:
            photos[number]["mtime_ns"] = now["mtime_ns"]
        elif now["digest"]:
            changed.append(int(number))
    return changed, photos
