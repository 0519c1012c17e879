import base64
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from helpers import random_pixels
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from data_utils import load_image
from keras_sat import AttentionDisplay, CaptionResult, gallery, plot_history
from keras_sat.looking.dots import dots_on_photo
from keras_sat.looking.panels import shrink_to_printed_size
from keras_sat.looking.sheet import font_size
from keras_sat.looking.spotlight import CASING, LINE, NAN_COLOUR, half_level, spotlight
from keras_sat.training.history import Curves

matplotlib.use("Agg")
WORDS = ["a", "dog", "runs", "in", "front", "of", "the", "red", "ball"]


@pytest.fixture
def photo():
    return random_pixels(40, 60, 3)


@pytest.fixture
def maps():
    weights = np.random.default_rng(1).random((3, 2, 5))
    return weights / weights.sum(axis=(1, 2), keepdims=True)


def maps_of(number, rows=7, columns=7):
    """Maps with a peak in one cell, another for each word."""
    maps = np.full((number, rows * columns), 0.2 / (rows * columns))
    maps[np.arange(number), 5 * np.arange(number) % (rows * columns)] += 0.8
    return maps.reshape(number, rows, columns)


@pytest.fixture
def display(photo):
    return AttentionDisplay(photo, WORDS, maps_of(len(WORDS)))


def titles(axes):
    return [panel.get_title() for panel in np.ravel(axes)]


def notes(figure):
    """The text below the pictures."""
    return [text for text in figure.texts if text.get_va() == "bottom"]


def sentence(figure):
    """The words above the photo, in lines, as (text, is bold, style)."""
    words = [text for text in figure.texts if text not in notes(figure)]
    return [(text.get_text(), text.get_weight() == "bold", text.get_style()) for text in words]


# === Panels ===


def test_a_large_photo_and_a_panel_for_each_content_word(display, photo):
    axes = display.plot()
    assert titles(axes) == ["", "dog", "runs", "red", "ball"]
    figure = axes[0].figure
    assert figure.get_figwidth() == 8 and len(figure.axes) == 5
    np.testing.assert_array_equal(axes[0].images[0].get_array(), photo)
    across, down = zip(*[panel.get_window_extent().size for panel in axes])
    assert across[0] > 1.9 * across[1] and np.ptp(across[1:]) < 1
    np.testing.assert_allclose(np.divide(across, down), 1.5, rtol=0.01)  # the photo's aspect ratio
    for panel, position in zip(axes[1:], (1, 2, 7, 8)):
        np.testing.assert_array_equal(panel.images[0].get_array(), display.lit(position)[0])
        (line,) = panel.collections
        np.testing.assert_allclose(line.get_color()[0][:3], np.divide(LINE, 255))
        casing, _ = line.get_path_effects()
        # Matplotlib has no public name for the options of a path effect.
        np.testing.assert_allclose(casing._gc["foreground"], np.divide(CASING, 255))
        assert casing._gc["linewidth"] > 1.5 * line.get_linewidth()[0]
        assert len(line.get_segments()) >= 1 and not panel.axison
    assert sentence(figure) == [
        (word, word in ("dog", "runs", "red", "ball"), "normal") for word in WORDS
    ]
    (note,) = notes(figure)
    lowest = min(text.get_window_extent().y0 for text in figure.texts if text is not note)
    assert lowest > axes[0].get_window_extent().y1, "the caption stands above the photo"
    plt.close("all")


@pytest.mark.parametrize("width", [3.3, 7])
def test_text_has_eight_points_and_fits_a_figure_of_any_width(display, width):
    words = [
        "photographers",
        "wearing",
        "windbreakers",
        "outside",
        *["two", "of", "them", "hold", "a", "microphone"],
    ]
    axes = AttentionDisplay(display.image, words, maps_of(len(words))).plot(
        width=width, words="all"
    )
    figure = axes[0].figure
    figure.set_dpi(300)
    renderer = figure.canvas.get_renderer()
    texts = [*figure.texts, *(panel.title for panel in axes[1:])]
    extents = [text.get_window_extent(renderer) for text in texts]
    for text, extent in zip(texts, extents):
        assert text.get_size() >= 8
        assert extent.height > 0.9 * 8 / 72 * 300
        assert extent.x0 >= 0 and extent.x1 <= 300 * width and extent.y0 >= 0
    every = [*extents, *(panel.get_window_extent(renderer) for panel in axes)]
    assert not any(one.overlaps(other) for i, one in enumerate(every) for other in every[:i])
    plt.close("all")


