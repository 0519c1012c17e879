"""The encoder of a captioner: it turns photos into annotation vectors, and knows everything about itself."""

import math
import os

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.foreign_text import brief
from keras_sat.checks import argument_called
from keras_sat.model.encoders import make_encoder, make_encoder_top, starts_random
from keras_sat.model.finer_grid import rows_and_columns_of

BUNDLED = "bundled"  # for `weights`: those of the bundled captioner of photos


class PhotoEncoder:
    """From photos to annotation vectors a_i, (photos, regions, feature_dim).

    Args:
        options: CaptionerOptions.
        blur: `photo_blur`, where that of bundled weights is known.
        arrays: list of the arrays of all its weights, where `encoder_weights` is the name of a captioner with them.

    Attributes:
        name: of the encoder, or None where there is none.
        is_custom: whether it is a `keras.Model` that was passed, not a name in ENCODERS.
        top: the trained layers after `encoder_layer`, a `keras.Model` from grid to grid, or None.
        saved_grid: (rows, columns) of the features of a captioner that was loaded, which may have no encoder.
        from_captioner: whether its weights were trained by a captioner, and are only in a captioner's folder.
    """

    def __init__(self, options, *, blur=None, arrays=None):
        encoder, size = options.encoder, options.image_size
        self.is_custom = isinstance(encoder, keras.Model)
        self.name = encoder.name if self.is_custom else encoder
        self.layer, self.trained_up_to = options.encoder_layer, options.trained_up_to
        self.weights = _absolute(options.encoder_weights)
        self.training = options.encoder_training or ("scratch" if starts_random(encoder) else "frozen")
        self.image_size = tuple(size) if isinstance(size, list) else size
        self.grid = None if options.grid is None else "x".join(map(str, rows_and_columns_of(options.grid)))
        self.grid_shape = options.grid_shape and tuple(options.grid_shape)
        self.blur = blur or 0.0
        self.saved_grid = None
        self.from_captioner, self._arrays = arrays is not None, arrays
        self._network = encoder if self.is_custom else None
        self._check_options()
        self.top = None
        if self.trained_up_to is not None:
            self.top = self._make(make_encoder_top, start=self.layer, layer=self.trained_up_to)
        if self.is_frozen and self.is_custom:
            encoder.trainable = False

    def __call__(self, photos, training=False):
        """Return annotation vectors (photos, regions, feature_dim) of photos of the encoder's size.

        Only an encoder that is trained from scratch is ever in training mode: batch statistics from ImageNet are better
        than those of a batch of photos.
        """
        grid = self.network(ops.cast(photos, "float32"), training=training and self.training == "scratch")
        return ops.reshape(grid, (-1, grid.shape[1] * grid.shape[2], grid.shape[3]))

    @property
    def is_frozen(self):
        """Whether it is never trained, except perhaps its top: then its features may come from a FeatureCache."""
        return self.training == "frozen"

    @property
    def is_saved(self):
        """Whether all its weights are saved with the captioner: any of them is trained, or no file holds them."""
        if not self.is_frozen:
            return True
        if self.is_custom or self.name is None:
            return False
        is_random = self.weights is None or (self.weights == "imagenet" and starts_random(self.name))
        return is_random or self.from_captioner or self.top is not None

    @property
    def network(self):
        """The encoder as a `keras.Model`; it is made, and its weights are loaded, when it is first used."""
        if self._network is None and (self.is_custom or self.name is None):
            raise ValueError(
                "This captioner has no encoder: it can only be given features. To use photos, pass the keras.Model as "
                f"`encoder` to Captioner or Captioner.load. Received: encoder={brief(self.name)}"
            )
        if self._network is None:
            with tf.init_scope():  # outside of any graph that is being traced: weights are read from a file
                self._network = self._make(make_encoder, layer=self.layer, blur=self.blur)
                self._network.trainable = not self.is_frozen
        return self._network

    @property
    def trained_network(self):
        """The part of it that is trained, as a `keras.Model`: all of it, or its top, or None."""
        return self.top if self.is_frozen else self.network

    @property
    def photo_size(self):
        """The (height, width) of the photos that it takes."""
        return self.network.input_shape[1:3]

    @property
    def features_shape(self):
        """The shape of its features, (None, regions, feature_dim)."""
        _, rows, columns, feature_dim = self.network.output_shape
        return (None, rows * columns, feature_dim)

    def rows_and_columns(self, num_regions):
        """Return the grid of regions; where it is unknown, a nearly square one if possible."""
        network = self._network if self.top is None and self.grid_shape is None else self.top
        if network is not None:
            return tuple(network.output_shape[1:3])
        rows = round(num_regions**0.5)
        nearly_square = (1, num_regions) if num_regions % rows else (rows, num_regions // rows)
        return self.grid_shape or self.saved_grid or nearly_square

    def is_same_as(self, other):
        """Return whether another encoder gives the same features: the same layers with the same weights."""
        networks = self.network, other.network
        shapes = {(*made.input_shape, *made.output_shape, len(made.layers), len(made.weights)) for made in networks}
        is_alike = len(shapes) == 1 and self.blur == other.blur
        return is_alike and all(map(np.array_equal, *(made.weights for made in networks)))

    def check_features(self, features_shape, num_regions):
        """Raise ValueError for features (regions, feature_dim), and attended regions, that do not fit the options."""
        if self.top is not None:
            _, rows, columns, feature_dim = self.top.input_shape
            if features_shape != (rows * columns, feature_dim):
                raise ValueError(
                    f"The layers after {brief(self.layer)} expect its grid, {rows} x {columns} x {feature_dim}, "
                    f"of a photo of the encoder's size. Received: features of shape {features_shape}"
                )
        if self.grid_shape is not None and num_regions not in (None, math.prod(self.grid_shape)):
            raise ValueError(f"This grid does not have {num_regions} regions. Received: grid_shape={self.grid_shape}")

    def check_photos(self, height, width):
        """Raise ValueError for batches with photos of another size."""
        if (height, width) != self.photo_size:
            raise ValueError(
                f"The encoder takes photos of {self.photo_size[0]} x {self.photo_size[1]} pixels. Give Captioner and "
                f"make_batches the same image_size. Received: batches with photos of {height} x {width}"
            )

    def settings(self):
        """Return the encoder's options of a captioner as they are now, a dict."""
        settings = {f"encoder_{name}": getattr(self, name) for name in ("layer", "weights", "training")}
        settings |= {name: getattr(self, name) for name in ("trained_up_to", "image_size", "grid", "grid_shape")}
        return {"encoder": self.name, "photo_blur": self.blur, **settings}

    def remember(self, *, weights, grid_shape, saved_grid, from_captioner):
        """Take over the facts about the encoder of a captioner that was loaded or adapted."""
        self.from_captioner = from_captioner
        self.weights = _absolute(weights) if self.is_frozen else weights
        self.grid_shape = grid_shape and tuple(grid_shape)
        self.saved_grid = tuple(saved_grid)

    def _check_options(self):
        if self.is_custom:
            shapes = [getattr(self._network, name, None) for name in ("input_shape", "output_shape")]
            if not all(isinstance(shape, tuple) and len(shape) == 4 and None not in shape[1:] for shape in shapes):
                raise ValueError(
                    "The encoder must be a model that starts with keras.Input((height, width, 3)) and ends with a grid "
                    f"(batch, rows, columns, feature_dim). Received: input_shape={shapes[0]}, output_shape={shapes[1]}"
                )
        given = {"photo_blur": self.blur, "grid": self.grid, "trained_up_to": self.trained_up_to}
        given = ", ".join(f"{name}={brief(value)}" for name, value in given.items() if value)
        if given and (self.is_custom or self.name is None):
            raise ValueError(f"This is for an encoder of ENCODERS. Received: {given}, encoder={brief(self.name)}")
        if self.trained_up_to is not None and (self.layer is None or not self.is_frozen):
            raise ValueError(
                "`trained_up_to` trains the layers after `encoder_layer` of a frozen encoder. Received: "
                f"{given}, encoder_layer={brief(self.layer)}, encoder_training={brief(self.training)}"
            )

    def _make(self, make, **options):
        weights = self._arrays if self.from_captioner else self.weights  # None where a folder has them: see `load`
        with argument_called("weights", "encoder_weights"):
            return make(self.name, weights=weights, image_size=self.image_size, grid=self.grid, **options)


def _absolute(weights):
    """Return a path of encoder weights that means the same from any other folder."""
    return weights if weights in (None, "imagenet", BUNDLED) else os.path.abspath(os.path.expanduser(weights))
