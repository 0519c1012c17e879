"""Write files whole or not at all, and let one process write at a time, on any operating system."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
from pathlib import Path


def write_whole(path, content):
    """Write text or bytes so that a reader finds the old file or the new one, never a part of it.

    The content goes to a temporary name in the same folder, is forced to the disk, and takes the name at the end.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
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


def write_json(path, value):
    """Write `value` as readable JSON, whole or not at all."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_json(path, expected="JSON"):
    """Return what a JSON file holds; a damaged file is a ValueError that names the file and the line."""
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: this is not valid JSON ({error.msg}). Expected: {expected}."
        ) from None
    except RecursionError:
        raise ValueError(f"{path}: this is not JSON that can be read. Expected: {expected}.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8. Expected: {expected}.") from None


def write_sealed_json(path, value):
    """Write a dict as JSON with a digest of it, so that `read_sealed_json` notices damage."""
    write_json(path, {**value, "digest": _digest(value)})


def read_sealed_json(path, expected):
    """Return the dict that `write_sealed_json` wrote; a file that was damaged since is a ValueError."""
    value = read_json(path, expected)
    if not isinstance(value, dict) or "digest" not in value:
        raise ValueError(f"{path}: this is something else. Expected: {expected}.")
    digest = value.pop("digest")
    if digest != _digest(value):
        raise ValueError(f"{path}: the file is damaged: its content does not match its digest. Expected: {expected}.")
    return value


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive_lock(path, holder_does):
    """Hold the lock file `path` while the block runs; refuse at once when another process holds it.

    The lock is SQLite's: it works on every system that Python runs on, and the operating system frees it when the
    process dies, however it dies, so that no stale lock is ever left behind.

    Args:
        path: the lock file; it is created, and stays, empty.
        holder_does: what the other holder is doing, for the message ("builds the features in ...").
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)))
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if "locked" not in str(error):
                raise ValueError(f"{path}: the lock file cannot be used ({error}). Is the folder writable?") from None
            raise ValueError(
                f"Another process {holder_does}. Wait until it has ended, or stop it, and run this again. "
                f"Received: lock file={path}"
            ) from None
        yield
