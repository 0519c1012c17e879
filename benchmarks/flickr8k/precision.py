"""Does bfloat16 change captions? `python benchmarks/flickr8k/precision.py FLICKR8K
MODEL`.

The first dev photos are captioned in float32, and with the decoder, the encoder or both
in bfloat16 (3 beams). Prints how many captions are the same word for word, and the
seconds of the second of two runs.
"""

import argparse
import contextlib
import time
import warnings

import keras
import numpy as np

from data_utils import DATASETS, photos_of_split
from data_utils.photos import load_image
from keras_sat.captioner import Captioner


@contextlib.contextmanager
def dtype_policy(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def second_time(function):
    """Return what a function returns, and the seconds of its second call."""
    function()
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir", metavar="FLICKR8K")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--photos", type=int, default=200)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    photos = photos_of_split(DATASETS["flickr8k"](arguments.data_dir), "dev")[: arguments.photos]
    captioners = {"float32": Captioner.from_pretrained(arguments.model)}
    with dtype_policy("mixed_bfloat16"):
        captioners["bfloat16"] = Captioner.from_pretrained(arguments.model)
        _ = captioners["bfloat16"].encoder_model  # made here, under the policy
    size = captioners["float32"].photo_encoder.photo_size
    pixels = np.stack([load_image(photo.image_path, size) for photo in photos])
    features = {}
    for dtype, captioner in captioners.items():
        encoded, took = second_time(lambda captioner=captioner: captioner.encode(pixels))
        features[dtype] = np.asarray(encoded, np.float32)
        print(f"encoder in {dtype}: {took:.1f} s")
    right = None
    for encoder in captioners:
        for decoder, captioner in captioners.items():
            given = features[encoder]
            found, took = second_time(
                lambda c=captioner, x=given: c.caption_features(x, num_beams=3)
            )
            said = [result.caption for result in found]
            right = right or said
            same = sum(map(str.__eq__, said, right))
            print(
                f"encoder {encoder}, decoder {decoder}: {same} of {len(right)} the same, "
                f"search {took:.1f} s"
            )


if __name__ == "__main__":
    main()
