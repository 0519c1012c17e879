import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
import variants
from helpers import all_slow_but, numbers, numpy_weights, randomise

from keras_sat import show_attend_tell_numpy
from keras_sat.network.attention import ATTENTIONS
from keras_sat.network.decoder import CaptionDecoder
from keras_sat.network.fast_twins import without_fast_twins
from keras_sat.settings import Network

PHOTOS, REGIONS, DIM, TIME, VOCABULARY = 2, 5, 6, 4, 11
# What the transcription in variants.py knows.
KNOWN = ("soft", "hard", "none"), ("additive", "dot", "bilinear"), ("lstm", "gru")
HEADINGS = [
    kind for kind in itertools.product(*KNOWN) if kind[0] != "none" or kind[1] == "additive"
]
# Each attention, scoring and cell: other options do not ask which of them it is.
SOME = [("soft", "additive", "lstm"), ("hard", "dot", "gru"), ("soft", "bilinear", "gru")]
SOME += [("none", "additive", "lstm")]
pytestmark = pytest.mark.usefixtures("attentions_of_our_own")


def make_decoder(attention="soft", scoring="additive", cell="lstm", **options):
    sizes = {"embedding_dim": 3, "hidden_dim": DIM, "attention_dim": 4}
    kinds = {"attention": attention, "scoring": scoring, "cell": cell}
    decoder = CaptionDecoder(VOCABULARY, Network(**{**kinds, **sizes, **options}))
    decoder.build((None, REGIONS, DIM), (None, None))
    randomise(decoder.weights, scale=0.7, seed=7)  # biases too, so that a forgotten one is noticed
    return decoder


def inputs(rows_per_photo=1, seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(PHOTOS, REGIONS, DIM)).astype("float32")
    input_ids = random.integers(0, VOCABULARY, (PHOTOS * rows_per_photo, TIME)).astype("int32")
    return features, input_ids, random.gumbel(size=(*input_ids.shape, REGIONS)).astype("float32")


