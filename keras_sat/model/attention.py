"""Attention with the paper's additive scores, which accelerated/install.py makes fast.
For others, see scorings.py.
"""

import keras
from keras import ops

from keras_sat import equations
from keras_sat.model.cells import LoopDense
from keras_sat.model.selections import ATTENTIONS
from keras_sat.model.states import Attended, Visible


class Attention(keras.layers.Layer):
    """Base class of attention layers. Subclasses define `score`, which gives each
    region an attention score.

    Args:
        attention_dim: length of the hidden vectors, if the scoring function has any.
        selection: a name in ATTENTIONS.

    Call arguments:
        hidden_state: the top layer's state, (rows, hidden_dim): in the paper h_{t-1},
            the one BEFORE this step.
        features: the annotation vectors a_i, (photos, regions, feature_dim); rows is a
            multiple of photos.
        projected_features: the output of `project`; None computes it. Pass it if there
            are many steps.
        noise, sampled: see `selections.hard`.

    Returns: Attended.
    """

    def __init__(self, attention_dim=None, *, selection="soft", **kwargs):
        kwargs.setdefault("autocast", False)  # noise stays in float32
        super().__init__(**kwargs)
        self.attention_dim = attention_dim
        self.selection = selection
        self.select = ATTENTIONS[selection].select

    def build(self, hidden_state_shape, features_shape, **_):
        """Create the weights of the scoring function. The base class has none."""

    def project(self, features):
        """Return the projected features that `score` uses at every step.

        They are computed once per photo.
        """
        return ops.cast(features, self.compute_dtype)

    def project_state(self, hidden_state):
        """Return the query (rows, dim) that `score` compares with each region."""
        return hidden_state

    def score(self, query, projected_features):
        """Return scores e_ti of shape (rows, regions), from the outputs of
        `project_state` and `project`.
        """
        raise NotImplementedError

    def scores(self, query, projected_features):
        """Return `score`, with -inf for hidden regions if there are any.

        See `CaptionDecoder.reveal`.
        """
        if not isinstance(projected_features, Visible):
            return self.score(query, projected_features)
        projected_features, visible = projected_features
        return equations.visible_scores(self.score(query, projected_features), visible)

    def call(self, hidden_state, features, projected_features=None, noise=None, sampled=None):
        query = self.project_state(ops.cast(hidden_state, self.compute_dtype))
        projected_features = (
            self.project(features) if projected_features is None else projected_features
        )
        return self.look(self.scores(query, projected_features), features, noise, sampled)

    def look(self, attention_scores, features, noise=None, sampled=None):
        """Compute Attended from scores e_ti of shape (rows, regions), with equation (5)
        and then (8) or (13).
        """
        attention_weights = equations.attention_weights(attention_scores)
        selection = self.select(attention_weights, noise, sampled)
        context = equations.attended_features(selection, ops.cast(features, self.compute_dtype))
        return Attended(context, attention_weights, selection)

    def get_config(self):
        return {
            **super().get_config(),
            "attention_dim": self.attention_dim,
            "selection": self.selection,
        }


@keras.saving.register_keras_serializable("keras_sat")
class BahdanauAttention(Attention):
    """Additive attention: e_ti = v . tanh(W_a a_i + W_h h_{t-1} + b), equation (4). The
    length of v is attention_dim.

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
        )
        self.state_projection = LoopDense(
            attention_dim, use_bias=False, name="state_projection", **policy
        )

    def build(self, hidden_state_shape, features_shape, **_):
        self.feature_projection.build(features_shape)
        self.state_projection.build(hidden_state_shape)
        v = {"shape": (self.attention_dim,), "initializer": "glorot_uniform"}
        self.score_vector = self.add_weight(name="score_vector", **v)

    def project(self, features):
        return self.feature_projection(features)

    def project_state(self, hidden_state):
        return self.state_projection(hidden_state)

    def score(self, query, projected_features):
        return equations.additive_scores(
            projected_features, query, ops.cast(self.score_vector, self.compute_dtype)
        )
