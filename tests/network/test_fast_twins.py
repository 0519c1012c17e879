"""Each fast twin has the values and gradients of its plain twin, up to rounding."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import VanillaCell, randomise
from keras import layers

from keras_sat import equations
from keras_sat.network import attention as attention_module
from keras_sat.network import cells as cells_module
from keras_sat.network import decoder as decoder_module
from keras_sat.network.attention import ATTENTIONS, SCORINGS, Attention
from keras_sat.network.cells import CELLS, LoopDense, LSTMCell, late_products
from keras_sat.network.decoder import CaptionDecoder
from keras_sat.network.fast_twins import fast_twins_are_on, without_fast_twins
from keras_sat.settings import Network

PHOTOS, CAPTIONS, REGIONS, DIM, TIME, VOCABULARY = 2, 3, 5, 6, 4, 11
ROWS = PHOTOS * CAPTIONS
NAMES = ("embedded", "hidden_states", "context", "attention_weights", "selection", "from_photo")
# Of each caption; the last is a row that only fills a batch up.
LENGTHS = np.array([4, 2, 1, 3, 3, 0])
KINDS = [
    kind
    for kind in itertools.product(ATTENTIONS, SCORINGS, CELLS)
    if ATTENTIONS[kind[0]].has_attention or kind[1] == "additive"
]


def make_decoder(
    attention="soft",
    scoring="additive",
    cell="lstm",
    *,
    regions=REGIONS,
    dtype="float64",
    decoder_class=CaptionDecoder,
    **options,
):
    sizes = {"embedding_dim": 3, "hidden_dim": DIM, "attention_dim": 4}
    kinds = {"attention": attention, "scoring": scoring, "cell": cell}
    network = Network(**{**kinds, **sizes, **options})
    decoder = decoder_class(VOCABULARY, network, dtype=dtype)
    decoder.build((None, regions, DIM), (None, None))
    randomise(decoder.trainable_weights, scale=0.7, seed=7)
    return decoder


def unrolled(decoder, *, regions=REGIONS, padded=True, sampled=False, forced=False):
    """Return the Unrolled, a cost of its words, and the gradients of weights and
    features.
    """
    random = np.random.default_rng(0)
    dtype = decoder.compute_dtype
    features = tf.constant(random.normal(size=(PHOTOS, regions, DIM)), dtype)
    input_ids = tf.constant(random.integers(0, VOCABULARY, (ROWS, TIME)), "int32")
    is_word = np.arange(TIME) < LENGTHS[:, None] if padded else np.ones((ROWS, TIME), bool)
    noise = tf.constant(random.gumbel(size=(ROWS, TIME, regions)), "float32") if sampled else None
    coins = tf.constant([1.0, 0.0, 1.0, 1.0, 0.0, 1.0]) if sampled else None
    token_weights = tf.constant(is_word, "float32") if padded else None
    forced_maps = np.zeros((ROWS, TIME, regions), "float32")
    forced_maps[1, 0] = forced_maps[3, 2] = 1 / regions
    with tf.GradientTape() as tape:
        tape.watch(features)
        found = decoder.unroll(
            features,
            input_ids,
            noise=noise,
            sampled=coins,
            token_weights=token_weights,
            forced_maps=forced_maps if forced else None,
        )
        found = [
            x * tf.cast(is_word.T[..., None], x.dtype)
            for x in [*found[:-1], *found.extras.values()]
        ]
        factors = [tf.constant(random.normal(size=x.shape), x.dtype) for x in found]
        cost = sum(
            tf.cast(tf.reduce_sum(x * factor), "float64") for x, factor in zip(found, factors)
        )
    sources = [weight.value for weight in decoder.trainable_weights]
    return found, cost, tape.gradient(cost, [*sources, features])


def assert_twins_agree(decoder, *, tolerance=1e-6, **options):
    found, cost, gradients = unrolled(decoder, **options)
    with without_fast_twins():
        plain_found, plain_cost, plain_gradients = unrolled(decoder, **options)
    np.testing.assert_allclose(cost, plain_cost, rtol=tolerance, atol=tolerance)
    for name, fast, plain in zip(NAMES, found, plain_found):
        assert fast.dtype == plain.dtype
        np.testing.assert_allclose(fast, plain, atol=tolerance, err_msg=name)
    names = [*(weight.path for weight in decoder.trainable_weights), "features"]
    for name, fast, plain in zip(names, gradients, plain_gradients):
        assert (fast is None) == (plain is None), name
        if plain is not None:
            fast, plain = tf.convert_to_tensor(fast), tf.convert_to_tensor(plain)
            np.testing.assert_allclose(
                fast, plain, atol=tolerance * max(1, np.abs(plain).max()), err_msg=name
            )
    assert sum(gradient is not None for gradient in plain_gradients) > 7
    return plain_gradients


AFTER_READING = {"attends": "after", "sentinel": True, "num_layers": 3}
QUICK = [
    *((*kind, {"num_layers": 3}) for kind in KINDS[::3]),
    *((*kind, AFTER_READING) for kind in KINDS[1::5]),
]
OPTIONS = [{}, {"attends": "after"}, {"sentinel": True}]
ALL = [(*kind, options) for kind in KINDS for options in ({"num_layers": 3}, AFTER_READING)]
ALL += [(*kind, options) for kind in KINDS[1::4] for options in OPTIONS]


@pytest.mark.parametrize(
    "attention, scoring, cell, options",
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in ALL],
)
def test_the_fast_loop_is_the_plain_one(attention, scoring, cell, options):
    decoder = make_decoder(attention, scoring, cell, **options)
    assert_twins_agree(decoder, sampled=attention == "hard")


@pytest.mark.parametrize(
    "attention, options",
    [("soft", {"padded": False}), ("hard", {"padded": False, "sampled": True}), ("hard", {})],
)
def test_without_padding_and_without_samples(attention, options):
    assert_twins_agree(make_decoder(attention, num_layers=2), **options)


@pytest.mark.parametrize("options", [{}, {"attends": "after", "sentinel": True}])
def test_forced_maps_replace_the_selection_in_both_loops(options):
    decoder = make_decoder("hard", **options)
    assert_twins_agree(decoder, sampled=True, forced=True)
    found, _, _ = unrolled(decoder, sampled=True, forced=True)
    selection = found[NAMES.index("selection")]
    for t, row in ((0, 1), (2, 3)):
        np.testing.assert_allclose(selection[t, row], 1 / REGIONS, rtol=1e-6)
    free, _, _ = unrolled(decoder, sampled=True)
    assert not np.array_equal(free[NAMES.index("selection")], selection)


def test_the_decoder_says_which_loop_it_uses():
    decoder = make_decoder()
    assert decoder.uses_fast_loop
    decoder.uses_fast_loop = False
    plain = unrolled(decoder)
    with without_fast_twins():
        for one, other in zip(plain[0], unrolled(decoder)[0]):
            np.testing.assert_array_equal(one, other)


def test_the_switch_chooses_the_twin_and_goes_back_after_an_error(monkeypatch):
    decoder = make_decoder()
    monkeypatch.setattr(decoder_module, "fast_loop", None)
    with pytest.raises(TypeError):
        unrolled(decoder)
    with pytest.raises(KeyError), without_fast_twins():
        unrolled(decoder)
        raise KeyError
    assert fast_twins_are_on()


class Plain(Attention):
    """A scoring with an ordinary dense layer in it."""

    def __init__(self, attention_dim=None, **kwargs):
        super().__init__(attention_dim, **kwargs)
        self.query = layers.Dense(DIM, use_bias=False, dtype=self.dtype_policy, name="query")

    def build(self, hidden_state_shape, features_shape, **_):
        self.query.build(hidden_state_shape)

    def score(self, hidden_state, projected_features):
        return equations.dot_scores(projected_features, self.query(hidden_state))


class Quick(Plain):
    """The same with a dense layer that the fast loop finds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query = LoopDense(DIM, use_bias=False, dtype=self.dtype_policy, name="query")


