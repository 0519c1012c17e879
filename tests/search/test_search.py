"""Search over a small model whose every caption can be listed: the next word depends on
the photo and the last two.
"""

import functools
from collections import namedtuple

import numpy as np
import pytest
import tensorflow as tf
from helpers import all_slow_but

from keras_sat.search.algorithms import (
    RepetitionRules,
    beam_search,
    greedy_search,
    sample_search,
)

PAD, START, END, UNK = range(4)
PHOTOS, WORDS, LONGEST = 3, 7, 4
Step = namedtuple("Step", "logits state attention_weights extras")
OPTIONS = {
    "num_regions": 2 * WORDS,
    "extra_dims": {"last": 1},
    "max_length": LONGEST,
    "start_token_id": START,
    "end_token_id": END,
    "pad_token_id": PAD,
    "forbidden_token_ids": (UNK,),
}


class Model:
    """Its attention weights spell the two words that the step has read: mixed-up beams
    are noticed.
    """

    def __init__(self, seed=0, end_bias=0.0):
        logits = (
            np.random.default_rng(seed)
            .normal(scale=2, size=(PHOTOS, WORDS, WORDS, WORDS))
            .astype("float32")
        )
        logits[..., END] += end_bias
        self.logits = logits
        self.log_probs = tf.nn.log_softmax(logits).numpy()
        self.calls = tf.Variable(0)

    def step(self, input_ids, state):
        photo, before = state
        self.calls.assign_add(1)
        logits = tf.gather_nd(self.logits, tf.stack([photo, before, input_ids], axis=1))
        seen = tf.concat([tf.one_hot(before, WORDS), tf.one_hot(input_ids, WORDS)], axis=1)
        return Step(
            logits, (photo, input_ids), seen, {"last": tf.cast(input_ids[:, None], "float32")}
        )

    def state(self, rows_per_photo=1):
        photo = tf.repeat(tf.range(PHOTOS), rows_per_photo)
        return photo, tf.zeros_like(photo)

    def all_captions(self, photo, length_penalty=0.0):
        """List (has ended, score, log p, tokens) of every caption that could be found,
        best first.
        """
        found = []

        def extend(before, last, tokens, log_prob):
            if tokens and (last == END or len(tokens) == LONGEST):
                found.append(
                    (last == END, log_prob / len(tokens) ** length_penalty, log_prob, tokens)
                )
                return
            for word in (END, *range(UNK + 1, WORDS)):
                extend(
                    last,
                    word,
                    [*tokens, word],
                    log_prob + self.log_probs[photo, before, last, word],
                )

        extend(0, START, [], 0.0)
        return sorted(found, key=lambda caption: caption[:2], reverse=True)

    def log_prob(self, photo, tokens):
        before, last, total = 0, START, 0.0
        for word in tokens:
            total += self.log_probs[photo, before, last, word]
            before, last = last, word
        return total


def tokens_of(result, photo, place=0):
    return [
        int(word) for word in result.token_ids[photo, place, : int(result.lengths[photo, place])]
    ]


def says_again(tokens, size):
    """Return whether there are `size` tokens in a row twice; of 0 there never are."""
    runs = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)] if size else []
    return len(set(runs)) < len(runs)


def reference_beams(model, photo, num_beams, length_penalty, longest=LONGEST, no_repeat_ngram=0):
    """Beam search in plain Python: (ended, score, tokens) of the beams, best first."""
    beams = [(0.0, [])]
    for _ in range(longest):
        candidates = []
        for log_prob, tokens in beams:
            if tokens and tokens[-1] == END:
                candidates.append((log_prob, tokens))
                continue
            before, last = ([0, START] + tokens)[-2:] if tokens else (0, START)
            for word in (END, *range(UNK + 1, WORDS)):
                if not says_again([*tokens, word], no_repeat_ngram):
                    candidates.append(
                        (log_prob + model.log_probs[photo, before, last, word], [*tokens, word])
                    )
        candidates.sort(key=lambda c: c[0] / len(c[1]) ** length_penalty, reverse=True)
        beams = candidates[:num_beams]
    scored = [(t[-1] == END, log_prob / len(t) ** length_penalty, t) for log_prob, t in beams]
    return sorted(scored, key=lambda beam: beam[:2], reverse=True)


