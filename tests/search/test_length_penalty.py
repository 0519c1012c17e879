"""The score of a caption, by which beam search and consensus compare beams."""

import numpy as np
import pytest
import tensorflow as tf

from keras_sat.search.result import caption_score


@pytest.mark.parametrize("length_penalty, score", [(0.0, -6.0), (0.5, -3.0), (1.0, -1.5)])
def test_log_p_is_divided_by_a_power_of_the_length(length_penalty, score):
    assert caption_score(-6.0, 4, length_penalty) == pytest.approx(score)
    array = caption_score(np.array([-6.0]), np.array([4]), length_penalty)
    tensor = caption_score(tf.constant([-6.0]), tf.constant([4.0]), length_penalty)
    np.testing.assert_allclose(array, [score], rtol=1e-6)
    np.testing.assert_allclose(tensor, [score], rtol=1e-6)
