"""The page of `export --web` in a real browser: its captions are Python's, and whatever
goes wrong is a sentence.
"""

import base64
import io
import json
import shutil

import numpy as np
import pytest
from pages import HOSTILE, Page
from PIL import Image

from data_utils import draw_scenes, tokenise
from data_utils.base import write_json
from data_utils.photos import MARGIN, crop_of, load_image
from data_utils.scenes import COLOURS, SHAPES
from keras_sat import Captioner
from keras_sat.export.page_export import PAGE, write_page
from keras_sat.export.page_runtime import runtime_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captioner():
    return Captioner.from_pretrained("scenes")


@pytest.fixture(scope="module")
def site(captioner, tmp_path_factory):
    """A folder that has the page in a folder of its own, as on a static host below
    another path.
    """
    try:
        runtime_files()
    except (OSError, ValueError) as error:
        pytest.skip(f"LiteRT.js cannot be had: {error}")
    place = tmp_path_factory.mktemp("site")
    write_page(captioner, place / "page", name="scenes")
    assert not (place / "page" / "examples").exists(), "this captioner has no words for them"
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

        WebDriverWait(self.browser, 120, 0.05).until(
            lambda _: condition(), f"{self.state}: {self.message}"
        )

    @property
    def state(self):
        return self.find(".sat-page").get_attribute("data-state")

    @property
    def message(self):
        return self.find('[data-role="message"]').text

    @property
    def caption(self):
        return self.find('[data-role="caption"]').get_attribute("textContent")

    @property
    def spoken(self):
        return self.find('[data-role="spoken"]').get_attribute("textContent")

    def after(self, action, *states):
        """Do something slow, and wait until its result is shown."""
        self.browser.execute_script("document.querySelector('.sat-page').dataset.state = 'test'")
        action()
        self.wait(*states)

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return self.browser.execute_script(script, selector)

    def give(self, path, *states):
        """Choose a picture, and wait until something was said about it."""
        self.after(lambda: self.find('[data-role="photo"]').send_keys(str(path)), *states)

    def shown(self):
        """Return the pixels of the photo in the player (height, width, 4), whatever
        lies over it.
        """
        script = (
            "const photo = document.querySelector('.sat-stage').firstElementChild; await "
            "photo.decode();"
        )
        script += "const canvas = new OffscreenCanvas(photo.naturalWidth, photo.naturalHeight);"
        script += "const brush = canvas.getContext('2d'); brush.drawImage(photo, 0, 0);"
        script += (
            "return [canvas.height, [...brush.getImageData(0, 0, canvas.width, "
            "canvas.height).data]];"
        )
        height, values = self.ask(script)
        return np.reshape(values, (height, -1, 4))

    def ask(self, script):
        """Return what a script gives back that may wait."""
        whole = f"const done = arguments[0]; (async () => {{ {script} }})()"
        return self.browser.execute_async_script(f"{whole}.then(done, (e) => done(`${{e}}`))")


@pytest.fixture
def serve(browser, served):
    """A function that serves a folder and returns a Site in it, until the test has
    ended.
    """
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
DARK = {"name": "prefers-color-scheme", "value": "dark"}


def scenes_in(folder, num_scenes, seed=61):
    paths = []
    for number, scene in enumerate(draw_scenes(num_scenes, seed=seed)):
        paths.append(folder / f"{number}.png")
        paths[-1].write_bytes(scene.png())
    return paths


# === Captions ===


def test_pictures_get_the_captions_of_python(page, captioner, tmp_path):
    assert page.message == "Choose a photo."
    paths, same = scenes_in(tmp_path, 20), []
    for path, expected in zip(paths, captioner.caption(paths, num_beams=3, num_results=3)):
        page.give(path)
        same.append(page.caption == expected.caption)
        if not same[-1]:
            continue
        assert page.texts(".sat-words button") == expected.words
        assert page.texts(".sat-several button")[0] == expected.caption
        notes = page.browser.find_elements("css selector", ".sat-several small")
        assert len(notes) == 1 + len(expected.alternatives)
        assert int(notes[0].text.split()[1]) == pytest.approx(100 * expected.confidence, abs=2)
        log_prob = float(notes[0].get_attribute("title").rpartition(" ")[2])
        assert log_prob == pytest.approx(expected.log_prob, abs=0.1)
    assert sum(same) >= 19
    everything = page.browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)"
    )
    elsewhere = [
        name for name in everything if not name.startswith((page.address, "blob:", "data:"))
    ]
    assert not elsewhere, "nothing is asked of another place, and pictures stay here"