def check_consistency(model, result):
    """Tokens, log p, lengths, ends and attention weights of every result agree with
    each other.
    """
    for photo in range(PHOTOS):
        for place in range(result.log_probs.shape[1]):
            tokens = tokens_of(result, photo, place)
            assert float(result.log_probs[photo, place]) == pytest.approx(
                model.log_prob(photo, tokens), abs=1e-4
            )
            assert bool(result.is_finished[photo, place]) == (tokens[-1] == END)
            assert not {PAD, START, UNK} & set(tokens) and END not in tokens[:-1]
            assert all(word == PAD for word in result.token_ids[photo, place, len(tokens) :])
            maps = np.asarray(result.attention_weights[photo, place])
            seen = [0, START, *tokens]
            for t in range(LONGEST):
                expected = np.zeros(2 * WORDS)
                if t < len(tokens):
                    expected[[seen[t], WORDS + seen[t + 1]]] = 1
                np.testing.assert_array_equal(maps[t], expected)
            steps = np.arange(LONGEST) < len(tokens)
            last = np.where(steps, [*seen[1:], *[0] * LONGEST][:LONGEST], 0)
            np.testing.assert_array_equal(result.extras["last"][photo, place, :, 0], last)
            log_probs = [model.log_prob(photo, tokens[:t]) for t in range(len(tokens) + 1)]
            word_probs = [*np.exp(np.diff(log_probs)), *[0] * LONGEST][:LONGEST]
            np.testing.assert_allclose(result.word_probs[photo, place], word_probs, atol=1e-5)


# === Greedy ===


def test_greedy_takes_the_best_word_each_time():
    model = Model()
    result = greedy_search(model.step, model.state(), **OPTIONS)
    check_consistency(model, result)
    for photo in range(PHOTOS):
        before, last, expected = 0, START, []
        while last != END and len(expected) < LONGEST:
            words = model.log_probs[photo, before, last].copy()
            words[[PAD, START, UNK]] = -np.inf
            before, last = last, int(words.argmax())
            expected.append(last)
        assert tokens_of(result, photo) == expected


def test_unknown_words_come_only_if_allowed():
    model = Model()
    model.logits[..., UNK] = 9
    model.log_probs = tf.nn.log_softmax(model.logits).numpy()
    assert not (
        np.asarray(greedy_search(model.step, model.state(), **OPTIONS).token_ids) == UNK
    ).any()
    allowed = greedy_search(model.step, model.state(), **{**OPTIONS, "forbidden_token_ids": ()})
    assert (np.asarray(allowed.token_ids) == UNK).all()


# === Beams ===


@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
def test_wide_beams_find_the_best_of_all_captions(length_penalty):
    model, num_beams = Model(), WORDS**LONGEST // 4
    result = beam_search(
        model.step,
        model.state(num_beams),
        num_beams=num_beams,
        num_results=9,
        length_penalty=length_penalty,
        **OPTIONS,
    )
    check_consistency(model, result)
    for photo in range(PHOTOS):
        best = model.all_captions(photo, length_penalty)[:9]
        assert [tokens_of(result, photo, place) for place in range(9)] == [
            caption[3] for caption in best
        ]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_narrow_beams_are_those_of_the_plain_python_search(num_beams, length_penalty):
    for seed in range(2):
        model = Model(seed)
        options = {
            "num_beams": num_beams,
            "num_results": num_beams,
            "length_penalty": length_penalty,
        }
        result = beam_search(model.step, model.state(num_beams), **options, **OPTIONS)
        check_consistency(model, result)
        for photo in range(PHOTOS):
            expected = [
                tokens for _, _, tokens in reference_beams(model, photo, num_beams, length_penalty)
            ]
            assert [tokens_of(result, photo, place) for place in range(num_beams)] == expected


