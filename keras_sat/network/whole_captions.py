"""The two loops over the words of given captions: plain and fast.

`plain_loop` says what they do, in ten lines. `fast_loop` does the same faster, because
it computes outside the loop whatever is not recurrent, the gradients of matrices too
(`keras_sat.network.loop_over_time`), and because captions leave it when they have
ended. One graph serves captions of any length.

Gain: for the LSTM alone (64 captions of 12 words, 512 units, forwards and backwards),
the plain loop takes 1.4 times as long, and keras.layers.LSTM 2.5 times. In a whole
training step, it needs 2 to 4 % more processor time with the preset "paper", and 23 %
more with a preset that attends after reading. Measured with
`python benchmarks/fast_twins.py`.
"""

import keras
from keras import ops

from keras_sat.network.cells import LoopDense, LSTMCell
from keras_sat.network.loop_over_time import loop_over_time
from keras_sat.network.step_records import DecoderState, SelectionInputs


def plain_loop(
    decoder,
    projected_words,
    state,
    features,
    projected_features,
    selection_inputs,
    token_weights=None,
):
    """Read one word after the other.

    Return h_t, z_t, alpha_t, s_t and the extras of Look, each of shape (time, rows,
    dim).

    Args:
        decoder: CaptionDecoder.
        projected_words: the words as the first cell reads them, (time, rows, dim).
        state: the DecoderState before the first word.
        features, projected_features: see `CaptionDecoder.step`.
        selection_inputs: SelectionInputs of whole captions.
        token_weights: (rows, time), 0 for padding, whose outputs nobody uses; or None.
    """
    if projected_words.shape[0] is None:
        raise ValueError(
            "The plain loop needs captions of known length: compile with run_eagerly=True, or use "
            "the fast loop (decoder.uses_fast_loop). Received: captions of any length, in a graph"
        )
    steps = []
    for t in range(projected_words.shape[0]):
        state, look, _ = decoder.attend_and_advance(
            projected_words[t], state, features, projected_features, selection_inputs.at(t)
        )
        steps.append((state.hidden_states[-1], *_outputs_of(look)))
    return keras.tree.map_structure(lambda *times: ops.stack(times), *steps)


def fast_loop(
    decoder,
    projected_words,
    state,
    features,
    projected_features,
    selection_inputs,
    token_weights=None,
):
    """Do what `plain_loop` does in a TensorFlow loop, for captions of any length."""
    loop = _attend_in_loop if decoder.attends_in_loop else _attend_after_loop
    return loop(
        decoder,
        projected_words,
        state,
        features,
        projected_features,
        selection_inputs,
        _loop_options(decoder, features, token_weights),
    )


def _outputs_of(look):
    """Return what training needs of a Look."""
    return look.context, look.attention_weights, look.selection, look.extras


# === The fast loop ===


def _attend_in_loop(
    decoder, projected_words, state, features, projected_features, selection_inputs, loop_options
):
    """Attend within the loop, because the cells read the context."""
    time, rows = ops.shape(projected_words)[:2]
    noise, sampled, forced_map = selection_inputs
    # What the loop reads has time first.
    if noise is not None:
        noise = ops.swapaxes(noise, 0, 1)
    if sampled is not None:
        sampled = ops.broadcast_to(sampled[:, None], (time, rows, 1))
    if forced_map is not None:
        forced_map = ops.swapaxes(forced_map, 0, 1)

    def step(state, projected_word, noise, sampled, forced_map):
        if sampled is not None:
            sampled = ops.squeeze(sampled, -1)
        state, look, _ = decoder.attend_and_advance(
            projected_word,
            state,
            features,
            projected_features,
            SelectionInputs(noise, sampled, forced_map),
        )
        *outputs, extras = _outputs_of(look)
        extras = [extras[name] for name in decoder.extra_dims]
        return state, (state.hidden_states[-1], *outputs, *extras)

    _, regions, feature_dim = features.shape
    output_specs = [
        (decoder.settings.hidden_dim, decoder.compute_dtype),
        (feature_dim, decoder.compute_dtype),
        (regions, "float32"),
        (regions, "float32"),
        *((dim, "float32") for dim in decoder.extra_dims.values()),
    ]
    inputs = projected_words, noise, sampled, forced_map
    hidden_states, context, attention_weights, selection, *extras = loop_over_time(
        step, state, inputs, output_specs, **loop_options
    )
    extras = dict(zip(decoder.extra_dims, extras))
    return hidden_states, context, attention_weights, selection, extras


