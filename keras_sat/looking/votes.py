"""Votes for whole captions: for each word, what each region added to its logit.

Captions that a search has found, or that were given, are read once more.
"""

import keras
import numpy as np
from keras import ops

from keras_sat.looking.logit_parts import readout_sum, votes_of
from keras_sat.looking.trace_steps import prepare, read
from keras_sat.search import families_of, with_values

# On a map, the largest vote has the strongest colour, unless it is smaller than this:
# the map of a word that hardly depends on the photo has hardly any colour.
LEAST_STRONGEST = 0.03
READ_TOGETHER = 64  # captions: for each, the scores of all regions are in memory


def with_votes(captioner, results, features):
    """Return CaptionResults with their `votes`, and those of their alternatives.

    Args:
        captioner: Captioner.
        results: list of the CaptionResult of each photo.
        features: those of the encoder, (photos, regions, feature_dim).
    """
    families = families_of(results)
    captions = [result.words for family in families for result in family]
    photos = np.repeat(np.arange(len(families)), [len(family) for family in families])
    votes = []
    for start in range(0, len(captions), READ_TOGETHER):
        rows = photos[start : start + READ_TOGETHER]
        votes += votes_of_captions(
            captioner, captions[start : start + READ_TOGETHER], np.asarray(features)[rows]
        )

    votes = iter(votes)
    return with_values(families, "votes", [[next(votes) for _ in family] for family in families])


def votes_of_captions(captioner, captions, features):
    """Return a list of the votes of captions, (words, rows, columns) each; see
    `equations.votes`.

    Args:
        captions: list of lists of words, one for each photo.
        features: see `with_votes`.
    """
    vocabulary = captioner.vocabulary
    ids = [vocabulary.caption_to_ids(words) for words in captions]
    word_ids = keras.utils.pad_sequences(ids, padding="post", value=vocabulary.pad_token_id)
    if word_ids.shape[1] == 0:
        return [np.zeros((0, *captioner.rows_and_columns()), np.float32) for _ in captions]
    previous_ids = np.full_like(word_ids, vocabulary.start_token_id)
    previous_ids[:, 1:] = word_ids[:, :-1]

    annotations, projected_features = prepare(captioner, features)
    reading, _ = read(captioner.decoder, annotations, projected_features, previous_ids)
    summed = readout_sum(captioner.decoder.readout, reading)
    votes = ops.convert_to_numpy(votes_of(summed, reading, annotations, word_ids))
    votes = votes.reshape(*word_ids.shape, *captioner.rows_and_columns())
    return [its_votes[: len(words)] for its_votes, words in zip(votes, captions)]
