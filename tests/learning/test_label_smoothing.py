"""Label smoothing against its definition: what is minimised, what is measured, and what
stays without it.
"""

import numpy as np
import pytest
import tensorflow as tf
from helpers import batch_with_boxes, make_captioner, numbers


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_a_fraction_of_each_target_is_spread_over_the_vocabulary(attention):
    (_, input_ids, _), targets, weights = batch_with_boxes()
    batch = (numbers(2, 4, 3), input_ids), targets, weights
    plain, smooth = (
        make_captioner(attention=attention, label_smoothing=fraction) for fraction in (0.0, 0.1)
    )
    smooth.decoder.set_weights(plain.decoder.get_weights())
    one, other = (captioner.objective(batch, training=False) for captioner in (plain, smooth))
    rows = tf.reshape(weights, (4, -1))
    spread = np.sum(np.mean(tf.nn.log_softmax(plain(batch[0]).logits), axis=-1) * rows, axis=-1)
    penalty = 0.33 * np.asarray(one.figures["penalty"][0])
    expected = -0.9 * np.asarray(one.log_prob) - 0.1 * spread + penalty
    np.testing.assert_allclose(other.figures["loss"][0], expected, rtol=1e-5)
    np.testing.assert_allclose(other.mean, expected.mean(), rtol=1e-5)
    np.testing.assert_array_equal(
        one.figures["cross_entropy"][0], other.figures["cross_entropy"][0]
    )
    assert smooth.get_config()["label_smoothing"] == 0.1
