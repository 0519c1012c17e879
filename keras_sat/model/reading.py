"""Reading captions that are given: how probable the decoder finds each of their words after those before it."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_sat import equations


class Reading(NamedTuple):
    """What the decoder makes of captions that are given.

    Attributes:
        logits: of the words, without those for padding, (words, vocabulary).
        targets: the words themselves, (words,).
        log_probs: log p of each, (words,).
        positions: where they stand, time * rows + row, (words,).
        token_weights: (rows, time), 0 for padding.
        attention_weights, selection: (rows, time, regions).
        extras: (rows, time, dim), see `keras_sat.model.states`.
    """

    logits: Any
    targets: Any
    log_probs: Any
    positions: Any
    token_weights: Any
    attention_weights: Any
    selection: Any
    extras: dict

    def put_back(self, values):
        """Return values of the words, (words,), where the words stand: (rows, time), with 0 for padding."""
        rows, time = ops.shape(self.token_weights)
        by_time = ops.reshape(ops.scatter(self.positions[:, None], values, (time * rows,)), (time, rows))
        return ops.transpose(by_time)

    def are_right(self):
        """Return 1 for each word that the decoder finds the most probable one, (rows, time)."""
        of_targets = ops.squeeze(ops.take_along_axis(self.logits, self.targets[:, None], axis=-1), -1)
        return self.put_back(ops.cast(of_targets >= ops.max(self.logits, axis=-1), "float32"))


def read_captions(
    decoder,
    features,
    input_ids,
    target_ids,
    token_weights,
    *,
    training=False,
    noise=None,
    sampled=None,
    drop_of=None,
    fixed_shapes=False,
):
    """Return the Reading of captions.

    Args:
        decoder: CaptionDecoder.
        features: what the adapter made of features, (photos, regions, feature_dim).
        input_ids, target_ids, token_weights: (rows, time), as make_batches has them.
        training, noise, sampled: see CaptionDecoder.
        drop_of: function from the rows of the words, (words,), to what takes the place of the readout's dropout, see
            `keras_sat.model.readout.Readout`.
        fixed_shapes: keep padding in the work: XLA cannot leave out what only the values say to be padding.
    """
    unrolled = decoder.unroll(
        features,
        input_ids,
        noise=noise,
        sampled=sampled,
        token_weights=None if fixed_shapes else token_weights,
        training=training,
    )
    positions = _positions_of_words(token_weights, fixed_shapes)
    embedded, hidden_states, context = (_take(x, positions) for x in unrolled[:3])
    drop = drop_of and drop_of(positions % ops.shape(input_ids)[0])
    logits = decoder.readout(embedded, hidden_states, context, training=training, drop=drop)
    targets = ops.take(ops.reshape(ops.transpose(target_ids), (-1,)), positions)
    maps = keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), unrolled[3:])
    log_probs = equations.word_log_probs(logits, targets)
    return Reading(logits, targets, log_probs, positions, token_weights, *maps)


def _positions_of_words(token_weights, fixed_shapes):
    """Return the positions of the real words, t * rows + row: only these need logits. (words,)"""
    is_word = ops.reshape(ops.transpose(token_weights), (-1,)) > 0
    if fixed_shapes:
        return ops.arange(ops.shape(is_word)[0])
    return ops.cast(ops.nonzero(is_word)[0], "int32")


def _take(x, positions):
    """Return (words, dim) of (time, rows, dim)."""
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), positions, axis=0)


def as_rows(token_ids):
    """Return (photos, captions, time) as (rows, time)."""
    return token_ids if len(token_ids.shape) == 2 else ops.reshape(token_ids, (-1, ops.shape(token_ids)[-1]))
