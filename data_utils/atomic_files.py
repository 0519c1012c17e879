"""Write files whole or not at all, one process at a time, and read no more than fits into memory."""

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

    The content is written under a temporary name and renamed once it is on the disk. A device or a pipe is written to.
    """
    path = Path(os.path.expanduser(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    temporary = _temporary(path)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError):  # names the file that the caller knows
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def whole_folder(path):
    """Yield a temporary folder, which is renamed to the new `path` when the block ends, or removed on an error."""
    path = Path(path)
    temporary = _temporary(path)
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


def _temporary(path):
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.part"


def clear_half_written(*paths):
    """Remove the leftovers of killed calls of `write_whole` or `whole_folder`; other processes must not write them."""
    for path in map(Path, paths):
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
            with contextlib.suppress(OSError):  # it does no harm
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def check_is_file(path, kind="file"):
    """Raise an error for a folder, a pipe or a device: opening a pipe would block."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path}: this is not a {kind} that can be read, but a pipe or a device.")


def read_bytes(path, most=MOST_TEXT_BYTES):
    """Return the bytes of a file; one that is not a file, or has more than `most` bytes, is an error."""
    path = Path(os.path.expanduser(path))
    check_is_file(path)
    if (size := path.stat().st_size) > most:
        sizes = f"Expected: at most {most / 1e6:.0f} MB. Received: {size / 1e6:.0f} MB"
        raise ValueError(f"{path}: the file is too large. {sizes}")
    return path.read_bytes()


def expectation(expected, way_out):
    """Return the end of a message about a file: its expected content ("COCO's annotations"), and a sentence."""
    return f"Expected: {expected}.{way_out and ' '}{way_out}"


def write_json(path, value):
    """Write `value` as readable JSON, whole or not at all."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    write_whole(path, text.encode("utf-8", "backslashreplace"))  # file names may hold bytes that are not UTF-8


def read_json(path, expected="JSON", way_out=""):
    """Return the content of a JSON file; ValueError, with `expectation`, where it is damaged or too large."""
    content = read_bytes(path, MOST_JSON_BYTES)
    hint = expectation(expected, way_out)
    if (num_signs := sum(map(content.count, JSON_SIGNS))) > MOST_JSON_SIGNS:
        raise ValueError(
            f"{path}: this JSON holds too many values. {hint} Received: {num_signs:,} brackets, commas and colons "
            f"(at most {MOST_JSON_SIGNS:,} are read)"
        )
    try:
        content = content.decode("utf-8-sig")  # frees the bytes
        return json.loads(content)
    except (RecursionError, ValueError) as error:  # also a number of thousands of digits
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{line}: this is not valid JSON ({error}). {hint}") from None


def write_sealed_json(path, value):
    """Write a dict as JSON with a digest of it."""
    write_json(path, {**value, "digest": _digest(value)})


def read_sealed_json(path, expected, way_out=""):
    """Return the dict that `write_sealed_json` wrote, as `read_json` does."""
    value = read_json(path, expected, way_out)
    hint = expectation(expected, way_out)
    if not isinstance(value, dict) or value.pop("digest", None) != _digest(value):
        raise ValueError(f"{path}: the file is damaged, or something else. {hint}")
    return value


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive_lock(path, holder_does, *, wait_s=0):
    """Hold the lock file `path` while the block runs; a ValueError if another process holds it.

    The operating system frees its lock when the process dies. On a network folder it works between computers where the
    file system can lock, as NFS and SMB can.

    Args:
        path: the lock file; it is created, and stays, empty.
        holder_does: for the message: "is building the features in ...".
        wait_s: seconds to wait for the other holder, which is said on standard error.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # No fallback to a file that a killed process would leave; preserve_lock_file does on Windows as elsewhere.
    lock = filelock.FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
    try:
        if path.is_file() and path.stat().st_size:  # some versions of filelock would empty it
            raise ValueError("it is not empty")
        try:
            lock.acquire()
        except filelock.Timeout:
            if wait_s:
                print(f"Another process {holder_does}: waiting for it, {wait_s} s at most.", file=sys.stderr)
            lock.acquire(timeout=wait_s, blocking=True)
    except filelock.Timeout:
        raise ValueError(f"Another process {holder_does}. Wait for its end, or stop it. Received: {path}") from None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: the lock file cannot be used ({getattr(error, 'strerror', None) or error}). Remove it, or choose "
            "a folder that can be written to, on a file system with locks."
        ) from None
    try:
        yield
    finally:
        lock.release()
