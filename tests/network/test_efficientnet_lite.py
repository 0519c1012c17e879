import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import all_slow_but, torch_arrays

from data_utils import load_image
from keras_sat import Captioner
from keras_sat.network import encoder_weights
from keras_sat.network.efficientnet_lite import (
    EPSILON,
    STAGES,
    assign_torch_weights,
    blocks_of,
    efficientnet_lite,
)
from keras_sat.network.encoder_weights import packaged_weights
from keras_sat.network.encoders import ENCODERS
from keras_sat.network.weight_paths import IMAGENET

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "efficientnet_lite.json").read_text())


@pytest.fixture(scope="module")
def network():
    return efficientnet_lite((64, 64, 3), width=0.1, depth=1.0)


def transcription(arrays, pixels):
    """Return the last grid, straight from the paper's blocks, with batch normalisation
    where the packages have it.
    """

    def convolved(grid, name, norm, stride=1, depthwise=False):
        kernel = arrays[f"{name}.weight"].transpose(2, 3, 1, 0)
        convolve = keras.ops.conv
        if depthwise:
            kernel, convolve = kernel.transpose(0, 1, 3, 2), keras.ops.depthwise_conv
        grid = np.asarray(convolve(grid, kernel, strides=stride, padding="same"))
        mean, variance = arrays[f"{norm}.running_mean"], arrays[f"{norm}.running_var"]
        return (grid - mean) / np.sqrt(variance + EPSILON) * arrays[f"{norm}.weight"] + arrays[
            f"{norm}.bias"
        ]

    def relu6(grid):
        return np.clip(grid, 0, 6)

    grid, number = relu6(convolved(pixels, "_conv_stem", "_bn0", stride=2)), 0
    for repeats, _, first_stride, *_ in STAGES:
        for repeat in range(repeats):
            inputs, name = grid, f"_blocks.{number}."
            stride = 1 if repeat else first_stride
            if number:
                grid = relu6(convolved(grid, f"{name}_expand_conv", f"{name}_bn0"))
            grid = relu6(
                convolved(grid, f"{name}_depthwise_conv", f"{name}_bn1", stride, depthwise=True)
            )
            grid = convolved(grid, f"{name}_project_conv", f"{name}_bn2")
            grid = grid + inputs if repeat else grid
            number += 1
    return relu6(convolved(grid, "_conv_head", "_bn1"))


def test_equal_to_a_transcription_with_batch_normalisation(network):
    arrays = torch_arrays(network, width=0.1, num_classes=5)
    assign_torch_weights(network, arrays)
    pixels = np.random.default_rng(1).uniform(-1, 1, (2, 64, 64, 3)).astype(np.float32)
    expected = transcription(arrays, pixels)
    assert expected.shape == (2, 2, 2, 1280) and expected.std() > 0.1
    np.testing.assert_allclose(network(pixels), expected, atol=1e-4)


def test_sizes():
    """The numbers of filters and layers of the two sizes, as the PyTorch packages have
    them.
    """
    lite0, lite2 = (
        [filters for *_, filters in blocks_of(*size)] for size in ((1.0, 1.0), (1.1, 1.2))
    )
    assert lite0 == [16, 24, 24, 40, 40, *[80] * 3, *[112] * 3, *[192] * 4, 320]
    assert lite2 == [16, 24, 24, 24, 48, 48, 48, *[88] * 4, *[120] * 4, *[208] * 5, 352]
    assert [stride for _, stride, *_ in blocks_of(1.0, 1.0)].count(2) == 4


