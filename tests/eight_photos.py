"""Eight photos with a caption each, and small captioners of them, for several test
files; the fixture `eight` is in conftest.py.
"""

import keras
import numpy as np
from helpers import make_captioner, write_photos

from data_utils import CaptionedImage, FeatureCache, Vocabulary, make_batches

CAPTIONS = [
    "a red dog runs",
    "two cats sleep on a sofa",
    "a man rides",
    "the sea at night",
    "snow on a green hill",
    "a girl reads a book",
    "birds",
    "an old car in the rain",
]
SMALL = {"embedding_dim": 24, "hidden_dim": 24, "attention_dim": 24}
SHORT = {"num_beams": 1, "max_length": 4}  # where any caption will do


def random_grid(images):
    """An encoder that knows every photo apart: 2 x 2 cells of 24 numbers that depend on
    all pixels.
    """
    return np.stack(
        [np.random.default_rng(int(image.sum())).normal(size=(2, 2, 24)) for image in images]
    )


def write_eight(folder):
    """Write the photos.

    Return them, their vocabulary and the cache of their features.
    """
    names = [f"{number}.png" for number in range(8)]
    write_photos(folder / "photos", names)
    images = [
        CaptionedImage(str(number), folder / "photos" / name, [CAPTIONS[number]], "train")
        for number, name in enumerate(names)
    ]
    cache = FeatureCache.build(
        folder / "cache",
        [i.image_id for i in images],
        [i.image_path for i in images],
        random_grid,
        image_size=16,
        show_progress=False,
    )
    return images, Vocabulary.build(images), cache


def compiled_captioner(vocabulary, **options):
    captioner = make_captioner(vocabulary, shape=(4, 24), **{**SMALL, **options})
    captioner.compile(learning_rate=1e-2)
    return captioner


def first_batch(eight, **options):
    images, vocabulary, cache = eight
    return next(iter(make_batches(images, vocabulary, cache, shuffle=False, **options)))


def small_encoder():
    images = keras.Input((16, 16, 3))
    grid = keras.layers.Conv2D(24, 8, strides=8, name="conv")(
        keras.layers.Rescaling(1 / 255)(images)
    )
    return keras.Model(images, keras.layers.BatchNormalization(name="norm")(grid), name="small")
