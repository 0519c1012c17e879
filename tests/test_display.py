import math
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from keras_sat import AttentionDisplay, CaptionResult, plot_history
from keras_sat.pictures.brightness import FULL_LIGHT, NAN_COLOUR
from keras_sat.training.history import Curves

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


@pytest.mark.parametrize("ending", ["pdf", "eps"])
def test_a_word_that_nobody_sees_is_drawn_as_its_code(photo, maps, ending, tmp_path):
    display = AttentionDisplay(photo, ["\ufeff", "a\ufeff", "$\\nonsense{"], maps)
    display.save(tmp_path / f"a.{ending}")
    titles = [panel.get_title() for panel in display.plot(Figure().subplots(1, 4))]
    assert titles == ["", r"\ufeff", r"a\ufeff", r"$\nonsense{"]


def test_a_panel_says_and_shows_how_flat_its_map_is(photo):
    maps = np.full((3, 7, 7), 1 / 49)
    maps[1, 2, 3] += 0.5 / 49  # before it is brought to a sum of 1
    maps[2] = 0
    maps[2, 2, 3] = 1
    maps /= maps.sum(axis=(1, 2), keepdims=True)
    for colour_map in (None, "jet"):
        axes = AttentionDisplay(photo, ["a", "dog", "runs"], maps).plot(Figure().subplots(1, 4), colour_map=colour_map)
        below = [[text.get_text() for text in panel.texts] for panel in axes]
        assert below == [[], ["1.0 × uniform"], ["1.5 × uniform"], ["49.0 × uniform"]]
        drawn = [panel.get_images()[1] for panel in axes[1:]]
        light = [np.asarray(image.norm(image.get_array())) for image in drawn]
        np.testing.assert_allclose(light[0], 1 / FULL_LIGHT, rtol=1e-5)
        assert light[1].max() == pytest.approx(1.5 / FULL_LIGHT, abs=0.02)
        assert light[2].max() > 0.9 and np.median(light[2]) < 0.01
        if colour_map is not None:
            assert all(image.get_alpha().max() <= 0.75 for image in drawn)
            assert drawn[0].get_alpha() == pytest.approx(0.75 / FULL_LIGHT)


def test_axes_of_your_own_and_files(photo, maps, tmp_path):
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
    with pytest.raises(ValueError, match="pass one as `image`"):
        AttentionDisplay.from_result(without)
    np.testing.assert_array_equal(AttentionDisplay.from_result(without, image=photo).image, photo)
    with pytest.raises(ValueError, match="one map"):
        AttentionDisplay(photo, ["a"], maps)
    with pytest.raises(ValueError, match="`words` must be a list"):
        AttentionDisplay(photo, "abc", maps)
    for other in (3, None, [result]):
        with pytest.raises(ValueError, match="single CaptionResult"):
            AttentionDisplay.from_result(other)


def test_colours_that_let_the_photo_through(photo, maps):
    axes = AttentionDisplay(photo, ["a", "dog", "runs"], maps).plot(
        Figure().subplots(1, 4), colour_map="jet", opacity=0.5
    )
    drawn = axes[2].get_images()[1]
    alpha = drawn.get_alpha()
    assert drawn.get_cmap().name == "jet" and alpha.shape == photo.shape[:2]
    assert 0.25 < alpha.max() <= 0.5
    np.testing.assert_allclose(alpha, 0.5 * drawn.get_array().clip(max=1))


@pytest.mark.parametrize("colour_map", [None, "viridis"])
def test_nan_is_marked(photo, maps, colour_map, tmp_path):
    maps[1, 0, 2:4] = np.nan
    display = AttentionDisplay(photo, ["a", "dog", "runs"], maps)
    assert np.isnan(display.upsampled(1)[:20, 24:48]).all()
    drawn = display.plot(Figure().subplots(1, 4), colour_map=colour_map)[2].get_images()[1]
    red, green, blue, alpha = drawn.to_rgba(drawn.get_array())[10, 30]
    assert (255 * red, 255 * green, 255 * blue) == pytest.approx(NAN_COLOUR) and alpha > 0.7
    display.animate(tmp_path / "lost.gif")
    with Image.open(tmp_path / "lost.gif") as cartoon:
        cartoon.seek(6)
        assert cartoon.convert("RGB").getpixel((int(240 * 30 / 60), 40)) == pytest.approx(NAN_COLOUR, abs=50)


@pytest.mark.parametrize(
    ("shape", "grid", "drawn"),
    [
        ((1, 300), (1, 1), (60, 300)),
        ((300, 1), (7, 7), (300, 60)),
        ((3000, 2000), (3, 11), (1024, 683)),
        ((60, 4000), (7, 7), (205, 1024)),
    ],
)
def test_any_photo_and_any_grid(shape, grid, drawn, tmp_path):
    photo = np.full((*shape, 3), 200, np.uint8)
    display = AttentionDisplay(photo, ["a", "dog"], np.full((2, *grid), 1 / math.prod(grid)))
    assert display.image.shape[:2] == display.upsampled(0).shape == drawn
    display.save(tmp_path / "dog.png")
    display.animate(tmp_path / "dog.gif", width=64)
    display.to_html(tmp_path / "dog.html")
    with Image.open(tmp_path / "dog.png") as picture:
        assert max(picture.size) < 5000


