"""Read given captions word by word, and keep all that the decoder's steps compute."""

import keras
import numpy as np
from keras import ops

from keras_sat import equations
from keras_sat.network import without_fast_twins


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
    """Read captions; return the Steps of all words as one Step of tensors (rows, time,
    dim) in float32, and the list of the DecoderStates before each word.

    Args:
        decoder: CaptionDecoder.
        features, projected_features: the outputs of `prepare`.
        input_ids: the previous words, (rows, time); rows is a multiple of photos.
    """
    rows, time = np.shape(input_ids)
    states = [decoder.initial_state(features, rows // len(features))]
    steps = []
    for t in range(time):
        step = decoder.step(input_ids[:, t], states[-1], features, projected_features)
        steps.append(step)
        states.append(step.state)
    reading = keras.tree.map_structure(_stacked, *steps)
    _check_context(decoder, reading, features)
    return reading, states[:-1]


def share_of(reading):
    """Return what the photo's context is multiplied by, (rows, time, 1): beta_t, or
    from_photo, or 1.
    """
    for share in (reading.context_gate, reading.from_photo):
        if share is not None:
            return share
    return ops.ones_like(reading.context[..., :1])


def tolerance_of(layer):
    """Return the relative error of a layer's products: in half precision they have only
    two digits, in TF32 three.
    """
    return 1e-3 if layer.compute_dtype == "float32" else 3e-2


def _stacked(*times):
    """Stack tensors (rows, dim) to (rows, time, dim) in float32; keep None."""
    if times[0] is None:
        return None
    return ops.cast(ops.stack(times, axis=1), "float32")


def _check_context(decoder, reading, features):
    """Raise ValueError if the photo's part of z_t is not what votes share out among the
    regions: a decoder of one's own may compute it in another way.
    """
    features = ops.cast(features, "float32")
    rows, time, regions = reading.selection.shape
    selection = ops.reshape(reading.selection, (rows * time, regions))
    attended = equations.attended_features(selection, features)
    attended = ops.reshape(attended, reading.context.shape)
    context = share_of(reading) * attended + reading.sentinel_context
    difference = ops.max(ops.abs(context - reading.context))
    largest = float(ops.max(ops.abs(features)))
    if float(difference) > tolerance_of(decoder) * largest:  # False for NaN
        raise ValueError(
            f"Traces and votes would be wrong: {type(decoder).__name__} computes its context "
            "otherwise than they assume. Expected: the selected regions' sum, gated or mixed with "
            f"the sentinel, as in CaptionDecoder.attend. Received: {type(decoder).__qualname__}, "
            f"attention={decoder.settings.attention!r}. Its captions and attention maps are "
            "right: leave out votes and traces."
        )
