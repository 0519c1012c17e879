"""Word detectors, what they cost, and the guide: by hand, in numpy, and where it is
known.
"""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import WORDS, batch_with_boxes, make_captioner, numbers
from keras import ops

from data_utils import Vocabulary, make_batches
from data_utils.datasets import PLACELESS
from keras_sat import Captioner, equations
from keras_sat.learning.guide import Guide, word_detectors


def test_a_photo_has_a_word_if_one_of_its_regions_has_it():
    logits = numbers(2, 5, 3)
    p = 1 / (1 + np.exp(-logits.astype(float)))
    expected = 1 - np.prod(1 - p, axis=1)
    np.testing.assert_allclose(equations.detected(logits), expected, rtol=1e-4)
    is_there = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], "float32")
    cross_entropy = -(is_there * np.log(expected) + (1 - is_there) * np.log(1 - expected))
    np.testing.assert_allclose(equations.detection_loss(logits, is_there), cross_entropy, rtol=1e-3)
    np.testing.assert_allclose(
        equations.detector_maps(logits), p / p.sum(axis=1, keepdims=True), rtol=1e-4
    )


@pytest.mark.parametrize("value", [-80.0, 80.0])
def test_nothing_overflows(value):
    logits = tf.Variable(np.full((1, 49, 2), value, "float32"))
    with tf.GradientTape() as tape:
        cost = equations.detection_loss(logits, np.array([[1.0, 0.0]], "float32"))
    assert np.isfinite(cost).all() and np.isfinite(tape.gradient(cost, logits)).all()
    np.testing.assert_allclose(
        equations.detector_maps(logits), np.full((1, 49, 2), 1 / 49), rtol=1e-5
    )