def test_soft_and_hard_one_above_the_other(photo, maps):
    from matplotlib import pyplot as plt

    soft = CaptionResult("a dog runs", ["a", "dog", "runs"], -1.0, maps, image=photo)
    hard = AttentionDisplay(photo, ["dogs", "run"], maps[:2])
    before = plt.get_fignums()
    axes = AttentionDisplay.compare([soft, hard], names=["soft", "hard"])
    assert axes.shape == (2, 4) and len(plt.get_fignums()) == len(before) + 1
    titles = [[panel.get_title() for panel in row] for row in axes]
    assert titles == [["soft", "a", "dog", "runs"], ["hard", "dogs", "run", ""]]
    np.testing.assert_array_equal(axes[1, 1].get_images()[1].get_array(), hard._light(0))
    own = Figure().subplots(1, 5, squeeze=False)
    assert AttentionDisplay.compare([soft], ax=own, colour_map="jet") is own
    for displays, options in (([soft, hard], {"ax": own}), ([soft], {"names": "a"}), ([], {}), (hard, {})):
        with pytest.raises(ValueError, match="`displays` must be a list .* Received: displays="):
            AttentionDisplay.compare(displays, **options)
    plt.close("all")


# === The cartoon ===


def test_the_caption_appears_word_by_word(photo, tmp_path):
    maps = np.zeros((3, 2, 2))
    maps[0, 0, 0] = maps[1, 1, 1] = maps[2, 0, 1] = 1
    photo = np.full((60, 60, 3), 128, np.uint8)
    display = AttentionDisplay(photo, ["a", "dog", "runs"], maps)
    display.animate(tmp_path / "new" / "dog.gif", width=120, seconds_per_word=0.5)
    for options in ({"seconds_per_word": -1}, {"seconds_per_word": 700}, {"width": -1}):
        with pytest.raises(ValueError, match="a width from 16 to 4096 pixels"):
            display.animate(tmp_path / "dog.gif", **options)
    with Image.open(tmp_path / "new" / "dog.gif") as cartoon:
        frames, seconds = [], []
        for number in range(cartoon.n_frames):
            cartoon.seek(number)
            frames.append(np.array(cartoon.convert("L"), dtype=int))
            seconds.append(cartoon.info["duration"])
        assert cartoon.info["loop"] == 0 and cartoon.width == 120
    held = [frame for frame, duration in zip(frames, seconds) if duration > 200]
    assert len(held) == 4 and len(frames) > 8 and max(seconds) == 2000
    ink = [(frame[120:] < 128).sum() for frame in held]
    assert 0 == ink[0] < ink[1] < ink[2] < ink[3]
    for frame, (row, column) in zip(held[1:], ((0, 0), (1, 1), (0, 1))):
        corners = frame[[10, 10, 110, 110], [10, 110, 10, 110]]
        assert corners.argmax() == 2 * row + column and corners.max() - np.median(corners) > 100


# === Curves ===


def test_the_curves_of_a_training():
    history = {
        "loss": [9.0, 8.0],
        "cross_entropy": [3.0, 2.5],
        "val_cross_entropy": [3.1, 2.9],
        "val_bleu_4": [0.0, 0.1],
        "val_cider": [math.nan, 0.4],
        "reward": [math.nan, math.nan],
    }
    axes = plot_history(history, Figure().subplots(1, 3))
    assert [panel.get_title() for panel in axes] == ["cross-entropy per word", "BLEU on dev", "CIDEr on dev"]
    lines = {line.get_label(): line for line in axes[0].get_lines()}
    assert set(lines) == {"training", "dev"}
    np.testing.assert_array_equal(lines["dev"].get_xydata(), [[1, 3.1], [2, 2.9]])
    np.testing.assert_array_equal(axes[1].get_lines()[0].get_ydata(), [0, 10])
    with pytest.raises(ValueError, match="needs 3 axes: .* Received: 2"):
        plot_history(history, Figure().subplots(1, 2))
    for nothing in ({}, SimpleNamespace(history=None), 3):
        with pytest.raises(ValueError, match="no history. Received: history="):
            plot_history(nothing)


def test_the_history_that_fit_returns():
    from matplotlib import pyplot as plt

    history = Curves([{"cross_entropy": 3.0, "val_bleu_1": 0.3}, {"cross_entropy": 2.0, "val_bleu_1": 0.4}])
    assert len(plot_history(history)) == 2
    plt.close("all")
    for kept in (dict(history), SimpleNamespace(history=history)):
        loss, _ = plot_history(kept, Figure().subplots(1, 2))
        np.testing.assert_array_equal(loss.get_lines()[0].get_ydata(), [3, 2])


def test_the_history_that_a_folder_has(tmp_path):
    from keras_sat.training.history import write_history

    write_history(tmp_path / "history.csv", [{"cross_entropy": 3.0}, {"cross_entropy": 2.0, "val_cider": 0.4}])
    for path in (tmp_path, str(tmp_path / "history.csv")):
        loss, cider = plot_history(path, Figure().subplots(1, 2))
        np.testing.assert_array_equal(loss.get_lines()[0].get_xydata(), [[1, 3], [2, 2]])
        np.testing.assert_array_equal(cider.get_lines()[0].get_ydata(), [math.nan, 0.4])


# === How much of each word came from the photo ===


def test_the_fraction_from_the_photo_is_shown(tmp_path):
    maps, photo = np.full((2, 2, 2), 0.25), np.zeros((8, 8, 3), np.uint8)
    result = CaptionResult("a dog", ["a", "dog"], -1.0, maps, {"from_photo": np.array([0.104, 0.9])})
    display = AttentionDisplay.from_result(result, image=photo)
    below = [[text.get_text() for text in panel.texts] for panel in display.plot().ravel()[1:3]]
    assert below == [["10 % photo, 1.0 × uniform"], ["90 % photo, 1.0 × uniform"]]
    display.animate(tmp_path / "a.gif")
    display.to_html(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert '"fromPhoto": [10, 90]' in page and "90 % from the photo; looks everywhere equally." in page
    with pytest.raises(ValueError, match="2 words, .* 3 numbers"):
        AttentionDisplay(photo, ["a", "dog"], maps, np.ones(3))
