"""Boxes in training: what it costs that attention is elsewhere, by hand, in the
objective, and in `fit`.
"""

import math

import numpy as np
import pytest
import tensorflow as tf
from helpers import batch_with_boxes, make_captioner, numbers
from keras import ops

import keras_sat
from data_utils import tokenise
from data_utils.datasets import PLACELESS
from data_utils.datasets.phrase_boxes import Boxes, Phrase
from keras_sat import equations


def box_loss_in_words(attention, covered):
    """An independent transcription of `equations.box_loss` for one word: two lists of a
    number for each region.
    """
    area = sum(covered)
    cost = -math.log(sum(alpha * c for alpha, c in zip(attention, covered)))
    for alpha, c in zip(attention, covered):
        p = 2 * area * alpha / (1 + 2 * area * alpha)
        cost -= (c * math.log(p) + (1 - c) * math.log(1 - p)) / (4 * area)
    return cost


def test_box_loss_by_hand():
    weights, covered = (
        np.array([[0.5, 0.5, 0.0]] * 2, "float32"),
        np.array([[1, 0, 0], [0, 0, 0]], "float32"),
    )
    cost = np.asarray(equations.box_loss(weights, covered))
    assert cost[0] == pytest.approx(-np.log(0.5) + 2 * np.log(2) / 4)  # both p are .5
    assert np.isfinite(cost[1])


def test_box_loss_equals_its_transcription():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(6), (3, 4))
    covered = rng.random((3, 4, 6)) * (rng.random((3, 4, 6)) < 0.5) + 0.01
    found = np.asarray(equations.box_loss(weights.astype("float32"), covered.astype("float32")))
    for row, time in np.ndindex(3, 4):
        expected = box_loss_in_words(weights[row, time].tolist(), covered[row, time].tolist())
        assert found[row, time] == pytest.approx(expected, rel=1e-4)


def test_box_loss_wants_all_of_the_boxes():
    covered = np.array([1, 1, 1, 1, 0, 0], "float32")
    one_cell, half, all_cells = np.eye(6)[0], np.array([1, 1, 0, 0, 0, 0]) / 2, covered / 4
    everywhere = np.full(6, 1 / 6)
    costs = [
        float(equations.box_loss(x.astype("float32"), covered))
        for x in (one_cell, half, everywhere, all_cells)
    ]
    assert costs == sorted(costs, reverse=True) and costs[-1] == pytest.approx(
        np.log(1.5) / 4
    )  # p = 2 / 3


def test_box_loss_pulls_attention_from_far_away():
    scores = tf.Variable([[0.0, 20.0]])
    with tf.GradientTape() as tape:
        cost = equations.box_loss(ops.softmax(scores), np.array([[1.0, 0.0]], "float32"))
    # cross-entropy where attention is missing, and where it is
    far, near = (20 - np.log(2)) / 4, np.log(3) / 4
    np.testing.assert_allclose(cost, [20 + far + near], rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(cost, scores), [[-1.25, 1.25]], atol=1e-5)


def test_batches_say_what_each_word_covers():
    (_, input_ids, covered), targets, _ = batch_with_boxes()
    assert covered.shape == (*input_ids.shape, 4)
    left, corner, nothing = [1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]
    # "a" names nothing
    expected = [[nothing, left, left, nothing], [corner, nothing, nothing, nothing]]
    np.testing.assert_allclose(covered[0], expected)
    np.testing.assert_allclose(covered[1], np.zeros((2, 4, 4)))
    assert targets.shape == input_ids.shape


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_the_objective_with_guide_and_boxes(attention):
    (_, input_ids, covered), targets, weights = batch_with_boxes()
    features = numbers(2, 4, 3)
    options = {"attention": attention, "num_samples": 2 if attention == "hard" else 1}
    plain = make_captioner(**options)
    guided = make_captioner(guide_weight=0.5, box_weight=0.7, **options)
    for captioner in (plain, guided):
        captioner.compile("sgd")
        captioner.decoder.set_weights(plain.decoder.get_weights())
    assert set(map(id, guided.term_layers[0].trainable_variables)) <= set(
        map(id, guided.trainable_variables)
    )
    batch = (features, input_ids, covered), targets, weights
    found = guided.objective(batch, training=True)
    assert {"guide", "detection", "off_boxes"} <= set(found.figures)
    off_boxes, is_named = found.figures["off_boxes"]
    assert np.asarray(is_named).sum() == 3 * options["num_samples"]
    measured = guided.objective(batch, training=False)
    assert "guide" not in measured.figures
    assert float(measured.mean) == pytest.approx(
        float(plain.objective(batch, training=False).mean), rel=1e-5
    )
    guided.train_step(batch)
    without_boxes = guided.objective(((features, input_ids), targets, weights), training=True)
    assert "off_boxes" not in without_boxes.figures


def boxes_of_scenes(images):
    """Return Boxes: the first word that names something is on the left, in the first
    caption of each scene.
    """
    phrases = {}
    for image in images:
        words = tokenise(image.captions[0])
        first = next(number for number, word in enumerate(words) if word not in PLACELESS)
        phrases[image.image_id] = [Phrase(0, first, 1, ((0.0, 0.0, 0.5, 1.0),))]
    return Boxes(phrases)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_fit_takes_boxes_to_words_and_to_rewards(scene_images, tmp_path):
    images = [image for image in scene_images if image.split == "train"][:6]
    images += [image for image in scene_images if image.split == "dev"][:2]
    options = {
        "encoder": "tiny",
        "embedding_dim": 4,
        "hidden_dim": 8,
        "attention_dim": 4,
        "batch_size": 20,
    }
    options |= {
        "group_by": "image",
        "guide_weight": 0.5,
        "box_weight": 0.5,
        "boxes": boxes_of_scenes(images),
    }
    options |= {"epochs": 1, "show_progress": False, "num_views": 2}
    captioner = keras_sat.fit(
        images, output_dir=tmp_path / "run", self_critical_epochs=1, **options
    )
    with_words, with_rewards = (captioner.history["off_boxes"][epoch] for epoch in (0, 1))
    assert with_words > 0 and with_rewards > 0 and with_words != with_rewards
    assert {"guide", "detection"} <= captioner.history.keys()
    on = {**options, "epochs": 0, "initial_model": tmp_path / "run" / "model"}
    (off_boxes,) = keras_sat.fit(
        images, output_dir=tmp_path / "on", self_critical_epochs=1, **on
    ).history["off_boxes"]
    assert off_boxes > 0
    # Another training than the one that is kept there.
    with pytest.raises(ValueError, match="box_weight"):
        keras_sat.fit(
            images, output_dir=tmp_path / "on", self_critical_epochs=1, **{**on, "box_weight": 0.7}
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box_weight": 0.5}, "`boxes` and `box_weight` require each other"),
        ({"boxes": Boxes({})}, "`boxes` and `box_weight` require each other"),
        (
            {"guide_weight": 0.5, "group_by": "length"},
            "all captions of a photo in one batch.*group_by=.image",
        ),
    ],
)
def test_fit_rejects_what_cannot_lead(scene_images, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        keras_sat.fit(
            scene_images, encoder="tiny", output_dir=tmp_path, show_progress=False, **options
        )
