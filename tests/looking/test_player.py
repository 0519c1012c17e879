import base64
import hashlib
import io
import json
import re

import numpy as np
import pytest
from helpers import random_pixels
from pages import HOSTILE, Elements, Page, maps_of
from PIL import Image

from keras_sat import AttentionDisplay
from keras_sat.looking.dots import dots_on_photo
from keras_sat.looking.player import (
    HEADINGS,
    MEMORY_READING,
    READINGS,
    TEMPLATE,
    data_uri,
    encoded_maps,
    figure_data,
    player_page,
)
from keras_sat.looking.spotlight import (
    DIM,
    half_level,
    is_grey,
    light_of,
    spotlight,
    upsampled,
)

HOSTILE_NAME = 'x</title><script>document.title="harmed"</script>.jpg'


@pytest.fixture(scope="module")
def photo():
    return random_pixels(224, 224, 3)


def display_of(photo, caption="a brown dog runs over the wet grass"):
    words = caption.split()
    return AttentionDisplay(photo, words, maps_of(len(words)))


# === What is in the page ===


def test_a_page_has_the_hooks_that_programs_read(photo):
    elements = Elements(player_page(AttentionDisplay(photo, ["a", "dog"], maps_of(2, 3, 5))))
    ((root, _),) = elements("figure")
    assert root["class"] == "sat-player" and root["data-step"] == "-1"
    words = [(found["data-step"], text) for found, text in elements("button", type="button")[:2]]
    assert words == [("0", "a"), ("1", "dog")]
    assert elements("button", data_action="play")[0][1] == "Play"
    assert elements("button", data_action="photo", aria_pressed="true")[0][1] == "Photo"
    assert len(elements("canvas", data_role="map")) == len(elements("main")) == 1
    assert elements("title")[0][1] == "a dog"


@pytest.mark.parametrize("map_kind", ["attention", "votes"])
def test_a_page_says_how_to_read_it(photo, map_kind):
    def page(from_photo=None, **options):
        words, maps = ["a", "dog"], maps_of(2)
        display = AttentionDisplay(photo, words, maps, from_photo, map_kind=map_kind)
        return Elements(player_page(display, **options))

    assert page()("h1")[0][1] == HEADINGS[map_kind]
    assert page(title="a <dog>")("h1")[0][1] == "a <dog>"
    reading = {"class": "sat-reading"}
    assert page(np.array([0.6, 1]))("p", **reading)[0][1] == READINGS[map_kind]
    assert page(np.array([0.4, 1]))("p", **reading)[0][1] == READINGS[map_kind] + MEMORY_READING


