"""What the captions of a training batch are about: features from caches, or photos."""

import functools
import math
import os

import numpy as np

from data_utils.photos import height_and_width, load_image, view_of

KEPT_BYTES = 1_000_000_000  # up to this size, decoded photos stay in memory between epochs


class CachedFeatures:
    """The features of photos, from one cache for each view.

    Attributes:
        shape, dtype: those of one photo's features, (regions, feature_dim).
    """

    def __init__(self, caches, images):
        ids = [image.image_id for image in images]
        self.views = [(cache, cache.rows_of(ids)) for cache in caches]
        first = caches[0]
        rows, columns = first.grid_shape
        self.shape = (rows * columns, first.feature_dim)
        self.dtype = first.manifest["dtype"]

    def rows(self, photos, views):
        """Return the features (photos, regions, feature_dim) of photos, each in the
        view with this number.
        """
        if len(self.views) == 1:
            cache, cache_rows = self.views[0]
            return cache.features_of_rows(cache_rows[photos])
        features = np.empty((len(photos), *self.shape), self.dtype)
        for view in np.unique(views):
            cache, cache_rows = self.views[view]
            has_view = views == view
            features[has_view] = cache.features_of_rows(cache_rows[photos[has_view]])
        return features


class Photos:
    """The photos themselves.

    Attributes:
        shape, dtype: those of one photo, (height, width, 3).
    """

    dtype = "uint8"

    def __init__(self, images, image_size):
        size = height_and_width(image_size)
        self.shape = (*size, 3)
        self.images = images

        def read_photo(number):
            return load_image(images[number].image_path, size)

        fit_in_memory = len(images) * math.prod(self.shape) <= KEPT_BYTES
        are_files = isinstance(images[0].image_path, (str, os.PathLike))
        keeps_them = fit_in_memory and are_files
        self.read_photo = functools.cache(read_photo) if keeps_them else read_photo

    def rows(self, photos, views):
        """Return the photos with these numbers, (photos, height, width, 3), each in the
        view with this number.
        """
        pictures = [
            view_of(self.read_photo(photo), view, self.images[photo].image_id)
            for photo, view in zip(photos, views)
        ]
        return np.stack(pictures)
