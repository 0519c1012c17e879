"""Find pictures, and read them as upright RGB arrays."""

from __future__ import annotations

import glob
import itertools
import numbers
import os
import warnings
from typing import Any

import numpy as np

from data_utils.base import check_is_file
from data_utils.captions import pictures_by_folder
from data_utils.photos.decoding import WHOLE, as_uint8, decoded_picture
from data_utils.photos.regions import Crop


def load_image(image: Any, image_size: int | tuple[int, int] | None = None) -> np.ndarray:
    """Return a picture as a uint8 RGB array of shape (height, width, 3), with values
    0..255.

    EXIF rotation is applied, transparent pixels become white, and 16 bits become 8. A
    picture with 32-bit integers (PIL's mode "I") is read as one of 8 bits if no value
    is above 255, otherwise as one of 16. Only the first frame of an animation is read.
    `image_size` stretches the picture instead of cropping it.

    Args:
        image: a path, an open binary file, a PIL image, or an array or tensor (height,
            width, 3) or (height, width) with values 0..255; or a
            `data_utils.photos.regions.Crop` of one of these.
        image_size: the side of a square, or (height, width); None keeps the original
            size.

    Raises:
        ValueError: the file cannot be read as a picture.
        FileNotFoundError, IsADirectoryError: the file does not exist, or is a folder.
    """
    from PIL import Image

    size = None if image_size is None else tuple(map(int, height_and_width(image_size)))
    sides = WHOLE
    if isinstance(image, Crop):
        image, sides = image.image, image.sides
    if isinstance(image, Image.Image):
        return decoded_picture(image, size, "the picture", sides)
    if hasattr(image, "__array__"):
        picture = Image.fromarray(as_uint8(np.asarray(image)))
        return decoded_picture(picture, size, "the array", sides)
    if hasattr(image, "read"):
        return decoded_picture(image, size, "the file", sides)
    if not isinstance(image, (str, os.PathLike)):
        raise ValueError(
            "Expected a path, a PIL image, or an array. Received: an image of type "
            f"{type(image).__name__}"
        )
    path = os.path.expanduser(os.fspath(image))
    if not path:
        raise ValueError("Expected the path of a picture. Received an empty path: ''")
    if not os.path.isfile(path):
        check_is_file(path, "picture")
    with open(path, "rb") as file:
        return decoded_picture(file, size, path, sides)


def height_and_width(size):
    """Return (height, width) for `size`, which is either the side of a square or
    (height, width).
    """
    sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    if len(sides) != 2 or not all(isinstance(x, numbers.Real) and x >= 1 for x in sides):
        raise ValueError(
            "A size is the side of a square, or (height, width), in pixels. The sides must be "
            f"at least 1 pixel long. Received: image_size={size!r}"
        )
    return sides


def find_pictures(paths: Any, *, recursive: bool = False) -> list[str]:
    """Expand files, folders and glob patterns into a list of picture paths without
    duplicates.

    A folder is replaced by its pictures, sorted by name, and with `recursive` by those
    of its subfolders too. A pattern such as "photos/*.jpg" is replaced by the matching
    files. Links to folders and hidden folders are skipped. A missing path, or a folder
    without pictures, is returned unchanged; opening it will fail.

    Args:
        paths: a path, or a list of paths: files, folders and patterns.
        recursive: descend into subfolders. Without it, a warning counts the pictures in
            them.
    """
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    pictures, in_subfolders = [], []
    for name in map(os.path.expanduser, map(os.fspath, paths)):
        for path in _matches(name, recursive):
            if not os.path.isdir(path):
                pictures.append(path)
                continue
            folders = pictures_by_folder(path, lenient=not recursive)
            in_folder = next(folders)
            in_deeper_folders = itertools.chain(*folders)
            if recursive:
                in_folder = [*in_folder, *in_deeper_folders]
            else:
                in_subfolders += in_deeper_folders
            pictures += in_folder or [path]
    left_out = {*in_subfolders} - {*pictures}
    if left_out:
        warnings.warn(
            f"pictures in subfolders left out: {len(left_out)} (first: {min(left_out)}). "
            "Include them with recursive=True (--recursive).",
            stacklevel=2,
        )
    return list(dict.fromkeys(pictures))


def _matches(name, recursive):
    """Return the sorted files, and with `recursive` folders, that a glob pattern
    matches; [name] if it matches none or is no pattern.
    """
    if os.path.isdir(name) or not stands_for_many(name):
        return [name]
    paths = [
        path
        for path in sorted(glob.glob(name, recursive=True))
        if os.path.isfile(path) or (recursive and os.path.isdir(path))
    ]
    return paths or [name]


def photos_of(images, *, recursive=False):
    """Return a list of inputs for `load_image`, and whether `images` is a collection,
    folder or pattern.

    Args:
        images: a picture that `load_image` accepts, or a CaptionedImage. Or several: a
            list, an iterator, an array with four axes, a folder or a pattern, see
            `find_pictures`.
        recursive: descend into subfolders.
    """
    is_list = (
        isinstance(images, (list, tuple))
        or hasattr(images, "__next__")
        or getattr(images, "ndim", 3) == 4
    )
    photos = []
    for image in images if is_list else [images]:
        if not stands_for_many(image):
            photos.append(image)
            continue
        paths = find_pictures(image, recursive=recursive)
        if os.path.isdir(paths[0]):
            raise ValueError(
                f"{paths[0]}: this folder has no pictures. Received: images={os.fspath(image)!r}"
            )
        photos += paths
    return photos, is_list or stands_for_many(images)


def stands_for_many(path):
    """Return whether a path is a folder, or a glob pattern that is not the name of an
    existing file.
    """
    if not isinstance(path, (str, os.PathLike)):
        return False
    path = os.path.expanduser(os.fspath(path))
    return os.path.isdir(path) or (glob.has_magic(path) and not os.path.lexists(path))
