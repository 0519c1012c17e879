"""Traces: what a captioner computes at each word, compared with the equations written
out in NumPy, and with what the captioner does elsewhere.
"""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import VanillaCell, photo_captioner, random_pixels

from keras_sat import Captioner, Ensemble, equations
from keras_sat.network import ATTENTIONS, SCORINGS, Attention, CaptionDecoder, Readout, Selection
from keras_sat.network.cells import CELLS

pytestmark = pytest.mark.usefixtures("module_without_graphs")
DICTS = {"attention": ATTENTIONS, "scoring": SCORINGS, "cell": CELLS}
CAPTION = "a dog runs"
GREEDY = {"num_beams": 1, "max_length": 3}
KINDS = {
    "soft": {},
    "hard": {"attention": "hard"},
    "none": {"attention": "none"},
    "bilinear": {"scoring": "bilinear"},
    "no gate": {"context_gate": False},
    "gru": {"cell": "gru"},
    "two layers": {"num_layers": 2},
    "two layers of gru, hard": {"cell": "gru", "num_layers": 2, "attention": "hard"},
    "after": {"attends": "after"},
    "sentinel": {"sentinel": True},
    "sentinel, gru": {"sentinel": True, "cell": "gru"},
    "sentinel, after, bilinear": {"sentinel": True, "attends": "after", "scoring": "bilinear"},
    "sentinel, none": {"sentinel": True, "attention": "none"},
    "after, none": {"attends": "after", "attention": "none"},
    "tanh": {"readout_activation": "tanh"},
    "relu": {"readout_activation": "relu"},
    "no deep output": {"deep_output": False},
    "no deep output, tanh, sentinel": {
        "deep_output": False,
        "readout_activation": "tanh",
        "sentinel": True,
    },
    "projected features": {"feature_projection_dim": 5, "normalise_features": True},
}
# The others run with `pytest -m ""`.
QUICK = ("soft", "two layers of gru, hard", "sentinel, after, bilinear")
QUICK += ("no deep output, tanh, sentinel",)


