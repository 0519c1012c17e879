"""Correct how often a captioner says each word, by adding a constant to the bias of the
word's logit.

    python benchmarks/flickr8k/word_offsets.py MODEL FLICKR8K CORRECTED --weight 0.3
    keras-sat calibrate CORRECTED --data flickr8k --data-dir FLICKR8K

A captioner says "standing", "group" and "man" more often than people do, and "woman"
and "three" less often. The offset of a word is weight x log(how often people say it /
how often the captioner says it), from the dev photos. tried.md has the figures. Source:
Menon et al., 2021, Long-Tail Learning via Logit Adjustment.
"""

import argparse
import math
from collections import Counter

import numpy as np

from data_utils import DATASETS, tokenise
from data_utils.datasets import PLACELESS
from keras_sat import Captioner

SMOOTHING = 5  # photos, added to both frequencies: words that are rare in both have small offsets
GREATEST = 2.0  # absolute value of an offset


def word_offsets(vocabulary, captions, references, weight):
    """Return the offset of each token, (tokens,).

    Args:
        vocabulary: Vocabulary.
        captions: of the captioner, lists of words.
        references: for each photo, a list of lists of words.
        weight: of the offsets; 1 corrects the whole difference, if words were
            independent.
    """
    said = Counter(word for words in captions for word in set(words))
    by_people = Counter()
    for of_photo in references:
        for words in of_photo:
            by_people.update(dict.fromkeys(words, 1 / len(of_photo)))
    offsets = np.zeros(len(vocabulary), np.float32)
    for token_id, word in enumerate(vocabulary.tokens):
        if word in vocabulary.words and word not in PLACELESS:
            ratio = (by_people[word] + SMOOTHING) / (said[word] + SMOOTHING)
            offsets[token_id] = np.clip(weight * math.log(ratio), -GREATEST, GREATEST)
    return offsets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data_dir")
    parser.add_argument("output")
    parser.add_argument("--weight", type=float, default=0.3)
    parser.add_argument("--precision", default="int8")
    options = parser.parse_args()
    captioner = Captioner.from_pretrained(options.model)
    photos = DATASETS["flickr8k"](options.data_dir)
    dev_photos = [image for image in photos if image.split == "dev"]
    offsets = fitted_offsets(captioner, dev_photos, options.weight)
    captioner.decoder.readout.word_logits.bias.assign_add(offsets)
    captioner.confidence = None  # it was fitted with the old weights
    captioner.save(options.output, precision=options.precision)


def fitted_offsets(captioner, photos, weight):
    """Return `word_offsets` for the captioner's captions of photos."""
    captions = [result.words for _, result in captioner.caption_each(photos, consensus_weight=0)]
    references = [[*map(tokenise, image.captions)] for image in photos]
    return word_offsets(captioner.vocabulary, captions, references, weight)


if __name__ == "__main__":
    main()
