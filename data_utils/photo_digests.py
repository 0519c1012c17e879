"""Tell whether a photo has changed, and whether two photos are the same, from digests of bytes and of pixels.

A photo has changed if its file has another size or time, and other bytes: a copy has another time.

The digest of the pixels, the same for other sizes and file types, has the signs of the 64 lowest frequencies of the
brightness (a discrete cosine transform of 32 x 32 pixels). Of 7,000 photos of Flickr8k saved in other sizes, qualities
and file types, 99.8 % keep all but MOST_OTHER_BITS of its bits; of the 24 million pairs of these photos one is as near,
which is the same photo twice, and the next differs in 8 bits.
"""

import contextlib
import hashlib
import os

import numpy as np
from PIL import Image

from data_utils.atomic_files import check_is_file
from data_utils.progress import Progress

# Size in bytes, time in nanoseconds and digest of the file, 0 for a picture in memory; digest of the pixels, or 0.
PHOTO = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("digest", "<u8"), ("pixels", "<u8")])
MOST_OTHER_BITS = 4  # of two digests of the pixels of one photo
MOST_FLAT = 0.75  # fraction of equal neighbouring pixels; drawings and black pages, which look alike, have more

_SIDE = 32
_WAVES = np.cos(np.pi / _SIDE * np.outer(np.arange(11), np.arange(_SIDE) + 0.5))
_FREQUENCIES = sorted(((i, j) for i in range(11) for j in range(11) if i + j), key=lambda pair: (sum(pair), pair))[:64]


def photo_of(path):
    """Return the record of a photo's file, as PHOTO; zeros for a picture in memory or an unreadable file.

    Call it before the photo is decoded: if the file is replaced meanwhile, the next comparison notices.
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
    """Return the size of a file in bytes; None for a picture in memory or a missing file."""
    try:
        return os.path.getsize(os.path.expanduser(path))
    except (OSError, TypeError, ValueError):
        return None


def find_changes(photos, paths, *, verify=False, show_progress=False):
    """Return the numbers of the photos that have changed, and `photos` with the current times.

    Args:
        photos: (photos,) of PHOTO. Those without a digest are skipped.
        paths: their files. A missing file has not changed.
        verify: compare the bytes of all files, not only of those with another size or time.
        show_progress: show progress on standard error where many are read.
    """
    photos, changed, to_read = photos.copy(), [], []
    for number in np.flatnonzero(photos["digest"]):
        with contextlib.suppress(OSError, TypeError, ValueError):
            stat = os.stat(os.path.expanduser(paths[number]))
            if verify or (stat.st_size, stat.st_mtime_ns) != photos[number].item()[:2]:
                to_read.append(number)
    show = show_progress and len(to_read) >= 1000  # fewer take a second or less
    with Progress(len(to_read), label="photos compared", unit="photos", show=show) as progress:
        for number in to_read:
            now = photo_of(paths[number])
            if now["digest"] == photos[number]["digest"]:
                photos[number]["mtime_ns"] = now["mtime_ns"]
            elif now["digest"]:
                changed.append(int(number))
            progress.advance(1)
    return changed, photos


def pixel_digest(image):
    """Return the digest of the pixels of a photo, stretched to a square, as an int; 0 for one that is too flat."""
    grey = Image.fromarray(image).convert("L").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    grey = np.asarray(grey, dtype=np.float64)
    if (np.abs(np.diff(grey)) <= 1).mean() > MOST_FLAT:
        return 0
    waves = (_WAVES @ grey @ _WAVES.T)[tuple(zip(*_FREQUENCIES))]
    return int.from_bytes(np.packbits(waves > 0).tobytes(), "big")


def looks_like(digests, known):
    """Return for each digest of pixels whether a known one is of the same photo, a bool array."""
    return np.array([_is_near(known, digest).any() for digest in digests], dtype=bool)


def is_same_photo(photos, photo):
    """Return which of some photos, an array of PHOTO, have the same bytes as another, or nearly the same pixels."""
    return (photos["digest"] == photo["digest"]) & (photo["digest"] > 0) | _is_near(photos["pixels"], photo["pixels"])


def _is_near(known, digest):
    return (np.bitwise_count(np.asarray(known, np.uint64) ^ np.uint64(digest)) <= MOST_OTHER_BITS) & (digest > 0)
