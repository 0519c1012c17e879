"""Attention scoring functions.

To add one, subclass `Attention` with a `score` method, and add it to SCORINGS.
"""

import keras
from keras import ops

from keras_sat import equations
from keras_sat.accelerated import fused
from keras_sat.accelerated.switch import may_compile
from keras_sat.model.attention import Attention, as_regions, shape_as_regions
from keras_sat.model.cells import LoopDense
from keras_sat.model.selections import ATTENTIONS
from keras_sat.model.states import Attended, SelectionInputs


@keras.saving.register_keras_serializable("keras_sat")
class BahdanauAttention(Attention):
    """Additive attention: e_ti = v . tanh(W_a a_i + W_h h_{t-1} + b), equation (4). The
    length of v is attention_dim.

    Attributes:
        score_method: "plain", the equation, or "fused", compiled code with the same
            values; `build` chooses it.

    >>> attention = BahdanauAttention(attention_dim=8)
    >>> features = ops.ones((2, 49, 32))
    >>> context, attention_weights, *_ = attention(ops.zeros((2, 16)), features)
    >>> tuple(context.shape), tuple(attention_weights.shape)
    ((2, 32), (2, 49))
    """

    def __init__(self, attention_dim=512, **kwargs):
        super().__init__(attention_dim, **kwargs)
        policy = {"dtype": self.dtype_policy}
        self.feature_projection = keras.layers.Dense(
            attention_dim, name="feature_projection", **policy
        )  # W_a and b
        self.state_projection = LoopDense(
            attention_dim, use_bias=False, name="state_projection", **policy
        )  # W_h
        self.score_method = "plain"

    def build(self, hidden_state_shape, features_shape, **_):
        features_shape = shape_as_regions(features_shape)
        self.feature_projection.build(features_shape)
        self.state_projection.build(hidden_state_shape)
        self.score_vector = self.add_weight(
            name="score_vector", shape=(self.attention_dim,), initializer="glorot_uniform"
        )  # v
        _, regions, _ = features_shape
        is_additive = type(self) is BahdanauAttention  # a subclass may score in other ways
        if is_additive and regions and fused.pays_off(regions, self.attention_dim):
            self.score_method = "fused"

    def project(self, features):
        return self.feature_projection(features)

    def prepare(self, features):
        projected_features = super().prepare(features)
        if self.score_method == "fused" and may_compile():
            return fused.prepare(projected_features)
        return projected_features

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)

    def score(self, query, projected_features):
        score_vector = ops.cast(self.score_vector, self.compute_dtype)
        if isinstance(projected_features, fused.Projected):
            return fused.additive_scores(projected_features, query, score_vector)
        return equations.additive_scores(projected_features, query, score_vector)


@keras.saving.register_keras_serializable("keras_sat")
class DotAttention(Attention):
    """Dot attention, e_ti = a_i . h_{t-1}.

    It has no weights; feature_dim and hidden_dim must be equal.
    """

    def build(self, hidden_state_shape, features_shape, **_):
        _, _, feature_dim = shape_as_regions(features_shape)
        hidden_dim = hidden_state_shape[-1]
        if hidden_dim != feature_dim:
            raise ValueError(
                "Dot attention needs features and hidden states of the same length. Set "
                "`hidden_dim` to feature_dim, or use scoring='bilinear', which adds a "
                f"matrix. Received: feature_dim={feature_dim}, hidden_dim={hidden_dim}"
            )

    def score(self, query, projected_features):
        return equations.dot_scores(projected_features, query)


@keras.saving.register_keras_serializable("keras_sat")
class BilinearAttention(DotAttention):
    """Bilinear attention, e_ti = a_i . W h_{t-1}.

    Projecting the state is cheaper than projecting all a_i.
    """

    def build(self, hidden_state_shape, features_shape, **_):
        # Dot products of long vectors are large: with the default W, attention would be
        # sharp before any training.
        near_uniform = keras.initializers.VarianceScaling(
            0.01, mode="fan_avg", distribution="uniform"
        )
        _, _, feature_dim = shape_as_regions(features_shape)
        self.state_projection = LoopDense(
            feature_dim,
            use_bias=False,
            kernel_initializer=near_uniform,
            dtype=self.dtype_policy,
            name="state_projection",
        )  # W
        self.state_projection.build(hidden_state_shape)

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)


SCORINGS = {"additive": BahdanauAttention, "dot": DotAttention, "bilinear": BilinearAttention}


@keras.saving.register_keras_serializable("keras_sat")
class NoAttention(Attention):
    """No attention, as in a vanilla encoder-decoder.

    All weights are equal, and the context is the mean a_i.
    """

    def project(self, features):
        """Return the mean annotation vector (photos, 1, feature_dim)."""
        features = ops.cast(features, self.compute_dtype)
        return ops.expand_dims(equations.mean_annotation(features), 1)

    def call(
        self, hidden_state, features, projected_features=None, selection_inputs=SelectionInputs()
    ):
        features = as_regions(features)
        mean = self.project(features) if projected_features is None else projected_features
        rows, regions = ops.shape(hidden_state)[0], ops.shape(features)[1]
        uniform = ops.ones((rows, regions)) / ops.cast(regions, "float32")
        context = equations.attended_features(ops.ones((rows, 1)), mean)
        return Attended(context, uniform, uniform)


def make_attention(attention="soft", scoring="additive", attention_dim=512, **kwargs):
    """Return the attention layer for names in ATTENTIONS and SCORINGS.

    Attention "none" ignores `scoring`.
    """
    kind = SCORINGS[scoring] if ATTENTIONS[attention].chooses else NoAttention
    return kind(attention_dim=attention_dim, selection=attention, **kwargs)
