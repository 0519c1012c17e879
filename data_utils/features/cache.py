"""Build and read photo features on disk.

See `data_utils.features.cache_layout` for the files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from data_utils.base import brief
from data_utils.captions import CaptionedImage
from data_utils.features.build import build_features, describe_encoder, encode_rows, fixed_size
from data_utils.features.cache_layout import WAY_OUT, FeatureFiles, reject_differences
from data_utils.photos import report_unreadable


class FeatureCache:
    """A cache of photo features on disk, opened for reading. Create it with `build` or
    `open`.

    Attributes:
        directory: the folder, as a Path.
        image_ids: list of the photos' ids, in the order of the rows.
        grid_shape: (rows, columns) of the encoder's grid.
        feature_dim: length of each annotation vector.
        manifest: dict of the settings that the features were built with.
        unreadable: dict from the id of each photo that could not be read to the reason.
        photos: array (photos,) of size, time and digests of each file, see
            `data_utils.photos.digests`.
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
        self._files = FeatureFiles(self.directory)
        self.manifest, self.image_ids = self._files.manifest, self._files.image_ids
        self.grid_shape = tuple(self.manifest["grid_shape"])
        self.feature_dim = self.manifest["feature_dim"]
        self.unreadable, self.photos = self._files.unreadable, self._files.rows["photo"]
        self._is_done, self._row_of = self._files.rows["done"] > 0, self._files.row_of
        self._is_checked = np.zeros(len(self.image_ids), dtype=bool)

    @classmethod
    def open(cls, directory: str | os.PathLike, *, encoder: Any = None) -> FeatureCache:
        """Open a cache for reading.

        Args:
            directory: the folder that `build` made.
            encoder: if given, a cache of another encoder, or of another view than view
                0, is rejected with an error that shows both values.
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
        errors: str = "raise",
        verify: bool = False,
        show_progress: bool = True,
        encode_rows: Any = encode_rows,
    ) -> Self:
        """Encode photos that are not yet in the cache or have changed, and open the
        cache.

        Args:
            directory: the folder of the cache, created if missing.
            image_ids, image_paths: the photos, one row each, in this order. Ids are
                strings; a picture in memory may replace its path.
            encoder: a `keras.Model` or any function from float32 RGB 0..255 (batch,
                height, width, 3) to (batch, rows, columns, feature_dim).
            image_size: size of the stretched photos: the side of a square, or (height,
                width); None asks the model.
            encoder_name, encoder_layer: their names in the manifest; None asks the
                model.
            batch_size: number of photos that are read and written at a time.
            dtype: dtype of the features on disk: "float16", or "float32" if some are
                out of its range.
            view: number of the view to encode, see `data_utils.photos.views`; view 0 is
                the photo itself.
            errors: once all other photos are encoded, "raise" an error that counts the
                unreadable ones; or "skip" them, with a warning, and list them in
                `unreadable`.
            verify: check every row and every photo, and re-encode those that are
                damaged or have changed. Without it, only photos whose file size or time
                differs are read.
            show_progress: show progress on standard error.
            encode_rows: function that encodes the missing rows; another one may divide
                the work among machines.
        """
        directory, image_ids = Path(directory).expanduser(), list(image_ids)
        photos = _checked_photos(image_ids, image_paths)
        if batch_size < 1:
            raise ValueError(f"Expected: at least 1. Received: batch_size={batch_size}")
        _check_word("dtype", dtype, ("float16", "float32"))
        _check_word("errors", errors, ("raise", "skip"))
        description = describe_encoder(encoder, encoder_name, encoder_layer, image_size)
        description |= {"dtype": dtype, "view": int(view)}
        build_features(
            directory,
            description,
            photos,
            encoder,
            batch_size=batch_size,
            errors=errors,
            verify=verify,
            show_progress=show_progress,
            encode_missing=encode_rows,
        )
        return cls(directory)

    def __len__(self) -> int:
        return int(self._is_done.sum())

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._row_of and bool(self._is_done[self._row_of[image_id]])

    def error_of(self, image_id: str) -> ValueError | None:
        """Return the error that says why a photo has no features; None if it has."""
        if image_id in self:
            return None
        reason = self.unreadable.get(image_id, "Run FeatureCache.build with this photo.")
        return ValueError(
            f"The cache has no features for the photo {brief(image_id)}. {reason} "
            f"Received: directory={str(self.directory)!r}"
        )

    def rows_of(self, image_ids: list[str]) -> np.ndarray:
        """Return the row of each photo, as an int64 array.

        Raise ValueError for a photo without features.
        """
        for image_id in image_ids:
            error = self.error_of(image_id)
            if error is not None:
                raise error
        return np.array([self._row_of[image_id] for image_id in image_ids], dtype=np.int64)

    def features(self, image_ids: list[str]) -> np.ndarray:
        """Return the features of photos as an array of shape (photos, regions,
        feature_dim).
        """
        return self.features_of_rows(self.rows_of(image_ids))

    def features_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rows as an array of shape (rows, regions,
        feature_dim); each row is verified once.
        """
        features = self._files.features[rows]
        for i in np.flatnonzero(~self._is_checked[rows]):
            if not self._files.is_whole(rows[i], features[i]):
                image_id = brief(self.image_ids[rows[i]])
                raise ValueError(
                    f"{self.directory}: the features of {image_id} are damaged. {WAY_OUT} "
                    "FeatureCache.build(..., verify=True) encodes the damaged ones alone."
                )
            self._is_checked[rows[i]] = True
        return features

    def readable(self, captioned_images: list[CaptionedImage]) -> list[CaptionedImage]:
        """Return the photos that could be read when the cache was built, with a warning
        that counts the others.
        """
        readable, reasons = [], []
        for image in captioned_images:
            if image.image_id in self.unreadable:
                reasons.append(self.unreadable[image.image_id])
            else:
                readable.append(image)
        report_unreadable(reasons, len(captioned_images), skip=True)
        return readable

    def noted_of(self, image_ids: list[str]) -> dict[str, Any]:
        """Return a dict from image ids to elements of `photos`, for those photos that
        are in the cache.
        """
        return {
            image_id: self.photos[self._row_of[image_id]]
            for image_id in image_ids
            if image_id in self
        }

    def reject_changed(self, image_ids: list[str], image_paths: list) -> None:
        """Raise ValueError if the file of a photo has changed since it was encoded.

        Skip photos without features.
        """
        photos = dict(zip(image_ids, image_paths))
        for row in self._files.changed_rows(photos):
            image_id = self.image_ids[row]
            raise ValueError(
                f"The photo {brief(image_id)} ({photos[image_id]}) has changed since its "
                "features were built. "
                f"Build the features again. Received: directory={str(self.directory)!r}"
            )


def _checked_photos(image_ids, image_paths):
    """Return a dict from image ids to paths; raise ValueError if there are none, too
    few of either, or ids twice.
    """
    photos = dict(zip(image_ids, image_paths))
    num_texts = sum(isinstance(image_id, str) for image_id in image_ids)
    if not 0 < len(photos) == len(image_ids) == len(image_paths) == num_texts:
        raise ValueError(
            "Expected at least one photo, ids that are unique strings, and one path for each "
            f"id. Received: {len(image_ids)} image_ids ({len(photos)} different, {num_texts} "
            f"strings), {len(image_paths)} image_paths"
        )
    return photos


def _check_word(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"Expected one of: {', '.join(allowed)}. Received: {name}={value!r}")
