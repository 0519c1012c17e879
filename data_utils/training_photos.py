"""Recognise the training photos of a captioner by digests of their names and pixels, which are saved with it.

A digest of a name has 40 bits: 6,000 photos take 40 kB of text in config.json. Two names have the same one by chance
once in 10^12 pairs: comparing 5,000 photos with 100,000 training photos gives one false match in 2,000 comparisons.
Photos of other data sets with the same names ("1.jpg") are taken for the same. The digests of the pixels, see
`data_utils.photo_digests`, recognise a photo under another name.
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

NAME_BYTES = 5  # of a digest
SETTINGS = {"training_photos": NAME_BYTES, "training_pixels": 8}  # in a captioner's config.json: bytes of a digest
_OF_FLICKR = re.compile(r"(\d{6,})_[0-9a-f]{10}")  # Flickr8k's name of a photo; Flickr30k has the number alone


class SeenPhotos(NamedTuple):
    """Training photos of a captioner: sorted digests, (photos,) of uint64, of their ids and of their pixels."""

    names: np.ndarray
    pixels: np.ndarray  # drawings have none


def digests_of(image_ids, records=None):
    """Return the SeenPhotos of a list of ids.

    Args:
        records: dict from ids to elements of PHOTO (see `data_utils.photo_digests`), perhaps not of all.
    """
    pixels = _pixel_digests(image_ids, records)
    return SeenPhotos(np.unique(_name_digests(image_ids)), np.unique(pixels[pixels > 0]))


def union(several):
    """Return the union of SeenPhotos; a captioner whose photos are not known has None."""
    known = [seen for seen in several if seen is not None]
    return SeenPhotos(*map(np.unique, map(np.concatenate, zip(*known)))) if known else None


def seen_in_training(image_ids, seen, records=None):
    """Return the ids of a list that are in SeenPhotos (or None), by name or by pixels; see `digests_of`."""
    if seen is None:
        return []
    found = np.isin(_name_digests(image_ids), seen.names) | looks_like(_pixel_digests(image_ids, records), seen.pixels)
    return [image_ids[place] for place in np.flatnonzero(found)]


def warn_of_copies(train, others, records, called, therefore, stacklevel):
    """Warn of photos that are in the training split, too, under other names.

    Args:
        train, others: lists of CaptionedImage.
        records: see `digests_of`.
        called, therefore: parts of the message, such as "in 'test' are in 'train'".
    """
    names = [image.image_id for image in train if image.image_id in records]
    known, copies = np.array([records[name] for name in names], PHOTO), []
    for image_id in (image.image_id for image in others if image.image_id in records):
        found = np.flatnonzero(is_same_photo(known, records[image_id]))
        copies += [(image_id, names[found[0]])] if found.size else []
    if copies:
        warnings.warn(
            f"{len(copies)} of the {len(others)} photos {called}, too, under another name "
            f"({copies[0][0]!r} is {copies[0][1]!r}, for example): {therefore}.",
            stacklevel=stacklevel + 1,
        )


def _name_digests(image_ids):
    digests = (hashlib.sha256(_name(image_id).encode("utf-8", "surrogatepass")).digest() for image_id in image_ids)
    return np.fromiter((int.from_bytes(digest[:NAME_BYTES], "big") for digest in digests), np.uint64)


def _name(image_id):
    """Return the part of an id that other ids of the same photo share.

    >>> _name("1000268201_693b08cb0e"), _name("1000268201.JPG"), _name("Beach 1.jpg")
    ('1000268201', '1000268201', 'beach 1')
    """
    name = image_id.lower()
    name = next((name.removesuffix(ending) for ending in IMAGE_ENDINGS if name.endswith(ending)), name)
    of_flickr = _OF_FLICKR.fullmatch(name)
    return of_flickr[1] if of_flickr else name


def _pixel_digests(image_ids, records):
    digests = (int(records[image_id]["pixels"]) if image_id in (records or ()) else 0 for image_id in image_ids)
    return np.fromiter(digests, np.uint64)


def as_settings(seen):
    """Return SeenPhotos as a dict of two base64 texts."""
    return {
        name: base64.b64encode(b"".join(int(digest).to_bytes(num_bytes, "big") for digest in digests)).decode("ascii")
        for (name, num_bytes), digests in zip(SETTINGS.items(), seen)
    }


def from_settings(settings):
    """Return the SeenPhotos in a dict with `as_settings`, or None; a ValueError where they are damaged."""
    if "training_photos" not in settings:
        return None
    seen = []
    for name, num_bytes in SETTINGS.items():
        text = settings.get(name, "")
        try:
            rows = np.frombuffer(base64.b64decode(text, validate=True), np.uint8).reshape(-1, num_bytes)
        except (TypeError, ValueError):  # no text, no base64, or not whole digests
            raise ValueError(f"the record of the training photos is damaged. Received: {name}={brief(text)}") from None
        seen.append(np.pad(rows, ((0, 0), (8 - num_bytes, 0))).view(">u8").ravel().astype(np.uint64))
    return SeenPhotos(*seen)
