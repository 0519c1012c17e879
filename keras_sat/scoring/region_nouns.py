"""Measure whether a captioner that describes a region says the noun (last content word)
of the annotators' phrase.
"""

import re
import warnings
from typing import Any

from data_utils.captions import tokenise
from data_utils.views import area
from keras_sat.scoring.phrases import last_content_word, measured_phrases

# Fractions of the photo; regions below SMALL are also reported separately.
AREAS, SMALL = (0.02, 0.5), 0.15
IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
    "teeth": "tooth",
}


def region_nouns(images, boxes, results, describe) -> dict[str, Any]:
    """Return a dict of num_regions and the fractions of regions whose noun is said;
    None without regions.

    noun_said and small_noun_said are about the phrases for the regions, whole_noun_said
    about the caption of the whole photo. Photos of unknown aspect ratio are not
    measured.

    Args:
        images, boxes, results: list of CaptionedImage, Boxes, and the CaptionResults of
            the whole photos.
        describe: function that returns a list of CaptionResults for each image; its
            argument is the images' `regions`.
    """
    asked = [_regions_and_nouns(image, boxes) for image in images]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of narrow regions
        found = describe(regions=[[region for region, _ in of_photo] for of_photo in asked])
    # Of each region: whether it is small, and whether its phrase and the whole photo's
    # caption say the noun.
    said = []
    for of_photo, whole, phrases in zip(asked, results, found):
        for (region, noun), phrase in zip(of_photo, phrases):
            said.append(
                (
                    area(region) < SMALL,
                    *(noun in map(singular, result.words) for result in (phrase, whole)),
                )
            )
    figures = {
        "noun_said": [own for _, own, _ in said],
        "small_noun_said": [own for small, own, _ in said if small],
    }
    figures["whole_noun_said"] = [whole for *_, whole in said]
    return {"num_regions": len(said)} | {
        name: sum(x) / len(x) if x else None for name, x in figures.items()
    }


def _regions_and_nouns(image, boxes):
    """Return a list of (region, noun) for the phrases of a photo that are measured."""
    found = []
    for phrase in measured_phrases(boxes, image):
        words = tokenise(image.captions[phrase.caption])
        place = last_content_word(words, phrase)
        if (
            place is not None
            and len(phrase.boxes) == 1
            and AREAS[0] <= area(phrase.boxes[0]) <= AREAS[1]
        ):
            found.append((phrase.boxes[0], singular(words[place])))
    return found


def singular(word):
    """Return the singular of an English noun, good enough to compare two words of which
    both are passed through it.

    >>> words = "dogs", "women", "glasses", "puppies", "grass", "bus"
    >>> [singular(word) for word in words]
    ['dog', 'woman', 'glass', 'puppy', 'grass', 'bus']
    """
    word = re.sub(r"(?<=\w\w)ies?$", "y", IRREGULAR.get(word, word))
    return re.sub(r"((?<=ss)|(?<=bus)|(?<=[cs]h)|(?<=[xz]))es$|(?<=[^su])s$", "", word)
