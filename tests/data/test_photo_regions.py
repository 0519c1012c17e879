"""Rectangles within a photo: which are rejected, and the crops that show them."""

import numpy as np
import pytest
from helpers import random_pixels
from PIL import Image

from data_utils import CaptionedImage
from data_utils.photos.decoding import pixels_of
from data_utils.photos.images import load_image
from data_utils.photos.regions import (
    MARGIN,
    Crop,
    checked_region,
    checked_regions,
    crop_of,
    crops_of,
)

OUTSIDE, UPSIDE_DOWN, EMPTY, NAN = (
    (0.5, 0, 1.1, 1),
    (0, 0.9, 1, 0.2),
    (0.2, 0, 0.2, 1),
    (0, 0, np.nan, 1),
)


@pytest.mark.parametrize(
    "region", [OUTSIDE, UPSIDE_DOWN, EMPTY, NAN, (0, 0, 1), "0011", [*"abcd"], 5, ()]
)
def test_what_is_no_rectangle_within_the_photo_is_rejected(region):
    with pytest.raises(ValueError, match="must be a rectangle within the photo.*region="):
        checked_region(region)


def test_each_photo_needs_its_regions():
    half = (0, 0, 0.5, 1)
    assert checked_region(np.array(half)) == checked_region(["0", "0", ".5", "1"]) == half
    assert checked_regions([[half], []], 2) == [[half], []]
    with pytest.raises(
        ValueError, match="a list of regions for each of 2 photos. Received: 1 lists"
    ):
        checked_regions([[half]], 2)


def test_a_crop_has_a_margin_but_ends_with_the_photo():
    around = crop_of("a.jpg", (0.4, 0.0, 0.6, 1.0))
    assert around.image == "a.jpg"
    assert around.sides == pytest.approx((0.4 - 0.2 * MARGIN, 0, 0.6 + 0.2 * MARGIN, 1))
    assert crop_of("a.jpg", None) == "a.jpg"
    first, second = (0.0, 0.0, 0.5, 1.0), (0.5, 0.0, 1.0, 1.0)
    photos = [CaptionedImage("a", "a.jpg", []), "b.jpg", "c.jpg"]
    crops = crops_of(photos, [[first, second], [], [first]])
    assert [crop.image for crop in crops] == ["a.jpg", "a.jpg", "c.jpg"]
    assert crops[0].sides[0] == 0 and crops[1].sides[2] == 1


def test_a_crop_has_at_least_one_pixel():
    assert pixels_of((0, 0, 1, 1), (30, 20)) == (0, 0, 30, 20)
    assert pixels_of((0.1, 0.25, 0.5, 0.8), (30, 20)) == (3, 5, 15, 16)
    assert pixels_of((0.5, 0.5, 0.501, 0.501), (30, 20)) == (15, 10, 16, 11)
    assert pixels_of((0.999, 0.999, 1, 1), (30, 20)) == (29, 19, 30, 20)


def test_a_crop_is_read_like_a_photo_of_this_part(tmp_path):
    photo, sides = random_pixels(40, 60, 3), (0.25, 0.1, 0.75, 0.6)
    part = photo[4:24, 15:45]
    np.testing.assert_array_equal(load_image(Crop(photo, sides)), part)
    Image.fromarray(photo).save(tmp_path / "a.png")
    for image in (photo, tmp_path / "a.png", Image.fromarray(photo)):
        np.testing.assert_array_equal(load_image(Crop(image, sides), 16), load_image(part, 16))
    exif = Image.Exif()
    exif[0x0112] = 6  # it is shown a quarter turn to the right
    Image.fromarray(np.rot90(photo)).save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(load_image(Crop(tmp_path / "turned.png", sides)), part)
    with pytest.raises(ValueError, match="b.png"):
        (tmp_path / "b.png").write_bytes(b"no picture")
        load_image(Crop(tmp_path / "b.png", sides))


def test_a_crop_of_a_large_jpeg_keeps_its_details(tmp_path):
    """It is not decoded at the fraction of its size that is enough for the photo."""
    photo = np.zeros((1600, 1600, 3), np.uint8)
    photo[800:1000, 800:1000] = 255 * (np.indices((200, 200)).sum(axis=0) // 8 % 2)[:, :, None]
    Image.fromarray(photo).save(tmp_path / "a.jpg", quality=95)
    crop = load_image(Crop(tmp_path / "a.jpg", (0.5, 0.5, 0.625, 0.625)), 100)
    expected = load_image(photo[800:1000, 800:1000], 100)
    assert np.abs(crop.astype(int) - expected).mean() < 8
