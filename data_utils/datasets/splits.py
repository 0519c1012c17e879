"""Splits: train, dev (validation) and test."""

import random

from data_utils.captions import image_id_of, load_document
from data_utils.foreign_text import brief

SPLITS = ("train", "dev", "test")
SPLIT_NAMES = {
    "train": "train",
    "restval": "train",  # Karpathy's name for the part of COCO's validation photos that everybody trains on
    "dev": "dev",
    "val": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
}


class Splits(dict):
    """A map from image id to split, in which no photo is in two splits."""

    def __init__(self):
        super().__init__()
        self.first_seen = {}

    def note(self, image_id, split, where):
        """Add a photo; a ValueError if it is in another split already."""
        if self.setdefault(image_id, split) != split:
            raise ValueError(
                f"{where}: the photo {brief(image_id)} is in the split {split!r} here and in {self[image_id]!r} in "
                f"{self.first_seen[image_id]}. A photo belongs to one split."
            )
        self.first_seen.setdefault(image_id, where)


def draw_split(image_ids, seed):
    """Return a map from image id to split: a tenth each (rounded up) is dev and test, the rest train."""
    shuffled = sorted(image_ids)
    random.Random(seed).shuffle(shuffled)
    tenth = -(-len(shuffled) // 10)
    return {
        image_id: "dev" if i < tenth else "test" if i < 2 * tenth else "train" for i, image_id in enumerate(shuffled)
    }


def split_of(name, where):
    split = SPLIT_NAMES.get(str(name).strip().lower())
    if split is None:
        raise ValueError(f"{where}: unknown split. Expected: train, dev or test. Received: split={brief(name)}")
    return split


def read_split_lists(lists, skipped):
    """Return image id -> split from one list of file names for each split."""
    splits = Splits()
    for split, path in lists.items():
        if path is None:
            continue
        for number, line in enumerate(load_document(path).split("\n"), start=1):
            if not line.strip():
                continue
            image_id, where = image_id_of(line), f"{path.name}, line {number}"
            if image_id in splits:
                skipped.add("photos named twice on a split list", where)
            splits.note(image_id, split, where)
    return splits
