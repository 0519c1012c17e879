"""The steps of attention, from annotation vectors and a state to the context.

    e_ti = score of region i     equation (4), in scorings.py
    alpha_t = softmax(e_t)       equation (5), here in `look`
    s_t = alpha_t, or a sample   equation (8), in selections.py
    z_t = sum_i s_ti a_i         equation (9) or (13), here in `look`

The gate beta_t or the sentinel follows in the decoder.
"""

import math

import keras
from keras import ops

from keras_sat import equations
from keras_sat.model import selections
from keras_sat.model.states import Attended, SelectionInputs


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
        """Return vectors (photos, regions, dim) to compare with queries."""
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

    def look(self, attention_scores, features, selection_inputs):
        """Return Attended, from scores e_ti of shape (rows, regions)."""
        attention_weights = equations.attention_weights(attention_scores)
        select = selections.ATTENTIONS[self.selection].select
        selection = select(attention_weights, selection_inputs.noise, selection_inputs.sampled)
        if selection_inputs.forced_map is not None:
            selection = selections.forced(selection, selection_inputs.forced_map)
        context = equations.attended_features(selection, ops.cast(features, self.compute_dtype))
        return Attended(context, attention_weights, selection)

    def call(
        self, hidden_state, features, projected_features=None, selection_inputs=SelectionInputs()
    ):
        if len(hidden_state.shape) != 2:
            raise ValueError(
                "The hidden state must be (rows, hidden_dim): that of one step. Received: a hidden "
                f"state of shape {tuple(hidden_state.shape)}"
            )
        features = as_regions(features)
        if projected_features is None:
            projected_features = self.prepare(features)
        query = self.project_state(ops.cast(hidden_state, self.compute_dtype))
        attention_scores = self.score(query, projected_features)
        return self.look(attention_scores, features, selection_inputs)

    def get_config(self):
        return {
            **super().get_config(),
            "attention_dim": self.attention_dim,
            "selection": self.selection,
        }
