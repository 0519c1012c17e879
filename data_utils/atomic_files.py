"""Write files whole or not at all, and let one process write at a time, on any operating system."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from pathlib import Path

import filelock

MOST_TEXT_BYTES = 500_000_000  # of a file that is read into memory as text
# JSON takes up to 100 bytes of memory for each of these signs. The largest file that is read here, Karpathy's
# dataset_coco.json, has about 150 MB and 14.5 million of them, and takes 1 GB; the worst that is accepted takes 2.3 GB.
MOST_JSON_BYTES, MOST_JSON_SIGNS = 180_000_000, 17_000_000
JSON_SIGNS = (b"{", b"[", b",", b":")


def write_whole(path, content):
    """Write text or bytes: a reader finds the old file or the new one, never a part of it.

    The content gets a temporary name in the same folder, reaches the disk, and takes the name at the end. An OSError
    names the file. /dev/null or a pipe is written to directly: it must not be replaced.
    """
    path = Path(os.path.expanduser(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    for tries_left in (1, 0):
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
                continue  # `clear_half_written` of another process took the temporary file for a leftover
            with contextlib.suppress(OSError):
                os.remove(temporary)
            if isinstance(error, OSError) and error.filename in (None, os.fspath(temporary)):
                raise OSError(error.errno, error.strerror, str(path)) from None
            raise


@contextlib.contextmanager
def whole_folder(path):
    """Yield a temporary folder, which takes the name `path` when the block ends, or vanishes on an error.

    Args:
        path: nothing of that name may exist.
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
    """Remove what a killed `write_whole` or `whole_folder` of these paths has left.

    A `write_whole` of another process writes its file again. A `whole_folder` would fail: hold a lock on it.
    """
    for path in map(Path, paths):
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
            with contextlib.suppress(OSError):  # it does no harm
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def check_is_file(path, kind="file"):
    """Raise an error for a folder, a pipe or a device: opening a pipe would wait for its writer."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path}: this is not a {kind} that can be read, but a pipe or a device.")


def read_bytes(path, most=MOST_TEXT_BYTES):
    """Return the bytes of a text file; a pipe, or a file that is too large for text, is a ValueError."""
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
    """Return the end of a message about a file: what it should be, and the way out, if there is one."""
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
    """Return the content of a JSON file; a damaged file is a ValueError that names the file and the line.

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
        content = content.decode("utf-8-sig")  # frees the bytes
        return json.loads(content)
    except (RecursionError, ValueError) as error:  # also a number of thousands of digits
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{line}: this is not valid JSON ({error}). {hint}") from None


def write_sealed_json(path, value):
    """Write a dict as JSON with a digest of it, by which `read_sealed_json` notices damage."""
    write_json(path, {**value, "digest": _digest(value)})


def read_sealed_json(path, expected, way_out=""):
    """Return the dict that `write_sealed_json` wrote; a damaged file is a ValueError.

    Args: see `read_json`.
    """
    value = read_json(path, expected, way_out)
    hint = expectation(expected, way_out)
    if not isinstance(value, dict) or "digest" not in value:
        raise ValueError(f"{path}: this is something else. {hint}")
    if value.pop("digest") != _digest(value):
        raise ValueError(f"{path}: the file is damaged: its content does not match its digest. {hint}")
    return value


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive_lock(path, holder_does, *, wait_s=0):
    """Hold the lock file `path` while the block runs; a ValueError if another process holds it.

    The package filelock takes the operating system's lock, which the system frees when the process dies. On a network
    folder it holds between computers where the file system can, as NFS and SMB do. One without locks is an error.

    Args:
        path: the lock file; it is created, and stays, empty.
        holder_does: what the other holder is doing, for the message ("is building the features in ...").
        wait_s: wait for the other holder at most this long, and say so on standard error; 0: do not wait.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # No fallback to a file that a killed process would leave; preserve_lock_file does on Windows as elsewhere.
    lock = filelock.FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
    try:
        if path.is_file() and path.stat().st_size > 0:  # some versions of filelock would empty it
            raise ValueError("it is not empty, so it is not a lock file")
        try:
            lock.acquire()
        except filelock.Timeout:
            if not wait_s:
                raise
            print(f"Another process {holder_does}: waiting for it, {wait_s} s at most.", file=sys.stderr)
            lock.acquire(timeout=wait_s, blocking=True)
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
    try:
        yield
    finally:
        lock.release()


def identity_of(path):
    """Return what changes when a file is replaced; None if there is no such file."""
    try:
        return path.stat().st_ino, path.stat().st_mtime_ns
    except OSError:
        return None
