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
        extras: (rows, time, dim), see `keras_sat.network.step_records`.
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
        by_time = ops.scatter(self.positions[:, None], values, (time * rows,))
        by_time = ops.reshape(by_time, (time, rows))
        return ops.transpose(by_time)

    def are_right(self):
        """Return a tensor (rows, time) with 1 where the target is the most probable
        word, and 0 elsewhere.
        """
        target_logits = ops.take_along_axis(self.logits, self.targets[:, None], axis=-1)
        highest_logits = ops.max(self.logits, axis=-1)  # (words,)
        is_right = ops.squeeze(target_logits, -1) >= highest_logits
        return self.unpack_words(ops.cast(is_right, "float32"))


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
        training, **other: see CaptionDecoder.
    """
    unrolled = decoder.unroll(
        features,
        input_ids,
        token_weights=None if padded else token_weights,
        training=training,
        **other,
    )
    rows = ops.shape(input_ids)[0]
    is_word = _by_time(token_weights) > 0  # (time * rows,)
    if padded:
        positions = ops.arange(ops.shape(is_word)[0])
    else:
        positions = ops.cast(ops.nonzero(is_word)[0], "int32")  # (words,)

    def of_words(x):
        """Select the words from x (time, rows, dim): (words, dim)."""
        flat = ops.reshape(x, (-1, x.shape[-1]))
        return ops.take(flat, positions, axis=0)

    # The readout is computed for words only.
    logits = decoder.readout(
        of_words(unrolled.embedded),
        of_words(unrolled.hidden_states),
        of_words(unrolled.context),
        training=training,
        drop=None if drop_of is None else drop_of(positions % rows),
    )
    targets = ops.take(_by_time(target_ids), positions)
    maps = unrolled.attention_weights, unrolled.selection, unrolled.extras
    # (time, rows, ...) -> (rows, time, ...)
    maps = keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), maps)
    log_probs = equations.word_log_probs(logits, targets)
    return TeacherForced(logits, targets, log_probs, positions, token_weights, *maps)


def as_rows(token_ids):
    """Reshape (photos, captions, time) to (rows, time)."""
    if len(token_ids.shape) == 2:
        return token_ids
    return ops.reshape(token_ids, (-1, ops.shape(token_ids)[-1]))


def _by_time(x):
    """Reshape (rows, time) to (time * rows,)."""
    return ops.reshape(ops.transpose(x), (-1,))
