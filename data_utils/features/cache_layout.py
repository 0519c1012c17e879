"""Open and write the files of a feature cache in one folder.

    manifest.json    encoder, layer, digest of its weights, other settings that change
                     the features, image size, dtype, grid, view; image ids in the
                     order of the rows; the reasons why photos cannot be read
    features.npy     (photos, regions, feature_dim), a memory map that NumPy alone can
                     open too
    rows.npy         for each row: whether it is done, its CRC-32, and the size, time
                     and digests of its photo

A row is marked as done once its features are on disk. rows.npy is created last: it
marks the folder as a cache.
"""

import contextlib
import io
import os
import zlib

import numpy as np

from data_utils.base import brief, exclusive_lock, read_sealed_json, write_sealed_json, write_whole
from data_utils.photos import PHOTO, find_changes

FORMAT_VERSION = 3
WAY_OUT = "Remove the folder, and its photos are encoded again."
ROW = np.dtype([("done", "u1"), ("checksum", "<u4"), ("photo", PHOTO)])


class FeatureFiles:
    """The open files of a feature cache in one folder.

    Attributes:
        manifest: dict of the settings that the features were built with.
        image_ids: list, in the order of the rows; row_of: dict from image ids to rows.
        unreadable: dict from image ids to reasons.
        features: (photos, regions, feature_dim), a memory map.
        rows: (photos,) of ROW.
    """

    def __init__(self, directory):
        self.directory = directory
        if not is_started(directory):
            raise ValueError(
                f"No feature cache found: run FeatureCache.build. Received: {str(directory)!r}"
            )
        self.manifest = _read_manifest(directory)
        self.image_ids, unreadable = self.manifest.pop("image_ids"), self.manifest.pop("unreadable")
        self.row_of = {image_id: row for row, image_id in enumerate(self.image_ids)}
        rows, columns = self.manifest["grid_shape"]
        shape = (len(self.image_ids), rows * columns, self.manifest["feature_dim"])
        self.features = self._open("features", shape, self.manifest["dtype"], mmap_mode="r")
        self.rows = self._open("rows", shape[:1], ROW)
        missing = {self.image_ids[row] for row in np.flatnonzero(self.rows["done"] == 0)}
        self.unreadable = {
            image_id: reason for image_id, reason in unreadable.items() if image_id in missing
        }
        self.is_complete = missing == self.unreadable.keys()

    def _open(self, name, shape, dtype, mmap_mode=None):
        path = self.directory / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
        except Exception as error:  # NumPy raises many kinds of errors for a damaged header
            raise ValueError(
                f"{path}: the file is missing or damaged ({error}). {WAY_OUT}"
            ) from None
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(
                f"{path} is damaged: its dtype is {array.dtype} and its shape "
                f"{array.shape}. {WAY_OUT}"
            )
        return np.asarray(array)  # indexing a plain array is faster than indexing np.memmap

    def is_whole(self, row, features):
        """Return whether a row is done and its features match their checksum."""
        return self.rows["done"][row] and zlib.crc32(features) == self.rows["checksum"][row]

    def changed_rows(self, photos, *, verify=False, show_progress=False):
        """Return a list of the rows whose photos have changed since they were encoded;
        see `find_changes`.

        The new times of copied files are saved, unless the cache is locked or
        read-only: each copy is read once.

        Args:
            photos: dict from ids to paths.
        """
        rows = np.array(
            [row for row in np.flatnonzero(self.rows["done"]) if self.image_ids[row] in photos],
            np.int64,
        )
        recorded = self.rows["photo"][rows]
        paths = [photos[self.image_ids[row]] for row in rows]
        changed, current = find_changes(recorded, paths, verify=verify, show_progress=show_progress)
        copied = current != recorded
        if copied.any():
            self.rows["photo"][rows] = current
            with (
                contextlib.suppress(OSError, ValueError),
                exclusive_lock(self.directory / "lock", "is building"),
            ):
                self._write_records(rows[copied])
        return rows[changed].tolist()

    def forget(self, rows):
        """Mark rows as not done, so that they are encoded again."""
        self.rows["done"][rows] = 0
        self._write_records(rows)

    def record_unreadable(self, reasons):
        """Add unreadable photos to the manifest; `reasons` maps their ids to error
        messages.
        """
        self.unreadable |= reasons
        _write_manifest(self.directory, self.manifest, self.image_ids, self.unreadable)

    def write(self, rows, features, photos):
        """Write `features`, of shape (rows, regions, feature_dim), and PHOTO records,
        and mark the rows as done.
        """
        self.mark(rows, write_features(self.directory, len(self.rows), rows, features), photos)

    def mark(self, rows, checksums, photos):
        """Mark rows as done whose features are on disk; see `write_features`."""
        self.rows["checksum"][rows] = checksums
        self.rows["photo"][rows] = photos
        self.rows["done"][rows] = 1
        self._write_records(rows)

    def _write_records(self, rows):
        _write_rows(self.directory / "rows.npy", len(self.rows), rows, self.rows[rows])


