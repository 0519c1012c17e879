"""Does the page say what Python says? `python benchmarks/flickr8k/in_a_browser.py FLICKR8K MODEL`, with Chromium.

The first dev photos are given to the page of `keras-sat export --web`, in Chromium without a window (selenium), and to
the captioner in Python, with 3 beams each: printed are how many captions are the same word for word, how many of them
are so when only the weights of the file are rounded (LiteRT in Python, float32 against 8 bits), and the file's size.
"""

import argparse
import functools
import gzip
import os
import tempfile
import threading
import time

import numpy as np

from data_utils import DATASETS, photos_of_split
from data_utils.images import load_image
from keras_sat.captioner import Captioner
from keras_sat.web.folder import write_page
from keras_sat.web.serve import page_server


def captions_of_page(folder, paths):
    """Return the captions that the page in a folder has for pictures, and the seconds that one took at the median."""
    from selenium import webdriver
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    for switch in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "force-prefers-reduced-motion"):
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
            captions.append(find('[data-role="caption"]').text)
        server.shutdown()
    return captions, np.median(seconds)


def captions_of_file(folder, captioner, paths):
    """Return the captions that the file of a page has in LiteRT's Python, 3 beams."""
    import tensorflow as tf

    content = gzip.decompress((folder / "photo" / "model.tflite.gz").read_bytes())
    interpreter = tf.lite.Interpreter(model_content=content)
    encode, beams = (interpreter.get_signature_runner(name) for name in ("encode", "beams"))
    captions = []
    for path in paths:
        found = beams(features=encode(images=load_image(path, captioner.photo_sizes[0])[None])["features"])
        words = captioner.vocabulary.ids_to_words(found["token_ids"][0])
        captions.append(" ".join(words))
    return captions


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
    expected = [result.caption for result in captioner.caption(paths)]
    with tempfile.TemporaryDirectory() as temporary:
        options = {"scenes": False, "runtime": arguments.runtime}
        pages = {
            precision: write_page(captioner, f"{temporary}/{precision}", precision=precision, **options)
            for precision in ("float32", "int8")
        }
        for precision, folder in pages.items():
            packed = (folder / "photo" / "model.tflite.gz").stat().st_size
            same = np.mean([a == b for a, b in zip(captions_of_file(folder, captioner, paths), expected)])
            print(f"{precision}: {packed / 1e6:.2f} MB packed; {same:.1%} of {len(paths)} captions as in Python")
        captions, seconds = captions_of_page(pages["int8"], paths)
    same = np.mean([one == other for one, other in zip(captions, expected)])
    print(f"in Chromium: {same:.1%} of {len(paths)} captions as in Python; {seconds:.2f} s for a photo at the median")


if __name__ == "__main__":
    main()
