"""Does the page write Python's captions? `python benchmarks/flickr8k/in_a_browser.py
FLICKR8K MODEL`, with Chromium.

Captions the first dev photos with the page of `keras-sat export --web`, in headless
Chromium (selenium), and in Python, with 3 beams each. Prints how many captions are the
same word for word, in the browser and in LiteRT's Python (float32 and 8 bits), the size
of the file, and how many times a second the playground captions a shape that is
dragged.
"""

import argparse
import functools
import os
import tempfile
import threading
import time

import numpy as np

from data_utils import DATASETS, photos_of_split
from keras_sat.captioner import Captioner
from keras_sat.export import load_litert, page_server, write_page

DRAG = """
const done = arguments[0], seconds = 5, page = document.querySelector(".sat-page");
const canvas = document.querySelector('[data-role="scene"]');
const { left, top, width } = canvas.getBoundingClientRect();
canvas.setPointerCapture = () => {}; // there is no real pointer
const send = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind, {
  clientX: left + (x / 64) * width, clientY: top + (32 / 64) * width, pointerId: 1, bubbles: true,
  isPrimary: true, buttons: 1 }));
send("pointerdown", 20);
const start = performance.now(), before = Number(page.dataset.scenes);
(function move() {
  send("pointermove", 12 + ((performance.now() - start) / 50) % 30);
  if (performance.now() - start < 1000 * seconds) requestAnimationFrame(move);
  else done((Number(page.dataset.scenes) - before) / seconds);
})();
"""


def captions_of_page(folder, paths):
    """Return captions of photos by the page in a folder, the median seconds of one, and
    scenes captioned a second.
    """
    from selenium import webdriver
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    for switch in (
        "headless=new",
        "no-sandbox",
        "disable-dev-shm-usage",
        "force-prefers-reduced-motion",
    ):
        options.add_argument(f"--{switch}")
    with page_server(folder) as server, webdriver.Chrome(options=options) as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        find = functools.partial(browser.find_element, "css selector")
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
        wait = WebDriverWait(browser, 120, 0.01)
        wait.until(lambda _: find(".sat-page").get_attribute("data-state") in ("ready", "error"))
        captions, seconds = [], []
        for path in paths:
            browser.execute_script("document.querySelector('.sat-page').dataset.state = 'asked'")
            start = time.perf_counter()
            find('[data-role="photo"]').send_keys(path)
            wait.until(lambda _: find(".sat-page").get_attribute("data-state") in ("done", "error"))
            seconds.append(time.perf_counter() - start)
            captions.append(find('[data-role="caption"]').get_attribute("textContent"))
        find("#tab-scenes").click()
        wait.until(lambda _: find(".sat-page").get_attribute("data-state") in ("done", "error"))
        scenes_a_second = browser.execute_async_script(DRAG)
        server.shutdown()
    return captions, np.median(seconds), scenes_a_second


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("model")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--runtime", help="a folder into which npm has installed @litertjs/core")
    arguments = parser.parse_args()
    photos = photos_of_split(DATASETS["flickr8k"](arguments.data_dir), "dev")[: arguments.photos]
    paths = [os.path.abspath(image.image_path) for image in photos]
    captioner = Captioner.from_pretrained(arguments.model)
    without_index = captioner.caption(paths, num_beams=3, consensus_weight=0.0)
    expected = [result.caption for result in without_index]
    with tempfile.TemporaryDirectory() as temporary:
        pages = {
            precision: write_page(
                captioner,
                f"{temporary}/{precision}",
                precision=precision,
                runtime=arguments.runtime,
                scenes=precision == "int8",
                examples=False,
            )
            for precision in ("float32", "int8")
        }
        for precision, folder in pages.items():
            packed = (folder / "photo" / "model.tflite.gz").stat().st_size
            same = np.mean(
                [a.caption == b for a, b in zip(load_litert(folder).caption(paths), expected)]
            )
            print(
                f"{precision}: {packed / 1e6:.2f} MB packed; {same:.1%} of {len(paths)} "
                "captions as in Python"
            )
        captions, seconds, scenes_a_second = captions_of_page(pages["int8"], paths)
    same = np.mean([one == other for one, other in zip(captions, expected)])
    print(
        f"in Chromium: {same:.1%} of {len(paths)} captions as in Python; {seconds:.2f} s "
        "for a photo at the median"
    )
    print(f"the playground captions a shape that is dragged {scenes_a_second:.0f} times a second")


if __name__ == "__main__":
    main()
