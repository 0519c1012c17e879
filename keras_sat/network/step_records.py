"""What one step of the decoder takes and returns: named tuples of tensors.

Their shapes are those of one step. `rows` are captions, or the beams of a search: a
multiple of photos, those of a photo one after the other. For whole captions, time is a
second axis of the record that a trace reads, and the first one in Unrolled.
"""

from typing import Any, NamedTuple


class DecoderState(NamedTuple):
    """The recurrent state: h_t and c_t of each layer, of shape (rows, hidden_dim).

    A GRU has no cell states.
    """

    hidden_states: tuple
    cell_states: tuple


class SelectionInputs(NamedTuple):
    """What the selection of regions depends on, besides alpha_t.

    For whole captions, time is the second axis of noise and forced_map.

    Attributes:
        noise: Gumbel noise (rows, regions) for attention that samples regions; None
            uses the expectation.
        sampled: (rows,), 0 for rows that use the expectation; None samples in all rows.
        forced_map: weights (rows, regions) to use instead, see `attention.forced`.
    """

    noise: Any = None
    sampled: Any = None
    forced_map: Any = None

    def at(self, t):
        """Return the inputs of step t, from those of whole captions."""
        noise = None if self.noise is None else self.noise[:, t]
        forced_map = None if self.forced_map is None else self.forced_map[:, t]
        return SelectionInputs(noise, self.sampled, forced_map)


class Attended(NamedTuple):
    """The output of an attention layer.

    Attributes:
        context: sum_i s_ti a_i, (rows, feature_dim); the gate follows in Look.
        attention_weights: the distribution alpha_t over the regions, (rows, regions),
            float32.
        selection: s_t, the weights used in the context, (rows, regions): alpha_t
            itself, a one-hot sample of it, or what another Selection makes of it.
        attention_scores: e_ti, (rows, regions); 0 without attention.
        query: what the scores compare with each region, (rows, dim): in additive
            attention the projected state, W_h h_{t-1}.
    """

    context: Any
    attention_weights: Any
    selection: Any
    attention_scores: Any
    query: Any


class Look(NamedTuple):
    """What the decoder reads of the photo at one step.

    Attributes:
        context: z_t, (rows, feature_dim): photo_context + sentinel_context.
        attention_weights, selection: see Attended.
        attention_scores: e_ti, (rows, regions); None without attention.
        context_gate: beta_t, (rows, 1), or None.
        from_photo: with a sentinel, how much of the context comes from the photo,
            (rows, 1), float32; or None. It depends on all scores, before the selection.
        sentinel_score: e_ts, (rows, 1), or None.
        photo_context: sum_i s_ti a_i times beta_t or from_photo, (rows, feature_dim).
        sentinel_context: the sentinel times 1 - from_photo; 0 without a sentinel.
    """

    context: Any
    attention_weights: Any
    selection: Any
    attention_scores: Any
    context_gate: Any
    from_photo: Any
    sentinel_score: Any
    photo_context: Any
    sentinel_context: Any

    @property
    def extras(self):
        """Values that the paper's model does not have, as a dict of (rows, dim); see
        `CaptionDecoder.extra_dims`.
        """
        return {} if self.from_photo is None else {"from_photo": self.from_photo}


class Step(NamedTuple):
    """Everything that one step of the decoder computes.

    Attributes:
        logits: (rows, vocabulary), float32; their softmax is p(y_t | a, y_1 ..
            y_{t-1}), equation (7).
        state: the DecoderState after the step.
        attention_weights, ..., sentinel_context: see Look.
        embedded: E y_{t-1}, (rows, embedding_dim).
        gates: those of the top layer, a dict by name of (rows, hidden_dim); see
            `RecurrentCell`.
    """

    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    attention_scores: Any
    context_gate: Any
    from_photo: Any
    sentinel_score: Any
    context: Any
    photo_context: Any
    sentinel_context: Any
    embedded: Any
    gates: dict

    extras = Look.extras


class Unrolled(NamedTuple):
    """The inputs of the readout and the maps, for all time steps: (time, rows, dim)."""

    embedded: Any  # E y_{t-1}
    hidden_states: Any  # h_t
    context: Any  # z_t
    attention_weights: Any
    selection: Any
    extras: dict


class Decoded(NamedTuple):
    """The decoder's output for whole captions."""

    logits: Any  # (rows, time, vocabulary)
    attention_weights: Any  # (rows, time, regions)
    selection: Any  # (rows, time, regions)
    extras: dict
