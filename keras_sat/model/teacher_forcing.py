"""Teacher forcing: the probability of each word of a given caption, given the words
before it.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_sat import equations


class TeacherForced(NamedTuple):
    """The decoder's output for given captions. In shapes, `words` is the number of
    words, padding excluded.

    Attributes:
        logits: (words, vocabulary).
        targets, log_probs: id and log p of each word, (words,).
        positions: time * rows + row of each word, (words,).
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

    def unpack_words(self, values):
        """Convert `values`, one per word, to shape (rows, time), with 0 for padding."""
        rows, time = ops.shape(self.token_weights)
        return ops.transpose(
            ops.reshape(ops.scatter(self.positions[:, None], values, (time * rows,)), (time, rows))
        )

    def are_right(self):
        """Return a tensor (rows, time) with 1 where the target is the most probable
        word, and 0 elsewhere.
        """
        of_targets = ops.squeeze(
            ops.take_along_axis(self.logits, self.targets[:, None], axis=-1), -1
        )
        return self.unpack_words(ops.cast(of_targets >= ops.max(self.logits, axis=-1), "float32"))


def read_captions(
    decoder,
    features,
    input_ids,
    target_ids,
    token_weights,
    *,
    drop_of=None,
    padded=False,
    training=False,
    **other,
):
    """Run a CaptionDecoder on given captions and return TeacherForced.

    Args:
        features: output of the adapter, (photos, regions, feature_dim).
        input_ids, target_ids, token_weights: (rows, time); see `make_batches`.
        drop_of: function from the row of each word, (words,), to the argument `drop` of
            Readout.
        padded: compute padding too: XLA cannot skip it, since its position depends on
            values.
        training, **other: see CaptionDecoder for `noise` and `sampled`, and its method
            `reveal` for `visible`.
    """
    used = None if padded else token_weights
    unrolled = decoder.unroll(features, input_ids, token_weights=used, training=training, **other)
    is_word = ops.reshape(ops.transpose(token_weights), (-1,)) > 0
    positions = (
        ops.arange(ops.shape(is_word)[0]) if padded else ops.cast(ops.nonzero(is_word)[0], "int32")
    )
    of_words = [
        ops.take(ops.reshape(x, (-1, x.shape[-1])), positions, axis=0) for x in unrolled[:3]
    ]
    drop = drop_of and drop_of(positions % ops.shape(input_ids)[0])
    logits = decoder.readout(*of_words, training=training, drop=drop)
    targets = ops.take(ops.reshape(ops.transpose(target_ids), (-1,)), positions)
    maps = keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), unrolled[3:])
    return TeacherForced(
        logits, targets, equations.word_log_probs(logits, targets), positions, token_weights, *maps
    )


def as_rows(token_ids):
    """Reshape (photos, captions, time) to (rows, time)."""
    return (
        token_ids
        if len(token_ids.shape) == 2
        else ops.reshape(token_ids, (-1, ops.shape(token_ids)[-1]))
    )
