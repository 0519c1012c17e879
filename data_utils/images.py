"""Read pictures in common formats as upright RGB arrays."""

from __future__ import annotations

import contextlib
import glob
import itertools
import numbers
import os
import re
import threading
import warnings
from typing import Any

import numpy as np

from data_utils.atomic_files import check_is_file
from data_utils.captions import CaptionedImage, pictures_by_folder
from data_utils.photo_digests import photo_of
from data_utils.progress import Progress

# The accepted formats. Pillow's other formats are rare, and one of them (EPS) would
# start an external program.
FORMATS = [
    "JPEG",
    "MPO",
    "PNG",
    "WEBP",
    "GIF",
    "BMP",
    "DIB",
    "TIFF",
    "AVIF",
    "HEIF",
    "JPEG2000",
    "PPM",
    "TGA",
    "ICO",
]
MOST_BYTES = 2**30  # memory limit for one picture
# Pictures that need more memory are decoded one at a time, however many threads read.
MANY_BYTES = 200_000_000
# Measured while a picture is decoded and converted to RGB.
BYTES_OF_A_PIXEL = {"WEBP": 16, "JPEG2000": 20, "AVIF": 16, "HEIF": 16, "TIFF": 8}
BLOCK_BYTES = 2**26  # above 2**25, memory is returned to the system at once
STRIP_PIXELS = 10_000_000  # converted to RGB at a time
# Each scan of a JPEG may have a few bytes only, but its decoder visits all pixels.
# Cameras and websites write about 10 scans; Chrome's decoder (Skia) and libtiff stop at
# 100.
MOST_SCANS = 100
MOST_EXIF_SEGMENTS = 1000  # one is usual, and Pillow copies all earlier ones at each
SCAN, EXIF_SEGMENT, END_OF_JPEG = b"\xff\xda", b"\xff\xe1", b"\xff\xd9"
# The end, and the segments that start with their length. Any other marker stands alone.
JPEG_MARKER = re.compile(rb"\xff[\xc0-\xc4\xc9-\xcc\xd9-\xdf\xe0-\xef\xfe]")
_one_at_a_time = threading.Lock()


def load_image(image: Any, image_size: int | tuple[int, int] | None = None) -> np.ndarray:
    """Return a picture as a uint8 RGB array of shape (height, width, 3), with values
    0..255.

    EXIF rotation is applied, transparent pixels become white, and 16 bits become 8. A
    picture with 32-bit integers (PIL's mode "I") is read as one of 8 bits if no value
    is above 255, otherwise as one of 16. Only the first frame of an animation is read.
    `image_size` stretches the picture instead of cropping it.

    Args:
        image: a path, an open binary file, a PIL image, or an array or tensor (height,
            width, 3) or (height, width) with values 0..255.
        image_size: the side of a square, or (height, width); None keeps the original
            size.

    Raises:
        ValueError: the file cannot be read as a picture.
        FileNotFoundError, IsADirectoryError: the file does not exist, or is a folder.
    """
    from PIL import Image

    size = None if image_size is None else tuple(map(int, height_and_width(image_size)))
    if isinstance(image, Image.Image):
        return _decoded(image, size, "the picture")
    if hasattr(image, "__array__"):
        return _decoded(Image.fromarray(_as_uint8(np.asarray(image))), size, "the array")
    if hasattr(image, "read"):
        return _decoded(image, size, "the file")
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
        return _decoded(file, size, path)


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


def readable_photos(
    captioned_images: list[CaptionedImage],
    *,
    skip: bool = False,
    show_progress: bool = True,
    noted: dict | None = None,
) -> list[CaptionedImage]:
    """Return the captioned photos that can be read.

    Args:
        captioned_images: list of CaptionedImage.
        skip: skip unreadable photos, with a warning that counts them. False raises an
            error at the first.
        show_progress: show progress on standard error.
        noted: a dict that is filled with the record of each photo by its id, see
            `data_utils.photo_digests`.
    """
    readable, reasons = [], []
    show = show_progress and len(captioned_images) >= 1000  # fewer take a second or two
    with Progress(
        len(captioned_images), label="photos checked", unit="photos", show=show
    ) as progress:
        for image in captioned_images:
            try:
                record = None if noted is None else photo_of(image.image_path)
                # small: large JPEGs are then decoded at a reduced size
                load_image(image.image_path, 32)
                readable.append(image)
                if noted is not None:
                    noted[image.image_id] = record
            except (OSError, ValueError) as error:
                reasons.append(str(error))
                if not skip:
                    raise ValueError(
                        f"{error} (pass skip_unreadable=True, --skip-unreadable, to skip it)"
                    ) from None
            progress.advance(1)
    if reasons:
        warnings.warn(
            f"{len(reasons)} unreadable photos are skipped (first: {reasons[0]})", stacklevel=2
        )
    return readable


