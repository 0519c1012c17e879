"""Which photos has a captioner learnt from? Digests of their names and pixels, saved with it, can tell later.

A digest of a name has 40 bits: 6,000 photos take 40 kB of text in config.json. Two names share one by chance once in
10^12 pairs, so that 5,000 photos of another data set beside 100,000 learnt ones give one false match in 2,000 such
comparisons. Photos of other data sets that have the same names ("1.jpg") are taken for the same. Those of the pixels,
see `data_utils.photo_digests`, recognise a photo under another name.
"""

import base64
import binascii
import hashlib
import re
import warnings
from typing import NamedTuple

import numpy as np

from data_utils.captions import IMAGE_ENDINGS
from data_utils.photo_digests import looks_like

NAME_BYTES = 5  # of a digest
SETTINGS = {"training_photos": NAME_BYTES, "training_pixels": 8}  # of a captioner: their names, and a digest's bytes
_OF_FLICKR = re.compile(r"(\d{6,})_[0-9a-f]{10}")  # as Flickr8k has it; Flickr30k calls the same photo by its number


class LearntPhotos(NamedTuple):
    """The photos that a captioner has learnt from.

    Attributes:
        names: digests of their ids, (names,) of uint64, sorted and each once.
        pixels: digests of their pixels, likewise; those of drawings, say, have none.
    """

    names: np.ndarray
    pixels: np.ndarray


def digests_of(image_ids, noted=None):
    """Return the LearntPhotos of ids.

    Args:
        image_ids: list of ids.
        noted: dict from ids to what is noted of photos, see `data_utils.photo_digests`; of some, or None.
    """
    pixels = _pixels(image_ids, noted)
    return LearntPhotos(np.unique(_name_digests(image_ids)), np.unique(pixels[pixels > 0]))


def together(records):
    """Return the union of LearntPhotos; None stands for a captioner of which nothing is known."""
    known = [record for record in records if record is not None]
    return LearntPhotos(*map(np.unique, map(np.concatenate, zip(*known)))) if known else None


def learnt_of(image_ids, record, noted=None):
    """Return those of a list of ids that are in LearntPhotos, by name or by pixels, in their order.

    Args:
        image_ids, noted: see `digests_of`.
        record: LearntPhotos or None.
    """
    if record is None:
        return []
    found = np.isin(_name_digests(image_ids), record.names) | looks_like(_pixels(image_ids, noted), record.pixels)
    return [image_ids[place] for place in np.flatnonzero(found)]


def copies_of(train_ids, image_ids, noted):
    """Return those of a list of ids whose photos are photos to train on under other names, and which the first one is.

    Args:
        train_ids: ids of the photos to train on.
        image_ids: ids of others, which no training is on.
        noted: see `digests_of`.
    """
    known = {int(noted[image_id]["digest"]) for image_id in train_ids if image_id in noted} - {0}
    same_bytes = {image_id for image_id in image_ids if image_id in noted and int(noted[image_id]["digest"]) in known}
    copies = same_bytes.union(learnt_of(image_ids, digests_of(train_ids, noted), noted))
    copies = [image_id for image_id in image_ids if image_id in copies]
    if not copies:
        return [], None
    if copies[0] in same_bytes:
        digest = noted[copies[0]]["digest"]
        return copies, next(name for name in train_ids if name in noted and noted[name]["digest"] == digest)
    return copies, learnt_of(train_ids, digests_of(copies[:1], noted), noted)[0]


def warn_of_copies(train, others, noted, called, therefore, stacklevel):
    """Warn of photos that are among those to train on, too, under other names.

    Args:
        train, others: lists of CaptionedImage.
        noted: see `digests_of`.
        called: the others in words, such as "in 'test'".
        therefore: what follows from it, the end of the sentence.
        stacklevel: of the warning, from the caller.
    """
    copies, original = copies_of(*([image.image_id for image in images] for images in (train, others)), noted)
    if copies:
        warnings.warn(
            f"{len(copies)} of the {len(others)} photos {called}, too, under another name "
            f"({copies[0]!r} is {original!r}, for example): {therefore}.",
            stacklevel=stacklevel + 1,
        )


def _name_digests(image_ids):
    digests = (hashlib.sha256(_name(image_id).encode("utf-8", "surrogatepass")).digest() for image_id in image_ids)
    return np.fromiter((int.from_bytes(digest[:NAME_BYTES], "big") for digest in digests), np.uint64)


def _name(image_id):
    """Return what a photo's id has in common with others of the same photo.

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
    """Return LearntPhotos as a dict of two texts."""
    return {name: _as_text(digests, num_bytes) for (name, num_bytes), digests in zip(SETTINGS.items(), record)}


def from_settings(settings):
    """Return the LearntPhotos of which `as_settings` is in a dict, or None; anything else in there is a ValueError."""
    if "training_photos" not in settings:
        return None
    return LearntPhotos(*(_from_text(name, settings.get(name, ""), of_each) for name, of_each in SETTINGS.items()))


def _as_text(digests, num_bytes):
    return base64.b64encode(b"".join(int(digest).to_bytes(num_bytes, "big") for digest in digests)).decode("ascii")


def _from_text(name, text, num_bytes):
    try:
        content = base64.b64decode(text, validate=True)
        rows = np.frombuffer(content, np.uint8).reshape(-1, num_bytes).astype(np.uint64)
    except (binascii.Error, TypeError, ValueError):  # no text, no base64, or not of whole digests
        rows = None
    digests = None if rows is None else rows @ (np.uint64(256) ** np.arange(num_bytes - 1, -1, -1, dtype=np.uint64))
    if digests is None or (digests[1:] <= digests[:-1]).any():
        raise ValueError(
            "the record of the photos that this captioner learnt from cannot be read. Expected: sorted digests as "
            f"base64 text. Received: {name}={str(text)[:80]!r}"
        )
    return digests
