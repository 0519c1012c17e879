"""Read and draw splits: train, dev (validation) and test."""

import random

from data_utils.base import brief
from data_utils.captions import image_id_of, load_document

SPLITS = ("train", "dev", "test")
# "restval" is Karpathy's name for the part of COCO's validation photos that everybody
# trains on.
SPLIT_NAMES = {"restval": "train", "val": "dev", "valid": "dev", "validation": "dev"} | {
    name: name for name in SPLITS
}


def add_split(splits, image_id, name, where):
    """Add a photo to a dict of splits.

    Raise ValueError if the split is unknown or the photo is already in another.
    """
    split = SPLIT_NAMES.get(str(name).strip().lower())
    if split is None:
        raise ValueError(
            f"{where}: unknown split. Expected: train, dev or test. Received: split={brief(name)}"
        )
    if splits.setdefault(image_id, split) != split:
        problem = (
            f"{where}: the photo {brief(image_id)} is in the split {split!r} and earlier in "
            f"{splits[image_id]!r}."
        )
        raise ValueError(f"{problem} Put each photo into only one split.")


def draw_split(image_ids, seed):
    """Assign image ids to splits at random: a tenth each (rounded up) to dev and test,
    the rest to train.
    """
    shuffled = sorted(image_ids)
    random.Random(seed).shuffle(shuffled)
    tenth = -(-len(shuffled) // 10)
    return dict(zip(shuffled, ["dev"] * tenth + ["test"] * tenth + ["train"] * len(shuffled)))


def read_split_lists(lists):
    """Return a dict from image ids to splits; `lists` maps each split to a file of
    image names or to None.
    """
    splits = {}
    for split, path in lists.items():
        for number, line in enumerate(load_document(path).split("\n") if path else [], start=1):
            if line.strip():
                add_split(splits, image_id_of(line), split, f"{path.name}, line {number}")
    return splits
