import inspect
import json
import os
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import NO_DROPOUT, all_slow_but, make_captioner, numpy_weights, write_photos
from PIL import Image

import keras_sat
from data_utils import (
    CaptionedImage,
    FeatureCache,
    Vocabulary,
    draw_scenes,
    load_image,
    make_batches,
)
from keras_sat import ATTENTIONS, Captioner, equations, show_attend_tell_numpy
from keras_sat.files import read_model, saving
from keras_sat.files.model_folder import write_model
from keras_sat.network import ENCODERS
from keras_sat.settings import Optimizer
from keras_sat.training import Cluster

pytestmark = pytest.mark.usefixtures("attentions_of_our_own")
KINDS = [("soft", "additive", "lstm"), ("hard", "dot", "gru")]
CAPTIONS = [
    "a red dog runs",
    "two cats sleep on a sofa",
    "a man rides",
    "the sea at night",
    "snow on a green hill",
    "a girl reads a book",
    "birds",
    "an old car in the rain",
]
SMALL = {"embedding_dim": 24, "hidden_dim": 24, "attention_dim": 24}
SHORT = {"num_beams": 1, "max_length": 4}  # where any caption will do


def random_grid(images):
    """An encoder that knows every photo apart: 2 x 2 cells of 24 numbers that depend on
    all pixels.
    """
    return np.stack(
        [np.random.default_rng(int(image.sum())).normal(size=(2, 2, 24)) for image in images]
    )


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Eight photos with a caption each, their vocabulary and the cache of their
    features.
    """
    folder = tmp_path_factory.mktemp("eight")
    names = [f"{number}.png" for number in range(8)]
    write_photos(folder / "photos", names)
    images = [
        CaptionedImage(str(number), folder / "photos" / name, [CAPTIONS[number]], "train")
        for number, name in enumerate(names)
    ]
    cache = FeatureCache.build(
        folder / "cache",
        [i.image_id for i in images],
        [i.image_path for i in images],
        random_grid,
        image_size=16,
        show_progress=False,
    )
    return images, Vocabulary.build(images), cache


def compiled_captioner(vocabulary, **options):
    captioner = make_captioner(vocabulary, shape=(4, 24), **{**SMALL, **options})
    captioner.compile(learning_rate=1e-2)
    return captioner


def first_batch(eight, **options):
    images, vocabulary, cache = eight
    return next(iter(make_batches(images, vocabulary, cache, shuffle=False, **options)))


# === Training ===


@pytest.mark.slow
@pytest.mark.parametrize("attention, scoring, cell", KINDS)
def test_every_kind_learns_its_captions_by_heart(eight, attention, scoring, cell, tmp_path):
    images, vocabulary, cache = eight
    kind = {"attention": attention, "scoring": scoring, "cell": cell}
    captioner = compiled_captioner(vocabulary, **kind, **NO_DROPOUT)
    history = captioner.fit(
        make_batches(images, vocabulary, cache, batch_size=8), epochs=60, verbose=0
    ).history
    assert history["loss"][-1] < 0.2 * history["loss"][0]
    features = cache.features([image.image_id for image in images])
    results = captioner.caption_features(features)
    assert [result.caption for result in results] == CAPTIONS
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.get_config() == captioner.get_config()
    for one, other in zip(results, loaded.caption_features(features)):
        assert one.caption == other.caption and one.log_prob == other.log_prob
        np.testing.assert_array_equal(one.attention_weights, other.attention_weights)


@pytest.mark.usefixtures("without_graphs")
def test_the_loss_is_that_of_the_paper(eight):
    images, vocabulary, cache = eight
    captioner = compiled_captioner(vocabulary, attention_penalty_weight=0.7)
    batch = first_batch(eight, group_by="image")
    measured = captioner.evaluate(
        make_batches(images, vocabulary, cache, group_by="image", shuffle=False),
        verbose=0,
        return_dict=True,
    )
    (features, input_ids), target_ids, token_weights = (
        tf.nest.map_structure(lambda x: x.numpy(), part) for part in batch
    )
    in_numpy = (features.astype("float64"), input_ids), target_ids, token_weights
    weights = numpy_weights(captioner.decoder)
    loss, without_penalty = (
        show_attend_tell_numpy.objective(weights, in_numpy, penalty_weight=weight)[0]
        for weight in (0.7, 0.0)
    )
    logits, alpha, *_ = show_attend_tell_numpy.call(weights, in_numpy[0][0], input_ids[:, 0])
    is_word = token_weights[:, 0] > 0
    is_right = logits.argmax(axis=-1) == target_ids[:, 0]
    entropies = -(alpha * np.log(alpha)).sum(axis=-1)
    assert len(is_word) == len(images)
    expected = {
        "loss": loss,
        "penalty": (loss - without_penalty) / 0.7,
        "cross_entropy": without_penalty * len(images) / is_word.sum(),
        "token_accuracy": is_right[is_word].mean(),
        "attention_entropy": entropies[is_word].mean(),
    }
    for name, value in expected.items():
        assert measured[name] == pytest.approx(value, rel=1e-5), name
    mean = captioner.objective(batch, training=False).mean
    assert float(mean) == pytest.approx(loss, rel=1e-5)


BASELINE = -9.0


def uneven_batch():
    """Return a batch of three photos with three captions, which have 0 to 5 words; the
    second photo's are in no order.
    """
    random = np.random.default_rng(5)
    lengths = np.array([[5, 3, 1], [2, 4, 0], [5, 5, 2]])
    token_weights = (np.arange(6) < lengths[..., None]).astype("float32")
    input_ids, target_ids = random.integers(4, 24, (2, 3, 3, 6)).astype("int32")
    features = random.normal(size=(3, 4, 24)).astype("float32")
    return (features, input_ids), target_ids, token_weights


def straightforward_loss(captioner, batch, noise, sampled):
    """Return the loss by the equations, which leave out nothing but captions without
    words; `noise` and `sampled` as `call` takes them.
    """
    inputs, target_ids, token_weights = batch
    target_ids, token_weights = target_ids.reshape(9, 6), token_weights.reshape(9, 6)
    decoded = captioner(inputs, noise=noise, sampled=sampled)
    word_log_probs = equations.word_log_probs(decoded.logits, target_ids)
    log_prob = equations.caption_log_prob(word_log_probs, token_weights)
    gain = log_prob
    if captioner.samples_regions:
        location_log_prob = equations.location_log_prob(
            decoded.attention_weights, decoded.selection, token_weights
        )
        entropy = equations.attention_entropy(decoded.attention_weights)
        gain = equations.hard_attention_surrogate(
            log_prob,
            location_log_prob,
            tf.reduce_sum(entropy * token_weights, axis=-1),
            reward=log_prob - BASELINE,
            sampled=sampled,
            reward_weight=captioner.settings.loss.reward_weight,
            entropy_weight=captioner.settings.loss.entropy_weight,
        )
    penalty = equations.attention_penalty(decoded.attention_weights, token_weights)
    penalty_weight = (
        captioner.settings.loss.attention_penalty_weight if captioner.decoder.has_attention else 0.0
    )
    is_caption = token_weights.any(axis=1).astype("float32")
    losses = penalty_weight * penalty - gain
    return tf.reduce_sum(losses * is_caption) / is_caption.sum()


@pytest.mark.parametrize("attention", [*ATTENTIONS, "drawn"])
def test_what_is_left_out_moves_nothing(attention, monkeypatch):
    """Training leaves out padding in the loop and in the readout; `call` and the
    equations leave out nothing.
    """
    words = [f"word{i}" for i in range(20)]
    captioner = make_captioner(words, shape=(4, 24), attention=attention, **SMALL, **NO_DROPOUT)
    captioner.baseline.assign(BASELINE)
    batch = uneven_batch()
    noise = sampled = None
    if captioner.samples_regions:
        noise = np.random.default_rng(6).gumbel(size=(9, 6, 4)).astype("float32")
        sampled = np.tile([1.0, 0.0, 1.0], 3).astype("float32")
    chance = {"noise": noise, "sampled": sampled}
    # Both sides share noise and coins: where they are drawn has a private name.
    monkeypatch.setattr(captioner.paper_objective, "_chance", lambda *_: chance)

    variables = captioner.trainable_variables
    with tf.GradientTape() as tape:
        mean = captioner.objective(batch, training=True).mean
    found = tape.gradient(mean, variables)
    with tf.GradientTape() as tape:
        straightforward = straightforward_loss(captioner, batch, noise, sampled)
    expected = tape.gradient(straightforward, variables)

    assert float(mean) == pytest.approx(float(straightforward), rel=1e-5)
    for variable, one, other in zip(variables, found, expected):
        one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
        np.testing.assert_allclose(one, other, atol=2e-5, err_msg=variable.path)
        assert np.abs(other).max() > 1e-4, variable.path


def test_a_word_that_comes_often_moves_no_further_than_others(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("adam", learning_rate=1e-3, clip_norm=None)
    before = captioner.decoder.embedding.embeddings.numpy()
    captioner.train_step(first_batch(eight, group_by="image"))  # `<start>` comes eight times
    assert np.abs(captioner.decoder.embedding.embeddings.numpy() - before).max() <= 1.01e-3


def test_compile_takes_the_settings_of_the_optimizer_as_an_object_and_by_name(eight):
    captioner = compiled_captioner(eight[1])
    settings = Optimizer(learning_rate=0.25, clip_norm=2.0)
    captioner.compile("sgd", settings=settings, clip_norm=3.0)
    assert captioner.updates.settings == Optimizer(learning_rate=0.25, clip_norm=3.0)
    assert float(captioner.optimizer.learning_rate) == 0.25
    assert captioner.optimizer.global_clipnorm == 3.0


def test_gradients_are_clipped(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("sgd", learning_rate=1.0, clip_norm=1e-2)
    before = [weight.numpy() for weight in captioner.trainable_variables]
    captioner.train_step(first_batch(eight))
    moved = (
        sum(((w.numpy() - old) ** 2).sum() for w, old in zip(captioner.trainable_variables, before))
        ** 0.5
    )
    assert moved == pytest.approx(1e-2, rel=1e-3)


@pytest.mark.slow
def test_xla_and_eager_training_give_the_same(eight):
    logs = []
    for how in ({"jit_compile": True}, {"run_eagerly": True, "jit_compile": False}):
        keras.utils.set_random_seed(0)
        # Without samples: the random numbers of XLA are others.
        captioner = compiled_captioner(eight[1], attention="hard", **NO_DROPOUT)
        captioner.expectation_share.assign(1.0)
        captioner.compile(learning_rate=1e-2, **how)
        batches = tf.data.Dataset.from_tensors(first_batch(eight)).repeat(2)
        history = captioner.fit(batches, epochs=2, verbose=0).history
        logs.append([*history["loss"], *history["token_accuracy"]])
    np.testing.assert_allclose(*logs, rtol=1e-3)


def test_averaged_weights_are_evaluated_and_left_at_the_end(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    batch = first_batch(eight)
    captioner.compile("sgd", learning_rate=0.1, average_momentum=0.2)
    seen = [[weight.numpy() for weight in captioner.trainable_variables]]
    for _ in range(3):
        captioner.train_step(batch)
        seen.append([weight.numpy() for weight in captioner.trainable_variables])
    expected = seen[0]
    for step, weights in enumerate(seen[1:], start=1):
        momentum = min(0.2, step / (step + 10))
        expected = [
            momentum * average + (1 - momentum) * weight
            for average, weight in zip(expected, weights)
        ]
    with captioner.averaged_weights():
        for weight, average in zip(captioner.trainable_variables, expected):
            np.testing.assert_allclose(weight.numpy(), average, atol=1e-6)
    for weight, last in zip(captioner.trainable_variables, seen[-1]):
        np.testing.assert_array_equal(weight.numpy(), last)


@pytest.mark.slow
def test_two_devices_train_as_one():
    command = [sys.executable, Path(__file__).with_name("two_devices.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    one, two = json.loads(printed.splitlines()[-1])
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-5)
    for weight, other in zip(one["weights"], two["weights"]):
        np.testing.assert_allclose(other, weight, atol=1e-5)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_averages_end_with_the_training(eight):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile("sgd", learning_rate=0.1, average_momentum=0.9)
    batches = make_batches(*eight)

    def loss():
        return captioner.evaluate(batches, verbose=0, return_dict=True)["loss"]

    for _ in range(2):  # the second training starts new averages
        before = loss()
        history = captioner.fit(batches, validation_data=batches, epochs=1, verbose=0).history
        assert loss() == pytest.approx(history["val_loss"][-1], rel=1e-5) and loss() < before


@pytest.mark.parametrize(
    "optimizer, options, is_matrix_alone",
    [
        ("adam", {"weight_decay": 0.1}, True),
        ("adamw", {"weight_decay": 0.1}, True),
        (keras.optimizers.AdamW(1.0, weight_decay=0.1), {}, False),  # used as it is
    ],
)
def test_weight_decay_is_for_matrices(eight, optimizer, options, is_matrix_alone):
    captioner = compiled_captioner(eight[1], **NO_DROPOUT)
    captioner.compile(optimizer, learning_rate=1.0, **options)
    captioner.make_training_state()
    before = [weight.numpy() for weight in captioner.trainable_variables]
    captioner.optimizer.apply(
        [np.zeros(weight.shape, "float32") for weight in before], captioner.trainable_variables
    )
    for weight, old in zip(captioner.trainable_variables, before):
        shrinks = old.ndim >= 2 or not is_matrix_alone
        np.testing.assert_allclose(weight.numpy(), old * (0.9 if shrinks else 1.0), atol=1e-6)


@pytest.mark.parametrize("compute", all_slow_but("float16", ["bfloat16", "float16"]))
def test_a_captioner_of_mixed_precision_among_others(eight, compute):
    captioner = compiled_captioner(eight[1], dtype=f"mixed_{compute}")
    captioner.compile("adam")
    assert captioner.decoder.compute_dtype == captioner.adapter.compute_dtype == compute
    scales = isinstance(captioner.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scales == (compute == "float16"), "small gradients would be lost without"
    assert np.isfinite(captioner.train_step(first_batch(eight))["loss"])


def test_batches_of_another_vocabulary_are_rejected(eight):
    images, vocabulary, cache = eight
    captioner = compiled_captioner(vocabulary)
    batches = make_batches(images, Vocabulary(vocabulary.words), cache)
    others = make_batches(images, Vocabulary(vocabulary.words[::-1]), cache)
    cluster = Cluster(tf.distribute.MirroredStrategy(["CPU:0"]))
    reads = {
        "x": [captioner.evaluate, captioner.fit, captioner.build_for],
        "x of several devices": [
            partial(read, captioner) for read in (cluster.fit, cluster.evaluate)
        ],
        "validation_data": [
            lambda others: captioner.fit(batches, validation_data=others),
            lambda others: cluster.fit(captioner, batches, validation_data=others),
        ],
    }
    for name, functions in reads.items():
        message = f"another vocabulary.*Received: {name.split()[0]} with .*captioner.vocabulary"
        for read in functions:
            with pytest.raises(ValueError, match=message):
                read(others)
    captioner.build_for(batches)
    captioner.build_for(others.take(1))  # nothing is known of what was made from batches


def test_a_captioner_needs_an_optimizer(eight):
    with pytest.raises(ValueError, match="Received: optimizer=None"):
        compiled_captioner(eight[1]).compile(None)


def test_an_encoder_rate_without_an_encoder_is_rejected(eight):
    captioner = compiled_captioner(eight[1])
    captioner.compile(encoder_rate=0.5)
    with pytest.raises(ValueError, match="No layer of the encoder is trained"):
        captioner.fit(make_batches(*eight), epochs=1, verbose=0)


@pytest.mark.parametrize("precision", all_slow_but("int8", ["float16", "int8"]))
def test_a_rounded_model_is_about_the_same(eight, precision, tmp_path):
    captioner = compiled_captioner(eight[1], attention_penalty_weight=np.float32(0.25))
    captioner.save(tmp_path / "model", precision=precision)
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.settings.loss.attention_penalty_weight == 0.25, "numbers of numpy are saved too"
    for weight, other in zip(captioner.trainable_variables, loaded.trainable_variables):
        np.testing.assert_allclose(other.numpy(), weight.numpy(), atol=0.01)


@pytest.fixture(scope="module")
def finishing(eight, tmp_path_factory):
    """A captioner that trains the last layers of its encoder, and batches for it."""
    images, vocabulary, _ = eight
    folder = tmp_path_factory.mktemp("finishing")
    ENCODERS["tiny"](image_size=16).save_weights(folder / "tiny.weights.h5")
    options = {
        "encoder": "tiny",
        "encoder_training": "frozen",
        "encoder_weights": folder / "tiny.weights.h5",
    }
    options |= {"encoder_layer": "conv1", "trained_up_to": "coordinates", "image_size": 16}
    captioner = Captioner(vocabulary, **options, **SMALL, **NO_DROPOUT)
    ids, paths = [image.image_id for image in images], [image.image_path for image in images]
    cache = FeatureCache.build(
        folder / "cache", ids, paths, captioner.encoder_model, show_progress=False
    )
    batches = make_batches(images, vocabulary, cache)
    captioner.compile("sgd", learning_rate=1.0, encoder_rate=0.1)
    captioner.build_for(batches)
    return captioner, batches


def test_the_last_layers_of_the_encoder_learn_more_slowly(finishing):
    captioner, batches = finishing
    batch = next(iter(batches))
    assert captioner.feature_shape == (64, 16) and captioner.rows_and_columns() == (4, 4)
    assert len(captioner.encoder_variables) == 4  # kernels and biases of conv2 and conv3
    before = [weight.numpy() for weight in captioner.trainable_variables]
    with tf.GradientTape() as tape:
        loss = captioner.objective(batch, training=True).mean
    gradients = tape.gradient(loss, captioner.trainable_variables)
    norm = float(tf.linalg.global_norm(gradients))
    captioner.train_step(batch)
    slow = {id(weight) for weight in captioner.encoder_variables}
    for weight, old, gradient in zip(captioner.trainable_variables, before, gradients):
        rate = (0.1 if id(weight) in slow else 1.0) * min(1, 5 / norm)
        np.testing.assert_allclose(
            weight.numpy(), old - rate * tf.convert_to_tensor(gradient), atol=1e-5
        )


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_the_last_layers_of_the_encoder_are_saved_with_the_captioner(eight, finishing, tmp_path):
    captioner, batches = finishing
    captioner.train_step(next(iter(batches)))
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.get_config() == captioner.get_config() and loaded.rows_and_columns() == (4, 4)
    path = eight[0][0].image_path
    os.rename(
        captioner.settings.encoder.encoder_weights, tmp_path / "elsewhere"
    )  # this file is not needed any more
    one, other = captioner.caption(path), loaded.caption(path)
    os.rename(tmp_path / "elsewhere", captioner.settings.encoder.encoder_weights)
    assert one.caption == other.caption and one.attention_weights.shape[1:] == (4, 4)
    np.testing.assert_allclose(one.attention_weights, other.attention_weights, atol=1e-6)
    with pytest.warns(UserWarning, match="encoder_weights='other.weights.h5' is ignored"):
        whole = Captioner.load(tmp_path / "model", encoder_weights="other.weights.h5")
    assert whole.get_config() == captioner.get_config()
    with pytest.raises(ValueError, match="must keep its encoder and encoder weights"):
        captioner.adapted(encoder_weights="other.weights.h5")
    on = captioner.adapted(
        attention="hard", encoder_weights=captioner.settings.encoder.encoder_weights
    )
    np.testing.assert_array_equal(
        on.encoder_variables[0].numpy(), captioner.encoder_variables[0].numpy()
    )
    with pytest.raises(
        ValueError,
        match=r"features of 8 x 8 x 16, .*shape \(64, 32\)",
    ):
        Captioner(**captioner.get_config()).build(((None, 64, 32), (None, None)))
    with pytest.raises(ValueError, match="Leave them out. Received: trained_up_to=None"):
        captioner.adapted(trained_up_to=None)
    with pytest.raises(
        ValueError, match="Received: trained_up_to='coordinates', encoder_layer=None"
    ):
        Captioner(eight[1], encoder="tiny", trained_up_to="coordinates")


def test_a_grid_is_checked_and_written_in_one_way(eight):
    for grid in ((8, 8), "8x8"):
        captioner = Captioner(eight[1], encoder="tiny", image_size=32, grid=grid, **SMALL)
        assert captioner.settings.encoder.grid == captioner.get_config()["grid"] == "8x8"
    for grid in ("0x8", (8,), (8, "b")):
        with pytest.raises(ValueError, match='such as "14x14". Received: grid='):
            Captioner(eight[1], encoder="tiny", grid=grid)
    with pytest.raises(ValueError, match="Received: grid='8x8', encoder=None"):
        Captioner(eight[1], encoder=None, grid="8x8")


def test_the_first_layers_of_an_encoder_learn_most_slowly(eight):
    images, vocabulary, _ = eight
    captioner = Captioner(vocabulary, encoder="tiny", image_size=16, **SMALL, **NO_DROPOUT)
    captioner.compile(
        "sgd", learning_rate=1.0, clip_norm=None, encoder_rate=0.5, first_layer_rate=0.04
    )
    batches = make_batches(images, vocabulary, image_size=16)
    captioner.build_for(batches)
    batch = next(iter(batches))
    before = [weight.numpy() for weight in captioner.trainable_variables]
    with tf.GradientTape() as tape:
        loss = captioner.objective(batch, training=True).mean
    gradients = tape.gradient(loss, captioner.trainable_variables)
    captioner.train_step(batch)
    expected = {"conv1": 0.5 * 0.04, "conv2": 0.5 * 0.2, "conv3": 0.5}
    for weight, old, gradient in zip(captioner.trainable_variables, before, gradients):
        moved = -expected.get(weight.path.split("/")[-2], 1.0) * tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(weight.numpy() - old, moved, rtol=1e-3, atol=1e-6)


@pytest.mark.usefixtures("without_graphs")
def test_only_attention_that_draws_shows_a_baseline(eight):
    batch = first_batch(eight)
    assert "baseline" not in compiled_captioner(eight[1]).test_step(batch)
    hard = compiled_captioner(eight[1], attention="drawn")
    hard.expectation_share.assign(0.0)
    assert np.asarray(hard.objective(batch, training=True).sampled).all()
    assert float(hard.train_step(batch)["baseline"]) < 0
    assert float(compiled_captioner(eight[1], attention="none").test_step(batch)["penalty"]) == 0


# === Encoders ===


def bn_encoder():
    images = keras.Input((16, 16, 3))
    grid = keras.layers.Conv2D(24, 8, strides=8, name="conv")(
        keras.layers.Rescaling(1 / 255)(images)
    )
    return keras.Model(images, keras.layers.BatchNormalization(name="norm")(grid), name="small")


@pytest.mark.parametrize("training", ["frozen", "fine-tuned", "scratch"])
def test_what_training_does_to_the_encoder(eight, training):
    images, vocabulary, _ = eight
    encoder = bn_encoder()
    before = encoder.get_weights()
    captioner = Captioner(vocabulary, encoder=encoder, encoder_training=training, **SMALL)
    captioner.compile(learning_rate=1e-2)
    batches = make_batches(images, vocabulary, image_size=16)
    captioner.build_for(batches)
    captioner.train_step(next(iter(batches)))
    moved = {
        weight.name
        for weight, old in zip(encoder.weights, before)
        if not np.array_equal(old, weight.numpy())
    }
    trained, statistics = {"kernel", "bias", "gamma", "beta"}, {"moving_mean", "moving_variance"}
    assert (
        moved == {"frozen": set(), "fine-tuned": trained, "scratch": trained | statistics}[training]
    )


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("training", all_slow_but("fine-tuned", ["frozen", "fine-tuned"]))
def test_an_own_encoder_is_never_taken_for_another(eight, training, tmp_path):
    """Its name says nothing: keras.applications.VGG16 is called "vgg16" too."""
    encoder = bn_encoder()
    encoder = keras.Model(encoder.input, encoder.output, name="tiny")
    captioner = Captioner(eight[1], encoder=encoder, encoder_training=training, **SMALL)
    result = captioner.caption(eight[0][0].image_path, **SHORT)
    captioner.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"trained with a custom encoder|accepts only features"):
        Captioner.load(tmp_path / "model").caption(eight[0][0].image_path)
    other = bn_encoder() if training == "fine-tuned" else encoder
    loaded = Captioner.load(tmp_path / "model", encoder=other)
    assert loaded.caption(eight[0][0].image_path, **SHORT).log_prob == pytest.approx(
        result.log_prob, rel=1e-6
    )


@pytest.mark.usefixtures("without_graphs")
def test_a_frozen_encoder_with_random_weights_is_saved(eight, tmp_path):
    options = {"encoder_training": "frozen", "image_size": 16, **SMALL}
    captioner = Captioner(eight[1], encoder="tiny", **options)
    result = captioner.caption(eight[0][0].image_path, **SHORT)
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model").caption(eight[0][0].image_path, **SHORT)
    assert loaded.log_prob == pytest.approx(result.log_prob, rel=1e-6)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("training", all_slow_but("fine-tuned", ["frozen", "fine-tuned"]))
def test_an_encoder_starts_from_the_bundled_weights(eight, training, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "BUNDLED_MODELS", tmp_path)
    trained = Captioner(eight[1], encoder="tiny", image_size=32, **SMALL)
    trained.build(((None, 32, 32, 3), (None, None)))
    trained.note_training_photos(["a", "b"])
    trained.save(tmp_path / saving.DEFAULT_MODEL)
    options = {
        "encoder": "tiny",
        "encoder_weights": "bundled",
        "encoder_training": training,
        **SMALL,
    }
    captioner = Captioner(eight[1], **options)
    seen = (captioner.training_photos, trained.training_photos)
    np.testing.assert_array_equal(*seen, "`evaluate` must know what the encoder has seen")
    assert captioner.photo_encoder.photo_size == (64, 64), "sizes are its own"
    for old, new in zip(
        trained.encoder_model.weights, captioner.encoder_model.weights, strict=True
    ):
        np.testing.assert_array_equal(old.numpy(), new.numpy())
    expected = captioner.caption(eight[0][0].image_path, **SHORT)
    captioner.save(tmp_path / "model")
    with pytest.raises(ValueError, match="encoder_weights='bundled' with encoder='vgg16'"):
        Captioner(eight[1], encoder="vgg16", encoder_weights="bundled")
    shutil.rmtree(tmp_path / saving.DEFAULT_MODEL)  # as if another one were bundled since
    loaded = Captioner.load(tmp_path / "model")
    for other in (loaded, loaded.adapted(label_smoothing=0.1)):
        assert other.caption(eight[0][0].image_path, **SHORT).log_prob == pytest.approx(
            expected.log_prob, rel=1e-6
        )


@pytest.mark.usefixtures("without_graphs")
def test_a_frozen_encoder_is_made_when_photos_come(eight, monkeypatch):
    (images, vocabulary, _), tiny = eight, ENCODERS["tiny"]
    options = {"encoder": "tiny", "image_size": 16, **SMALL}
    options |= {"encoder_training": "frozen", "encoder_weights": None}
    made = []
    monkeypatch.setitem(ENCODERS, "tiny", lambda **o: made.append(o) or tiny(**o))
    batches = make_batches(images, vocabulary, image_size=16)
    for_features = Captioner(vocabulary, **options)
    for_features.build(((None, 16, 66), (None, None)))
    assert not made
    for_features.compile()
    assert np.isfinite(for_features.fit(batches, epochs=1, verbose=0).history["loss"][0])
    new = Captioner(vocabulary, **options)
    new.compile()
    assert np.isfinite(new.evaluate(batches, verbose=0, return_dict=True)["loss"])
    for captioner in (for_features, new):
        assert not {id(w) for w in captioner.encoder_model.weights} & {
            id(w) for w in captioner.weights
        }


# === Captions ===


@pytest.fixture(scope="module")
def untrained(eight):
    keras.utils.set_random_seed(0)
    return Captioner(eight[1], encoder=bn_encoder(), **SMALL)


def test_photos_in_every_form(eight, untrained):
    path = eight[0][0].image_path
    expected = untrained.caption(path)
    for form in (str(path), Image.open(path), load_image(path)):
        result = untrained.caption(form)
        assert result.words == expected.words and result.log_prob == pytest.approx(
            expected.log_prob, rel=1e-5
        )
    assert expected.image.shape == (16, 16, 3) and expected.image.dtype == np.uint8
    assert expected.caption == " ".join(expected.words)
    assert expected.attention_weights.shape == (len(expected.words), 2, 2)
    np.testing.assert_allclose(expected.attention_weights.sum(axis=(1, 2)), 1, rtol=1e-5)


def test_many_photos_in_batches(eight, untrained):
    paths = [image.image_path for image in eight[0]]
    together = untrained.caption(paths, batch_size=3)
    assert isinstance(together, list) and len(together) == 8 and untrained.caption([]) == []
    array = np.stack([load_image(path) for path in paths])
    for same in (array, tf.constant(array), iter(paths), eight[0]):
        assert [result.caption for result in untrained.caption(same)] == [
            result.caption for result in together
        ]
    for path, result in zip(paths, together):
        alone = untrained.caption(path)
        assert alone.caption == result.caption and alone.log_prob == pytest.approx(
            result.log_prob, rel=1e-5
        )


def test_results_know_the_file_of_their_photo(eight, untrained):
    images, _, cache = eight
    paths = [str(image.image_path) for image in images]
    assert untrained.caption(images[0].image_path).image_path == paths[0]
    assert [result.image_path for result in untrained.caption(images)] == paths
    result = untrained.caption(paths[0], num_beams=3, num_results=3)
    assert [other.image_path for other in result.alternatives] == [paths[0]] * 2
    assert untrained.attend(paths[1], "a dog").image_path == paths[1]
    found = dict(untrained.caption_each([paths[2], "missing.png"], errors="yield"))
    assert found[paths[2]].image_path == paths[2] and isinstance(
        found["missing.png"], FileNotFoundError
    )
    assert untrained.caption(load_image(paths[0])).image_path is None
    captioner = compiled_captioner(eight[1])
    assert [result.image_path for _, result in captioner.caption_each(images, cache=cache)] == paths
    assert [
        result.image_path for _, result in captioner.attend_each(images, "a dog", cache=cache)
    ] == paths


def test_alternatives_come_best_first(eight, untrained):
    result = untrained.caption(eight[0][0].image_path, num_beams=4, num_results=4)
    log_probs = [result.log_prob, *(other.log_prob for other in result.alternatives)]
    assert (
        len(log_probs) == 4
        and len({result.caption, *(o.caption for o in result.alternatives)}) == 4
    )
    finished = [result.is_finished, *(other.is_finished for other in result.alternatives)]
    assert finished == sorted(finished, reverse=True)
    assert log_probs == sorted(log_probs, reverse=True) or len(set(finished)) == 2


def test_sampled_captions_depend_on_the_seed_alone(eight, untrained):
    path = eight[0][0].image_path
    one, same, other = (
        untrained.caption(path, temperature=1.0, num_results=5, seed=seed) for seed in (1, 1, 2)
    )

    def captions(result):
        return [result.caption, *(alternative.caption for alternative in result.alternatives)]

    assert captions(one) == captions(same) != captions(other)
    unseeded = {
        tuple(captions(untrained.caption(path, temperature=1.0, num_results=5))) for _ in range(3)
    }
    assert len(unseeded) == 3, "without a seed each call draws others"
    state = random.getstate()
    untrained.caption(path)
    assert random.getstate() == state, "a search draws nothing"


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("num_members", all_slow_but(2, [1, 2]))
def test_the_probabilities_of_the_words_make_that_of_the_caption(eight, num_members):
    writer = keras_sat.Ensemble(
        [compiled_captioner(eight[1], seed=seed) for seed in range(num_members)]
    )
    features = eight[2].features(["0"])
    (best,) = writer.caption_features(
        features, temperature=2.0, num_results=6, max_length=5, seed=0
    )
    results = [best, *best.alternatives]
    assert {result.is_finished for result in results} == {True, False}
    for result in results:
        assert result.word_probs.shape == (len(result.words),)
        of_words = np.log(result.word_probs.astype(float)).sum()
        if not result.is_finished:
            assert of_words == pytest.approx(result.log_prob, abs=1e-4)
            continue
        (read,) = writer.attend_features(features, result.caption)
        np.testing.assert_allclose(read.word_probs, result.word_probs, rtol=1e-3)
        assert read.log_prob == pytest.approx(result.log_prob, abs=1e-3)
        assert result.log_prob < of_words, "the probability of <end> is in log_prob alone"


@pytest.mark.parametrize(
    "options", [{"temperature": 1.0, "num_results": 2}, {"sample_attention": True}]
)
def test_chance_belongs_to_the_photo_not_to_the_batch(eight, options):
    captioner = compiled_captioner(eight[1], attention="hard")
    features = np.repeat(eight[2].features(["0"]), 5, axis=0)
    options = {"seed": 0, "max_length": 4, **options}
    together, apart = (
        captioner.caption_features(features, batch_size=size, **options) for size in (5, 3)
    )
    for one, other in zip(together, apart):
        assert one.words == other.words and one.log_prob == pytest.approx(other.log_prob, rel=1e-5)
        np.testing.assert_allclose(one.attention_weights, other.attention_weights, atol=1e-5)
    # The same photo five times, each with its own chance.
    assert len({result.log_prob for result in together}) > 1


@pytest.mark.usefixtures("without_graphs")
def test_drawn_places_follow_the_attention_weights(eight):
    captioner = compiled_captioner(eight[1], attention="drawn")
    captioner.decoder.readout.word_logits.bias.assign(
        -10 * np.eye(len(eight[1]))[eight[1].end_token_id]
    )  # never ends
    for result in captioner.caption_features(eight[2].features(["0", "1"]), sample_attention=True):
        assert set(np.unique(result.attention_weights)) == {0.0, 1.0}
        np.testing.assert_array_equal(result.attention_weights.sum(axis=(1, 2)), 1)
    features = np.repeat(eight[2].features(["0"]), 4000, axis=0)
    options = {"num_beams": 1, "max_length": 1, "batch_size": 4000}
    drawn = captioner.caption_features(features, sample_attention=True, **options)
    expected = captioner.caption_features(features[:1], **options)[0].attention_weights
    np.testing.assert_allclose(
        np.mean([r.attention_weights for r in drawn], axis=0), expected, atol=0.035
    )


def test_searching_compiles_once(eight):
    captioner = compiled_captioner(eight[1])
    features = eight[2].features([str(number) for number in range(8)])
    for photos in (1, 3, 8):
        captioner.caption_features(features[:photos])
    (compiled,) = captioner.engine.graphs.values()
    assert compiled.experimental_get_tracing_count() == 1


def test_grid_shapes():
    for regions, grid in ((196, (14, 14)), (7, (1, 7)), (1, (1, 1))):
        captioner = Captioner(["dog"], encoder=None, **SMALL)
        captioner.build(((None, regions, 8), (None, None)))
        assert captioner.rows_and_columns() == grid


@pytest.mark.usefixtures("without_graphs")
def test_the_grid_shape_is_kept(tmp_path):
    images = keras.Input((32, 24, 3))
    captioner = Captioner(
        ["dog"], encoder=keras.Model(images, keras.layers.Conv2D(6, 8, strides=8)(images)), **SMALL
    )
    captioner.build(((None, 32, 24, 3), (None, None)))
    captioner.save(tmp_path / "model")
    loaded = Captioner.load(tmp_path / "model")
    assert loaded.rows_and_columns() == captioner.rows_and_columns() == (4, 3)
    assert loaded.current_options() == captioner.current_options()
    for_features = Captioner(["dog"], encoder=None, grid_shape=(6, 2), **SMALL)
    assert for_features.caption_features(np.zeros((1, 12, 6)))[0].attention_weights.shape[1:] == (
        6,
        2,
    )
    with pytest.raises(ValueError, match=r"must have 10 regions.* Received: grid_shape=\(6, 2\)"):
        Captioner(["dog"], encoder=None, grid_shape=(6, 2), **SMALL).caption_features(
            np.zeros((1, 10, 6))
        )


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "soft attention before reading the last word, additive scoring, no encoder, LSTM of"),
        (
            {"attention": "hard", "attends": "after", "scoring": "bilinear", "sentinel": True},
            "hard attention after reading the last word, bilinear scoring with a sentinel, no",
        ),
        (
            {"attention": "none", "cell": "gru", "num_layers": 2, "encoder": "tiny"},
            "no attention, encoder tiny (scratch), 2 x GRU of",
        ),
    ],
)
def test_a_captioner_says_in_one_line_what_it_is_made_of(options, expected, capsys):
    captioner = Captioner(["dog"], **{"encoder": None, **SMALL, **options})
    assert captioner.description().startswith(expected)
    captioner.build(((None, 64, 64, 3) if options.get("encoder") else (None, 4, 6), (None, None)))
    captioner.summary()
    first, *table = capsys.readouterr().out.splitlines()
    assert first == f"captioner: {captioner.description()}"
    assert any("adapter" in line for line in table), "the table of Keras"
    lines = []
    captioner.summary(print_fn=lines.append)
    assert lines[0] == first and not capsys.readouterr().out


# === Errors ===


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder": "vgg99"}, "Received: encoder='vgg99'"),
        (
            {"encoder": keras.Sequential([keras.layers.Conv2D(3, 2)])},
            "starts with keras.Input.*Received: input_shape=",
        ),
        ({"num_samples": 2.5}, "num_samples=2.5"),
        ({"hiden_dim": 5}, "no such option.*hidden_dim.*Received: hiden_dim"),
        ({"attention_penalty_weight": -1}, "at least 0. Received: attention_penalty_weight=-1"),
        ({"attention": "gentle"}, "Received: attention='gentle'"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        Captioner(["dog"], **{"encoder": None, **options})


def test_impossible_requests(eight, tmp_path):
    captioner = compiled_captioner(eight[1])
    features = eight[2].features(["0"])
    with pytest.raises(ValueError, match=r"attention='soft'.*sample_attention=True"):
        captioner.caption_features(features, sample_attention=True)
    with pytest.raises(ValueError, match=r"num_results=4, num_beams=3"):
        captioner.caption_features(features, num_beams=3, num_results=4)
    assert len(captioner.caption_features(features, num_results=4)[0].alternatives) == 3, (
        "as many beams as that"
    )
    assert captioner.caption_features(features, num_beams=np.int64(1), temperature=np.float32(0.5))
    with pytest.raises(ValueError, match=r"only one of them. .*temperature=1.0, num_beams=2"):
        captioner.caption_features(features, temperature=1.0, num_beams=2)
    with pytest.raises(ValueError, match=r"accepts only features.*Received: encoder=None"):
        captioner.caption(eight[0][0].image_path)
    with pytest.raises(
        ValueError, match=r"\(photos, 4, 24\). Received: features.shape=\(1, 4, 5\)"
    ):
        captioner.caption_features(features[:, :, :5])
    with pytest.raises(
        ValueError, match=r"Expected batches made by make_batches.*Received: x of type"
    ):
        captioner.fit(eight[0])
    with pytest.raises(ValueError, match=r"Received: validation_data of type list"):
        captioner.fit(make_batches(*eight), validation_data=eight[0])
    with pytest.raises(ValueError, match=r"photos of 16 x 16 pixels.*same image_size .*32 x 32"):
        own = Captioner(eight[1], encoder=bn_encoder(), **SMALL)
        own.fit(make_batches(*eight[:2], image_size=32))
    with pytest.raises(ValueError, match=r"own loss and metrics"):
        captioner.compile(loss="mse")
    with pytest.raises(ValueError, match=r"nothing to save"):
        Captioner(["dog"], encoder=None).save(tmp_path)
    with pytest.raises(ValueError, match=r"Expected a Vocabulary.*Received: vocabulary="):
        Captioner("a dog runs", encoder=None)
    for _ in range(2):
        captioner.save(tmp_path / "model")
    with pytest.raises(ValueError, match="There is a model already"):
        captioner.save(tmp_path / "model", overwrite=False)


@pytest.mark.usefixtures("without_graphs")
def test_what_runs_is_the_method_that_the_class_shows():
    """No function is put over another's name, by a class or later on its instances."""
    options = {"hidden_dim": 4, "attention_dim": 256, "attends": "after", "sentinel": True}
    captioner = Captioner(["a", "dog"], encoder=None, **options)
    captioner.build(((None, 196, 3), (None, None)))
    captioner.compile()
    captioner.caption_features(np.ones((1, 196, 3), "float32"), max_length=2)
    assert captioner.decoder.attention_layer.score_method == "fused"
    # Keras lists the layers inside layers under a private name only.
    for part in (captioner, *captioner._flatten_layers()):
        for of_class in type(part).__mro__:
            if not of_class.__module__.startswith("keras_sat."):
                continue
            methods = {name: x for name, x in vars(of_class).items() if inspect.isfunction(x)}
            assert {name: method.__name__ for name, method in methods.items()} == {
                name: name for name in methods
            }
            # Keras itself wraps `build`.
            assert not methods.keys() & vars(part).keys() - {"build"}


