"""Measure the data foundation: `make bench` prints one table and writes benchmarks/results.json.

Everything is measured in turn on an otherwise idle machine, several times; the figures are medians, and a share is the
ratio of two medians of one run. Photos are Flickr8k's if KERAS_SAT_DATA names the folder of its zips, drawn scenes
otherwise.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from data_utils import CaptionedImage, FeatureCache, Vocabulary, draw_scenes, load_image, make_batches
from data_utils.files import write_json
from keras_sat.encoders import ENCODERS

NUM_PHOTOS = 1536
NUM_ROUNDS = 3
RESULTS = Path(__file__).parent / "results.json"


def seconds(function):
    """Return how long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def photos_for_the_bench(directory):
    """Return paths of photos of 224 x 224: Flickr8k's, or drawn ones."""
    folder = os.environ.get("KERAS_SAT_DATA")
    if folder:
        with zipfile.ZipFile(Path(folder) / "Flickr8k_Dataset.zip") as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))[:NUM_PHOTOS]
            archive.extractall(directory, names)
        return [str(directory / name) for name in names]
    from PIL import Image

    paths = []
    for scene in draw_scenes(NUM_PHOTOS, seed=0, image_size=224):
        paths.append(str(directory / f"{scene.image_id}.jpg"))
        Image.fromarray(scene.image).save(paths[-1], quality=90)
    return paths


def bench_features_mobilenet_v2(directory):
    """Photos a second from files to a finished cache, as a share of the bare encoder's on tensors that lie ready."""
    import tensorflow as tf

    paths = photos_for_the_bench(directory)
    ids = [Path(path).stem for path in paths]
    encoder = ENCODERS["mobilenet_v2"](weights=None)
    batch = tf.constant(np.stack([load_image(path, 224) for path in paths[:32]]), tf.float32)
    bare = tf.function(lambda images: encoder(images, training=False))
    num_batches = NUM_PHOTOS // 32

    def encode_ready_tensors():
        for _ in range(num_batches):
            bare(batch).numpy()

    def build(n):
        FeatureCache.build(directory / f"cache{n}", ids, paths, encoder, show_progress=False)

    encode_ready_tensors()  # warm-up
    rates, bare_rates = [], []
    for n in range(NUM_ROUNDS):
        bare_rates.append(num_batches * 32 / seconds(encode_ready_tensors))
        rates.append(len(paths) / seconds(lambda n=n: build(n)))
    value, limit = statistics.median(rates), statistics.median(bare_rates)
    return {"value": value, "unit": "photos/s", "share_of_limit": value / limit, "ratios": {}}


def bench_batches(directory):
    """Captions a second from a warm cache of 196 x 512, as float16."""
    rng = np.random.default_rng(0)
    ids = [f"photo{i}" for i in range(800)]
    values = rng.standard_normal((14, 14, 512)).astype(np.float32).clip(0)
    from PIL import Image

    Image.new("RGB", (8, 8)).save(directory / "one.png")
    cache = FeatureCache.build(
        directory / "cache196",
        ids,
        [str(directory / "one.png")] * len(ids),
        lambda images: np.broadcast_to(values, (len(images), 14, 14, 512)),
        image_size=8,
        show_progress=False,
    )
    words = [f"word{i}" for i in range(500)]
    images = [
        CaptionedImage(image_id, "", [" ".join(rng.choice(words, rng.integers(4, 20))) for _ in range(5)], "train")
        for image_id in ids
    ]
    dataset = make_batches(images, Vocabulary.build(images), cache)

    def epoch():
        for _ in dataset:
            pass

    epoch()  # warm-up: every row is checked against its checksum when it is first read
    rates = [5 * len(ids) / seconds(epoch) for _ in range(NUM_ROUNDS)]
    # The limit: the same rows copied once out of the memory map.
    rows = rng.integers(0, len(ids), (64, 64))
    stored = np.load(directory / "cache196" / "features.npy", mmap_mode="r")
    copy_rates = [rows.size / seconds(lambda: [np.take(stored, r, axis=0) for r in rows]) for _ in range(NUM_ROUNDS)]
    value = statistics.median(rates)
    share = value / statistics.median(copy_rates)
    return {"value": value, "unit": "captions/s", "share_of_limit": share, "ratios": {}}


def bench_import(directory):
    """Seconds that `import data_utils` costs beyond `import numpy`."""

    def once(code):
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True, cwd=directory))

    pairs = [(once("import numpy"), once("import numpy; from data_utils import *")) for _ in range(9)]
    value = statistics.median(ours for _, ours in pairs) - statistics.median(numpy for numpy, _ in pairs)
    return {"value": value, "unit": "s beyond numpy", "share_of_limit": None, "ratios": {}}


FIGURES = {
    "features_mobilenet_v2": bench_features_mobilenet_v2,
    "batches": bench_batches,
    "import": bench_import,
}


def main():
    warnings.simplefilter("ignore")
    figures = {}
    for name, bench in FIGURES.items():
        with tempfile.TemporaryDirectory() as directory:
            figures[name] = bench(Path(directory))
        figure = figures[name]
        share = "" if figure["share_of_limit"] is None else f"{figure['share_of_limit']:6.2f} of the limit"
        print(f"{name:24} {figure['value']:10.3g} {figure['unit']:16} {share}", flush=True)
    from importlib.metadata import version

    machine = {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("tensorflow", "keras", "numpy")},
    }
    write_json(RESULTS, {"machine": machine, "figures": json.loads(json.dumps(figures))})


if __name__ == "__main__":
    main()
