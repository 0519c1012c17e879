"""Train a little on a cache of many photos, and print the most private memory (RssAnon) that it took, in GB.

    python benchmarks/memory.py FOLDER NUM_PHOTOS

The cache is a sparse file: it takes no room on the disk, and training reads it as any other.
"""

import dataclasses
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from PIL import Image

from data_utils import CaptionedImage, FeatureCache, Vocabulary, make_batches
from data_utils.files import read_sealed_json, write_sealed_json
from keras_sat import Captioner

NUM_BATCHES = 16


def private_memory():
    """Return RssAnon in GB: memory that belongs to this process alone, without pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e9
    raise OSError("This system does not tell the private memory of a process.")


class Watch(keras.callbacks.Callback):
    most = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.most = max(self.most, private_memory())


def sparse_cache(folder, image_ids):
    """Return a FeatureCache of 196 x 512 for these ids, with features of 0 in a file that takes no room."""
    folder.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "one.png")
    directory = folder / "cache"
    cache = FeatureCache.build(
        directory,
        image_ids[:1],
        [folder / "one.png"],
        lambda images: np.zeros((len(images), 14, 14, 512), np.float32),
        image_size=8,
        show_progress=False,
    )
    shape = (len(image_ids), *cache.features(image_ids[:1]).shape[1:])
    np.lib.format.open_memmap(directory / "features.npy", "w+", np.float16, shape).flush()
    np.save(directory / "rows.npy", np.repeat(np.load(directory / "rows.npy"), len(image_ids)))
    manifest = read_sealed_json(directory / "manifest.json", "the manifest of a cache")
    write_sealed_json(directory / "manifest.json", manifest | {"image_ids": image_ids})
    return FeatureCache.open(directory)


def main(folder, num_photos):
    lengths = (Path(__file__).parent / "flickr8k_lengths.txt").read_text().splitlines()
    random = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(7996)])
    images = [
        CaptionedImage(
            f"photo{number}",
            "",
            [" ".join(random.choice(words, int(length))) for length in lengths[number % len(lengths)].split()],
            "train",
        )
        for number in range(num_photos)
    ]
    vocabulary = Vocabulary(list(words))
    cache = sparse_cache(folder, [image.image_id for image in images])
    captioner = Captioner(vocabulary, encoder=None)
    captioner.compile()
    longest = [dataclasses.replace(image, captions=[" ".join(words[:36])]) for image in images[:64]]
    watch = Watch()
    for some in (images, longest):  # 36 words are the most in Flickr8k
        batches = make_batches(some, vocabulary, cache).take(NUM_BATCHES)
        captioner.fit(batches, epochs=1, verbose=0, callbacks=[watch])
    print(watch.most)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
