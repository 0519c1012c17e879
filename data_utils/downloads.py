"""Fetch a data set once, resumably and safely."""

from __future__ import annotations

import errno
import os
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from data_utils.atomic_files import exclusive_lock, read_json, write_json
from data_utils.captions import IMAGE_ENDINGS
from data_utils.progress import Progress

MOST_EXPANSION = 100  # a zip that unpacks to more times its size is not a data set, but made to fill the disk
SMALL_BYTES = 100_000_000  # which does no harm, however small the zip
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch: its name, its address, and the MD5 of the published file (None: any content will do)."""

    name: str
    url: str
    md5: str | None = None


@dataclass(frozen=True)
class DataSource:
    """What a data set is made of: zips to fetch and the number of photos in them, or how to get it by hand."""

    files: tuple = ()
    num_photos: int = 0
    disk_bytes: int = 0
    by_hand: str = ""


_FLICKR8K_URL = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k/"

DOWNLOADS = {
    "flickr8k": DataSource(
        files=(
            RemoteFile("Flickr8k_text.zip", _FLICKR8K_URL + "Flickr8k_text.zip", "bf6c1abcb8e4a833b7f922104de18627"),
            RemoteFile(
                "Flickr8k_Dataset.zip", _FLICKR8K_URL + "Flickr8k_Dataset.zip", "f18a1e2920de5bd84dae7cf08ec78978"
            ),
        ),
        num_photos=8091,
        disk_bytes=2_300_000_000,
    ),
    "flickr30k": DataSource(
        by_hand="Flickr30k is behind a form: https://shannon.cs.illinois.edu/DenotationGraph/ . Put the photos into "
        "{data_dir}/flickr30k-images, and results_20130124.token and Karpathy's dataset_flickr30k.json, which has the "
        "splits (https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip), into {data_dir}."
    ),
    "coco": DataSource(
        by_hand="COCO is at https://cocodataset.org/#download (20 GB). Unpack train2014.zip, val2014.zip and "
        "annotations_trainval2014.zip into {data_dir}. A test split also needs Karpathy's dataset_coco.json there "
        "(https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip)."
    ),
}


def download(name: str, data_dir: str | os.PathLike, *, mirror: str | None = None, show_progress: bool = True) -> Path:
    """Fetch a data set into a folder, unless it is there already.

    An interrupted download resumes where it stopped. The checksum of each zip is verified before it is unpacked, and
    the photos are counted afterwards.

    Args:
        name: a name in DOWNLOADS.
        data_dir: the folder; made if it is not there. Zips that were put there by hand are used.
        mirror: address of a folder with the same files to fetch from instead.
        show_progress: show progress on standard error.

    Returns: the folder as a Path.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"Expected one of: {', '.join(DOWNLOADS)}. Received: name={name!r}")
    data_dir = Path(data_dir).expanduser()
    source = DOWNLOADS[name]
    if source.by_hand:
        raise ValueError(f"{name} cannot be downloaded. {source.by_hand.format(data_dir=data_dir)}")
    is_finished = {"name": name, "num_photos": source.num_photos}
    marker = data_dir / "download.json"
    if marker.exists() and read_json(marker) == is_finished and _count_photos(data_dir) >= source.num_photos:
        return data_dir
    with exclusive_lock(data_dir / "download.lock", f"is downloading into {data_dir}"):
        there = sum(path.stat().st_size for path in data_dir.rglob("*") if path.is_file())
        needed, free = source.disk_bytes - there, shutil.disk_usage(data_dir).free
        if free < needed:
            raise ValueError(
                f"{name} needs {needed / 1e9:.1f} GB more on the disk while it is unpacked, and {free / 1e9:.1f} GB "
                f"are free. Free some space, or choose another folder. Received: data_dir={str(data_dir)!r}"
            )
        for file in source.files:
            url = file.url if mirror is None else f"{mirror.rstrip('/')}/{file.name}"
            fetch(url, data_dir / file.name, md5=file.md5, show_progress=show_progress)
        for file in source.files:
            extract(data_dir / file.name, data_dir, show_progress=show_progress)
        num_photos = _count_photos(data_dir)
        if num_photos < source.num_photos:
            raise ValueError(
                f"{name} is not complete: {num_photos} photos of {source.num_photos} are there. Remove "
                f"{', '.join(file.name for file in source.files)} from {data_dir} and download again."
            )
        write_json(marker, is_finished)
        for file in source.files:
            (data_dir / file.name).unlink()
    return data_dir


