"""Attention scoring functions.

To add one, subclass `Attention` with a `score` method, and add it to SCORINGS.
"""

import keras
from keras import ops

from keras_sat import equations
from keras_sat.model.attention import Attention, BahdanauAttention
from keras_sat.model.cells import LoopDense
from keras_sat.model.selections import ATTENTIONS
from keras_sat.model.states import Attended, Visible


@keras.saving.register_keras_serializable("keras_sat")
class DotAttention(Attention):
    """Dot attention, e_ti = a_i . h_{t-1}.

    It has no weights; feature_dim and hidden_dim must be equal.
    """

    def build(self, hidden_state_shape, features_shape, **_):
        hidden_dim, feature_dim = hidden_state_shape[-1], features_shape[-1]
        if hidden_dim != feature_dim:
            raise ValueError(
                "Dot attention needs features and hidden states of the same length. Set "
                "`hidden_dim` to "
                "feature_dim, or use scoring='bilinear', which adds a matrix. "
                f"Received: feature_dim={feature_dim}, hidden_dim={hidden_dim}"
            )

    def score(self, query, projected_features):
        return equations.dot_scores(projected_features, query)


@keras.saving.register_keras_serializable("keras_sat")
class BilinearAttention(DotAttention):
    """Bilinear attention, e_ti = a_i .

    W h_{t-1}. Projecting the state is cheaper than projecting all a_i.
    """

    def build(self, hidden_state_shape, features_shape, **_):
        # Dot products of long vectors are large: with the default W, attention would be
        # sharp before any training.
        near_uniform = keras.initializers.VarianceScaling(
            0.01, mode="fan_avg", distribution="uniform"
        )
        kernel = {"use_bias": False, "kernel_initializer": near_uniform, "dtype": self.dtype_policy}
        self.state_projection = LoopDense(features_shape[-1], name="state_projection", **kernel)
        self.state_projection.build(hidden_state_shape)

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)


SCORINGS = {"additive": BahdanauAttention, "dot": DotAttention, "bilinear": BilinearAttention}


@keras.saving.register_keras_serializable("keras_sat")
class NoAttention(Attention):
    """No attention, as in a vanilla encoder-decoder: all weights are equal, and the
    context is the mean a_i.
    """

    def project(self, features):
        features = ops.cast(features, self.compute_dtype)
        return ops.expand_dims(equations.mean_annotation(features), 1)  # (photos, 1, feature_dim)

    def call(self, hidden_state, features, projected_features=None, noise=None, sampled=None):
        mean = self.project(features) if projected_features is None else projected_features
        rows, regions = ops.shape(hidden_state)[0], ops.shape(features)[1]
        uniform = ops.ones((rows, regions)) / ops.cast(regions, "float32")
        if isinstance(mean, Visible):
            mean, visible = mean
            uniform = equations.attention_weights(equations.visible_scores(uniform, visible))
        return Attended(equations.attended_features(ops.ones((rows, 1)), mean), uniform, uniform)


def make_attention(attention="soft", scoring="additive", attention_dim=512, **kwargs):
    """Return the attention layer for names in ATTENTIONS and SCORINGS.

    Attention "none" ignores `scoring`.
    """
    kind = SCORINGS[scoring] if ATTENTIONS[attention].chooses else NoAttention
    return kind(attention_dim=attention_dim, selection=attention, **kwargs)
