"""Augment photos with a fixed number of views (mirrored or cropped at random), whose
features can be cached.

View 0 is the photo itself. Odd views are mirrored. From view 2 on, a crop is stretched
to the size of the photo. The crop depends only on the image id and the view number.
"""

import zlib

import numpy as np
from PIL import Image

MIN_AREA = 0.5  # of a crop, as a fraction of the photo
MAX_ASPECT = 4 / 3  # aspect ratio of a crop, relative to the photo's


def view_of(image, view, image_id):
    """Return a view of a uint8 photo of shape (height, width, 3); `view` and `image_id`
    determine the crop.
    """
    if view >= 2:
        height, width, _ = image.shape
        box = part_of_photo(view, image_id) * np.array([width, height, width, height])
        image = np.asarray(
            Image.fromarray(image).resize(
                (width, height), Image.Resampling.BILINEAR, box=tuple(box)
            )
        )
    return image[:, ::-1] if view % 2 else image


def boxes_in_view(boxes, view, image_id):
    """Return the parts of boxes, (left, top, right, bottom) from 0 to 1, that a view
    shows; see `view_of`.
    """
    left, top, right, bottom = part_of_photo(view, image_id)
    origin = np.array([left, top, left, top])
    size = np.array([right - left, bottom - top] * 2)
    boxes = np.reshape(np.asarray(boxes, float), (-1, 4))
    in_crop = ((boxes - origin) / size).clip(0, 1)
    lefts, tops, rights, bottoms = in_crop.T
    if view % 2:  # mirrored
        lefts, rights = 1 - rights, 1 - lefts
    is_visible = (lefts < rights) & (tops < bottoms)
    visible_boxes = np.stack([lefts, tops, rights, bottoms], axis=1)[is_visible]
    return tuple(map(tuple, visible_boxes.tolist()))


def part_of_photo(view, image_id):
    """Return the crop of a view as an array (left, top, right, bottom), each from 0 to
    1.
    """
    if view < 2:
        return np.array([0.0, 0.0, 1.0, 1.0])
    chance = np.random.default_rng([zlib.crc32(image_id.encode()), view])
    area = chance.uniform(MIN_AREA, 1)
    aspect = MAX_ASPECT ** chance.uniform(-1, 1)
    size = np.minimum(np.sqrt([area * aspect, area / aspect]), 1)  # width, height
    corner = chance.uniform(0, 1 - size)
    return np.concatenate([corner, corner + size])
