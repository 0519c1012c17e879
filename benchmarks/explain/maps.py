"""The maps of each method for the words of a caption.

All but "votes", those of the logit, explain log p of a word, and start from the same
reference: the mean of the photo's regions. What needs no gradient is
`keras_sat.explain_words`.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from keras_sat import equations, explain_words, log_probs_of
from keras_sat.looking.logit_parts import readout_sum, votes_of
from keras_sat.looking.trace_steps import prepare, read, share_of
from keras_sat.search import LENGTH_STEP

METHODS = (
    "attention",
    "attention x norm",
    "votes",
    "votes of log p",
    "gradient",
    "integrated gradients",
    "occlusion",
    "RISE",
    "random",
)
MASKS = 400  # of RISE
POINTS = 16  # of integrated gradients


@dataclasses.dataclass(frozen=True)
class Reading:
    """A caption as a captioner reads it.

    Attributes:
        captioner: Captioner.
        words: list of the caption's words.
        grid_shape: (rows, columns) of the regions.
        annotations: a_i, (1, regions, feature_dim).
        steps, states: the output of `keras_sat.looking.trace_steps.read`.
    """

    captioner: Any
    words: list
    grid_shape: tuple
    annotations: Any
    steps: Any
    states: list

    @classmethod
    def of(cls, captioner, features, words):
        """Read a caption; `features` are those of the encoder, (1, regions, dim)."""
        annotations, projected_features = prepare(captioner, features)
        vocabulary = captioner.vocabulary
        previous_ids = [vocabulary.start_token_id, *vocabulary.caption_to_ids(words)[:-1]]
        steps, states = read(
            captioner.decoder, annotations, projected_features, np.array([previous_ids], "int32")
        )
        grid_shape = captioner.rows_and_columns()
        return cls(captioner, words, grid_shape, annotations, steps, states)

    @property
    def regions(self):
        """The annotation vectors as an array, (regions, feature_dim)."""
        return ops.convert_to_numpy(ops.cast(self.annotations[0], "float32"))

    @property
    def token_ids(self):
        return np.array([self.captioner.vocabulary.caption_to_ids(self.words)], "int32")


def maps_of(reading, positions, *, seed):
    """Return the maps of some words: a dict from METHODS to (positions, regions)."""
    maps = {name: found[positions] for name, found in _of_the_readout(reading).items()}
    maps |= dict(zip(("gradient", "integrated gradients"), _of_gradients(reading, positions)))
    altered = explain_words(
        log_probs_of(reading.captioner),
        reading.regions,
        reading.words,
        methods=("occlusion", "rise", "random"),
        grid_shape=reading.grid_shape,
        num_masks=MASKS,
        seed=seed,
    )
    altered = {name: found.reshape(len(found), -1)[positions] for name, found in altered.items()}
    altered["RISE"] = altered.pop("rise")
    return {name: (maps | altered)[name] for name in METHODS}


def _of_the_readout(reading):
    """Return the maps that a readout gives for all words, (words, regions) each."""
    readout, steps = reading.captioner.decoder.readout, reading.steps
    summed = readout_sum(readout, steps)
    ids = reading.token_ids
    projected = ops.matmul(ops.cast(reading.annotations, "float32"), summed.context_readout)
    lengths = ops.norm(projected, axis=-1)  # |L_z a_i|, (1, regions)
    of_log_p = equations.votes(
        steps.selection[0],
        ops.cast(reading.annotations, "float32"),
        _directions_of_log_prob(summed, steps, ids)[0],
        share_of(steps)[0],
    )
    maps = {
        "attention": steps.selection[0],
        "attention x norm": steps.selection[0] * lengths,
        "votes": votes_of(summed, steps, reading.annotations, ids)[0],
        "votes of log p": of_log_p,
    }
    return {name: ops.convert_to_numpy(found) for name, found in maps.items()}


def _directions_of_log_prob(summed, steps, ids):
    """Return d for log p of the words in place of their logits, (1, words, dim): the
    votes for a word less those for all words, by their probabilities.
    """
    words = ops.moveaxis(ops.take(summed.word_vectors, ids, axis=1), 0, -1)
    probabilities = ops.softmax(steps.logits, axis=-1)  # (1, words, vocabulary)
    mean_word = ops.matmul(probabilities, ops.transpose(summed.word_vectors))
    return equations.word_directions(summed.slopes, words - mean_word, summed.context_readout)


def _of_gradients(reading, positions):
    """Return the gradient times (a_i - mean), and integrated gradients, (positions,
    regions) each.
    """
    regions = reading.regions
    difference = regions - regions.mean(axis=0)
    shares = (np.arange(POINTS) + 0.5) / POINTS
    path = (regions.mean(axis=0) + shares[:, None, None] * difference).astype("float32")
    at_the_end, integrated = [], []
    for t in positions:
        gradients = _gradients(reading, np.concatenate([path, regions[None]]), t)
        integrated.append(np.sum(gradients[:-1].mean(axis=0) * difference, axis=-1))
        at_the_end.append(np.sum(gradients[-1] * difference, axis=-1))
    return np.stack(at_the_end), np.stack(integrated)


def _gradients(reading, regions, t):
    """Return the gradients of log p of word t by the regions (n, regions, dim)."""
    decoder = reading.captioner.decoder
    ids = np.pad(reading.token_ids[0], (0, -len(reading.words) % LENGTH_STEP))
    read_ids = [reading.captioner.vocabulary.start_token_id, *ids[:-1]]

    def log_prob_gradients(regions, read_ids, said_ids, is_explained):
        with tf.GradientTape() as tape:
            tape.watch(regions)
            unrolled = decoder.unroll(regions, read_ids)
            logits = decoder.readout(unrolled.embedded, unrolled.hidden_states, unrolled.context)
            log_probs = equations.word_log_probs(logits, ops.transpose(said_ids))
            total = ops.sum(log_probs * ops.transpose(is_explained))
        return tape.gradient(total, regions)

    rows = len(regions)
    is_explained = np.arange(len(ids)) == t
    tensors = [np.tile(row, (rows, 1)) for row in (read_ids, ids, is_explained)]
    found = reading.captioner.engine.run(
        log_prob_gradients,
        regions,
        tensors[0].astype("int32"),
        tensors[1].astype("int32"),
        tensors[2].astype("float32"),
    )
    return np.asarray(found)
