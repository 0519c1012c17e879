"""Read and write files safely: atomic writes, locks, and size limits."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from pathlib import Path

import filelock

MOST_TEXT_BYTES = 500_000_000  # of the largest file that is read into memory as text
# Parsed JSON takes up to 100 bytes of memory for each of these characters. The largest
# file expected here, Karpathy's dataset_coco.json (150 MB, 14.5 million such
# characters), takes 1 GB; the largest file accepted takes 2.3 GB.
MOST_JSON_BYTES, MOST_JSON_SIGNS = 180_000_000, 17_000_000
JSON_SIGNS = (b"{", b"[", b",", b":")


def write_whole(path, content):
    """Write text or bytes to a temporary file, then rename it: readers see either the
    old file or the new one.

    The permissions of an old file are kept, and its owner if the system allows it.
    """
    path = Path(os.path.expanduser(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe
        path.write_bytes(content)
        return
    temporary = _temporary(path)
    try:
        with open(temporary, "xb") as file:
            _keep_permissions(path, temporary)  # before others could read the content
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError):  # report the caller's path, not the temporary one
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def whole_folder(path):
    """Yield a temporary folder.

    It is renamed to `path` when the block ends, or removed if the block fails.
    """
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


@contextlib.contextmanager
def whole_file(path):
    """Yield a path of the same name in a temporary folder, for a library that writes
    the file itself.

    The file is moved to `path` when the block ends, or removed if the block fails. The
    permissions of an old file are kept, as in `write_whole`.
    """
    path = Path(os.path.expanduser(path))
    folder = _temporary(path)
    try:
        folder.mkdir(parents=True)
        yield folder / path.name
        with open(folder / path.name, "rb+") as written:
            os.fsync(written.fileno())
        _keep_permissions(path, folder / path.name)
        os.replace(folder / path.name, path)
    except OSError as error:
        is_of_another_file = error.filename and str(folder) not in os.fsdecode(error.filename)
        if error.errno is None or is_of_another_file:
            raise
        # Report the caller's path, not the temporary one, or none.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_permissions(path, new_path):
    """Give a new file the permissions of the file that it will replace, if any, and the
    same owner and group if the system allows it.
    """
    # Windows has no such permissions, and does not replace read-only files.
    if os.name == "nt" or not path.exists():
        return
    old = path.stat()
    for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
        with contextlib.suppress(OSError):
            os.chown(new_path, owner, group)
    os.chmod(new_path, old.st_mode & 0o777)


def _temporary(path):
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.part"


def clear_half_written(*paths):
    """Remove temporary files of interrupted `write_whole` or `whole_folder` calls.

    Do not call it during a write.
    """
    paths = {*map(Path, paths)}
    for folder in {path.parent for path in paths}:
        for leftover in folder.glob(f".*.{'[0-9a-f]' * 8}.part"):
            if folder / leftover.name[1 : -len(".01234567.part")] in paths:
                with contextlib.suppress(OSError):  # a leftover does no harm
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def check_is_file(path, kind="file"):
    """Raise an error if the path is a folder, a pipe or a device.

    Opening a pipe would block.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path}: this is a pipe or a device, not a {kind}.")


def read_bytes(path, most=MOST_TEXT_BYTES):
    """Return the bytes of a file.

    Raise an error if it has more than `most` bytes or is not a regular file.
    """
    path = Path(os.path.expanduser(path))
    check_is_file(path)
    size = path.stat().st_size
    if size > most:
        raise ValueError(
            f"{path}: the file is too large. Expected: at most {most / 1e6:.0f} MB. "
            f"Received: {size / 1e6:.0f} MB"
        )
    return path.read_bytes()


def expectation(expected, way_out):
    """Return the end of an error message: what was expected, such as "COCO's
    annotations", and how to fix the error.
    """
    return f"Expected: {expected}.{way_out and ' '}{way_out}"


def write_json(path, value):
    """Write `value` as indented JSON, atomically."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    # File names may contain bytes that are not UTF-8.
    write_whole(path, text.encode("utf-8", "backslashreplace"))


def read_json(path, expected="JSON", way_out=""):
    """Return the content of a JSON file.

    A damaged or oversized file raises a ValueError that includes `expected`.
    """
    content = read_bytes(path, MOST_JSON_BYTES)
    hint = expectation(expected, way_out)
    num_signs = sum(map(content.count, JSON_SIGNS))
    if num_signs > MOST_JSON_SIGNS:
        received = f"{num_signs:,} brackets, commas and colons (the limit is {MOST_JSON_SIGNS:,})"
        raise ValueError(f"{path}: this file has too many JSON values. {hint} Received: {received}")
    try:
        content = content.decode("utf-8-sig")  # frees the bytes
        return json.loads(content)
    except (RecursionError, ValueError) as error:  # also for a number with thousands of digits
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{line}: this is not valid JSON ({error}). {hint}") from None


def file_digest(path):
    """Return the SHA-256 of a file of any size, as hexadecimal digits."""
    check_is_file(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sealed_json(path, value):
    """Write a dict as JSON, with a digest of its content."""
    write_json(path, {**value, "digest": _digest(value)})


def read_sealed_json(path, expected, way_out=""):
    """Return a dict written by `write_sealed_json`, and verify its digest.

    The arguments are those of `read_json`.
    """
    value = read_json(path, expected, way_out)
    if not isinstance(value, dict) or value.pop("digest", None) != _digest(value):
        raise ValueError(
            f"{path}: the file is damaged or of the wrong kind. {expectation(expected, way_out)}"
        )
    return value


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive_lock(path, holder_does, *, wait_s=0, quiet_s=0):
    """Hold the lock file `path` while the block runs; raise ValueError if another
    process holds it.

    The operating system releases the lock when the process dies. On a network folder,
    the file system must support locks, as NFS and SMB do.

    Args:
        holder_does: what a process with the lock does, for the message: "is building
            the features in ...".
        wait_s: seconds to wait for the lock, which are announced.
        quiet_s: seconds to wait before that without a word.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Soft locks would outlive a killed process. preserve_lock_file makes Windows behave
    # like other systems.
    lock = filelock.FileLock(path, blocking=False, fallback_to_soft=False, preserve_lock_file=True)
    try:
        if path.is_file() and path.stat().st_size:  # some versions of filelock would empty it
            raise ValueError("the file is not empty")
        try:
            lock.acquire(timeout=quiet_s, blocking=quiet_s > 0)
        except filelock.Timeout:
            if wait_s:
                print(
                    f"Another process {holder_does}: waiting for up to {wait_s} s.", file=sys.stderr
                )
            lock.acquire(timeout=wait_s, blocking=True)
    except filelock.Timeout:
        raise ValueError(
            f"Another process {holder_does}. Wait until it ends, or stop it. Received: {path}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{path}: the lock file cannot be used ({reason}). Remove it, or choose a folder "
            "on a file system that supports locks."
        ) from None
    try:
        yield
    finally:
        lock.release()
