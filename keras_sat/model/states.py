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


class Visible(NamedTuple):
    """Projected features of photos that are partly hidden; `visible` is boolean,
    (photos, regions).
    """

    projected_features: Any
    visible: Any


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
    """The inputs of the readout and the maps for all time steps: E y_{t-1}, h_t, z_t,
    each (time, rows, dim).
    """

    embedded: Any
    hidden_states: Any
    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Decoded(NamedTuple):
    """The decoder's output for whole captions: logits (rows, time, vocabulary) and maps
    (rows, time, regions).
    """

    logits: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}
