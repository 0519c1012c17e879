"""The features of photos on the disk, opened for reading: one row for each photo, however many captions it has.

A cache is a folder with the files of `data_utils.features.files`, or with several such folders, the shards of
`data_utils.features.shards`. `data_utils.features.build` makes one.
"""

from __future__ import annotations

import itertools
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.features.build import build_cache, describe_encoder, refuse_differences
from data_utils.features.files import DONE, FeatureFiles, rebuild_hint
from data_utils.features.shards import JoinedRows, open_shards, shard_manifests, whole_manifest
from data_utils.foreign_text import brief
from data_utils.photo_digests import find_changes


class FeatureCache:
    """The features of many photos, opened for reading. Make one with `build` or `open`.

    The shards of a folder are opened as a whole; they must be complete, and belong together.

    Attributes:
        directory: the folder, as a Path.
        image_ids: list of the photos' ids, in the order of the rows.
        grid_shape: (rows, columns) of the encoder's grid.
        feature_dim: length of each annotation vector.
        manifest: dict of what made the features.
        unreadable: dict from the id of each photo that could not be read to the reason.
        photos: array of what is noted of each photo's file and pixels, see `data_utils.photo_digests`.
    """

    directory: Path
    image_ids: list[str]
    grid_shape: tuple[int, int]
    feature_dim: int
    manifest: dict[str, Any]
    unreadable: dict[str, str]
    photos: np.ndarray

    def __init__(self, directory: str | os.PathLike):
        """Open `directory`, as `FeatureCache.open` does."""
        self.directory = Path(directory).expanduser()
        shards = shard_manifests(self.directory)
        self._parts = open_shards(self.directory, shards) if shards else [FeatureFiles(self.directory)]
        self._is_sharded = bool(shards)
        manifests = [part.manifest for part in self._parts]
        self.manifest = whole_manifest(manifests) if shards else manifests[0]
        self.image_ids = list(itertools.chain.from_iterable(part.image_ids for part in self._parts))
        self.grid_shape = tuple(self.manifest["grid_shape"])
        self.feature_dim = self.manifest["feature_dim"]
        self.unreadable = self.manifest["unreadable"]
        self._features = JoinedRows([part.features for part in self._parts])
        self.photos = np.concatenate([part.photos for part in self._parts])
        self._done = np.concatenate([part.done for part in self._parts])
        self._checksums = np.concatenate([part.checksums for part in self._parts])
        self._row_of = {image_id: row for row, image_id in enumerate(self.image_ids)}
        self._checked = np.zeros(len(self.image_ids), dtype=bool)

    @classmethod
    def open(cls, directory: str | os.PathLike, *, encoder: Any = None) -> FeatureCache:
        """Open a cache for reading.

        Args:
            directory: the folder that `build` made.
            encoder: if given, a cache that another encoder made, or of another view than the photos themselves, is
                refused, with both values named.
        """
        cache = cls(directory)
        if encoder is not None:
            asks_for = getattr(encoder, "input_shape", None)
            any_size = not isinstance(asks_for, tuple) or None in asks_for[1:3]
            size = cache.manifest["image_size"] if any_size else None
            description = describe_encoder(encoder, None, None, size)
            description |= {"dtype": cache.manifest["dtype"], "view": 0}
            refuse_differences(cache.manifest, description, cache.directory)
        return cache

    build = classmethod(build_cache)  # FeatureCache.build(directory, image_ids, image_paths, encoder, ...)

    # === Reading ===

    def __len__(self) -> int:
        return int((self._done == DONE).sum())

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._row_of and self._done[self._row_of[image_id]] == DONE

    def features(self, image_ids: list[str]) -> np.ndarray:
        """Return the features of photos as an array (photos, regions, feature_dim).

        Photos that are not done are refused. Each row is checked against its checksum when it is first read.
        """
        rows = np.empty(len(image_ids), dtype=np.int64)
        for i, image_id in enumerate(image_ids):
            if image_id not in self:
                raise ValueError(
                    f"The cache has no features of the photo {brief(image_id)}"
                    + (f": it could not be read ({self.unreadable[image_id]})" if image_id in self.unreadable else "")
                    + f". Run FeatureCache.build with it. Received: directory={str(self.directory)!r}"
                )
            rows[i] = self._row_of[image_id]
        return self.features_of_rows(rows)

    def features_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rows, which must be done, as an array (rows, regions, feature_dim)."""
        features = self._features.take(rows)
        for i in np.flatnonzero(~self._checked[rows]):
            if self._done[rows[i]] != DONE or zlib.crc32(features[i]) != self._checksums[rows[i]]:
                part = self._parts[self._features.array_of(rows[i])]
                raise ValueError(
                    f"{part.directory / 'features.npy'}: the row of the photo {brief(self.image_ids[rows[i]])} is "
                    f"damaged. {rebuild_hint(part.directory, part.manifest)}"
                )
            self._checked[rows[i]] = True
        return features

    def noted_of(self, image_ids: list[str]) -> dict[str, Any]:
        """Return what is noted of photos, as far as the cache has them: dict from ids to elements of `photos`."""
        return {image_id: self.photos[self._row_of[image_id]] for image_id in image_ids if image_id in self}

    def refuse_changed(
        self, image_ids: list[str], image_paths: list, *, verify: bool = False, show_progress: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Raise ValueError for a photo that has changed since its features were built.

        Args:
            image_ids, image_paths: the photos; those that the cache does not have are skipped.
            verify: read every file, not only those of another size or time.
            show_progress: show progress on standard error where many are read.

        Returns: the rows of the photos, and what is noted of them, with the times of now.
        """
        done = [(self._row_of[image_id], path) for image_id, path in zip(image_ids, image_paths) if image_id in self]
        rows, paths = np.array([row for row, _ in done], dtype=np.int64), [path for _, path in done]
        changed, photos = find_changes(self.photos[rows], paths, verify=verify, show_progress=show_progress)
        if changed is not None:
            raise ValueError(
                f"The photo {brief(self.image_ids[rows[changed]])} has changed since its features were built: "
                f"{paths[changed]} has other bytes. Build into another folder. "
                f"Received: directory={str(self.directory)!r}"
            )
        return rows, photos

    def rows_of(self, image_ids: list[str]) -> np.ndarray:
        """Return the row number of each photo, as an int64 array."""
        return np.array([self._row_of[image_id] for image_id in image_ids], dtype=np.int64)
