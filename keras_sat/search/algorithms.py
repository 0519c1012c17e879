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


class SearchResult(NamedTuple):
    """The captions of each photo, best first; samples are in any order.

    During a search, each caption is one row.
    """

    token_ids: Any  # (photos, results, max_length), `<pad>` after `<end>`
    # Log p of each caption under the model, (photos, results); -inf for missing
    # captions.
    log_probs: Any
    lengths: Any  # number of tokens, `<end>` included, (photos, results)
    is_finished: Any  # whether the caption ended within max_length, (photos, results)
    attention_weights: Any  # (photos, results, max_length, regions), 0 after the end
    extras: dict[str, Any]  # from names to (photos, results, max_length, dim), 0 after the end
    # p of each token given the previous ones, (photos, results, max_length), 0 after
    # `<end>`
    word_probs: Any


def run_search(
    step,
    state,
    vocabulary,
    num_regions,
    noise=None,
    *,
    allow_unknown=False,
    for_region=False,
    **options,
):
    """Run the search that the options select: beam_search, sample_search or
    greedy_search.
    """
    options = {
        "num_regions": num_regions,
        **special_tokens(vocabulary, allow_unknown, for_region),
        **options,
    }
    if joining := options.pop("no_repeat_around", ""):
        (options["joining_token_id"],) = vocabulary.caption_to_ids([joining])
    if "num_beams" in options:
        return beam_search(step, state, **options)
    if "temperature" in options:
        return sample_search(step, state, noise, **options)
    return greedy_search(step, state, **options)


def special_tokens(vocabulary, allow_unknown=False, for_region=False):
    """Return the search arguments that depend on the vocabulary, as a dict.

    Phrases for regions start differently.
    """
    starts = vocabulary.start_token_id, vocabulary.region_token_id
    forbidden = {*starts, *(() if allow_unknown else (vocabulary.unk_token_id,))}
    return {
        "start_token_id": starts[for_region],
        "end_token_id": vocabulary.end_token_id,
        "pad_token_id": vocabulary.pad_token_id,
        "forbidden_token_ids": tuple(sorted(forbidden)),
    }


def greedy_search(
    step: Callable,
    state: Any,
    *,
    no_repeat_ngram: int = 0,
    joining_token_id: int | None = None,
    **options,
) -> SearchResult:
    """Take the most probable word at each step.

    Return a SearchResult with one result per row. See beam_search.
    """
    rules = no_repeat_ngram, joining_token_id

    def choose(logits, t, said):
        best, token_ids = ops.top_k(logits, min(1 + _most_blocked(said, *rules), logits.shape[-1]))
        if best.shape[-1] == 1:
            return token_ids[:, 0]
        best = _without_repeats(best, token_ids, said, t, *rules)
        # Not argmax, for which Keras needs an operation that LiteRT lacks.
        _, first = ops.top_k(best, 1)
        return ops.take_along_axis(token_ids, first, axis=1)[:, 0]

    return _choose_word_by_word(step, state, choose, 1, **options)


def forced_search(step: Callable, state: Any, token_ids: Any, **options) -> SearchResult:
    """Return the SearchResult of given captions: `token_ids` (rows, max_length) with
    `<pad>` after `<end>`.
    """
    given = ops.cast(token_ids, "int32")
    return _choose_word_by_word(
        step, state, lambda logits, t, said: ops.take(given, t, axis=1), 1, **options
    )


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
        cumulated = ops.cumsum(
            ops.softmax(_most_probable(logits / temperature, top_k, top_p), axis=-1), axis=-1
        )
        threshold = ops.take(noise, ops.expand_dims(t, 0), axis=1) * cumulated[:, -1:]
        # The first word above the threshold.
        return ops.sum(ops.cast(cumulated <= threshold, "int32"), axis=-1)

    return _choose_word_by_word(step, state, draw, num_samples, **options)


