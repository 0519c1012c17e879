"""Measure whether a captioner that describes a region says the noun of the phrase that annotators used for it.

The regions are single boxes that take between .02 and .5 of the photo. The noun is the last content word of the phrase,
singular or plural.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from data_utils.captions import tokenise
from data_utils.views import area
from keras_sat.scoring.phrases import last_content_word, measured_phrases

AREAS, SMALL = (0.02, 0.5), 0.15  # fractions of the photo; regions below SMALL are also reported separately
IRREGULAR = {"men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot", "teeth": "tooth"}
IRREGULAR |= {"mice": "mouse", "geese": "goose", "knives": "knife", "leaves": "leaf", "wolves": "wolf"}
_ENDINGS = {r"(?<=\w\w)ies?$": "y", r"((?<=ss)|(?<=us)|(?<=[cs]h)|(?<=[xz]))es$|(?<=[^sui])s$": ""}


def region_nouns(captioner, images, boxes, results, **options) -> dict[str, Any]:
    """Return a dict of num_regions and the fractions of regions whose noun is said; None without regions.

    noun_said and small_noun_said are about the phrases for the regions, whole_noun_said about the caption of the whole
    photo. Photos of unknown aspect ratio are not measured.

    Args:
        captioner: Captioner or Ensemble.
        images: list of CaptionedImage.
        boxes: Boxes, see `data_utils.datasets.phrase_boxes`.
        results: the CaptionResults of the whole photos.
        **options: see `keras_sat.scoring.evaluate.caption_photos`.
    """
    from keras_sat.scoring.evaluate import caption_photos

    asked = [_regions_and_nouns(image, measured_phrases(boxes, image)) for image in images]
    asked_of = [number for number, of_photo in enumerate(asked) if of_photo]
    regions = [[region for region, _ in asked[number]] for number in asked_of]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrow regions
        found = caption_photos(captioner, [images[number] for number in asked_of], regions=regions, **options)
    said = []  # of each region: whether it is small, and whether its phrase and the whole photo's caption say the noun
    for number, of_photo in zip(asked_of, found):
        for (region, noun), result in zip(asked[number], of_photo):
            words = map(singular, result.words), map(singular, results[number].words)
            said.append([area(region) < SMALL, *(noun in each for each in words)])
    small = [own for is_small, own, _ in said if is_small]
    figures = {"noun_said": [own for _, own, _ in said], "small_noun_said": small}
    figures["whole_noun_said"] = [whole for *_, whole in said]
    return {"num_regions": len(said)} | {name: sum(x) / len(x) if x else None for name, x in figures.items()}


def _regions_and_nouns(image, phrases):
    """Return a list of (region, noun) for the phrases that are measured."""
    found = []
    for phrase in phrases:
        words = tokenise(image.captions[phrase.caption])
        place = last_content_word(words, phrase)
        if place is not None and len(phrase.boxes) == 1 and AREAS[0] <= area(phrase.boxes[0]) <= AREAS[1]:
            found.append((phrase.boxes[0], singular(words[place])))
    return found


def singular(word):
    """Return the singular of an English noun, good enough to compare two words of which both are passed through it.

    >>> [singular(word) for word in ("dogs", "women", "glasses", "puppies", "grass", "bus")]
    ['dog', 'woman', 'glass', 'puppy', 'grass', 'bus']
    """
    for ending, of_singular in _ENDINGS.items():
        word = IRREGULAR.get(word) or re.sub(ending, of_singular, word)
    return word
