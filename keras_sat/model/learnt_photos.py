"""Which photos has a captioner learnt from? Digests of their ids, which are saved with it, can tell later.

A digest has 40 bits: 6,000 photos take 40 kB of text in config.json. Two ids share one by chance once in 10^12 pairs,
so that 5,000 photos of another data set beside 100,000 learnt ones give one false match in 2,000 such comparisons.
Photos of other data sets that have the same names ("1.jpg") are taken for the same.
"""

import base64
import binascii
import hashlib

import numpy as np

NUM_BYTES = 5  # of a digest


def digests_of(image_ids):
    """Return the digests of photos' ids, sorted and each once: an array of uint64."""
    return np.unique(_digests(image_ids))


def _digests(image_ids):
    digests = (hashlib.sha256(image_id.encode("utf-8", "surrogatepass")).digest() for image_id in image_ids)
    return np.fromiter((int.from_bytes(digest[:NUM_BYTES], "big") for digest in digests), np.uint64)


def together(records):
    """Return the union of such arrays; None stands for a captioner of which nothing is known."""
    known = [record for record in records if record is not None]
    return np.unique(np.concatenate(known)) if known else None


def learnt_of(image_ids, record):
    """Return those of a list of ids that are in such an array, in their order."""
    if record is None:
        return []
    return [image_ids[place] for place in np.flatnonzero(np.isin(_digests(image_ids), record))]


def as_text(record):
    """Return such an array as text."""
    content = b"".join(int(digest).to_bytes(NUM_BYTES, "big") for digest in record)
    return base64.b64encode(content).decode("ascii")


def from_text(text):
    """Return the array that `as_text` wrote; anything else is a ValueError."""
    try:
        content = base64.b64decode(text, validate=True)
        rows = np.frombuffer(content, np.uint8).reshape(-1, NUM_BYTES).astype(np.uint64)
    except (binascii.Error, TypeError, ValueError):  # no text, no base64, or not of whole digests
        rows = None
    record = None if rows is None else rows @ (np.uint64(256) ** np.arange(NUM_BYTES - 1, -1, -1, dtype=np.uint64))
    if record is None or (record[1:] <= record[:-1]).any():
        raise ValueError(
            "the record of the photos that this captioner learnt from cannot be read. Expected: sorted digests as "
            f"base64 text. Received: training_photos={str(text)[:80]!r}"
        )
    return record