def test_which_words_are_shown(display):
    def shown(words):
        return titles(display.plot(Figure().subplots(1, 10), words=words))[1:]

    content = ["dog", "runs", "red", "ball"]
    assert shown("content") == [*content, *[""] * 5] and shown("all") == WORDS
    assert shown(["ball", "the", 0])[:4] == ["a", "the", "ball", ""]
    assert shown("ball, dog")[:3] == ["dog", "ball", ""] and shown(np.array([2, 1]))[:3] == [
        "dog",
        "runs",
        "",
    ]
    small = AttentionDisplay(display.image, ["on", "the"], maps_of(2))
    assert small.positions() == [0, 1], "all, if no word names anything"
    twins = AttentionDisplay(display.image, ["dog", "and", "dog"], maps_of(3))
    assert twins.positions(["dog"]) == [0, 2]
    for words in ("cat", ["dog", "cat"], [9], [-1], [], None, 2.5):
        with pytest.raises(ValueError, match=r"words or positions in the caption 'a dog .*words="):
            display.plot(words=words)


def test_looks(display):
    photo = display.image
    light = np.zeros(photo.shape[:2])
    dim = spotlight(photo, light)
    picture = {look: display.lit(1, look)[0].astype(int) for look in ("spotlight", "paper", "jet")}
    peak = np.unravel_index(display.upsampled(1).argmax(), photo.shape[:2])
    np.testing.assert_array_equal(picture["spotlight"][peak], photo[peak])
    assert (
        picture["paper"][peak].min() > 126
        and (np.abs(picture["jet"][peak] - photo[peak]) > 3).any()
    )
    unlit = np.abs(picture["spotlight"] - dim).sum(axis=2) == 0
    assert unlit.mean() > 0.1
    np.testing.assert_allclose(picture["paper"][unlit], photo[unlit] / 2, atol=5)
    np.testing.assert_allclose(picture["jet"][unlit], photo[unlit], atol=5)
    shown = display.plot(Figure().subplots(1, 5), look="paper")
    np.testing.assert_array_equal(shown[1].images[0].get_array(), picture["paper"])
    with pytest.raises(
        ValueError,
        match='"paper" or a colour map of matplotlib. Received: .gloom',
    ):
        display.plot(look="gloom")


def test_an_even_map_shows_the_photo_as_it_is(photo):
    flat = AttentionDisplay(photo, ["dog"], np.full((1, 7, 7), 1 / 49))
    picture, lines, note = flat.lit(0)
    np.testing.assert_array_equal(picture, photo)
    assert (lines, note) == ([], "everywhere")
    panel = flat.plot(Figure().subplots(1, 2))[1]
    assert [text.get_text() for text in panel.texts] == ["everywhere"]


def test_a_word_from_memory_has_no_map(photo, tmp_path):
    fractions = {"from_photo": np.array([1.0, 0.49, 0.5, math.nan])}
    result = CaptionResult(
        "a dog runs fast", ["a", "dog", "runs", "fast"], -1.0, maps_of(4), fractions, image=photo
    )
    display = AttentionDisplay.from_result(result)
    axes = display.plot(Figure().subplots(1, 4))
    assert [panel.title.get_style() for panel in axes] == ["normal", "italic", "normal", "normal"]
    assert [[text.get_text() for text in panel.texts] for panel in axes] == [
        [],
        ["from memory"],
        [""],
        [""],
    ]
    np.testing.assert_array_equal(
        axes[1].images[0].get_array(), spotlight(photo, np.zeros((40, 60)))
    )
    assert axes[1].collections[0].get_segments() == [] != axes[2].collections[0].get_segments()
    above = sentence(display.plot(width=7)[0].figure)
    plt.close("all")
    assert above[1] == ("dog", True, "italic") and above[2] == ("runs", True, "normal")
    with pytest.raises(ValueError, match="2 words, .* 3 numbers"):
        AttentionDisplay(photo, ["a", "dog"], maps_of(2), np.ones(3))