def test_a_word_shows_where_the_captioner_looked_and_another_caption_can_be_chosen(
    page, captioner, tmp_path
):
    (path,) = scenes_in(tmp_path, 1, seed=8)
    page.give(path)
    assert page.caption == captioner.caption(path, num_beams=3).caption
    page.word(1).click()
    assert page.step == 1 and page.current() == [page.caption.split()[1]]
    page.until(lambda: page.spoken == page.caption)
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
            assert float(page.message.rstrip(".").rpartition(" ")[2]) == pytest.approx(
                expected.log_prob, abs=0.2
            )


# === The picture that was read is the one that is shown ===


def test_an_animation_shows_the_frame_that_was_read_and_transparent_pixels_are_white(
    page, browser, captioner, tmp_path
):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [DARK, STILL]})
    first, second = (Image.fromarray(scene.image) for scene in draw_scenes(2, seed=61))
    first.save(tmp_path / "moving.gif", save_all=True, append_images=[second], duration=10, loop=0)
    hole = np.dstack([np.asarray(first), np.full((64, 64), 255, np.uint8)])
    hole[:, 32:] = 0
    Image.fromarray(hole).save(tmp_path / "hole.png")
    for name in ("moving.gif", "hole.png"):
        page.give(tmp_path / name)
        read = load_image(tmp_path / name, (64, 64))
        assert page.caption == captioner.caption(tmp_path / name, num_beams=3).caption
        np.testing.assert_allclose(page.shown()[..., :3], read, atol=1)
        assert (page.shown()[..., 3] == 255).all()
        assert "image/gif" not in page.find(".sat-stage img").get_attribute("src")
    assert (read[:, 32:] == 255).all()
    Image.new("RGB", (3000, 1500), "teal").save(tmp_path / "large.jpg")
    page.give(tmp_path / "large.jpg")
    assert page.shown().shape == (512, 1024, 4)


# === Examples, and where things are ===


@pytest.fixture
def with_examples(site, tmp_path):
    """The site, with the example photos."""
    folder = shutil.copytree(site, tmp_path / "site") / "page"
    write_json(
        folder / "page.json", {**json.loads((folder / "page.json").read_text()), "examples": True}
    )
    shutil.copytree(PAGE / "examples", folder / "examples")
    return folder.parent


def test_the_first_example_is_captioned_on_load_and_the_others_by_a_tap(
    with_examples, serve, captioner
):
    page = serve(with_examples)
    page.open(states=("done",))
    examples = page.browser.find_elements("css selector", ".sat-examples button")
    assert len(examples) == 6
    label = page.find(".sat-examples small")
    assert label.value_of_css_property("writing-mode") == "horizontal-tb"
    assert float(label.value_of_css_property("font-size").removesuffix("px")) >= 12
    for number in (0, 5):
        if number:
            page.after(examples[number].click)
        name = examples[number].get_attribute("data-example")
        assert (
            page.caption
            == captioner.caption(PAGE / "examples" / f"{name}.jpg", num_beams=3).caption
        )
        assert [one.get_attribute("aria-pressed") == "true" for one in examples].index(
            True
        ) == number
        assert page.message.startswith("A mistake") == (number == 5)
        assert page.find('[data-role="choose"]').text == "Another photo"


MESSAGES = """
window.messages = [];
const message = () => document.querySelector('[data-role="message"]')?.textContent;
new MutationObserver(() => messages.push(message()))
  .observe(document, { childList: true, subtree: true, characterData: true });
"""


