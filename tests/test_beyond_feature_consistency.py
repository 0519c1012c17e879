"""Feature consistency: what it costs, what it changes and what it leaves, and its
epochs within `fit`.
"""

import keras
import numpy as np
import pytest
from helpers import make_captioner, random_pixels
from small_training import train

from data_utils import DATASETS, Vocabulary, make_batches
from data_utils.photo_augmentation import jittered
from keras_sat.__main__ import main
from keras_sat.beyond.feature_consistency import EPSILON, FeatureConsistency, normalised
from keras_sat.captioner import Captioner
from keras_sat.command_line.arguments import build_parser
from keras_sat.files.checkpoint import read_checkpoint


@pytest.fixture(scope="module")
def images():
    return DATASETS["scenes"](None, num_scenes=16, seed=3)


@pytest.fixture
def captioner(images):
    return make_captioner(Vocabulary.build(images), encoder="tiny", image_size=64)


def batches_of(images, captioner):
    return make_batches(
        images, captioner.vocabulary, image_size=64, group_by="image", batch_size=40
    )


def normalised_by_numpy(features):
    centred = features - features.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(features.var(axis=-1, keepdims=True) + EPSILON)


def test_normalised():
    features = np.random.default_rng(0).normal(3, 2, (2, 5, 7)).astype(np.float32)
    features[0, 0] = 0
    found = np.asarray(normalised(features))
    np.testing.assert_allclose(found, normalised_by_numpy(features), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1].var(axis=-1), 1, rtol=1e-2)
    assert (found[0, 0] == 0).all()


def test_it_costs_how_far_features_move(captioner, images, monkeypatch):
    teacher = captioner.adapted()
    objective = FeatureConsistency(teacher)
    monkeypatch.setattr(objective, "_changed", lambda photos, chance: 255 - photos)
    batch = next(iter(batches_of(images, captioner)))
    found = objective(captioner, batch)
    photos = batch[0][0].numpy()
    before, after = (normalised_by_numpy(teacher.encode(x)) for x in (photos, 255 - photos))
    each = ((after - before) ** 2).mean(axis=(1, 2))
    np.testing.assert_allclose(found.figures["loss"][0], each, rtol=1e-3)
    assert float(found.mean) == pytest.approx(each.mean(), rel=1e-3)


def test_photos_change_by_their_own_chance(captioner):
    objective = FeatureConsistency(captioner, strength=0.5)
    photos = random_pixels(2, 16, 16, 3)
    found = objective._changed(photos, np.array([[0.25, 0.5], [0.75, 0.125]], np.float32))
    for photo, seed, changed in zip(photos, ([2**22, 2**23], [3 * 2**22, 2**21]), found):
        np.testing.assert_array_equal(changed, jittered(photo, np.random.default_rng(seed), 0.5))


@pytest.mark.slow
def test_only_the_encoder_learns(captioner, images):
    teacher = captioner.adapted()
    kept = [weight.numpy() for weight in teacher.weights]
    captioner.compile(learning_rate=1e-3, training_objective=FeatureConsistency(teacher))
    history = captioner.fit(batches_of(images, captioner), epochs=15, verbose=0).history["loss"]
    assert np.mean(history[-3:]) < 0.9 * np.mean(history[:3])
    for weight, before in zip(teacher.weights, kept):
        np.testing.assert_array_equal(weight, before)
    for weight, before in zip(captioner.decoder.weights, teacher.decoder.weights):
        np.testing.assert_array_equal(weight, before)


SIZES = ("embedding_dim", "hidden_dim", "attention_dim")
CONSISTENCY = {"epochs": 1, "consistency_epochs": 2}


@pytest.fixture(scope="module")
def consistency_training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("consistency") / "run"
    return folder, train(folder, show_progress=True, **CONSISTENCY)


@pytest.mark.slow
def test_fit_trains_for_consistency(consistency_training, tmp_path):
    folder, captioner = consistency_training
    assert len(captioner.history["loss"]) == 3
    words, after = (
        Captioner.load(folder / "model"),
        Captioner.load(folder / "consistency" / "model"),
    )
    assert after.weights_digest() == captioner.weights_digest() != words.weights_digest()
    for one, other in zip(words.decoder.weights, after.decoder.weights):
        np.testing.assert_allclose(one, other, rtol=1e-5)  # but for what moving averages round
    epochs, _ = read_checkpoint(folder / "consistency" / "checkpoint")
    assert [epoch["loss"] > 0 for epoch in epochs] == [True, True]


@pytest.mark.slow
def test_it_is_resumed_and_loaded(consistency_training, capsys):
    folder, captioner = consistency_training
    again = train(folder, show_progress=True, **CONSISTENCY)
    assert "this training run ended after consistency epoch 2" in capsys.readouterr().out
    assert again.weights_digest() == captioner.weights_digest()
    with pytest.raises(ValueError, match="consistency_rate"):
        train(folder, consistency_rate=1e-5, **CONSISTENCY)


@pytest.mark.slow
def test_nothing_but_the_encoder_changes_whatever_the_optimizer(consistency_training, tmp_path):
    before = Captioner.load(consistency_training[0] / "model")
    sizes = {
        name: getattr(before, name, None) or getattr(before.decoder, name)
        for name in ("encoder", *SIZES)
    }
    optimizer = keras.optimizers.Adam(1e-2)
    options = {"epochs": 0, "consistency_epochs": 1, "initial_model": before, "weight_decay": 0.1}
    options["optimizer"] = optimizer
    captioner = train(tmp_path / "run", **{**options, **sizes})
    assert float(captioner.optimizer.learning_rate) < 1.5e-4
    for one, other in zip(before.decoder.weights, captioner.decoder.weights):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.slow
def test_rewards_follow_it(tmp_path):
    captioner = train(tmp_path / "run", **CONSISTENCY, self_critical_epochs=1, num_drawn=2)
    assert len(captioner.history["loss"]) == 4


def test_a_frozen_encoder_cannot_learn(tmp_path):
    options = {"encoder_training": "frozen", "epochs": 1, "consistency_epochs": 1}
    with pytest.raises(ValueError, match="no effect on a frozen encoder.*consistency_epochs=1"):
        train(tmp_path / "run", **options)
    assert not (tmp_path / "run" / "checkpoint").exists()  # it is noticed before an epoch is spent


def test_the_command_line_has_it(tmp_path, capsys):
    command = [
        "fit",
        "--data",
        "scenes",
        "--consistency-rate",
        "1e-4",
        "--output-dir",
        str(tmp_path / "run"),
    ]
    assert (
        build_parser().parse_args([*command, "--consistency-epochs", "2"]).consistency_epochs == 2
    )
    assert main(command) == 2
    assert (
        "--consistency-rate has no effect without --consistency-epochs" in capsys.readouterr().err
    )
