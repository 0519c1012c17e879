"""Recognise a captioner's training photos by digests of their names.

A digest has 40 bits: 6,000 photos take 40 kB of text in config.json, and two names
collide once in 10^12 pairs. Photos of other data sets with the same name ("1.jpg")
count as the same photo; a copy under another name is not recognised. Copies within a
data set are found by the bytes of their files.
"""

import base64
import hashlib
import re
import warnings

import numpy as np

from data_utils.base import brief
from data_utils.captions import IMAGE_ENDINGS

# In a captioner's config.json. Those of earlier versions also have "training_pixels",
# which is ignored.
SETTING = "training_photos"
NAME_BYTES = 5  # per digest
# a photo's name in Flickr8k; Flickr30k has only the number
_FLICKR_NAME = re.compile(r"(\d{6,})_[0-9a-f]{10}")


def digests_of(image_ids):
    """Return the digests of image ids, a sorted uint64 array: what a captioner knows of
    its training photos.
    """
    return np.unique(_name_digests(image_ids))


def union(several):
    """Return the union of several arrays of digests, without those that are None
    (unknown training photos); None if all are.
    """
    known = [digests for digests in several if digests is not None]
    return np.unique(np.concatenate(known)) if known else None


def seen_in_training(image_ids, digests):
    """Return the image ids whose digests are among `digests`; an empty list if these
    are None.
    """
    if digests is None:
        return []
    is_seen = np.isin(_name_digests(image_ids), digests)
    return [image_ids[place] for place in np.flatnonzero(is_seen)]


def warn_of_copies(train, others, splits, records, stacklevel):
    """Warn about CaptionedImages that are also in the training split, with the same
    bytes under other names.

    Args:
        splits: of the others, for the message, such as "dev and test".
        records: dict from image ids, if known, to `photos.PHOTO`.
    """

    def digest_of(image):
        return int(records[image.image_id]["digest"]) if image.image_id in records else 0

    training_ids = {}
    for image in train:
        training_ids.setdefault(digest_of(image), image.image_id)
    training_ids.pop(0, None)  # of pictures in memory, and of those without a record
    copies = [image for image in others if digest_of(image) in training_ids]
    if copies:
        copy = copies[0]
        warnings.warn(
            f"{len(copies)} of the {len(others)} photos of {splits} are in train too, under "
            f"another name ({copy.image_id!r} is {training_ids[digest_of(copy)]!r}, for example): "
            "a captioner trained on this data has seen them, and scores on them are too high.",
            stacklevel=stacklevel + 1,
        )


def _name_digests(image_ids):
    """Return the digests of image ids as a uint64 array, in their order."""
    names = [_name(image_id).encode("utf-8", "surrogatepass") for image_id in image_ids]
    digests = [hashlib.sha256(name).digest()[:NAME_BYTES] for name in names]
    return np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64)


def _name(image_id):
    """Return the part of an image id, in lower case, that is the same for a photo in
    different data sets.

    >>> _name("1000268201_693b08cb0e"), _name("1000268201.JPG"), _name("Beach 1.jpg")
    ('1000268201', '1000268201', 'beach 1')
    """
    name = image_id.lower()
    for ending in IMAGE_ENDINGS:
        if name.endswith(ending):
            name = name.removesuffix(ending)
            break
    flickr_number = _FLICKR_NAME.fullmatch(name)
    return flickr_number[1] if flickr_number else name


def as_settings(digests):
    """Return the digests of training photos as a dict with a base64 string."""
    content = b"".join(int(digest).to_bytes(NAME_BYTES, "big") for digest in digests)
    return {SETTING: base64.b64encode(content).decode("ascii")}


def from_settings(settings):
    """Return the digests that `as_settings` stored in a dict; None if unknown.

    Raise ValueError if they are damaged.
    """
    if SETTING not in settings:
        return None
    text = settings[SETTING]
    try:
        content = base64.b64decode(text, validate=True)
        rows = np.frombuffer(content, np.uint8).reshape(-1, NAME_BYTES)
    except (TypeError, ValueError):  # not a string, not base64, or incomplete digests
        raise ValueError(
            f"the record of the training photos is damaged. Received: {SETTING}={brief(text)}"
        ) from None
    whole_words = np.pad(rows, ((0, 0), (8 - NAME_BYTES, 0)))
    return whole_words.view(">u8").ravel().astype(np.uint64)