def test_the_download_is_announced_in_megabytes(site, serve, browser):
    observer = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": MESSAGES}
    )
    try:
        page = serve(site)
        page.open()
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", observer)
    files = ("runtime/litert_wasm_internal.wasm", "photo/model.tflite.gz")
    size = round(sum((site / "page" / name).stat().st_size for name in files) / 1e6)
    assert size > 1 and f"Loading {size} MB …" in browser.execute_script("return messages")


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 720)])
def test_the_words_and_the_photo_are_seen_without_scrolling(
    with_examples, serve, browser, tmp_path, width, height
):
    window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    page = serve(with_examples)
    page.open(states=("done",))
    sentence = page.find("#sentence")
    for path in (None, *scenes_in(tmp_path, 1)):
        if path:
            page.give(path)
            sentence.send_keys("a big green circle is to the left of a small yellow star")
            page.after(page.find('[data-role="say"] button').click)  # as long as captions get
            browser.execute_script("scrollTo(0, 0)")
        places = "['[data-role=drop]', '.sat-words', '.sat-result .sat-stage']"
        box = (
            f"return {places}.map((one) => "
            "document.querySelector(one).getBoundingClientRect().toJSON())"
        )
        chooser, words, stage = browser.execute_script(box)
        assert (
            0
            <= chooser["top"]
            < chooser["bottom"]
            <= words["top"]
            < words["bottom"]
            <= stage["top"]
        )
        assert stage["bottom"] <= height and stage["width"] >= min(width, 400) * 0.7
        assert stage["top"] - words["bottom"] < 20, "the photo is directly below the words"


@pytest.mark.parametrize("has_index", [True, False])
def test_the_page_says_that_it_captions_without_an_index(other_site, serve, has_index):
    settings = json.loads((other_site / "page" / "page.json").read_text())
    assert settings["photo"]["has_index"] is False, "this captioner has none"
    settings["photo"]["has_index"] = has_index
    write_json(other_site / "page" / "page.json", settings)
    page = serve(other_site)
    page.open()
    (sentence,) = page.texts('[data-role="no-index"]')
    assert "similar training photos, which this page does not have" in " ".join(sentence.split())
    hidden = "return document.querySelector('[data-role=\"no-index\"]').hidden"
    assert page.browser.execute_script(hidden) != has_index


@pytest.mark.parametrize("has_scenes", [True, False])
def test_a_single_tab_is_not_shown_and_the_captioner_is_named(other_site, serve, has_scenes):
    settings = json.loads((other_site / "page" / "page.json").read_text())
    settings["scenes"] = settings["scenes"] if has_scenes else []
    settings["photo"]["name"] = "mine" if has_scenes else ""
    write_json(other_site / "page" / "page.json", settings)
    page = serve(other_site)
    page.open()
    assert page.find("#tab-photo").is_displayed() == has_scenes
    name = "mine " if has_scenes else ""
    assert f"The captioner {name}runs in your browser" in page.find("footer").text


def test_words_can_be_chosen_while_they_appear(page, browser, tmp_path):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    page.give(scenes_in(tmp_path, 1)[0])
    at_their_start = "for (const one of all) { one.pause(); one.currentTime = 0; }"
    script = f"const all = document.getAnimations(); {at_their_start} return all.length"
    assert browser.execute_script(script)
    words = browser.find_elements("css selector", ".sat-words button")
    assert all(word.is_displayed() for word in words)
    page.word(3).click()
    assert page.step == 3


# === A part is covered ===


def patch_of(page):
    """Return the patch's borders as fractions: left, top, right, bottom."""
    script = "return arguments[1].map((side) => parseFloat(arguments[0].style[side]) / 100)"
    left, top, right, bottom = page.browser.execute_script(
        script, page.find(".sat-rectangle"), BORDERS
    )
    return left, top, 1 - right, 1 - bottom


BORDERS = ("left", "top", "right", "bottom")


