"""Make the pictures of README.md and docs: python docs/pictures.py [FUNCTION ...]

Without names of functions, it makes all of them. explorer.png needs Chromium and
selenium. So does browser.png, and the folder of `keras-sat export flickr8k FOLDER
--web`: python docs/pictures.py draw_browser FOLDER.
"""

import io
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure
from PIL import Image

import keras_sat
from data_utils import draw_scenes
from data_utils.batches import inputs_and_targets
from keras_sat import show_attend_tell_numpy as twin
from keras_sat import train_in_numpy

matplotlib.use("Agg")
HERE = Path(__file__).parent
WIDTH = 8.3  # inches of 100 pixels, as wide as a page on GitHub
DPI = 200  # twice as many pixels, for screens of high density
LARGE = 300_000  # bytes
SENTENCE, WORDS = "a woman wearing glasses and a hat in front of a flag", ["glasses", "hat", "flag"]
KINDS = {"soft": "scenes", "hard": "scenes-hard"}
EXAMPLES = HERE.parent / "keras_sat" / "export" / "page" / "examples"  # with CREDITS.txt
# From the pictures of trace.md to a photo and the word that is explained. With other
# weights the captions may be others: then choose other words, and mend trace.md.
TRACES = {
    "trace_right.png": (HERE / "photo.jpg", "hat"),
    "trace_wrong.png": (EXAMPLES / "beach.jpg", "men"),
}
MISTAKE = (EXAMPLES / "beach.jpg", "mistake.png")
COVERED = "raft"  # a word of the page's caption of its first example, for browser.png


def save(picture, file):
    """Write a picture (a figure or an image) as a PNG; a large one with 256 colours,
    dithered, which takes a third of the space.
    """
    content = io.BytesIO()
    if isinstance(picture, Figure):
        picture.savefig(content, format="png", dpi=DPI)
        picture = Image.open(content).convert("RGB")
    picture.save(HERE / file, optimize=True)
    if (HERE / file).stat().st_size > LARGE:
        colours = picture.quantize(256, method=Image.Quantize.FASTOCTREE, kmeans=3)
        palette = np.reshape(colours.getpalette(), (-1, 3))
        palette[palette.sum(axis=1).argmax()] = 255  # white paper stays white
        colours.putpalette(palette.ravel().tolist())
        picture = picture.quantize(palette=colours, dither=Image.Dither.FLOYDSTEINBERG)
        picture.save(HERE / file, optimize=True)


def draw_scenes_and_captions():
    scenes = draw_scenes(5, seed=12, image_size=128)
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    for panel, scene in zip(figure.subplots(1, 5), scenes):
        panel.imshow(scene.image)
        panel.set_axis_off()
        panel.set_title(textwrap.fill(scene.captions[0], 24), fontsize=9)
    save(figure, "scenes.png")


def unseen_scene():
    """A scene with two objects that no captioner was trained on."""
    return next(scene for scene in draw_scenes(50, seed=1502) if len(scene.objects) == 2)


def save_scene():
    """The scene itself, as a photo to try the command line on."""
    Image.fromarray(unseen_scene().image).save(HERE / "scene.png")


def draw_attention():
    """The same unseen scene as the two shipped captioners see it, one row each."""
    scene = unseen_scene()
    results = [
        keras_sat.Captioner.from_pretrained(name).caption(scene.image, num_beams=1)
        for name in KINDS.values()
    ]
    looks = [word for item in scene.objects for word in (item.colour, item.shape)]
    draw_beside(results, list(KINDS), "attention.png", words=looks)


def draw_photos():
    """Attention, and below it votes, for the words of the bundled captioner's captions
    of two free photos: a right one and a wrong one.
    """
    captioner = keras_sat.Captioner.from_pretrained("flickr8k")
    for photo, file in ((HERE / "photo.jpg", "photo_attention.png"), MISTAKE):
        result = captioner.caption(photo, votes=True)
        print(f"{file}: {result.caption}")
        maps = ("attention", "votes")
        displays = [
            keras_sat.AttentionDisplay.from_result(result, map_kind=map_kind) for map_kind in maps
        ]
        draw_beside(displays, maps, file)


