"""Read a data set by name.

If the folder is empty or missing, the data set is downloaded first where possible.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections import Counter
from pathlib import Path

from data_utils.base import brief
from data_utils.captions import CaptionedImage
from data_utils.datasets.readers import DATASETS
from data_utils.datasets.splits import SPLITS, draw_split
from data_utils.downloads import DOWNLOADS, download


def read_data(
    data: str | list[CaptionedImage],
    data_dir: str | os.PathLike | None = None,
    *,
    split_seed: int | None = None,
    show_progress: bool = True,
) -> list[CaptionedImage]:
    """Return the captioned photos of a data set as a list of CaptionedImage.

    Args:
        data: a name in DATASETS, or a list of CaptionedImage, which is checked and
            returned.
        data_dir: the folder of the data set. If it is new or empty, the data set is
            downloaded if possible.
        split_seed: if given, split the photos 80/10/10 at random with this seed.
        show_progress: show the progress of a download.
    """
    if not isinstance(data, str):
        return _checked(data, split_seed)
    if data not in DATASETS:
        raise ValueError(
            f"Expected one of: {', '.join(DATASETS)}, or a list of CaptionedImage. "
            f"Received: data={brief(data)}"
        )
    if data_dir is None and data != "scenes":
        raise ValueError(
            "Pass the folder of the data set as `data_dir` (--data-dir). Received: "
            f"data={data!r}, data_dir=None"
        )
    if (
        data in DOWNLOADS
        and DOWNLOADS[data].files
        and _is_to_be_downloaded(Path(data_dir).expanduser())
    ):
        download(data, data_dir, show_progress=show_progress)
    reader = DATASETS[data]
    options = {}
    if split_seed is not None and "split_seed" in inspect.signature(reader).parameters:
        options["split_seed"] = split_seed  # the reader warns if this replaces other splits
    return _checked(reader(data_dir, **options), split_seed)


def photos_of_split(captioned_images: list[CaptionedImage], split: str) -> list[CaptionedImage]:
    """Return the photos of one split; raise ValueError if it has none."""
    photos = [image for image in captioned_images if image.split == split]
    if photos:
        return photos
    if not captioned_images:
        raise ValueError(
            "The data set has no photos with captions. Add captions to its photos, in each "
            f"split. Received: split={split!r}"
        )
    counts = Counter(repr(image.split) for image in captioned_images)
    raise ValueError(
        f"There are no photos in this split. Expected one of: {', '.join(SPLITS)}. The "
        "data set has: "
        f"{', '.join(f'{number} in {name}' for name, number in counts.items())}. Add the "
        "data set's split lists to its "
        "folder, or pass split_seed=0 (--split-seed 0) to split at random, which takes 3 "
        "photos or more. "
        f"Received: split={split!r}"
    )


def _is_to_be_downloaded(data_dir):
    """Return whether the folder is missing or empty, or contains only zips or an
    unfinished download.
    """
    if not data_dir.is_dir() or all(
        path.suffix in (".zip", ".part") for path in data_dir.iterdir()
    ):
        return True
    return (data_dir / "download.lock").exists() and not (data_dir / "download.json").exists()


def _checked(images, split_seed):
    images = list(images) if isinstance(images, (list, tuple)) else [images]
    for image in images:
        is_one = isinstance(image, CaptionedImage) and isinstance(image.captions, (list, tuple))
        texts = (image.image_id, *image.captions) if is_one else (None,)
        if not all(isinstance(text, str) for text in texts) or image.split not in (*SPLITS, None):
            raise ValueError(
                f"Expected one of: {', '.join(DATASETS)}, or a list of CaptionedImage, "
                "each with a string id, a "
                f"list of captions, and one of the splits {', '.join(SPLITS)} or None. "
                f"Received: {brief(image)}"
            )
    num_ids = len({image.image_id for image in images})
    if not images or num_ids < len(images):
        raise ValueError(
            f"Expected at least one photo, and unique ids. Received: {len(images)} "
            f"photos, {num_ids} ids"
        )
    if split_seed is not None:
        splits = draw_split([image.image_id for image in images], split_seed)
        images = [dataclasses.replace(image, split=splits[image.image_id]) for image in images]
    return images
