"""Read MS COCO from its original files or from Karpathy's JSON."""

from __future__ import annotations

import os
from pathlib import Path

from data_utils.base import read_json
from data_utils.captions import CaptionedImage, Skipped, image_id_of
from data_utils.datasets.assemble import (
    add_caption,
    assemble,
    expecting,
    find_file,
    no_caption_file,
    photos_in,
)
from data_utils.datasets.karpathy import read_karpathy
from data_utils.datasets.splits import add_split


def coco(data_dir: str | os.PathLike, *, split_seed: int | None = None) -> list[CaptionedImage]:
    """Return MS COCO as a list of CaptionedImage, in the order of the caption file.

    Args:
        data_dir: the folder with train2014 and val2014 (or 2017; optionally in a folder
            `images`) and either Karpathy's dataset_coco.json, where "restval" counts as
            train, or COCO's original captions_*.json (optionally in a folder
            `annotations`), where captions_train* is train and captions_val* is dev.
        split_seed: if given, split the photos 80/10/10 at random with this seed
            instead.
    """
    data_dir, skipped = Path(data_dir).expanduser(), Skipped()
    karpathy = find_file(data_dir, ["dataset_coco.json"], ("", "annotations"))
    files = sorted(data_dir.glob("captions_*.json")) + sorted(
        data_dir.glob("annotations/captions_*.json")
    )
    if not karpathy and not files:
        expected = (
            "dataset_coco.json, or captions_train*.json and captions_val*.json, optionally "
            "in annotations"
        )
        raise no_caption_file(data_dir, expected)
    captions, splits, folders = (
        read_karpathy(karpathy, skipped) if karpathy else _read_coco_files(files, skipped)
    )
    photos = {}
    for folder in dict.fromkeys(
        ["", "images", *folders, *(f"images/{folder}" for folder in folders)]
    ):
        if os.path.isdir(data_dir / folder):
            photos = photos_in(data_dir / folder) | photos
    return assemble(data_dir, captions, photos, splits, skipped, split_seed)


def _read_coco_files(paths, skipped):
    """Read COCO's original captions_*.json files; the file name contains the split."""
    captions, splits, folders = {}, {}, []
    for path in paths:
        name = path.stem.removeprefix("captions_")
        folders.append(name)
        expected = (
            "COCO's JSON: images with id and file_name, annotations with image_id and caption"
        )
        with expecting(path, expected):
            content = read_json(path, expected)
            names = {image["id"]: image_id_of(image["file_name"]) for image in content["images"]}
            for annotation in content["annotations"]:
                image_id = names.get(annotation["image_id"])
                where = f"{path.name}, annotation {annotation.get('id')}"
                add_caption(captions, image_id, annotation["caption"], skipped, where)
                if image_id in captions:
                    add_split(splits, image_id, name.rstrip("0123456789"), where)
    return captions, splits, folders