def test_weights_of_another_model_are_rejected(eight, tmp_path):
    captioner = compiled_captioner(eight[1])
    captioner.save(tmp_path / "model")
    settings, vocabulary, arrays = read_model(tmp_path / "model")
    for name, array in (
        ("baseline", None),
        ("surplus", np.ones(3)),
        (next(iter(arrays)), np.ones((9, 3))),
    ):
        changed = {
            n: values for n, values in (arrays | {name: array}).items() if values is not None
        }
        write_model(tmp_path / "model", settings, vocabulary, changed)
        with pytest.raises(ValueError, match=f"the weights do not fit the model.* for {name}"):
            Captioner.load(tmp_path / "model")
    arrays["baseline"] = np.array(np.nan, np.float32)
    write_model(tmp_path / "model", settings, vocabulary, arrays)
    with pytest.raises(ValueError, match=r"weights-.*npz: baseline contains NaN"):
        Captioner.load(tmp_path / "model")


def test_an_adapted_captioner_keeps_all_trained_weights(eight):
    before = compiled_captioner(eight[1], feature_projection_dim=24)  # as long as the features are
    with pytest.raises(
        ValueError, match="the shapes of trained weights.*feature_projection_dim=None"
    ):
        before.adapted(feature_projection_dim=None)


def test_an_adapted_captioner_goes_on_with_its_words(eight):
    _, vocabulary, cache = eight
    before = compiled_captioner(vocabulary)
    words = [*reversed(vocabulary.words), "zebra"]
    after = before.adapted(Vocabulary(words), attention="hard", dropout_after_readout=0.1)
    assert (
        after.vocabulary.words == words
        and after.samples_regions
        and after.decoder.settings.dropout_after_readout == 0.1
    )
    features = cache.features(["0"])
    logits = [
        model((features, np.array([[1, *model.vocabulary.caption_to_ids(CAPTIONS[0])]]))).logits[0]
        for model in (before, after)
    ]
    same = [after.vocabulary.tokens.index(token) for token in vocabulary.tokens]
    np.testing.assert_allclose(np.array(logits[1])[:, same], logits[0], atol=1e-6)
    assert before.adapted().weights_digest() == before.weights_digest() != after.weights_digest()


