"""The encoder of a captioner, which turns photos into annotation vectors."""

import dataclasses
import math
import os

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.base import brief
from keras_sat.checks import argument_called
from keras_sat.network.encoders import (
    make_encoder,
    make_encoder_top,
    starts_random,
    usual_training,
)
from keras_sat.network.finer_grid import rows_and_columns_of

BUNDLED = "bundled"  # for `weights`: those of the bundled photo captioner
# What a feature cache has of an encoder besides its settings: name and digest of the
# layer and weights, and sizes of photos and grid. See
# `data_utils.features.build.describe_encoder`.
DESCRIBED_BY_CACHE = ("encoder_layer", "encoder_weights", "image_size", "grid")


class PhotoEncoder:
    """Turn photos into annotation vectors a_i of shape (photos, regions, feature_dim).

    Args:
        settings: Encoder.
        arrays: list of arrays of all its weights, if `encoder_weights` is the name of a
            captioner with them.

    Attributes:
        settings: Encoder, with what was left to the encoder filled in. `remember`
            changes those of a loaded captioner.
        name, is_custom: name of the encoder or None, and whether a `keras.Model` was
            passed, not a name in ENCODERS.
        top: the trained layers after `encoder_layer`, a `keras.Model` from grid to
            grid, or None.
        saved_grid: (rows, columns) of the features of a loaded captioner, which may
            have no encoder.
        from_captioner: whether its weights were trained in a captioner, and exist only
            in a captioner's folder.
    """

    def __init__(self, settings, *, arrays=None):
        encoder = settings.encoder
        self.is_custom = isinstance(encoder, keras.Model)
        self.name = encoder.name if self.is_custom else encoder
        self.settings = _filled_in(settings)
        self.saved_grid = None
        self.from_captioner = arrays is not None
        self._arrays = arrays
        self._network = encoder if self.is_custom else None
        self._check_options()
        self.top = None
        if self.settings.trained_up_to is not None:
            self.top = self._make(
                make_encoder_top,
                start=self.settings.encoder_layer,
                layer=self.settings.trained_up_to,
                grid=self.settings.grid,
            )
        if self.is_frozen and self.is_custom:
            encoder.trainable = False

    def __call__(self, photos, training=False):
        """Return annotation vectors (photos, regions, feature_dim) for photos that have
        the encoder's input size.

        Only an encoder that is trained from scratch is ever in training mode: batch
        statistics from ImageNet are better than those of a batch of photos.
        """
        in_training_mode = training and self.settings.encoder_training == "scratch"
        grid = self.network(ops.cast(photos, "float32"), training=in_training_mode)
        _, rows, columns, feature_dim = grid.shape
        return ops.reshape(grid, (-1, rows * columns, feature_dim))

    @property
    def is_frozen(self):
        """Whether the encoder is frozen, except perhaps its top.

        Its features can then come from a FeatureCache.
        """
        return self.settings.encoder_training == "frozen"

    @property
    def is_saved(self):
        """Whether the captioner saves all encoder weights, because some are trained or
        no other file has them.
        """
        if not self.is_frozen:
            return True
        if self.is_custom or self.name is None:
            return False
        weights = self.settings.encoder_weights
        is_random = weights is None or (weights == "imagenet" and starts_random(self.name))
        return is_random or self.from_captioner or self.top is not None

    @property
    def network(self):
        """The encoder as a `keras.Model`, which is created and loaded on first use."""
        if self.is_missing:
            raise ValueError(
                "This captioner has no encoder: it accepts only features. To use photos, "
                "pass the keras.Model as "
                f"`encoder` to Captioner or Captioner.load. Received: encoder={brief(self.name)}"
            )
        if self._network is None:
            # Outside of any graph that is being traced: weights are read from a file.
            with tf.init_scope():
                self._network = self._make(
                    make_encoder,
                    layer=self.settings.encoder_layer,
                    blur=self.settings.photo_blur,
                    grid=self.settings.grid if self.top is None else None,
                )
                self._network.trainable = not self.is_frozen
                self._network.feature_settings = self.other_feature_settings
        return self._network

    @property
    def other_feature_settings(self):
        """A dict of the settings that change the features, without those that a feature
        cache has in another way.
        """
        settings = self.settings.feature_settings()
        return {name: settings[name] for name in settings if name not in DESCRIBED_BY_CACHE}

    @property
    def is_present(self):
        """Whether the encoder is in memory. One of the user's own may never come: a
        folder does not have it.
        """
        return self._network is not None

    @property
    def is_missing(self):
        """Whether photos cannot be encoded: there is no encoder, or one of the user's
        own that is not in memory.
        """
        return self._network is None and (self.is_custom or self.name is None)

    @property
    def trained_network(self):
        """The part of the encoder that is trained, as a `keras.Model`: all of it, its
        top, or None.
        """
        return self.top if self.is_frozen else self.network

    @property
    def photo_size(self):
        """The (height, width) of the input photos."""
        return self.network.input_shape[1:3]

    @property
    def features_shape(self):
        """The shape of the features, (None, regions, feature_dim)."""
        _, rows, columns, feature_dim = self.network.output_shape
        return (None, rows * columns, feature_dim)

    def rows_and_columns(self, num_regions):
        """Return (rows, columns) of the grid.

        If they are unknown, assume a nearly square grid where possible.
        """
        if self.top is not None:
            return tuple(self.top.output_shape[1:3])
        if self.settings.grid_shape is not None:
            return self.settings.grid_shape
        if self._network is not None:
            return tuple(self._network.output_shape[1:3])
        if self.saved_grid is not None:
            return self.saved_grid
        rows = round(num_regions**0.5)
        if num_regions % rows:
            return (1, num_regions)
        return (rows, num_regions // rows)

    def is_same_as(self, other):
        """Return whether another encoder has the same layers, weights and settings, and
        therefore the same features.
        """
        has_its_settings = self.other_feature_settings == other.other_feature_settings
        if not has_its_settings or _structure(self.network) != _structure(other.network):
            return False
        pairs = zip(self.network.weights, other.network.weights)
        return all(np.array_equal(weight, other_weight) for weight, other_weight in pairs)

    def check_features(self, features_shape, num_regions):
        """Raise ValueError if the shape of the features or the number of regions does
        not match the options.
        """
        if self.top is not None:
            _, rows, columns, feature_dim = self.top.input_shape
            if features_shape != (rows * columns, feature_dim):
                raise ValueError(
                    f"The layers after {brief(self.settings.encoder_layer)} expect features of "
                    f"{rows} x {columns} x {feature_dim}, computed from photos of the encoder's "
                    f"input size. Received: features of shape {features_shape}"
                )
        grid_shape = self.settings.grid_shape
        if grid_shape is not None and num_regions not in (None, math.prod(grid_shape)):
            raise ValueError(f"The grid must have {num_regions} regions. Received: {grid_shape=}")

    def check_saved_shapes(self, feature_shape):
        """Raise ValueError if `feature_shape`, (regions, feature_dim), or the grid that
        was saved with a captioner is not the encoder's.
        """
        _, *expected = self.features_shape
        grid = self.rows_and_columns(expected[0])
        if [*feature_shape] != expected or self.saved_grid not in (None, grid):
            raise ValueError(
                "The saved shapes are not those of the encoder. Expected: (regions, feature_dim) = "
                f"{tuple(expected)} in a grid {grid}. Received: {tuple(feature_shape)} in a grid "
                f"{self.saved_grid}"
            )

    def check_photos(self, height, width):
        """Raise ValueError if photos do not have the encoder's input size."""
        if (height, width) != self.photo_size:
            expected_height, expected_width = self.photo_size
            raise ValueError(
                f"The encoder expects photos of {expected_height} x {expected_width} pixels. "
                "Use the same image_size for Captioner and make_batches. Received: batches "
                f"with photos of {height} x {width}"
            )

    def expect_weights(self):
        """Note that the encoder gets its weights from a captioner's file: if it is not
        in memory yet, it starts with random ones and reads no others.
        """
        if self._network is None and not self.is_custom:
            self.from_captioner, self._arrays = True, None

    def note_weights(self, weights):
        """Note where weights that are in memory come from, see `encoder_weights`."""
        self.settings = dataclasses.replace(self.settings, encoder_weights=weights)

    def set_saved_state(self, *, weights, grid_shape, saved_grid, from_captioner):
        """Store the encoder settings of a loaded or adapted captioner."""
        self.from_captioner = from_captioner
        self.saved_grid = tuple(saved_grid)
        self.settings = dataclasses.replace(
            self.settings,
            encoder_weights=_absolute(weights) if self.is_frozen else weights,
            grid_shape=grid_shape and tuple(grid_shape),
        )

    def _check_options(self):
        if self.is_custom:
            input_shape = getattr(self._network, "input_shape", None)
            output_shape = getattr(self._network, "output_shape", None)
            if not (_is_of_grids(input_shape) and _is_of_grids(output_shape)):
                raise ValueError(
                    "The encoder must be a model that starts with keras.Input((height, "
                    "width, 3)) and ends with a grid (batch, rows, columns, feature_dim). "
                    f"Received: input_shape={input_shape}, output_shape={output_shape}"
                )
        settings = self.settings
        changes = {**self.other_feature_settings, "grid": settings.grid}
        changes["trained_up_to"] = settings.trained_up_to
        received = ", ".join(f"{name}={brief(value)}" for name, value in changes.items() if value)
        if received and (self.is_custom or self.name is None):
            raise ValueError(
                f"These require an encoder in ENCODERS. Received: {received}, "
                f"encoder={brief(self.name)}"
            )
        has_layer = settings.encoder_layer is not None
        if settings.trained_up_to is not None and not (has_layer and self.is_frozen):
            raise ValueError(
                "`trained_up_to` requires `encoder_layer` and a frozen encoder. Received: "
                f"{received}, encoder_layer={brief(settings.encoder_layer)}, "
                f"encoder_training={brief(settings.encoder_training)}"
            )

    def _make(self, make, **options):
        settings = self.settings
        # None if a folder has them: see `load`.
        weights = self._arrays if self.from_captioner else settings.encoder_weights
        options["image_size"] = settings.image_size
        with argument_called("weights", "encoder_weights"):
            return make(self.name, weights=weights, **options)


def _filled_in(settings):
    """Return Encoder settings with the values that were left to the encoder, in one
    form: sizes as tuples, and paths that are absolute.
    """
    size, grid = settings.image_size, settings.grid
    if grid is not None:
        rows, columns = rows_and_columns_of(grid)
        grid = f"{rows}x{columns}"
    return dataclasses.replace(
        settings,
        encoder_weights=_absolute(settings.encoder_weights),
        encoder_training=settings.encoder_training or usual_training(settings.encoder),
        image_size=tuple(size) if isinstance(size, list) else size,
        grid=grid,
        grid_shape=settings.grid_shape and tuple(settings.grid_shape),
        photo_blur=settings.photo_blur or 0.0,
    )


def _absolute(weights):
    """Return `encoder_weights`; if it is a path, make it absolute."""
    if weights in (None, "imagenet", BUNDLED):
        return weights
    return os.path.abspath(os.path.expanduser(weights))


def _is_of_grids(shape):
    """Return whether a shape is (batch, rows, columns, dim), known except batch."""
    return isinstance(shape, tuple) and len(shape) == 4 and None not in shape[1:]


def _structure(network):
    """Return what two networks with the same layers have in common."""
    num_layers, num_weights = len(network.layers), len(network.weights)
    return network.input_shape, network.output_shape, num_layers, num_weights
