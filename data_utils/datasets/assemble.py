"""Find the files of a data set, and match photos, captions and splits."""

import contextlib
from pathlib import Path

from data_utils.base import shortened
from data_utils.captions import CaptionedImage, image_id_of, pictures_by_folder, reject_long_caption
from data_utils.datasets.splits import draw_split


def assemble(data_dir, captions, photos, splits, skipped, split_seed, hint=""):
    """Return a CaptionedImage for each photo with captions.

    Count everything else in one warning.
    """
    for image_id in sorted(captions.keys() - photos.keys()):
        skipped.add("captions without a photo left out", image_id, len(captions[image_id]))
    for image_id in sorted(photos.keys() - captions.keys()):
        skipped.add("photos without a caption left out", image_id)
    for image_id in sorted(splits.keys() - (captions.keys() & photos.keys())):
        skipped.add("photos on a split list that are missing", image_id)
    if not captions:
        raise ValueError(
            f"The caption file contains no captions. Received: data_dir={str(data_dir)!r}"
        )
    kept = [image_id for image_id in captions if image_id in photos]
    if not kept:
        raise ValueError(
            f"None of the {len(captions)} captioned photos was found (first: "
            f"{shortened(next(iter(captions)))}). "
            "Expected: photos in the folder itself, in its standard subfolders, or at "
            "the paths in your table."
            f"{hint} Received: data_dir={str(data_dir)!r}"
        )
    for image_id in kept:
        reject_long_caption(max(captions[image_id], key=len), image_id, data_dir)
    if split_seed is not None:
        splits = draw_split(kept, split_seed)
    skipped.warn(data_dir)
    return [
        CaptionedImage(image_id, str(photos[image_id]), captions[image_id], splits.get(image_id))
        for image_id in kept
    ]


def add_caption(captions, image_id, text, skipped, where):
    """Add a caption to its photo, or count it as skipped."""
    if image_id and text.strip():
        captions.setdefault(image_id, []).append(" ".join(text.split()))
    else:
        skipped.add("rows without an image or a caption left out", where)


def find_file(data_dir, names, folders=("",)):
    """Return the first existing file with one of these names in one of these folders,
    or None.
    """
    paths = (data_dir / folder / name for name in names for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def no_caption_file(data_dir, expected):
    problem = "No caption file found" if data_dir.is_dir() else "The data folder does not exist"
    return ValueError(f"{problem}. Expected: {expected}. Received: data_dir={str(data_dir)!r}")


@contextlib.contextmanager
def expecting(path, expected):
    """Turn errors caused by unexpected JSON content into a ValueError with the file's
    path.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected {expected}. Received: {type(error).__name__}: {error}"
        ) from None


def find_photos(data_dir, folder_names):
    """Return a dict from image ids to the paths of the photos in the first folder that
    has any.
    """
    # Zips often contain a folder inside a folder of the same name.
    folders = [data_dir / outer / inner for outer in folder_names for inner in ("", *folder_names)]
    for folder in filter(Path.is_dir, [*folders, data_dir]):
        if photos := photos_in(folder):
            return photos
    return {}


def photos_in(directory):
    """Return a dict from image ids to paths for the photos in a folder."""
    return {image_id_of(path): path for path in next(pictures_by_folder(directory))}
