"""Search algorithms that generate captions for a whole batch at once, given a function
for one step.

A search calls `step(input_ids, state)`, which returns `logits` (rows, vocabulary),
`state` (a nest of tensors (rows, ...)), `attention_weights` (rows, regions) and
`extras` (a dict from names to (rows, dim)), as `CaptionDecoder.step` does. A search
stops as soon as every caption has ended, and can be compiled.

All searches take these keyword arguments:

    num_regions         length of the attention weights
    extra_dims          dict from the names of the extras to keep to their dim
    max_length          maximum number of tokens, `<end>` included
    start_token_id, end_token_id, pad_token_id
    forbidden_token_ids tokens that are never chosen, besides `<pad>` and `<start>`
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from data_utils.vocabulary import REGION_TOKEN
from keras_sat.search.result import SearchResult, caption_score


def run_search(
    step, state, search, vocabulary, num_regions, noise=None, *, extra_dims=None, first_ids=None
):
    """Run the sample, greedy or beam search that a Search selects.

    Args:
        search: Search, see `Search.for_graph`.
        vocabulary: Vocabulary.
        noise: see `sample_search`.
        first_ids: see `greedy_search`.
    """
    options = {
        "num_regions": num_regions,
        "extra_dims": extra_dims,
        "max_length": search.max_length,
        **special_tokens(vocabulary, search.allow_unknown),
    }
    if search.temperature is not None:
        return sample_search(
            step,
            state,
            noise,
            num_samples=search.num_results,
            temperature=search.temperature,
            top_k=search.top_k,
            top_p=search.top_p,
            **options,
        )
    rules = RepetitionRules(search.no_repeat_ngram)
    if search.num_beams == 1:
        return greedy_search(step, state, rules=rules, first_ids=first_ids, **options)
    return beam_search(
        step,
        state,
        num_beams=search.num_beams,
        num_results=search.num_results,
        length_penalty=search.length_penalty,
        rules=rules,
        **options,
    )


def special_tokens(vocabulary, allow_unknown=False):
    """Return the search arguments that depend on the vocabulary, as a dict. Words that
    no search may ever say are among its `forbidden_token_ids`.
    """
    forbidden = {vocabulary.start_token_id}
    if not allow_unknown:
        forbidden.add(vocabulary.unk_token_id)
    if REGION_TOKEN in vocabulary:
        forbidden.update(vocabulary.caption_to_ids([REGION_TOKEN]))
    return {
        "start_token_id": vocabulary.start_token_id,
        "end_token_id": vocabulary.end_token_id,
        "pad_token_id": vocabulary.pad_token_id,
        "forbidden_token_ids": tuple(sorted(forbidden)),
    }


# === What may not be said again ===


class RepetitionRules(NamedTuple):
    """Which words may not be said again: greedy and beam search follow these rules,
    sampling does not.

    Attributes:
        no_repeat_ngram: no n-gram of this length occurs twice in a caption; 0: no
            limit.
    """

    no_repeat_ngram: int = 0

    def best_words(self, logits, number, said, t):
        """Return the logits and the ids of the most probable words, (rows, choices):
        enough that at least `number` are allowed. Forbidden words have -inf.

        Args:
            logits: (rows, vocabulary).
            said, t: see `apply`.
        """
        num_choices = min(number + self._most_forbidden(said), logits.shape[-1])
        best, token_ids = ops.top_k(logits, num_choices)
        return self.apply(best, token_ids, said, t), token_ids

    def _most_forbidden(self, said):
        """Return the maximum number of words that `apply` forbids."""
        return max(0, said.shape[1] - self.no_repeat_ngram + 1) if self.no_repeat_ngram else 0

    def apply(self, logits, token_ids, said, t):
        """Return logits (rows, choices) with -inf for tokens that the rules forbid.

        Args:
            token_ids: the choices, (rows, choices).
            said: the captions so far, (rows, max_length) with t tokens.
            t: number of tokens so far.
        """
        if 0 < self.no_repeat_ngram <= said.shape[1]:
            is_said_again = self._completes_ngram(token_ids, said, t)
            logits = ops.where(is_said_again, -float("inf"), logits)
        return logits

    def _completes_ngram(self, token_ids, said, t):
        """Return which tokens complete an n-gram that has been said before."""
        size = self.no_repeat_ngram
        num_ngrams = said.shape[1] - size + 1
        # The last n - 1 words, (rows, n - 1), and where they occur, (rows, num_ngrams).
        start = ops.maximum(t - size + 1, 0)
        last_words = ops.take(said, start + ops.arange(size - 1), axis=1)
        is_match = ops.ones_like(said[:, :num_ngrams], dtype="bool")
        for place in range(size - 1):
            is_match &= said[:, place : place + num_ngrams] == last_words[:, place : place + 1]
        # The n-th word of each n-gram: (rows, num_ngrams, choices).
        is_next_word = said[:, size - 1 :, None] == token_ids[:, None, :]
        is_said_again = ops.any(is_match[:, :, None] & is_next_word, axis=1)
        return is_said_again & (t >= size)


# === Word by word ===


def greedy_search(
    step: Callable,
    state: Any,
    *,
    rules: RepetitionRules = RepetitionRules(),
    first_ids: Any = None,
    **options,
) -> SearchResult:
    """Take the most probable word at each step.

    Return a SearchResult with one result per row.

    Args:
        rules: what may not be said again; by default, anything may.
        first_ids: tokens with which the captions start, (rows, max_length), with
            `<pad>` where the search chooses; None: it chooses all.
    """

    def choose(logits, t, said):
        best_ids = choose_best(logits, t, said)
        if first_ids is None:
            return best_ids
        given_ids = ops.take(first_ids, t, axis=1)
        return ops.where(given_ids == options["pad_token_id"], best_ids, given_ids)

    def choose_best(logits, t, said):
        best, token_ids = rules.best_words(logits, 1, said, t)  # (rows, choices)
        if token_ids.shape[1] == 1:
            return token_ids[:, 0]
        # Not argmax, for which Keras needs an operation that LiteRT lacks.
        _, first = ops.top_k(best, 1)
        return ops.take_along_axis(token_ids, first, axis=1)[:, 0]

    return _choose_word_by_word(step, state, choose, 1, **options)


def forced_search(step: Callable, state: Any, token_ids: Any, **options) -> SearchResult:
    """Return the SearchResult of given captions: `token_ids` (rows, max_length) with
    `<pad>` after `<end>`.
    """
    forced_ids = ops.cast(token_ids, "int32")

    def choose(logits, t, said):
        return ops.take(forced_ids, t, axis=1)

    return _choose_word_by_word(step, state, choose, 1, **options)


def sample_search(
    step: Callable,
    state: Any,
    noise: Any,
    *,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    **options,
) -> SearchResult:
    """Sample each word from the model's distribution; return a SearchResult with
    `num_samples` results per photo.

    Args:
        step, state: see above; state has num_samples adjacent rows for each photo.
        noise: uniform noise in 0..1, (rows, max_length).
        temperature: values below 1 make probable words more probable, and values above
            1 less.
        top_k, top_p: sample from the k most probable words, or the smallest set with
            this total probability.
    """

    def draw(logits, t, said):
        logits = _most_probable(logits / temperature, top_k, top_p)
        cumulated = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)  # (rows, vocabulary)
        noise_now = ops.take(noise, ops.expand_dims(t, 0), axis=1)  # (rows, 1)
        threshold = noise_now * cumulated[:, -1:]
        # The first word above the threshold.
        return ops.sum(ops.cast(cumulated <= threshold, "int32"), axis=-1)

    return _choose_word_by_word(step, state, draw, num_samples, **options)


def _choose_word_by_word(step, state, choose, num_results, **options):
    """Search each row independently.

    `choose(logits, t, said)` returns the next token of each row, given the previous
    ones, `said` (rows, max_length).
    """
    pad_token_id, end_token_id = options["pad_token_id"], options["end_token_id"]

    def advance(t, input_ids, state, captions):
        result = step(input_ids, state)
        logits = ops.cast(result.logits, "float32")
        token_ids = choose(allowed_logits(logits, **options), t, captions.token_ids)
        token_ids = ops.cast(token_ids, "int32")  # (rows,)
        chosen_logits = ops.squeeze(ops.take_along_axis(logits, token_ids[:, None], axis=-1), -1)
        log_prob = chosen_logits - ops.logsumexp(logits, axis=-1)
        token_ids = ops.where(captions.is_finished, pad_token_id, token_ids)
        log_prob = ops.where(captions.is_finished, 0.0, log_prob)
        outputs = _kept_outputs(result, captions)
        captions = _append(captions, t, token_ids, log_prob, outputs, end_token_id)
        return t + 1, token_ids, result.state, captions

    captions = _empty(state, **options)
    captions = _until_all_finished(advance, state, captions, **options)
    return _as_result(captions, num_results)


# === Beam search ===


def beam_search(
    step: Callable,
    state: Any,
    *,
    num_beams: int = 3,
    num_results: int = 1,
    length_penalty: float = 0.0,
    rules: RepetitionRules = RepetitionRules(),
    **options,
) -> SearchResult:
    """Keep the `num_beams` best hypotheses for each photo; return a SearchResult with
    the best `num_results`.

    A caption's score is log p / length ** length_penalty. A finished beam keeps its
    score, and is kept until num_beams others are better. Finished captions come first,
    then unfinished ones.

    Args:
        step, state: see above; state has num_beams adjacent, equal rows for each photo.
        num_beams: 1 is greedy search.
        num_results: at most num_beams.
        length_penalty: 0 compares log p, which favours short captions; 1 compares the
            mean over the tokens.
        rules: what may not be said again; by default, anything may.
    """
    pad_token_id, end_token_id = options["pad_token_id"], options["end_token_id"]
    captions = _empty(state, **options)
    rows = ops.shape(captions.log_probs)[0]
    photos = rows // num_beams
    first_rows = num_beams * ops.arange(photos)[:, None]  # of each photo
    # All beams of a photo are equal at first: only the first one may be chosen.
    log_probs = ops.where(ops.arange(num_beams) > 0, -float("inf"), 0.0)
    captions = captions._replace(log_probs=ops.tile(log_probs, [photos]))

    def advance(t, input_ids, state, captions):
        result = step(input_ids, state)
        logits = ops.cast(result.logits, "float32")

        # The best continuations of all beams of a photo are among the best of each
        # beam: (rows, choices).
        allowed = allowed_logits(logits, **options)
        best, token_ids = rules.best_words(allowed, num_beams, captions.token_ids, t)
        num_choices = token_ids.shape[1]
        word_log_probs = best - ops.logsumexp(logits, axis=-1, keepdims=True)

        # A finished beam goes on with `<pad>`, which costs nothing, and nothing else.
        is_finished = captions.is_finished[:, None]
        only_pad = ops.where(ops.arange(num_choices) > 0, -float("inf"), 0.0)
        word_log_probs = ops.where(is_finished, only_pad, word_log_probs)
        token_ids = ops.where(is_finished, pad_token_id, token_ids)

        # The best of the choices of all beams of a photo: (photos, num_beams).
        log_probs = word_log_probs + captions.log_probs[:, None]
        lengths = captions.lengths + ops.cast(~captions.is_finished, "int32")
        scores = caption_score(log_probs, ops.cast(lengths[:, None], "float32"), length_penalty)
        scores = ops.reshape(scores, (photos, num_beams * num_choices))
        _, best = ops.top_k(scores, num_beams)
        parents = ops.reshape(best // num_choices + first_rows, (-1,))  # numbers of rows
        choices = ops.reshape(best % num_choices, (-1,))

        places = parents * num_choices + choices
        token_ids = ops.take(ops.reshape(token_ids, (-1,)), places)  # (rows,)
        log_prob = ops.take(ops.reshape(word_log_probs, (-1,)), places)
        outputs = _kept_outputs(result, captions)
        state, outputs, captions = _take_rows((result.state, outputs, captions), parents)
        captions = _append(captions, t, token_ids, log_prob, outputs, end_token_id)
        return t + 1, token_ids, state, captions

    captions = _until_all_finished(advance, state, captions, **options)
    lengths = ops.cast(captions.lengths, "float32")
    scores = caption_score(captions.log_probs, lengths, length_penalty)
    unfinished_last = ops.where(captions.is_finished, scores, scores - 1e6)
    unfinished_last = ops.reshape(unfinished_last, (photos, num_beams))
    _, best = ops.top_k(unfinished_last, num_results)
    best_rows = ops.reshape(best + first_rows, (-1,))
    return _as_result(_take_rows(captions, best_rows), num_results)


# === Logits ===


def allowed_logits(logits, *, pad_token_id, start_token_id, forbidden_token_ids=(), **_):
    """Return logits (rows, vocabulary) with -inf for forbidden words."""
    words = ops.arange(logits.shape[-1])
    forbidden = (words == pad_token_id) | (words == start_token_id)
    for token_id in forbidden_token_ids:
        forbidden = forbidden | (words == token_id)
    return ops.where(forbidden, -float("inf"), logits)


def _most_probable(logits, top_k, top_p):
    """Return logits with -inf for all but the most probable words."""
    if top_k is not None:
        best, _ = ops.top_k(logits, min(top_k, logits.shape[-1]))
        logits = ops.where(logits < best[:, -1:], -float("inf"), logits)
    if top_p is not None:
        ordered = ops.flip(ops.sort(logits, axis=-1), axis=-1)
        probabilities = ops.softmax(ordered, axis=-1)
        sum_before = ops.cumsum(probabilities, axis=-1) - probabilities
        kept = ops.where(sum_before < top_p, ordered, float("inf"))
        least = ops.min(kept, axis=-1, keepdims=True)
        logits = ops.where(logits < least, -float("inf"), logits)
    return logits


# === The captions of a search, one in each row ===


def _empty(state, *, num_regions, max_length, pad_token_id, extra_dims=None, **_):
    """Return a SearchResult without tokens, with a row for each of the state."""
    rows = ops.shape(keras.tree.flatten(state)[0])[0]
    return SearchResult(
        token_ids=ops.full((rows, max_length), pad_token_id, dtype="int32"),
        log_probs=ops.zeros((rows,)),
        lengths=ops.zeros((rows,), dtype="int32"),
        is_finished=ops.zeros((rows,), dtype="bool"),
        attention_weights=ops.zeros((rows, max_length, num_regions)),
        extras={
            name: ops.zeros((rows, max_length, dim)) for name, dim in (extra_dims or {}).items()
        },
        word_probs=ops.zeros((rows, max_length)),
    )


def _kept_outputs(result, captions):
    """Return a step's attention weights and the extras that the search keeps."""
    return result.attention_weights, {name: result.extras[name] for name in captions.extras}


