"""Rounding to 8 bits: one rule for model folders and LiteRT files."""

import numpy as np
import pytest
from helpers import numbers

from keras_sat.files.rounding import rounded_to_8_bits


@pytest.mark.parametrize("axis, shape", [(0, (5, 1)), (1, (1, 7))])
def test_each_row_or_column_has_its_scale(axis, shape):
    matrix = numbers(5, 7) * np.geomspace(1e-6, 1e6, 7, dtype="float32")
    matrix[2] = 0
    rounded, scales = rounded_to_8_bits(matrix, axis)
    assert rounded.dtype == np.int8 and scales.dtype == np.float32
    assert rounded.shape == (5, 7) and scales.shape == shape
    assert (np.abs(rounded * scales - matrix) <= scales * 0.501).all()
    greatest = np.abs(rounded).max(axis=1 - axis)
    assert set(greatest.tolist()) <= {0, 127}


def test_zeros_stay_zeros():
    rounded, scales = rounded_to_8_bits(np.zeros((3, 2), "float32"), axis=1)
    assert not rounded.any() and (scales > 0).all()
