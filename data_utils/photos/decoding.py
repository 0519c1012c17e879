"""Decode picture files in common formats as upright RGB arrays, with limits of memory
and time.

NumPy and Pillow are enough for this module: an export's caption.py contains it.
"""

import contextlib
import itertools
import math
import re
import threading
import warnings

import numpy as np

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
WHOLE = (0.0, 0.0, 1.0, 1.0)
_one_at_a_time = threading.Lock()


class WithoutWarnings:
    """Ignore warnings inside a `with`, which several threads may be in at a time.

    `warnings.catch_warnings` changes the whole process: if threads leave it in another
    order than they entered it, warnings stay ignored for good. So only the first one to
    enter enters it, and the last one to leave leaves it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._num_inside = 0

    def __enter__(self):
        with self._lock:
            if self._num_inside == 0:
                self._ignored = warnings.catch_warnings(action="ignore")
                self._ignored.__enter__()
            self._num_inside += 1

    def __exit__(self, *exception):
        with self._lock:
            self._num_inside -= 1
            if self._num_inside == 0:
                self._ignored.__exit__(*exception)


WITHOUT_WARNINGS = WithoutWarnings()


def decoded_picture(image, size, name, sides=WHOLE):
    """Decode a picture; see `data_utils.load_image`.

    Args:
        image: a PIL image, or an open binary file.
        size: (height, width), or None for the picture's own.
        name: of the picture, for error messages.
        sides: of the part to return, (left, top, right, bottom), as fractions of the
            sides of the upright picture.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        if not isinstance(image, Image.Image):
            image = _identified(image)
        elif image.format in ("JPEG", "MPO") and getattr(image, "fp", None) is not None:
            _check_jpeg(image.fp)  # it is not decoded yet
        width, height = image.size  # before a JPEG is drafted
        needed_bytes = _prepared(image, size, sides)
        if needed_bytes > MOST_BYTES:
            raise ValueError(
                f"too large: {width} x {height} pixels need {needed_bytes / 1e9:.1f} GB "
                f"of memory, and the limit is {MOST_BYTES / 1e9:.1f} GB. Save the picture "
                "with fewer pixels, or as a non-progressive JPEG"
            )
        if needed_bytes <= MANY_BYTES:
            return _upright_rgb(image, size, sides)
        # The C library would never return smaller blocks to the system, in any thread.
        with _one_at_a_time:
            usual_block_bytes = Image.core.get_block_size()
            Image.core.set_block_size(BLOCK_BYTES)
            try:
                return _upright_rgb(image, size, sides)
            finally:
                Image.core.set_block_size(usual_block_bytes)
    except UnidentifiedImageError:
        raise ValueError(
            f"{name}: this is not a picture that can be read. Expected: JPEG, PNG, WebP, "
            "GIF, BMP or TIFF."
        ) from None
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        raise ValueError(f"{name}: the picture cannot be read ({error}).") from None


def _prepared(image, size, sides):
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
        left, top, right, bottom = sides
        least = math.ceil(2 * max(size) / min(right - left, bottom - top))
        image.draft(None, (least, least))
    pixel_bytes = BYTES_OF_A_PIXEL.get(image.format, 4 if image.mode in ("L", "RGB") else 8)
    if image.mode == "F":
        pixel_bytes = 14
    if size is None:  # the whole picture is copied once more
        pixel_bytes = max(pixel_bytes, 7)
    return pixel_bytes * image.width * image.height + coefficient_bytes


def as_uint8(array):
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
    with WITHOUT_WARNINGS:
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


def _upright_rgb(image, size, sides):
    """Decode a PIL image into an upright RGB array with a white background, cropped to
    `sides` and resized to `size`.
    """
    from PIL import ExifTags, Image, ImageOps

    with WITHOUT_WARNINGS:  # Pillow warns about odd metadata
        image.load()
        with contextlib.suppress(Exception):  # metadata may be damaged even if the pixels are not
            if image.getexif().get(ExifTags.Base.Orientation) in range(2, 9):
                image = ImageOps.exif_transpose(image)
    if image.mode == "F":  # floating-point pixels
        image = Image.fromarray(as_uint8(np.array(image)))
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
    if sides != WHOLE:
        image = image.crop(pixels_of(sides, image.size))
    if size is not None:
        # In a single call, the order of the two sides depends on Pillow's version, and
        # it changes the last bits.
        height, width = size
        for new_size in ((width, image.height), (width, height)):
            if image.size != new_size:
                image = image.resize(new_size, Image.Resampling.BILINEAR)
    return np.array(image)


def pixels_of(sides, size):
    """Return the pixels of a rectangle, (left, top, right, bottom), in a picture of the
    size (width, height): at least one.
    """
    width, height = size
    left, top, right, bottom = (
        math.floor(side * length + 0.5) for side, length in zip(sides, (*size, *size))
    )
    left, top = min(left, width - 1), min(top, height - 1)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def _strip_as_rgb(image):
    """Convert a PIL image of any mode to RGB with a white background."""
    from PIL import Image

    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N", "I"):
        image = Image.fromarray((np.array(image).clip(0, 65535) // 257).astype(np.uint8))
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
