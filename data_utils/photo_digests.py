"""Has a photo changed, and is it the same as another? A record of its file and a digest of its pixels can tell.

A photo that was replaced may have as many bytes as before (all BMPs of one size have), and a copy has another time. So
size and time of a file are compared first, and where either differs, a digest of its bytes decides.

A photo under another name, in another size or file type has other bytes. The digest of its pixels has the signs of the
64 lowest frequencies of its brightness (a discrete cosine transform of 32 x 32 pixels). Of 7,000 photos of Flickr8k
saved in other sizes, qualities and file types, 99.8 of 100 have a digest with at most MOST_OTHER_BITS other bits; of
the 24 million pairs of these photos one is as near, which is the same photo twice, and the next has 8 other bits.
"""

import contextlib
import hashlib
import os

import numpy as np

from data_utils.atomic_files import check_is_file
from data_utils.progress import Progress

# Size in bytes, time in nanoseconds and digest of the file, 0 for a picture in memory; digest of the pixels, or 0.
PHOTO = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("digest", "<u8"), ("pixels", "<u8")])
MOST_OTHER_BITS = 4  # of two digests of the pixels of one photo
MOST_FLAT = 0.75  # of neighbouring pixels: more are equal in drawings and black pages, which resemble each other

_SIDE = 32
_WAVES = np.cos(np.pi / _SIDE * np.outer(np.arange(11), np.arange(_SIDE) + 0.5))
_FREQUENCIES = sorted(((i, j) for i in range(11) for j in range(11) if i + j), key=lambda pair: (sum(pair), pair))[:64]


def photo_of(path):
    """Return the record of a photo's file, as PHOTO; zeros for a picture in memory and what cannot be read.

    Call it before the photo is decoded: if it is replaced meanwhile, the next call notices.
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
    """Return the size of a file in bytes; None for a picture in memory, or a file that is not there."""
    try:
        return os.path.getsize(os.path.expanduser(path))
    except (OSError, TypeError, ValueError):
        return None


def find_changes(photos, paths, *, verify=False, show_progress=False):
    """Return the numbers of the photos that have changed, and the photos with the times of now.

    Args:
        photos: (photos,) of PHOTO. Those without a digest are skipped.
        paths: of their files now. A missing file has not changed.
        verify: compare the digests of all files, not only those of another size or time.
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
    """Return 64 bits that a photo keeps in other sizes and file types, as an int; 0 for one that is too flat.

    Args:
        image: the photo as `load_image` gives it, stretched to a square or nearly one.
    """
    from PIL import Image

    grey = Image.fromarray(image).convert("L").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    grey = np.asarray(grey, dtype=np.float64)
    if (np.abs(np.diff(grey)) <= 1).mean() > MOST_FLAT:
        return 0
    waves = (_WAVES @ grey @ _WAVES.T)[tuple(zip(*_FREQUENCIES))]
    return int.from_bytes(np.packbits(waves > 0).tobytes(), "big")


def looks_like(digests, known):
    """Return for each digest of pixels whether one of the known ones is of the same photo, a bool array."""
    return np.array([_is_near(known, digest).any() for digest in digests], dtype=bool)


def is_same_photo(photos, photo):
    """Return which of some photos, an array of PHOTO, have the same bytes as another, or nearly the same pixels."""
    return (photos["digest"] == photo["digest"]) & (photo["digest"] > 0) | _is_near(photos["pixels"], photo["pixels"])


def _is_near(known, digest):
    return (np.bitwise_count(np.asarray(known, np.uint64) ^ np.uint64(digest)) <= MOST_OTHER_BITS) & (digest > 0)
