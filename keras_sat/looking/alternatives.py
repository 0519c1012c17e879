"""What would have followed: the next best words at each step, and the captions that a
greedy search goes on with after them.
"""

import dataclasses

import numpy as np
from keras import ops

from keras_sat.search import RepetitionRules, run_search, special_tokens


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A word that could have been said at a step, and what would have followed.

    Attributes:
        word: the word, or `<end>`.
        probability: of the word, at this step.
        caption: the caption up to this step, the word, and what greedy search adds.
        words: list of the caption's words.
        log_prob: log p of the caption under the network, including `<end>`.
        is_finished: False if the caption was cut off at the maximum length.
    """

    word: str
    probability: float
    caption: str
    words: list[str]
    log_prob: float
    is_finished: bool


def alternatives_at_each_step(
    captioner, features, words, token_ids, probabilities, num_alternatives, search
):
    """Return a list of Alternatives for each step, the most probable first.

    Args:
        captioner: Captioner.
        features: those of the encoder, (1, regions, feature_dim).
        words: list of the words that were said; of a given caption some may be unknown.
        token_ids: the same as ids, and `<end>`, (steps,).
        probabilities: of all words at each step, (steps, vocabulary).
        num_alternatives: for each step.
        search: Search, a greedy one.
    """
    vocabulary = captioner.vocabulary
    chosen_ids = _next_best(
        token_ids, probabilities, num_alternatives, vocabulary, search.allow_unknown
    )
    first_ids = np.full((chosen_ids.size, search.max_length), vocabulary.pad_token_id, np.int32)
    for row, (t, number) in enumerate(np.ndindex(chosen_ids.shape)):
        first_ids[row, :t] = token_ids[:t]
        first_ids[row, t] = chosen_ids[t, number]

    def continued_search(features, first_ids, *, search):
        step, state = captioner.engine.steps(features, rows_per_photo=ops.shape(first_ids)[0])
        return run_search(
            step, state, search, vocabulary, captioner.num_regions, first_ids=first_ids
        )

    found = captioner.engine.run(continued_search, features, first_ids, search=search.for_graph())
    found_ids = np.asarray(found.token_ids)[:, 0]  # (rows, max_length)
    log_probs, is_finished = (np.asarray(x)[:, 0] for x in (found.log_probs, found.is_finished))
    alternatives = [[] for _ in token_ids]
    for row, (t, number) in enumerate(np.ndindex(chosen_ids.shape)):
        word_id = chosen_ids[t, number]
        caption_words = [*words[:t], *vocabulary.ids_to_words(found_ids[row, t:])]
        alternatives[t].append(
            Alternative(
                word=vocabulary.tokens[word_id],
                probability=float(probabilities[t, word_id]),
                caption=" ".join(caption_words),
                words=caption_words,
                log_prob=float(log_probs[row]),
                is_finished=bool(is_finished[row]),
            )
        )
    return alternatives


def is_repetition(word_id, token_ids, t, vocabulary, search):
    """Return whether a search may not say a word at step t because it would repeat what
    was said.

    Args:
        word_id: of the word.
        token_ids: those that were said, (steps,).
        search: Search.
    """
    rules = RepetitionRules(search.no_repeat_ngram)
    said = np.full((1, max(len(token_ids), rules.no_repeat_ngram)), vocabulary.pad_token_id)
    said[0, :t] = token_ids[:t]
    logits = rules.apply(np.zeros((1, 1), np.float32), np.array([[word_id]]), said, t)
    return bool(np.isneginf(ops.convert_to_numpy(logits)).item())


def _next_best(token_ids, probabilities, number, vocabulary, allow_unknown):
    """Return the ids of the most probable words that a search may say, without the one
    that was said: (steps, number), or fewer if the vocabulary is smaller.
    """
    special = special_tokens(vocabulary, allow_unknown)
    forbidden = [special["pad_token_id"], *special["forbidden_token_ids"]]
    steps = np.arange(len(token_ids))
    remaining = probabilities.copy()
    remaining[:, forbidden] = -1
    remaining[steps, token_ids] = -1
    most = (remaining >= 0).sum(axis=-1).min()
    return np.argsort(-remaining, axis=-1, kind="stable")[:, : min(number, most)]
