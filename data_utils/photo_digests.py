"""Detect changed photos and duplicates by digests of their bytes and pixels.

A photo has changed if its file differs in size or modification time, and in bytes: a
mere copy has a new time.

The pixel digest hardly depends on size and file type: it has the signs of the 64 lowest
frequencies of the brightness (a discrete cosine transform of 32 x 32 pixels). In 99.8 %
of 7,000 Flickr8k photos saved in other sizes, qualities and file types, at most
MOST_OTHER_BITS bits change. Of the 24 million pairs of these photos, one pair is that
close, which is a duplicate; the next pair differs in 8 bits.
"""

import contextlib
import hashlib
import os

import numpy as np
from PIL import Image

from data_utils.atomic_files import check_is_file
from data_utils.progress import Progress

# The file's size in bytes, time in nanoseconds and digest (0 for a picture in memory),
# and the pixel digest (or 0).
PHOTO = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("digest", "<u8"), ("pixels", "<u8")])
MOST_OTHER_BITS = 4  # between two pixel digests of the same photo
# Fraction of equal neighbouring pixels; drawings and black pages have more, and similar
# digests.
MOST_FLAT = 0.75

_SIDE = 32
_WAVES = np.cos(np.pi / _SIDE * np.outer(np.arange(11), np.arange(_SIDE) + 0.5))
_FREQUENCIES = sorted(
    ((i, j) for i in range(11) for j in range(11) if i + j), key=lambda pair: (sum(pair), pair)
)[:64]


def photo_of(path):
    """Return the PHOTO record of a file, before it is decoded.

    Zeros for pictures in memory and unreadable files.
    """
    photo = np.zeros((), PHOTO)
    with contextlib.suppress(OSError, TypeError, ValueError):
        check_is_file(path := os.path.expanduser(path))
        with open(path, "rb") as file:
            stat, digest = os.fstat(file.fileno()), hashlib.file_digest(file, "sha256").digest()
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


def pixel_digest(image):
    """Return the pixel digest of a photo as an int, or 0 if the photo has too little
    detail.
    """
    grey = Image.fromarray(image).convert("L").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    grey = np.asarray(grey, dtype=np.float64)
    if (np.abs(np.diff(grey)) <= 1).mean() > MOST_FLAT:
        return 0
    return int.from_bytes(
        np.packbits((_WAVES @ grey @ _WAVES.T)[tuple(zip(*_FREQUENCIES))] > 0).tobytes(), "big"
    )


def looks_like(digests, known):
    """Return a bool array that says whether each pixel digest matches one of the known
    digests.
    """
    return np.array([_is_near(known, digest).any() for digest in digests], dtype=bool)


def is_same_photo(photos, photo):
    """Return a bool array that says which of `photos` have the same bytes as `photo`,
    or nearly the same pixels.
    """
    return (photos["digest"] == photo["digest"]) & (photo["digest"] > 0) | _is_near(
        photos["pixels"], photo["pixels"]
    )


def _is_near(known, digest):
    return (
        np.bitwise_count(np.asarray(known, np.uint64) ^ np.uint64(digest)) <= MOST_OTHER_BITS
    ) & (digest > 0)
