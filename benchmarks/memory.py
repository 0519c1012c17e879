"""Train a little on a cache of many photos, and print the most private memory (RssAnon)
that it took, in GB.

    python benchmarks/memory.py FOLDER NUM_PHOTOS

The cache is a sparse file: it takes no space on the disk, and training reads it as any
other.
"""

import dataclasses
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from bench import WORDS, flickr8k_captions
from PIL import Image

from data_utils import FeatureCache, Vocabulary, make_batches
from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat import Captioner

NUM_BATCHES = 16


def private_memory():
    """Return RssAnon in GB: memory that belongs to this process alone, without pages of
    files.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) * 1024 / 1e9


class Watch(keras.callbacks.Callback):
    most = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.most = max(self.most, private_memory())


def sparse_cache(folder, image_ids):
    """Return a FeatureCache of 196 x 512 for these ids, with features of 0: that of one
    photo, its rows repeated.
    """
    folder.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "one.png")
    cache = FeatureCache.build(
        folder / "cache",
        image_ids[:1],
        [folder / "one.png"],
        lambda images: np.zeros((len(images), 14, 14, 512), np.float32),
        image_size=8,
        show_progress=False,
    )
    for path in cache.directory.glob("*.npy"):
        row = np.load(path)
        rows = np.lib.format.open_memmap(path, "w+", row.dtype, (len(image_ids), *row.shape[1:]))
        if path.stem != "features":
            rows[:] = row
        rows.flush()
    for path in cache.directory.glob("*.json"):
        content = read_sealed_json(path, "a feature cache")
        write_sealed_json(
            path, content | ({"image_ids": image_ids} if "image_ids" in content else {})
        )
    return FeatureCache.open(cache.directory)


def main(folder, num_photos):
    images, vocabulary = flickr8k_captions(num_photos), Vocabulary(WORDS)
    cache = sparse_cache(folder, [image.image_id for image in images])
    captioner = Captioner(vocabulary, encoder=None)
    captioner.compile()
    longest = [dataclasses.replace(image, captions=[" ".join(WORDS[:36])]) for image in images[:64]]
    watch = Watch()
    for some in (images, longest):  # 36 words are the most in Flickr8k
        batches = make_batches(some, vocabulary, cache).take(NUM_BATCHES)
        captioner.fit(batches, epochs=1, verbose=0, callbacks=[watch])
    print(watch.most)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
