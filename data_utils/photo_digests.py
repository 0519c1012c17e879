"""Is it still the same photo, and is it the same as another? What is noted of its file and of its pixels.

A photo that was replaced may have as many bytes as before (all BMPs of one size have), and one that was copied has
another time. So size and time of a file come first, and where either differs, a digest of its bytes decides.

A photo under another name, in another size or file type has other bytes. The digest of its pixels says which way the
64 lowest frequencies of its brightness go (a discrete cosine transform of 32 x 32 pixels). Of 7,000 photos of Flickr8k
saved in other sizes, qualities and file types, 99.8 of 100 have a digest with at most MOST_OTHER_BITS other bits; of
the 24 million pairs of these photos one is as near, which is the same photo twice, and the next has 8 other bits.
"""

import hashlib
import os

import numpy as np

from data_utils.files import check_is_file
from data_utils.progress import Progress

# Of the file, 0 for a picture in memory: size in bytes, time in nanoseconds, digest; and that of the pixels, or 0.
PHOTO = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("digest", "<u8"), ("pixels", "<u8")])
MOST_OTHER_BITS = 4  # of two digests of the pixels of one photo
MOST_FLAT = 0.75  # of the neighbouring pixels: more are alike in drawings and black pages, which resemble each other

_SIDE = 32
_WAVES = np.cos(np.pi / _SIDE * np.outer(np.arange(11), np.arange(_SIDE) + 0.5))
_FREQUENCIES = sorted(((i, j) for i in range(11) for j in range(11) if i + j), key=lambda pair: (sum(pair), pair))[:64]


def photo_of(path):
    """Return what is noted of a photo's file, as PHOTO; zeros for a picture in memory and what cannot be read.

    Call it before the photo is decoded: if it is replaced meanwhile, that shows the next time.
    """
    photo = np.zeros((), PHOTO)
    try:
        path = os.path.expanduser(path)
        check_is_file(path)
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            photo["size"], photo["mtime_ns"] = stat.st_size, stat.st_mtime_ns
            photo["digest"] = int.from_bytes(hashlib.file_digest(file, "sha256").digest()[:8], "little")
    except (OSError, TypeError, ValueError):
        pass
    return photo


def size_of(path):
    """Return the size of a file in bytes; None for a picture in memory, or a file that is not there."""
    try:
        return os.path.getsize(os.path.expanduser(path))
    except (OSError, TypeError, ValueError):
        return None


def find_changes(photos, paths, *, verify=False, show_progress=False):
    """Return the number of the first photo that has changed, or None, and the photos with the times of now.

    Args:
        photos: array of PHOTO. Those without a digest are not looked at.
        paths: of their files now. One that is not there has not changed.
        verify: compare the digests of all files, of those with the same size and time too.
        show_progress: show progress on standard error where many are read.
    """
    photos, to_read = photos.copy(), []
    for number in np.flatnonzero(photos["digest"]):
        try:
            stat = os.stat(os.path.expanduser(paths[number]))
        except (OSError, TypeError, ValueError):
            continue
        if verify or (stat.st_size, stat.st_mtime_ns) != photos[number].item()[:2]:
            to_read.append(number)
    show = show_progress and len(to_read) >= 1000  # fewer take a second or less
    with Progress(len(to_read), label="photos compared", unit="photos", show=show) as progress:
        for number in to_read:
            now = photo_of(paths[number])
            if now["digest"] not in (0, photos[number]["digest"]):
                return int(number), photos
            if now["digest"]:
                photos[number]["mtime_ns"] = now["mtime_ns"]
            progress.advance(1)
    return None, photos


def pixel_digest(image):
    """Return 64 bits that a photo keeps in other sizes and file types, as an int; 0 where it is too flat to be told.

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
    known = np.asarray(known, np.uint64)
    near = [bool(digest) and np.bitwise_count(known ^ digest).min(initial=64) <= MOST_OTHER_BITS for digest in digests]
    return np.array(near, dtype=bool)