# === The equations in NumPy ===


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class InNumPy:
    """A captioner's decoder, in double precision and for one photo: the equations of
    the paper, and the votes, written out without any code of keras_sat.

    `a` are the annotation vectors, (regions, feature_dim).
    """

    def __init__(self, captioner, a):
        self.decoder = captioner.decoder
        self.options = captioner.settings.network
        self.a = a
        self.mean = a.mean(axis=0)
        self.no_attention = not ATTENTIONS[self.options.attention].has_attention

    def dense(self, layer, x):
        product = x @ np.asarray(layer.kernel, float)
        return product if layer.bias is None else product + np.asarray(layer.bias, float)

    def initial_state(self):
        decoder, layers = self.decoder, self.options.num_layers
        h = np.split(np.tanh(self.dense(decoder.initial_hidden, self.mean)), layers)
        c = [None] * layers
        if self.options.cell == "lstm":
            c = np.split(np.tanh(self.dense(decoder.initial_cell, self.mean)), layers)
        return list(h), list(c)

    def score(self, h, vectors):
        attention = self.decoder.attention_layer
        query = self.dense(attention.state_projection, h)
        if self.options.scoring == "bilinear":
            return vectors @ query
        hidden = np.tanh(self.dense(attention.feature_projection, vectors) + query)
        return hidden @ np.asarray(attention.score_vector, float)

    def attend(self, h, c):
        """Return scores, alpha, share, and the sentinel's context, given one state."""
        regions = len(self.a)
        if self.no_attention:
            return None, np.full(regions, 1 / regions), 1.0, 0 * self.mean
        scores = self.score(h, self.a)
        if self.options.sentinel:
            layer = self.decoder.sentinel_layer
            memory = h if c is None else c
            s = self.dense(layer.projection, sigmoid(self.dense(layer.gate, h)) * np.tanh(memory))
            with_sentinel = softmax(np.append(scores, self.score(h, s[None])))
            return scores, softmax(scores), 1 - with_sentinel[-1], with_sentinel[-1] * s
        share = 1.0
        if self.options.context_gate:
            (share,) = sigmoid(self.dense(self.decoder.gate, h))
        return scores, softmax(scores), share, 0 * self.mean

    def cells_read(self, word, context, h, c):
        """Return the next h and c of all layers, and the gates of the last one."""
        h, c = list(h), list(c)
        for number, cell in enumerate(self.decoder.cells):
            x = word if number == 0 else h[number - 1]
            inputs = self.dense(cell.input_projection, x)
            if number == 0:
                inputs = inputs + self.dense(cell.context_projection, context)
            state = self.dense(cell.recurrent_projection, h[number])
            if self.options.cell == "gru":
                (r, u, g), (rh, uh, gh) = np.split(inputs, 3), np.split(state, 3)
                r, u = sigmoid(r + rh), sigmoid(u + uh)
                g = np.tanh(g + r * gh)
                h[number] = u * h[number] + (1 - u) * g
                gates = {"reset": r, "update": u, "candidate": g}
            else:
                i, f, o, g = np.split(inputs + state, 4)
                i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
                c[number] = f * c[number] + i * g
                h[number] = o * np.tanh(c[number])
                gates = {"input": i, "forget": f, "output": o, "candidate": g}
        return h, c, gates

    def activation(self, s):
        functions = {None: s, "tanh": np.tanh(s), "relu": np.maximum(s, 0)}
        return functions[self.options.readout_activation]

    def readout(self, word, h, photo, sentinel):
        """Return logits, the parts of all words, and d of all words (words, D)."""
        layer = self.decoder.readout
        kernel, bias = (np.asarray(x, float) for x in layer.word_logits.weights)
        if self.options.deep_output:
            l_z = np.asarray(layer.context_readout.kernel, float)
            summands = {
                "previous_word": word,
                "memory": self.dense(layer.state_readout, h) + sentinel @ l_z,
                "photo": photo @ l_z,
            }
        else:
            l_z = np.zeros((len(photo), len(h) + len(photo)))
            l_z[:, len(h) :] = np.eye(len(photo))
            summands = {
                "previous_word": np.zeros(len(h) + len(photo)),
                "memory": np.concatenate([h, sentinel]),
                "photo": np.concatenate([0 * h, photo]),
            }
        s = sum(summands.values())
        logits = self.activation(s) @ kernel + bias
        slope = (self.activation(s) - self.activation(0 * s)) / np.where(s == 0, 1, s)
        parts = {name: (p * slope) @ kernel for name, p in summands.items()}
        parts["bias"] = bias + self.activation(0 * s) @ kernel
        return logits, parts, (slope[:, None] * kernel).T @ l_z.T

    def trace(self, ids, previous_ids):
        h, c = self.initial_state()
        for word_id, previous_id in zip(ids, previous_ids):
            word = np.asarray(self.decoder.embedding.embeddings, float)[previous_id]
            before = h, c
            after_reading = self.options.attends == "after" and not self.no_attention
            if after_reading:
                h, c, gates = self.cells_read(word, self.mean, h, c)
            scores, alpha, share, sentinel = self.attend(h[-1], c[-1])
            photo = share * alpha @ self.a
            if not after_reading:
                h, c, gates = self.cells_read(word, photo + sentinel, h, c)
            logits, parts, directions = self.readout(word, h[-1], photo, sentinel)
            votes = share * alpha * ((self.a - self.mean) @ directions.T).T  # (words, regions)
            says = []
            for vector in self.a:
                z = share * vector
                its_h = h
                if self.options.attends != "after":
                    its_h, _, _ = self.cells_read(word, z + sentinel, *before)
                says.append(softmax(self.readout(word, its_h[-1], z, sentinel)[0]))
            yield {
                "scores": scores,
                "alpha": alpha,
                "share": share,
                "h": h[-1],
                "c": c[-1],
                "gates": gates,
                "logits": logits,
                "probabilities": softmax(logits),
                "parts": parts,
                "votes": votes,
                "places": np.array(says),
                "said": word_id,
            }


# === Fixtures ===


@pytest.fixture(scope="module")
def photo():
    return random_pixels(16, 16, 3, seed=4)


@pytest.fixture(scope="module")
def plain():
    """A captioner as in the paper, which no test may change."""
    return photo_captioner()


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=[] if k in QUICK else pytest.mark.slow) for k in KINDS],
)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def captioner(kind):
    return photo_captioner(**KINDS[kind])


