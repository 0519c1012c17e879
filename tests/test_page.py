"""The page of `export --web` in a real browser: its captions are Python's, and whatever goes wrong is a sentence."""

import base64
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from test_player import HOSTILE, Page

from data_utils import draw_scenes, tokenise
from data_utils.images import load_image
from keras_sat import AttentionDisplay, Captioner
from keras_sat.deploy.page_export import write_page
from keras_sat.deploy.page_runtime import runtime_files
from keras_sat.pictures.player import figure_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captioner():
    return Captioner.from_pretrained("scenes")


@pytest.fixture(scope="module")
def site(captioner, tmp_path_factory):
    """A folder that has the page in a folder of its own, as on a static host below another path."""
    try:
        runtime_files()
    except (OSError, ValueError) as error:
        pytest.skip(f"LiteRT.js cannot be had: {error}")
    place = tmp_path_factory.mktemp("site")
    write_page(captioner, place / "page", name="scenes")
    return place


class Site(Page):
    """The page in the browser."""

    def __init__(self, browser, address):
        super().__init__(browser)
        self.address = address

    def open(self, tab="", states=("ready", "done")):
        self.browser.get("about:blank")
        self.browser.get(self.address + tab)
        self.wait(*states)

    def wait(self, *states):
        self.until(lambda: self.state in (states or ("done",)))

    def until(self, condition):
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, 120, 0.05).until(lambda _: condition(), f"{self.state}: {self.message}")

    @property
    def state(self):
        return self.find(".sat-page").get_attribute("data-state")

    @property
    def message(self):
        return self.find('[data-role="message"]').text

    @property
    def caption(self):
        return self.find('[data-role="caption"]').text

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return self.browser.execute_script(script, selector)

    def give(self, path, *states):
        """Choose a picture, and wait until something was said about it."""
        self.browser.execute_script("document.querySelector('.sat-page').dataset.state = 'test'")
        self.find('[data-role="photo"]').send_keys(str(path))
        self.wait(*states)

    def ask(self, script):
        """Return what a script gives back that may wait."""
        whole = f"const done = arguments[0]; (async () => {{ {script} }})()"
        return self.browser.execute_async_script(f"{whole}.then(done, (e) => done(`${{e}}`))")


