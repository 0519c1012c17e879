"""HTML pages as the tests see them: their elements, and in a browser."""

import io
from html.parser import HTMLParser

import numpy as np
from PIL import Image

# Words that would harm a page which does not escape them.
HOSTILE = ['</script><script>document.title="harmed"</script>', '"><img src=x onerror=alert(1)>']
HOSTILE += ["{{maps}}", "<!--", "’"]


def maps_of(num_words, rows=14, columns=14):
    """Each word looks at one cell and a little around it."""
    maps = np.full((num_words, rows, columns), 0.2 / (rows * columns))
    for number in range(num_words):
        maps[number, (3 * number) % rows, (5 * number) % columns] += 0.8
    return maps


class Elements(HTMLParser):
    """The elements of a page, as a browser sees them: (tag, attributes, text)."""

    def __init__(self, page):
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        if tag != "wbr":  # which has no text
            self.open.append(self.found[-1])

    def handle_data(self, data):
        if self.open:
            self.open[-1][2] += data

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def __call__(self, tag, **attributes):
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            (found, text)
            for name, found, text in self.found
            if name == tag and wanted.items() <= found.items()
        ]


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

    @property
    def note(self):
        return self.find("[data-role=note]").text

    def pixels(self):
        return self.browser.execute_script("return document.querySelector('canvas').toDataURL()")

    def shown(self):
        """Return what is seen of the photo, as an array (height, width, 3)."""
        picture = Image.open(io.BytesIO(self.find(".sat-stage").screenshot_as_png))
        return np.array(picture.convert("RGB")).astype(float)

    def words_with(self, attribute):
        script = (
            "return [...document.querySelectorAll(`[${arguments[0]}]`)].map((word) => "
            "word.textContent)"
        )
        return self.browser.execute_script(script, attribute)

    def current(self):
        return self.words_with("aria-current")

    def point_at(self, x, y, stage=".sat-stage"):
        """Move the mouse to a place of the photo, in fractions of its sides."""
        from selenium.webdriver import ActionChains

        stage = self.find(stage)
        offsets = [
            round((at - 0.5) * stage.size[side]) for at, side in ((x, "width"), (y, "height"))
        ]
        ActionChains(self.browser).move_to_element_with_offset(stage, *offsets).perform()

    def hover(self, element):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def wait_until(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 120, poll_frequency=0.02).until(lambda _: condition())
