"""Read Flickr8k and Flickr30k from the published files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from data_utils.captions import (
    CaptionedImage,
    Skipped,
    image_id_of,
    load_descriptions,
    load_document,
)
from data_utils.datasets.assemble import (
    add_caption,
    assemble,
    find_file,
    find_photos,
    no_caption_file,
)
from data_utils.datasets.karpathy import read_karpathy
from data_utils.datasets.splits import SPLITS, read_split_lists
from data_utils.datasets.tables import read_table


def flickr8k(data_dir: str | os.PathLike, *, split_seed: int | None = None) -> list[CaptionedImage]:
    """Return Flickr8k as a list of CaptionedImage, in the order of the caption file.

    Args:
        data_dir: the folder with the photos (directly, or in a folder Flicker8k_Dataset
            or Images) and one of: Flickr8k.token.txt; captions.txt, the version with
            the header "image,caption"; Karpathy's dataset_flickr8k.json. The splits
            come from the official lists Flickr_8k.trainImages.txt and so on, or from
            Karpathy's JSON; without either, every photo has the split None.
        split_seed: if given, split the photos 80/10/10 at random with this seed
            instead.
    """
    return _read_flickr(
        data_dir,
        split_seed,
        photo_folders=("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images"),
        readers={"Flickr8k.token.txt": _read_token_file, "captions.txt": _read_caption_table},
        karpathy="dataset_flickr8k.json",
        text_folders=("", "Flickr8k_text"),
        split_lists={split: (f"Flickr_8k.{split}Images.txt",) for split in SPLITS},
    )


def flickr30k(
    data_dir: str | os.PathLike, *, split_seed: int | None = None
) -> list[CaptionedImage]:
    """Return Flickr30k as a list of CaptionedImage, in the order of the caption file.

    Args:
        data_dir: the folder with the photos (directly, or in a folder flickr30k-images,
            flickr30k_images or Images) and one of: results_20130124.token; results.csv,
            the version with "|"; Karpathy's dataset_flickr30k.json. The splits come
            from the lists train.txt, val.txt and test.txt, or from Karpathy's JSON;
            without either, every photo has the split None.
        split_seed: if given, split the photos 80/10/10 at random with this seed
            instead.
    """
    return _read_flickr(
        data_dir,
        split_seed,
        photo_folders=("flickr30k-images", "flickr30k_images", "Images", "images"),
        readers={"results_20130124.token": _read_token_file, "results.csv": _read_bar_table},
        karpathy="dataset_flickr30k.json",
        text_folders=("", "flickr30k_images", "flickr30k"),
        split_lists={
            "train": ("train.txt", "flickr30k_train.txt"),
            "dev": ("val.txt", "dev.txt", "flickr30k_val.txt"),
            "test": ("test.txt", "flickr30k_test.txt"),
        },
    )


def _read_flickr(
    data_dir, split_seed, *, photo_folders, readers, karpathy, text_folders, split_lists
):
    data_dir, skipped = Path(data_dir).expanduser(), Skipped()
    path = find_file(data_dir, readers, text_folders)
    karpathy_file = find_file(data_dir, [karpathy], text_folders)
    if path:
        captions = readers[path.name](path, skipped)
        splits = read_split_lists(
            {split: find_file(data_dir, split_lists[split], text_folders) for split in SPLITS}
        )
        if karpathy_file and not splits:
            _, splits, _ = read_karpathy(karpathy_file, Skipped())
    elif karpathy_file:
        captions, splits, _ = read_karpathy(karpathy_file, skipped)
    else:
        raise no_caption_file(data_dir, f"one of {', '.join([*readers, karpathy])}")
    return assemble(
        data_dir, captions, find_photos(data_dir, photo_folders), splits, skipped, split_seed
    )


def _read_token_file(path, skipped):
    return load_descriptions(load_document(path), source=path)


def _read_caption_table(path, skipped):
    captions = {}
    for row in read_table(path).rows():
        where = f"{path.name}, line {row.line}"
        for caption in row.captions or [""]:
            add_caption(captions, image_id_of(row.image), caption, skipped, where)
    return captions


def _read_bar_table(path, skipped):
    """Read Flickr30k's results.csv: "image_name| comment_number| comment", without
    quotes.
    """
    captions = {}
    for number, line in enumerate(load_document(path).split("\n"), start=1):
        if not line.strip() or (number == 1 and line.lower().startswith("image")):
            continue
        # The published file lacks the second bar in one line: "2199200615.jpg| 4   A
        # dog runs ...".
        match = re.match(r"\s*(.+?)\s*\|\s*\d+\s*(?:\||\s)\s*(.*)", line + " ")
        name, caption = match.groups() if match else ("", "")
        add_caption(captions, image_id_of(name), caption, skipped, f"{path.name}, line {number}")
    return captions
