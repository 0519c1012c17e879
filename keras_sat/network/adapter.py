"""A layer between encoder and decoder, not in the paper, that adapts the annotation
vectors to a small data set.
"""

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_sat")
class FeatureAdapter(layers.Layer):
    """Transform annotation vectors with trained encoder layers, normalisation,
    projection and dropout, all optional.

    The features of a frozen encoder are long and never change: with a few thousand
    photos, a decoder overfits to them.

    Args:
        network: the trained last layers of the encoder, a `keras.Model` from grid to
            grid (see `make_encoder_top`), or None. It is never in training mode, to
            keep its batch statistics.
        normalise: scale each vector to mean 0 and variance 1, to give the features of
            all encoders the same scale.
        projection_dim: project each vector to this length, with one matrix for all
            regions; None: no projection.
        activation: of the projected vectors, such as "relu"; None: linear.
        dropout, seed: dropout rate of the vectors in training, and its seed.

    Call it with features (photos, regions, feature_dim); it returns (photos, regions,
    projection_dim or feature_dim).
    """

    def __init__(
        self,
        network=None,
        *,
        normalise=False,
        projection_dim=None,
        activation=None,
        dropout=0.0,
        seed=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.network = network
        self.projection_dim = projection_dim
        policy = {"dtype": self.dtype_policy}
        self.steps = []
        if normalise:
            self.steps.append(
                layers.LayerNormalization(center=False, scale=False, name="normalisation", **policy)
            )
        if projection_dim is not None:
            self.steps.append(
                layers.Dense(projection_dim, activation=activation, name="projection", **policy)
            )
        self.drop = layers.Dropout(dropout, seed=seed, name="drop", **policy)

    def build(self, features_shape):
        for layer in self.steps:
            layer.build(self._finished_shape(features_shape))

    def call(self, features, training=False):
        if self.network is not None:
            features_shape = self._finished_shape(features.shape)
            grid_shape = self.network.input_shape[1:]
            grid = ops.reshape(ops.cast(features, "float32"), (-1, *grid_shape))
            grid = self.network(grid, training=False)
            features = ops.reshape(grid, (-1, *features_shape[1:]))
        features = ops.cast(features, self.compute_dtype)
        for layer in self.steps:
            features = layer(features)
        return self.drop(features, training=training)

    def _finished_shape(self, features_shape):
        """Return the shape of the features after the trained encoder layers."""
        if self.network is None:
            return features_shape
        _, rows, columns, feature_dim = self.network.output_shape
        return (features_shape[0], rows * columns, feature_dim)

    def compute_output_shape(self, features_shape):
        features_shape = self._finished_shape(features_shape)
        return (*features_shape[:-1], self.projection_dim or features_shape[-1])
