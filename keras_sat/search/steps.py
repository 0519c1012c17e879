"""The decoder's steps as searches take them."""

from typing import Any, NamedTuple

from keras import ops

from keras_sat import equations


class SearchStep(NamedTuple):
    """What searches see of a step, see `keras_sat.search.algorithms`."""

    logits: Any
    state: Any
    attention_weights: Any
    from_photo: Any


def steps_of(decoder, features, rows_per_photo, *, region_noise=None, drop=None):
    """Return `step` and `state` as the searches of `keras_sat.search.algorithms` take them.

    Args:
        decoder: CaptionDecoder.
        features: what the adapter made of features, (photos, regions, feature_dim).
        rows_per_photo: captions in the making, for each photo.
        region_noise: uniform noise (rows, max_length, regions) that attention draws regions with; None uses the
            expectation.
        drop: see `keras_sat.model.readout.Readout`.
    """
    projected_features = decoder.project_features(features)
    state = decoder.initial_state(features, rows_per_photo)
    times = ops.zeros_like(state.hidden_states[0][:, 0], dtype="int32")  # how many steps each row has made

    def step(input_ids, state):
        state, times = state
        noise = None if region_noise is None else equations.gumbel(ops.take(region_noise, times[0], axis=1))
        result = decoder.step(input_ids, state, features, projected_features, noise=noise, drop=drop)
        looked_at = result.attention_weights if region_noise is None else result.selection
        from_photo = result.extras.get("from_photo", ops.ones_like(looked_at[:, :1]))
        return SearchStep(result.logits, (result.state, times + 1), looked_at, from_photo)

    return step, (state, times)
