"""Write files whole or not at all, and let one process write at a time, on any operating system."""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from pathlib import Path

import filelock

MOST_TEXT_BYTES = 500_000_000  # of a file that is read into memory as text
# Of JSON, whose values take up to 100 bytes for each of these signs: Karpathy's dataset_coco.json, the largest that is
# read here, has about 150 MB and 14.5 million of them, and takes 1 GB; the worst that is read takes 2.3 GB.
MOST_JSON_BYTES, MOST_JSON_SIGNS = 180_000_000, 17_000_000
JSON_SIGNS = (b"{", b"[", b",", b":")


def write_whole(path, content):
    """Write text or bytes so that a reader finds the old file or the new one, never a part of it.

    The content goes to a temporary name in the same folder, is forced to the disk, and takes the name at the end.
    Where that fails, the OSError names the file. Anything but a regular file, such as /dev/null or a pipe, is written
    to directly: it must not be replaced.
    """
    path = Path(os.path.expanduser(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    for tries_left in (2, 1, 0):
        temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            return
        except BaseException as error:
            if isinstance(error, FileNotFoundError) and tries_left:
                continue  # another process took the temporary file for a leftover (`clear_half_written`)
            with contextlib.suppress(OSError):
                os.remove(temporary)
            if isinstance(error, OSError) and error.filename in (None, os.fspath(temporary)):
                raise OSError(error.errno, error.strerror, str(path)) from None
            raise


@contextlib.contextmanager
def whole_folder(path):
    """Yield a temporary folder beside `path`, which takes that name when the block has ended, or vanishes on an error.

    Args:
        path: nothing of that name may be there.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in filter(Path.is_file, temporary.rglob("*")):
            with open(file, "rb+") as written:
                os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def clear_half_written(*paths):
    """Remove what a `write_whole` or `whole_folder` of these paths has left that was killed.

    A `write_whole` that another process is busy with writes its file again. A `whole_folder` would fail: only who holds
    a lock on a folder may clear it.
    """
    names = {}
    for path in map(Path, paths):
        names.setdefault(path.parent, set()).add(path.name)
    for folder, names_there in names.items():
        for leftover in folder.glob(".*.part"):
            written = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", leftover.name, re.DOTALL)
            if written and written[1] in names_there:
                with contextlib.suppress(OSError):  # it does no harm
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def check_is_file(path, kind="file"):
    """Raise an error for a folder, a pipe or a device: opening a pipe would wait for its writer forever."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path}: this is not a {kind} that can be read, but a pipe or a device.")


def read_bytes(path, most=MOST_TEXT_BYTES):
    """Return what a file of text holds; one that is too large to be that is a ValueError, and so is a pipe."""
    path = Path(os.path.expanduser(path))
    check_is_file(path)
    size = path.stat().st_size
    if size > most:
        raise ValueError(
            f"{path}: the file is too large to be read as text. Expected: at most {most / 1e6:.0f} MB. "
            f"Received: {size / 1e6:.0f} MB"
        )
    return path.read_bytes()


def expectation(expected, way_out):
    """Return the end of a message about a file: what it should be, and the way out, if there is one to name."""
    return f"Expected: {expected}.{way_out and ' '}{way_out}"


def write_json(path, value):
    """Write `value` as readable JSON, whole or not at all."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:  # file names may hold bytes that are not UTF-8
        content = (json.dumps(value, indent=1) + "\n").encode("ascii")
    write_whole(path, content)


def read_json(path, expected="JSON", way_out=""):
    """Return what a JSON file holds; a damaged file is a ValueError that names the file and the line.

    Args:
        path: the file.
        expected: what it should be, for the message.
        way_out: what to do if it is not, a sentence for the message.
    """
    content = read_bytes(path, MOST_JSON_BYTES)
    hint = expectation(expected, way_out)
    if (num_signs := sum(map(content.count, JSON_SIGNS))) > MOST_JSON_SIGNS:
        raise ValueError(
            f"{path}: this JSON holds too many values to be read. {hint} "
            f"Received: {num_signs:,} brackets, commas and colons, and at most {MOST_JSON_SIGNS:,} are read"
        )
    try:
        content = content.decode("utf-8-sig")  # the bytes are not needed any more
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: this is not valid JSON ({error.msg}). {hint}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8. {hint}") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise ValueError(f"{path}: this is not JSON that can be read ({error}). {hint}") from None


def write_sealed_json(path, value):
    """Write a dict as JSON with a digest of it, so that `read_sealed_json` notices damage."""
    write_json(path, {**value, "digest": _digest(value)})


def read_sealed_json(path, expected, way_out=""):
    """Return the dict that `write_sealed_json` wrote; a file that was damaged since is a ValueError.

    Args: see `read_json`.
    """
    value = read_json(path, expected, way_out)
    hint = expectation(expected, way_out)
    if not isinstance(value, dict) or "digest" not in value:
        raise ValueError(f"{path}: this is something else. {hint}")
    digest = value.pop("digest")
    try:
        is_whole = digest == _digest(value)
    except RecursionError:
        is_whole = False
    if not is_whole:
        raise ValueError(f"{path}: the file is damaged: its content does not match its digest. {hint}")
    return value


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive_lock(path, holder_does, *, wait_s=0):
    """Hold the lock file `path` while the block runs; refuse when another process holds it.

    The lock is the operating system's, taken through the package filelock: flock on Linux and macOS, LockFileEx on
    Windows. The system frees it when the process dies, however it dies, so that no stale lock is ever left behind. On a
    network folder it holds between computers where the file system passes such locks on: NFS, SMB and most cluster
    file systems do. One that has no locks at all is refused. filelock's SoftFileLock, a file that exists as long as the
    lock is held, would work there too, but a killed process on another computer would leave it behind forever.

    Args:
        path: the lock file; it is created, and stays, empty.
        holder_does: what the other holder is doing, for the message ("builds the features in ...").
        wait_s: wait for the other one at most so many seconds, and say so on standard error; 0: refuse at once.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            if path.is_file() and path.stat().st_size > 0:  # some versions of filelock would empty it
                raise ValueError("it holds something, so it is not a lock file")
            # preserve_lock_file: Windows would remove the file, and others than Windows do not.
            lock = filelock.FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
            try:
                stack.enter_context(lock)
            except filelock.Timeout:
                if not wait_s:
                    raise
                print(f"Another process {holder_does}: waiting for it, {wait_s} s at most.", file=sys.stderr)
                stack.enter_context(lock.acquire(timeout=wait_s, blocking=True))
        except filelock.Timeout:
            raise ValueError(
                f"Another process {holder_does}. Wait until it has ended, or stop it, and run this again. "
                f"Received: lock file={path}"
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path}: the lock file cannot be used ({getattr(error, 'strerror', None) or error}). Choose a folder "
                "that can be written to, on a file system that has locks; if this one is, remove that file."
            ) from None
        yield


def identity_of(path):
    """Return what changes when a file is replaced; None if there is no such file."""
    try:
        return path.stat().st_ino, path.stat().st_mtime_ns
    except OSError:
        return None
