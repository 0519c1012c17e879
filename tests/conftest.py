"""What the tests share: small data made once, and the real data where KERAS_SAT_DATA
names it.
"""

import os
import shutil
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.register_assert_rewrite("helpers")  # its assertions show what they compared

from helpers import mean_colour_encoder  # noqa: E402

import keras_sat  # noqa: E402
from data_utils import DATASETS, FeatureCache, Vocabulary  # noqa: E402

# Programs, which tests or people run.
collect_ignore = ["elsewhere.py", "lowest.py", "distributed_trainings.py", "two_devices.py"]
collect_ignore += ["golden/make_coco_caption.py", "golden/make_efficientnet_lite.py"]


# Files with minutes of slow tests: begun last, they would keep one process busy while
# the other has nothing left.
LONG = ("test_ray_data.py", "test_make_bundled.py", "test_distribution.py", "test_site.py")
LONG += ("test_pretrained.py", "test_killed_and_damaged.py")


@pytest.hookimpl(tryfirst=True)  # before pytest reads the marks to choose
def pytest_collection_modifyitems(items):
    for item in items:
        if {"chromium", "real_data", "peers"} & {*item.fixturenames}:
            item.add_marker("extras")
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(autouse=True)
def same_chance_in_every_run():
    import keras

    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def no_files_for_litert(request, monkeypatch):
    """Caption with TensorFlow and make no file for LiteRT, which takes seconds."""
    if request.module.__name__ not in (
        "test_litert_captioner",
        "test_litert_graph",
        "test_one_caption",
    ):
        monkeypatch.setattr("keras_sat.export.litert_captioner.is_installed", lambda: False)


def _run_without_graphs():
    """Run TensorFlow step by step: for tests of what surrounds a few updates, whose
    time would mostly be tracing.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


without_graphs = pytest.fixture(_run_without_graphs, name="without_graphs")
# For a test file whose fixtures run networks too.
module_without_graphs = pytest.fixture(
    _run_without_graphs, scope="module", name="module_without_graphs"
)


@pytest.fixture
def attentions_of_our_own(monkeypatch):
    """Two more ATTENTIONS: what an attention is hangs on what its Selection says, not
    on its name.
    """
    from keras_sat.network import ATTENTIONS, Selection, hard

    monkeypatch.setitem(ATTENTIONS, "drawn", Selection(hard, samples_regions=True))
    monkeypatch.setitem(ATTENTIONS, "even", Selection(None, has_attention=False))


@pytest.fixture
def quick_meteor(monkeypatch):
    """A METEOR that needs neither Java nor WordNet: the share of words that the first
    reference has too.
    """
    from keras_sat.measuring import scores
    from keras_sat.measuring.meteor import Meteor

    def score(references, candidates):
        pairs = zip(references, candidates)
        shares = np.array(
            [len({*words} & {*captions[0]}) / (len(words) + 1) for captions, words in pairs]
        )
        return Meteor("for tests", float(shares.mean()), shares)

    monkeypatch.setattr(scores, "score_meteor", score)


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    """Work in a folder of its own, and draw without a window."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.fixture(scope="session")
def captioner():
    """The bundled captioner of scenes, which no test may change."""
    return keras_sat.Captioner.from_pretrained("scenes")


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """Scenes that no bundled captioner was trained on, as files."""
    return DATASETS["scenes"](tmp_path_factory.mktemp("scenes"), num_scenes=120, seed=77)


@pytest.fixture
def small_index(monkeypatch):
    """Allow an index of as few photos as there are in `scenes`."""
    monkeypatch.setattr("keras_sat.after_search.consensus.FEWEST_TRAINING_PHOTOS", 100)


@pytest.fixture(scope="session")
def scene_images(tmp_path_factory):
    return DATASETS["scenes"](tmp_path_factory.mktemp("scenes"), num_scenes=60, seed=3)


@pytest.fixture(scope="session")
def scene_vocabulary(scene_images):
    return Vocabulary.build(scene_images)


@pytest.fixture(scope="session")
def scene_cache(scene_images, tmp_path_factory):
    return FeatureCache.build(
        tmp_path_factory.mktemp("features"),
        [image.image_id for image in scene_images],
        [image.image_path for image in scene_images],
        mean_colour_encoder,
        image_size=64,
        show_progress=False,
    )


@pytest.fixture(scope="session")
def eight(tmp_path_factory):
    """Eight photos with a caption each, their vocabulary and the cache of their
    features.
    """
    from eight_photos import write_eight

    return write_eight(tmp_path_factory.mktemp("eight"))


@pytest.fixture(scope="session")
def training_and_its_half(tmp_path_factory):
    from small_training import At, train

    folder, half = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("half") / "training"
    return folder, train(folder, callbacks=[At(2, lambda: shutil.copytree(folder, half))]), half


@pytest.fixture(scope="session")
def whole_training(training_and_its_half):
    """A small training that nobody disturbed: its folder and its captioner."""
    return training_and_its_half[:2]


@pytest.fixture(scope="session")
def half_training(training_and_its_half):
    """The folder of that training as it was in the middle of the third epoch, as if it
    had been killed there.
    """
    return training_and_its_half[2]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A real browser, without a window and without network: Debian's chromium and
    chromium-driver.
    """
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not found: the player is not tested in a browser")
    pytest.importorskip(
        "selenium", reason="selenium is not installed: the player is not tested in a browser"
    )
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    switches = (
        "headless=new no-sandbox disable-gpu disable-quic no-first-run "
        "disable-background-networking"
    )
    switches += " disable-component-update disable-sync disable-dev-shm-usage"
    for switch in [*switches.split(), f"user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    """The browser in its usual state; whatever it complains of is an error."""
    chromium.set_window_size(800, 900)
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    chromium.get("about:blank")
    yield chromium
    complaints = [
        entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"
    ]
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert not complaints


@pytest.fixture
def served():
    """A function that serves a page's folder and returns the port, until the test has
    ended.
    """
    from keras_sat.export import page_server

    servers = []

    def start(directory):
        servers.append(page_server(directory))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1].server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def real_data():
    """The folder named by KERAS_SAT_DATA: Flickr8k_Dataset.zip, Flickr8k_text.zip,
    mobilenet_v2_notop.weights.h5.
    """
    folder = os.environ.get("KERAS_SAT_DATA")
    if not folder:
        pytest.skip("KERAS_SAT_DATA is not set: the tests on the real Flickr8k are left out")
    return Path(folder)


@pytest.fixture(scope="session")
def flickr8k_dir(real_data, tmp_path_factory):
    directory = tmp_path_factory.mktemp("flickr8k")
    for name in ("Flickr8k_Dataset.zip", "Flickr8k_text.zip"):
        with zipfile.ZipFile(real_data / name) as archive:
            archive.extractall(directory)
    return directory


@pytest.fixture(scope="session")
def flickr8k_images(flickr8k_dir):
    with warnings.catch_warnings():
        # The test split is not part of every copy, and the reader says so.
        warnings.simplefilter("ignore")
        return DATASETS["flickr8k"](flickr8k_dir)
