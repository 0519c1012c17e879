"""Whole captions again, in TensorFlow's loop: the same numbers as the plain loop in `CaptionDecoder.unroll`.

What does not change from step to step stays outside; captions leave the loop when they have ended; and the gradients of
its matrices are made after it, see `loop`.
"""

from keras import ops

from keras_sat.model.cells import LSTMCell
from keras_sat.model.fast.dense import LoopDense
from keras_sat.model.fast.loop import loop_over_time


def unroll(decoder, state, features, projected_features, projected_words, noise, sampled, token_weights):
    """Return h_t, and the parts of Attended, each (time, rows, dim); see `CaptionDecoder.unroll`.

    Args:
        decoder: CaptionDecoder.
        state: DecoderState before the first word.
        features, projected_features: as of `CaptionDecoder.step`.
        projected_words: what the first cell's `input_projection` makes of all words, (time, rows, dim).
        noise, sampled, token_weights: as of `CaptionDecoder.unroll`.
    """
    time, rows = ops.shape(projected_words)[:2]
    context_projection = decoder.cells[0].context_projection
    _, regions, feature_dim = features.shape
    specs = [(decoder.hidden_dim, decoder.compute_dtype), (feature_dim, decoder.compute_dtype)]
    specs += [(regions, "float32")] * 2 + [(1, "float32")]
    dense_layers = _dense_layers_of_step(decoder)
    summed_layers = [layer for layer in dense_layers if layer in _summed_layers(decoder)]
    options = {"dense_layers": dense_layers, "summed_layers": summed_layers}
    options |= {"token_weights": token_weights, "photos": ops.shape(features)[0]}

    def attend_and_advance(state, projected_word, noise, sampled):
        sampled = None if sampled is None else ops.squeeze(sampled, -1)
        attended = decoder.attend(state, features, projected_features, noise, sampled)
        state = decoder.advance(projected_word + context_projection(attended.context), state)
        return state, (state.hidden_states[-1], *attended)

    def advance(state, projected_inputs):
        state = decoder.advance(projected_inputs, state)
        return state, tuple(of_layers[-1] for of_layers in state if of_layers)

    if decoder.attends == "after":  # the context does not enter the recurrent layers: nothing but these is in the loop
        specs = [(decoder.hidden_dim, decoder.compute_dtype)] * (1 + decoder.has_cell_states)
        top_states = loop_over_time(advance, state, (projected_words,), specs, **options)
        return top_states[0], *decoder.attend_at_all_times(top_states, features, projected_features, noise, sampled)
    if not decoder.chooses:  # the context never changes: it stays out of the loop
        attended = decoder.attend(state, features, projected_features)
        projected_inputs = projected_words + context_projection(attended.context)
        specs = [specs[0]] * (1 + decoder.has_cell_states)
        hidden_states, *_ = loop_over_time(advance, state, (projected_inputs,), specs, **options)
        return hidden_states, *(ops.repeat(x[None], time, axis=0) for x in attended)
    noise = None if noise is None else ops.swapaxes(noise, 0, 1)
    sampled = None if sampled is None else ops.broadcast_to(sampled[:, None], (time, rows, 1))
    return loop_over_time(attend_and_advance, state, (projected_words, noise, sampled), specs, **options)


def _dense_layers_of_step(decoder):
    """Return the LoopDense layers that each step calls: all of the attention's and the cells' but those outside."""
    first = decoder.cells[0]
    outside = [first.input_projection]  # of all words at once
    attends_in_loop = decoder.attends == "before" and decoder.chooses
    outside += [] if attends_in_loop else [first.context_projection]
    parts = [decoder.attention_layer] * attends_in_loop
    parts += [decoder.sentinel_layer] if attends_in_loop and decoder.has_sentinel else []
    parts += decoder.cells
    layers = [layer for part in parts for layer in part._flatten_layers() if isinstance(layer, LoopDense)]
    return [layer for layer in layers if layer.built and layer not in outside]


def _summed_layers(decoder):
    """Return the layers whose outputs are added to the projected words, and used for nothing else."""
    first = decoder.cells[0]
    # The LSTM of the paper adds up what comes from the word, the context and h_{t-1}; another cell may not.
    return [first.context_projection, *([first.recurrent_projection] if type(first) is LSTMCell else [])]
