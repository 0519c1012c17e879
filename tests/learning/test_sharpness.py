"""Sharpness against its definition: the entropy of the maps is minimised in training,
and not measured.
"""

import numpy as np
import pytest
from helpers import batch_with_boxes, make_captioner, numbers


@pytest.mark.parametrize("attention", ["soft", "hard", "none"])
def test_the_entropy_of_the_maps_is_added(attention):
    (_, input_ids, _), targets, weights = batch_with_boxes()
    batch = (numbers(2, 4, 3), input_ids), targets, weights
    options = {"attention": attention, "entropy_weight": 0.0}
    plain, sharp = (make_captioner(**options, sharpness_weight=weight) for weight in (0.0, 0.3))
    for captioner in (plain, sharp):
        captioner.expectation_share.assign(1.0)
    sharp.decoder.set_weights(plain.decoder.get_weights())
    one, other = (captioner.objective(batch, training=True) for captioner in (plain, sharp))
    maps = np.asarray(plain(batch[0]).attention_weights)
    entropy = np.sum(-np.sum(maps * np.log(maps), axis=-1) * np.reshape(weights, (4, -1)), axis=-1)
    assert entropy.min() > 1
    expected = 0.0 if attention == "none" else 0.3 * entropy.mean()  # there is nothing to sharpen
    np.testing.assert_allclose(other.mean - one.mean, expected, rtol=1e-4)
    np.testing.assert_allclose(other.figures["loss"][0], one.figures["loss"][0], rtol=1e-5)
    assert sharp.get_config()["sharpness_weight"] == 0.3
