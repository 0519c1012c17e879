"""Download data sets, resume interrupted downloads, and verify the files."""

import errno
import os
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from data_utils.base import Progress, exclusive_lock, read_json, write_json
from data_utils.captions import IMAGE_ENDINGS

MOST_EXPANSION = 100  # a zip that expands by a larger factor was made to fill the disk
SMALL_BYTES = 100_000_000  # unpacking this much is harmless, however small the zip
TIMEOUT_SECONDS = 60


class DataSource(NamedTuple):
    """The source of a data set: `files` maps zips to their MD5 (None accepts any), or
    `by_hand` says how to get it.
    """

    url: str = ""
    files: dict = {}
    num_photos: int = 0
    by_hand: str = ""


DOWNLOADS = {
    "flickr8k": DataSource(
        url="https://github.com/jbrownlee/Datasets/releases/download/Flickr8k",
        files={
            "Flickr8k_text.zip": "bf6c1abcb8e4a833b7f922104de18627",
            "Flickr8k_Dataset.zip": "f18a1e2920de5bd84dae7cf08ec78978",
        },
        num_photos=8091,
    ),
    "flickr30k": DataSource(
        by_hand="Request Flickr30k at https://shannon.cs.illinois.edu/DenotationGraph/ . Put the "
        "photos into "
        "{data_dir}/flickr30k-images, and results_20130124.token and Karpathy's "
        "dataset_flickr30k.json, which has the "
        "splits "
        "(https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip), "
        "into {data_dir}."
    ),
    "coco": DataSource(
        by_hand="Download COCO from https://cocodataset.org/#download (20 GB). Unpack "
        "train2014.zip, val2014.zip and "
        "annotations_trainval2014.zip into {data_dir}. The test split also needs "
        "Karpathy's dataset_coco.json there "
        "(https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip)."
    ),
}


def download(
    name: str, data_dir: str | os.PathLike, *, mirror: str | None = None, show_progress: bool = True
) -> Path:
    """Download a data set into a folder, unless it is already there; return the folder
    as a Path.

    An interrupted download resumes where it stopped. The checksum of each zip is
    verified before it is unpacked, and the photos are counted afterwards.

    Args:
        name: a name in DOWNLOADS.
        data_dir: the folder, created if missing. Zips that you have put there yourself
            are used.
        mirror: URL of another folder with the same files.
    """
    if name not in DOWNLOADS:
        raise ValueError(f"Expected one of: {', '.join(DOWNLOADS)}. Received: name={name!r}")
    data_dir = Path(data_dir).expanduser()
    source = DOWNLOADS[name]
    if source.by_hand:
        raise ValueError(
            f"{name} cannot be downloaded automatically. {source.by_hand.format(data_dir=data_dir)}"
        )
    is_finished = {"name": name, "num_photos": source.num_photos}
    marker = data_dir / "download.json"
    if (
        marker.exists()
        and read_json(marker) == is_finished
        and _count_photos(data_dir) >= source.num_photos
    ):
        return data_dir
    with exclusive_lock(data_dir / "download.lock", f"is downloading into {data_dir}"):
        url = (mirror or source.url).rstrip("/")
        for file, md5 in source.files.items():
            fetch(f"{url}/{file}", data_dir / file, md5=md5, show_progress=show_progress)
        for file in source.files:
            extract(data_dir / file, data_dir, show_progress=show_progress)
        num_photos = _count_photos(data_dir)
        if num_photos < source.num_photos:
            problem = (
                f"{name} is incomplete: {num_photos} of {source.num_photos} photos were found."
            )
            raise ValueError(
                f"{problem} Remove {', '.join(source.files)} from {data_dir} and download again."
            )
        write_json(marker, is_finished)
        for file in source.files:
            (data_dir / file).unlink()
    return data_dir


def _count_photos(data_dir):
    photos = (path for path in data_dir.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
    return sum(path.stat().st_size > 0 for path in photos)


def fetch(url, path, *, md5=None, show_progress=True):
    """Download a file with pooch unless it exists with the right checksum; `path` never
    holds an incomplete file.

    Raises:
        ConnectionError: the download failed, or the file could not be written; run
            again to resume.
        ValueError: the checksum is not `md5` (None accepts any).
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
    except OSError as error:  # including those of requests
        raise ConnectionError(
            f"{url} could not be downloaded: {error}. Run again to resume."
        ) from None
    except ValueError:
        raise ValueError(
            f"{url}: the checksum does not match. The file was removed; run again."
        ) from None


def _append_rest(url, part, show_progress):
    """Resume the download of a file.

    Return whether it is complete, or raise an error if nothing arrived.
    """
    import requests

    bytes_so_far = part.stat().st_size if part.exists() else 0
    start = bytes_so_far
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            if start and response.status_code == requests.codes.range_not_satisfiable:
                return True  # nothing is left to download; the checksum decides
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                start = 0  # a server without ranges sends the whole file
            total = (start + int(response.headers.get("Content-Length", 0))) // 1_000_000
            progress = Progress(max(total, 1), label=part.stem, unit="MB", show=show_progress)
            with part.open("ab" if start else "wb") as file, progress:
                progress.skip(start // 1_000_000)
                for chunk in response.iter_content(1 << 16):
                    file.write(chunk)
                    progress.advance(file.tell() // 1_000_000 - progress.done)
    except requests.RequestException:
        if not part.exists() or part.stat().st_size <= bytes_so_far:
            raise
        return False
    return True


def extract(archive, data_dir, *, show_progress=True):
    """Unpack a zip into a folder, without the files that macOS adds; reject a zip that
    expands too much.

    zipfile keeps every path inside the folder, creates no links, and checks the CRC of
    each file.
    """
    try:
        with zipfile.ZipFile(archive) as zip_file:
            entries = [
                entry
                for entry in zip_file.infolist()
                if not re.search(r"(^|/)(__MACOSX/|\._)", entry.filename)
            ]
            size, packed_size = sum(entry.file_size for entry in entries), os.path.getsize(archive)
            if size > max(MOST_EXPANSION * packed_size, SMALL_BYTES):
                raise zipfile.BadZipFile(
                    f"{packed_size} bytes would expand to {size} bytes, too many for a data set"
                )
            with Progress(
                len(entries), label=Path(archive).name, unit="files", show=show_progress
            ) as progress:
                for entry in entries:
                    zip_file.extract(entry, data_dir)
                    progress.advance(1)
    except Exception as error:  # zipfile raises errors of many kinds for damaged zips
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(
            f"{archive}: the zip is damaged ({error}). Remove it and download again."
        ) from None