def write_features(directory, num_rows, rows, features):
    """Write features (rows, regions, feature_dim) into the cache in a folder, and
    return their checksums.

    Several processes may do this at once, and twice with the same rows.
    """
    _write_rows(directory / "features.npy", num_rows, rows, features)
    return list(map(zlib.crc32, features))


def _write_rows(path, num_rows, rows, values):
    """Write rows of an array in place, and wait until they are on disk."""
    try:
        with open(path, "r+b") as file:
            header_bytes = os.fstat(file.fileno()).st_size - num_rows * values[:1].nbytes
            for row, value in zip(rows, values):
                file.seek(header_bytes + int(row) * value.nbytes)
                file.write(value.tobytes())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        way_out = "Free some space and run again to resume."
        raise OSError(
            f"{path.parent}: the features could not be written ({error}). {way_out}"
        ) from None


def is_started(directory):
    """Return whether a folder contains a cache, even if it has no features yet."""
    return (directory / "rows.npy").exists()


def start_cache(directory, manifest, image_ids):
    """Create the files of a new cache, in which no row is done yet."""
    if (directory / "features.npy").exists() and not (directory / "manifest.json").exists():
        raise ValueError(
            f"{directory} contains features.npy but no manifest.json. Build into another folder."
        )
    _write_manifest(directory, {"version": FORMAT_VERSION, **manifest}, image_ids, {})
    rows, columns = manifest["grid_shape"]
    shape = (len(image_ids), rows * columns, manifest["feature_dim"])
    # Zeros: most file systems store them as a hole, without using disk space.
    np.lib.format.open_memmap(directory / "features.npy", "w+", manifest["dtype"], shape).flush()
    content = io.BytesIO()
    np.save(content, np.zeros(len(image_ids), ROW))
    write_whole(directory / "rows.npy", content.getvalue())


def _write_manifest(directory, manifest, image_ids, unreadable):
    write_sealed_json(
        directory / "manifest.json", {**manifest, "unreadable": unreadable, "image_ids": image_ids}
    )


def _read_manifest(directory):
    """Return the manifest of a folder.

    Raise ValueError if it is damaged or incomplete.
    """
    path = directory / "manifest.json"
    way_out = f"Remove {directory}, and build the features again."
    manifest = read_sealed_json(path, "the manifest of a feature cache", way_out)
    if "settings" not in manifest:  # version 0.1.0 wrote the only one there was
        blur = manifest.pop("blur", 0.0)
        manifest["settings"] = {"photo_blur": blur} if blur else {}
    ids = manifest.get("image_ids")
    size = [*(manifest.get("grid_shape") or "?"), manifest.get("feature_dim")]
    if not (
        manifest.get("version") == FORMAT_VERSION
        and isinstance(ids, list)
        and all(isinstance(image_id, str) for image_id in ids)
        and len(size) == 3
        and all(type(length) is int for length in size)
        and manifest.get("dtype") in ("float16", "float32")
        and isinstance(manifest.get("unreadable"), dict)
    ):
        raise ValueError(
            f"{path}: this is not a feature cache manifest of version {FORMAT_VERSION}. {way_out}"
        )
    return manifest


def reject_differences(manifest, description, directory):
    """Raise ValueError if any entry of `description` differs in the manifest of a
    cache.
    """
    differences = "; ".join(
        f"{name} {brief(manifest.get(name))} instead of {brief(value)}"
        for name, value in description.items()
        if manifest.get(name) != value
    )
    if differences:
        raise ValueError(
            f"The folder was built with other settings: {differences}. Use another folder "
            "(--cache-dir, --output). "
            f"Received: {str(directory)!r}"
        )