def test_nan_is_marked(photo, maps):
    maps[1, 0, 2:4] = np.nan
    maps[2] = np.nan
    display = AttentionDisplay(photo, ["a", "dog", "runs"], maps)
    assert np.isnan(display.upsampled(1)[:20, 24:48]).all()
    picture, _, note = display.lit(1)
    assert picture[10, 30].tolist() == list(NAN_COLOUR) and note == ""
    assert (display.lit(2)[0] == NAN_COLOUR).all() and display.lit(2)[1:] == ([], "NaN")
    assert display.lit(1, "jet")[0][10, 30].tolist() == list(NAN_COLOUR)


def test_axes_of_your_own(display):
    axes = Figure(figsize=(7, 2)).subplots(1, 5)
    assert display.plot(axes) is axes
    assert axes[1].title.get_size() == font_size(7)
    with pytest.raises(
        ValueError, match="4 words need 5 axes; `words` chooses others. Received: 2"
    ):
        display.plot(axes[:2])
    nested = Figure(figsize=(6.4, 4)).subfigures(2, 1)[0].subplots(2, 3)
    assert display.plot(nested) is nested and titles(nested) == [
        "",
        "dog",
        "runs",
        "red",
        "ball",
        "",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["pdf", "eps"])
def test_a_word_that_nobody_sees_is_drawn_as_its_code(photo, maps, ending, tmp_path):
    display = AttentionDisplay(photo, ["\ufeff", "a\ufeff", "$\\nonsense{"], maps)
    display.save(tmp_path / f"a.{ending}")
    assert titles(display.plot(Figure().subplots(1, 4))) == [
        "",
        r"\ufeff",
        r"a\ufeff",
        r"$\nonsense{",
    ]


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


# === The shape of the photo ===


@pytest.fixture
def result_of_a_file(tmp_path, maps):
    """A result as a captioner makes it from a path: square, which the file is not."""
    photo = np.kron(np.arange(0, 240, 10).reshape(4, 6, 1), np.ones((10, 10, 3))).astype(np.uint8)
    path = tmp_path / "photo.png"
    Image.fromarray(photo).save(path)
    words = ["a", "dog", "runs"]
    return CaptionResult(
        "a dog runs", words, -1.0, maps, image=load_image(path, 32), image_path=str(path)
    )


def test_a_photo_that_was_given_as_a_path_keeps_its_shape(result_of_a_file, photo, tmp_path):
    display = AttentionDisplay.from_result(result_of_a_file)
    np.testing.assert_array_equal(display.image, load_image(result_of_a_file.image_path))
    assert display.image.shape == (40, 60, 3)
    assert AttentionDisplay.from_result(replace(result_of_a_file, image=None)).image.shape == (
        40,
        60,
        3,
    )
    own = AttentionDisplay.from_result(result_of_a_file, image=photo[:20])
    assert own.image.shape == (20, 60, 3), "a given photo counts"
    axes = AttentionDisplay.compare([result_of_a_file, display], ax=Figure().subplots(2, 4))
    assert [row[0].images[0].get_array().shape for row in axes] == [(40, 60, 3)] * 2
    page = gallery([result_of_a_file], tmp_path / "page.html").read_text()
    assert '"aspect": "1.5000"' in page


@pytest.mark.parametrize("fate", ["gone", "damaged", "another photo"])
def test_a_photo_that_is_no_longer_there_is_shown_as_the_captioner_saw_it(
    result_of_a_file, fate, photo
):
    path = Path(result_of_a_file.image_path)
    path.unlink()
    if fate == "damaged":
        path.write_bytes(b"nothing")
    elif fate == "another photo":
        Image.fromarray(photo).save(path)
    display = AttentionDisplay.from_result(result_of_a_file)
    np.testing.assert_array_equal(display.image, result_of_a_file.image)


def test_compare_takes_photos(photo, maps):
    result = CaptionResult(
        "a dog runs", ["a", "dog", "runs"], -1.0, maps, image=np.zeros((32, 32, 3), np.uint8)
    )
    display = AttentionDisplay.from_result(result)
    axes = AttentionDisplay.compare(
        [result, display], images=[photo, photo[:20]], ax=Figure().subplots(2, 4)
    )
    assert [row[0].images[0].get_array().shape for row in axes] == [(40, 60, 3), (20, 60, 3)]
    with pytest.raises(ValueError, match="`images`, `names` and `ax` must have the same length"):
        AttentionDisplay.compare([result, display], images=[photo])


