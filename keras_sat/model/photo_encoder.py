"""The encoder of a captioner: it turns photos into annotation vectors, and knows everything about itself."""

import os

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.foreign_text import brief
from keras_sat.checks import argument_called
from keras_sat.model.encoders import ENCODERS, begins_random, make_encoder, make_encoder_top
from keras_sat.model.finer_grid import rows_and_columns_of

BUNDLED = "bundled"  # for `weights`: those of the bundled captioner of photos


class PhotoEncoder:
    """From photos to annotation vectors a_i, (photos, regions, feature_dim).

    Args:
        encoder: a name in ENCODERS, a `keras.Model` from RGB 0..255 to a feature grid, or None: there is none.
        layer, weights, training, trained_up_to, image_size, grid, grid_shape, blur: see Captioner, where four of them
            are encoder_layer, encoder_weights, encoder_training and photo_blur.
        arrays: list of the arrays of all its weights, where `weights` is the name of the captioner that has them.

    Attributes:
        name: of the encoder, or None.
        is_own: whether it is a `keras.Model` that was passed, and no name in ENCODERS.
        top: the layers behind `layer` that are trained, a `keras.Model` from grid to grid, or None.
        known_grid: (rows, columns) of the features of a captioner that was loaded, which may have no encoder.
        comes_along: whether its weights were trained by a captioner, and only a captioner's folder has them.
    """

    def __init__(
        self,
        encoder,
        *,
        layer=None,
        weights="imagenet",
        training=None,
        trained_up_to=None,
        image_size=None,
        grid=None,
        grid_shape=None,
        blur=None,
        arrays=None,
    ):
        _check_encoder(encoder)
        self.is_own = isinstance(encoder, keras.Model)
        self.name = encoder.name if self.is_own else encoder
        self.layer = layer
        self.weights = _absolute(weights)
        self.training = training or ("scratch" if begins_random(encoder) else "frozen")
        self.trained_up_to = trained_up_to
        self.image_size = tuple(image_size) if isinstance(image_size, list) else image_size
        self.grid = self._grid_as_written(grid)
        self.grid_shape = grid_shape if grid_shape is None else tuple(grid_shape)
        self.blur = blur or 0.0
        if blur and (self.is_own or encoder is None):
            raise ValueError(
                "`photo_blur` is for an encoder of ENCODERS; a keras.Model brings its own preprocessing. "
                f"Received: photo_blur={blur} with encoder={brief(self.name)}"
            )
        self.known_grid = None
        self.comes_along = arrays is not None
        self._arrays = arrays
        self.top = self._make_top()
        self._network = encoder if self.is_own else None
        if self.is_frozen and self.is_own:
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
        if self.is_own or self.name is None:
            return False
        is_random = self.weights is None or (self.weights == "imagenet" and begins_random(self.name))
        return is_random or self.comes_along or self.top is not None

    @property
    def network(self):
        """The encoder as a `keras.Model`; it is made, and its weights are loaded, when it is first used."""
        if self._network is None and self.is_own:
            raise ValueError(
                "This captioner was made with an encoder that keras_sat does not know. Pass it: "
                f"Captioner.load(directory, encoder=...). Received: encoder={brief(self.name)}"
            )
        if self._network is None:
            with tf.init_scope():  # outside of any graph that is being traced: weights are read from a file
                self._network = self._make_network()
                self._network.trainable = not self.is_frozen
        return self._network

    @property
    def trained_network(self):
        """The part of it that is trained, as a `keras.Model`: all of it, or its top, or None."""
        return self.top if self.is_frozen else self.network

    @property
    def photo_size(self):
        """The (height, width) in which it sees photos."""
        return self.network.input_shape[1:3]

    @property
    def features_shape(self):
        """The shape of its features, (None, regions, feature_dim)."""
        _, rows, columns, feature_dim = self.network.output_shape
        return (None, rows * columns, feature_dim)

    def rows_and_columns(self, num_regions):
        """Return the grid of regions: the top's, `grid_shape`, the encoder's, or a guess where there is none."""
        if self.top is not None:
            return tuple(self.top.output_shape[1:3])
        if self.grid_shape is not None:
            return self.grid_shape
        if self._network is not None:
            return tuple(self._network.output_shape[1:3])
        if self.known_grid is not None:
            return self.known_grid
        size = self.image_size or 1
        height, width = (size, size) if isinstance(size, int) else size
        rows = round((num_regions * height / width) ** 0.5)
        return (rows, num_regions // rows) if rows and num_regions % rows == 0 else (1, num_regions)

    def is_same_as(self, other):
        """Return whether another encoder gives the same features: the same layers with the same weights."""
        own, network = self.network, other.network
        return own is network or (
            (own.input_shape, own.output_shape, len(own.layers), len(own.weights), self.blur)
            == (network.input_shape, network.output_shape, len(network.layers), len(network.weights), other.blur)
            and all(np.array_equal(mine, its) for mine, its in zip(own.weights, network.weights))
        )

    def check_features(self, features_shape, num_regions=None):
        """Raise ValueError for features that do not suit the layers behind them, or `grid_shape`.

        Args:
            features_shape: (regions, feature_dim) of what is given.
            num_regions: those that attention is paid to, once they are known.
        """
        if self.top is not None:
            _, rows, columns, feature_dim = self.top.input_shape
            if features_shape != (rows * columns, feature_dim):
                raise ValueError(
                    f"The layers behind {brief(self.layer)} expect its grid, {rows} x {columns} x {feature_dim}, "
                    f"of a photo of the encoder's size. Received: features of shape {features_shape}"
                )
        if None not in (self.grid_shape, num_regions) and np.prod(self.grid_shape) != num_regions:
            raise ValueError(
                f"A grid of that shape does not have {num_regions} regions. Received: grid_shape={self.grid_shape}"
            )

    def check_photos(self, height, width):
        """Raise ValueError for batches with photos of another size."""
        if (height, width) != self.photo_size:
            raise ValueError(
                f"The batches hold photos of {height} x {width} pixels, but the encoder was made for "
                f"{self.photo_size[0]} x {self.photo_size[1]}. Give Captioner and make_batches the same image_size. "
                f"Received: image_size={self.image_size}"
            )

    def settings(self):
        """Return what Captioner was given of it, as it is now: dict from the names of options to values."""
        names = ("layer", "weights", "training")
        settings = {f"encoder_{name}": getattr(self, name) for name in names}
        settings |= {name: getattr(self, name) for name in ("trained_up_to", "image_size", "grid", "grid_shape")}
        return {"encoder": self.name, "photo_blur": self.blur, **settings}

    def remember(self, *, weights, grid_shape, known_grid, comes_along):
        """Take over what a captioner that was loaded or adapted knows of its encoder, and was made without."""
        self.comes_along = comes_along
        self.weights = _absolute(weights) if self.is_frozen else weights
        self.grid_shape = grid_shape if grid_shape is None else tuple(grid_shape)
        self.known_grid = tuple(known_grid)

    def _grid_as_written(self, grid):
        if grid is None:
            return None
        written = "x".join(map(str, rows_and_columns_of(grid)))
        if self.is_own or self.name is None:
            raise ValueError(
                "`grid` changes an encoder of ENCODERS; a keras.Model has the grid that it was made with. "
                f"Received: grid={brief(grid)} with encoder={brief(self.name)}"
            )
        return written

    def _make_network(self):
        if self.name is None:
            raise ValueError(
                "This captioner has no encoder: it can only be given features. Pass `encoder` to use photos. "
                "Received: encoder=None"
            )
        with argument_called("weights", "encoder_weights"):
            return make_encoder(self.name, layer=self.layer, blur=self.blur, **self._how_made())

    def _make_top(self):
        if self.trained_up_to is None:
            return None
        if not self.is_frozen or self.layer is None or self.is_own or self.name is None:
            raise ValueError(
                "The layers behind `encoder_layer` of a frozen encoder can be trained, where it is one of ENCODERS. "
                f"Received: trained_up_to={brief(self.trained_up_to)} with encoder={brief(self.name)}, "
                f"encoder_layer={brief(self.layer)}, encoder_training={brief(self.training)}"
            )
        with argument_called("weights", "encoder_weights"):
            return make_encoder_top(self.name, start=self.layer, layer=self.trained_up_to, **self._how_made())

    def _how_made(self):
        weights = self._arrays if self.comes_along else self.weights  # None where a folder has them: see `load`
        return {"weights": weights, "image_size": self.image_size, "grid": self.grid}


def _check_encoder(encoder):
    if isinstance(encoder, str) and encoder not in ENCODERS or not isinstance(encoder, (str, keras.Model, type(None))):
        raise ValueError(
            f"Expected one of: {', '.join(ENCODERS)}, or a keras.Model, or None. Received: encoder={brief(encoder)}"
        )
    if isinstance(encoder, keras.Model):
        shapes = getattr(encoder, "input_shape", None), getattr(encoder, "output_shape", None)
        if not all(isinstance(shape, tuple) and len(shape) == 4 and None not in shape[1:] for shape in shapes):
            raise ValueError(
                "The encoder must be a model that begins with keras.Input((height, width, 3)) and ends with a grid "
                f"(batch, rows, columns, feature_dim). Received: input_shape={shapes[0]}, output_shape={shapes[1]}"
            )


def _absolute(weights):
    """Return a path of encoder weights that means the same from any other folder."""
    return weights if weights in (None, "imagenet", BUNDLED) else os.path.abspath(os.path.expanduser(weights))
