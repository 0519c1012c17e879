"""Build and read photo features on disk, in one folder (see `data_utils.features.cache_layout`) or in shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from data_utils.features.build import build_features, describe_encoder, fixed_size
from data_utils.features.cache_layout import WAY_OUT, FeatureFiles, is_started, reject_differences
from data_utils.features.shards import ENTRIES, describe_shard, open_folders, shard_folders
from data_utils.foreign_text import brief


class FeatureCache:
    """A cache of photo features on disk, opened for reading. Create it with `build` or `open`.

    The shards in a folder are opened as one cache; they must be complete and built from the same photos.

    Attributes:
        directory: the folder, as a Path.
        image_ids: list of the photos' ids, in the order of the rows.
        grid_shape: (rows, columns) of the encoder's grid.
        feature_dim: length of each annotation vector.
        manifest: dict of the settings that the features were built with.
        unreadable: dict from the id of each photo that could not be read to the reason.
        photos: array (photos,) of size, time and digests of each file, see `data_utils.photo_digests`.
    """

    directory: Path
    image_ids: list[str]
    grid_shape: tuple[int, int]
    feature_dim: int
    manifest: dict[str, Any]
    unreadable: dict[str, str]
    photos: np.ndarray

    def __init__(self, directory: str | os.PathLike):
        """Open the cache in a folder; see `open`."""
        self.directory = Path(directory).expanduser()
        self._folders = open_folders(self.directory)
        self.manifest = {name: value for name, value in self._folders[0].manifest.items() if name not in ENTRIES}
        self.grid_shape = tuple(self.manifest["grid_shape"])
        self.feature_dim = self.manifest["feature_dim"]
        self.image_ids = [image_id for files in self._folders for image_id in files.image_ids]
        self.unreadable = {name: text for files in self._folders for name, text in files.unreadable.items()}
        rows = np.concatenate([files.rows for files in self._folders])
        self.photos, self._is_done = rows["photo"], rows["done"] > 0
        self._row_of = {image_id: row for row, image_id in enumerate(self.image_ids)}
        self._starts = np.cumsum([0, *(len(files.rows) for files in self._folders)])  # the first row of each folder
        self._is_checked = np.zeros(len(rows), dtype=bool)

    @classmethod
    def open(cls, directory: str | os.PathLike, *, encoder: Any = None) -> FeatureCache:
        """Open a cache for reading.

        Args:
            directory: the folder that `build` made.
            encoder: if given, a cache of another encoder, or of another view than view 0, is rejected with an error
                that shows both values.
        """
        cache = cls(directory)
        if encoder is not None:
            size = fixed_size(encoder) or cache.manifest.get("image_size")
            described = describe_encoder(encoder, None, None, size) | {"view": 0}
            reject_differences(cache.manifest, described, cache.directory)
        return cache

    @classmethod
    def build(
        cls,
        directory: str | os.PathLike,
        image_ids: list[str],
        image_paths: list,
        encoder: Any,
        *,
        image_size: int | tuple[int, int] | None = None,
        encoder_name: str | None = None,
        encoder_layer: str | None = None,
        batch_size: int = 32,
        dtype: str = "float16",
        view: int = 0,
        shard: str | None = None,
        errors: str = "raise",
        verify: bool = False,
        show_progress: bool = True,
    ) -> Self:
        """Encode photos that are not yet in the cache or have changed, and open the cache. All shards must be complete.

        Args:
            directory: the folder of the cache, created if missing.
            image_ids, image_paths: the photos, one row each, in this order. Ids are strings; a picture in memory may
                replace its path.
            encoder: a `keras.Model` or any function from float32 RGB 0..255 (batch, height, width, 3) to
                (batch, rows, columns, feature_dim).
            image_size: size of the stretched photos: the side of a square, or (height, width); None asks the model.
            encoder_name, encoder_layer: their names in the manifest; None asks the model.
            batch_size: number of photos that are encoded at a time.
            dtype: dtype of the features on disk, "float16" or "float32".
            view: number of the view to encode, see `data_utils.views`; view 0 is the photo itself.
            shard: "2/4" encodes the second of four parts of the photos into a subfolder of `directory`, and opens
                it. Other machines can encode the other parts, from the same list of photos.
            errors: "raise" stops at an unreadable photo; "skip" skips it and lists it in `unreadable`.
            verify: check every row and every photo, and re-encode those that are damaged or have changed. Without it,
                only photos whose file size or time differs are read.
            show_progress: show progress on standard error.
        """
        directory, image_ids = Path(directory).expanduser(), list(image_ids)
        photos = dict(zip(image_ids, image_paths))
        num_texts = sum(isinstance(image_id, str) for image_id in image_ids)
        if not 0 < len(photos) == len(image_ids) == len(image_paths) == num_texts:
            raise ValueError(
                "Expected at least one photo, ids that are unique strings, and one path for each id. Received: "
                f"{len(image_ids)} image_ids ({len(photos)} different, {num_texts} strings), "
                f"{len(image_paths)} image_paths"
            )
        if batch_size < 1:
            raise ValueError(f"Expected: at least 1. Received: batch_size={batch_size}")
        for name, value, allowed in (("dtype", dtype, ("float16", "float32")), ("errors", errors, ("raise", "skip"))):
            if value not in allowed:
                raise ValueError(f"Expected one of: {', '.join(allowed)}. Received: {name}={value!r}")
        description = describe_encoder(encoder, encoder_name, encoder_layer, image_size)
        description |= {"dtype": dtype, "view": int(view)}
        folders = {directory: photos}
        if shard is not None:
            name, of_shard, entries = describe_shard(shard, image_ids)
            for other in [directory] if is_started(directory) else shard_folders(directory):
                manifest = FeatureFiles(other).manifest | {"shard": entries["shard"]}
                reject_differences(manifest, description | entries, other)
            directory, description = directory / name, description | entries
            folders = {directory: {image_id: photos[image_id] for image_id in of_shard}}
        elif shard_folders(directory):
            opened = open_folders(directory)
            folder_of = {image_id: files.directory for files in opened for image_id in files.image_ids}
            folders = {files.directory: {} for files in opened}
            for image_id, path in photos.items():
                folders[folder_of.get(image_id, opened[0].directory)][image_id] = path
        for folder, of_folder in folders.items():
            build_features(folder, description, of_folder, encoder, batch_size, errors, verify, show_progress)
        return cls(directory)

    def __len__(self) -> int:
        return int(self._is_done.sum())

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._row_of and bool(self._is_done[self._row_of[image_id]])

    def rows_of(self, image_ids: list[str]) -> np.ndarray:
        """Return the row of each photo, as an int64 array; raise ValueError for a photo without features."""
        for image_id in image_ids:
            if image_id not in self:
                reason = self.unreadable.get(image_id, "Run FeatureCache.build with this photo.")
                raise ValueError(
                    f"The cache has no features for the photo {brief(image_id)}. {reason} "
                    f"Received: directory={str(self.directory)!r}"
                )
        return np.array([self._row_of[image_id] for image_id in image_ids], dtype=np.int64)

    def features(self, image_ids: list[str]) -> np.ndarray:
        """Return the features of photos as an array of shape (photos, regions, feature_dim)."""
        return self.features_of_rows(self.rows_of(image_ids))

    def features_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rows as an array of shape (rows, regions, feature_dim); each row is verified once."""
        folders = np.searchsorted(self._starts, rows, side="right") - 1
        rows_of_folders = rows - self._starts[folders]
        features = np.empty((len(rows), *self._folders[0].features.shape[1:]), self._folders[0].features.dtype)
        for place, (folder, row) in enumerate(zip(folders, rows_of_folders)):
            features[place] = self._folders[folder].features[row]
        for i in np.flatnonzero(~self._is_checked[rows]):
            files, image_id = self._folders[folders[i]], self.image_ids[rows[i]]
            if not files.is_whole(rows_of_folders[i], features[i]):
                raise ValueError(f"{files.directory}: the features of {brief(image_id)} are damaged. {WAY_OUT}")
            self._is_checked[rows[i]] = True
        return features

    def noted_of(self, image_ids: list[str]) -> dict[str, Any]:
        """Return a dict from image ids to elements of `photos`, for those photos that are in the cache."""
        return {image_id: self.photos[self._row_of[image_id]] for image_id in image_ids if image_id in self}

    def reject_changed(self, image_ids: list[str], image_paths: list) -> None:
        """Raise ValueError if the file of a photo has changed since it was encoded; skip photos without features."""
        photos = dict(zip(image_ids, image_paths))
        for files in self._folders:
            for row in files.changed_rows(photos):
                image_id = files.image_ids[row]
                raise ValueError(
                    f"The photo {brief(image_id)} ({photos[image_id]}) has changed since its features were built. "
                    f"Build the features again. Received: directory={str(self.directory)!r}"
                )
