import matplotlib
import numpy as np
import pytest
from PIL import Image

from keras_sat import AttentionDisplay, CaptionResult

matplotlib.use("Agg")


@pytest.fixture
def photo():
    return np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.fixture
def maps():
    weights = np.random.default_rng(1).random((3, 2, 5))
    return weights / weights.sum(axis=(1, 2), keepdims=True)


def test_a_panel_for_the_photo_and_each_word(photo, maps):
    from matplotlib import pyplot as plt

    axes = AttentionDisplay(photo, ["a", "dog", "runs"], maps).plot(columns=3)
    assert axes.shape == (2, 3)
    assert [panel.get_title() for panel in axes.ravel()] == ["", "a", "dog", "runs", "", ""]
    np.testing.assert_array_equal(axes[0, 0].get_images()[0].get_array(), photo)
    for panel in axes.ravel()[1:4]:
        shown, attention_map = panel.get_images()
        assert attention_map.get_array().shape == photo.shape[:2] and attention_map.get_alpha() == 0.75
    plt.close("all")


def test_bright_where_the_model_looked(photo):
    maps = np.zeros((1, 4, 6))
    maps[0, 3, 1] = 1.0
    smooth = AttentionDisplay(photo, ["dog"], maps).upsampled(0)
    assert smooth.min() >= 0
    row, column = np.unravel_index(smooth.argmax(), smooth.shape)
    assert 30 <= row < 40 and 10 <= column < 20


def test_axes_of_your_own_and_files(photo, maps, tmp_path):
    from matplotlib.figure import Figure

    display = AttentionDisplay(Image.fromarray(photo), ["a", "dog", "runs"], maps)
    axes = Figure().subplots(1, 4)
    assert display.plot(axes, opacity=0.5) is axes
    assert axes[1].get_images()[1].get_alpha() == 0.5
    with pytest.raises(ValueError, match="needs 4 axes"):
        display.plot(axes[:2])
    display.save(tmp_path / "dog.png", columns=2)
    with Image.open(tmp_path / "dog.png") as picture:
        assert picture.width > 200


def test_from_a_result_and_errors(photo, maps):
    result = CaptionResult("a dog runs", ["a", "dog", "runs"], -1.0, maps, image=photo)
    assert AttentionDisplay.from_result(result).words == result.words
    without = CaptionResult("a dog runs", ["a", "dog", "runs"], -1.0, maps)
    with pytest.raises(ValueError, match="pass it as `image`"):
        AttentionDisplay.from_result(without)
    assert AttentionDisplay.from_result(without, image=photo).image is photo
    with pytest.raises(ValueError, match="one map"):
        AttentionDisplay(photo, ["a"], maps)