def test_a_patch_changes_the_caption_and_its_removal_restores_it(page, captioner, tmp_path):
    from selenium.webdriver import ActionChains

    same = []

    def compare():
        """Compare the caption with Python's for the photo with the patch."""
        left, top, right, bottom = (int(64 * border + 0.5) for border in patch_of(page))
        image = load_image(path, (64, 64)).copy()
        image[top:bottom, left:right] = 128
        same.append(page.caption == captioner.caption(image, num_beams=3).caption)

    (path,) = scenes_in(tmp_path, 1, seed=8)
    page.give(path)
    before, change = page.caption, page.find('[data-role="change"]')
    position = next(i for i, word in enumerate(before.split()) if word in SHAPES)
    page.word(position).click()
    peak = page.shown()
    cover = page.find('[data-action="cover"]')
    page.after(cover.click)
    compare()
    assert page.caption != before and cover.get_attribute("aria-pressed") == "true"
    left, top, right, bottom = patch_of(page)
    assert right - left == pytest.approx(0.3) and bottom - top == pytest.approx(0.3)
    middle = page.shown()[int(32 * (top + bottom)), int(32 * (left + right))]
    assert middle[:3].tolist() == [128, 128, 128], "the photo that is shown has the patch too"
    assert change.text.split("\n")[0] == f"Without the patch: {before}"
    gone = page.texts('[data-role="change"] del')
    new = page.texts(".sat-words [data-changed]")
    assert gone and new and [word for word in before.split() if word not in gone]
    assert len(before.split()) - len(gone) == len(page.caption.split()) - len(new), (
        "what is not marked is the same"
    )
    page.until(lambda: page.spoken.startswith(f"{page.caption}. Without the patch: {before}"))
    drag = (
        "return document.querySelector('.sat-stage img').dispatchEvent(new "
        "DragEvent('dragstart', arguments[0]))"
    )
    assert not page.browser.execute_script(drag, {"bubbles": True, "cancelable": True}), (
        "the image itself stays"
    )
    # With the pointer, another patch is drawn; the player does not answer for places
    # meanwhile.
    stage = page.find(".sat-result .sat-stage")
    width, height = stage.size["width"], stage.size["height"]
    drag = ActionChains(page.browser).move_to_element_with_offset(
        stage, -width // 2 + 4, -height // 2 + 4
    )
    page.after(drag.click_and_hold().move_by_offset(width // 2, height // 4).release().perform)
    assert patch_of(page) == pytest.approx(
        (4 / width, 4 / height, 0.5 + 4 / width, 0.25 + 4 / height), abs=0.02
    )
    compare()
    assert all(same) and "Here:" not in page.find('[data-role="note"]').text
    page.after(cover.click)
    assert page.caption == before and not change.is_displayed() and not page.texts(".sat-rectangle")
    np.testing.assert_array_equal(page.shown(), peak)


def test_a_part_that_is_drawn_is_captioned_and_pointing_stays_what_it_was(
    page, captioner, tmp_path
):
    from selenium.webdriver import ActionChains, Keys

    (path,), note = scenes_in(tmp_path, 1, seed=8), '[data-role="note"]'
    picture = load_image(path)
    page.give(path)
    whole, button = page.caption, page.find('[data-action="region"]')

    def at(x, y):
        stage = page.find(".sat-result .sat-stage")
        width, height = stage.size["width"], stage.size["height"]
        place = ActionChains(page.browser).move_to_element_with_offset(
            stage, int(x * width), int(y * height)
        )
        return place, width, height

    def compare():
        """Compare the captions with Python's for the crop that is shown; return it."""
        crop = page.shown()[:, :, :3].astype(np.uint8)
        expected = captioner.caption(crop, num_beams=3, num_results=3)
        assert page.texts(".sat-several button") == [
            one.caption for one in (expected, *expected.alternatives)
        ]
        assert all("confidence" in text for text in page.texts(".sat-several small"))
        return crop

    at(0, 0)[0].click().perform()
    assert page.find(note).text.startswith("Here:") and not page.texts(".sat-rectangle"), (
        "a click is no drag"
    )
    place, width, height = at(-0.3, -0.3)
    drag = place.click_and_hold().move_by_offset(int(0.4 * width), int(0.5 * height))
    page.after(drag.release().perform)
    found = compare()
    expected = load_image(crop_of(picture, (0.2, 0.2, 0.6, 0.7)))
    assert np.abs(np.subtract(found.shape, expected.shape)).max() <= 2
    assert not page.find(note).text.startswith("Here:") and button.text == "Whole photo"
    page.until(lambda: page.spoken == f"This part: {page.caption}")
    around = MARGIN / (1 + 2 * MARGIN)
    assert patch_of(page) == pytest.approx((around, around, 1 - around, 1 - around), abs=0.02)

    # Dragged, the frame moves in the photo, and the crop follows.
    place, width, height = at(0, 0)
    page.after(place.click_and_hold().move_by_offset(width // 5, 0).release().perform)
    moved = compare()
    assert np.abs(np.subtract(moved.shape, found.shape)).max() <= 1
    assert moved.tobytes() != found.tobytes()
    at(0, 0.3)[0].click().perform()
    assert page.find(note).text.startswith("Here:") and len(page.texts(".sat-rectangle")) == 1
    page.after(lambda: page.press(Keys.ESCAPE))
    assert page.caption == whole and not page.texts(".sat-rectangle")

    # With the keyboard.
    page.after(button.click)
    before = compare()
    page.browser.execute_script("arguments[0].focus()", page.find(".sat-rectangle"))
    for _ in range(2):
        smaller = (
            ActionChains(page.browser).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT)
        ).key_up(Keys.SHIFT)
        page.after(smaller.perform)
    assert compare().shape[1] < before.shape[1]
    assert page.browser.switch_to.active_element == page.find(".sat-rectangle")
    page.after(button.click)
    assert page.caption == whole


def test_words_that_change_are_found_and_light_under_a_patch_is_summed(page):
    kept = "const { keptIn, covers } = await import('./cover.js');"
    for one, other, expected in (
        ("a dog runs", "a dog runs", "111"),
        ("a red dog runs", "a dog sits", "1010"),
        ("a b c a b", "b c b a", "01101"),
        ("", "a", ""),
        ("a a", "", "00"),
    ):
        found = page.ask(
            f"{kept} return keptIn({json.dumps(one.split())}, "
            f"{json.dumps(other.split())}).map(Number)"
        )
        assert "".join(map(str, found)) == expected, one
    patch = {"left": 0.25, "top": 0, "right": 0.75, "bottom": 0.5}
    script = (
        "const { coveredPixels } = await import('./cover.js'); const pixels = new "
        "Uint8Array(4 * 5 * 3);"
    )
    found = page.ask(
        f"{script} return [...coveredPixels(pixels, [4, 5], {json.dumps(patch)}), ...pixels]"
    )
    expected = np.zeros((2, 4, 5, 3))
    expected[0, :2, 1:4] = 128
    np.testing.assert_array_equal(np.reshape(found, expected.shape), expected)
    assert page.ask(
        f"{kept} return covers({json.dumps(patch)}, [1, 2, 4, 8], 2, 2)"
    ) == pytest.approx(0.5 + 1)


def test_a_word_that_stays_though_its_region_is_covered_is_named(page, tmp_path):
    from selenium.webdriver import ActionChains

    (path,) = scenes_in(tmp_path, 1, seed=8)
    page.give(path)
    before = page.caption
    stays = "These stay although the patch covers where the network looked"
    page.after(page.find('[data-action="cover"]').click)
    for corner in (-1, 1):  # most of the photo, and a corner without light
        stage = page.find(".sat-result .sat-stage")
        width, height = stage.size["width"], stage.size["height"]
        start = (
            ActionChains(page.browser)
            .move_to_element_with_offset(stage, -width // 2 + 1, -height // 2 + 1)
            .click_and_hold()
        )
        end = (width - 3, height - 3) if corner < 0 else (12, 12)
        page.after(start.move_by_offset(*end).release().perform)
        still = [
            word for word in before.split() if word not in page.texts('[data-role="change"] del')
        ]
        named = {word for word in still if word in {*SHAPES, *COLOURS}}
        assert (stays in page.find('[data-role="change"]').text) == (corner < 0 and bool(named))


# === A picture to keep ===


def test_the_picture_that_is_saved_has_the_photo_the_words_and_the_sentence(
    page, browser, tmp_path
):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path / "saved")}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(np.repeat(np.repeat(pixels, 50, 0), 50, 1)).save(tmp_path / "a.png")
    page.give(tmp_path / "a.png")
    page.word(1).click()
    before = page.step
    page.find('[data-action="save"]').click()
    page.until(lambda: [*(tmp_path / "saved").glob("*.png")])
    (path,) = (tmp_path / "saved").glob("*.png")
    assert path.stem == page.caption and page.step == before, "the word that was chosen stays so"
    picture = np.asarray(Image.open(path).convert("RGB")).astype(int)
    height = 336  # of a tile: 504 pixels wide, and the photo is 3 to 2
    assert (
        picture.shape[1] == 1080 and picture.shape[0] >= 2 * (24 + height + 24 + 32) + 24 + 1.4 * 44
    )
    photo = page.shown()[25::50, 25::50, :3]
    np.testing.assert_allclose(
        picture[24 + 42 : 24 + height : 84, 24 + 42 : 24 + 504 : 84], photo, atol=12
    )
    lit = picture[24 : 24 + height, 552 : 552 + 504]
    assert (lit.min(axis=-1) > 200).sum() > 100, "a line encloses the light"
    sentence = picture[2 * (24 + height + 24 + 32) + 24 :]
    assert (sentence.sum(-1) < 200).sum() > 500, "there is text"
    # A phone shares it instead.
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        page.browser.execute_script(SHARE)
        page.find('[data-action="save"]').click()
        page.until(
            lambda: browser.execute_script("return window.shared") == [path.name, "image/png"]
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert len([*(tmp_path / "saved").glob("*.png")]) == 1


SHARE = """
navigator.canShare = ({ files }) => files.length === 1;
navigator.share = async ({ files: [file] }) => { window.shared = [file.name, file.type]; };
"""

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
    (first,) = page.texts('.sat-compared section:nth-child(1) [aria-current="true"]')
    assert first in ("red", "circle", "green", "square"), "a word whose light is on a shape"
    assert (
        "red circle" in sentence
        and "green square" in sentence
        and "red circle" not in " ".join(words(3))
    )
    # The red circle is left of the green square; dragged down, it is below it.
    side = int(canvas.size["width"])
    drag = (
        ActionChains(page.browser)
        .move_to_element_with_offset(canvas, -int(side * 0.23), 0)
        .click_and_hold()
    )
    after(drag.move_by_offset(int(side * 0.3), int(side * 0.5)).release().perform)
    assert page.caption != sentence
    for name in ("blue", "star", "small"):
        (button,) = [
            one
            for one in page.browser.find_elements("css selector", ".sat-tools button")
            if one.text == name
        ]
        after(button.click)
        assert button.get_attribute("aria-pressed") == "true"
    assert "blue star" in page.caption
    after(lambda: canvas.send_keys(Keys.PAGE_DOWN))
    assert "green square" in page.find('[data-role="scene-help"]').text
    after(lambda: canvas.send_keys(Keys.ARROW_UP))
    after(page.find('[data-action="remove"]').click)
    assert "square" not in page.caption
    page.browser.execute_script("let x = 0; Math.random = () => (x = (x + 0.618) % 1)")
    for action in ("add", "another"):
        after(page.find(f'[data-action="{action}"]').click)
    # What the networks see is what is shown, and what they say of it is what Python
    # says.
    shown = page.browser.execute_script(
        "return document.querySelector('.sat-compared canvas').toDataURL()"
    )
    (tmp_path / "scene.png").write_bytes(base64.b64decode(shown.partition(",")[2]))
    same = []
    for number, name in enumerate(("scenes", "scenes-hard", "scenes-none"), start=1):
        expected = Captioner.from_pretrained(name).caption(tmp_path / "scene.png", num_beams=1)
        same.append(words(number) == expected.words)
    assert sum(same) >= 2


def test_a_screen_reader_is_told_all_sentences_and_the_focus_is_kept(site, serve):
    from selenium.webdriver import Keys

    page = serve(site)
    page.open("#scenes", ("done",))
    labels = ("With soft attention", "With hard attention", "Without attention")

    def sentences():
        words = [
            page.texts(f".sat-compared section:nth-child({number}) .sat-words button")
            for number in (1, 2, 3)
        ]
        return [" ".join(one) for one in words]

    page.until(lambda: page.spoken)
    heard = page.spoken
    assert heard.startswith("9 from the left, 21 from the top. ")
    for label, sentence in zip(labels, sentences()):
        assert label in heard and sentence in heard
    before = dict(zip(labels, sentences()))
    page.find('[data-role="scene"]').send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.spoken.startswith("10 from the left"))
    for label, sentence in zip(labels, sentences()):
        assert (label in page.spoken) == (before[label] != sentence), (
            "what has not changed is not said again"
        )
    help_text = page.find('[data-role="scene-help"]')
    assert "never trained" not in help_text.text
    for name, times in (("add", 3), ("remove", 4)):
        button = page.find(f'[data-action="{name}"]')
        for _ in range(times):
            button.click()
            assert page.browser.switch_to.active_element == button
        assert button.get_attribute("aria-disabled") == "true"
        assert ("3 of 3" if name == "add" else "1 of 1") in help_text.text
        assert ("never trained on more than two shapes" in help_text.text) == (name == "add")


def test_shapes_that_overlap_are_said_to_be_unknown(page):
    script = "const { Scene } = await import('./scene.js'); const scene = new Scene();"
    script += "const star = { shape: 'star', colour: 'red', size: 'big', top: 5 };"
    script += "scene.shapes = [0, LEFT].map((left) => ({ ...star, left }));"
    found = [
        page.ask(script.replace("LEFT", str(left)) + "return scene.overlaps()")
        for left in (0, 12, 40)
    ]
    assert found == [True, True, False]
    page.open("#scenes", ("done",))
    page.browser.execute_script(MOVE)
    said = "never trained on shapes that overlap: expect mistakes"
    page.until(lambda: said in page.find('[data-role="scene-help"]').text)


MOVE = """
const canvas = document.querySelector('[data-role="scene"]');
const pressed = { key: "ArrowRight", bubbles: true };
for (let i = 0; i < 15; i++) canvas.dispatchEvent(new KeyboardEvent("keydown", pressed));
"""


# === Keyboard, widths, colours ===


def test_tabs_by_keyboard_and_narrow_and_dark(site, serve, browser, tmp_path):
    from selenium.webdriver import Keys

    page = serve(site)
    page.open()
    page.find("#tab-photo").send_keys(Keys.ARROW_RIGHT)
    page.wait()
    assert browser.switch_to.active_element == page.find("#tab-scenes")
    assert (
        page.find("#panel-scenes").is_displayed() and not page.find("#panel-photo").is_displayed()
    )
    light = page.find("body").value_of_css_property("background-color")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [DARK, STILL]})
    assert page.find("body").value_of_css_property("background-color") != light
    narrow = {"width": 360, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    for tab in ("", "#scenes"):
        page.open(tab)
        if not tab:
            page.give(scenes_in(tmp_path, 1)[0])
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    named = (
        "[...document.querySelectorAll('button, input, canvas[tabindex], video')].filter((one) => "
    )
    named += "!one.labels?.length && !one.textContent.trim() && !one.getAttribute('aria-label') && "
    named += "!one.querySelector('img:not([alt=\"\"])')).length"
    assert browser.execute_script(f"return {named}") == 0, "all that can be used has a name"
    live = (
        "return [...document.querySelectorAll('[aria-live], [role=status]')].map((one) => "
        "one.dataset.role)"
    )
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
    assert (
        "This picture has 10000 x 10000 pixels; the page accepts up to 60 million" in page.message
    )
    jpeg = io.BytesIO()
    Image.effect_noise((300, 300), 50).save(jpeg, "jpeg")
    heic = b"\0\0\0\x18ftypheic" + bytes(12)
    for content, message in (
        (jpeg.getvalue()[:200], "“photo.jpg” is damaged"),
        (b"", "“photo.jpg” is empty"),
        (heic, "“photo.jpg” is a HEIC photo, which this browser cannot read. Save it as JPEG"),
    ):
        (tmp_path / "photo.jpg").write_bytes(content)
        page.give(tmp_path / "photo.jpg", "error")
        assert message in page.message
    page.give(scenes_in(tmp_path, 1)[0])
    assert page.caption, "the next one is captioned"
    page.give(bad, "error")
    assert not page.find('[data-role="result"]').is_displayed(), "it is that of another photo"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "runtime/index.js",
            "LiteRT, which runs the network, is missing or cannot run in this browser",
        ),
        (
            "photo/model.tflite.gz",
            "A file of this page, photo/model.tflite.gz, is missing: the server answered 404",
        ),
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
    assert (
        "does not run scripts from files: keras-sat app FOLDER serves this folder" in page.message
    )
    assert browser.get_log("browser")
    script = {"source": "delete self.DecompressionStream"}
    old = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        page = serve(site)
        page.open(states=("error",))
        assert (
            page.message
            == "This browser is too old for the page, which needs one from 2023 or later."
        )
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
    script = (
        f"const {{ tokenise }} = await import('./tokenise.js'); return "
        f"{json.dumps(SENTENCES)}.map(tokenise);"
    )
    assert page.ask(script) == [tokenise(sentence) for sentence in SENTENCES]


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
        differences = np.abs(
            np.reshape(found, (96, 112, 3)) - load_image(path, (96, 112)).astype(int)
        )
        assert differences.mean() <= most / 4 and (most or differences.max() == 0), kind


