"""What each region would say: the most probable word if the context were one region.

At a step, z_t = sum_i s_ti a_i. Here it is a_i for one region i at a time, gated or
mixed with the sentinel as z_t is.
"""

import keras
from keras import ops


def region_words(decoder, features, projected_features, state, previous_id):
    """Return the id and the probability of the most probable word for each region, two
    arrays (regions,).

    Args:
        decoder: CaptionDecoder.
        features, projected_features: the outputs of
            `keras_sat.looking.trace_steps.prepare` for one photo.
        state: the DecoderState before the step, with one row.
        previous_id: the word y_{t-1} that the step reads.
    """
    regions = features.shape[1]
    step = decoder.step(
        ops.full((regions,), previous_id, dtype="int32"),
        keras.tree.map_structure(lambda x: ops.repeat(x, regions, axis=0), state),
        features,
        projected_features,
        forced_map=ops.eye(regions),
    )
    probabilities = ops.convert_to_numpy(ops.softmax(step.logits, axis=-1))
    return probabilities.argmax(axis=-1), probabilities.max(axis=-1)
