"""What attention and decoder hand on: named tuples of tensors.

Each ends with `extras`: what an attention that goes beyond the paper tells besides, a dict from names to tensors, see
`CaptionDecoder.extra_dims`. The paper's tells nothing: {}.
"""

from typing import Any, NamedTuple


class DecoderState(NamedTuple):
    """What the decoder remembers: h_t and c_t of each layer, (rows, hidden_dim); a GRU has no cells."""

    hidden_states: tuple
    cell_states: tuple


class Attended(NamedTuple):
    """What attention gives for one step.

    Attributes:
        context: sum_i s_ti a_i, (rows, feature_dim).
        attention_weights: the distribution alpha_t over the regions, (rows, regions), float32.
        selection: what the context was made from, (rows, regions): alpha_t itself, or a one-hot sample of it.
        extras: (rows, dim), float32.
    """

    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Step(NamedTuple):
    """One step of the decoder.

    Attributes:
        logits: (rows, vocabulary), float32; their softmax is p(y_t | a, y_1 .. y_{t-1}), equation (7).
        state: the DecoderState after the step.
        attention_weights, selection, extras: see Attended.
    """

    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Unrolled(NamedTuple):
    """What the loop over a whole caption gives, time first.

    Attributes:
        embedded: E y_{t-1}, (time, rows, embedding_dim).
        hidden_states: h_t, (time, rows, hidden_dim).
        context: z_t, (time, rows, feature_dim).
        attention_weights, selection: (time, rows, regions).
        extras: (time, rows, dim).
    """

    embedded: Any
    hidden_states: Any
    context: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}


class Decoded(NamedTuple):
    """A whole caption: logits (rows, time, vocabulary), twice (rows, time, regions), and extras (rows, time, dim)."""

    logits: Any
    attention_weights: Any
    selection: Any
    extras: dict = {}
