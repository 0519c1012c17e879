"""The files of one folder of features: what they are, how they are opened, and how rows are written into them.

    manifest.json    what made the features: encoder, layer, weights digest, image size, dtype, grid shape, view
    image_ids.json   the photos, in the order of the rows
    photos.npy       size, time and digest of each photo's file, and a digest of its pixels
    features.npy     (photos, regions, feature_dim), a memory map that numpy alone can open too
    done.npy         one byte for each row: 0 not done, 1 done, 2 the photo cannot be read
    checksums.npy    the CRC-32 of each row

A row is marked as done only after it has reached the disk.
"""

import os
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from data_utils.files import read_sealed_json
from data_utils.foreign_text import brief
from data_utils.photo_digests import PHOTO

FORMAT_VERSION = 2
NOT_DONE, DONE, UNREADABLE = 0, 1, 2
# Features are others if one of these differs.
MADE_WITH = ("encoder", "layer", "weights_digest", "image_size", "blur", "dtype", "view")
MOST_SHARDS = 200  # each is a file that stays open, and some systems allow a process 256 of them


class FeatureFiles:
    """The files of a folder, opened for reading.

    Attributes:
        directory: the folder.
        manifest: dict of what made the features.
        image_ids: list of the photos' ids, in the order of the rows.
        photos: what is noted of each photo, (photos,) of PHOTO; zeros where it is not done.
        features: (photos, regions, feature_dim), a memory map.
        done, checksums: (photos,)
    """

    def __init__(self, directory):
        self.directory = directory
        self.manifest = read_manifest(directory)
        index = read_sealed_json(directory / "image_ids.json", "the photos of a feature cache", _remove_hint(directory))
        _refuse_incomplete(self.manifest, index, directory)
        self.image_ids = index["image_ids"]
        shape = row_shape(self.manifest, len(self.image_ids))
        self.features = _open_array(directory / "features.npy", shape, self.manifest["dtype"], mmap_mode="r")
        self.photos = _open_array(directory / "photos.npy", shape[:1], PHOTO)
        self.done = _open_array(directory / "done.npy", shape[:1], "uint8")
        self.checksums = _open_array(directory / "checksums.npy", shape[:1], "uint32")
        if self.done.size and self.done.max() > UNREADABLE:
            raise ValueError(f"{directory / 'done.npy'}: the file is damaged. {rebuild_hint(directory)}")


def row_shape(manifest, num_photos):
    rows, columns = manifest["grid_shape"]
    return (num_photos, rows * columns, manifest["feature_dim"])


def read_manifest(directory, begun=True):
    path = directory / "manifest.json"
    if not path.exists():
        raise ValueError(f"There is no feature cache here; FeatureCache.build makes one. Received: {str(directory)!r}")
    manifest = read_sealed_json(path, "the manifest of a feature cache", _remove_hint(directory))
    if manifest.get("format") != "feature_cache" or manifest.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"{path}: this is not the manifest of a feature cache of version {FORMAT_VERSION}. "
            f"{_remove_hint(directory)} "
            f"Received: format={brief(manifest.get('format'))}, version={brief(manifest.get('version'))}"
        )
    if "shard" in manifest and not _describes_a_shard(manifest["shard"]):
        raise ValueError(f"{directory}: what describes the shard is incomplete or wrong. {_remove_hint(directory)}")
    if begun and not manifest.get("begun"):
        raise ValueError(f"{directory}: the cache was only begun. Run FeatureCache.build again to complete it.")
    return manifest


def _describes_a_shard(shard):
    """Return whether this is what `Shard.description` of `data_utils.features.shards` returned."""
    if not isinstance(shard, dict):
        return False
    number, of, photos, digest = (shard.get(name) for name in ("number", "of", "photos", "digest"))
    are_counts = all(type(count) is int for count in (number, of, photos))
    return are_counts and isinstance(digest, str) and 1 <= number <= of <= MOST_SHARDS