AFTER_READING = {"attends": "after", "sentinel": True, "num_layers": 2}
OPTIONS = [{"readout_activation": "tanh"}, {"num_layers": 2}, {"deep_output": False}]
OPTIONS += [{"attends": "after"}, {"sentinel": True}]


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_forward_pass_is_that_of_the_paper(attention):
    decoder = make_decoder(attention)
    features, input_ids, noise = inputs(rows_per_photo=2)
    sampled = None
    if attention == "soft":
        noise = None
    else:
        sampled = np.ones(len(input_ids))
    decoded = decoder(features, input_ids, noise=noise)
    *expected, _ = show_attend_tell_numpy.call(
        numpy_weights(decoder), np.repeat(features, 2, axis=0), input_ids, noise, sampled
    )
    for ours, theirs in zip(decoded[:3], expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "kind, options",
    [*itertools.product(HEADINGS, [AFTER_READING]), *itertools.product(SOME[:2], OPTIONS)],
)
def test_forward_pass_of_variants_is_that_of_their_transcription(kind, options):
    decoder = make_decoder(*kind, **options)
    features, input_ids, noise = inputs(rows_per_photo=2)
    for used in [None, noise] if decoder.samples_regions else [None]:
        decoded = decoder(features, input_ids, noise=used)
        log_probs = tf.nn.log_softmax(decoded.logits)
        for row, words in enumerate(input_ids):
            row_noise = None if used is None else used[row]
            expected = variants.forward(
                variants.weights_of(decoder), features[row // 2], words, row_noise
            )
            for ours, theirs in zip((log_probs[row], *(x[row] for x in decoded[1:3])), expected):
                np.testing.assert_allclose(ours, theirs, atol=1e-5)
            for extra in decoded.extras.values():
                np.testing.assert_allclose(extra[row], expected[-1], atol=1e-5)


@pytest.mark.parametrize(
    "attention, scoring, cell", [*SOME, ("drawn", "dot", "lstm"), ("even", "dot", "gru")]
)
@pytest.mark.parametrize("options", [{}, {"attends": "after", "sentinel": True}])
def test_steps_one_by_one_give_what_call_gives(attention, scoring, cell, options):
    decoder = make_decoder(attention, scoring, cell, num_layers=2, **options)
    features, input_ids, noise = inputs(rows_per_photo=3)
    noise = noise if decoder.samples_regions else None
    decoded = decoder(features, input_ids, noise=noise)
    state, projected = decoder.initial_state(features, 3), decoder.project_features(features)
    for t in range(TIME):
        step_noise = None if noise is None else noise[:, t]
        step = decoder.step(input_ids[:, t], state, features, projected, noise=step_noise)
        state = step.state
        np.testing.assert_allclose(step.logits, decoded.logits[:, t], atol=1e-5)
        np.testing.assert_allclose(
            step.attention_weights, decoded.attention_weights[:, t], atol=1e-6
        )
        np.testing.assert_allclose(step.selection, decoded.selection[:, t], atol=1e-6)
        for name in decoder.extra_dims:
            np.testing.assert_allclose(step.extras[name], decoded.extras[name][:, t], atol=1e-6)
    assert len(state.hidden_states) == 2
    assert len(state.cell_states) == (2 if cell == "lstm" else 0)


@pytest.mark.parametrize("attention", ["soft", "none"])
@pytest.mark.parametrize("options", [{}, {"attends": "after", "sentinel": True}])
def test_a_grid_is_read_as_its_regions_row_by_row(attention, options):
    decoder = make_decoder(attention, **options)
    grid = numbers(PHOTOS, 2, 3, DIM)
    _, input_ids, _ = inputs()
    of_grid, of_regions = decoder(grid, input_ids), decoder(grid.reshape(PHOTOS, 6, DIM), input_ids)
    assert of_grid.attention_weights.shape == (PHOTOS, TIME, 6)
    np.testing.assert_array_equal(of_grid.logits, of_regions.logits)
    shapes = decoder(keras.Input((2, 3, DIM)), keras.Input((None,), dtype="int32"))
    assert shapes.attention_weights.shape == (None, None, 6)


def test_features_of_another_shape_are_rejected():
    with pytest.raises(ValueError, match=r"or a grid .*Received: .*\(2, 4\)"):
        CaptionDecoder(VOCABULARY)(*inputs()[1::-1])  # the other way round


def test_attention_reads_the_top_layer_before_the_step():
    decoder = make_decoder(num_layers=2)
    features, input_ids, _ = inputs()
    state, projected = decoder.initial_state(features), decoder.project_features(features)
    weights = decoder.step(input_ids[:, 0], state, features, projected).attention_weights
    other_word = decoder.step(
        (input_ids[:, 0] + 1) % VOCABULARY, state, features, projected
    ).attention_weights
    # h_{t-1} knows nothing of the word that comes in now
    np.testing.assert_array_equal(weights, other_word)
    bottom, top = state.hidden_states
    for hidden_states, moves in (((bottom + 1, top), False), ((bottom, top + 1), True)):
        moved = state._replace(hidden_states=hidden_states)
        there = decoder.step(input_ids[:, 0], moved, features, projected).attention_weights
        assert (np.abs(np.asarray(weights) - np.asarray(there)).max() > 1e-3) == moves


@pytest.mark.parametrize("sentinel", [False, True])
def test_attention_after_reading_knows_the_word_and_leaves_the_state_alone(sentinel):
    decoder = make_decoder(num_layers=2, attends="after", sentinel=sentinel)
    features, input_ids, _ = inputs()
    state, projected = decoder.initial_state(features), decoder.project_features(features)
    step = decoder.step(input_ids[:, 0], state, features, projected)
    other_word = decoder.step((input_ids[:, 0] + 1) % VOCABULARY, state, features, projected)
    moved = np.abs(np.asarray(step.attention_weights) - np.asarray(other_word.attention_weights))
    assert moved.max(axis=1).min() > 1e-4
    # Of the same mean.
    mirrored = features[:, ::-1] + [[[1], [-1], [0], [0], [0]]] * np.ones(DIM, "float32")
    elsewhere = decoder.step(input_ids[:, 0], state, mirrored, decoder.project_features(mirrored))
    for one, other in zip(step.state.hidden_states, elsewhere.state.hidden_states):
        # Of the photo only its mean enters the recurrent layers.
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(np.asarray(step.logits) - np.asarray(elsewhere.logits)).max() > 1e-2


def test_the_sentinel_takes_its_share_from_the_photo():
    decoder = make_decoder(attends="after", sentinel=True)
    features, input_ids, _ = inputs()
    shares = np.asarray(decoder(features, input_ids).extras["from_photo"])
    assert shares.min() > 0 and shares.max() < 1 and np.ptp(shares) > 0.05
    assert not decoder.has_gate and not hasattr(decoder, "gate")
    without = make_decoder(attends="after")
    assert (
        without(features, input_ids).extras == make_decoder("none", sentinel=True).extra_dims == {}
    )


def test_the_state_is_carried_on_and_later_words_change_nothing_before_them():
    decoder = make_decoder()
    features, input_ids, _ = inputs()
    input_ids[:] = 3  # the same word each time: only the state can make a difference
    decoded = decoder(features, input_ids)
    for values in (decoded.attention_weights, decoded.logits):
        assert np.abs(np.diff(np.asarray(values), axis=1)).max(axis=(0, 2)).min() > 1e-3
    input_ids[:, 2:] = (input_ids[:, 2:] + 1) % VOCABULARY
    changed = decoder(features, input_ids)
    np.testing.assert_array_equal(decoded.logits[:, :2], changed.logits[:, :2])
    assert (
        np.abs(np.asarray(decoded.logits[:, 2:]) - np.asarray(changed.logits[:, 2:])).max() > 1e-3
    )


@pytest.mark.parametrize("attention", [*ATTENTIONS, "even"])
def test_only_the_recurrent_part_is_in_the_loop(attention, monkeypatch):
    decoder = make_decoder(attention)
    features, input_ids, _ = inputs()
    readout, cell, shapes = decoder.readout, decoder.cells[0], {}

    def spy(layer, call):
        monkeypatch.setattr(
            layer,
            "call",
            lambda x, **_: shapes.setdefault(layer.name, []).append(x.shape) or call(x),
        )

    at_once = [
        cell.input_projection,
        readout.state_readout,
        readout.context_readout,
        readout.word_logits,
    ]
    spied = [*at_once, decoder.embedding, cell.context_projection]
    spied += [decoder.attention_layer.feature_projection] if decoder.has_attention else []
    for layer in spied:
        spy(layer, layer.call)
    decoder(features, input_ids)
    assert shapes.pop("embedding") == [(TIME, PHOTOS)]
    assert shapes.pop("context_projection") == [(PHOTOS, DIM)] * (
        TIME if decoder.has_attention else 1
    )
    assert shapes.pop("feature_projection", None) == (
        [features.shape] if decoder.has_attention else None
    )
    assert {name: [shape[:2] for shape in found] for name, found in shapes.items()} == {
        layer.name: [(TIME, PHOTOS)] for layer in at_once
    }


def test_the_gate_is_one_number_for_each_row_and_forget_gates_start_open():
    decoder = CaptionDecoder(VOCABULARY, hidden_dim=2)
    decoder.build((None, REGIONS, DIM))
    assert decoder.gate.kernel.shape == (2, 1)
    np.testing.assert_array_equal(decoder.cells[0].input_projection.bias, [0, 0, 1, 1, 0, 0, 0, 0])
    assert not make_decoder(context_gate=False).has_gate and not make_decoder("none").has_gate


@pytest.mark.parametrize(
    "attention, xla, options",
    all_slow_but(
        ("soft", False, {}),
        [
            ("soft", False, {}),
            ("soft", True, {"sentinel": True}),
            ("hard", True, {}),
            ("none", True, {}),
        ],
    ),
)
def test_every_weight_has_a_gradient_compiled_too(attention, xla, options):
    decoder = make_decoder(attention, num_layers=2, **options)
    features, input_ids, noise = inputs(rows_per_photo=2)

    def gradients(features, input_ids):
        with tf.GradientTape() as tape:
            decoded = decoder(features, input_ids, noise=noise if decoder.samples_regions else None)
            loss = tf.reduce_sum(decoded.logits**2) + tf.reduce_sum(decoded.attention_weights**2)
        return tape.gradient(loss, decoder.trainable_variables)

    eager = gradients(tf.constant(features), tf.constant(input_ids))
    compiled = tf.function(gradients, jit_compile=xla)(
        tf.constant(features), tf.constant(input_ids)
    )
    for one, other in zip(eager, compiled, strict=True):
        # An error where a gradient is None.
        one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * np.abs(one).max())


