"""Read given captions word by word, and keep what the decoder computes on the way.

`CaptionDecoder.step` returns only what a search needs. Here the same layers are called
in the same order, and their inputs and outputs are kept: scores, gates, states, and the
context in two parts, that of the photo and that of the sentinel. A decoder that attends
in another way is rejected.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_sat import equations
from keras_sat.accelerated.switch import without_fast_twins
from keras_sat.beyond.attend_after import AttendAfter
from keras_sat.beyond.sentinel import WithSentinel
from keras_sat.model.states import SelectionInputs


class Reading(NamedTuple):
    """What the decoder computed at each word: tensors (rows, time, dim), float32.

    In `read_step`, which returns one for a single step, they are (rows, dim).

    Attributes:
        embedded: E y_{t-1}.
        hidden_state, cell_state: h_t and c_t of the top layer; a GRU has no c_t: None.
        gates: from names to the gates of the top layer; see `equations.lstm_gates`.
        attention_scores: e_ti; None without attention.
        sentinel_score: e_ts; None without a sentinel.
        attention_weights: alpha_t.
        share: what the photo's context is multiplied by: beta_t, or from_photo, or 1.
        photo_context: share * sum_i alpha_ti a_i, the photo's part of z_t.
        sentinel_context: (1 - share) * sentinel, the rest of z_t; 0 without a sentinel.
    """

    embedded: Any
    hidden_state: Any
    cell_state: Any
    gates: dict
    attention_scores: Any
    sentinel_score: Any
    attention_weights: Any
    share: Any
    photo_context: Any
    sentinel_context: Any


def prepare(captioner, features):
    """Return what the decoder reads of photos: their annotation vectors (photos,
    regions, feature_dim), and these projected.

    Args:
        features: those of the encoder, (photos, regions, feature_dim).
    """
    with without_fast_twins():  # a few words are not worth compiling anything
        annotations = captioner.adapter(features)
        return annotations, captioner.decoder.project_features(annotations)


def read(decoder, features, projected_features, input_ids):
    """Read captions; return a Reading, and the list of the DecoderStates before each
    word and after the last one.

    Raise ValueError if the Reading is not what the decoder has computed.

    Args:
        decoder: CaptionDecoder.
        features, projected_features: the outputs of `prepare`.
        input_ids: the previous words, (rows, time); rows is a multiple of photos.
    """
    rows, time = np.shape(input_ids)
    states = [decoder.initial_state(features, rows // len(features))]
    largest = ops.max(ops.abs(features))
    steps = []
    for t in range(time):
        step, state, attended = read_step(
            decoder, input_ids[:, t], states[-1], features, projected_features
        )
        _check_step(decoder, step, attended, largest)
        steps.append(step)
        states.append(state)
    fields = zip(*steps)
    return Reading(*(_stacked(values) for values in fields)), states


def _stacked(values):
    """Stack tensors (rows, dim), or dicts of them, to (rows, time, dim); keep None."""
    if values[0] is None:
        return None
    return keras.tree.map_structure(lambda *times: ops.stack(times, axis=1), *values)


def read_step(decoder, input_ids, state, features, projected_features):
    """Read one word; return a Reading of one step, the next DecoderState, and what the
    decoder has Attended.

    Args:
        input_ids: the previous words, (rows,).
        state: the DecoderState before the step.
        features, projected_features: the outputs of `prepare`.
    """
    embedded = decoder.embed(input_ids, training=False)
    projected_word = decoder.cells[0].input_projection(embedded)
    next_state, attended = decoder.read_word(
        projected_word, state, features, projected_features, SelectionInputs()
    )

    attends_after = isinstance(decoder, AttendAfter)
    attending_state = next_state if attends_after else state
    attending_hidden = attending_state.hidden_states[-1]
    attention_scores = sentinel_score = None
    if decoder.chooses:
        query = decoder.attention_layer.project_state(attending_hidden)
        attention_scores = decoder.attention_layer.score(query, projected_features)

    share = ops.ones_like(attending_hidden[:, :1])
    sentinel_context = ops.zeros_like(attended.context)
    if decoder.has_gate:
        share = decoder.gate(attending_hidden)
    if isinstance(decoder, WithSentinel) and decoder.chooses:
        share = ops.cast(attended.extras["from_photo"], attended.context.dtype)
        sentinel = decoder.sentinel_of(attending_state)
        sentinel_score = decoder.sentinel_score(query, sentinel)
        sentinel_context = (1 - share) * sentinel
    regions = equations.attended_features(attended.attention_weights, features)

    context_read = attended.context
    if attends_after:
        context_read = _overview(features, rows=len(embedded))
    projected_inputs = projected_word + decoder.cells[0].context_projection(context_read)
    step = Reading(
        embedded=embedded,
        hidden_state=next_state.hidden_states[-1],
        cell_state=next_state.cell_states[-1] if decoder.has_cell_states else None,
        gates=_gates_of_top_layer(decoder, projected_inputs, state, next_state),
        attention_scores=attention_scores,
        sentinel_score=sentinel_score,
        attention_weights=attended.attention_weights,
        share=share,
        photo_context=share * regions,
        sentinel_context=sentinel_context,
    )
    return Reading(*(_in_float32(values) for values in step)), next_state, attended


def _check_step(decoder, step, attended, largest):
    """Raise ValueError if a Reading of one step differs from what the decoder computed.

    Args:
        attended: Attended of the decoder, at this step.
        largest: the largest absolute value of the annotation vectors.
    """
    # In half precision, weights and products have only two digits; TF32 has three.
    tolerance = 1e-3 if decoder.compute_dtype == "float32" else 3e-2

    def differ(expected, received, scale=1.0):
        difference = ops.max(ops.abs(_in_float32(expected) - _in_float32(received)))
        return float(difference) > tolerance * float(scale)  # False for NaN: said elsewhere

    wrong = []
    if differ(step.photo_context + step.sentinel_context, attended.context, largest):
        wrong.append("context")
    if step.attention_scores is not None:
        weights = equations.attention_weights(step.attention_scores)
        if differ(weights, attended.attention_weights):
            wrong.append("attention weights")
    if wrong:
        raise ValueError(
            f"Traces and votes would be wrong: {type(decoder).__name__} computes its "
            f"{' and '.join(wrong)} otherwise than they assume. Expected: a decoder that attends "
            "like CaptionDecoder, AttendAfter or WithSentinel, and a Selection that without "
            f"noise is alpha_t. Received: {type(decoder).__qualname__}, attention="
            f"{decoder.settings.attention!r}. Its captions and attention maps are right: leave "
            "out votes and traces, or add its way to `read_step` in keras_sat/trace/reading.py."
        )


def _in_float32(values):
    """Return a tensor, or a dict of tensors, as float32; keep None."""
    if values is None:
        return None
    return keras.tree.map_structure(lambda x: ops.cast(x, "float32"), values)


def _overview(features, rows):
    """Return what the cells of AttendAfter read for z_t, (rows, feature_dim)."""
    return ops.repeat(equations.mean_annotation(features), rows // len(features), axis=0)


def _gates_of_top_layer(decoder, projected_inputs, state, next_state):
    """Return the gates of the top layer by name; see `RecurrentCell.gates`.

    Args:
        projected_inputs: those of the first layer.
        state, next_state: the DecoderState before and after the step.
    """
    top = decoder.cells[-1]
    if decoder.settings.num_layers > 1:
        projected_inputs = top.input_projection(next_state.hidden_states[-2])
    return top.gates(projected_inputs, state.hidden_states[-1])
