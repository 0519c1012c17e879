"""Measure whether a captioner that captions a region says the noun (last content word)
of the annotators' phrase.
"""

from typing import Any

from data_utils.captions import tokenise
from data_utils.nouns import singular
from keras_sat.measuring.phrase_grounding import last_content_word, measured_phrases

# Fractions of the photo.
AREAS = (0.02, 0.5)  # of the smallest and the largest region that is measured
SMALL = 0.15  # smaller regions are also reported separately


def region_nouns(images, boxes, results, describe) -> dict[str, Any]:
    """Return a dict of num_regions and the fractions of regions whose noun is said;
    None without regions.

    noun_said and small_noun_said are about the captions of the regions, whole_noun_said
    about the caption of the whole photo. Photos of unknown aspect ratio are not
    measured.

    Args:
        images, boxes, results: list of CaptionedImage, Boxes, and the CaptionResults of
            the whole photos.
        describe: function that returns a list of CaptionResults for each image; its
            argument is the images' `regions`.
    """
    measured_regions = [_regions_and_nouns(image, boxes) for image in images]
    descriptions = describe(
        regions=[[region for region, _ in regions] for regions in measured_regions]
    )
    # Whether the noun of each region is said, in its caption and in that of the photo.
    said_of_region, said_of_small_region, said_of_photo = [], [], []
    for regions, photo_result, region_results in zip(measured_regions, results, descriptions):
        for (region, noun), region_result in zip(regions, region_results):
            is_said = _says(region_result, noun)
            said_of_region.append(is_said)
            if _area(region) < SMALL:
                said_of_small_region.append(is_said)
            said_of_photo.append(_says(photo_result, noun))
    return {
        "num_regions": len(said_of_region),
        "noun_said": _fraction(said_of_region),
        "small_noun_said": _fraction(said_of_small_region),
        "whole_noun_said": _fraction(said_of_photo),
    }


def _area(region):
    """Return the area of (left, top, right, bottom)."""
    left, top, right, bottom = region
    return (right - left) * (bottom - top)


def _says(result, noun):
    return noun in map(singular, result.words)


def _fraction(are_true):
    """Return the fraction of a list of booleans that are True; None if it is empty."""
    return sum(are_true) / len(are_true) if are_true else None


def _regions_and_nouns(image, boxes):
    """Return a list of (region, noun) for the phrases of a photo that are measured:
    those with one box of a moderate size.
    """
    regions = []
    smallest, largest = AREAS
    for phrase in measured_phrases(boxes, image):
        words = tokenise(image.captions[phrase.caption])
        position = last_content_word(words, phrase)
        if position is None or len(phrase.boxes) != 1:
            continue
        (box,) = phrase.boxes
        if smallest <= _area(box) <= largest:
            regions.append((box, singular(words[position])))
    return regions