@pytest.fixture(scope="module")
def trace(captioner, photo):
    """With all words of the vocabulary among the top ones of each step."""
    return captioner.trace(photo, CAPTION, num_words=len(captioner.vocabulary))


@pytest.fixture(scope="module")
def expected(captioner, photo):
    """For each step, what `InNumPy` computes."""
    vocabulary = captioner.vocabulary
    ids = [*vocabulary.caption_to_ids(CAPTION), vocabulary.end_token_id]
    a = np.asarray(captioner.adapter(captioner.encode(photo[None])), float)[0]
    return list(InNumPy(captioner, a).trace(ids, [vocabulary.start_token_id, *ids[:-1]]))


def assert_near(received, wanted):
    np.testing.assert_allclose(received, wanted, atol=1e-4, rtol=1e-4)


# === Every kind of captioner ===


def test_attention_states_and_gates_are_those_of_the_equations(trace, expected, captioner):
    shape = captioner.rows_and_columns()
    for step, wanted in zip(trace.steps, expected, strict=True):
        assert step.attention_weights.shape == shape
        assert_near(step.attention_weights.ravel(), wanted["alpha"])
        if wanted["scores"] is None:
            assert step.attention_scores is None
        else:
            assert_near(step.attention_scores.ravel(), wanted["scores"])
        assert_near(step.hidden_state, wanted["h"])
        if wanted["c"] is None:
            assert step.cell_state is None
        else:
            assert_near(step.cell_state, wanted["c"])
        assert step.gates.keys() == wanted["gates"].keys()
        for name, gate in step.gates.items():
            assert_near(gate, wanted["gates"][name])


def test_a_step_has_a_gate_or_a_sentinel_or_neither(trace, expected, kind):
    options = {"attention": "soft", "sentinel": False, "context_gate": True, **KINDS[kind]}
    attends = options["attention"] != "none"
    for step, wanted in zip(trace.steps, expected):
        if attends and options["sentinel"]:
            assert_near(step.from_photo, wanted["share"])
            places = np.exp(step.attention_scores).sum()
            assert_near(places / (places + np.exp(step.sentinel_score)), step.from_photo)
            assert step.context_gate is None
        elif attends and options["context_gate"]:
            assert_near(step.context_gate, wanted["share"])
            assert step.from_photo is None
        else:
            assert step.context_gate is None and step.from_photo is None
            assert step.sentinel_score is None


def test_candidates_are_those_of_the_equations_and_their_parts_sum_to_the_logit(
    trace, expected, captioner
):
    tokens = captioner.vocabulary.tokens
    for t, wanted in enumerate(expected):
        candidates = {candidate.word: candidate for candidate in trace.steps[t].top}
        all_words = [candidates[word] for word in tokens]
        assert_near([candidate.logit for candidate in all_words], wanted["logits"])
        assert_near([candidate.probability for candidate in all_words], wanted["probabilities"])
        for name, part in wanted["parts"].items():
            assert_near([candidate.parts[name] for candidate in all_words], part)
        for candidate in all_words:
            assert candidate.parts.keys() == {"bias", "previous_word", "memory", "photo"}
            assert sum(candidate.parts.values()) == pytest.approx(candidate.logit, abs=1e-5)


def test_votes_are_those_of_the_equations_and_sum_to_the_part_of_the_photo(
    trace, expected, captioner
):
    for t, wanted in enumerate(expected):
        said = trace.votes(t)
        assert said.shape == captioner.rows_and_columns()
        assert_near(said.ravel(), wanted["votes"][wanted["said"]])
        for word in ("cat", trace.steps[t].word):
            word_id = captioner.vocabulary.tokens.index(word)
            votes = trace.votes(t, word)
            assert_near(votes.ravel(), wanted["votes"][word_id])
            in_photo = trace.candidate(t, word).parts["photo"]
            assert votes.sum() + trace.vote_of_mean(t, word) == pytest.approx(in_photo, abs=1e-5)
        assert trace.vote_of_mean(t) == trace.vote_of_mean(t, trace.steps[t].word)


def test_places_say_what_the_network_says_if_it_sees_only_one_region(trace, expected, captioner):
    tokens = captioner.vocabulary.tokens
    for t, wanted in enumerate(expected):
        words, probabilities = trace.places(t)
        assert words.shape == probabilities.shape == captioner.rows_and_columns()
        assert_near(probabilities.ravel(), wanted["places"].max(axis=-1))
        for word, its_probabilities in zip(words.ravel(), wanted["places"]):
            assert_near(its_probabilities[tokens.index(word)], its_probabilities.max())