def _append(captions, t, token_ids, log_prob, outputs, end_token_id):
    """Return captions with one more token.

    Args:
        captions: SearchResult with a caption in each row.
        t: number of tokens before this one.
        token_ids, log_prob: the token and its log p, (rows,). For a finished caption
            they must be `<pad>` and 0.
        outputs: see `_kept_outputs`; those of finished captions become 0.
    """
    is_open = ~captions.is_finished
    rows = ops.arange(ops.shape(token_ids)[0])
    # `ops.slice_update` would need XLA wherever this runs
    places = ops.stack([rows, ops.full_like(rows, t)], axis=1)

    def write(kept, x):
        """Write x (rows, dim) into kept (rows, max_length, dim) at time t."""
        x = ops.cast(x, "float32") * ops.cast(is_open, "float32")[:, None]
        return ops.scatter_update(kept, places, x)

    kept = captions.attention_weights, captions.extras
    attention_weights, extras = keras.tree.map_structure(write, kept, outputs)
    word_prob = ops.where(is_open, ops.exp(log_prob), 0.0)
    return SearchResult(
        token_ids=ops.scatter_update(captions.token_ids, places, token_ids),
        log_probs=captions.log_probs + log_prob,
        lengths=captions.lengths + ops.cast(is_open, "int32"),
        is_finished=captions.is_finished | (token_ids == end_token_id),
        attention_weights=attention_weights,
        extras=extras,
        word_probs=ops.scatter_update(captions.word_probs, places, word_prob),
    )


def _until_all_finished(advance, state, captions, *, max_length, start_token_id, **_):
    """Call `advance(t, input_ids, state, captions)` until all captions have ended, or
    max_length times; return the captions.
    """

    def is_any_open(t, input_ids, state, captions):
        return ~ops.all(captions.is_finished)

    t = ops.convert_to_tensor(0)
    input_ids = ops.full(ops.shape(captions.lengths), start_token_id, dtype="int32")
    *_, captions = ops.while_loop(
        is_any_open, advance, (t, input_ids, state, captions), maximum_iterations=max_length
    )
    return captions


def _take_rows(nest, rows):
    """Return these rows of each tensor in a nest."""
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), nest)


def _as_result(captions, num_results):
    """Reshape rows to (photos, num_results)."""
    return keras.tree.map_structure(
        lambda x: ops.reshape(x, (-1, num_results, *x.shape[1:])), captions
    )
