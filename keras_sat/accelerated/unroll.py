"""A fast version of `CaptionDecoder.read_words`: a TensorFlow while loop over the words
of captions.

Work that is the same at every step stays outside the loop, captions leave it when they
have ended, and the gradients of its matrices are computed afterwards; see `loop`.
"""

import keras
from keras import ops

from keras_sat import equations
from keras_sat.accelerated.loop import loop_over_time
from keras_sat.model.cells import LoopDense, LSTMCell
from keras_sat.model.states import DecoderState


def read_words(
    decoder, projected_words, state, features, projected_features, noise, sampled, token_weights
):
    """Return h_t and the fields of Attended, of shape (time, rows, dim).

    See `CaptionDecoder.read_words`.
    """
    time, rows = ops.shape(projected_words)[:2]
    of_state = (decoder.hidden_dim, decoder.compute_dtype)
    dense_layers, first = _dense_layers_of_step(decoder), decoder.cells[0]
    # The LSTM of the paper adds the projections of word, context and h_{t-1}; other
    # cells may not.
    summed = [
        first.context_projection,
        *([first.recurrent_projection] if type(first) is LSTMCell else []),
    ]
    options = {
        "dense_layers": dense_layers,
        "summed_layers": [layer for layer in dense_layers if layer in summed],
    }
    options |= {"token_weights": token_weights, "photos": ops.shape(features)[0]}

    # Only the cells are in the loop; attention follows, for all steps at once.
    if not decoder.cells_read_context:

        def advance(state, projected_inputs):
            state = decoder.advance(projected_inputs, state)
            return state, tuple(of_layers[-1] for of_layers in state if of_layers)

        overview = decoder.cells[0].context_projection(equations.mean_annotation(features))
        inputs = projected_words + ops.repeat(overview, rows // ops.shape(features)[0], axis=0)
        top_states = loop_over_time(
            advance, state, (inputs,), [of_state] * (1 + decoder.has_cell_states), **options
        )
        return top_states[0], *_attend_at_all_times(
            decoder, top_states, features, projected_features, noise, sampled
        )

    def read_word(state, projected_word, noise, sampled):
        sampled = None if sampled is None else ops.squeeze(sampled, -1)
        state, attended = decoder.read_word(
            projected_word, state, features, projected_features, noise, sampled
        )
        *maps, extras = attended
        return state, (
            state.hidden_states[-1],
            *maps,
            *(extras[name] for name in decoder.extra_dims),
        )

    _, regions, feature_dim = features.shape
    specs = [
        of_state,
        (feature_dim, decoder.compute_dtype),
        (regions, "float32"),
        (regions, "float32"),
    ]
    specs += [(dim, "float32") for dim in decoder.extra_dims.values()]
    noise = None if noise is None else ops.swapaxes(noise, 0, 1)
    sampled = None if sampled is None else ops.broadcast_to(sampled[:, None], (time, rows, 1))
    values = loop_over_time(read_word, state, (projected_words, noise, sampled), specs, **options)
    return *values[:4], dict(zip(decoder.extra_dims, values[4:]))


def _attend_at_all_times(decoder, top_states, features, projected_features, noise, sampled):
    """Return Attended for all steps at once, with fields of shape (time, rows, dim).

    `top_states` are h_t of the top layer and, for cells with a cell state, c_t: tensors
    (time, rows, hidden_dim).
    """
    time, rows = ops.shape(top_states[0])[:2]

    def by_photo(x):  # the rows of a photo stay consecutive, each with its words
        return ops.reshape(ops.swapaxes(x, 0, 1), (-1, x.shape[-1]))

    hidden_states, *cell_states = map(by_photo, top_states)
    states = DecoderState((hidden_states,), tuple(cell_states))
    noise = None if noise is None else ops.reshape(noise, (-1, noise.shape[-1]))
    sampled = None if sampled is None else ops.repeat(sampled, time)
    attended = decoder.attend(states, features, projected_features, noise, sampled)
    return keras.tree.map_structure(
        lambda x: ops.swapaxes(ops.reshape(x, (rows, time, x.shape[-1])), 0, 1), attended
    )


def _dense_layers_of_step(decoder):
    """Return the LoopDense layers that each step calls: those of the decoder, or only
    those of its cells.
    """
    outside = [decoder.cells[0].input_projection]  # applied to all words at once
    outside += [] if decoder.cells_read_context else [decoder.cells[0].context_projection]
    parts = [decoder] if decoder.cells_read_context else decoder.cells
    layers = [
        layer for part in parts for layer in part._flatten_layers() if isinstance(layer, LoopDense)
    ]
    return [layer for layer in layers if layer.built and layer not in outside]
