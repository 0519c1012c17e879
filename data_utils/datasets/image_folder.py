"""Read a folder of your own pictures."""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter
from pathlib import Path

from data_utils.captions import (
    CaptionedImage,
    Skipped,
    image_id_of,
    pictures_by_folder,
    reject_outside,
)
from data_utils.datasets.assemble import (
    add_caption,
    assemble,
    find_file,
    no_caption_file,
    photos_in,
)
from data_utils.datasets.splits import add_split
from data_utils.datasets.tables import read_csv, read_jsonl
from data_utils.foreign_text import brief, shortened


def folder(data_dir: str | os.PathLike, *, split_seed: int | None = None) -> list[CaptionedImage]:
    """Return your own pictures as a list of CaptionedImage, in the order of the caption
    file.

    Args:
        data_dir: a folder with the pictures and either captions.csv (columns image and
            caption, one caption per row) or captions.jsonl (one object per line, with
            image and caption or captions), or the metadata.csv or metadata.jsonl of
            Hugging Face's imagefolder (file_name and text). `image` is relative to the
            folder, and its case matters only if two pictures differ in nothing else.
            The optional column split contains train, dev or test; without it, every
            photo has the split None.
        split_seed: if given, split the photos 80/10/10 at random with this seed.
    """
    data_dir, skipped = Path(data_dir).expanduser(), Skipped()
    if (
        table := find_file(
            data_dir, ("captions.csv", "captions.jsonl", "metadata.csv", "metadata.jsonl")
        )
    ) is None:
        raise no_caption_file(
            data_dir, "captions.csv with the columns image and caption, or captions.jsonl"
        )
    captions, photos, splits = {}, {}, {}
    pictures = functools.cache(lambda: _pictures_in_any_case(data_dir))

    @functools.cache  # a picture has several captions
    def actual(name):
        return (
            name
            if os.path.isfile(data_dir / name)
            else pictures().get(Path(name).as_posix().casefold(), name)
        )

    for line, name, caption, split in (read_jsonl if table.suffix == ".jsonl" else read_csv)(table):
        where = f"{table.name}, line {line}"
        reject_outside(name, where)
        name = actual(name)
        image_id, path = image_id_of(name), str(data_dir / name)
        add_caption(captions, name and image_id, caption, skipped, where)
        if not name or not caption:
            continue
        if photos.setdefault(image_id, path) != path:
            raise ValueError(
                f"{where}: two pictures have the same image id {brief(image_id)} (the "
                "file name without folder and "
                f"extension): {shortened(photos[image_id])} and {shortened(path)}. Rename "
                "one of them."
            )
        if split:
            add_split(splits, image_id, split, where)
    photos = {image_id: path for image_id, path in photos.items() if os.path.isfile(path)}
    photos = photos_in(data_dir) | photos
    nested = (
        None
        if photos.keys() & captions
        else next((name for name in pictures().values() if "/" in name), None)
    )
    hint = (
        f" Name pictures in subfolders with the folder, such as {shortened(nested)}."
        if nested
        else ""
    )
    return assemble(data_dir, captions, photos, splits, skipped, split_seed, hint)


def _pictures_in_any_case(data_dir):
    """Return a dict from lower-case picture names to actual names, without those that
    several pictures share.
    """
    paths = itertools.chain(*pictures_by_folder(str(data_dir), lenient=True))
    names = [Path(path).relative_to(data_dir).as_posix() for path in paths]
    times = Counter(map(str.casefold, names))
    return {name.casefold(): name for name in names if times[name.casefold()] == 1}
