"""Rectangles within a photo: the regions to caption, and the crops that show them."""

import contextlib
from dataclasses import dataclass
from typing import Any

from data_utils.base import brief

# A crop shows so much around its region, on each side, as a fraction of the region's
# side: see benchmarks/flickr8k/tried.md. The web page has the same number.
MARGIN = 0.2


@dataclass(frozen=True)
class Crop:
    """A part of a photo, which `load_image` reads as it reads a photo.

    Attributes:
        image: the photo: a path, an open binary file, a PIL image or an array.
        sides: (left, top, right, bottom), fractions of the sides of the upright photo.
    """

    image: Any
    sides: tuple


def checked_region(region):
    """Return a region as a tuple (left, top, right, bottom).

    Reject all that is not a rectangle within the photo.
    """
    with contextlib.suppress(TypeError, ValueError):
        left, top, right, bottom = map(float, region)
        # False for NaN.
        if 0 <= left < right <= 1 and 0 <= top < bottom <= 1 and not isinstance(region, str):
            return left, top, right, bottom
    raise ValueError(
        "A region must be a rectangle within the photo: four fractions of its sides "
        "(left, top, right, bottom), "
        f"such as (0.1, 0.2, 0.4, 0.9). Received: region={brief(region)}"
    )


def regions_for(photos, region):
    """Return `region`, one or a list, as a list for each photo (None if there is none),
    and whether it is one.
    """
    if region is None:
        return None, False
    is_list = isinstance(region, list) and bool(region)
    is_one = not is_list or any(isinstance(side, (int, float)) for side in region)
    photo_regions = [region] if is_one else region
    return [photo_regions] * len(photos), is_one


def checked_regions(regions, num_photos):
    """Return the regions of each photo, checked."""
    if len(regions) != num_photos:
        raise ValueError(
            f"Expected a list of regions for each of {num_photos} photos. Received: "
            f"{len(regions)} lists"
        )
    return [[*map(checked_region, photo_regions)] for photo_regions in regions]


def crop_of(image, region):
    """Return the Crop of an image that shows a region with MARGIN around it; None: the
    image itself.

    >>> crop_of("photo.jpg", (0.5, 0.0, 0.75, 1.0)).sides
    (0.45, 0.0, 0.8, 1.0)
    """
    if region is None:
        return image
    left, top, right, bottom = region
    across, down = MARGIN * (right - left), MARGIN * (bottom - top)
    sides = max(left - across, 0.0), max(top - down, 0.0), right + across, bottom + down
    return Crop(image, tuple(min(side, 1.0) for side in sides))


def crops_of(images, regions):
    """Return a list with the Crop of each region; see `crop_of`.

    Args:
        images: paths, PIL images, arrays or CaptionedImages.
        regions: a list of regions for each image.
    """
    return [
        crop_of(getattr(image, "image_path", image), region)
        for image, image_regions in zip(images, regions)
        for region in image_regions
    ]