def test_one_graph_serves_captions_of_any_length():
    decoder = make_decoder()
    traces = []

    def logits(features, input_ids):
        traces.append(1)
        return decoder(features, input_ids).logits

    specs = [tf.TensorSpec((None, REGIONS, DIM)), tf.TensorSpec((None, None), tf.int32)]
    logits = tf.function(logits, input_signature=specs)
    features, input_ids, _ = inputs()
    for time in (1, 2, TIME):
        expected = decoder(features, input_ids[:, :time]).logits
        np.testing.assert_allclose(logits(features, input_ids[:, :time]), expected, atol=1e-5)
    assert len(traces) == 1


def test_mixed_precision_gives_float32_logits():
    decoder = CaptionDecoder(
        VOCABULARY, hidden_dim=DIM, embedding_dim=3, dtype=keras.DTypePolicy("mixed_float16")
    )
    features, input_ids, _ = inputs()
    decoded = decoder(features.astype("float16"), input_ids)
    assert decoded.logits.dtype == "float32" and np.isfinite(decoded.logits).all()


def test_its_settings_hold_every_option_and_keras_makes_it_again():
    given = {"attention": "hard", "cell": "gru", "num_layers": 2, "dropout_words": 0.25, "seed": 7}
    decoder = CaptionDecoder(5, **given, name="mine", dtype="mixed_bfloat16", trainable=False)
    config = decoder.get_config()
    assert {**Network.defaults(), **given} == {name: config[name] for name in Network.names()}
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(decoder))
    assert again.get_config() == config and again.vocabulary_size == 5 and again.name == "mine"
    assert again.dtype_policy.name == "mixed_bfloat16" and not again.trainable


