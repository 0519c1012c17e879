"""How sharp are attention maps? `python benchmarks/flickr8k/spread.py FLICKR8K MODEL
[--encoder-weights FILE]`.

Over the captions of dev photos: the mean entropy of a word's map, the entropy of a
uniform map, and the fraction of words with a cell of more than twice the uniform
weight.
"""

import argparse

import numpy as np

from data_utils import DATASETS, photos_of_split
from keras_sat import equations
from keras_sat.captioner import Captioner


def spread(maps):
    """Return (mean entropy, entropy of a uniform map, fraction of words with a cell
    above twice the uniform weight).

    Args:
        maps: (words, rows, columns); each map sums to 1.
    """
    maps = np.reshape(maps, (len(maps), -1))
    entropies = np.array(equations.attention_entropy(maps))
    return entropies.mean(), np.log(maps.shape[1]), np.mean(maps.max(axis=1) > 2 / maps.shape[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data_dir")
    parser.add_argument("model")
    parser.add_argument("--encoder-weights")
    parser.add_argument("--photos", type=int, default=300)
    arguments = parser.parse_args()
    photos = photos_of_split(DATASETS["flickr8k"](arguments.data_dir), "dev")[: arguments.photos]
    captioner = Captioner.from_pretrained(
        arguments.model, encoder_weights=arguments.encoder_weights
    )
    results = captioner.caption([image.image_path for image in photos])
    entropy, even, above = spread(np.concatenate([result.attention_weights for result in results]))
    print(
        f"{len(photos)} photos: entropy {entropy:.2f} of {even:.2f}; more than twice the "
        f"uniform weight: {above:.0%}"
    )


if __name__ == "__main__":
    main()
