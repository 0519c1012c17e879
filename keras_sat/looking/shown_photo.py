"""The photo that a display shows: read again in its own shape, and not too large."""

import numpy as np

from data_utils.photos import crop_of, load_image

LARGEST_SIDE = 1024  # pixels: a larger photo is shrunk, since every word has a panel of that size
STEEPEST_ASPECT = 5  # a longer panorama would be drawn as a line
SAME_PHOTO = 2  # grey levels: the mean difference below which two readings show the same photo


def photo_of_result(result):
    """Return the photo of a CaptionResult, or the crop of a region, in its own shape if
    its file can be read.

    Otherwise, or if another photo has taken the file's place since, return
    `result.image`.
    """
    if result.image_path is None:
        return result.image
    image = crop_of(result.image_path, result.region)
    try:
        photo = load_image(image)
        if result.image is None:
            return photo
        seen = load_image(image, result.image.shape[:2]).astype(int)
    except (OSError, ValueError):
        return result.image
    return photo if np.abs(seen - result.image).mean() < SAME_PHOTO else result.image


def as_photo(image):
    """Return a photo as uint8 (height, width, 3), with sides up to LARGEST_SIDE pixels
    and a bounded aspect ratio.
    """
    image = load_image(image)
    longest = max(image.shape[:2])
    scale = min(LARGEST_SIDE / longest, 1)
    sides = [max(side, longest / STEEPEST_ASPECT) for side in image.shape[:2]]
    size = tuple(round(side * scale) for side in sides)
    return image if size == image.shape[:2] else load_image(image, size)
