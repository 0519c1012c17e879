import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from keras_sat import AttentionDisplay
from keras_sat.pictures.player import (
    TEMPLATE,
    data_uri,
    encoded_maps,
    player_page,
    where,
)

HOSTILE = [
    '</script><script>document.title="harmed"</script>',
    '"><img src=x onerror=alert(1)>',
    "{{maps}}",
    "<!--",
    "’",
]
HOSTILE_NAME = 'x</title><script>document.title="harmed"</script>.jpg'


@pytest.fixture(scope="module")
def photo():
    return np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)


def maps_of(num_words, rows=14, columns=14):
    """Each word looks at one cell and a little around it."""
    maps = np.full((num_words, rows, columns), 0.2 / (rows * columns))
    for number in range(num_words):
        maps[number, (3 * number) % rows, (5 * number) % columns] += 0.8
    return maps


def display_of(photo, caption="a brown dog runs over the wet grass"):
    words = caption.split()
    return AttentionDisplay(photo, words, maps_of(len(words)))


class Elements(HTMLParser):
    """The elements of a page, as a browser sees them: (tag, attributes, text)."""

    def __init__(self, page):
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        self.open.append(self.found[-1])

    def handle_data(self, data):
        if self.open:
            self.open[-1][2] += data

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def __call__(self, tag, **attributes):
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [(found, text) for name, found, text in self.found if name == tag and wanted.items() <= found.items()]


# === What is in the page ===


def test_a_page_has_the_hooks_that_programs_read(photo):
    elements = Elements(player_page(AttentionDisplay(photo, ["a", "dog"], maps_of(2, 3, 5))))
    ((root, _),) = elements("figure")
    assert root["class"] == "sat-player" and root["data-step"] == "-1"
    assert [(found["data-step"], text) for found, text in elements("button", type="button")[:2]] == [
        ("0", "a"),
        ("1", "dog"),
    ]
    assert elements("button", data_action="play")[0][1] == "Play"
    assert elements("button", data_action="photo", aria_pressed="true")[0][1] == "Photo"
    ((canvas, _),) = elements("canvas", data_role="map")
    assert (canvas["width"], canvas["height"]) == ("5", "3")
    assert elements("title")[0][1] == "a dog"