def _attend_after_loop(
    decoder, projected_words, state, features, projected_features, selection_inputs, loop_options
):
    """Run only the cells in the loop, which do not read the context; attention follows,
    for all steps at once.
    """

    def step(state, projected_inputs):
        state, _ = decoder.advance(projected_inputs, state)
        top_hidden = state.hidden_states[-1]
        return state, (top_hidden, *state.cell_states[-1:])

    rows = ops.shape(projected_words)[1]
    projected_inputs = projected_words + decoder.project_mean(features, rows)
    num_states = 2 if decoder.has_cell_states else 1
    output_specs = [(decoder.settings.hidden_dim, decoder.compute_dtype)] * num_states
    top_states = loop_over_time(step, state, (projected_inputs,), output_specs, **loop_options)
    outputs = _attend_at_all_times(
        decoder, top_states, features, projected_features, selection_inputs
    )
    return top_states[0], *outputs


def _attend_at_all_times(decoder, top_states, features, projected_features, selection_inputs):
    """Return the outputs of a Look for all steps at once, each (time, rows, dim).

    `top_states` are h_t of the top layer and, for cells with a cell state, c_t: tensors
    (time, rows, hidden_dim). Each word becomes a row of `decoder.attend`.
    """
    time, rows = ops.shape(top_states[0])[:2]

    def as_rows(x):
        """Reshape (time, rows, dim) to (rows * time, dim)."""
        by_row = ops.swapaxes(x, 0, 1)  # the rows of a photo stay together
        return ops.reshape(by_row, (-1, x.shape[-1]))

    def by_time(x):
        """Reverse `as_rows`."""
        by_row = ops.reshape(x, (rows, time, x.shape[-1]))
        return ops.swapaxes(by_row, 0, 1)

    def maps_as_rows(maps):
        """Reshape (rows, time, regions) to (rows * time, regions)."""
        return None if maps is None else ops.reshape(maps, (-1, maps.shape[-1]))

    hidden_state, *cell_state = [as_rows(x) for x in top_states]
    sampled = selection_inputs.sampled
    if sampled is not None:
        sampled = ops.repeat(sampled, time)
    look = decoder.attend(
        DecoderState((hidden_state,), tuple(cell_state)),
        features,
        projected_features,
        SelectionInputs(
            maps_as_rows(selection_inputs.noise),
            sampled,
            maps_as_rows(selection_inputs.forced_map),
        ),
    )
    return keras.tree.map_structure(by_time, _outputs_of(look))


def _loop_options(decoder, features, token_weights):
    """Return the keyword arguments of `loop_over_time`."""
    dense_layers = _dense_layers_of_step(decoder)
    summed_layers = _summed_layers(decoder)
    return {
        "dense_layers": dense_layers,
        "summed_layers": [layer for layer in dense_layers if layer in summed_layers],
        "token_weights": token_weights,
        "photos": ops.shape(features)[0],
    }


def _dense_layers_of_step(decoder):
    """Return the LoopDense layers that each step calls with its rows.

    They are those of the decoder or, if only the cells are in the loop, of the cells.
    """
    first = decoder.cells[0]
    parts = [decoder] if decoder.attends_in_loop else decoder.cells
    outside = [first.input_projection]  # applied to all words at once
    if decoder.settings.attends == "after" or not decoder.attends_in_loop:
        outside.append(first.context_projection)  # applied to the mean of each photo
    layers = [layer for part in parts for layer in part._flatten_layers()]
    return [
        layer
        for layer in layers
        if isinstance(layer, LoopDense) and layer.built and layer not in outside
    ]


def _summed_layers(decoder):
    """Return the layers whose outputs the first cell only adds to the projected word.

    The LSTM of the paper adds the projections of word, context and h_{t-1}; other cells
    may not, nor may a subclass of the decoder.
    """
    if decoder.has_own("attend_and_advance", "advance"):
        return []
    first = decoder.cells[0]
    if type(first) is LSTMCell:
        return [first.context_projection, first.recurrent_projection]
    return [first.context_projection]