def test_it_is_what_attend_says(trace, captioner, photo):
    result = captioner.attend(photo, CAPTION)
    assert trace.words == result.words == CAPTION.split()
    for step, weights in zip(trace.steps, result.attention_weights):
        assert_near(step.attention_weights, weights)
    said = [step.said.probability for step in trace.steps]
    assert_near(said[:-1], result.word_probs)
    assert np.sum(np.log(said)) == pytest.approx(result.log_prob, rel=1e-4)
    if result.from_photo is not None:
        assert_near([step.from_photo for step in trace.steps[:-1]], result.from_photo)


def test_top_words_come_first_and_the_one_said_is_among_them(captioner, photo):
    trace = captioner.trace(photo, CAPTION, num_words=3)
    for step in trace.steps:
        best, others = step.top[:3], step.top[3:]
        logits = [candidate.logit for candidate in best]
        assert logits == sorted(logits, reverse=True)
        assert [candidate.word for candidate in others] in ([], [step.word])
        assert step.said in step.top and step.said.word == step.word


def test_with_half_precision_it_holds_up_to_rounding(photo):
    captioner = photo_captioner(dtype="mixed_bfloat16", sentinel=True, readout_activation="tanh")
    trace = captioner.trace(photo, CAPTION)
    result = captioner.attend(photo, CAPTION)
    for t, (step, weights) in enumerate(zip(trace.steps, result.attention_weights)):
        np.testing.assert_allclose(step.attention_weights, weights, atol=0.01)
        parts = step.said.parts
        assert sum(parts.values()) == pytest.approx(step.said.logit, abs=0.05)
        votes = trace.votes(t).sum() + trace.vote_of_mean(t)
        assert votes == pytest.approx(parts["photo"], abs=0.05)
        assert trace.places(t)[1].min() > 0


# === Words, steps and searches ===


def test_steps_read_the_word_before_and_end_with_the_end(plain, photo):
    trace = plain.trace(photo, "A dog flies!")
    assert trace.words == ["a", "dog", "flies"]  # as it was given
    assert [step.word for step in trace.steps] == ["a", "dog", "<unk>", "<end>"]
    assert [step.previous_word for step in trace.steps] == ["<start>", "a", "dog", "<unk>"]
    assert repr(trace) == "Trace('a dog flies', 4 steps)"
    assert trace.left_out == ""


def test_the_captioner_traces_its_own_caption(plain, photo, tmp_path):
    from PIL import Image

    path = tmp_path / "photo.png"
    Image.fromarray(photo).save(path)
    for search in ({"num_beams": 2}, {"num_beams": 1}, {"temperature": 1.0, "seed": 5}):
        search["max_length"] = 3
        trace, result = plain.trace(path, **search), plain.caption(path, **search)
        assert trace.words == result.words and trace.result.log_prob == result.log_prob
        assert trace.result.image_path == str(path)
        assert len(trace.steps) == len(trace.words) + 1
        np.testing.assert_array_equal(trace.result.image, photo)


def test_without_the_readouts_sum_it_says_what_is_left_out(photo):
    trace = photo_captioner(deep_output=False).trace(photo, CAPTION)
    assert "does not read the previous word" in trace.left_out
    assert {step.said.parts["previous_word"] for step in trace.steps} == {0.0}


# === Alternatives ===


