import keras
import numpy as np
import pytest
from helpers import all_slow_but
from keras import layers

from keras_sat.network.efficientnet_lite import efficientnet_lite
from keras_sat.network.encoders import make_encoder, make_encoder_top
from keras_sat.network.finer_grid import rows_and_columns_of, with_grid, without_last_strides

# Encoder and size of photos: the first cell of the finer grid that is one of the coarse
# grid.
EXACT = {
    ("vgg16", 64): (0, 0),
    ("resnet50", 64): (0, 0),
    ("mobilenet_v2", (96, 64)): (1, 1),
    ("efficientnet_lite0", 96): (1, 1),
    ("efficientnet_lite2", 68): (0, 0),  # an odd number of cells before the last stride
}


def with_random_biases(network):
    """A mistake at the border shows where cells are not 0."""
    random = np.random.default_rng(0)
    for weight in network.weights:
        if "gamma" in weight.name or "variance" in weight.name:
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
        elif len(weight.shape) == 1:
            weight.assign(random.normal(0, 0.1, weight.shape))
    return network


@pytest.fixture(scope="module")
def network():
    return with_random_biases(efficientnet_lite((64, 64, 3), 0.1, 0.1))


@pytest.mark.parametrize("name, size", all_slow_but(("vgg16", 64), EXACT))
def test_every_second_cell_is_that_of_the_coarse_grid(name, size):
    encoder = with_random_biases(make_encoder(name, weights=None, image_size=size))
    rows, columns = encoder.output_shape[1:3]
    finer_shape = tuple(
        2 * side - (side % 2 == 1 and name.endswith("lite2")) for side in (rows, columns)
    )
    finer = make_encoder(
        name, weights=encoder.get_weights(), image_size=size, grid="x".join(map(str, finer_shape))
    )
    photos = (
        np.random.default_rng(1).uniform(0, 255, (2, *encoder.input_shape[1:])).astype(np.float32)
    )
    coarse, fine = np.asarray(encoder(photos)), np.asarray(finer(photos))
    assert fine.shape == (2, *finer_shape, encoder.output_shape[-1])
    first_row, first_column = EXACT[name, size]
    np.testing.assert_allclose(
        fine[:, first_row::2, first_column::2], coarse, rtol=1e-4, atol=1e-5 * coarse.std()
    )
    between = fine[:, 1 - first_row :: 2, 1 - first_column :: 2]
    assert np.abs(between).max() > 0 and not np.isin(between.ravel(), coarse.ravel()).all()


def test_the_last_two_strides_become_dilation(network):
    pixels = np.random.default_rng(1).uniform(-1, 1, (1, 64, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(
        with_grid(network, "8x8")(pixels)[:, 3::4, 3::4], network(pixels), atol=1e-6
    )


def test_a_network_of_one_stride_by_hand():
    """Each output of the second layer sums cells two apart, and the strided grid is
    every second one of them.
    """
    images = keras.Input((4, 4, 1))
    ones = {"use_bias": False, "kernel_initializer": "ones"}
    thin = layers.Conv2D(1, 1, strides=2, **ones)(images)
    network = keras.Model(images, layers.Conv2D(1, 3, padding="same", **ones)(thin))
    pixels = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    fine = np.asarray(without_last_strides(network, 2)(pixels))[0, :, :, 0]
    assert (
        fine[0, 0] == 0 + 2 + 8 + 10
        and fine[1, 1] == 5 + 7 + 13 + 15
        and fine[3, 2] == 4 + 6 + 12 + 14
    )
    assert without_last_strides(network, 4) is None and without_last_strides(network, 1) is network


def test_pooling_after_zero_padding():
    """As the first pooling of ResNet50: it gives as many cells as it takes."""
    images = keras.Input((8, 8, 1))
    grid = layers.MaxPooling2D(3, strides=2)(layers.ZeroPadding2D(1)(images))
    network = keras.Model(images, grid)
    pixels = np.random.default_rng(0).uniform(size=(1, 8, 8, 1)).astype(np.float32)
    fine = np.asarray(without_last_strides(network, 2)(pixels))
    assert fine.shape == (1, 8, 8, 1)
    np.testing.assert_array_equal(fine[:, ::2, ::2], network(pixels))


def test_the_layers_after_a_cut_have_the_finer_grid_too():
    options = {"weights": None, "image_size": 64, "grid": "4x4"}
    top = make_encoder_top("efficientnet_lite0", start="block_7", **options)
    assert top.input_shape == (None, 4, 4, 80) and top.output_shape == (None, 4, 4, 1280)
    below = make_encoder("efficientnet_lite0", layer="block_7", weights=None, image_size=64)
    assert below.output_shape[1:] == top.input_shape[1:]


def test_grids_that_cannot_be_had_are_rejected(network):
    assert rows_and_columns_of("14x7") == rows_and_columns_of((14, 7)) == (14, 7)
    for grid in ("0x14", "14 x 14", 14, (14,)):
        with pytest.raises(
            ValueError, match='Expected rows and columns, such as "14x14". Received: grid='
        ):
            with_grid(network, grid)
    with pytest.raises(ValueError, match="Expected one of: 2x2, 4x4, 8x8. Received: grid='3x3'"):
        with_grid(network, "3x3")
    with pytest.raises(ValueError, match="Expected one of: 4x4, 8x8. Received: grid='16x16'"):
        # Pooling would have to be dilated.
        make_encoder("vgg16", weights=None, image_size=64, grid="16x16")
    assert make_encoder("tiny", grid="16x16").output_shape == (None, 16, 16, 66)
    with pytest.raises(ValueError, match="grid of `tiny` is 16x16. Received: grid='8x8'"):
        make_encoder("tiny", grid="8x8")