def draw_paper_and_beyond():
    """Where the paper's own network, and the one that goes beyond it, look for words of
    the same sentence.
    """
    draw_beside(
        readings("flickr8k-paper", "flickr8k"),
        ["flickr8k-paper", "flickr8k"],
        "paper_and_beyond.png",
        words=WORDS,
    )


def readings(*names):
    """The maps of our sentence about a portrait of Grace Hopper (U.S.

    Navy, in the public domain).
    """
    portrait = Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)).crop(
        (0, 0, 512, 430)
    )
    results = [
        keras_sat.Captioner.from_pretrained(name).attend(portrait, SENTENCE) for name in names
    ]
    return [keras_sat.AttentionDisplay.from_result(result, image=portrait) for result in results]


def draw_beside(displays, names, file, **options):
    axes = keras_sat.AttentionDisplay.compare(displays, names=names, width=WIDTH, **options)
    save(axes[0, 0].figure, file)


def draw_cartoon():
    """The same scene as the shipped captioner with soft attention describes it, word by
    word.
    """
    scene = unseen_scene()
    result = keras_sat.Captioner.from_pretrained(KINDS["soft"]).caption(scene.image, num_beams=1)
    keras_sat.AttentionDisplay.from_result(result).animate(HERE / "cartoon.gif")


def draw_traces():
    """How the bundled captioner came by a right word and by a wrong one."""
    captioner = keras_sat.Captioner.from_pretrained("flickr8k")
    for file, (photo, word) in TRACES.items():
        trace = captioner.trace(photo)
        caption = trace.result.caption
        print(f"{file}: {caption}")
        if word not in trace.words:
            raise ValueError(f"Choose another word of {caption!r} in TRACES. Received: {word!r}")
        figure = trace.plot(trace.words.index(word), width=WIDTH)
        save(figure, file)


def draw_backward():
    """The gradient that reaches the score of each region at one word, with soft
    attention, with single draws, and in the mean of many draws.
    """
    encoder = keras_sat.load_litert("scenes", num_threads=1)
    scenes = train_in_numpy.scenes_of_two_objects(12_000, train_in_numpy.TRAIN_SEED)
    scene = train_in_numpy.scenes_of_two_objects(10, train_in_numpy.UNSEEN_SEED)[0]
    w = twin.make_weights(len(encoder.vocabulary), 264, **train_in_numpy.SIZES)
    options = {"attention": "soft", "epochs": 2, "highest_rate": train_in_numpy.LEARNING_RATE}
    train_in_numpy.train(w, encoder, scenes, np.random.default_rng(0), **options)

    first, second = scene.objects
    text = f"a {second.colour} {second.shape} is under a {first.colour} {first.shape}"
    position = text.split().index(first.colour)
    soft, alpha, _ = gradient_of_scores(w, encoder, scene, text)
    hard, _, s = gradient_of_scores(w, encoder, scene, text, num_draws=4000)
    panels = {"soft": soft[0, position]}
    for number in range(2):
        panels[f"hard: draw {number + 1}"] = hard[number, position]
    panels["hard: mean of 4,000 draws"] = hard[:, position].mean(axis=0)

    figure = Figure(figsize=(WIDTH, 1.75), layout="constrained")
    axes = figure.subplots(1, 2 + len(panels))
    axes[0].imshow(scene.image)
    axes[0].set_title("scene", fontsize=8)
    axes[1].imshow(alpha[0, position].reshape(8, 8), cmap="gray", vmin=0)
    axes[1].set_title(f'attention\nbefore "{first.colour}"', fontsize=8)
    for ax, (title, gradient) in zip(axes[2:], panels.items()):
        largest = np.abs(gradient).max()
        ax.imshow(-gradient.reshape(8, 8), cmap="PuOr_r", vmin=-largest, vmax=largest)
        ax.set_title(textwrap.fill(title, 14), fontsize=8)
    for number, ax in enumerate(axes[3:5]):
        row, column = divmod(int(s[number, position].argmax()), 8)
        ax.plot(column, row, "k+")
        ax.text(3.5, 8.5, "+ region drawn", fontsize=8, ha="center", va="top")
    for ax in axes:
        ax.set_axis_off()
    scale = figure.colorbar(axes[-1].images[0], ax=axes, aspect=10, ticks=[-largest, 0, largest])
    scale.ax.set_yticklabels(["less\nattention", "0", "more\nattention"], fontsize=8)
    save(figure, "backward.png")