def test_a_page_needs_nothing_else(photo):
    page = player_page(AttentionDisplay(photo, ["word"] * 16, maps_of(16)))
    without_data = re.sub(r'base64,[^"]*|"maps": "[^"]*"', "", page)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\beval\b|innerHTML|\{\{", without_data)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == 1 and sources[0].startswith("data:image/jpeg;base64,")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page


def test_whatever_is_written_into_a_page_is_escaped(photo):
    page = player_page(AttentionDisplay(photo, HOSTILE, maps_of(5)), title=HOSTILE_NAME)
    elements = Elements(page)
    assert len(elements("script")) == 2 and len(elements("img")) == 1
    assert [text for _, text in elements("button")[:5]] == HOSTILE
    assert elements("title")[0][1] == HOSTILE_NAME
    assert json.loads(elements("script", type="application/json")[0][1])["rows"] == 14
    assert "a\udcffb" not in player_page(AttentionDisplay(photo, ["a\udcffb"], maps_of(1))), "an undecodable byte"
    frame = AttentionDisplay(photo, HOSTILE, maps_of(5))._repr_html_()
    ((attributes, _),) = Elements(frame)("iframe")
    assert attributes["srcdoc"] == player_page(AttentionDisplay(photo, HOSTILE, maps_of(5)))
    assert attributes["sandbox"] == "allow-scripts"


def test_maps_are_bytes_and_nan_is_told_apart():
    maps = np.array([[[0.5, 0.25], [0.25, 0.0]], [[np.nan, 0.5], [np.inf, 0.0]], [[0.8, 0.0], [0.0, 0.0]]])
    # full light is three times the uniform weight: of four cells .75, or what the greatest has
    half, quarter = round(254 * 0.5 / 0.75), round(254 * 0.25 / 0.75)
    assert list(base64.b64decode(encoded_maps(maps))) == [half, quarter, quarter, 0, 255, 254, 255, 0, 254, 0, 0, 0]
    assert encoded_maps(np.zeros((0, 2, 2))) == ""


def test_where_a_map_looks_in_words():
    middle = np.zeros((3, 3))
    middle[1, 1] = 1
    assert where(middle) == "looks most at the centre; one of 9 cells gets 100 %: 9.0 times the uniform weight."
    assert "at the top; one of 9 cells gets 60 %" in where(np.array([[0.1, 0.6, 0.1], [0, 0.1, 0], [0, 0.1, 0]]))
    assert where(np.full((4, 4), 1 / 16)) == "looks everywhere equally."
    assert where(np.array([[np.nan, 0.5]])) == "the attention is NaN."
    assert where(np.array([[0.3, 0.7]])).startswith("looks most at the right")
    assert where(9 * middle) == where(middle), "shares are of the map's own sum"


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
    colours = [dict(re.findall(r"--([\w-]+): #(\w+)", part)) for part in TEMPLATE.read_text().split("@media")[:2]][
        scheme
    ]

    def luminance(name):
        text = colours[name] if len(colours[name]) == 6 else "".join(2 * digit for digit in colours[name])
        channels = np.array([int(text[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for ink, paper, least in (
        ("text", "page", 7),
        ("soft", "page", 4.5),
        ("text", "word", 4.5),
        ("on-chosen", "chosen", 4.5),
        ("chosen", "page", 3),
        ("line", "page", 3),
    ):
        dark, light = sorted((luminance(ink), luminance(paper)))
        assert (light + 0.05) / (dark + 0.05) >= least, f"{ink} on {paper}"


# === In a browser ===


class Page:
    """A player in the browser."""

    def __init__(self, browser):
        self.browser = browser

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def word(self, step):
        return self.find(f'button[data-step="{step}"]')

    @property
    def step(self):
        return int(self.find(".sat-player").get_attribute("data-step"))

    @property
    def play(self):
        return self.find('[data-action="play"]')

    def pixels(self):
        return self.browser.execute_script("return document.querySelector('canvas').toDataURL()")

    def current(self):
        script = "return [...document.querySelectorAll('[aria-current]')].map((word) => word.textContent)"
        return self.browser.execute_script(script)

    def hover(self, element):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def wait_until(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 20, poll_frequency=0.02).until(lambda _: condition())


@pytest.fixture
def page(browser, photo, tmp_path):
    display_of(photo).to_html(tmp_path / "player.html")
    browser.get((tmp_path / "player.html").as_uri())
    return Page(browser)


def test_hovering_over_a_word_shows_its_map(page):
    photo = page.find("[data-action=photo]")
    assert page.step == -1 and page.current() == [] and photo.get_attribute("aria-pressed") == "true"
    assert page.find("[data-role=note]").text == "The photo alone."
    page.hover(page.word(0))
    assert page.step == 0 and page.current() == ["a"]
    pixels = page.pixels()
    page.hover(page.word(2))
    assert page.step == 2 and page.current() == ["dog"] and page.pixels() != pixels
    assert page.find("[data-role=note]").text.startswith("“dog”, word 3 of 8: looks most at the ")
    requests = page.browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith("data:") for name in requests)
    photo.click()
    assert page.step == -1 and page.current() == [] and photo.get_attribute("aria-pressed") == "true"


def test_a_flat_map_is_as_flat_on_the_canvas(browser, photo, tmp_path):
    maps = np.stack([np.full((7, 7), 1 / 49), np.full((7, 7), 1 / 49)])
    maps[1, 3, 3] *= 1.5
    AttentionDisplay(photo, ["a", "dog"], maps).to_html(tmp_path / "flat.html")
    browser.get((tmp_path / "flat.html").as_uri())
    page = Page(browser)
    greys = """const canvas = document.querySelector('canvas'), {width, height} = canvas;
        const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
        return [...new Set([...data].filter((_, i) => i % 4 === 0))]"""
    page.word(0).click()
    assert browser.execute_script(greys) == [85]  # of 255: full light is three times the uniform weight
    page.word(1).click()
    assert 110 < max(browser.execute_script(greys)) < 130


def test_the_canvas_is_bright_where_the_word_looks(page, photo):
    from selenium.webdriver.common.keys import Keys

    page.word(3).send_keys(Keys.SPACE)
    red = """const canvas = document.querySelector('canvas'), {width, height} = canvas;
        const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
        return [width, height, [...data].filter((_, i) => i % 4 === 0)]"""
    width, height, pixels = page.browser.execute_script(red)
    shown = np.array(pixels).reshape(height, width)
    expected = display_of(photo).upsampled(3)
    expected = np.array(Image.fromarray(expected).resize((width, height), Image.Resampling.BOX))
    np.testing.assert_allclose(shown, 255 * expected / expected.max(), atol=60)  # browsers smooth more
    row, column = np.unravel_index(shown.argmax(), shown.shape)
    assert (row * 14 // height, column * 14 // width) == (9, 1)


# Recorded in the browser, since a test that polls may miss a step.
NOTE_STEPS = """
window.steps = [];
const player = document.querySelector(".sat-player");
new MutationObserver(() => steps.push(Number(player.dataset.step))).observe(player, {attributeFilter: ["data-step"]});
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
    assert page.browser.execute_script("return steps.slice(8, 10)") == [0, 1], "at the end it starts again"
    assert page.play.text == "Play"
    step = page.step
    page.browser.execute_async_script("setTimeout(arguments[0], 900)")
    assert page.step == step, "paused"
    page.play.click()
    assert page.step == step, "it resumes where it was"
    page.hover(page.word(6))
    assert page.step == 6 and page.play.text == "Play", "who points at a word wants to look at it"


def test_the_keyboard_is_enough(page):
    from selenium.webdriver.common.keys import Keys

    page.press(Keys.TAB, Keys.TAB)
    assert page.step == 1
    page.press(Keys.ARROW_RIGHT)
    assert page.step == 2
    page.press(Keys.HOME, Keys.ARROW_LEFT)
    assert page.step == 0
    page.press(Keys.END, Keys.TAB, Keys.SPACE)
    assert page.play.text == "Pause"
    page.press(Keys.SPACE)
    assert page.play.text == "Play"
    page.press(Keys.TAB, Keys.TAB, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    opacity = page.browser.execute_script("return getComputedStyle(document.querySelector('canvas')).opacity")
    assert float(opacity) == pytest.approx(0.73)
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.browser.execute_script(outline) == "solid"


def test_a_screen_reader_finds_names_for_everything(page):
    def named():
        nodes = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if not node["ignored"]}

    expected = {
        ("button", "brown"),
        ("button", "Play"),
        ("button", "Photo"),
        ("combobox", "Speed"),
        ("slider", "Opacity"),
    }
    expected |= {("group", "The caption, a button for each word"), ("image", "The photo that the words below describe")}
    page.wait_until(lambda: expected <= named())
    assert page.find("[data-role=note]").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("wish", ["reduce", "no-preference"])
def test_who_wants_no_motion_gets_none(page, wish):
    feature = {"name": "prefers-reduced-motion", "value": wish}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    still = """const done = arguments[0], seen = new Set(), canvas = document.querySelector('canvas');
        document.querySelector('[data-action=play]').click();
        (function look() {
            seen.add(canvas.toDataURL());
            if (document.querySelector('.sat-player').dataset.step === '2') return done(seen.size);
            requestAnimationFrame(look);
        })();"""
    pictures = page.browser.execute_async_script(still)
    assert pictures <= 3 if wish == "reduce" else pictures > 3


def test_a_phone_and_a_wide_screen(page):
    metrics = {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    widths = page.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
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
    assert page.step == -1 and not page.play.is_enabled() and not page.find("[data-action=photo]").is_enabled()
    assert page.find("[data-role=note]").text == "The caption is empty."
    maps = np.full((1, 2, 4), 1 / 8)
    maps[0, 1, 0] = np.nan
    AttentionDisplay(photo, ["dog"], maps).to_html(tmp_path / "lost.html")
    browser.get((tmp_path / "lost.html").as_uri())
    colours = """const canvas = document.querySelector('canvas'), brush = canvas.getContext('2d');
        const pixel = (x, y) => [...brush.getImageData(x * canvas.width, y * canvas.height, 1, 1).data];
        return [pixel(.1, .9), pixel(.9, .1)]"""
    page.word(0).click()
    lost, known = browser.execute_script(colours)
    assert lost == [230, 0, 160, 255] and known[0] == known[1] == known[2]
    assert "the attention is NaN" in page.find("[data-role=note]").text