def test_an_adapted_captioner_takes_its_encoder_along(tmp_path):
    vocabulary, training = Vocabulary(["a", "dog"]), "fine-tuned"
    before = Captioner(
        vocabulary, encoder="tiny", encoder_training=training, image_size=32, **SMALL
    )
    before.build(((None, 32, 32, 3), (None, None)))
    after = before.adapted(label_smoothing=0.1)
    for old, new in zip(before.encoder_model.weights, after.encoder_model.weights, strict=True):
        np.testing.assert_array_equal(old.numpy(), new.numpy())
    frozen = before.adapted(encoder_training="frozen")
    frozen.save(tmp_path / "frozen")
    for captioner in (frozen, Captioner.load(tmp_path / "frozen"), frozen.adapted()):
        assert (
            not captioner.encoder_variables
            and captioner.settings.encoder.encoder_training == "frozen"
        )
        for old, new in zip(
            before.encoder_model.weights, captioner.encoder_model.weights, strict=True
        ):
            np.testing.assert_array_equal(old.numpy(), new.numpy())
    own = Captioner(vocabulary, encoder=bn_encoder(), encoder_training=training, **SMALL)
    own.build(((None, 16, 16, 3), (None, None)))
    with pytest.raises(
        ValueError, match=r"the shapes of trained weights.*encoder_training='frozen'"
    ):
        own.adapted(encoder_training="frozen")
    with pytest.raises(ValueError, match=r"shapes of trained weights.*hidden_dim=7 \(it is 24\)"):
        before.adapted(hidden_dim=7)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
