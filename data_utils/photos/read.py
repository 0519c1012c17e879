"""Read many photos. One that cannot be read is named and counted, and costs none of the
others.
"""

from __future__ import annotations

import collections
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from data_utils.base import Progress, reason_without_number
from data_utils.captions import CaptionedImage
from data_utils.photos.digests import photo_of
from data_utils.photos.images import load_image

NUM_READERS = 2  # threads: more would take cores from the encoder
SMALL = 32  # pixels: large JPEGs are then decoded at a reduced size
FEW_PHOTOS = 1000  # fewer take a second or two
WAY_OUT = "leave such photos out with skip_unreadable=True (--skip-unreadable)"


def read_photos(
    photos: Iterable[Any],
    sizes: list[tuple[int, int]],
    *,
    load: Callable = load_image,
    ahead: int = 0,
) -> Iterator[list | Exception]:
    """Yield for each photo a list of its pixels in each size, uint8 (height, width, 3);
    for an unreadable one its error, an OSError or ValueError.

    Args:
        photos: what `load` takes, such as paths.
        sizes: list of (height, width).
        load: replaces `load_image`, for example by `PhotoProcess.load`.
        ahead: number of photos that other threads read while the caller works; 0: none.
    """

    def read(photo):
        try:
            return [load(photo, size) for size in sizes]
        except (OSError, ValueError) as error:
            return error

    if not ahead:
        yield from map(read, photos)
        return
    photos = iter(photos)
    with ThreadPoolExecutor(NUM_READERS) as readers:
        reading = collections.deque(
            readers.submit(read, photo) for photo in itertools.islice(photos, ahead)
        )
        while reading:
            found = reading.popleft().result()
            reading.extend(readers.submit(read, photo) for photo in itertools.islice(photos, 1))
            yield found


def report_unreadable(
    reasons: list[str], num_photos: int, *, skip: bool, way_out: str = WAY_OUT
) -> None:
    """Say how many photos cannot be read, and why the first one cannot: in a warning
    with `skip`, otherwise as a ValueError.
    """
    if not reasons:
        return
    counted = f"{len(reasons)} of {num_photos}"
    if not skip:
        problem = f"Unreadable photos: {counted} (first: {reasons[0]})"
        raise ValueError(f"{problem}. Repair or remove them, or {way_out}.")
    warnings.warn(f"unreadable photos left out: {counted} (first: {reasons[0]})", stacklevel=3)


def readable_photos(
    captioned_images: list[CaptionedImage],
    *,
    skip: bool = False,
    show_progress: bool = True,
    noted: dict | None = None,
) -> list[CaptionedImage]:
    """Return the captioned photos that can be read.

    Args:
        captioned_images: list of CaptionedImage.
        skip: leave out unreadable photos, with a warning that counts them. False raises
            a ValueError that counts them.
        show_progress: show progress on standard error.
        noted: a dict that is filled with the record of each photo by its id, see
            `data_utils.photos.digests`.
    """

    def record_and_load(image, size):
        record = None if noted is None else photo_of(image.image_path)
        load_image(image.image_path, size)
        return record

    records = Progress.over(
        read_photos(captioned_images, [(SMALL, SMALL)], load=record_and_load),
        len(captioned_images),
        label="photos checked",
        unit="photos",
        show=show_progress and len(captioned_images) >= FEW_PHOTOS,
    )
    readable, reasons = [], []
    for record, image in zip(records, captioned_images):
        if isinstance(record, Exception):
            reasons.append(reason_without_number(record))
            continue
        readable.append(image)
        if noted is not None:
            (noted[image.image_id],) = record
    report_unreadable(reasons, len(captioned_images), skip=skip)
    return readable
