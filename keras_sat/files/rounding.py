"""How weights are rounded to 8 bits, in model folders and in LiteRT files."""

import numpy as np

LARGEST = 127  # of the numbers from -127 to 127
SCALE = "@scale"  # suffix of an int8 array's name, for the array with its scales


def rounded_to_8_bits(array, axis):
    """Return int8 numbers and float32 scales whose product is about the array.

    Args:
        array: float32 weights of any shape.
        axis: along it, each place has its own scale, such as each column of a matrix.

    Returns: numbers of the array's shape, and scales whose other axes have length 1.
    """
    other_axes = tuple(other for other in range(array.ndim) if other != axis)
    greatest = np.abs(array).max(axis=other_axes, keepdims=True)
    # Zeros have a scale too.
    scales = np.maximum(greatest, np.finfo(np.float32).tiny) / np.float32(LARGEST)
    numbers = np.rint(array / scales).astype(np.int8)
    return numbers, scales.astype(np.float32)
