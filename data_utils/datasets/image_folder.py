"""Read a folder of your own pictures."""

from __future__ import annotations

import itertools
import os
import posixpath
from collections import Counter
from pathlib import Path

from data_utils.base import brief, shortened
from data_utils.captions import (
    CaptionedImage,
    Skipped,
    image_id_of,
    leads_outside,
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
from data_utils.datasets.tables import read_table

TABLES = ("captions.csv", "captions.jsonl", "metadata.csv", "metadata.jsonl")


def folder(data_dir: str | os.PathLike, *, split_seed: int | None = None) -> list[CaptionedImage]:
    """Return your own pictures as a list of CaptionedImage, in the order of the caption
    file.

    Args:
        data_dir: a folder with the pictures and either captions.csv (columns image and
            caption, one caption per row) or captions.jsonl (one object per line, with
            image and caption or captions), or the metadata.csv or metadata.jsonl of
            Hugging Face's imagefolder (file_name and text). `image` is relative to the
            folder, and its case matters only if two pictures differ in nothing else. A
            CSV file may have commas, semicolons or tabs between cells, and several
            columns with captions: caption,caption or caption1,caption2. The optional
            column split contains train, dev or test. Photos without it have the split
            None; a warning counts them if others have one.
        split_seed: if given, split the photos 80/10/10 at random with this seed; a
            warning says if this replaces splits of the table.
    """
    data_dir = Path(data_dir).expanduser()
    table = find_file(data_dir, TABLES)
    if table is None:
        raise no_caption_file(
            data_dir, "captions.csv with the columns image and caption, or captions.jsonl"
        )
    skipped = Skipped()
    pictures = PictureNames(data_dir)
    captions, photos, splits = _read_rows(table, pictures, skipped)
    photos = {image_id: path for image_id, path in photos.items() if os.path.isfile(path)}
    photos = photos_in(data_dir) | photos
    captioned_ids = [image_id for image_id in captions if image_id in photos]
    if split_seed is not None:
        reason = f"splits in {table.name} ignored because of split_seed={split_seed}"
        for image_id in splits:
            skipped.add(reason, image_id)
    elif splits:
        reason = f"photos without a split in {table.name}, not used"
        for image_id in captioned_ids:
            skipped.add(reason, image_id, image_id not in splits)
    hint = "" if captioned_ids else _hint_at_subfolders(pictures)
    return assemble(data_dir, captions, photos, splits, skipped, split_seed, hint)


def _read_rows(table, pictures, skipped):
    """Read the table of a folder, a path.

    Args:
        pictures: PictureNames of the folder.
        skipped: Skipped, which counts the rows that are left out.

    Returns: captions (image id -> list of texts), photos (image id -> path) and splits
        (image id -> split), for those that the table names.
    """
    captions, photos, splits = {}, {}, {}
    for row in read_table(table).rows():
        where = f"{table.name}, line {row.line}"
        reject_outside(row.image.strip(), where)
        name = pictures.actual(row.image)
        image_id = image_id_of(name)
        path = str(table.parent / name)
        for caption in row.captions or [""]:
            add_caption(captions, name and image_id, caption, skipped, where)
        if not name or not row.captions:
            continue
        if photos.setdefault(image_id, path) != path:
            raise ValueError(
                f"{where}: two pictures have the same image id {brief(image_id)} (the "
                "file name without folder and "
                f"extension): {shortened(photos[image_id])} and {shortened(path)}. Rename "
                "one of them."
            )
        if row.split:
            add_split(splits, image_id, row.split, where)
    return captions, photos, splits


def _hint_at_subfolders(pictures):
    """Return the hint for a table that names no picture, if there are some in
    subfolders, else "".
    """
    for name in pictures.in_any_case().values():
        if "/" in name:
            return f" Name pictures in subfolders with the folder, such as {shortened(name)}."
    return ""


class PictureNames:
    """Finds the pictures of a folder by the names that people write in tables.

    A name means the picture with exactly this name. If there is none, it means the one
    whose name differs only in spaces at the ends, in backslashes for slashes, or in its
    case; but not if several pictures differ only in case.

    Args:
        folder: the folder of the table.
        names: the pictures that may be meant in another case, as paths relative to the
            folder, with slashes. None: all in the folder and its subfolders.
    """

    def __init__(self, folder, names=None):
        self.folder = Path(folder)
        self.names = None if names is None else set(names)
        self._in_any_case = None
        self._listings = {}
        self._actual = {}

    def actual(self, name):
        """Return the picture that a name means, as a path relative to the folder.

        If there is none, return the name itself.
        """
        if name not in self._actual:  # tables repeat the name for each caption
            self._actual[name] = self._found(name)
        return self._actual[name]

    def in_any_case(self):
        """Return a dict from lower-case names to actual ones, without shared ones."""
        if self._in_any_case is None:
            names = self._all_names() if self.names is None else self.names
            times = Counter(map(str.casefold, names))
            unique = [name for name in names if times[name.casefold()] == 1]
            self._in_any_case = {name.casefold(): name for name in unique}
        return self._in_any_case

    def _found(self, name):
        trimmed = name.strip()
        if not trimmed or leads_outside(trimmed):
            return trimmed
        for spelling in (name, trimmed, trimmed.replace("\\", "/")):
            path = posixpath.normpath(spelling)  # without "./" and "//"
            if self._exists(path):
                return path
        return self.in_any_case().get(path.casefold(), trimmed)

    def _exists(self, path):
        """Return whether there is a file of this name, in this case on every system."""
        if self.names is not None and path in self.names:
            return True
        parent, name = posixpath.split(path)
        if parent not in self._listings:
            try:
                self._listings[parent] = {*os.listdir(self.folder / parent)}
            except (OSError, ValueError):  # ValueError: a null character
                self._listings[parent] = set()
        return name in self._listings[parent]

    def _all_names(self):
        paths = itertools.chain(*pictures_by_folder(str(self.folder), lenient=True))
        return [Path(path).relative_to(self.folder).as_posix() for path in paths]