def gradient_of_scores(w, encoder, scene, text, num_draws=None):
    """Return d_e, alpha and s, each (rows, words, regions), of a caption of a scene: in
    one row, or in as many as there are draws.
    """
    words = encoder.vocabulary.caption_to_ids(text)
    rows = inputs_and_targets([words] * (num_draws or 1), encoder.vocabulary)
    input_ids, target_ids, token_weights = (array[None] for array in rows)  # of one photo
    batch = (train_in_numpy.encode(encoder, [scene]), input_ids), target_ids, token_weights
    options = {"penalty_weight": 0.0}
    if num_draws is not None:
        noise = np.random.default_rng(0).gumbel(size=(*input_ids.shape[1:], 64))
        options |= {"noise": noise, "sampled": np.ones(num_draws)}
        # The mean loss over the draws, as a baseline: without a penalty, it is - log p
        loss, *_ = twin.objective(w, batch, **options)
        options["baseline"] = -loss
    *_, kept = twin.objective(w, batch, **options)
    _, d_e = twin.objective_backward(w, kept)
    a = np.repeat(batch[0][0], len(input_ids[0]), axis=0)
    noise, sampled = options.get("noise"), options.get("sampled")
    _, alpha, s, _ = twin.call(w, a, input_ids[0], noise, sampled)
    return d_e, alpha, s


def draw_explorer():
    """The explorer of a photo, at the word that trace.md explains: votes and bars."""
    photo, word = TRACES["trace_right.png"]
    trace = keras_sat.Captioner.from_pretrained("flickr8k").trace(photo)
    browser = open_browser(1120, 900)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "trace.html"
        trace.save(page)
        browser.get(page.as_uri())
        step = trace.words.index(word)
        browser.execute_script(f"document.querySelector('[data-step=\"{step}\"]').click()")
        # The map is drawn in the next frame.
        browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
        screen = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    screen.save(HERE / "explorer.png", optimize=True)  # in all its colours
    browser.quit()


def open_browser(width, height, *, mobile=False):
    """Return Chromium with a screen of high density."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options)
    screen = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    return browser


def draw_browser(page):
    """The page of `export --web` in a folder, on two screens of a phone: a word's
    region, and the words that change when that region is covered.
    """
    from selenium.webdriver.support.wait import WebDriverWait

    from keras_sat.export import page_server

    server = page_server(page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = open_browser(515, 790, mobile=True)

    def wait():
        state = "return document.querySelector('.sat-page').dataset.state"
        WebDriverWait(browser, 300).until(lambda _: browser.execute_script(state) == "done")

    def click(selector):
        # No pointer, which would stay over a word.
        browser.execute_script(f"document.querySelector('{selector}').click()")
        wait()

    def screenshot():
        still = "document.getAnimations().forEach((one) => one.finish()); scrollTo(0, 0)"
        browser.execute_script(f"document.activeElement.blur(); {still}")
        return np.array(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB"))

    browser.get(f"http://127.0.0.1:{server.server_port}/")
    wait()
    words = browser.execute_script("return document.querySelector('.sat-words').innerText").split()
    if COVERED not in words:
        raise ValueError(f"Choose another word as COVERED. Received: {COVERED!r}, not in {words}")
    click(f'[data-step="{words.index(COVERED)}"]')
    before = screenshot()
    click("[data-action=cover]")
    between = np.full((len(before), 32, 3), 140, np.uint8)
    screens = np.concatenate([before, between, screenshot()], axis=1)
    save(Image.fromarray(screens), "browser.png")
    browser.quit()
    server.shutdown()


DRAWN = [draw_scenes_and_captions, save_scene, draw_attention, draw_photos]
DRAWN += [draw_paper_and_beyond, draw_traces, draw_explorer, draw_cartoon, draw_backward]

if __name__ == "__main__":
    if sys.argv[1:2] == ["draw_browser"]:
        draw_browser(sys.argv[2])
    for draw in DRAWN:
        if draw.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            draw()