@pytest.mark.parametrize("where", ["words", "before_readout", "after_readout"])
def test_dropout_acts_in_training_only(where):
    places = ("words", "before_readout", "after_readout")
    none = dict.fromkeys([f"dropout_{place}" for place in places], 0.0)
    decoder, plain = make_decoder(**{**none, f"dropout_{where}": 0.5}), make_decoder(**none)
    features, input_ids, _ = inputs()
    np.testing.assert_allclose(
        decoder(features, input_ids).logits, plain(features, input_ids).logits, atol=1e-6
    )
    state, projected = decoder.initial_state(features), decoder.project_features(features)
    for run in (
        lambda: decoder(features, input_ids, training=True).logits,
        lambda: decoder.step(input_ids[:, 0], state, features, projected, training=True).logits,
    ):
        assert np.abs(np.asarray(run()) - np.asarray(run())).max() > 1e-3


def test_dropout_of_words_drops_them_whole():
    decoder = make_decoder(dropout_words=0.5, dropout_before_readout=0.0, dropout_after_readout=0.0)
    features, input_ids, _ = inputs()
    embedded = keras.ops.convert_to_numpy(
        decoder.unroll(features, input_ids, training=True).embedded
    )
    vectors = keras.ops.convert_to_numpy(decoder.embedding(keras.ops.transpose(input_ids)))
    kept = np.isclose(embedded, 2 * vectors, atol=1e-6).all(axis=-1)
    assert 0 < kept.mean() < 1
    np.testing.assert_array_equal(embedded[~kept], 0)
    np.testing.assert_allclose(decoder.unroll(features, input_ids).embedded, vectors, atol=1e-6)


@pytest.mark.parametrize("options", [{"attention": "none"}, {"attends": "after"}, {}])
def test_the_attend_and_advance_of_a_subclass_is_what_runs(options):
    """The fast loop takes attention out only where it knows the order."""

    class Silent(CaptionDecoder):
        def attend_and_advance(self, *arguments):
            state, look, gates = super().attend_and_advance(*arguments)
            return state, look._replace(context=0 * look.context), gates

    small = {"hidden_dim": 6, "embedding_dim": 4, "attention_dim": 4, **options}
    decoders = [decoder_class(5, **small) for decoder_class in (CaptionDecoder, Silent)]
    features = numbers(2, 4, 3)
    token_ids = np.ones((2, 3), int)
    logits = []
    for decoder in decoders:
        decoder.build((None, 4, 3), (None, None))
        decoder.set_weights(decoders[0].get_weights())
        logits.append(decoder(features, token_ids, training=False).logits)
    assert not np.allclose(*logits)
    with without_fast_twins():
        np.testing.assert_allclose(decoders[1](features, token_ids).logits, logits[1], atol=1e-6)


@pytest.mark.parametrize(
    "name, option", [("AttendAfter", {"attends": "after"}), ("WithSentinel", {"sentinel": True})]
)
def test_a_decoder_of_a_former_class_is_read(name, option):
    decoder = CaptionDecoder(5, hidden_dim=6, **option, name="mine")
    saved = keras.saving.serialize_keras_object(decoder)
    saved["registered_name"] = f"keras_sat>{name}"
    for new in ("attends", "sentinel"):
        del saved["config"][new]
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is CaptionDecoder and again.get_config() == decoder.get_config()
