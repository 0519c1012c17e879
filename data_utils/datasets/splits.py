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
    splits, first_seen = {}, {}
    for split, path in lists.items():
        if path is None:
            continue
        for number, line in enumerate(load_document(path).split("\n"), start=1):
            if not line.strip():
                continue
            image_id, where = image_id_of(line), f"{path.name}, line {number}"
            if splits.setdefault(image_id, split) != split:
                raise ValueError(
                    f"{where}: the photo {brief(image_id)} is in the split {split!r} here and in {splits[image_id]!r} "
                    f"in {first_seen[image_id]}. A photo belongs to one split: take it off one of the lists."
                )
            if image_id in first_seen:
                skipped.add("photos named twice on a split list", where)
            first_seen.setdefault(image_id, where)
    return splits