class Twice(Quick):
    def score(self, hidden_state, projected_features):
        return super().score(hidden_state, projected_features) + super().score(
            hidden_state, projected_features
        )


class Outside(Quick):
    def project(self, features):
        return self.query(features)

    def score(self, hidden_state, projected_features):
        return equations.dot_scores(projected_features, hidden_state)


class SquaredLSTM(LSTMCell):
    """An LSTM that uses the projection of h_{t-1} for more than the sum."""

    def call(self, projected_inputs, hidden_state, cell_state):
        projected = self.recurrent_projection(hidden_state)
        gates = projected_inputs + projected * keras.ops.tanh(projected)
        return equations.lstm(gates, cell_state), {}


@pytest.mark.parametrize("scoring", [Plain, Quick])
def test_a_scoring_of_ones_own(scoring, monkeypatch):
    monkeypatch.setitem(attention_module.SCORINGS, "mine", scoring)
    assert_twins_agree(make_decoder(scoring="mine"))


@pytest.mark.parametrize("cell", [SquaredLSTM, VanillaCell])
def test_a_cell_of_ones_own(cell, monkeypatch):
    for module in (cells_module, decoder_module):
        monkeypatch.setitem(module.CELLS, "mine", cell)
    assert_twins_agree(make_decoder(cell="mine", num_layers=2))


class ScalesItsContext(CaptionDecoder):
    """The cells read less than the sum of word and context."""

    def attend_and_advance(self, projected_word, state, *inputs):
        look = self.attend(state, *inputs)
        context = self.cells[0].context_projection(look.context)
        state, gates = self.advance(projected_word + 0.3 * context, state)
        return state, look, gates


class ScalesItsInput(CaptionDecoder):
    def advance(self, projected_inputs, state):
        return super().advance(0.3 * projected_inputs, state)


class LooksWithBothLayers(CaptionDecoder):
    def attend(self, state, *inputs):
        bottom, top = state.hidden_states
        return super().attend(state._replace(hidden_states=(bottom, bottom + top)), *inputs)


@pytest.mark.parametrize(
    "decoder_class, options",
    [
        (ScalesItsContext, {}),
        (ScalesItsInput, {}),
        (LooksWithBothLayers, {"num_layers": 2, "attends": "after"}),
    ],
)
def test_a_decoder_of_ones_own(decoder_class, options):
    assert_twins_agree(make_decoder(decoder_class=decoder_class, **options))


def test_a_dense_layer_with_an_activation_in_the_loop(monkeypatch):
    class Squashed(Quick):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.query = LoopDense(DIM, activation="tanh", dtype=self.dtype_policy, name="query")

    monkeypatch.setitem(attention_module.SCORINGS, "mine", Squashed)
    assert_twins_agree(make_decoder(scoring="mine"))


@pytest.mark.parametrize("scoring, calls", [(Twice, 2), (Outside, 0)])
def test_a_loop_dense_that_is_not_called_once_in_each_step_is_rejected(scoring, calls, monkeypatch):
    monkeypatch.setitem(attention_module.SCORINGS, "mine", scoring)
    decoder = make_decoder(scoring="mine")
    with pytest.raises(
        ValueError, match=rf"exactly once in each step.* Received: {calls} calls of layer='.*query'"
    ):
        unrolled(decoder)
    assert late_products.get() is None
    with without_fast_twins():
        unrolled(decoder)