def _count_photos(data_dir):
    """Count the photos that are not empty, in the folder and the folders below it."""
    photos = (path for path in data_dir.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
    return sum(path.stat().st_size > 0 for path in photos)


def fetch(url, path, *, md5=None, show_progress=True):
    """Fetch a file with pooch, which verifies its checksum; at the end it is complete or it is not there.

    Args:
        url: the address of the file.
        path: where it is saved. A file that is there already is kept if its checksum is right.
        md5: the checksum of the file; None accepts any content.
        show_progress: show progress on standard error.

    Raises:
        ConnectionError: the file did not arrive, or could not be written; run again to resume.
        ValueError: what arrived is not the published file.
    """
    import pooch

    path = Path(path)
    part = path.with_name(f"{path.name}.part")

    def resume(url, output_file, _):
        while not _append_rest(url, part, show_progress):
            pass
        os.replace(part, output_file)

    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(url, md5 and f"md5:{md5}", path.name, path.parent, downloader=resume)
    except OSError as error:  # the errors of requests among them
        raise ConnectionError(
            f"{url} could not be fetched: {error}. What has arrived is kept; run again to resume."
        ) from None
    except ValueError:
        raise ValueError(f"{url} is not the published file: its checksum differs. It was removed; run again.") from None


def _append_rest(url, part, show_progress):
    """Append to the part file what it lacks; return whether it is whole.

    pooch's own downloaders start again from the first byte. A try that adds nothing raises its error.
    """
    import requests

    start = before = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            if start and response.status_code == requests.codes.range_not_satisfiable:
                return True  # there is no more; the checksum decides
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                start = 0  # a server without ranges sends the whole file
            total = (start + int(response.headers.get("Content-Length", 0))) // 1_000_000
            with (
                part.open("ab" if start else "wb") as file,
                Progress(max(total, 1), label=part.stem, unit="MB", show=show_progress) as progress,
            ):
                progress.skip(start // 1_000_000)
                for chunk in response.iter_content(1 << 16):
                    file.write(chunk)
                    progress.advance(file.tell() // 1_000_000 - progress.done)
    except requests.RequestException:
        if not part.exists() or part.stat().st_size <= before:
            raise
        return False
    return True


def extract(archive, data_dir, *, show_progress=True):
    """Unpack a zip into a folder.

    zipfile keeps every path inside the folder, makes no links, and checks the CRC of each file. __MACOSX folders and
    ._ files that macOS adds are left out. A zip that unpacks to more than MOST_EXPANSION times its size is rejected.
    """
    try:
        with zipfile.ZipFile(archive) as zip_file:
            entries = [entry for entry in zip_file.infolist() if not re.search(r"(^|/)(__MACOSX/|\._)", entry.filename)]
            size, packed_size = sum(entry.file_size for entry in entries), os.path.getsize(archive)
            if size > max(MOST_EXPANSION * packed_size, SMALL_BYTES):
                raise zipfile.BadZipFile(f"{packed_size} bytes that unpack to {size} are not a data set")
            with Progress(len(entries), label=Path(archive).name, unit="files", show=show_progress) as progress:
                for entry in entries:
                    zip_file.extract(entry, data_dir)
                    progress.advance(1)
    except Exception as error:  # zipfile raises errors of many kinds for damaged zips
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{archive}: the zip is damaged ({error}). Remove it and download again.") from None