def _decoded(image, size, name):
    """Decode a PIL image or an open file, as `load_image` does; `name` is for error
    messages.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        if not isinstance(image, Image.Image):
            image = _identified(image)
        elif image.format in ("JPEG", "MPO") and getattr(image, "fp", None) is not None:
            _check_jpeg(image.fp)  # it is not decoded yet
        width, height = image.size  # before a JPEG is drafted
        needed_bytes = _prepared(image, size)
        if needed_bytes > MOST_BYTES:
            raise ValueError(
                f"too large: {width} x {height} pixels need {needed_bytes / 1e9:.1f} GB "
                f"of memory, and the limit is {MOST_BYTES / 1e9:.1f} GB. Save the picture "
                "with fewer pixels, or as a non-progressive JPEG"
            )
        if needed_bytes <= MANY_BYTES:
            return _upright_rgb(image, size)
        # The C library would never return smaller blocks to the system, in any thread.
        with _one_at_a_time:
            usual_block_bytes = Image.core.get_block_size()
            Image.core.set_block_size(BLOCK_BYTES)
            try:
                return _upright_rgb(image, size)
            finally:
                Image.core.set_block_size(usual_block_bytes)
    except UnidentifiedImageError:
        raise ValueError(
            f"{name}: this is not a picture that can be read. Expected: JPEG, PNG, WebP, "
            "GIF, BMP or TIFF."
        ) from None
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        raise ValueError(f"{name}: the picture cannot be read ({error}).") from None


def _prepared(image, size):
    """Prepare a PIL image for decoding, and return how many bytes decoding needs (0 if
    it is already decoded).
    """
    if image.format is None:
        return 0
    coefficient_bytes = 0
    if image.info.get("progressive"):
        # All coefficients of a progressive JPEG, 16 bits each, stay in memory until its
        # last scan has been read.
        coefficient_bytes = 2 * len(image.getbands()) * image.width * image.height
    if size is not None and image.format == "JPEG":
        # Large JPEGs are decoded at a fraction of their size.
        image.draft(None, (2 * max(size), 2 * max(size)))
    pixel_bytes = BYTES_OF_A_PIXEL.get(image.format, 4 if image.mode in ("L", "RGB") else 8)
    if image.mode == "F":
        pixel_bytes = 14
    if size is None:  # the whole picture is copied once more
        pixel_bytes = max(pixel_bytes, 7)
    return pixel_bytes * image.width * image.height + coefficient_bytes


def _as_uint8(array):
    """Convert an image array to uint8.

    Reject values outside 0..255 and shapes that are not those of an image.
    """
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise ValueError(
            "An image array must contain real numbers. Pass paths, or images of several "
            f"sizes, as a list. Received: dtype={array.dtype}"
        )
    has_channels = array.ndim == 3 and array.shape[2] in (1, 3, 4)
    if not (array.ndim == 2 or has_channels) or array.size == 0:
        raise ValueError(
            "An image array must have shape (height, width) or (height, width, channels): 1, "
            f"3 or 4 channels. Received: shape={array.shape}"
        )
    if array.dtype != np.uint8:
        low, high = array.min(), array.max()
        # Made brighter or resized, values 0..1 may exceed 1 a little.
        is_scaled = array.dtype.kind not in "iu" and 0 < high < 2
        if is_scaled or not (low >= 0 and high <= 255):  # also rejects NaN
            raise ValueError(
                "Image arrays must have values 0..255, not 0..1 or -1..1. Received: "
                f"{low} to {high}"
            )
        array = np.rint(array).astype(np.uint8)
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array


def _identified(file):
    """Open a file object as a PIL image, without decoding it yet."""
    from PIL import Image

    start = file.read(16)
    file.seek(0)
    if not start:
        raise ValueError("the file is empty")
    if start.startswith(b"\xff\xd8\xff"):
        _check_jpeg(file)
    if start[4:8] == b"ftyp" and start[8:12] in (
        b"heic",
        b"heix",
        b"hevc",
        b"heim",
        b"heis",
        b"mif1",
        b"msf1",
    ):
        try:
            import pillow_heif
        except ImportError:
            raise ValueError(
                "for HEIC, run `pip install pillow-heif`, or save it as JPEG"
            ) from None
        pillow_heif.register_heif_opener()
    # Pillow warns about large pictures, and rejects twice the size.
    with warnings.catch_warnings(action="ignore"):
        Image.init()
        return Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])


def _check_jpeg(file):
    """Raise ValueError if a JPEG has so many parts that reading it may take hours."""
    position = file.tell()
    file.seek(0)
    content = file.read(MOST_BYTES)
    file.seek(position)
    before_scans = itertools.takewhile(lambda marker: marker != SCAN, _jpeg_markers(content))
    if sum(marker == EXIF_SEGMENT for marker in before_scans) > MOST_EXIF_SEGMENTS:
        problem = f"a JPEG of more than {MOST_EXIF_SEGMENTS} APP1 segments could take hours to read"
        raise ValueError(f"{problem}. Save the picture without its metadata")
    # Counting bytes is fast, but they may also be part of a thumbnail, of metadata, or
    # of a video after the end. Only markers count.
    if content.count(SCAN) <= MOST_SCANS:
        return
    if sum(marker == SCAN for marker in _jpeg_markers(content)) > MOST_SCANS:
        problem = f"a JPEG of more than {MOST_SCANS} scans could take hours to decode"
        raise ValueError(f"{problem}. Save the picture as a non-progressive JPEG")


def _jpeg_markers(content):
    """Yield the markers of a JPEG, two bytes each, as its decoder meets them."""
    position = 0
    while found := JPEG_MARKER.search(content, position):
        if found[0] == END_OF_JPEG:
            return
        yield found[0]
        num_bytes = int.from_bytes(content[found.end() : found.end() + 2], "big")
        position = found.end() + num_bytes


def _upright_rgb(image, size):
    """Decode a PIL image into an upright RGB array with a white background, resized to
    `size`.
    """
    from PIL import ExifTags, Image, ImageOps

    with warnings.catch_warnings(action="ignore"):  # Pillow warns about odd metadata
        image.load()
        with contextlib.suppress(Exception):  # metadata may be damaged even if the pixels are not
            if image.getexif().get(ExifTags.Base.Orientation) in range(2, 9):
                image = ImageOps.exif_transpose(image)
    if image.mode == "F":  # floating-point pixels
        image = Image.fromarray(_as_uint8(np.array(image)))
    if image.mode == "I" and image.getextrema()[1] <= 255:  # 8 bits in numbers of 32
        image = image.convert("L")
    if image.mode != "RGB" or "transparency" in image.info:
        whole = Image.new("RGB", image.size)
        strip_rows = max(1, STRIP_PIXELS // image.width)
        # Saves memory: only one strip has copies in other modes.
        for top in range(0, image.height, strip_rows):
            bottom = min(top + strip_rows, image.height)
            strip = image.crop((0, top, image.width, bottom))
            whole.paste(_strip_as_rgb(strip), (0, top))
        image = whole
    if size is not None:
        # In a single call, the order of the two sides depends on Pillow's version, and
        # it changes the last bits.
        height, width = size
        for new_size in ((width, image.height), (width, height)):
            if image.size != new_size:
                image = image.resize(new_size, Image.Resampling.BILINEAR)
    return np.array(image)


def _strip_as_rgb(image):
    """Convert a PIL image of any mode to RGB with a white background."""
    from PIL import Image

    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I"):
        image = Image.fromarray((np.array(image).clip(0, 65535) // 257).astype(np.uint8))
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
