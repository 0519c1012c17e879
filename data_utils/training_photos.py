"""Recognise a captioner's training photos by digests of their names and pixels.

A name digest has 40 bits: 6,000 photos take 40 kB of text in config.json, and two names
collide once in 10^12 pairs. Photos of other data sets with the same name ("1.jpg")
count as the same photo. Pixel digests (see `data_utils.photo_digests`) recognise
renamed photos.
"""

import base64
import hashlib
import re
import warnings
from typing import NamedTuple

import numpy as np

from data_utils.captions import IMAGE_ENDINGS
from data_utils.foreign_text import brief
from data_utils.photo_digests import PHOTO, is_same_photo, looks_like

NAME_BYTES = 5  # per digest
# In a captioner's config.json: bytes per digest.
SETTINGS = {"training_photos": NAME_BYTES, "training_pixels": 8}
# a photo's name in Flickr8k; Flickr30k has only the number
_OF_FLICKR = re.compile(r"(\d{6,})_[0-9a-f]{10}")


class SeenPhotos(NamedTuple):
    """A captioner's training photos, as two sorted arrays of uint64 digests: one of
    their ids, one of their pixels.
    """

    names: np.ndarray
    pixels: np.ndarray  # drawings have none


def digests_of(image_ids, records=None):
    """Return the SeenPhotos for image ids; `records` is a dict from ids, if known, to
    `photo_digests.PHOTO`.
    """
    pixels = _pixel_digests(image_ids, records)
    return SeenPhotos(np.unique(_name_digests(image_ids)), np.unique(pixels[pixels > 0]))


def union(several):
    """Return the union of several SeenPhotos; None (unknown training photos) is
    ignored.
    """
    known = [seen for seen in several if seen is not None]
    return SeenPhotos(*map(np.unique, map(np.concatenate, zip(*known)))) if known else None


def seen_in_training(image_ids, seen, records=None):
    """Return the image ids that match SeenPhotos by name or by pixels.

    An empty list if `seen` is None.
    """
    if seen is None:
        return []
    found = np.isin(_name_digests(image_ids), seen.names) | looks_like(
        _pixel_digests(image_ids, records), seen.pixels
    )
    return [image_ids[place] for place in np.flatnonzero(found)]


def warn_of_copies(train, others, records, called, therefore, stacklevel):
    """Warn about CaptionedImages that are also in the training split under other names;
    for `records` see `digests_of`.

    `called` and `therefore` are parts of the message, such as "in 'test' are in
    'train'".
    """
    names = [image.image_id for image in train if image.image_id in records]
    known, copies = np.array([records[name] for name in names], PHOTO), []
    for image_id in (image.image_id for image in others if image.image_id in records):
        found = np.flatnonzero(is_same_photo(known, records[image_id]))
        copies += [(image_id, names[found[0]])] if found.size else []
    if copies:
        warnings.warn(
            f"{len(copies)} of the {len(others)} photos {called} too, under another name "
            f"({copies[0][0]!r} is "
            f"{copies[0][1]!r}, for example): {therefore}.",
            stacklevel=stacklevel + 1,
        )


def _name_digests(image_ids):
    digests = (
        hashlib.sha256(_name(image_id).encode("utf-8", "surrogatepass")).digest()
        for image_id in image_ids
    )
    return np.fromiter(
        (int.from_bytes(digest[:NAME_BYTES], "big") for digest in digests), np.uint64
    )


def _name(image_id):
    """Return the part of an image id, in lower case, that is the same for a photo in
    different data sets.

    >>> _name("1000268201_693b08cb0e"), _name("1000268201.JPG"), _name("Beach 1.jpg")
    ('1000268201', '1000268201', 'beach 1')
    """
    name = image_id.lower()
    name = next(
        (name.removesuffix(ending) for ending in IMAGE_ENDINGS if name.endswith(ending)), name
    )
    of_flickr = _OF_FLICKR.fullmatch(name)
    return of_flickr[1] if of_flickr else name


def _pixel_digests(image_ids, records):
    digests = (
        int(records[image_id]["pixels"]) if image_id in (records or ()) else 0
        for image_id in image_ids
    )
    return np.fromiter(digests, np.uint64)


def as_settings(seen):
    """Return SeenPhotos as a dict of two base64 strings."""
    return {
        name: base64.b64encode(
            b"".join(int(digest).to_bytes(num_bytes, "big") for digest in digests)
        ).decode("ascii")
        for (name, num_bytes), digests in zip(SETTINGS.items(), seen)
    }


def from_settings(settings):
    """Return the SeenPhotos that `as_settings` stored in a dict, or None.

    Raise ValueError if they are damaged.
    """
    if "training_photos" not in settings:
        return None
    seen = []
    for name, num_bytes in SETTINGS.items():
        text = settings.get(name, "")
        try:
            rows = np.frombuffer(base64.b64decode(text, validate=True), np.uint8).reshape(
                -1, num_bytes
            )
        except (TypeError, ValueError):  # not a string, not base64, or incomplete digests
            raise ValueError(
                f"the record of the training photos is damaged. Received: {name}={brief(text)}"
            ) from None
        seen.append(
            np.pad(rows, ((0, 0), (8 - num_bytes, 0))).view(">u8").ravel().astype(np.uint64)
        )
    return SeenPhotos(*seen)