@pytest.fixture
def serve(browser, served):
    """A function that serves a folder and returns a Site in it, until the test has ended."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [STILL]})
    browser.set_script_timeout(120)
    yield lambda folder: Site(browser, f"http://127.0.0.1:{served(folder)}/page/")
    browser.get("about:blank")


@pytest.fixture
def page(site, serve):
    page = serve(site)
    page.open()
    return page


STILL = {"name": "prefers-reduced-motion", "value": "reduce"}


def scenes_in(folder, num_scenes, seed=61):
    paths = []
    for number, scene in enumerate(draw_scenes(num_scenes, seed=seed)):
        paths.append(folder / f"{number}.png")
        paths[-1].write_bytes(scene.png())
    return paths


# === Captions ===


def test_pictures_get_the_captions_of_python(page, captioner, tmp_path):
    assert page.message == "The captioner scenes is ready. Choose a photo."
    paths, same = scenes_in(tmp_path, 20), []
    for path, expected in zip(paths, captioner.caption(paths, num_beams=3, num_results=3)):
        page.give(path)
        same.append(page.caption == expected.caption)
        if not same[-1]:
            continue
        assert page.texts(".sat-words button") == expected.words
        assert page.texts(".sat-several button")[0] == expected.caption
        notes = page.texts(".sat-several small")
        assert len(notes) == 1 + len(expected.alternatives)
        log_prob = float(notes[0].partition("log probability ")[2].partition(",")[0])
        assert log_prob == pytest.approx(expected.log_prob, abs=0.1)
    assert sum(same) >= 19
    everything = page.browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    elsewhere = [name for name in everything if not name.startswith((page.address, "blob:", "data:"))]
    assert not elsewhere, "nothing is asked of another place, and pictures stay here"


def test_a_word_shows_where_the_captioner_looked_and_another_caption_can_be_chosen(page, captioner, tmp_path):
    (path,) = scenes_in(tmp_path, 1, seed=8)
    page.give(path)
    result = captioner.caption(path, num_beams=3)
    assert page.caption == result.caption
    notes = figure_data(AttentionDisplay(result.image, result.words, result.attention_weights))["maps"]["notes"]
    page.word(1).click()
    assert page.step == 1 and notes[1].partition(";")[0] in page.find('[data-role="note"]').text
    page.until(lambda: page.texts('[data-role="spoken"]') == [page.caption])
    second = page.browser.find_elements("css selector", ".sat-several button")[1]
    second.click()
    page.wait()
    assert page.caption == second.text == " ".join(page.texts(".sat-words button"))
    assert second.get_attribute("aria-pressed") == "true"


def test_say_shows_where_it_would_look(page, captioner, tmp_path):
    (path,) = scenes_in(tmp_path, 1)
    page.give(path)
    sentence = page.find("#sentence")
    for text, message in (
        ("A Red circle is above a blue star.", "Log probability of this sentence"),
        ("a zebra", "The model does not know: zebra."),
        ("a " * 30, "sentences of 1 to 19 words; this one has 30"),
        (HOSTILE[1], "does not know"),
    ):
        sentence.clear()
        sentence.send_keys(text)
        page.find('[data-role="say"] button').click()
        page.wait()
        assert message in page.message
        if "circle" in text:
            expected = captioner.attend(path, text)
            assert page.texts(".sat-words button") == expected.words
            assert float(page.message.rstrip(".").rpartition(" ")[2]) == pytest.approx(expected.log_prob, abs=0.2)


# === The playground ===


def test_sentences_follow_the_scene(site, serve, tmp_path):
    from selenium.webdriver import ActionChains, Keys

    def words(number):
        return page.texts(f".sat-compared section:nth-child({number}) .sat-words button")

    def seen():
        return int(page.find(".sat-page").get_attribute("data-scenes"))

    def after(action):
        before = seen()
        action()
        page.until(lambda: seen() > before and page.state == "done")

    page = serve(site)
    page.open("#scenes", ("done",))
    canvas, sentence = page.find('[data-role="scene"]'), page.caption
    assert page.texts('.sat-compared section:nth-child(1) [aria-current="true"]') == ["red"]
    assert "red circle" in sentence and "green square" in sentence and "red circle" not in " ".join(words(3))
    # The red circle is left of the green square; dragged down, it is below it.
    side = int(canvas.size["width"])
    drag = ActionChains(page.browser).move_to_element_with_offset(canvas, -int(side * 0.23), 0).click_and_hold()
    after(drag.move_by_offset(int(side * 0.3), int(side * 0.5)).release().perform)
    assert page.caption != sentence
    for name in ("blue", "star", "small"):
        (button,) = [one for one in page.browser.find_elements("css selector", ".sat-tools button") if one.text == name]
        after(button.click)
        assert button.get_attribute("aria-pressed") == "true"
    assert "blue star" in page.caption
    after(lambda: canvas.send_keys(Keys.PAGE_DOWN))
    assert "green square" in page.find('[data-role="scene-help"]').text
    after(lambda: canvas.send_keys(Keys.ARROW_UP))
    after(page.find('[data-action="remove"]').click)
    assert "square" not in page.caption
    for action in ("add", "another"):
        after(page.find(f'[data-action="{action}"]').click)
    # What the networks see is what is shown, and what they say of it is what Python says.
    shown = page.browser.execute_script("return document.querySelector('.sat-compared canvas').toDataURL()")
    (tmp_path / "scene.png").write_bytes(base64.b64decode(shown.partition(",")[2]))
    same = []
    for number, name in enumerate(("scenes", "scenes-hard", "scenes-none"), start=1):
        expected = Captioner.from_pretrained(name).caption(tmp_path / "scene.png", num_beams=1)
        same.append(words(number) == expected.words)
    assert sum(same) >= 2


# === Keyboard, widths, colours ===


def test_tabs_by_keyboard_and_narrow_and_dark(site, serve, browser, tmp_path):
    from selenium.webdriver import Keys

    page = serve(site)
    page.open()
    page.find("#tab-photo").send_keys(Keys.ARROW_RIGHT)
    page.wait()
    assert browser.switch_to.active_element == page.find("#tab-scenes")
    assert page.find("#panel-scenes").is_displayed() and not page.find("#panel-photo").is_displayed()
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    light = page.find("body").value_of_css_property("background-color")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [dark, STILL]})
    assert page.find("body").value_of_css_property("background-color") != light
    narrow = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    for tab in ("", "#scenes"):
        page.open(tab)
        if not tab:
            page.give(scenes_in(tmp_path, 1)[0])
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    named = "[...document.querySelectorAll('button, input, canvas[tabindex], video')].filter((one) => "
    named += "!one.labels?.length && !one.textContent.trim() && !one.getAttribute('aria-label')).length"
    assert browser.execute_script(f"return {named}") == 0, "all that can be used has a name"
    live = "return [...document.querySelectorAll('[aria-live], [role=status]')].map((one) => one.dataset.role)"
    assert {*browser.execute_script(live)} == {"message", "spoken"}, "screen readers are told once"


# === What goes wrong is a sentence ===


@pytest.fixture
def other_site(site, tmp_path):
    """A copy of the site, to spoil."""
    return shutil.copytree(site, tmp_path / "site")


def test_pictures_that_cannot_be_read(page, tmp_path):
    bad = tmp_path / "<img src=x onerror=alert(1)>.png"
    bad.write_bytes(b"no picture")
    page.give(bad, "error")
    assert "cannot read “<img src=x onerror=alert(1)>.png” (image/png) as a picture" in page.message
    Image.new("1", (10_000, 10_000)).save(tmp_path / "large.png")
    page.give(tmp_path / "large.png", "error")
    assert "This picture has 10000 x 10000 pixels; the page accepts up to 60 million" in page.message
    page.give(scenes_in(tmp_path, 1)[0])
    assert page.caption, "the next one is captioned"
    page.give(bad, "error")
    assert not page.find('[data-role="result"]').is_displayed(), "it is that of another photo"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("runtime/index.js", "LiteRT, which runs the network, is missing or cannot run in this browser"),
        ("photo/model.tflite.gz", "A file of this page, photo/model.tflite.gz, is missing: the server answered 404"),
        ("page.json", "A file of this page, page.json, is missing: the server answered 404"),
    ],
)
def test_a_file_that_is_missing_is_named(other_site, serve, browser, path, message):
    (other_site / "page" / path).unlink()
    page = serve(other_site)
    page.open(states=("error",))
    assert message in page.message
    assert browser.get_log("browser")  # the browser complains of it too


def test_a_file_and_an_old_browser_get_a_sentence(site, serve, browser):
    page = Site(browser, (site / "page" / "index.html").as_uri())
    page.open(states=("loading",))
    assert "does not run scripts from files: keras-sat app FOLDER serves this folder" in page.message
    assert browser.get_log("browser")
    script = {"source": "delete self.DecompressionStream"}
    old = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        page = serve(site)
        page.open(states=("error",))
        assert page.message == "This browser is too old for the page, which needs one from 2023 or later."
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", old)


# === The same in two languages ===

SENTENCES = [
    "A dog's ball isn't the man's; I cannot, gonna, wanna, gotta; rock 'n' roll o'clock",
    "two snow-covered U.S. cars at 5:30 p.m. “Curly” ‘quotes’ and the dogs’ bone",
    "Mr. Smith's $3.50 is 1/2 of 1,000 & more `backticks' and don`t they'll've a@b.c -x- --y",
    "Ein Mädchen läuft über die Straße, naïve café. собака бежит по траве 犬が走る हिन्दी में वाक्य",
    "?!",
]


def test_sentences_are_cut_as_in_python(page):
    script = f"const {{ tokenise }} = await import('./tokenise.js'); return {json.dumps(SENTENCES)}.map(tokenise);"
    assert page.ask(script) == [tokenise(sentence) for sentence in SENTENCES]


def test_maps_are_put_into_light_and_words_as_in_python(page):
    maps = np.random.default_rng(4).dirichlet(np.full(35, 0.3), 6).astype(np.float32)
    maps[4] = 1 / 35
    fractions = np.array([0.9, 0.5, 0.124, 1, 0.7, 0.3])
    words = list("abcdef")
    given = {"words": words, "maps": maps.tolist(), "rows": 5, "columns": 7, "confidence": 0.624}
    for from_photo in (None, fractions.tolist()):
        result = json.dumps({**given, "fromPhoto": from_photo})
        script = f"const {{ shownOf }} = await import('./maps.js'); const shown = shownOf({result}, 1.5);"
        found = page.ask(f"{script} return {{ ...shown, maps: Array.from(shown.maps) }};")
        image = np.zeros((20, 30, 3), np.uint8)
        expected = figure_data(AttentionDisplay(image, words, maps.reshape(-1, 5, 7), from_photo, confidence=0.624))
        assert found["note"] == expected["note"] and found["aspect"] == expected["aspect"]
        assert found["notes"] == expected["maps"]["notes"]
        assert found["fromPhoto"] == expected["maps"].get("fromPhoto")
        light = np.frombuffer(base64.b64decode(expected["maps"]["maps"]), np.uint8)
        np.testing.assert_allclose(found["maps"], light, atol=1)


@pytest.mark.parametrize("size", [(64, 64), (31, 500), (900, 1300)])
def test_pictures_are_stretched_as_in_python(page, tmp_path, size):
    rng = np.random.default_rng(sum(size))
    coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    picture = coarse.resize(size[::-1], Image.Resampling.BICUBIC)
    noisy = np.clip(np.asarray(picture) + rng.normal(0, 20, (*size, 3)), 0, 255).astype(np.uint8)
    for kind, most in (("png", 0), ("jpeg", 2)):
        path = tmp_path / f"a.{kind}"
        Image.fromarray(noisy).save(path, quality=90)
        content = base64.b64encode(path.read_bytes()).decode()
        found = page.ask(
            "const { readPhoto } = await import('./read_photo.js');"
            f"const bytes = Uint8Array.from(atob('{content}'), (x) => x.charCodeAt(0));"
            f"const file = new File([bytes], 'a', {{ type: 'image/{kind}' }});"
            "return Array.from((await readPhoto(file, [96, 112])).pixels);"
        )
        differences = np.abs(np.reshape(found, (96, 112, 3)) - load_image(path, (96, 112)).astype(int))
        assert differences.mean() <= most / 4 and (most or differences.max() == 0), kind


# === Many things at once ===


def test_the_photo_that_came_last_is_shown(page, captioner, tmp_path):
    paths = scenes_in(tmp_path, 4, seed=5)
    page.give(paths[0])
    for path in paths[1:]:  # none waits for the one before
        page.find('[data-role="photo"]').send_keys(str(path))
    page.wait()
    expected = captioner.caption(paths[-1], num_beams=3)
    assert page.caption == expected.caption == " ".join(page.texts(".sat-words button"))
    assert page.texts(".sat-several button")[0] == expected.caption


def test_each_tab_keeps_what_it_says(page, tmp_path):
    page.give(scenes_in(tmp_path, 1)[0])
    caption, message = page.caption, page.message
    page.find("#tab-scenes").click()
    page.wait()
    assert page.caption != caption and page.message != message
    page.find('[data-action="another"]').click()
    page.find("#tab-photo").click()
    assert (page.caption, page.message, page.state) == (caption, message, "done")
    page.browser.back()
    page.wait()
    assert page.find("#panel-scenes").is_displayed()


DROP = """
const content = Uint8Array.from(atob(arguments[0]), (x) => x.charCodeAt(0));
const given = new DataTransfer();
given.items.add(new File([content], "dropped.png", { type: "image/png" }));
document.querySelector(".sat-page").dataset.state = "test";
const options = { bubbles: true, cancelable: true };
const event = arguments[1] === "drop" ? new DragEvent("drop", { ...options, dataTransfer: given })
  : new ClipboardEvent("paste", { ...options, clipboardData: given });
document.body.dispatchEvent(event);
return event.defaultPrevented;
"""


@pytest.mark.parametrize("how", ["drop", "paste"])
def test_photos_are_dropped_and_pasted(page, captioner, tmp_path, how):
    (path,) = scenes_in(tmp_path, 1, seed=12)
    prevented = page.browser.execute_script(DROP, base64.b64encode(path.read_bytes()).decode(), how)
    page.wait()
    assert page.caption == captioner.caption(path, num_beams=3).caption
    assert prevented == (how == "drop"), "the browser stays on the page"


def test_a_camera_that_may_not_be_used_is_a_sentence(page):
    page.find('[data-action="camera"]').click()
    page.until(lambda: "The camera cannot be used" in page.message)
    assert page.find('[data-action="camera"]').is_enabled() and page.state == "ready"
