"""What each word's logit is made of: previous word, memory, photo and bias, and the
vote of each region in the photo's part.

The formulas stand in `keras_sat.equations`, under "What a logit is made of".
"""

from typing import Any, NamedTuple

from keras import ops

from keras_sat import equations
from keras_sat.looking.trace_steps import share_of, tolerance_of
from keras_sat.network import Readout


class ReadoutSum(NamedTuple):
    """The readout of a caption's Steps, as a sum: tensors, float32.

    Attributes:
        summands: a dict from "previous_word", "memory" and "photo" to what they add to
            the input of the readout's activation, (rows, time, readout_dim). What a
            sentinel adds counts as memory.
        slopes: the output of `equations.secant_slopes`, (rows, time, readout_dim).
        context_readout: L_z, (feature_dim, readout_dim).
        word_vectors: L_o, (readout_dim, vocabulary).
        bias: the output of `equations.bias_of_logits`, (vocabulary,).
    """

    summands: dict
    slopes: Any
    context_readout: Any
    word_vectors: Any
    bias: Any


def readout_sum(readout, reading):
    """Return the ReadoutSum.

    Args:
        readout: Readout.
        reading: the output of `keras_sat.looking.trace_steps.read`.
    """
    if not isinstance(readout, Readout):
        raise _other_readout(readout)
    hidden_state = reading.state.hidden_states[-1]  # (rows, time, hidden_dim)
    hidden_dim = hidden_state.shape[-1]
    feature_dim = reading.photo_context.shape[-1]
    if readout.deep_output:
        state_readout = ops.convert_to_tensor(readout.state_readout.kernel)
        context_readout = ops.convert_to_tensor(readout.context_readout.kernel)
        previous_word = reading.embedded
    else:
        # L_o reads h_t and z_t one after the other: a sum too, in which L_h and L_z put
        # each in its place. The previous word is not in it.
        readout_dim = hidden_dim + feature_dim
        state_readout = ops.eye(hidden_dim, readout_dim)
        context_readout = ops.eye(feature_dim, readout_dim, k=hidden_dim)
        previous_word = ops.zeros((*hidden_state.shape[:-1], readout_dim))

    from_state = ops.matmul(hidden_state, state_readout)
    from_sentinel = ops.matmul(reading.sentinel_context, context_readout)
    summands = {
        "previous_word": previous_word,
        "memory": from_state + from_sentinel,
        "photo": ops.matmul(reading.photo_context, context_readout),
    }
    activation = readout.activate.activation
    word_vectors = ops.convert_to_tensor(readout.word_logits.kernel)
    bias = ops.convert_to_tensor(readout.word_logits.bias)
    summed = sum(summands.values())
    slopes = equations.secant_slopes(summed, activation)
    bias = equations.bias_of_logits(activation, word_vectors, bias)
    _check_logits(bias + equations.part_of_logits(summed, slopes, word_vectors), reading, readout)
    return ReadoutSum(
        summands=summands,
        slopes=slopes,
        context_readout=context_readout,
        word_vectors=word_vectors,
        bias=bias,
    )


def _check_logits(expected, reading, readout):
    """Raise ValueError if the logits of a step are not the sum of their parts: a
    decoder or readout of one's own may compute them in another way.
    """
    difference = ops.max(ops.abs(expected - reading.logits))
    largest = ops.max(ops.abs(reading.logits))
    # False for NaN, which a trace rejects later.
    if float(difference) > tolerance_of(readout) * float(largest):
        raise _other_readout(readout)


def _other_readout(readout):
    return ValueError(
        "Traces and votes would be wrong: the logits are computed otherwise than they assume. "
        f"Expected: as in Readout. Received: readout={type(readout).__qualname__}. Its captions "
        "and attention maps are right: leave out votes and traces."
    )


def logit_parts(summed, row, t, word_ids):
    """Return a dict from "bias", "previous_word", "memory" and "photo" to their parts
    of the logits of some words at one step, (words,).

    Args:
        summed: ReadoutSum.
        row, t: of the caption, and of the step.
        word_ids: (words,).
    """
    word_vectors = ops.take(summed.word_vectors, word_ids, axis=1)  # (readout_dim, words)
    parts = {"bias": ops.take(summed.bias, word_ids)}
    for name, summand in summed.summands.items():
        parts[name] = equations.part_of_logits(summand[row, t], summed.slopes[row, t], word_vectors)
    return parts


def directions_of(summed, word_ids):
    """Return d of a word at each step, (rows, time, feature_dim); see
    `equations.word_directions`.

    Args:
        summed: ReadoutSum.
        word_ids: (rows, time).
    """
    words = ops.take(summed.word_vectors, word_ids, axis=1)  # (readout_dim, rows, time)
    words = ops.moveaxis(words, 0, -1)
    return equations.word_directions(summed.slopes, words, summed.context_readout)


def votes_of(summed, reading, features, word_ids):
    """Return the votes of the regions for a word at each step, (rows, time, regions);
    see `equations.votes`.

    Args:
        summed, reading: ReadoutSum, and the reading that it is of.
        features: the annotation vectors, (photos, regions, feature_dim).
        word_ids: (rows, time).
    """
    votes = equations.votes(
        _as_rows(reading.selection),
        ops.cast(features, "float32"),
        _as_rows(directions_of(summed, word_ids)),
        _as_rows(share_of(reading)),
    )
    return ops.reshape(votes, reading.selection.shape)


def votes_of_mean(summed, reading, features, word_ids):
    """Return what the mean of the photo gives to a word at each step, (rows, time); see
    `votes_of` and `equations.vote_of_mean`.
    """
    of_mean = equations.vote_of_mean(
        ops.cast(features, "float32"),
        _as_rows(directions_of(summed, word_ids)),
        _as_rows(share_of(reading)),
    )
    return ops.reshape(of_mean, reading.selection.shape[:2])


def _as_rows(x):
    """Reshape (rows, time, dim) to (rows * time, dim)."""
    return ops.reshape(x, (-1, x.shape[-1]))