def test_map_cross_entropy_is_least_for_the_map_itself():
    target = np.array([[0.7, 0.2, 0.1]], "float32")
    scores = tf.Variable(np.log(target))
    with tf.GradientTape() as tape:
        cost = equations.map_cross_entropy(target, ops.softmax(scores))
    np.testing.assert_allclose(cost, -(target * np.log(target)).sum(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(cost, scores), np.zeros((1, 3)), atol=1e-6)


def make_guide(weight=0.5):
    guide = Guide(Vocabulary(WORDS), weight=weight)
    guide.detectors.build((None, 3, 4))
    for number, variable in enumerate(guide.detectors.trainable_variables):
        variable.assign(0.2 * numbers(*variable.shape, seed=number))
    return guide


def read(attention_weights, token_weights):
    """Return what the guide takes of TeacherForced captions."""
    return SimpleNamespace(
        attention_weights=attention_weights, extras={}, token_weights=token_weights
    )


def test_words_that_name_nothing_have_no_detector():
    assert make_guide().words == ["dog", "cat", "red", "runs", "sleeps"]
    assert {"a", "the", "is", "of"} <= PLACELESS
    many = Guide(Vocabulary([f"word{number}" for number in range(1200)]), weight=1.0)
    assert len(many.words) == 1000 and many.words[0] == "word0"


def test_what_the_guide_costs():
    """Against loops in numpy: two photos with two captions each, one of which is
    shorter.
    """
    guide, vocabulary = make_guide(), Vocabulary(WORDS)
    features, attention_weights = numbers(2, 3, 4), np.abs(numbers(4, 4, 3, seed=5)) + 0.1
    attention_weights /= attention_weights.sum(axis=-1, keepdims=True)
    captions = ["a red dog", "cat", "in a cat", "a dog in"]
    targets, weights = np.zeros((4, 4), "int32"), np.zeros((4, 4), "float32")
    for row, caption in enumerate(captions):
        ids = [*vocabulary.caption_to_ids(caption), vocabulary.end_token_id]
        targets[row, : len(ids)], weights[row, : len(ids)] = ids, 1
    guide.detectors.get_layer("drop").rate = 0.0
    costs, figures = guide(
        features, targets, read(attention_weights.astype("float32"), weights), []
    )
    p = 1 / (1 + np.exp(-np.asarray(guide.detectors(features), float)))  # (photos, regions, words)
    detected = 1 - np.prod(1 - p, axis=1)
    for row, caption in enumerate(captions):
        photo = row // 2
        named = {
            word for of_photo in captions[2 * photo : 2 * photo + 2] for word in of_photo.split()
        }
        there = np.array([word in named for word in guide.words])
        detection = -np.where(there, np.log(detected[photo]), np.log(1 - detected[photo])).sum()
        difference = 0.0
        for t, word in enumerate(caption.split()):
            if word in guide.words:
                number = guide.words.index(word)
                its_map = p[photo, :, number] / p[photo, :, number].sum()
                difference -= (
                    detected[photo, number] * (its_map * np.log(attention_weights[row, t])).sum()
                )
        assert float(costs[row]) == pytest.approx(0.5 * difference + detection, rel=1e-3)
    values, says = figures["guide"]
    assert values.shape == says.shape == (4, 4) and np.asarray(says)[0, 0] == 0  # of "a"


def test_attention_learns_from_the_maps_and_detectors_from_captions_alone():
    guide = make_guide(weight=1.0)
    guide.detectors.get_layer("drop").rate = 0.0
    scores = tf.Variable(numbers(2, 3, 3))
    targets = np.array([[5, 6, 2], [5, 2, 0]], "int32")
    weights = np.array([[1, 1, 1], [1, 1, 0]], "float32")
    gradients = []
    for factor in (1.0, 3.0):
        guide.weight = factor
        with tf.GradientTape() as tape:
            cost = tf.reduce_sum(
                guide(numbers(1, 3, 4), targets, read(ops.softmax(scores), weights), None)[0]
            )
        gradients.append(
            tape.gradient(cost, [scores, *[w.value for w in guide.detectors.trainable_variables]])
        )
    (one, *of_detectors), (other, *of_same_detectors) = gradients
    np.testing.assert_allclose(3 * one, other, rtol=1e-4, atol=1e-6)
    for gradient, same in zip(of_detectors, of_same_detectors):
        np.testing.assert_allclose(gradient, same, rtol=1e-4)
        assert np.abs(gradient).max() > 0


@pytest.mark.slow
def test_detectors_find_where_a_word_is():
    """Each photo has its words in one cell, the others are noise.

    Captions say which words, not where.
    """
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    detectors, optimizer = word_detectors(3), keras.optimizers.Adam(3e-3)
    detectors.build((None, 9, 6))
    signs = 3 * np.eye(6, dtype="float32")[:3]

    def photos(count):
        there, place = random.random((count, 3)) < 0.4, random.integers(0, 9, (count, 3))
        features = random.normal(scale=0.5, size=(count, 9, 6)).astype("float32")
        for photo, word in np.argwhere(there):
            features[photo, place[photo, word]] += signs[word]
        return features, there.astype("float32"), place

    for _ in range(150):
        features, there, _ = photos(64)
        with tf.GradientTape() as tape:
            cost = (
                tf.reduce_sum(equations.detection_loss(detectors(features, training=True), there))
                / 64
            )
        variables = detectors.trainable_variables
        optimizer.apply(tape.gradient(cost, [variable.value for variable in variables]), variables)
    features, there, place = photos(100)
    maps = np.asarray(equations.detector_maps(detectors(features)))
    found = [
        maps[photo, :, word].argmax() == place[photo, word] for photo, word in np.argwhere(there)
    ]
    assert np.mean(found) > 0.9


def test_the_guide_supervises_the_sentinel_too():
    """It costs more by -log of the fraction from the photo."""
    (_, input_ids, covered), targets, weights = batch_with_boxes()
    captioner = make_captioner(
        guide_weight=1.0, attends="after", sentinel=True, dropout_before_readout=0.0
    )
    captioner.compile("sgd")
    (guide,) = captioner.paper_objective.terms
    guide.detectors.get_layer("drop").rate = 0.0
    batch = (numbers(2, 4, 3), input_ids, covered), targets, weights
    difference, certainty = map(
        np.asarray, captioner.objective(batch, training=True).figures["guide"]
    )
    rows = [np.reshape(x, (-1, x.shape[-1])) for x in (input_ids, targets, weights)]
    adapted = captioner.adapter(batch[0][0])
    read = captioner.read(adapted, *rows)
    from_photo, maps = (
        np.asarray(read.extras["from_photo"])[..., 0],
        np.asarray(read.attention_weights),
    )
    # (photos, regions, words)
    of_words = np.asarray(equations.detector_maps(guide.detectors(adapted)))
    assert (certainty > 0).sum() == 6 and from_photo.max() < 0.9
    for row, t in zip(*np.nonzero(certainty)):
        its_map = of_words[row // 2, :, guide.detector_of[rows[1][row, t]]]
        expected = -(its_map * np.log(maps[row, t])).sum() - np.log(from_photo[row, t])
        assert difference[row, t] == pytest.approx(expected, rel=1e-4)


def test_supervision_of_attention_is_not_kept_for_the_next_training():
    before = make_captioner(guide_weight=0.5, box_weight=1.0)
    loss = before.adapted().settings.loss
    assert (loss.guide_weight, loss.box_weight) == (0, 0)
    assert before.adapted(guide_weight=0.3).settings.loss.guide_weight == 0.3


def test_without_attention_there_is_no_supervision():
    (_, input_ids, covered), targets, weights = batch_with_boxes()
    captioner = make_captioner(attention="none", guide_weight=0.5, box_weight=1.0)
    captioner.compile("sgd")
    figures = captioner.train_step(((numbers(2, 4, 3), input_ids, covered), targets, weights))
    assert not {"guide", "detection", "off_boxes"} & figures.keys()
    assert not any("detectors" in weight.path for weight in captioner.weights)


def test_detectors_are_not_saved(tmp_path):
    captioner, without = make_captioner(guide_weight=0.5), make_captioner()
    captioner.compile("sgd")
    assert any("detectors" in weight.path for weight in captioner.weights)
    assert captioner.named_weights().keys() == without.named_weights().keys()
    captioner.save(tmp_path / "model")
    assert Captioner.load(tmp_path / "model").settings.loss.guide_weight == 0.5


def test_words_that_name_nothing_get_no_supervision():
    captioner = Captioner(Vocabulary(["a", "of"]), encoder=None, guide_weight=0.5)
    assert captioner.paper_objective.terms == []


def test_captions_by_length_cannot_teach_detectors(scene_images, scene_cache):
    """Each caption would count as a photo of its own, without the other words."""
    images = [image for image in scene_images if image.split == "train"][:4]
    captioner = Captioner(
        Vocabulary.build(images), encoder=None, hidden_dim=4, embedding_dim=4, guide_weight=0.5
    )
    captioner.compile("sgd")
    with pytest.raises(ValueError, match="batches of captions by length, with guide_weight=0.5"):
        captioner.fit(make_batches(images, captioner.vocabulary, scene_cache, 8), verbose=0)
