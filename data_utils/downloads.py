"""Fetch a data set once, whole, resumably and safely."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import lzma
import os
import shutil
import stat
import urllib.error
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from data_utils.captions import IMAGE_ENDINGS
from data_utils.files import clear_half_written, exclusive_lock, read_json, write_json
from data_utils.progress import Progress

MOST_EXPANSION = 100  # a zip that unpacks to more times its size is no data set, but made to fill the disk
SMALL_BYTES = 100_000_000  # which does no harm, however small the zip

_CHUNK_BYTES = 1 << 18
_DISK_ERRORS = {  # that another try cannot help; the folder may also vanish while something arrives
    *(errno.ENOSPC, errno.EFBIG, errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
    getattr(errno, "EDQUOT", errno.ENOSPC),  # Windows has none
}
_TRIES_WITHOUT_PROGRESS = 3
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch: its name, its address, and the MD5 of the published file (None: any whole zip will do)."""

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
        by_hand="Flickr30k is given out after a form: https://shannon.cs.illinois.edu/DenotationGraph/ . Put the "
        "photos into {data_dir}/flickr30k-images, results_20130124.token into {data_dir}, and beside it Karpathy's "
        "dataset_flickr30k.json (https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip), which "
        "has the splits."
    ),
    "coco": DataSource(
        by_hand="COCO lies at https://cocodataset.org/#download (20 GB). Unpack train2014.zip, val2014.zip and "
        "annotations_trainval2014.zip into {data_dir}; a test split needs Karpathy's dataset_coco.json "
        "(https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip) beside them."
    ),
}