def beam_search(
    step: Callable,
    state: Any,
    *,
    num_beams: int = 3,
    num_results: int = 1,
    length_penalty: float = 0.0,
    no_repeat_ngram: int = 0,
    joining_token_id: int | None = None,
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
        no_repeat_ngram: no n-gram of this length occurs twice in a caption; 0: no
            limit.
        joining_token_id: no word occurs twice in a row or on both sides of this word;
            None: no limit.
    """
    rules = no_repeat_ngram, joining_token_id
    pad_token_id, end_token_id = options["pad_token_id"], options["end_token_id"]
    captions = _empty(state, **options)
    photos = ops.shape(captions.log_probs)[0] // num_beams
    # All beams of a photo are equal at first: only the first one may be chosen.
    captions = captions._replace(
        log_probs=ops.tile(ops.where(ops.arange(num_beams) > 0, -float("inf"), 0.0), [photos])
    )

    def advance(t, input_ids, state, captions):
        result = step(input_ids, state)
        # The best continuations of all beams of a photo are among the best of each
        # beam.
        num_words = num_beams + _most_blocked(captions.token_ids, *rules)
        logits = ops.cast(result.logits, "float32")
        best, token_ids = ops.top_k(
            allowed_logits(logits, **options), min(num_words, logits.shape[-1])
        )
        log_probs = best - ops.logsumexp(logits, axis=-1, keepdims=True)
        log_probs = _without_repeats(log_probs, token_ids, captions.token_ids, t, *rules)
        choices = log_probs.shape[-1]
        ended = captions.is_finished[:, None]
        only_pad = ops.where(ops.arange(choices) > 0, -float("inf"), 0.0)
        of_words = ops.where(ended, only_pad, log_probs)
        log_probs = of_words + captions.log_probs[:, None]
        token_ids = ops.where(ended, pad_token_id, token_ids)
        lengths = captions.lengths + ops.cast(~captions.is_finished, "int32")
        scores = _scores(log_probs, lengths[:, None], length_penalty)

        _, best = ops.top_k(ops.reshape(scores, (photos, num_beams * choices)), num_beams)
        # Numbers of rows.
        parents = ops.reshape(best // choices + num_beams * ops.arange(photos)[:, None], (-1,))
        chosen = parents * choices + ops.reshape(best % choices, (-1,))
        token_ids = ops.take(ops.reshape(token_ids, (-1,)), chosen)
        log_prob = ops.take(ops.reshape(of_words, (-1,)), chosen)
        seen = _seen(result, captions)
        state, seen, captions = _take_rows((result.state, seen, captions), parents)
        captions = _append(captions, t, token_ids, log_prob, seen, end_token_id)
        return t + 1, token_ids, state, captions

    captions = _until_all_finished(advance, state, captions, **options)
    scores = ops.reshape(
        _scores(captions.log_probs, captions.lengths, length_penalty), (photos, num_beams)
    )
    is_finished = ops.reshape(captions.is_finished, (photos, num_beams))
    _, unfinished_last = ops.top_k(ops.where(is_finished, scores, scores - 1e6), num_results)
    rows = ops.reshape(unfinished_last + num_beams * ops.arange(photos)[:, None], (-1,))
    return _as_result(_take_rows(captions, rows), num_results)


def _choose_word_by_word(step, state, choose, num_results, **options):
    """Search each row independently; `choose(logits, t, said)` returns the next tokens,
    given the previous ones.
    """
    pad_token_id, end_token_id = options["pad_token_id"], options["end_token_id"]

    def advance(t, input_ids, state, captions):
        result = step(input_ids, state)
        logits = ops.cast(result.logits, "float32")
        token_ids = ops.cast(
            choose(allowed_logits(logits, **options), t, captions.token_ids), "int32"
        )
        log_prob = ops.squeeze(ops.take_along_axis(logits, token_ids[:, None], axis=-1), -1)
        log_prob -= ops.logsumexp(logits, axis=-1)
        token_ids = ops.where(captions.is_finished, pad_token_id, token_ids)
        log_prob = ops.where(captions.is_finished, 0.0, log_prob)
        captions = _append(captions, t, token_ids, log_prob, _seen(result, captions), end_token_id)
        return t + 1, token_ids, result.state, captions

    return _as_result(
        _until_all_finished(advance, state, _empty(state, **options), **options), num_results
    )


def _most_blocked(said, size, joining_token_id):
    """Return the maximum number of words that `_without_repeats` blocks: a search needs
    that many extra candidates.
    """
    return (max(0, said.shape[1] - size + 1) if size else 0) + (
        0 if joining_token_id is None else 2
    )


def _without_repeats(log_probs, token_ids, said, t, size, joining_token_id):
    """Set log p to -inf for tokens that the rules of beam_search forbid.

    Tokens are (rows, choices), the captions so far are (rows, max_length) with t
    tokens.
    """
    windows = said.shape[1] - size + 1
    if joining_token_id is not None:
        last, before = (
            ops.take(said, ops.maximum(t - back, 0), axis=1)[:, None] for back in (1, 2)
        )
        is_echo = (token_ids == last) | ((last == joining_token_id) & (token_ids == before))
        # At first `last` is `<pad>`, which is no choice.
        log_probs = ops.where(is_echo, -float("inf"), log_probs)
    if size == 0 or windows < 1:
        return log_probs
    last = ops.take(said, ops.maximum(t - size + 1, 0) + ops.arange(size - 1), axis=1)
    again = ops.ones_like(said[:, :windows], dtype="bool")
    for place in range(size - 1):
        again &= said[:, place : place + windows] == last[:, place : place + 1]
    completes = said[:, size - 1 :, None] == token_ids[:, None, :]
    return ops.where(
        ops.any(again[:, :, None] & completes, axis=1) & (t >= size), -float("inf"), log_probs
    )


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
        before = ops.cumsum(probabilities, axis=-1) - probabilities
        least = ops.min(ops.where(before < top_p, ordered, float("inf")), axis=-1, keepdims=True)
        logits = ops.where(logits < least, -float("inf"), logits)
    return logits


def _scores(log_probs, lengths, length_penalty):
    return log_probs / ops.cast(lengths, "float32") ** length_penalty


def _empty(state, *, num_regions, max_length, pad_token_id, extra_dims=None, **_):
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


def _seen(result, captions):
    """Return a step's attention weights and the extras that the search keeps."""
    return result.attention_weights, {name: result.extras[name] for name in captions.extras}


def _append(captions, t, token_ids, log_prob, seen, end_token_id):
    """Append a token to each caption.

    For an ended caption, it must be `<pad>` with a log_prob of 0. See `_seen`.
    """
    is_open = ~captions.is_finished
    rows = ops.arange(ops.shape(token_ids)[0])
    # `ops.slice_update` would need XLA wherever this runs
    places = ops.stack([rows, ops.full_like(rows, t)], axis=1)

    def write(kept, x):
        return ops.scatter_update(
            kept, places, ops.cast(x, "float32") * ops.cast(is_open, "float32")[:, None]
        )

    kept = captions.attention_weights, captions.extras
    attention_weights, extras = keras.tree.map_structure(write, kept, seen)
    return SearchResult(
        token_ids=ops.scatter_update(captions.token_ids, places, token_ids),
        log_probs=captions.log_probs + log_prob,
        lengths=captions.lengths + ops.cast(is_open, "int32"),
        is_finished=captions.is_finished | (token_ids == end_token_id),
        attention_weights=attention_weights,
        extras=extras,
        word_probs=ops.scatter_update(
            captions.word_probs, places, ops.where(is_open, ops.exp(log_prob), 0.0)
        ),
    )


def _until_all_finished(advance, state, captions, *, max_length, start_token_id, **_):
    input_ids = ops.full(ops.shape(captions.lengths), start_token_id, dtype="int32")
    *_, captions = ops.while_loop(
        lambda t, input_ids, state, captions: ~ops.all(captions.is_finished),
        advance,
        (ops.convert_to_tensor(0), input_ids, state, captions),
        maximum_iterations=max_length,
    )
    return captions


def _take_rows(nest, rows):
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), nest)


def _as_result(captions, num_results):
    return keras.tree.map_structure(
        lambda x: ops.reshape(x, (-1, num_results, *x.shape[1:])), captions
    )
