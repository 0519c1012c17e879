"""A folder of your own pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from data_utils.captions import Skipped, image_id_of, pictures_by_folder, reject_outside
from data_utils.datasets.assemble import add_caption, assemble, existing_folder, photos_in
from data_utils.datasets.splits import Splits, split_of
from data_utils.datasets.tables import read_csv, read_jsonl
from data_utils.foreign_text import brief, shortened

if TYPE_CHECKING:
    from data_utils.captions import CaptionedImage


def folder(data_dir: str | os.PathLike, *, split_seed: int | None = None) -> list[CaptionedImage]:
    """Read your own pictures.

    Args:
        data_dir: a folder with the pictures and captions.csv (columns image and caption, one caption a row) or
            captions.jsonl (an object with image and caption, or captions, a line). `image` is a path from that folder,
            whatever its case where that is unambiguous. A column split may have train, dev or test; without it every
            photo has the split None.
        split_seed: draw a split of 80/10/10 by photo with this seed.

    Returns: list of CaptionedImage in the order of the caption file.
    """
    data_dir = existing_folder(data_dir)
    skipped = Skipped()
    table = next((data_dir / name for name in ("captions.csv", "captions.jsonl") if (data_dir / name).is_file()), None)
    if table is None:
        raise ValueError(
            "No caption file found. Expected: captions.csv with the columns image and caption, or captions.jsonl. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    rows = read_jsonl(table) if table.suffix == ".jsonl" else read_csv(table, skipped)
    captions, photos, splits = {}, {}, Splits()
    own, *deeper = pictures_by_folder(str(data_dir), only_to_count=True)
    deeper = [path for paths in deeper for path in paths]
    known = {}  # lower-case names of pictures -> those names
    for path in [*own, *deeper]:
        name = Path(path).relative_to(data_dir).as_posix()
        known.setdefault(name.casefold(), []).append(name)
    for line, name, caption, split in rows:
        where = f"{table.name}, line {line}"
        reject_outside(name, where)
        alike = known.get(Path(name).as_posix().casefold(), [])
        if len(alike) == 1:
            name = alike[0]
        elif alike and Path(name).as_posix() not in alike:
            skipped.add(f"names that may mean {' or '.join(alike)}", f"{where}: {name}")
        image_id, path = image_id_of(name), str(data_dir / name)
        add_caption(captions, name and image_id, caption, skipped, where)
        if not name or not caption:
            continue
        if photos.setdefault(image_id, path) != path:
            raise ValueError(
                f"{where}: two pictures share the image id {brief(image_id)} (the file's name without folder and "
                f"ending): {shortened(photos[image_id])} and {shortened(path)}. Rename one of them."
            )
        if split:
            splits.note(image_id, split_of(split, where), where)
    photos = {image_id: path for image_id, path in photos.items() if os.path.isfile(path)}
    named = set(photos.values())
    unnamed = [path for path in deeper if path not in named]
    for path in unnamed:
        skipped.add("photos in subfolders that no row names left out", Path(path).relative_to(data_dir).as_posix())
    hint = f" Name those in subfolders so, for example {Path(unnamed[0]).relative_to(data_dir)}." if unnamed else ""
    return assemble(data_dir, captions, photos_in(data_dir) | photos, splits, skipped, split_seed, hint)