def download(name: str, data_dir: str | os.PathLike, *, mirror: str | None = None, show_progress: bool = True) -> Path:
    """Fetch a data set into a folder, unless it is there already.

    An interrupted download resumes where it stopped. Nothing counts as complete before it is verified: the length, the
    checksum, each file in the zip, and the number of photos.

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
    if _is_finished(name, data_dir, source):
        _remove_archives(data_dir, source)  # where it was killed just before
        return data_dir
    with exclusive_lock(data_dir / "download.lock", f"is downloading into {data_dir}"):
        clear_half_written(data_dir / "download.json")
        _refuse_full_disk(name, data_dir, source)
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
        write_json(data_dir / "download.json", {"name": name, "num_photos": num_photos})
        _remove_archives(data_dir, source)
    return data_dir


def _refuse_full_disk(name, data_dir, source):
    """Raise ValueError if the disk is too small for the rest of a data set."""
    archives = [data_dir / file.name for file in source.files]
    if all(archive.exists() for archive in archives):
        return  # `extract` knows better how much is missing
    needed = source.disk_bytes - sum(_size(archive) + _size(_part_of(archive)) for archive in archives)
    free = shutil.disk_usage(data_dir).free
    if free < needed:
        raise ValueError(
            f"{name} needs {needed / 1e9:.1f} GB more on the disk while it is unpacked, and {free / 1e9:.1f} GB are "
            f"free. Make room, or choose another folder. Received: data_dir={str(data_dir)!r}"
        )


def _remove_archives(data_dir, source):
    for file in source.files:
        with contextlib.suppress(OSError):  # they only take up room
            (data_dir / file.name).unlink()


def _is_finished(name, data_dir, source):
    """Return whether an earlier download ended here and its photos are still here."""
    marker = data_dir / "download.json"
    if not marker.exists():
        return False
    try:
        finished = read_json(marker) == {"name": name, "num_photos": source.num_photos}
    except ValueError:
        return False
    return finished and _count_photos(data_dir) >= source.num_photos


def _count_photos(data_dir):
    """Count the photos that are not empty, in the folder and the folders below it."""
    return sum(
        os.path.splitext(name)[1].lower() in IMAGE_ENDINGS and os.path.getsize(os.path.join(folder, name)) > 0
        for folder, _, names in os.walk(data_dir)
        for name in names
    )


def fetch(url, path, *, md5=None, show_progress=True):
    """Fetch a file, resuming where an earlier try stopped; at the end it is complete or it is not there.

    What has arrived waits in `path` + ".part". A broken connection is resumed with a range request, as long as each
    try brings something.

    Args:
        url: the address of the file.
        path: where it is saved. A file that is there already is only verified.
        md5: the checksum of the whole file; None verifies its length alone.
        show_progress: show progress on standard error.

    Raises:
        ConnectionError: the file did not arrive; run again to resume.
        OSError: it cannot be written; run again to resume.
        ValueError: what arrived, or lay there, is not the published file.
    """
    path = Path(path)
    if path.exists():
        if md5 is not None and _md5(path) != md5:
            raise ValueError(
                f"{path} is not the published file: its checksum differs. Remove it to fetch it anew; if it is another "
                "edition of the data that you want to use, unpack it by hand instead."
            )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part_of(path)
    tries, is_whole, problem = 0, False, ""
    with Progress(None, label=path.name, unit="MB", show=show_progress) as progress:
        while not is_whole and tries < _TRIES_WITHOUT_PROGRESS:
            before = _size(part)
            try:
                total = _fetch_rest(url, part, progress)
                is_whole = total is None or _size(part) == total
                problem = f"the connection ended after {_size(part)} of {total} bytes"
            except urllib.error.HTTPError as error:
                problem = f"the server answered {error.code} {error.reason}"
                if error.code < 500:
                    break
            except (OSError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in _DISK_ERRORS:
                    raise OSError(error.errno, error.strerror, str(part)) from None
                problem = str(error) or type(error).__name__
            tries = 0 if _size(part) > before else tries + 1
    if not is_whole:
        raise ConnectionError(
            f"{url} could not be fetched: {problem}."
            + (f" {_size(part)} bytes are kept in {part}; run again to resume." if _size(part) else "")
        )
    if md5 is not None and _md5(part) != md5:
        part.unlink()
        raise ValueError(f"What {url} sent is not the published file: its checksum differs. It was removed; run again.")
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _fetch_rest(url, part, progress):
    """Append what is missing to the part file; return the length of the whole file, or None if that is unknown."""
    start = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: nothing lies beyond what we have
            raise
        whole = error.headers.get("Content-Range", "").rpartition("/")[2]
        if whole.isdigit() and int(whole) == start:
            return start
        part.unlink()
        raise ConnectionError("the part that was kept does not belong to the file; it was removed") from None
    with response:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        continues = getattr(response, "status", None) == 206
        if continues:
            sent_range, _, whole = response.headers.get("Content-Range", "").partition("/")
            if sent_range.removeprefix("bytes ").partition("-")[0] != str(start):
                raise ConnectionError("the server sent another part than was asked for")
            total = int(whole) if whole.isdigit() else None
        megabytes = None if total is None else max(total // 1_000_000, 1)
        progress.restart(megabytes, skip=start // 1_000_000 if continues else 0)
        with part.open("ab" if continues else "wb") as file:  # a server without ranges starts over
            received = start if continues else 0
            while chunk := response.read(_CHUNK_BYTES):
                file.write(chunk)
                received += len(chunk)
                progress.advance(received // 1_000_000 - progress.done)
    return total


def _part_of(path):
    return path.with_name(path.name + ".part")


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _md5(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def extract(archive, data_dir, *, show_progress=True):
    """Unpack a zip into a folder; each file is verified, and appears whole or not at all.

    Refused: entries that would leave the folder, links, and archives that are damaged, larger than the disk, or unpack
    to more than MOST_EXPANSION times their size. Left out: the __MACOSX folders and ._ files that macOS adds. Files
    that are there already with the right content stay.
    """
    archive, data_dir = Path(archive), Path(data_dir)
    try:
        with zipfile.ZipFile(archive) as zip_file:
            entries = [
                entry for entry in zip_file.infolist() if not entry.is_dir() and not _is_leftover(entry.filename)
            ]
            for entry in entries:
                _refuse_unsafe(entry, archive)
            size, packed_size = sum(entry.file_size for entry in entries), archive.stat().st_size
            if size > max(MOST_EXPANSION * packed_size, SMALL_BYTES):
                raise ValueError(
                    f"{archive}: a zip of {packed_size} bytes that unpacks to {size} is no data set. Nothing was "
                    "unpacked: remove it, and download it from elsewhere."
                )
            there = sum(entry.file_size for entry in entries if _size(_target(entry, data_dir)) == entry.file_size)
            if size - there > shutil.disk_usage(data_dir).free:
                raise ValueError(f"{archive}: the disk is too small to unpack it into {data_dir}. Make room.")
            with Progress(len(entries), label=archive.name, unit="files", show=show_progress) as progress:
                for entry in entries:
                    _extract_entry(zip_file, entry, data_dir)
                    progress.advance(1)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
        lzma.LZMAError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # those are of damaged zips too
            raise
        raise ValueError(f"{archive}: the zip is damaged ({error}). Remove it and download again.") from None


def _is_leftover(name):
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or (parts and parts[-1].startswith("._"))


def _refuse_unsafe(entry, archive):
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    if not path.parts or path.is_absolute() or ".." in path.parts or ":" in entry.filename or is_link:
        raise ValueError(
            f"{archive}: unsafe entry {entry.filename!r}, which would leave the folder. Nothing was unpacked."
        )


def _target(entry, data_dir):
    return data_dir / entry.filename.replace("\\", "/")


def _extract_entry(zip_file, entry, data_dir):
    target = _target(entry, data_dir)
    if target.is_file() and target.stat().st_size == entry.file_size and _crc32(target) == entry.CRC:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _part_of(target)
    try:
        with zip_file.open(entry) as source, part.open("wb") as file:
            shutil.copyfileobj(source, file, _CHUNK_BYTES)
        os.replace(part, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise


def _crc32(path):
    return zlib.crc32(path.read_bytes())
