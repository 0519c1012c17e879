"""What each region would say: the most probable word if the context were one region.

At a step, z_t = sum_i alpha_ti a_i. Here it is a_i for one region i at a time, gated or
mixed with the sentinel as z_t is. What reads z_t runs again for each region: the cells,
unless attention follows them, and the readout.
"""

import keras
from keras import ops

from keras_sat.beyond.attend_after import AttendAfter


def words_of_places(decoder, features, reading, t, states, previous_id):
    """Return the id and the probability of the most probable word for each region, two
    arrays (regions,).

    Args:
        decoder: CaptionDecoder.
        features: the annotation vectors, (1, regions, feature_dim).
        reading, t: Reading of one caption, and the step.
        states: the DecoderStates before and after the step, each with one row.
        previous_id: the word y_{t-1} that the step reads.
    """
    regions = features.shape[1]
    share, sentinel_context = reading.share[0, t], reading.sentinel_context[0, t]
    contexts = share * ops.cast(features[0], "float32") + sentinel_context
    contexts = ops.cast(contexts, decoder.compute_dtype)  # (regions, feature_dim)

    embedded = decoder.embed(ops.full((regions,), previous_id, dtype="int32"), training=False)
    before, after = (_for_each(regions, state) for state in states)
    if isinstance(decoder, AttendAfter):
        state = after
    else:
        first = decoder.cells[0]
        projected_inputs = first.input_projection(embedded) + first.context_projection(contexts)
        state = decoder.advance(projected_inputs, before)
    logits = decoder.readout(embedded, state.hidden_states[-1], contexts)  # (regions, words)
    probabilities = ops.convert_to_numpy(ops.softmax(logits, axis=-1))
    return probabilities.argmax(axis=-1), probabilities.max(axis=-1)


def _for_each(regions, state):
    """Return a DecoderState with one row, repeated for each region."""
    return keras.tree.map_structure(lambda x: ops.repeat(x, regions, axis=0), state)
