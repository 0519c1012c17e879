"""Attention = a way of scoring the regions (SCORINGS) x a way of selecting among them (ATTENTIONS).

To add a scoring, write a subclass of `Attention` with a `score` method and name it in SCORINGS. To add a selection,
write a function of (attention_weights, noise, sampled) and name the `Selection` that it is in ATTENTIONS.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from data_utils.foreign_text import brief
from keras_sat import equations
from keras_sat.model.fast import fused
from keras_sat.model.fast.dense import LoopDense


class Attended(NamedTuple):
    """What attention gives for one step.

    Attributes:
        context: sum_i s_ti a_i, (rows, feature_dim), before the gate; with a sentinel, mixed with that.
        attention_weights: the distribution alpha_t over the regions, (rows, regions), float32.
        selection: what the context was made from, (rows, regions): alpha_t itself, or a one-hot sample of it.
        from_photo: how much of the context comes from the photo, (rows, 1), float32: 1 without a sentinel.
    """

    context: Any
    attention_weights: Any
    selection: Any
    from_photo: Any


# === Selections: from attention weights to what the context is made from ===


class Selection(NamedTuple):
    """An entry of ATTENTIONS: everything that depends on the kind of attention asks these, never for its name.

    Attributes:
        select: function of (attention_weights, noise, sampled), see `hard`; returns (rows, regions).
        draws_places: whether it draws regions. It is given noise in training, where the surrogate of equation (12)
            takes the place of log p, and in a search with `sample_attention`.
        chooses: whether it prefers some regions to others. One that does not has NoAttention as its layer, which has
            nothing to score and does not call `select`.
    """

    select: Callable
    draws_places: bool = False
    chooses: bool = True


def soft(attention_weights, noise, sampled):
    """Look everywhere at once, each region weighed by alpha_ti: the expectation of equation (13)."""
    return attention_weights


def hard(attention_weights, noise, sampled):
    """Look at one region, drawn from alpha_t; without noise, and in rows that are not `sampled`, at the expectation.

    Args:
        attention_weights: (rows, regions).
        noise: Gumbel noise (rows, regions), or None.
        sampled: (rows,), 1 where a sample is wanted, 0 where the expectation is; None wants samples everywhere.
    """
    if noise is None:
        return attention_weights
    sample = equations.sample_locations(attention_weights, noise)
    return sample if sampled is None else ops.where(ops.expand_dims(sampled, -1) > 0, sample, attention_weights)


def none(attention_weights, noise, sampled):
    """Choose nothing: `NoAttention` weighs all regions alike, at every step."""
    return attention_weights


ATTENTIONS = {
    "soft": Selection(soft),
    "hard": Selection(hard, draws_places=True),
    "none": Selection(none, chooses=False),
}


# === Scorings: from features and state to a score for each region ===


class Attention(keras.layers.Layer):
    """Scores, weights, selection, context: what all attentions share. Subclasses say how to score.

    Args:
        selection: a name in ATTENTIONS.
        sharpness: what scores are multiplied by.

    Call arguments:
        hidden_state: the top layer's state, (rows, hidden_dim): in the paper h_{t-1}, the one BEFORE this step.
        features: the annotation vectors a_i, (photos, regions, feature_dim); rows is a multiple of photos.
        projected_features: what `project` made of the features; None calls it. Pass it when there are many steps.
        noise, sampled: see `hard`.
        sentinel: what may be looked at instead of the photo, (rows, feature_dim), or None.

    Returns: Attended.
    """

    def __init__(self, *, selection="soft", sharpness=1.0, **kwargs):
        super().__init__(**{"autocast": False, **kwargs})  # noise stays in float32
        if selection not in ATTENTIONS:
            raise ValueError(f"Expected one of: {', '.join(ATTENTIONS)}. Received: selection={brief(selection)}")
        self.selection = selection
        self.sharpness = sharpness

    def build(self, hidden_state_shape, features_shape, **_):
        """Make the weights of the scoring; there are none unless a subclass has some."""

    def project(self, features):
        """Return the part of the scores that no step changes, computed once for each photo."""
        return ops.cast(features, self.compute_dtype)

    def project_state(self, hidden_state):
        """Return the part of the scores that no region changes, computed once for each state: (rows, dim)."""
        return hidden_state

    def score(self, query, projected_features):
        """Return the attention scores e_ti, (rows, regions)."""
        raise NotImplementedError

    def _sharp_scores(self, query, projected_features):
        scores = self.score(query, projected_features)
        return scores if self.sharpness == 1 else self.sharpness * scores

    def call(self, hidden_state, features, projected_features=None, noise=None, sampled=None, sentinel=None):
        hidden_state, features = (ops.cast(x, self.compute_dtype) for x in (hidden_state, features))
        projected_features = self.project(features) if projected_features is None else projected_features
        query = self.project_state(hidden_state)
        attention_scores = self._sharp_scores(query, projected_features)
        attention_weights = equations.attention_weights(attention_scores)
        selection = ATTENTIONS[self.selection].select(attention_weights, noise, sampled)
        context = equations.attended_features(selection, features)
        if sentinel is None:
            return Attended(context, attention_weights, selection, ops.ones_like(attention_weights[:, :1]))
        its_score = self._sharp_scores(query, self.project(ops.expand_dims(sentinel, 1)))  # as that of a region more
        from_photo = equations.share_from_photo(attention_scores, its_score)
        share = ops.cast(from_photo, context.dtype)
        context = share * context + (1 - share) * sentinel
        return Attended(context, attention_weights, selection, from_photo)

    def get_config(self):
        return {**super().get_config(), "selection": self.selection, "sharpness": self.sharpness}


@keras.saving.register_keras_serializable("keras_sat")
class BahdanauAttention(Attention):
    """Additive attention: e_ti = v . tanh(W_a a_i + W_h h_{t-1} + b), equation (4).

    Args:
        attention_dim: length of v.

    >>> attention = BahdanauAttention(attention_dim=8)
    >>> context, attention_weights, *_ = attention(ops.zeros((2, 16)), ops.ones((2, 49, 32)))
    >>> tuple(context.shape), tuple(attention_weights.shape)
    ((2, 32), (2, 49))
    """

    def __init__(self, attention_dim=512, **kwargs):
        super().__init__(**kwargs)
        self.attention_dim = attention_dim
        self.feature_projection = keras.layers.Dense(attention_dim, dtype=self.dtype_policy, name="feature_projection")
        self.state_projection = LoopDense(
            attention_dim, use_bias=False, dtype=self.dtype_policy, name="state_projection"
        )

    def build(self, hidden_state_shape, features_shape, **_):
        self.feature_projection.build(features_shape)
        self.state_projection.build(hidden_state_shape)
        self.score_vector = self.add_weight(
            shape=(self.attention_dim,), initializer="glorot_uniform", name="score_vector"
        )

    def project(self, features):
        return fused.prepare(self.feature_projection(features))

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)

    def score(self, query, projected_features):
        return fused.additive_scores(projected_features, query, ops.cast(self.score_vector, self.compute_dtype))

    def get_config(self):
        return {**super().get_config(), "attention_dim": self.attention_dim}


@keras.saving.register_keras_serializable("keras_sat")
class DotAttention(Attention):
    """e_ti = a_i . h_{t-1}, on the raw features: feature_dim and hidden_dim must be equal. No weights."""

    def __init__(self, attention_dim=None, **kwargs):
        super().__init__(**kwargs)
        self.attention_dim = attention_dim

    def build(self, hidden_state_shape, features_shape, **_):
        hidden_dim, feature_dim = hidden_state_shape[-1], features_shape[-1]
        if hidden_dim != feature_dim:
            raise ValueError(
                "Dot attention multiplies annotation vectors with states, so both must be equally long. Make them so "
                "with `hidden_dim`, or use scoring='bilinear', which has a matrix between the two. "
                f"Received: feature_dim={feature_dim}, hidden_dim={hidden_dim}"
            )

    def score(self, query, projected_features):
        return equations.dot_scores(projected_features, query)

    def get_config(self):
        return {**super().get_config(), "attention_dim": self.attention_dim}


@keras.saving.register_keras_serializable("keras_sat")
class BilinearAttention(Attention):
    """e_ti = a_i . W h_{t-1}. W h_{t-1} is made at each step: that is less work than multiplying all a_i with W."""

    def __init__(self, attention_dim=None, **kwargs):
        super().__init__(**kwargs)
        self.attention_dim = attention_dim

    def build(self, hidden_state_shape, features_shape, **_):
        # Products of long vectors are large: with an ordinary W attention would be sharp before it knows where to look.
        near_even = keras.initializers.VarianceScaling(0.01, mode="fan_avg", distribution="uniform")
        self.state_projection = LoopDense(
            features_shape[-1],
            use_bias=False,
            kernel_initializer=near_even,
            dtype=self.dtype_policy,
            name="state_projection",
        )
        self.state_projection.build(hidden_state_shape)

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)

    def score(self, query, projected_features):
        return equations.dot_scores(projected_features, query)

    def get_config(self):
        return {**super().get_config(), "attention_dim": self.attention_dim}


SCORINGS = {"additive": BahdanauAttention, "dot": DotAttention, "bilinear": BilinearAttention}


@keras.saving.register_keras_serializable("keras_sat")
class NoAttention(Attention):
    """The vanilla encoder-decoder: every region weighs 1 / regions, so that the context is always the mean feature."""

    def __init__(self, **kwargs):
        super().__init__(**{"selection": "none", **kwargs})

    def project(self, features):
        features = ops.cast(features, self.compute_dtype)
        return ops.expand_dims(equations.mean_annotation(features), 1)  # (photos, 1, feature_dim)

    def call(self, hidden_state, features, projected_features=None, noise=None, sampled=None, sentinel=None):
        features = ops.cast(features, self.compute_dtype)
        mean = self.project(features) if projected_features is None else projected_features
        rows, regions = ops.shape(hidden_state)[0], ops.shape(features)[1]
        uniform = ops.ones((rows, regions)) / ops.cast(regions, "float32")
        context = equations.attended_features(ops.ones((rows, 1)), mean)
        return Attended(context, uniform, uniform, ops.ones((rows, 1)))


@keras.saving.register_keras_serializable("keras_sat")
class Sentinel(keras.layers.Layer):
    """What attention may look at instead of the photo: what the network remembers (Lu et al., 2017).

    Args:
        feature_dim: length of an annotation vector, which it takes the place of.

    Call arguments:
        hidden_state, memory: of the state that attends, (rows, hidden_dim), see `equations.sentinel`.

    Returns: (rows, feature_dim).
    """

    def __init__(self, feature_dim, **kwargs):
        super().__init__(**kwargs)
        self.feature_dim = feature_dim

    def build(self, hidden_state_shape, memory_shape=None):
        hidden_dim = hidden_state_shape[-1]
        policy = {"dtype": self.dtype_policy}
        self.gate = LoopDense(hidden_dim, name="gate", **policy)
        self.projection = LoopDense(self.feature_dim, use_bias=False, name="projection", **policy)
        self.gate.build(hidden_state_shape)
        self.projection.build(hidden_state_shape)

    def call(self, hidden_state, memory):
        return self.projection(equations.sentinel(self.gate(hidden_state), memory))

    def get_config(self):
        return {**super().get_config(), "feature_dim": self.feature_dim}


def make_attention(attention="soft", scoring="additive", attention_dim=512, **kwargs):
    """Return the attention layer of two names: one of ATTENTIONS, one of SCORINGS (if it chooses)."""
    if attention not in ATTENTIONS:
        raise ValueError(f"Expected one of: {', '.join(ATTENTIONS)}. Received: attention={brief(attention)}")
    if scoring not in SCORINGS:
        raise ValueError(f"Expected one of: {', '.join(SCORINGS)}. Received: scoring={brief(scoring)}")
    if not isinstance(ATTENTIONS[attention], Selection):
        raise ValueError(
            "An entry of ATTENTIONS is a Selection, which says whether it draws places: "
            f"Selection(function, draws_places=True). Received: ATTENTIONS[{attention!r}]={ATTENTIONS[attention]!r}"
        )
    if not ATTENTIONS[attention].chooses:
        return NoAttention(selection=attention, **kwargs)
    return SCORINGS[scoring](attention_dim=attention_dim, selection=attention, **kwargs)