def test_the_best_unfinished_caption_is_returned_when_none_ends():
    model = Model(end_bias=-100.0)
    result = beam_search(model.step, model.state(3), num_beams=3, num_results=3, **OPTIONS)
    check_consistency(model, result)
    assert (
        not np.asarray(result.is_finished).any() and (np.asarray(result.lengths) == LONGEST).all()
    )
    assert (np.diff(result.log_probs, axis=1) <= 0).all()


def test_more_beams_than_captions():
    model = Model(end_bias=100.0)
    options = {**OPTIONS, "max_length": 1}
    result = beam_search(model.step, model.state(20), num_beams=20, num_results=20, **options)
    possible = WORDS - 3  # all but <pad>, <start> and <unk>
    assert (
        np.isfinite(result.log_probs[:, :possible]).all()
        and np.isneginf(result.log_probs[:, possible:]).all()
    )


def test_search_stops_when_every_caption_has_ended():
    model = Model(end_bias=100.0)
    for search, options in ((greedy_search, {}), (beam_search, {"num_beams": 1})):
        model.calls.assign(0)
        result = search(model.step, model.state(), **options, **{**OPTIONS, "max_length": 50})
        assert int(model.calls) == 1 and (np.asarray(result.token_ids)[:, :, 0] == END).all()
        assert result.token_ids.shape == (PHOTOS, 1, 50)


@pytest.mark.parametrize("xla", all_slow_but(False, [False, True]))
def test_compiled_search_gives_the_same(xla):
    model = Model(4)
    eager = beam_search(model.step, model.state(3), num_beams=3, **OPTIONS)
    compiled = tf.function(beam_search, jit_compile=xla)(
        model.step, model.state(3), num_beams=3, **OPTIONS
    )
    for one, other in zip(tf.nest.flatten(eager), tf.nest.flatten(compiled)):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# === Samples ===


def draw(model, num_samples, **options):
    noise = np.random.default_rng(0).random((PHOTOS * num_samples, LONGEST)).astype("float32")
    return sample_search(
        model.step, model.state(num_samples), noise, num_samples=num_samples, **options, **OPTIONS
    )


