"""Attention: from annotation vectors and a state to the context.

    e_ti = score of region i     equation (4), a class in SCORINGS
    alpha_t = softmax(e_t)       equation (5), `Attention.call`
    s_t = alpha_t, or a sample   equation (8), a Selection in ATTENTIONS
    z_t = sum_i s_ti a_i         equation (9) or (13), `Attention.call`

The gate beta_t or the sentinel follows in the decoder. To add a scoring function,
subclass `Attention` with a `score` method; to add a kind of attention, write a function
of (attention_weights, noise, sampled). One line adds either to its dict.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from keras_sat import equations
from keras_sat.network import fused_scores
from keras_sat.network.cells import LoopDense
from keras_sat.network.fast_twins import may_compile
from keras_sat.network.step_records import Attended, SelectionInputs


def as_regions(features):
    """Return features (photos, regions, feature_dim), given these or the grid (photos,
    rows, columns, feature_dim) that an encoder returns. Regions are in reading order.
    """
    if len(features.shape) == 3:
        return features
    _, regions, feature_dim = shape_as_regions(features.shape)
    num_regions = -1 if regions is None else regions
    return ops.reshape(features, (ops.shape(features)[0], num_regions, feature_dim))


def shape_as_regions(features_shape):
    """Return the shape of `as_regions`, or raise ValueError for a shape that is neither
    features nor a grid; unknown sides are None.
    """
    if len(features_shape) not in (3, 4):
        raise ValueError(
            "Features must be (photos, regions, feature_dim), or a grid (photos, rows, columns, "
            "feature_dim), as encoders return it. Pass the hidden state (rows, hidden_dim) or the "
            "captions (rows, time) as the other argument. Received: features of shape "
            f"{tuple(features_shape)}"
        )
    photos, *sides, feature_dim = features_shape
    return photos, None if None in sides else math.prod(sides), feature_dim


# === Soft and hard attention: from alpha_t to s_t ===


def soft(attention_weights, noise, sampled):
    """Return alpha_t unchanged: the context is the expectation in equation (13)."""
    return attention_weights


def hard(attention_weights, noise, sampled):
    """Return a one-hot sample from alpha_t, (rows, regions).

    Args:
        noise: Gumbel noise (rows, regions). Without it, the result is alpha_t.
        sampled: (rows,), 1 for a sample, 0 for the expectation alpha_t; None samples in
            all rows.
    """
    if noise is None:
        return attention_weights
    sample = equations.sample_locations(attention_weights, noise)
    if sampled is None:
        return sample
    return ops.where(ops.expand_dims(sampled, -1) > 0, sample, attention_weights)


def forced(selection, forced_map):
    """Return the rows of `forced_map` that have any weight, and those of `selection`
    elsewhere.

    Both are (rows, regions). This is no kind of attention: it asks what a word would be
    if the decoder looked elsewhere, see `keras_sat.measuring.faithfulness`.
    """
    has_weight = ops.any(forced_map > 0, axis=-1, keepdims=True)
    return ops.where(has_weight, forced_map, selection)


class Selection(NamedTuple):
    """A kind of attention in ATTENTIONS. Other code reads these fields instead of
    checking names.

    Attributes:
        select: function of (attention_weights, noise, sampled), see `hard`; returns
            (rows, regions).
        samples_regions: whether it samples regions. The objective is then equation
            (12).
        has_attention: whether it weights regions differently. If not, its layer is
            NoAttention.
    """

    select: Callable
    samples_regions: bool = False
    has_attention: bool = True


ATTENTIONS = {
    "soft": Selection(soft),
    "hard": Selection(hard, samples_regions=True),
    "none": Selection(soft, has_attention=False),
}


# === The layer ===


class Attention(keras.layers.Layer):
    """Base class of attention layers. Subclasses define `score`, which gives each
    region an attention score.

    Args:
        attention_dim: length of the hidden vectors, if the scoring function has any.
        selection: a name in ATTENTIONS.

    Call arguments:
        hidden_state: the top layer's state, (rows, hidden_dim): in the paper h_{t-1},
            the one BEFORE this step.
        features: the annotation vectors a_i, (photos, regions, feature_dim), or an
            encoder's grid of them, see `as_regions`; rows is a multiple of photos.
        projected_features: the output of `prepare`; None computes it. Pass it if there
            are many steps.
        selection_inputs: SelectionInputs.

    Returns: Attended.
    """

    def __init__(self, attention_dim=None, *, selection="soft", **kwargs):
        kwargs.setdefault("autocast", False)  # noise stays in float32
        super().__init__(**kwargs)
        self.attention_dim = attention_dim
        self.selection = selection

    def build(self, hidden_state_shape, features_shape, **_):
        """Create the weights of the scoring function. The base class has none."""

    # === Once per photo ===

    def project(self, features):
        """Return vectors (photos, regions, dim) to compare with queries, or (rows, dim)
        of sentinels (rows, feature_dim).
        """
        return ops.cast(features, self.compute_dtype)

    def prepare(self, features):
        """Return what `score` needs of the features at every step, computed once."""
        return self.project(as_regions(features))

    # === At each step ===

    def project_state(self, hidden_state):
        """Return the query (rows, dim) that `score` compares with each region."""
        return hidden_state

    def score(self, query, projected_features):
        """Return scores e_ti of shape (rows, regions).

        Args:
            query: the output of `project_state`.
            projected_features: the output of `prepare` or `project`.
        """
        raise NotImplementedError

    def call(
        self, hidden_state, features, projected_features=None, selection_inputs=SelectionInputs()
    ):
        if len(hidden_state.shape) != 2:
            raise ValueError(
                "The hidden state must be (rows, hidden_dim): that of one step. Received: a hidden "
                f"state of shape {tuple(hidden_state.shape)}"
            )
        features = ops.cast(as_regions(features), self.compute_dtype)
        if projected_features is None:
            projected_features = self.prepare(features)
        noise, sampled, forced_map = selection_inputs

        query = self.project_state(ops.cast(hidden_state, self.compute_dtype))
        attention_scores = self.score(query, projected_features)  # e_t, (4)
        attention_weights = equations.attention_weights(attention_scores)  # alpha_t, (5)
        selection = ATTENTIONS[self.selection].select(attention_weights, noise, sampled)  # s_t
        if forced_map is not None:
            selection = forced(selection, forced_map)
        selection = ops.cast(selection, "float32")
        context = equations.attended_features(selection, features)  # (9) or (13)
        return Attended(context, attention_weights, selection, attention_scores, query)

    def get_config(self):
        return {
            **super().get_config(),
            "attention_dim": self.attention_dim,
            "selection": self.selection,
        }


# === Scores: e_ti ===


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
        if is_additive and regions and fused_scores.pays_off(regions, self.attention_dim):
            self.score_method = "fused"

    def project(self, features):
        return self.feature_projection(features)

    def prepare(self, features):
        projected_features = super().prepare(features)
        if self.score_method == "fused" and may_compile():
            return fused_scores.prepare(projected_features)
        return projected_features

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)

    def score(self, query, projected_features):
        score_vector = ops.cast(self.score_vector, self.compute_dtype)
        if isinstance(projected_features, fused_scores.Projected):
            return fused_scores.additive_scores(projected_features, query, score_vector)
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
        selection = uniform = ops.ones((rows, regions)) / ops.cast(regions, "float32")
        context = equations.attended_features(ops.ones((rows, 1)), mean)
        if selection_inputs.forced_map is not None:
            selection = forced(uniform, selection_inputs.forced_map)
            context = equations.attended_features(selection, ops.cast(features, context.dtype))
        return Attended(context, uniform, selection, ops.zeros_like(uniform), hidden_state)


def make_attention(attention="soft", scoring="additive", attention_dim=512, **kwargs):
    """Return the attention layer for names in ATTENTIONS and SCORINGS.

    Without attention, `scoring` is ignored.
    """
    kind = SCORINGS[scoring] if ATTENTIONS[attention].has_attention else NoAttention
    return kind(attention_dim=attention_dim, selection=attention, **kwargs)