# === How much of the photo ===


def test_panels_can_say_how_much_of_the_photo_they_show(photo, tmp_path):
    maps = np.zeros((4, 4, 5))
    maps[0, 1, 2] = maps[1, 0, 0] = maps[1, 3, 4] = 1
    maps[2] = 1 / 20
    display = AttentionDisplay(
        photo, ["dog", "ball", "snow", "tree"], maps, np.array([1, 1, 1, 0.2])
    )
    smooth = display.upsampled(0)
    assert display.share(0) == pytest.approx((smooth >= half_level(smooth)).mean())
    axes = display.plot(shares=True)
    shares = [f"{round(100 * display.share(i))} % of the photo" for i in range(2)]
    assert titles(axes) == ["", f"dog\n{shares[0]}", f"ball\n{shares[1]}", "snow\n", "tree\n"]
    figure = axes[0].figure
    figure.set_dpi(300)
    renderer = figure.canvas.get_renderer()
    extents = [
        text.get_window_extent(renderer) for text in (*figure.texts, axes[1].title, axes[2].title)
    ]
    assert not any(one.overlaps(other) for i, one in enumerate(extents) for other in extents[:i])
    assert extents[-1].width < axes[2].get_window_extent(renderer).width
    assert titles(display.plot()) == ["", "dog", "ball", "snow", "tree"]
    axes = AttentionDisplay.compare([display, display], shares=True)
    assert titles(axes[1])[1] == f"dog\n{shares[0]}"
    display.save(tmp_path / "a.png", shares=True, dpi=50)
    plt.close("all")


def test_a_very_small_share(photo):
    maps = np.zeros((1, 40, 60))
    maps[0, 20, 30] = 1
    display = AttentionDisplay(np.repeat(photo, 5, axis=1), ["dog"], maps)
    assert titles(display.plot(Figure().subplots(1, 2), shares=True)) == [
        "",
        "dog\n< 1 % of the photo",
    ]


# === Files ===


def images_in(path):
    """The (width, height) of each picture in a PDF or SVG file."""
    if path.suffix == ".svg":
        embedded = re.findall(r"data:image/png;base64,([^\"]+)", path.read_text())
        return [Image.open(io.BytesIO(base64.b64decode(data))).size for data in embedded]
    images = re.findall(rb"<<[^>]*/Subtype /Image[^>]*", path.read_bytes())
    return [
        tuple(int(re.search(rb"/%s (\d+)" % side, image)[1]) for side in (b"Width", b"Height"))
        for image in images
    ]


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_photos_have_200_pixels_per_printed_inch_or_fewer(ending, tmp_path):
    photo = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    display = AttentionDisplay(photo, WORDS, maps_of(len(WORDS)))
    path = tmp_path / f"a.{ending}"
    inches = np.array([panel.get_position().width * 3.3 for panel in display.plot(width=3.3)])
    plt.close("all")
    display.save(path, width=3.3)
    assert [width for width, _ in images_in(path)] == pytest.approx(
        np.minimum(200 * inches, 300), abs=0.51
    )
    assert [width / height for width, height in images_in(path)] == pytest.approx(
        [1.5] * 5, rel=0.02
    )
    display.save(path, width=3.3, dpi=1000)
    assert images_in(path) == [(300, 200)] * 5, "no photo is enlarged"


def test_lines_stay_where_they_are_if_a_photo_is_shrunk():
    photo = np.random.default_rng(0).integers(0, 256, (600, 900, 3), dtype=np.uint8)
    display = AttentionDisplay(photo, WORDS, maps_of(len(WORDS)))
    axes = display.plot(width=3.3)
    plt.close("all")
    for panel, position in zip(axes[1:], display.positions()):
        shrink_to_printed_size(panel, 200)
        (image,) = panel.images
        assert image.get_array().shape[1] < 900
        assert (
            image.get_extent()
            == [-0.5, 899.5, 599.5, -0.5]
            == [*panel.get_xlim(), *panel.get_ylim()]
        )
        _, lines, _ = display.lit(position)
        np.testing.assert_allclose(panel.collections[0].get_segments()[0], lines[0])


