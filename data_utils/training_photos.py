"""Which photos was a captioner trained on? Digests of their names and pixels, saved with it, can tell later.

A digest of a name has 40 bits: 6,000 photos take 40 kB of text in config.json. Two names share one by chance once in
10^12 pairs: 5,000 photos of another data set, compared with 100,000 photos of a training, give one false match in 2,000
such comparisons. Photos of other data sets that have the same names ("1.jpg") are taken for the same. The digests of
the pixels, see `data_utils.photo_digests`, recognise a photo under another name.
"""

import base64
import hashlib
import re
import warnings
from typing import NamedTuple

import numpy as np

from data_utils.captions import IMAGE_ENDINGS
from data_utils.photo_digests import PHOTO, is_same_photo, looks_like

NAME_BYTES = 5  # of a digest
SETTINGS = {"training_photos": NAME_BYTES, "training_pixels": 8}  # of a captioner: their names, and a digest's bytes
_OF_FLICKR = re.compile(r"(\d{6,})_[0-9a-f]{10}")  # Flickr8k's name of a photo; Flickr30k has the number alone


class SeenPhotos(NamedTuple):
    """The photos that a captioner was trained on.

    Attributes:
        names: digests of their ids, (names,) of uint64, sorted and each once.
        pixels: digests of their pixels, likewise; drawings, for example, have none.
    """

    names: np.ndarray
    pixels: np.ndarray


def digests_of(image_ids, noted=None):
    """Return the SeenPhotos of ids.

    Args:
        image_ids: list of ids.
        noted: dict from ids to elements of PHOTO, see `data_utils.photo_digests`; of some photos, or None.
    """
    pixels = _pixels(image_ids, noted)
    return SeenPhotos(np.unique(_name_digests(image_ids)), np.unique(pixels[pixels > 0]))


def union(records):
    """Return the union of SeenPhotos; None means that nothing is known of a captioner."""
    known = [record for record in records if record is not None]
    return SeenPhotos(*map(np.unique, map(np.concatenate, zip(*known)))) if known else None


def seen_in_training(image_ids, record, noted=None):
    """Return those of a list of ids that are in SeenPhotos, by name or by pixels, in their order.

    Args:
        image_ids, noted: see `digests_of`.
        record: SeenPhotos or None.
    """
    if record is None:
        return []
    found = np.isin(_name_digests(image_ids), record.names) | looks_like(_pixels(image_ids, noted), record.pixels)
    return [image_ids[place] for place in np.flatnonzero(found)]


def warn_of_copies(train, others, noted, called, therefore, stacklevel):
    """Warn of photos that are in the training split, too, under other names.

    Args:
        train, others: lists of CaptionedImage.
        noted: see `digests_of`.
        called: the others in words, such as "in 'test'".
        therefore: what follows from it, the end of the sentence.
        stacklevel: of the warning, from the caller.
    """
    names = [image.image_id for image in train if image.image_id in noted]
    known, copies = np.array([noted[name] for name in names], PHOTO), []
    for image_id in (image.image_id for image in others if image.image_id in noted):
        found = np.flatnonzero(is_same_photo(known, noted[image_id]))
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
    """Return what a photo's id has in common with other ids of the same photo.

    >>> _name("1000268201_693b08cb0e"), _name("1000268201.JPG"), _name("Beach 1.jpg")
    ('1000268201', '1000268201', 'beach 1')
    """
    name = image_id.lower()
    name = next((name.removesuffix(ending) for ending in IMAGE_ENDINGS if name.endswith(ending)), name)
    of_flickr = _OF_FLICKR.fullmatch(name)
    return of_flickr[1] if of_flickr else name


def _pixels(image_ids, noted):
    noted = noted or {}
    digests = (int(noted[image_id]["pixels"]) if image_id in noted else 0 for image_id in image_ids)
    return np.fromiter(digests, np.uint64)


def as_settings(record):
    """Return SeenPhotos as a dict of two base64 texts."""
    texts = {}
    for (name, num_bytes), digests in zip(SETTINGS.items(), record):
        content = b"".join(int(digest).to_bytes(num_bytes, "big") for digest in digests)
        texts[name] = base64.b64encode(content).decode("ascii")
    return texts


def from_settings(settings):
    """Return the SeenPhotos whose `as_settings` is in a dict, or None; a ValueError where it cannot be read."""
    if "training_photos" not in settings:
        return None
    record = []
    for name, num_bytes in SETTINGS.items():
        text = settings.get(name, "")
        try:
            rows = np.frombuffer(base64.b64decode(text, validate=True), np.uint8).reshape(-1, num_bytes)
        except (TypeError, ValueError):  # no text, no base64, or not whole digests
            raise ValueError(
                "the record of the photos that this captioner was trained on cannot be read. Expected: digests as "
                f"base64 text. Received: {name}={str(text)[:80]!r}"
            ) from None
        record.append(np.pad(rows, ((0, 0), (8 - num_bytes, 0))).view(">u8").ravel().astype(np.uint64))
    return SeenPhotos(*record)