@pytest.mark.parametrize("size", [(64, 64), (31, 500), (900, 1300)])
def test_parts_are_cropped_as_in_python(page, tmp_path, size):
    rng = np.random.default_rng(sum(size))
    coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    picture = coarse.resize(size[::-1], Image.Resampling.BICUBIC)
    regions = [(0, 0, 1, 1), (0.25, 0.5, 0.75, 1), (0.03, 0.1, 0.04, 0.13), (0.9, 0.9, 1, 1)]
    regions += [(0.05, 0.1, 0.95, 0.8), (0.412, 0.333, 0.779, 0.651)]
    for kind, most in (("png", 0), ("jpeg", 8)):
        path = tmp_path / f"a.{kind}"
        picture.save(path, quality=95)
        content = base64.b64encode(path.read_bytes()).decode()
        sides = json.dumps([dict(zip(BORDERS, region)) for region in regions])
        found = page.ask(
            "const { readPhoto } = await import('./read_photo.js');"
            "const { cropAround } = await import('./rectangle.js');"
            f"const bytes = Uint8Array.from(atob('{content}'), (x) => x.charCodeAt(0));"
            f"const file = new File([bytes], 'a', {{ type: 'image/{kind}' }}), crops = [];"
            f"for (const one of {sides}) "
            "crops.push(await readPhoto(file, [48, 56], cropAround(one)));"
            "return crops.map(({ pixels }) => Array.from(pixels));"
        )
        for pixels, region in zip(found, regions, strict=True):
            expected = load_image(crop_of(path, region), (48, 56)).astype(int)
            differences = np.abs(np.reshape(pixels, (48, 56, 3)) - expected)
            assert differences.max() <= most, (kind, region)


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


def test_a_photo_that_is_dropped_while_the_playground_loads_leaves_it(site, serve, tmp_path):
    page = serve(site)
    page.open("#scenes", ("loading", "busy", "done"))
    page.until(lambda: page.find("#panel-scenes").is_displayed())  # it listens from now on
    (path,) = scenes_in(tmp_path, 1)
    page.browser.execute_script(DROP, base64.b64encode(path.read_bytes()).decode(), "drop")
    page.until(
        lambda: page.state == "done" and page.caption and page.find("#panel-photo").is_displayed()
    )
    assert "#" not in page.browser.current_url


def test_a_camera_that_may_not_be_used_is_a_sentence(page):
    page.find('[data-action="camera"]').click()
    page.until(lambda: "The camera cannot be used" in page.message)
    assert page.find('[data-action="camera"]').is_enabled() and page.state == "ready"