def test_alternatives_are_the_next_best_words_and_greedy_captions(plain, photo):
    vocabulary = plain.vocabulary
    trace = plain.trace(photo, "a dog flies", num_alternatives=2)
    features = plain.encode(photo[None])

    def ranked_words(words):
        """Return what a search may say after each of the words, best first."""
        ids = [vocabulary.start_token_id, *vocabulary.caption_to_ids(words)]
        decoded = plain((features, np.array([ids])))
        ranks = np.argsort(-np.asarray(decoded.logits)[0], axis=-1)
        unsaid = ["<pad>", "<start>", "<unk>"]
        tokens = [[vocabulary.tokens[word_id] for word_id in row] for row in ranks]
        return [[word for word in row if word not in unsaid] for row in tokens]

    ranked = ranked_words(trace.words)
    for t, step in enumerate(trace.steps):
        alternatives = trace.alternatives(t)
        others = [word for word in ranked[t] if word != step.word]
        assert [other.word for other in alternatives] == others[:2]
        for other in alternatives:
            assert other.probability == trace.candidate(t, other.word).probability
            assert other.caption == " ".join(other.words)
            said = [*other.words, "<end>"][:20]
            assert said[:t] == trace.words[:t] and said[t] == other.word
            greedy = [row[0] for row in ranked_words(other.words)]
            assert said[t + 1 :] == greedy[t + 1 : len(said)]
    one = trace.alternatives(0)[0]
    attended = plain.attend(photo, one.caption)
    of_words = np.log(attended.word_probs).sum()
    log_prob = attended.log_prob if one.is_finished else of_words
    assert one.log_prob == pytest.approx(log_prob, abs=1e-4)


@pytest.mark.slow
def test_alternatives_are_the_same_in_a_graph(photo):
    captioner = photo_captioner(attends="after", sentinel=True)
    step_by_step = captioner.trace(photo, CAPTION)
    captions = [[other.caption for other in step_by_step.alternatives(t)] for t in range(4)]
    tf.config.run_functions_eagerly(False)
    try:
        in_graph = captioner.trace(photo, CAPTION)
        shorter = captioner.trace(photo, "a dog")
        assert captions == [[each.caption for each in in_graph.alternatives(t)] for t in range(4)]
        assert len(shorter.alternatives(2)) == 3
    finally:
        tf.config.run_functions_eagerly(True)


def test_alternatives_follow_the_rules_of_the_search(plain, photo):
    trace = plain.trace(photo, no_repeat_ngram=2, num_beams=1, max_length=7)
    for t in range(len(trace.steps)):
        for other in trace.alternatives(t):
            assert len(other.words) <= max(7, len(trace.steps))
            pairs = list(zip(other.words[t + 1 :], other.words[t + 2 :]))
            assert len(set(pairs)) == len(pairs)


def test_a_small_vocabulary_has_few_alternatives(plain, photo):
    trace = photo_captioner(words=["dog"]).trace(photo, "dog", num_alternatives=5)
    assert [other.word for other in trace.alternatives(0)] == ["<end>"]
    assert plain.trace(photo, "dog", num_alternatives=0).alternatives(0) == []


# === Whatever is in the dicts, and parts of one's own ===


def top_two(attention_weights, noise, sampled):
    """The two regions with the most attention, half each."""
    _, best = keras.ops.top_k(attention_weights, 2)
    return keras.ops.sum(keras.ops.one_hot(best, attention_weights.shape[-1]), axis=1) / 2


class CosineAttention(Attention):
    def score(self, query, projected_features):
        return 10 * equations.dot_scores(projected_features, keras.ops.normalize(query))


class AttendsWithItsNewState(CaptionDecoder):
    """Attends before and after the cells, and the readout uses what comes last."""

    def attend_and_advance(self, projected_word, state, *inputs):
        state, _, gates = super().attend_and_advance(projected_word, state, *inputs)
        return state, self.attend(state, *inputs), gates


OWN = {"attention": ("top two", Selection(top_two)), "scoring": ("cosine", CosineAttention)}
OWN["cell"] = ("vanilla", VanillaCell)
PARTS = [
    *((option, name) for option, known in DICTS.items() for name in known),
    *((option, name) for option, (name, _) in OWN.items()),
]


# What attends "after" reads first what a cell says: each cell is tested with it.
@pytest.mark.parametrize(
    "option, name, attends",
    [
        *((*part, "before") for part in PARTS),
        *((*part, "after") for part in PARTS if part[0] == "cell"),
    ],
)
def test_every_part_is_traced_and_voted(option, name, attends, photo, monkeypatch):
    monkeypatch.setitem(DICTS[option], *OWN[option])
    # Dot products need a state as long as the features of `tiny`.
    captioner = photo_captioner(**{option: name}, attends=attends, hidden_dim=66)
    assert_traced(captioner, photo)


def test_a_decoder_of_ones_own_is_traced(photo):
    captioner = photo_captioner()
    captioner.decoder.__class__ = AttendsWithItsNewState
    assert_traced(captioner, photo)


