"""Named tuples for the decoder's state and the outputs of attention and decoder.

Most end with `extras`, a dict of other outputs by name, see
`CaptionDecoder.extra_dims`; the paper's model has none.
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

    Shapes are those of one step; for whole captions, time is the second axis of noise
    and forced_map.

    Attributes:
        noise: Gumbel noise (rows, regions) for attention that samples regions; None
            uses the expectation.
        sampled: (rows,), 0 for rows that use the expectation; None samples in all rows.
        forced_map: weights (rows, regions) to use instead, see `selections.forced`.
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
    """The output of attention for one step.

    Attributes:
        context: sum_i s_ti a_i, (rows, feature_dim).
        attention_weights: the distribution alpha_t over the regions, (rows, regions),
            float32.
        selection: the weights used in the context, (rows, regions): alpha_t itself, or
            a one-hot sample of it.
        extras: (rows, dim), float32.
    """

    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Step(NamedTuple):
    """The output of one step of the decoder. The fields after `state` are those of
    Attended.

    Attributes:
        logits: (rows, vocabulary), float32; their softmax is p(y_t | a, y_1 ..
            y_{t-1}), equation (7).
        state: the DecoderState after the step.
    """

    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Unrolled(NamedTuple):
    """The inputs of the readout and the maps, for all time steps: (time, rows, dim)."""

    embedded: Any  # E y_{t-1}
    hidden_states: Any  # h_t
    context: Any  # z_t
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Decoded(NamedTuple):
    """The decoder's output for whole captions."""

    logits: Any  # (rows, time, vocabulary)
    attention_weights: Any  # (rows, time, regions)
    selection: Any  # (rows, time, regions)
    extras: dict = {}