def _refuse_incomplete(manifest, index, directory):
    """Raise ValueError where a manifest, or the list of photos, lacks what is relied on: it may come from elsewhere."""
    sizes = [manifest.get(name) for name in ("grid_shape", "image_size")]
    sizes.append([manifest.get("feature_dim"), manifest.get("block_size")])
    ids = index.get("image_ids")
    if not (
        all(isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair) for pair in sizes)
        and manifest.get("dtype") in ("float16", "float32")
        and isinstance(manifest.get("unreadable"), dict)
        and isinstance(ids, list)
        and len(ids) > 0
        and all(isinstance(image_id, str) for image_id in ids)
    ):
        raise ValueError(f"{directory}: what describes the cache is incomplete. {_remove_hint(directory)}")


def _open_array(path, shape, dtype, mmap_mode=None):
    try:
        array = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except Exception as error:  # numpy's parser of a damaged header raises errors of many kinds
        raise ValueError(f"{path}: the file is missing or damaged ({error}). {rebuild_hint(path.parent)}") from None
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"{path}: the file is damaged. Expected: {dtype} {shape}. Received: {array.dtype} {array.shape}. "
            f"{rebuild_hint(path.parent)}"
        )
    return array


def _remove_hint(directory):
    return f"Remove {directory}, and build the features again."


def rebuild_hint(directory, manifest=None):
    """Return what to do about a damaged folder, with the number of the shard if its manifest has one."""
    shard = (manifest or {}).get("shard")
    of_shard = f" and --shard {shard['number']}/{shard['of']}" if shard else ""
    return (
        f"Build with verify=True (--verify{of_shard} on the command line) to encode damaged rows anew; if that does "
        f"not help, remove {directory}."
    )


# === Writing ===


class RowWriter:
    """Writes blocks of rows in a thread of its own, so that the encoder need not wait for the disk."""

    def __init__(self, directory, shape):
        self.directory = directory
        self.shapes = {"features": shape, **dict.fromkeys(("checksums", "photos", "done"), shape[:1])}
        self.pending = None

    def __enter__(self):
        self.files = {name: open(self.directory / f"{name}.npy", "r+b") for name in self.shapes}
        self.thread = ThreadPoolExecutor(max_workers=1)
        return self

    def write(self, rows, features, photos, states):
        """Write one block in the background, once the block before has reached the disk."""
        self._wait()
        self.pending = self.thread.submit(self._write, rows, features, photos, states)

    def _write(self, rows, features, photos, states):
        checksums = np.array([zlib.crc32(row) for row in features], dtype=np.uint32)
        # The order matters: a row is marked as done only after it has reached the disk.
        values_of = {"features": features, "checksums": checksums, "photos": photos, "done": states}
        for name, values in values_of.items():
            for row, value in zip(rows, values):
                write_row(self.files[name], self.shapes[name], row, value)
            self.files[name].flush()
            os.fsync(self.files[name].fileno())

    def _wait(self):
        if self.pending is not None:
            pending, self.pending = self.pending, None
            try:
                pending.result()
            except OSError as error:
                raise OSError(
                    f"{self.directory}: the features could not be written ({error}). Those before are kept; make room "
                    "and run again to resume."
                ) from None

    def __exit__(self, *exception):
        try:
            self._wait()
        finally:
            self.thread.shutdown()
            for file in self.files.values():
                file.close()


def write_row(file, shape, row, value):
    """Write one row of the .npy file of an array of `shape` in place."""
    value = np.asarray(value)
    row_bytes = value.nbytes
    header_bytes = os.fstat(file.fileno()).st_size - shape[0] * row_bytes
    file.seek(header_bytes + int(row) * row_bytes)
    file.write(value.tobytes())


def refuse_full_disk(directory, needed_bytes):
    free_bytes = shutil.disk_usage(directory).free
    if needed_bytes > free_bytes:
        raise ValueError(
            f"The disk is too small for the features: they need {needed_bytes / 1e9:.1f} GB more, and "
            f"{free_bytes / 1e9:.1f} GB are free. Make room, or choose another folder. "
            f"Received: directory={str(directory)!r}"
        )