def test_weights_that_do_not_fit_are_rejected(network, tmp_path):
    arrays = torch_arrays(network, width=0.1, num_classes=5)
    missing = {name: array for name, array in arrays.items() if name != "_blocks.3._bn1.bias"}
    with pytest.raises(ValueError, match=r"_blocks.3._bn1.bias is missing"):
        assign_torch_weights(network, missing)
    with pytest.raises(ValueError, match=r"_blocks.99.weight is unknown"):
        assign_torch_weights(network, {**arrays, "_blocks.99.weight": np.zeros(3)})
    np.savez(tmp_path / "small.npz", **arrays)
    (tmp_path / "torn.npz").write_bytes((tmp_path / "small.npz").read_bytes()[:3000])
    np.savez(tmp_path / "objects.npz", **{"_fc.weight": np.array([{"an": "object"}], dtype=object)})
    for name in ("small.npz", "torn.npz", "objects.npz"):
        with pytest.raises(
            ValueError,
            match=rf"not contain the weights of efficientnet_lite0.*an \.npz file.*{name}",
        ):
            ENCODERS["efficientnet_lite0"](weights=tmp_path / name, image_size=64)
    with pytest.raises(ValueError, match="weights of tiny.*for EfficientNet-Lite.*small.npz"):
        ENCODERS["tiny"](weights=tmp_path / "small.npz", image_size=64)


@pytest.fixture(scope="module")
def packaged():
    return ENCODERS["efficientnet_lite0"]()


def test_the_package_has_the_weights_of_one_size(packaged):
    assert packaged.output_shape == (None, 7, 7, 1280)
    for weight, array in zip(packaged.weights, packaged_weights("efficientnet_lite0"), strict=True):
        np.testing.assert_array_equal(weight, array)
    with pytest.raises(ValueError, match="no ImageNet weights of efficientnet_lite2.*data.md"):
        ENCODERS["efficientnet_lite2"]()
    with pytest.raises(ValueError, match="Pass its path as `encoder_weights`. Received"):
        Captioner(["dog"], encoder="efficientnet_lite2").encoder_model  # noqa: B018


def test_damaged_weights_in_the_package_are_rejected(tmp_path, monkeypatch):
    (path,) = IMAGENET.glob("efficientnet_lite0-*.npz")
    (tmp_path / path.name).write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(encoder_weights, "IMAGENET", tmp_path)
    with pytest.raises(ValueError, match=f"{path.name}: this file is damaged. Install"):
        ENCODERS["efficientnet_lite0"]()


@pytest.fixture(scope="module")
def whole(real_data):
    """The encoder with the weights of the PyTorch package, which are not rounded."""
    return ENCODERS["efficientnet_lite0"](weights=real_data / "efficientnet_lite0_imagenet.npz")


def test_the_weights_in_the_package_are_those_of_the_pytorch_package(packaged, whole):
    for rounded, weight in zip(packaged.get_weights(), whole.get_weights(), strict=True):
        kept = weight.astype(np.float16) if weight.ndim > 1 else weight
        np.testing.assert_array_equal(rounded, kept)


@pytest.mark.parametrize(
    "name", all_slow_but("efficientnet_lite0", ["efficientnet_lite0", "efficientnet_lite2"])
)
def test_real_photos_give_what_the_pytorch_package_gives(name, whole, real_data, flickr8k_images):
    """golden/make_efficientnet_lite.py compared the two once, and kept some numbers."""
    encoder = whole
    if name != "efficientnet_lite0":
        encoder = ENCODERS[name](weights=real_data / f"{name}_imagenet.npz")
    paths = {image.image_id: image.image_path for image in flickr8k_images}
    photos = np.stack(
        [load_image(paths[photo], encoder.input_shape[1:3]) for photo in GOLDEN["photos"]]
    )
    grids, golden = np.asarray(encoder(photos)), GOLDEN[name]
    assert list(grids.shape) == golden["shape"]
    np.testing.assert_allclose(grids.mean(axis=(1, 2, 3)), golden["means"], atol=1e-4)
    found = [grids[tuple(place)] for place in golden["places"]]
    assert np.ptp(golden["numbers"]) > 3
    np.testing.assert_allclose(found, golden["numbers"], atol=1e-3)