def test_a_page_needs_nothing_else(photo):
    page = player_page(AttentionDisplay(photo, ["word"] * 16, maps_of(16)))
    without_data = re.sub(r'base64,[^"]*|"maps": "[^"]*"', "", page)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\beval\b|innerHTML|\{\{", without_data)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == 1 and sources[0].startswith("data:image/jpeg;base64,")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src "
        f"'sha256-{digest}'" in page
    )


def test_whatever_is_written_into_a_page_is_escaped(photo):
    page = player_page(AttentionDisplay(photo, HOSTILE, maps_of(5)), title=HOSTILE_NAME)
    elements = Elements(page)
    assert len(elements("script")) == 2 and len(elements("img")) == 1
    assert [text for _, text in elements("button")[:5]] == HOSTILE
    assert elements("title")[0][1] == HOSTILE_NAME
    assert json.loads(elements("script", type="application/json")[0][1])["rows"] == 14
    assert "a\udcffb" not in player_page(AttentionDisplay(photo, ["a\udcffb"], maps_of(1))), (
        "an undecodable byte"
    )
    frame = AttentionDisplay(photo, HOSTILE, maps_of(5))._repr_html_()
    ((attributes, _),) = Elements(frame)("iframe")
    assert attributes["srcdoc"] == player_page(AttentionDisplay(photo, HOSTILE, maps_of(5)))
    assert attributes["sandbox"] == "allow-scripts"


def test_maps_are_bytes_and_nan_is_told_apart():
    maps = np.array(
        [[[0.5, 0.25], [0.25, 0.0]], [[np.nan, 0.5], [np.inf, 0.0]], [[0.2, 0.2], [0.2, 0.2]]]
    )
    # Relative to the maximum of each map.
    expected = [254, 127, 127, 0, 255, 254, 255, 0, 254, 254, 254, 254]
    assert list(base64.b64decode(encoded_maps(maps))) == expected
    assert encoded_maps(np.zeros((0, 2, 2))) == "" and encoded_maps(np.zeros((1, 1, 1))) == "AA=="


def test_the_content_of_a_player(photo):
    display = AttentionDisplay(
        photo[:112], ["a", "dog"], maps_of(2, 3, 5), np.array([np.nan, 0.9876]), 0.62
    )
    data = figure_data(display)
    assert json.loads(json.dumps(data)) == data
    assert (data["rows"], data["columns"], data["aspect"], data["words"]) == (
        3,
        5,
        "2.0000",
        ["a", "dog"],
    )
    assert (data["fromPhoto"], data["confidence"]) == ([0, 0.988], 0.62)
    plain = figure_data(AttentionDisplay(photo, [], np.zeros((0, 3, 5))))
    assert plain["fromPhoto"] is plain["confidence"] is None


def test_small_drawings_stay_as_they_are_and_large_photos_are_shrunk(photo):
    drawing = np.zeros((64, 64, 3), np.uint8)
    drawing[20:40, 20:40] = (214, 48, 49)

    def decoded(uri):
        return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))

    np.testing.assert_array_equal(np.array(decoded(data_uri(drawing))), drawing)
    large = decoded(data_uri(np.tile(photo, (4, 8, 1))))
    assert large.format == "JPEG" and large.size == (640, 320)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_apart(scheme):
    part = TEMPLATE.read_text().split("@media")[scheme]
    colours = dict(re.findall(r"--([\w-]+): #(\w+)", part))

    def luminance(name):
        text = (
            colours[name]
            if len(colours[name]) == 6
            else "".join(2 * digit for digit in colours[name])
        )
        channels = np.array([int(text[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        return linear @ [0.2126, 0.7152, 0.0722]

    for ink, paper, least in (
        ("text", "page", 7),
        ("soft", "page", 4.5),
        ("text", "word", 4.5),
        ("soft", "word", 4.5),
        ("on-chosen", "chosen", 4.5),
        ("chosen", "page", 3),
        ("line", "page", 3),
    ):
        dark, light = sorted((luminance(ink), luminance(paper)))
        assert (light + 0.05) / (dark + 0.05) >= least, f"{ink} on {paper}"


# === In a browser ===


@pytest.fixture
def page(browser, photo, tmp_path):
    display_of(photo).to_html(tmp_path / "player.html")
    browser.get((tmp_path / "player.html").as_uri())
    return Page(browser)


def test_hovering_over_a_word_shows_its_map(page):
    photo = page.find("[data-action=photo]")
    assert (
        page.step == -1 and page.current() == [] and photo.get_attribute("aria-pressed") == "true"
    )
    assert page.note == "Choose a word or a place."
    page.hover(page.word(0))
    assert page.step == 0 and page.current() == ["a"]
    pixels = page.pixels()
    page.hover(page.word(2))
    assert page.step == 2 and page.current() == ["dog"] and page.pixels() != pixels
    assert page.note.startswith("“dog”: right, ")
    requests = page.browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert all(name.startswith("data:") for name in requests)
    photo.click()
    assert (
        page.step == -1 and page.current() == [] and photo.get_attribute("aria-pressed") == "true"
    )
    words, stage = (page.find(name).rect for name in (".sat-words", ".sat-stage"))
    assert words["y"] + words["height"] <= stage["y"], "the caption is above the photo"


def smooth_photo():
    """A drawing without fine detail, so that browsers and Pillow resize it alike."""
    y, x = np.mgrid[:120, :120] / 119
    return np.rint(255 * np.stack([x, 1 - y, 0.5 + 0.5 * np.sin(5 * x) * y], axis=-1)).astype(
        np.uint8
    )


@pytest.fixture
def drawn(browser, tmp_path):
    """A function that opens a player of maps.

    The photo is as large in the browser as its array.
    """

    def show(maps, photo=None, **options):
        photo = smooth_photo() if photo is None else photo
        words = [f"word{number}" for number in range(len(maps))]
        AttentionDisplay(photo, words, np.asarray(maps), **options).to_html(tmp_path / "drawn.html")
        browser.get((tmp_path / "drawn.html").as_uri())
        size = f"document.querySelector('.sat-stage').style.width = '{photo.shape[1]}px'"
        browser.execute_async_script(
            f"{size}; requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        return Page(browser)

    return show


def blob(row, column, size=14, width=2.0):
    y, x = np.mgrid[:size, :size]
    attention_map = np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * width**2))
    return attention_map / attention_map.sum()


@pytest.mark.parametrize("colours", ["many", "none"])
def test_the_browser_draws_what_python_draws(drawn, colours):
    maps = [blob(4, 9), blob(13, 0, width=1.0), 0.5 * blob(2, 2) + 0.5 * blob(11, 11)]
    photo = smooth_photo() if colours == "many" else np.repeat(smooth_photo()[..., :1], 3, axis=2)
    assert is_grey(photo) == (colours == "none")
    page = drawn(maps, photo)
    page.point_at(0.5, 0.5)  # the mouse is away from the words
    for step, attention_map in enumerate(maps):
        page.word(step).click()
        smooth = upsampled(attention_map, photo.shape[:2])
        is_inside = smooth >= half_level(smooth)
        near_line = np.zeros(is_inside.shape, bool)
        for axis in (0, 1):
            for shift in range(-4, 5):
                near_line |= np.roll(np.pad(is_inside, 5), shift, axis)[5:-5, 5:-5] != is_inside
        seen = page.shown()
        expected = spotlight(photo, light_of(smooth))
        np.testing.assert_allclose(seen[~near_line], expected[~near_line], atol=6)
        line = np.abs(seen - expected).max(axis=-1) > 40
        assert line.sum() > 50 and line[is_inside].any() and line[~is_inside].any(), "on the border"
        assert seen[line].min(axis=-1).max() > 200 and seen[line].max(axis=-1).min() < 60, (
            "white with a dark casing"
        )
        share = int(page.note.removesuffix(" % of the photo").rpartition(" ")[2])
        assert share == pytest.approx(100 * is_inside.mean(), abs=0.7)
    page.word(1).click()
    edge = page.shown().min(axis=-1) > 200
    assert edge[105:, :2].any() and edge[-2:, :15].any(), (
        "where the region meets the edge, the line stays in the photo"
    )


def test_a_grey_photo_in_a_notebook_has_a_warm_tint_where_it_is_lit(browser, tmp_path):
    """Its frame has no origin, and browsers let no page read pictures of others."""
    photo = np.full((120, 120, 3), 30, np.uint8)
    notebook = AttentionDisplay(photo, ["coat"], blob(7, 7)[None])._repr_html_()
    (tmp_path / "notebook.html").write_text(notebook, encoding="utf-8")
    browser.get((tmp_path / "notebook.html").as_uri())
    browser.switch_to.frame(0)
    page = Page(browser)
    page.word(0).click()
    seen = page.shown()
    browser.switch_to.default_content()
    peak = int(7.5 / 14 * len(seen))
    middle, corner = seen[peak, peak], seen[2, 2]
    expected = spotlight(photo, np.array([[1.0, 0.0]]).repeat(60, axis=1).repeat(120, axis=0))
    np.testing.assert_allclose([middle, corner], [expected[0, 0], expected[0, -1]], atol=6)


def test_what_is_not_lit_keeps_its_contrast(drawn):
    photo = np.zeros((120, 120, 3), np.uint8)
    photo[::2], photo[:, ::2] = 200, 60
    page = drawn(
        [blob(0, 0, width=0.8)], photo=np.kron(photo[:30, :30], np.ones((4, 4, 1), np.uint8))
    )
    before = page.shown()[60:, 60:]
    page.word(0).click()
    after = page.shown()[60:, 60:]
    assert np.ptp(after, axis=-1).max() <= 2, "grey"
    assert after.std() / before.std() == pytest.approx(DIM, abs=0.01) and DIM >= 0.3


def test_an_even_map_shows_the_photo_and_a_word_from_memory_has_no_map(drawn):
    maps = [np.full((7, 7), 1 / 49), blob(3, 3, size=7), blob(3, 3, size=7)]
    page = drawn(maps, from_photo=np.array([1.0, 0.49, 0.51]), confidence=0.624)
    assert page.note == "Choose a word or a place. Confidence 62 %."
    photo = page.shown()
    page.word(0).click()
    np.testing.assert_allclose(page.shown(), photo, atol=2)
    assert page.note == "“word0”: everywhere"
    page.word(1).click()
    assert page.note == "“word1”: from memory"
    dark = spotlight(smooth_photo(), np.zeros((120, 120)))
    np.testing.assert_allclose(page.shown(), dark, atol=3)
    assert page.words_with("data-memory") == ["word1"]
    assert page.word(1).value_of_css_property("font-style") == "italic"
    page.word(2).click()
    assert page.note.startswith("“word2”: centre, ")


def test_a_word_that_may_be_made_up_has_a_question_mark(drawn):
    page = drawn([blob(3, 3, size=7)] * 2, doubtful=[False, True])
    assert page.words_with("data-doubtful") == ["word1"]
    script = "return getComputedStyle(arguments[0], '::after').content"
    marks = [page.browser.execute_script(script, page.word(number)) for number in range(2)]
    assert marks == ["none", '"(?)"']
    page.word(1).click()
    assert page.note.endswith("; the word may be made up")
    page.word(0).click()
    assert "made up" not in page.note


def test_a_narrow_region_and_the_lines_of_a_large_photo(drawn):
    page = drawn(
        [blob(0, 7, width=0.3), blob(7, 13), blob(13, 7), blob(7, 0)],
        photo=np.zeros((100, 300, 3), np.uint8),
    )
    places = []
    for step in range(4):
        page.word(step).click()
        places.append(page.note.partition(": ")[2].partition(",")[0])
    assert places == ["top", "right", "bottom", "left"]
    page.word(0).click()
    assert page.note == "“word0”: top, half of the attention in less than 1 % of the photo"
    width = "return document.querySelector('canvas').width"
    assert page.browser.execute_script(width) == 300
    metrics = {"width": 800, "height": 900, "deviceScaleFactor": 2, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.word(1).click()
    assert page.browser.execute_script(width) == 600, "drawn at the screen's resolution"


def test_the_note_says_what_a_part_of_the_photo_holds(drawn):
    for map_kind in ("attention", "votes"):
        page = drawn([blob(7, 7)], map_kind=map_kind)
        page.word(0).click()
        assert f"half of the {map_kind} in " in page.note


def test_the_browser_draws_votes_as_python_does(drawn):
    maps = [blob(4, 9), np.full((14, 14), 1 / 196)]
    photo = smooth_photo()
    page = drawn(maps, photo, map_kind="votes")
    page.point_at(0.5, 0.5)  # the mouse is away from the words
    for step, votes in enumerate((maps[0], np.zeros((14, 14)))):
        page.word(step).click()
        expected = dots_on_photo(photo, votes, maps[0].max())
        assert np.abs(page.shown() - expected).mean() < 3
    assert page.note == "“word1”: no positive votes"


def test_an_island_of_one_cell_is_left_out_of_the_line(drawn):
    """Python leaves it out, too: tests/looking/test_spotlight.py."""
    island = blob(7, 7, width=2.5)
    island[12, 1] = 0.8 * island.max()
    page = drawn([blob(7, 7, width=2.5), island])
    lines = []
    for step in range(2):
        page.word(step).click()
        lines.append((page.shown()[80:, :40].min(axis=-1) > 200).sum())
    assert lines == [0, 0]


def test_on_a_wide_screen_the_photo_is_as_high_as_the_screen(drawn):
    page = drawn([blob(7, 7)])
    screen = {"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    page.browser.execute_script("document.querySelector('.sat-stage').style.width = ''")
    stage, words = (page.find(name).rect for name in (".sat-stage", ".sat-words"))
    assert stage["height"] > 0.85 * 720 and stage["y"] + stage["height"] <= 720
    assert words["x"] >= stage["x"] + stage["width"], "the words are beside it"
    assert page.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


# === From a place to its words ===


@pytest.fixture
def places(browser, photo, tmp_path):
    """A player whose words look at: nothing in particular, left, left and right, right,
    and from memory at the left.
    """
    even, left, right = np.full((14, 14), 1 / 196), blob(7, 2), blob(7, 11)
    maps = np.stack([even, left, 0.4 * left + 0.6 * right, right, left])
    words, from_photo = ["green", "dog", "brown", "the", "snow"], np.array([1, 1, 1, 1, 0.2])
    AttentionDisplay(photo, words, maps, from_photo).to_html(tmp_path / "places.html")
    browser.get((tmp_path / "places.html").as_uri())
    return Page(browser)


def test_a_place_lights_up_the_words_that_looked_there(places):
    places.word(1).click()
    shown = places.pixels()
    places.point_at(2.5 / 14, 0.5)
    assert places.words_with("data-here") == ["dog", "brown"] and places.note == "Here: dog, brown."
    here = (
        "return [1, 2].map((i) => getComputedStyle(document.querySelectorAll('.sat-words "
        "button')[i])"
    )
    strengths = [
        float(x) for x in places.browser.execute_script(f"{here}.getPropertyValue('--here'))")
    ]
    assert strengths == pytest.approx([1, 0.4], abs=0.02), "of words, their share of the strongest"
    assert places.step == -1 and places.current() == [], "the photo is seen without a map"
    places.point_at(11.5 / 14, 0.5)
    assert places.words_with("data-here") == ["brown"], "words such as “the” do not answer"
    places.point_at(0.5, 0.05)
    assert places.words_with("data-here") == [] and places.note == "Here: no word."
    places.hover(places.find("[data-role=note]"))
    assert places.step == 1 and places.current() == ["dog"] and places.pixels() == shown, (
        "leaving restores the word"
    )
    assert places.note.startswith("“dog”: left")


def test_a_finger_points_at_a_place_and_the_answer_stays(places):
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    places.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    places.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    stage = places.find(".sat-stage").rect
    at = {"x": stage["x"] + stage["width"] * 2.5 / 14, "y": stage["y"] + stage["height"] / 2}
    for kind, points in (("touchStart", [at]), ("touchEnd", [])):
        places.browser.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )
    places.wait_until(lambda: places.words_with("data-here") == ["dog", "brown"])
    places.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    places.word(2).click()
    assert places.words_with("data-here") == [] and places.current() == ["brown"]


def test_the_keyboard_points_at_a_place(places):
    from selenium.webdriver.common.keys import Keys

    places.press(Keys.TAB, Keys.TAB)
    assert places.browser.execute_script("return document.activeElement.className") == "sat-stage"
    assert places.step == 0, "nothing is pointed at yet"
    places.press(*[Keys.ARROW_LEFT] * 6)  # from the centre
    assert places.note == "Here: dog, brown."
    places.press(Keys.ARROW_RIGHT, *[Keys.ARROW_UP] * 20)
    assert places.note == "Here: no word."
    places.press(Keys.TAB)
    assert places.step == 0 and places.note == "“green”: everywhere"


# Recorded in the browser, since a test that polls may miss a step.
NOTE_STEPS = """
window.steps = [];
const player = document.querySelector(".sat-player");
new MutationObserver(() => steps.push(Number(player.dataset.step)))
  .observe(player, {attributeFilter: ["data-step"]});
"""


@pytest.mark.slow
def test_play_walks_through_the_caption_and_ends(page):
    page.browser.execute_script("document.querySelector('[data-action=speed]').value = '2'")
    page.browser.execute_script(NOTE_STEPS)
    page.play.click()
    assert page.play.text == "Pause"
    page.wait_until(lambda: page.play.text == "Play")
    assert page.browser.execute_script("return steps") == list(range(8))
    page.play.click()
    page.wait_until(lambda: page.step >= 2)
    page.play.click()
    assert page.browser.execute_script("return steps.slice(8, 10)") == [0, 1], (
        "at the end it starts again"
    )
    assert page.play.text == "Play"
    step = page.step
    page.browser.execute_async_script("setTimeout(arguments[0], 900)")
    assert page.step == step, "paused"
    page.play.click()
    assert page.step == step, "it resumes where it was"
    page.hover(page.word(6))
    assert page.step == 6 and page.play.text == "Play", "who points at a word wants to look at it"


def test_the_keyboard_is_enough(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    page.press(Keys.TAB)
    assert page.step == 0
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.step == 2
    page.press(Keys.TAB)
    # There is one stop for all words.
    assert page.browser.execute_script("return document.activeElement.className") == "sat-stage"
    ActionChains(page.browser).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert (
        page.step == 2
        and page.browser.execute_script("return document.activeElement.textContent") == "dog"
    )
    page.press(Keys.HOME, Keys.ARROW_LEFT)
    assert page.step == 0
    page.press(Keys.END, Keys.TAB, Keys.TAB, Keys.SPACE)
    assert page.step == 7 or page.play.text == "Pause"
    page.press(Keys.SPACE)
    assert page.play.text == "Play"
    page.press(Keys.TAB, Keys.ARROW_DOWN)
    assert page.find("[data-action=speed]").get_attribute("value") == "2"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.browser.execute_script(outline) == "solid"


def test_a_screen_reader_finds_names_for_everything(page):
    def named():
        nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return {
            (node["role"]["value"], node.get("name", {}).get("value"))
            for node in nodes
            if not node["ignored"]
        }

    expected = {
        ("button", "brown"),
        ("button", "Play"),
        ("button", "Photo"),
        ("combobox", "Speed"),
        ("heading", HEADINGS["attention"]),
        ("main", ""),
        (
            "application",
            "The photo. The arrow keys point at a place, and the words that looked there "
            "are named.",
        ),
    }
    expected |= {
        ("group", "The caption, a button for each word"),
        ("image", "The photo that the words describe"),
    }
    page.wait_until(lambda: expected <= named())
    note = page.find("[data-role=note]")
    assert note.get_attribute("aria-live") == "polite"
    page.play.click()
    assert note.get_attribute("aria-live") == "off", (
        "a note for each word would be too much to hear"
    )
    page.play.click()
    assert note.get_attribute("aria-live") == "polite"


def test_forced_colours_show_the_chosen_word_and_those_from_memory(places):
    forced = {"features": [{"name": "forced-colors", "value": "active"}]}
    places.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", forced)
    places.find("[data-action=photo]").click()
    places.hover(places.word(1))
    names = ("outline-style", "font-style")
    styles = [[places.word(i).value_of_css_property(name) for name in names] for i in (1, 2, 4)]
    assert styles == [["solid", "normal"], ["none", "normal"], ["none", "italic"]]
    places.point_at(11.5 / 14, 0.5)
    assert places.word(2).value_of_css_property("outline-style") == "solid"


@pytest.mark.parametrize("wish", ["reduce", "no-preference"])
def test_who_wants_no_motion_gets_none(page, wish):
    feature = {"name": "prefers-reduced-motion", "value": wish}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    moves = """const done = arguments[0], player = document.querySelector('.sat-player');
        new MutationObserver(() => {
            const canvas = document.querySelector('canvas');
            if (player.dataset.step === '1') setTimeout(() => done(canvas.getAnimations().length));
        }).observe(player, {attributeFilter: ["data-step"]});
        document.querySelector('[data-action=play]').click();"""
    assert page.browser.execute_async_script(moves) == (0 if wish == "reduce" else 1)


def test_a_phone_and_a_wide_screen(page):
    metrics = {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    widths = page.browser.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth]"
    )
    assert widths[0] <= widths[1] == 320
    boxes = """return ['img', 'canvas'].map((name) => {
        const box = document.querySelector(name).getBoundingClientRect();
        return [box.x, box.y, box.width, box.height]})"""
    for width in (320, 1200):
        metrics |= {"width": width, "mobile": False}
        page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        photo, canvas = page.browser.execute_script(boxes)
        assert photo == pytest.approx(canvas) and photo[2] == pytest.approx(photo[3], abs=1)


def test_an_empty_caption_and_cells_without_a_number(browser, photo, tmp_path):
    AttentionDisplay(photo, [], np.zeros((0, 7, 7))).to_html(tmp_path / "empty.html")
    browser.get((tmp_path / "empty.html").as_uri())
    page = Page(browser)
    assert (
        page.step == -1
        and not page.play.is_enabled()
        and not page.find("[data-action=photo]").is_enabled()
    )
    assert page.note == "The caption is empty."
    page.point_at(0.5, 0.5)
    assert page.note == "Here: no word."
    maps = np.full((1, 2, 4), 1 / 8)
    maps[0, 1, 0] = np.nan
    AttentionDisplay(photo, ["dog"], maps).to_html(tmp_path / "lost.html")
    browser.get((tmp_path / "lost.html").as_uri())
    page.word(0).click()
    seen = page.shown()
    height, width = seen.shape[:2]
    assert seen[int(0.9 * height), int(0.1 * width)] == pytest.approx([230, 0, 160])
    assert page.note == "“dog”: the attention is NaN"
    page.point_at(0.1, 0.9)
    assert page.note == "Here: no word."
