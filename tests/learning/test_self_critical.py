import itertools
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from helpers import NO_DROPOUT, make_captioner
from small_training import SELF_CRITICAL, At, train

import keras_sat
from data_utils import DATASETS, Vocabulary, make_batches
from keras_sat import Captioner, SelfCritical, equations
from keras_sat.files import read_checkpoint
from keras_sat.learning import self_critical
from keras_sat.learning.self_critical import CaptionReward, DrawnDropout, mean_of_others
from keras_sat.measuring import DocumentFrequencies
from keras_sat.measuring.cider_score import cider_of_photos
from keras_sat.search import allowed_logits, run_search, special_tokens
from keras_sat.settings import Search
from keras_sat.training import callbacks

REGIONS, DIM, LENGTH = 3, 4, 2
WORDS = ["red", "green", "blue"]
CAPTIONS = [["red green", "green"], ["blue", "blue red"], ["green green"]]


def colour_captioner(**options):
    sizes = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 3}
    options = {**sizes, **NO_DROPOUT, **options}
    return make_captioner(WORDS, shape=(REGIONS, DIM), scale=0.8, **options)


def batch_of(captions, vocabulary):
    """Return a batch of photos with their captions, as make_batches makes it."""
    ids = [[vocabulary.caption_to_ids(caption) for caption in of_photo] for of_photo in captions]
    time = max(len(words) for of_photo in ids for words in of_photo) + 1
    target_ids = np.zeros((len(ids), max(map(len, ids)), time), "int32")
    for photo, of_photo in enumerate(ids):
        for number, words in enumerate(of_photo):
            target_ids[photo, number, : len(words) + 1] = [*words, vocabulary.end_token_id]
    features = np.random.default_rng(2).normal(size=(len(ids), REGIONS, DIM)).astype("float32")
    return (features, target_ids), target_ids, (target_ids > 0).astype("float32")


def every_caption(vocabulary):
    """Return all captions of at most LENGTH words as the search writes them, (captions,
    LENGTH).
    """
    words = [vocabulary.caption_to_ids(word)[0] for word in WORDS]
    longer = itertools.product(words, [*words, vocabulary.end_token_id])
    return np.array([(vocabulary.end_token_id, 0), *longer], "int32")


def exact_gradient(captioner, objective, batch):
    """Return the gradient of the expected reward of the first photo, by listing all
    captions.
    """
    (features, _), target_ids, _ = batch
    token_ids = every_caption(captioner.vocabulary)
    rewards = objective.reward(token_ids[None], target_ids[:1])[0]
    input_ids = np.concatenate([np.ones_like(token_ids[:, :1]), token_ids[:, :1]], axis=1)
    with tf.GradientTape() as tape:
        logits = captioner((features[:1], input_ids)).logits
        rows = tf.reshape(logits, (-1, logits.shape[-1])) / self_critical.TEMPERATURE
        allowed = allowed_logits(rows, **special_tokens(captioner.vocabulary))
        log_probs = equations.word_log_probs(tf.reshape(allowed, logits.shape), token_ids)
        probabilities = tf.exp(tf.reduce_sum(tf.where(token_ids > 0, log_probs, 0.0), axis=1))
        expected = tf.reduce_sum(probabilities * rewards)
    assert float(tf.reduce_sum(probabilities)) == pytest.approx(1, abs=1e-5)
    return flat(tape.gradient(expected, captioner.trainable_variables))


def flat(gradients):
    return np.concatenate([np.ravel(tf.convert_to_tensor(gradient)) for gradient in gradients])


@pytest.mark.parametrize(
    ("reward_baseline", "kind"),
    [("greedy", {}), ("others", {"attention": "none", "cell": "gru"})],
)
@pytest.mark.slow
def test_the_mean_of_drawn_gradients_is_that_of_the_expected_reward(
    reward_baseline, kind, monkeypatch
):
    monkeypatch.setattr(self_critical, "NUM_DRAWN", 40)
    monkeypatch.setattr(self_critical, "TEMPERATURE", 0.8)
    captioner = colour_captioner(**kind)
    options = {"max_length": LENGTH, "reward_baseline": reward_baseline}
    objective = SelfCritical(CAPTIONS, captioner.vocabulary, **options)
    batch = batch_of(CAPTIONS[:1], captioner.vocabulary)

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            cost = objective(captioner, batch).mean
        return tape.gradient(cost, captioner.trainable_variables)

    drawn = -np.array([flat(gradient()) for _ in range(200)])
    exact = exact_gradient(captioner, objective, batch)
    deviation = np.abs(drawn.mean(axis=0) - exact) / (
        drawn.std(axis=0) / np.sqrt(len(drawn)) + 1e-6
    )
    size = np.linalg.norm(exact)
    assert size > 0.05, "there is something to learn"
    assert deviation.max() < 5
    assert (
        np.linalg.norm(drawn.mean(axis=0) - exact) < 0.1 * size < np.linalg.norm(drawn[0] - exact)
    )