def test_a_pdf_has_its_width_and_no_type_3_fonts(display, tmp_path):
    display.save(tmp_path / "a.pdf", width=3.3)
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in pdf and b"/FontFile2" in pdf
    box = [float(side) for side in re.search(rb"/MediaBox \[([^]]*)\]", pdf)[1].split()]
    assert box[2] == pytest.approx(72 * 3.3)


def test_the_width_and_resolution_of_a_file(display, tmp_path):
    for width, dpi in ((3.3, 100), (7, 50)):
        display.save(tmp_path / "dog.png", width=width, dpi=dpi)
        with Image.open(tmp_path / "dog.png") as picture:
            assert picture.width == round(width * dpi)
    display.save(tmp_path / "dog", words="all", columns=2, look="paper")
    with Image.open(tmp_path / "dog.png") as picture:
        assert picture.width == 200 * 8
    for wrong in ({"width": 0}, {"width": 41}, {"columns": 0}):
        with pytest.raises(ValueError, match="1 to 40 inches and 1 column or more.*width="):
            display.save(tmp_path / "dog.png", **wrong)


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
        assert picture.width == 1600 and picture.height < 1600


def test_an_empty_caption(photo, tmp_path):
    display = AttentionDisplay(photo, [], np.zeros((0, 7, 7)))
    assert len(display.plot(Figure().subplots(1, 1, squeeze=False))) == 1
    display.save(tmp_path / "a.png", dpi=50)
    display.animate(tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as cartoon:
        assert cartoon.convert("RGB").getpixel((5, 5)) != (255, 255, 255)


# === Soft and hard, one above the other ===


def test_soft_and_hard_one_above_the_other(photo):
    words = ["a", "red", "dog", "runs"]
    soft = CaptionResult("a red dog runs", words, -1.0, maps_of(4), image=photo)
    hard = AttentionDisplay(photo, ["the", "dog", "walks", "home"], maps_of(4))
    short = AttentionDisplay(photo, ["dog", "there"], maps_of(2))
    before = plt.get_fignums()
    axes = AttentionDisplay.compare([soft, hard, short], names=["soft", "hard", ""])
    assert axes.shape == (3, 4) and len(plt.get_fignums()) == len(before) + 1
    assert [titles(row) for row in axes] == [
        ["soft", "red", "dog", "runs"],
        ["hard", "dog", "walks", "home"],
        ["", "", "dog", ""],
    ]
    np.testing.assert_array_equal(axes[1, 1].images[0].get_array(), hard.lit(1)[0])
    tops = [[panel.get_position().y1 for panel in row] for row in axes]
    assert np.ptp(tops, axis=1).max() < 1e-6 and tops[0] > tops[1] > tops[2]
    assert (
        "".join(word for word, *_ in sentence(axes[0, 0].figure))
        == "areddogrunsthedogwalkshomedogthere"
    )
    own = Figure().subplots(1, 5, squeeze=False)
    assert (AttentionDisplay.compare([soft], ax=own, words="all", look="jet") == own).all()
    assert titles(own) == ["", *words]
    for displays, options in (
        ([soft, hard], {"ax": own}),
        ([soft], {"names": "ab"}),
        ([], {}),
        (hard, {}),
    ):
        with pytest.raises(ValueError, match="`displays` must be a list .* Received: displays="):
            AttentionDisplay.compare(displays, **options)
    plt.close("all")


ON_THE_LINE = "The line encloses half of the attention."
ON_DISCS = (
    "The larger a disc, the more its region voted for the word. Votes against it are not shown."
)


def test_votes_are_discs_on_the_photo_so_that_a_row_of_them_can_be_told_apart(photo):
    maps = maps_of(3)
    maps[2] = 1 / maps[2].size
    votes = AttentionDisplay(photo, ["a", "red", "dog"], maps, [0.1, 1, 1], map_kind="votes")
    picture, lines, note = votes.lit(1)
    np.testing.assert_array_equal(picture, dots_on_photo(votes.image, maps[1], maps[1].max()))
    assert (lines, note) == ([], "")
    assert votes.lit(0)[2] == "from memory" and votes.lit(2)[2] == "no positive votes"
    without = dots_on_photo(votes.image, np.zeros_like(maps[2]), 1.0)
    np.testing.assert_array_equal(votes.lit(2)[0], without)
    with_line, lines, _ = votes.lit(1, "paper")
    assert lines and (with_line != picture).any(), "another look is another look"
    panels = votes.plot(words="all", shares=True)
    assert "% of the photo" in panels[2].get_title()
    assert panels[1].get_title() == "a\n" and panels[3].get_title() == "dog\n"


def test_a_caption_that_is_the_same_as_above_is_written_once_and_the_line_is_explained(photo):
    words, maps = ["a", "red", "dog"], maps_of(3)
    attention, votes = (
        AttentionDisplay(photo, words, maps, map_kind=kind) for kind in ("attention", "votes")
    )
    other = AttentionDisplay(photo, ["a", "dog"], maps[:2])
    figure = AttentionDisplay.compare([attention, votes, other, attention])[0, 0].figure
    assert [word for word, *_ in sentence(figure)] == [*words, "a", "dog", *words]
    assert [text.get_text() for text in notes(figure)] == [f"{ON_THE_LINE} {ON_DISCS}"]
    for display, expected in ((attention, ON_THE_LINE), (votes, ON_DISCS)):
        (note,) = notes(display.plot(width=3.3)[0].figure)
        assert note.get_text().replace("\n", " ") == expected
    (note,) = notes(votes.plot(look="paper")[0].figure)
    assert note.get_text() == "The line encloses half of the positive votes."
    lost = AttentionDisplay(photo, words, maps, from_photo=[0.1, 1, 1])
    figure = AttentionDisplay.compare([attention, lost])[0, 0].figure
    assert len(sentence(figure)) == 6, "a word in italics makes another caption"
    plt.close("all")


def test_equal_words_are_below_each_other(photo):
    displays = [
        AttentionDisplay(photo, words, maps_of(len(words)))
        for words in (["man", "red", "shirt", "riding", "bicycle"], ["man", "riding", "bicycle"])
    ]
    axes = AttentionDisplay.compare(displays)
    assert [titles(row)[1:] for row in axes] == [
        ["man", "red", "shirt", "riding", "bicycle"],
        ["man", "", "", "riding", "bicycle"],
    ]
    plt.close("all")


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
    assert [panel.get_title() for panel in axes] == [
        "cross-entropy per word",
        "BLEU on dev",
        "CIDEr on dev",
    ]
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
    history = Curves(
        [{"cross_entropy": 3.0, "val_bleu_1": 0.3}, {"cross_entropy": 2.0, "val_bleu_1": 0.4}]
    )
    assert len(plot_history(history)) == 2
    plt.close("all")
    for kept in (dict(history), SimpleNamespace(history=history)):
        loss, _ = plot_history(kept, Figure().subplots(1, 2))
        np.testing.assert_array_equal(loss.get_lines()[0].get_ydata(), [3, 2])


def test_the_history_that_a_folder_has(tmp_path):
    from keras_sat.training.history import write_history

    write_history(
        tmp_path / "history.csv", [{"cross_entropy": 3.0}, {"cross_entropy": 2.0, "val_cider": 0.4}]
    )
    for path in (tmp_path, str(tmp_path / "history.csv")):
        loss, cider = plot_history(path, Figure().subplots(1, 2))
        np.testing.assert_array_equal(loss.get_lines()[0].get_xydata(), [[1, 3], [2, 2]])
        np.testing.assert_array_equal(cider.get_lines()[0].get_ydata(), [math.nan, 0.4])


def test_a_figure_of_a_grey_photo_explains_its_tint():
    maps = np.eye(4).reshape(2, 2, 4)[:, :, :2]
    coat = np.full((20, 20, 3), 30, np.uint8)
    for photo, is_said in ((coat, True), (coat * np.array([1, 4, 8], np.uint8), False)):
        figure = AttentionDisplay(photo, ["coat", "hat"], maps).plot(words="all")[0].figure
        assert any("warm tint" in text.get_text() for text in figure.texts) == is_said