def fractions_of_first_words(result):
    return (
        np.bincount(np.asarray(result.token_ids)[0, :, 0], minlength=WORDS)
        / result.token_ids.shape[1]
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_samples_follow_the_distribution(temperature):
    model = Model()
    result = draw(model, 4000, temperature=temperature)
    check_consistency(model, draw(model, 9, temperature=temperature))
    expected = np.exp(model.log_probs[0, 0, START] / temperature)
    expected[[PAD, START, UNK]] = 0
    np.testing.assert_allclose(
        fractions_of_first_words(result), expected / expected.sum(), atol=0.035
    )


def drawn_from(probabilities, noise, **options):
    """Return the first words that are sampled from these probabilities of words."""
    logits = np.full((1, WORDS), -np.inf, np.float32)
    logits[0, UNK + 1 :] = np.log(probabilities)

    def step(input_ids, state):
        seen = tf.zeros((tf.shape(input_ids)[0], 2 * WORDS))
        return Step(tf.tile(logits, [tf.shape(input_ids)[0], 1]), state, seen, {})

    noise = np.array(noise, np.float32)[:, None]
    options = {**OPTIONS, "extra_dims": {}, "max_length": 1, **options}
    found = sample_search(step, (tf.zeros((len(noise), 1)),), noise, **options)
    return [int(word) for word in found.token_ids[:, 0, 0]]


def test_at_the_limits_of_noise_and_top_p():
    # Words of probability 0 come first, and noise of 0 draws none of them; noise at the
    # end of a word's interval draws the next one.
    assert drawn_from([0.5, 0.25, 0.25], [0.0, 0.4, 0.5, 0.8]) == [4, 4, 5, 6]
    # The smallest set that has the probability .5 is the first word alone.
    assert drawn_from([0.5, 0.25, 0.25], [0.0, 0.9], top_p=0.5) == [4, 4]


def test_top_k_and_top_p_leave_only_probable_words():
    model = Model()
    probabilities = np.exp(model.log_probs[0, 0, START])
    probabilities[[PAD, START, UNK]] = 0
    order = np.argsort(-probabilities)
    assert set(np.flatnonzero(fractions_of_first_words(draw(model, 2000, top_k=2)))) == set(
        order[:2]
    )
    best = draw(model, 1, top_k=1).token_ids
    np.testing.assert_array_equal(draw(model, 20, top_k=1).token_ids, np.repeat(best, 20, axis=1))
    cumulated = np.cumsum(probabilities[order]) / probabilities.sum()
    fewest = int(np.searchsorted(cumulated, 0.8)) + 1
    assert set(np.flatnonzero(fractions_of_first_words(draw(model, 2000, top_p=0.8)))) == set(
        order[:fewest]
    )


# === Captions that do not repeat themselves ===


def test_words_are_left_where_the_most_probable_ones_are_blocked():
    logits = np.zeros((1, 12), np.float32)
    logits[0, 4:11] = 9.0  # seven words that come again and again, and all others hardly ever

    def step(input_ids, state):
        seen = tf.zeros((tf.shape(input_ids)[0], 2 * WORDS))
        return Step(tf.tile(logits, [tf.shape(input_ids)[0], 1]), state, seen, {})

    rules = RepetitionRules(no_repeat_ngram=1)
    options = {**OPTIONS, "extra_dims": {}, "max_length": 11, "rules": rules}
    for rows, search in ((1, greedy_search), (2, functools.partial(beam_search, num_beams=2))):
        found = search(step, (tf.zeros((rows, 1)),), **options)
        tokens = [int(token) for token in found.token_ids[0, 0, : int(found.lengths[0, 0])]]
        assert np.isfinite(found.log_probs[0, 0]) and len(set(tokens)) == len(tokens) > 7


@pytest.mark.parametrize(("num_beams", "size"), all_slow_but((3, 2), [(1, 1), (3, 2), (3, 3)]))
def test_no_caption_repeats_itself(num_beams, size):
    rules = RepetitionRules(no_repeat_ngram=size)
    options, repeating = {**OPTIONS, "max_length": 9}, 0
    for seed in range(2):
        model = Model(seed, end_bias=-6.0)
        free = beam_search(model.step, model.state(num_beams), num_beams=num_beams, **options)
        found = beam_search(
            model.step, model.state(num_beams), num_beams=num_beams, rules=rules, **options
        )
        for photo in range(PHOTOS):
            repeating += says_again(tokens_of(free, photo), size)
            *_, expected = reference_beams(model, photo, num_beams, 0.0, 9, size)[0]
            # Another caption may be as probable: it may have the same words.
            tokens = tokens_of(found, photo)
            assert model.log_prob(photo, tokens) == pytest.approx(
                model.log_prob(photo, expected), abs=1e-5
            )
            assert not says_again(tokens, size)
    assert repeating > 2  # else this would have tested nothing


@pytest.mark.slow
def test_a_captioner_passes_it_on(captioner, scene_images):
    photos = [image.image_path for image in scene_images[:12]]
    free = captioner.caption(photos, num_beams=1)
    assert any(says_again(result.words, 1) for result in free)  # "a red circle left of a blue star"
    once = captioner.caption(photos, num_beams=1, no_repeat_ngram=1)
    assert not any(says_again(result.words, 1) for result in once)
    own = captioner.adapted(no_repeat_ngram=1).caption(photos, num_beams=1)
    assert [result.caption for result in own] == [result.caption for result in once]


@pytest.mark.parametrize("size", [1, 2, 20])
def test_greedy_captions_repeat_nothing_either(size):
    options = {**OPTIONS, "max_length": 9, "rules": RepetitionRules(no_repeat_ngram=size)}
    model = Model(end_bias=-6.0)
    greedy = greedy_search(model.step, model.state(), **options)
    one = beam_search(model.step, model.state(), num_beams=1, **options)
    np.testing.assert_array_equal(greedy.token_ids, one.token_ids)
    np.testing.assert_allclose(greedy.log_probs, one.log_probs, rtol=1e-5)