def test_the_reward_is_cider():
    vocabulary = Vocabulary(WORDS)
    reward = CaptionReward(CAPTIONS, vocabulary)
    _, target_ids, _ = batch_of(CAPTIONS, vocabulary)
    written = every_caption(vocabulary)
    rewards = reward(np.stack([written] * len(CAPTIONS)), target_ids)
    frequencies = DocumentFrequencies(CAPTIONS)
    for number, ids in enumerate(written):
        for photo, references in enumerate(CAPTIONS):
            (expected,) = cider_of_photos([references], [vocabulary.ids_to_words(ids)], frequencies)
            assert rewards[photo, number] == pytest.approx(expected, abs=1e-5)
    assert np.ptp(rewards) > 1


def test_the_mean_of_the_others():
    received = np.asarray(mean_of_others(tf.constant([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])))
    np.testing.assert_allclose(received, [[4.0, 3.5, 1.5], [1.5, 1.5, 0.0]])


def test_what_is_read_is_what_was_drawn_with_dropout_too():
    captioner = colour_captioner(dropout_before_readout=0.5, dropout_after_readout=0.5)
    (features, _), *_ = batch_of(CAPTIONS, captioner.vocabulary)
    dropout = DrawnDropout(captioner.decoder, 3)
    assert set(np.unique(dropout.masks[0])) == {0.0, 2.0}
    noise = np.random.default_rng(0).random((12, 5), dtype="float32")

    def log_probs(dropout):
        drop = None if dropout is None else dropout.of_photos(np.repeat(np.arange(3), 4))
        step, state = captioner.steps(features, 4, drop=drop)
        search = Search(temperature=1.0, num_results=4, max_length=5)
        found = run_search(step, state, search, captioner.vocabulary, REGIONS, noise)
        token_ids = tf.reshape(found.token_ids, (12, 5))
        input_ids = np.concatenate([np.ones((12, 1), "int32"), token_ids[:, :-1]], axis=1)
        order = (
            np.argsort(-(np.asarray(token_ids) > 0).sum(axis=1).reshape(3, 4), axis=1)
            + 4 * np.arange(3)[:, None]
        )
        rows = order.ravel()
        drop_of = None if dropout is None else lambda rows: dropout.of_photos(rows // 4)
        ids = (
            input_ids[rows],
            np.asarray(token_ids)[rows],
            (np.asarray(token_ids)[rows] > 0).astype("float32"),
        )
        read = captioner.read(features, *ids, drop_of=drop_of)
        word_log_probs = read.unpack_words(equations.word_log_probs(read.logits, read.targets))
        received = equations.caption_log_prob(word_log_probs, ids[2])
        return np.ravel(found.log_probs)[rows], np.asarray(received)

    found, received = log_probs(dropout)
    np.testing.assert_allclose(received, found, rtol=1e-4)
    plain, _ = log_probs(None)
    assert not np.allclose(plain, found, rtol=1e-2)


def test_word_detectors_stay_as_they_are():
    captioner = colour_captioner(guide_weight=0.5, attends="after", sentinel=True)
    captioner.compile(
        "sgd", training_objective=SelfCritical(CAPTIONS, captioner.vocabulary, max_length=3)
    )
    detectors, before = captioner.term_layers[0].get_weights(), captioner.decoder.get_weights()
    captioner.train_step(batch_of(CAPTIONS, captioner.vocabulary))
    assert detectors and all(map(np.array_equal, detectors, captioner.term_layers[0].get_weights()))
    assert not all(map(np.array_equal, before, captioner.decoder.get_weights()))


def test_boxes_hold_attention_where_it_is():
    """They cost what they cost with words: of people's captions, in the mean over
    these.
    """
    captioner = colour_captioner(attends="after", box_weight=0.7)
    (on_boxes,) = captioner.paper_objective.terms
    (features, input_ids), target_ids, weights = batch_of(CAPTIONS, captioner.vocabulary)
    covered = np.zeros((*target_ids.shape, REGIONS), "float32")
    covered[0, 0, :2, 1] = 1.0
    batch = (features, input_ids, covered), target_ids, weights
    objective = SelfCritical(CAPTIONS, captioner.vocabulary, max_length=3)

    def measured(weight):
        on_boxes.weight = weight
        captioner.random_generator.state.assign([3, 4])
        return objective(captioner, batch)

    plain, with_boxes = measured(0.0), measured(0.7)
    read = captioner.read(
        features, *(np.reshape(x, (-1, x.shape[-1])) for x in (input_ids, target_ids, weights))
    )
    off_boxes = equations.box_loss(read.attention_weights[:1, :2], covered[0, :1, :2])
    expected = 0.7 * np.asarray(off_boxes).sum() / 5  # captions
    assert expected > 0.01 and len(weights.any(axis=-1).ravel().nonzero()[0]) == 5
    assert float(with_boxes.mean) == pytest.approx(float(plain.mean) + expected, rel=1e-4)
    values, is_named = with_boxes.figures["off_boxes"]
    assert np.asarray(is_named).sum() == 2 and np.shape(values) == np.shape(is_named)


@pytest.mark.slow
def test_it_makes_good_captions_more_probable(scene_images, scene_cache, monkeypatch):
    monkeypatch.setattr(self_critical, "NUM_DRAWN", 8)
    monkeypatch.setattr(self_critical, "TEMPERATURE", 1.0)
    images = [image for image in scene_images if image.split == "train"][:8]
    vocabulary = Vocabulary.build(images)
    sizes = {"embedding_dim": 16, "hidden_dim": 32, "attention_dim": 16, "label_smoothing": 0.1}
    quiet = {"dropout_before_readout": 0.0, "dropout_after_readout": 0.0}
    captioner = Captioner(vocabulary, encoder=None, attention="hard", cell="gru", **sizes, **quiet)
    batches = make_batches(images, vocabulary, scene_cache, 40, group_by="image")
    captioner.compile("adam", learning_rate=1e-2)
    captioner.fit(batches, epochs=60, verbose=0)
    captions = [image.captions for image in images]
    objective = SelfCritical(captions, vocabulary, reward_baseline="others")
    captioner.compile("adam", learning_rate=2e-3, training_objective=objective)
    history = captioner.fit(batches, validation_data=batches, epochs=40, verbose=0).history
    rewards = history["reward"]
    assert np.mean(rewards[-5:]) > 1.3 * np.mean(rewards[:5])
    assert {"loss", "reward", "baseline_reward", "val_cross_entropy"} <= history.keys()
    assert "cross_entropy" not in history
    captioner.compile("adam")  # and back to the paper's loss
    assert "cross_entropy" in captioner.fit(batches, epochs=1, verbose=0).history


def test_errors(scene_images, scene_cache):
    vocabulary = Vocabulary(WORDS)
    for options in ({"reward_baseline": "none"}, {"max_length": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            SelfCritical(CAPTIONS, vocabulary, **options)
    captioner = Captioner(
        Vocabulary.build(scene_images), encoder=None, embedding_dim=3, hidden_dim=3, attention_dim=3
    )
    objective = SelfCritical([image.captions for image in scene_images], captioner.vocabulary)
    captioner.compile("adam", training_objective=objective)
    with pytest.raises(ValueError, match='group_by="image"'):
        captioner.fit(make_batches(scene_images, captioner.vocabulary, scene_cache), verbose=0)


@pytest.fixture(scope="module")
def rewarded_and_its_half(tmp_path_factory):
    """A training with two epochs on words and three on rewards: its folder and its
    captioner. Then its folder as it was in the middle of the last of them, as if it had
    been killed there.
    """
    folder, half = tmp_path_factory.mktemp("rewarded"), tmp_path_factory.mktemp("half") / "run"

    keep_half = At(2, lambda: shutil.copytree(folder, half))
    return folder, train(folder, epochs=2, **SELF_CRITICAL, callbacks=[keep_half]), half


@pytest.fixture(scope="module")
def rewarded(rewarded_and_its_half):
    return rewarded_and_its_half[:2]


@pytest.mark.slow
def test_basics(rewarded):
    folder, captioner = rewarded
    assert len(captioner.history["loss"]) == 5
    assert (
        np.isnan(captioner.history["reward"][:2]).all()
        and np.isfinite(captioner.history["reward"][2:]).all()
    )
    assert np.isfinite(captioner.history["val_cider"]).all()
    loaded = Captioner.load(folder / "self_critical" / "model")
    assert loaded.weights_digest() == captioner.weights_digest()
    assert (folder / "model" / "config.json").exists(), "the captioner from before is still there"
    kept = read_checkpoint(folder / "self_critical" / "checkpoint")[0]
    assert len(kept) == 3 and all("reward" in figures for figures in kept)


@pytest.mark.slow
def test_ended_it_is_loaded(rewarded, monkeypatch, capsys):
    folder, captioner = rewarded
    monkeypatch.setattr(Captioner, "fit", None)
    again = train(folder, epochs=2, **SELF_CRITICAL, show_progress=True)
    assert again.weights_digest() == captioner.weights_digest()
    np.testing.assert_array_equal(again.history["reward"], captioner.history["reward"])
    assert "ended after self-critical epoch 3" in capsys.readouterr().out
    with pytest.raises(ValueError, match="self_critical_rate was 0.001 and is 0.002"):
        train(folder, epochs=2, **{**SELF_CRITICAL, "self_critical_rate": 2e-3})


@pytest.mark.slow
def test_killed_and_run_again_it_ends_as_if_nothing_had_happened(
    rewarded_and_its_half, tmp_path, capsys
):
    folder, _, half = rewarded_and_its_half
    again = shutil.copytree(half, tmp_path / "again")
    assert len(read_checkpoint(again / "self_critical" / "checkpoint")[0]) == 2
    train(again, epochs=2, **SELF_CRITICAL, show_progress=True)
    assert "resuming after self-critical epoch 2" in capsys.readouterr().out
    (_, weights), (_, expected) = (
        read_checkpoint(path / "self_critical" / "checkpoint") for path in (again, folder)
    )
    for name, values in expected.items():
        np.testing.assert_allclose(weights[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_any_saved_model_can_be_trained_on_and_never_gets_worse(
    rewarded, tmp_path, capsys, monkeypatch
):
    folder, _ = rewarded
    before = Captioner.load(folder / "model")
    ciders = iter([0.5, 0.4])  # before the epoch and after it
    score = callbacks.score_captions
    monkeypatch.setattr(
        callbacks,
        "score_captions",
        lambda *args, **options: {**score(*args, **options), "val_cider": next(ciders)},
    )
    images = DATASETS["scenes"](None, num_scenes=40, seed=3)
    options = {
        "initial_model": folder / "model",
        "epochs": 0,
        "batch_size": 40,
        "output_dir": tmp_path,
    }
    after = keras_sat.fit(images, **options, **{**SELF_CRITICAL, "self_critical_epochs": 1})
    assert after.weights_digest() == before.weights_digest()
    said = capsys.readouterr().out
    assert (
        "before self-critical training: the captioner scores CIDEr" in said
        and "is better than the initial captioner" in said
    )
    assert len(after.history["reward"]) == 1


@pytest.mark.slow
def test_scores_from_before_are_those_of_the_initial_captioner(rewarded, tmp_path):
    """Scores left by a training stopped in its first epoch do not count for another
    initial captioner.
    """
    folder, _ = rewarded
    images = DATASETS["scenes"](None, num_scenes=40, seed=3)
    options = {
        "epochs": 0,
        "batch_size": 40,
        "output_dir": tmp_path,
        "show_progress": False,
        **SELF_CRITICAL,
    }
    give_up = At(0, lambda: signal.raise_signal(signal.SIGINT))
    better, worse = folder / "self_critical" / "model", folder / "model"
    for model in (worse, better):
        stopped = keras_sat.fit(images, **options, initial_model=model, callbacks=[give_up])
        assert stopped.weights_digest() == Captioner.load(model).weights_digest()
        assert (
            Captioner.load(tmp_path / "self_critical" / "model").weights_digest()
            == stopped.weights_digest()
        )


@pytest.mark.slow
def test_more_epochs_of_cross_entropy_come_too_late(rewarded):
    folder, _ = rewarded
    with pytest.raises(
        ValueError, match="self_critical_epochs in this folder started after epoch 2"
    ):
        train(folder, epochs=3, **SELF_CRITICAL)


@pytest.mark.slow
def test_without_a_dev_split_nothing_is_lost_either(rewarded, tmp_path):
    folder, _ = rewarded
    images = [
        image for image in DATASETS["scenes"](None, num_scenes=40, seed=3) if image.split == "train"
    ]
    options = {
        "epochs": 0,
        "batch_size": 40,
        "initial_model": folder / "model",
        "show_progress": False,
    }
    options |= {**SELF_CRITICAL, "self_critical_epochs": 1}
    give_up = At(0, lambda: signal.raise_signal(signal.SIGINT))
    stopped = keras_sat.fit(images, **options, output_dir=tmp_path / "stopped", callbacks=[give_up])
    assert stopped.weights_digest() == Captioner.load(folder / "model").weights_digest()
    ended = keras_sat.fit(images, **options, output_dir=tmp_path / "ended")
    assert ended.weights_digest() != stopped.weights_digest() and len(ended.history["reward"]) == 1
