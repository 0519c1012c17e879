"""The encoder of a captioner: how it is trained, saved and taken along."""

import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from eight_photos import SHORT, SMALL, small_encoder
from helpers import NO_DROPOUT, all_slow_but

from data_utils import FeatureCache, Vocabulary, draw_scenes, make_batches
from keras_sat import Captioner
from keras_sat.files import saving
from keras_sat.network import ENCODERS


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


@pytest.mark.parametrize("training", ["frozen", "fine-tuned", "scratch"])
def test_what_training_does_to_the_encoder(eight, training):
    images, vocabulary, _ = eight
    encoder = small_encoder()
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
    encoder = small_encoder()
    encoder = keras.Model(encoder.input, encoder.output, name="tiny")
    captioner = Captioner(eight[1], encoder=encoder, encoder_training=training, **SMALL)
    result = captioner.caption(eight[0][0].image_path, **SHORT)
    captioner.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"trained with a custom encoder|accepts only features"):
        Captioner.load(tmp_path / "model").caption(eight[0][0].image_path)
    other = small_encoder() if training == "fine-tuned" else encoder
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
    own = Captioner(vocabulary, encoder=small_encoder(), encoder_training=training, **SMALL)
    own.build(((None, 16, 16, 3), (None, None)))
    with pytest.raises(
        ValueError, match=r"the shapes of trained weights.*encoder_training='frozen'"
    ):
        own.adapted(encoder_training="frozen")
    with pytest.raises(ValueError, match=r"shapes of trained weights.*hidden_dim=7 \(it is 24\)"):
        before.adapted(hidden_dim=7)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
@pytest.mark.parametrize(
    "trained_after, shape",
    [(None, (None, 64, 64, 3)), ("block_4", (None, 64, 40)), ("block_7", (None, 16, 80))],
)
def test_an_adapted_captioner_may_look_at_a_finer_grid(tmp_path, trained_after, shape):
    photo = draw_scenes(1, seed=3, image_size=64)[0].image
    options = {"encoder": "efficientnet_lite0", "encoder_weights": None, "image_size": 64, **SMALL}
    options |= {"encoder_training": "frozen" if trained_after else "fine-tuned"}
    if trained_after:
        options |= {"encoder_layer": trained_after, "trained_up_to": "top"}
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
