"""Named tuples of tensors: the outputs of attention and decoder.

Most end with `extras`, a dict of other outputs by name, see `CaptionDecoder.extra_dims`; the paper's model has none.
"""

from typing import Any, NamedTuple


class DecoderState(NamedTuple):
    """The recurrent state: h_t and c_t of each layer, (rows, hidden_dim); a GRU has no cell states."""

    hidden_states: tuple
    cell_states: tuple


class Attended(NamedTuple):
    """The output of attention for one step.

    Attributes:
        context: sum_i s_ti a_i, (rows, feature_dim).
        attention_weights: the distribution alpha_t over the regions, (rows, regions), float32.
        selection: the weights used in the context, (rows, regions): alpha_t itself, or a one-hot sample of it.
        extras: (rows, dim), float32.
    """

    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Step(NamedTuple):
    """The output of one step of the decoder; see also Attended.

    Attributes:
        logits: (rows, vocabulary), float32; their softmax is p(y_t | a, y_1 .. y_{t-1}), equation (7).
        state: the DecoderState after the step.
    """

    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Unrolled(NamedTuple):
    """The output of the loop over a whole caption, (time, rows, dim): E y_{t-1}, h_t, z_t and the maps of Attended."""

    embedded: Any
    hidden_states: Any
    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Decoded(NamedTuple):
    """The decoder's output for captions: logits (rows, time, vocabulary), maps (rows, time, regions), extras."""

    logits: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}