@pytest.mark.parametrize("trained", ["all", "the last layers"])
def test_an_adapted_captioner_may_look_at_a_finer_grid(tmp_path, trained):
    photo = draw_scenes(1, seed=3, image_size=64)[0].image
    options = {"encoder": "efficientnet_lite0", "encoder_weights": None, "image_size": 64, **SMALL}
    options |= {"encoder_training": "fine-tuned" if trained == "all" else "frozen"}
    if trained == "the last layers":
        options |= {"encoder_layer": "block_7", "trained_up_to": "top"}
    shape = {"all": (None, 64, 64, 3), "the last layers": (None, 16, 80)}[trained]
    before = Captioner(Vocabulary(["a", "dog"]), **options)
    before.build((shape, (None, None)))
    finer = before.adapted(grid="4x4")
    assert (before.rows_and_columns(), finer.rows_and_columns()) == ((2, 2), (4, 4))
    one, other = (captioner.decoder_features(photo[None]) for captioner in (before, finer))
    np.testing.assert_allclose(
        np.reshape(other, (4, 4, -1))[1::2, 1::2].reshape(4, -1), one[0], atol=1e-4
    )
    finer.save(tmp_path / "finer")
    loaded = Captioner.load(tmp_path / "finer")
    assert loaded.caption(photo).attention_weights.shape[1:] == (4, 4)
    assert loaded.caption(photo).log_prob == pytest.approx(finer.caption(photo).log_prob, rel=1e-5)
    again = loaded.adapted(grid=None)
    assert again.caption(photo).log_prob == pytest.approx(before.caption(photo).log_prob, rel=1e-5)


def test_weights_are_restored_in_place(eight, tmp_path):
    _, vocabulary, _ = eight
    captioner, other = compiled_captioner(vocabulary), compiled_captioner(vocabulary)
    captioner.save(tmp_path / "model")
    assert other.weights_digest() != captioner.weights_digest()
    other.restore_weights(tmp_path / "model")
    assert other.weights_digest() == captioner.weights_digest()
    with pytest.raises(ValueError, match="different vocabulary"):
        compiled_captioner(Vocabulary(["a"])).restore_weights(tmp_path / "model")


def test_photos_are_read_by_the_photo_loader(untrained, monkeypatch):
    requests = []

    def load_black(image, size):
        requests.append((image, size))
        return np.zeros((*size, 3), np.uint8)

    monkeypatch.setattr(untrained, "photo_loader", load_black)
    result = untrained.caption("s3://bucket/photo.jpg")
    assert requests == [("s3://bucket/photo.jpg", (16, 16))] and not result.image.any()