def assert_traced(captioner, photo):
    given = captioner.attend(photo, "a dog", votes=True)
    trace = captioner.trace(photo, "a dog")
    assert len(given.votes) == len(trace.steps) - 1 == 2
    for t, step in enumerate(trace.steps):
        for candidate in step.top:
            assert sum(candidate.parts.values()) == pytest.approx(candidate.logit, abs=1e-4)
        said = trace.candidate(t, step.word)
        shared_out = trace.votes(t).sum() + trace.vote_of_mean(t)
        assert shared_out == pytest.approx(said.parts["photo"], abs=1e-4)
        if t < 2:
            np.testing.assert_allclose(
                step.attention_weights, given.attention_weights[t], atol=1e-5
            )
            np.testing.assert_allclose(trace.votes(t), given.votes[t], atol=1e-5)
            assert said.probability == pytest.approx(given.word_probs[t], abs=1e-5)


# === Errors ===


def test_an_ensemble_is_rejected(plain, photo):
    with pytest.raises(ValueError, match="one network.*single captioner"):
        Ensemble([plain]).trace(photo)


class DoublesItsContext(CaptionDecoder):
    def attend(self, *inputs):
        attended = super().attend(*inputs)
        return attended._replace(context=2 * attended.context)


@pytest.mark.parametrize("options", [{}, {"dtype": "mixed_bfloat16"}])
def test_a_decoder_whose_context_is_not_a_sum_of_regions_is_rejected(options, photo):
    captioner = photo_captioner(**options)
    captioner.decoder.__class__ = DoublesItsContext
    message = "wrong: DoublesItsContext computes its context .*Received: DoublesItsContext,"
    with pytest.raises(ValueError, match=message):
        captioner.trace(photo, "a dog")
    with pytest.raises(ValueError, match=message):
        captioner.caption(photo, votes=True, **GREEDY)
    assert captioner.attend(photo, "a dog").attention_weights.shape == (2, 4, 4)


class NegatesItsLogits(Readout):
    def call(self, *inputs, **options):
        return -0.5 * super().call(*inputs, **options)


class ReadsOnlyTheWord(keras.layers.Layer):
    def call(self, embedded, hidden_state, context, **_):
        return self.word_logits(embedded)


@pytest.mark.parametrize("kind", [NegatesItsLogits, ReadsOnlyTheWord])
def test_a_readout_whose_logits_are_not_the_sum_of_their_parts_is_rejected(kind, photo):
    captioner = photo_captioner()
    captioner.decoder.readout.__class__ = kind
    message = f"wrong: the logits .*Received: readout={kind.__name__}"
    with pytest.raises(ValueError, match=message):
        captioner.trace(photo, "a dog")
    with pytest.raises(ValueError, match=message):
        captioner.caption(photo, votes=True, **GREEDY)


def test_errors(plain, photo):
    for arguments, message in (
        ({"caption": ["a dog"]}, "one sentence"),
        ({"caption": "?!"}, "at least one word"),
        ({"caption": "a dog", "num_beams": 2}, "leave out `caption` or the options.*num_beams=2"),
        ({"num_words": 0}, "`num_words` must be a whole number"),
        ({"num_alternatives": -1}, "`num_alternatives` must be a whole number"),
        ({"num_beems": 3}, "trace has no such option. Did you mean num_beams"),
        ({"beam_size": 3}, "trace has no such option. Did you mean num_beams"),
    ):
        with pytest.raises(ValueError, match=message):
            plain.trace(photo, **arguments)
    with pytest.raises(ValueError, match="one photo"):
        plain.trace([photo, photo])
    with pytest.raises(ValueError, match="expected context"):
        photo_captioner(attention="hard").trace(photo, sample_attention=True)

    trace = plain.trace(photo, "a dog")
    for method in (trace.votes, trace.vote_of_mean, trace.places, trace.alternatives):
        for t in (-1, 3, 0.5):
            with pytest.raises(ValueError, match="`t` must be a whole number from 0 to 2"):
                method(t)
    with pytest.raises(ValueError, match="vocabulary. Received: .*'elephant'"):
        trace.votes(0, "elephant")


def test_the_docstring_names_the_options_of_the_search():
    assert "num_beams:" in inspect.getdoc(Captioner.trace)
