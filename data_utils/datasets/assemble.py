"""Match photos, captions and splits, and count what has no counterpart."""

import os
from pathlib import Path

from data_utils.captions import IMAGE_ENDINGS, CaptionedImage, image_id_of, reject_long_caption
from data_utils.datasets.splits import draw_split
from data_utils.foreign_text import shortened


def assemble(data_dir, captions, photos, splits, skipped, split_seed, hint=""):
    """Return the list of CaptionedImage for every photo that has captions; count the rest in one warning."""
    for image_id in captions.keys() - photos.keys():
        for _ in captions[image_id]:
            skipped.add("captions without a photo left out", image_id)
    for image_id in sorted(photos.keys() - captions.keys()):
        skipped.add("photos without a caption left out", image_id)
    for image_id in sorted(splits.keys() - (captions.keys() & photos.keys())):
        skipped.add("photos on a split list that are not there", image_id)
    kept = [image_id for image_id in captions if image_id in photos]
    if not captions:
        raise ValueError(f"There is no caption in the caption file. Received: data_dir={str(data_dir)!r}")
    if not kept:
        raise ValueError(
            f"None of the {len(captions)} captioned photos was found (first: {shortened(next(iter(captions)))}). "
            f"Expected: the photos in the folder itself or in one of its standard subfolders.{hint} "
            f"Received: data_dir={str(data_dir)!r}"
        )
    for image_id in kept:
        reject_long_caption(max(captions[image_id], key=len), image_id, data_dir)
    if split_seed is not None:
        splits = draw_split(kept, split_seed)
    skipped.warn(data_dir)
    return [
        CaptionedImage(image_id, str(photos[image_id]), captions[image_id], splits.get(image_id)) for image_id in kept
    ]


def add_caption(captions, image_id, text, skipped, where):
    """Add a caption to those of its photo, or count it as left out."""
    if image_id and text.strip():
        captions.setdefault(image_id, []).append(" ".join(text.split()))
    else:
        skipped.add(f"{'empty captions' if image_id else 'captions of no photo'} left out", where)


def existing_folder(data_dir):
    data_dir = Path(data_dir).expanduser()
    if not data_dir.is_dir():
        raise ValueError(
            "The data folder does not exist. Expected: the folder with the photos and their captions. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    return data_dir


def find_file(data_dir, name, folders):
    return next((path for path in (data_dir / folder / name for folder in folders) if path.is_file()), None)


def find_photos(data_dir, folder_names):
    """Return image id -> path from the first folder that has photos; zips often nest a folder in itself."""
    for outer in folder_names:
        for candidate in (data_dir / outer, *(data_dir / outer / inner for inner in folder_names)):
            photos = photos_in(candidate) if candidate.is_dir() else {}
            if photos:
                return photos
    return photos_in(data_dir)


def photos_in(directory):
    """Return image id -> path of a folder's photos, without macOS' ._ files."""
    with os.scandir(directory) as entries:
        return {
            image_id_of(entry.name): entry.path
            for entry in entries
            if os.path.splitext(entry.name)[1].lower() in IMAGE_ENDINGS and not entry.name.startswith("._")
        }
