import io
import os
import struct
import subprocess
import sys
import warnings
import zlib

import ml_dtypes
import numpy as np
import pytest
from helpers import write_photos
from PIL import Image

from data_utils import CaptionedImage, find_pictures, load_image, readable_photos
from data_utils.photos.decoding import WithoutWarnings
from data_utils.photos.read import read_photos


@pytest.fixture
def picture():
    """Left half red, right half blue, 40 x 20."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, :20, 0] = 250
    pixels[:, 20:, 2] = 250
    return Image.fromarray(pixels)


def saved(picture, path, **options):
    picture.save(path, **options)
    return path


def assert_red_and_blue(image):
    assert image.dtype == np.uint8 and image.shape[2] == 3
    left, right = image[:, 2 : image.shape[1] // 2 - 4], image[:, image.shape[1] // 2 + 4 : -2]
    assert left[..., 0].min() > 200 and left[..., 2].max() < 60
    assert right[..., 2].min() > 200 and right[..., 0].max() < 60


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("a.jpg", "RGB", {"quality": 95}),
        ("progressive.jpg", "RGB", {"quality": 95, "progressive": True}),
        ("cmyk.jpg", "CMYK", {"quality": 95}),
        ("palette.png", "P", {}),
        ("a.webp", "RGB", {"quality": 95}),
        ("a.gif", "RGB", {}),
        ("no_ending", "RGB", {"format": "PNG"}),
        ("png_called.jpg", "RGB", {"format": "PNG"}),
    ],
)
def test_common_formats_give_the_same_picture(picture, tmp_path, name, mode, options):
    path = saved(picture.convert(mode), tmp_path / name, **options)
    assert load_image(path).shape == (20, 40, 3)
    assert_red_and_blue(load_image(path))
    assert_red_and_blue(load_image(str(path), image_size=(30, 60)))
    assert load_image(path, 32).shape == (32, 32, 3)


def test_exif_turns_the_picture_upright(picture, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the picture is stored lying on its side
    path = saved(
        picture.transpose(Image.Transpose.ROTATE_90), tmp_path / "turned.jpg", exif=exif, quality=95
    )
    assert_red_and_blue(load_image(path))
    assert_red_and_blue(load_image(saved(picture, tmp_path / "a.png", exif=b"Exif\0\0damaged")))


def test_transparent_parts_are_white(tmp_path):
    transparent = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert load_image(saved(transparent, tmp_path / "a.png")).min() == 255
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    assert abs(int(load_image(saved(half, tmp_path / "b.png"))[0, 0, 0]) - 127) <= 1
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([9, 9, 9] * 256)
    assert load_image(saved(palette, tmp_path / "c.png", transparency=0)).min() == 255
    assert load_image(saved(palette, tmp_path / "c.gif", transparency=0)).min() == 255


def test_grey_and_16_bit_pictures_keep_their_brightness(tmp_path):
    grey = saved(Image.new("L", (8, 8), 77), tmp_path / "grey.png")
    assert (load_image(grey) == 77).all()
    deep = saved(Image.fromarray(np.full((8, 8), 77 * 257, dtype=np.uint16)), tmp_path / "deep.png")
    assert (load_image(deep) == 77).all()
    assert (load_image(saved(Image.new("1", (8, 8), 1), tmp_path / "bits.png")) == 255).all()


def test_pictures_of_32_bit_integers_have_8_bits_or_16(tmp_path):
    grey = np.arange(256, dtype=np.int32).reshape(16, 16)
    for values in (grey, 257 * grey):
        picture = Image.fromarray(values)
        assert picture.mode == "I"
        for image in (picture, saved(picture, tmp_path / "a.tif")):
            np.testing.assert_array_equal(load_image(image)[..., 0], grey)


def test_the_first_frame_of_an_animation(tmp_path):
    red, green = (Image.new("RGB", (8, 8), colour) for colour in ("#f00", "#0f0"))
    path = saved(red, tmp_path / "a.gif", save_all=True, append_images=[green])
    assert load_image(path)[0, 0].tolist() == [255, 0, 0]


def test_pil_images_and_arrays(picture):
    assert_red_and_blue(load_image(picture))
    array = np.array(picture)
    np.testing.assert_array_equal(load_image(array), array)
    np.testing.assert_array_equal(load_image(array.astype(np.float32)), array)

    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return array

    np.testing.assert_array_equal(load_image(Tensor()), array)
    assert load_image(array[..., 0]).shape == (20, 40, 3)
    with pytest.raises(ValueError, match=r"Received: shape=\(3,\)"):
        load_image(np.zeros(3))
    for wrong in (300.0, 0.5, -0.5, True):
        with pytest.raises(ValueError, match="values 0..255, not 0..1"):
            load_image(np.full((4, 4, 3), wrong))
    assert load_image(np.zeros((4, 4, 3))).max() == 0


@pytest.mark.parametrize("kind", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_an_array_of_0_to_1_that_was_made_brighter_is_rejected(kind):
    array = np.linspace(0.0, 1.02, 48).reshape(4, 4, 3).astype(kind)
    with pytest.raises(ValueError, match=r"values 0..255, not 0..1.*Received: 0\S* to 1\.0"):
        load_image(array)
    assert load_image(np.full((4, 4, 3), 2.0)).max() == 2
    assert load_image(np.ones((4, 4, 3), np.uint16)).max() == 1, "of integers, 1 is nearly black"


@pytest.mark.parametrize("kind", [object, str, bytes, complex, "datetime64[s]", [("red", "u1")]])
def test_arrays_of_what_is_no_real_number_are_rejected(kind):
    array = np.full((4, 4, 3), 200).astype(kind)
    with pytest.raises(ValueError, match="must contain real numbers. .* Received: dtype="):
        load_image(array)
    with pytest.raises(ValueError, match="Pass paths, or images of several sizes, as a list"):
        load_image(np.array(["a.jpg", "b.jpg"]))


def test_arrays_of_16_bit_floats_are_pictures():
    array = np.full((4, 4, 3), 200, np.float16)
    assert load_image(array).max() == 200
    tensorflow = pytest.importorskip("tensorflow")
    assert load_image(tensorflow.cast(array, "bfloat16")).max() == 200


def test_a_large_jpeg_is_averaged_down_not_sampled(tmp_path):
    # As fine as the grid of a draft.
    stripes = np.tile(np.array([0, 255], dtype=np.uint8).repeat(4), (800, 100))
    small = load_image(saved(Image.fromarray(stripes), tmp_path / "fine.jpg", quality=95), 20)
    assert abs(float(small.mean()) - 127.5) < 8 and small.std() < 40


def png_that_claims(width, height):
    """Return a PNG whose header claims a size that its pixels do not have."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header, pixels = (
        struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        zlib.compress(bytes(1000)),
    )
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00" + b"\x00" * 50


@pytest.mark.parametrize("name", ["iphone.heic", "iphone.jpg"])
def test_heic_without_pillow_heif(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / name).write_bytes(HEIC)
    with pytest.raises(
        ValueError, match=rf"{name}: .*for HEIC, run.*pip install pillow-heif.*JPEG"
    ):
        load_image(tmp_path / name)


def test_heic_with_pillow_heif(picture, tmp_path):
    pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    pillow_heif.from_pillow(picture).save(tmp_path / "iphone.heic")
    (tmp_path / "iphone.heic").rename(tmp_path / "iphone.jpg")
    read = load_image(tmp_path / "iphone.jpg").astype(int)
    assert (
        read.shape == (picture.height, picture.width, 3)
        and abs(read - np.array(picture)).mean() < 10
    )
    (tmp_path / "torn.heic").write_bytes(HEIC)
    with pytest.raises(
        ValueError, match=r"torn\.heic: (this is not a picture that can|the picture cannot) be read"
    ):
        load_image(tmp_path / "torn.heic")


def test_errors(picture, tmp_path):
    whole = io.BytesIO()
    picture.save(whole, format="JPEG")
    for name, content, message in (
        ("empty.jpg", b"", "the file is empty"),
        ("text.jpg", b"this is no picture", "not a picture"),
        ("torn.jpg", whole.getvalue()[:400], "cannot be read|not a picture"),
        ("bomb.png", png_that_claims(100_000, 100_000), "exceeds limit"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            load_image(tmp_path / name)
        assert name in str(error.value)
    with pytest.raises(FileNotFoundError, match="missing.jpg"):
        load_image(tmp_path / "missing.jpg")
    with pytest.raises(ValueError, match="an empty path"):
        load_image("")
    for size in (0, (8, -1)):
        with pytest.raises(ValueError, match="at least 1 pixel long. Received: image_size="):
            load_image(picture, size)


@pytest.mark.parametrize("mode", ["RGBA", "P", "I;16"])
def test_a_large_picture_is_converted_in_strips_with_the_same_result(mode, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (57, 83, 4), dtype=np.uint8)
    picture = Image.fromarray(noise[..., 0].astype(np.uint16) * 257 if mode == "I;16" else noise)
    picture = picture if picture.mode == mode else picture.convert(mode)
    whole = load_image(picture, (20, 30))
    monkeypatch.setattr("data_utils.photos.decoding.STRIP_PIXELS", 1000)
    np.testing.assert_array_equal(load_image(picture, (20, 30)), whole)


READ_TWICE = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from PIL import Image
from data_utils import load_image
Image.init()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ThreadPoolExecutor(2) as readers:
    list(readers.map(lambda _: load_image(sys.argv[1], 224).shape, range(4)))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="getrusage counts in kilobytes on Linux")
@pytest.mark.slow
def test_a_png_of_few_bytes_takes_little_memory_however_many_threads_read(tmp_path):
    side = 7_200
    path = saved(Image.new("RGBA", (side, side)), tmp_path / "transparent.png")
    assert path.stat().st_size < 5_000_000
    found = subprocess.run(
        [sys.executable, "-c", READ_TWICE, path], capture_output=True, text=True, check=True
    )
    assert float(found.stdout) < 1.4 * 8 * side**2 / 1e6  # MB


def test_a_picture_that_would_take_too_much_memory_is_rejected(tmp_path):
    # 10000 x 10000, of one colour
    webp = "524946461a000000574542505650384c0d0000002f0fe7c319071011118888fe0700"
    (tmp_path / "large.webp").write_bytes(bytes.fromhex(webp))
    with pytest.raises(
        ValueError, match=r"large.webp: .*too large: 10000 x 10000 pixels.*the limit is 1.1 GB"
    ):
        load_image(tmp_path / "large.webp", 32)


def jpeg_of(picture, **options):
    """Return a JPEG up to its last scan, that scan, and the end."""
    file = io.BytesIO()
    picture.save(file, format="JPEG", **options)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:last], content[last:-2], content[-2:]


def test_a_jpeg_of_many_scans_is_rejected_before_it_is_decoded(picture, tmp_path):
    start, scan, end = jpeg_of(picture, progressive=True)
    path = tmp_path / "scans.jpg"
    path.write_bytes(start + 200 * scan + end)
    with pytest.raises(ValueError, match="scans.jpg.*more than 100 scans.*non-progressive"):
        load_image(path, 32)
    with Image.open(path) as opened, pytest.raises(ValueError, match="more than 100 scans"):
        load_image(opened)
    path.write_bytes(start + 20 * scan + end)
    assert_red_and_blue(load_image(path))


def test_what_only_looks_like_a_scan_is_not_counted(picture, tmp_path):
    start, scan, end = jpeg_of(picture, progressive=True, restart_marker_blocks=1)
    looks_like_scans = 300 * b"\xff\xda"
    metadata = b"\xff\xfe" + struct.pack(">H", 2 + len(looks_like_scans)) + looks_like_scans
    path = tmp_path / "motion_photo.jpg"
    path.write_bytes(start[:2] + metadata + start[2:] + scan + end + looks_like_scans)
    np.testing.assert_array_equal(load_image(path), np.array(Image.open(path)))


def test_a_jpeg_of_many_exif_segments_is_rejected_before_they_are_joined(picture, tmp_path):
    start, scan, end = jpeg_of(picture)
    segment = b"\xff\xe1" + struct.pack(">H", 8) + b"Exif\0\0"
    path = tmp_path / "exif.jpg"
    path.write_bytes(start[:2] + 2000 * segment + start[2:] + scan + end)
    with pytest.raises(ValueError, match="more than 1000 APP1 segments.*without its metadata"):
        load_image(path)


def test_folders_and_patterns(tmp_path):
    write_photos(tmp_path / "photos", ["b.jpg", "a.PNG", "._a.png"])
    write_photos(tmp_path / "photos" / "deep" / "deeper", ["c.jpg"])
    write_photos(tmp_path / "photos" / "deep", ["d.jpg"])
    write_photos(tmp_path / "photos" / ".thumbnails", ["e.jpg"])
    (tmp_path / "photos" / "notes.txt").write_text("no picture")
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "photos"
    own = [str(folder / name) for name in ("a.PNG", "b.jpg")]
    below = [str(folder / "deep" / name) for name in ("d.jpg", "deeper/c.jpg")]
    with pytest.warns(
        UserWarning, match=f"in subfolders left out: 2 .first: {below[0]}.*--recursive"
    ):
        assert find_pictures(folder) == own
    assert find_pictures([folder, str(folder)], recursive=True) == own + below
    assert find_pictures([f"{folder}/*.jpg", f"{folder}/**/*.jpg"]) == [
        own[1],
        *sorted([own[1], *below])[1:],
    ]
    assert find_pictures(f"{folder}/d*", recursive=True) == below
    without = [str(tmp_path / "empty"), f"{folder}/*.gif", "none.jpg"]
    assert find_pictures(without) == without
    (folder / "x[1].jpg").write_bytes((folder / "b.jpg").read_bytes())
    assert find_pictures(folder / "x[1].jpg") == [str(folder / "x[1].jpg")]
    assert find_pictures([folder / "deep", folder / "deep" / "deeper"]) == below


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_nobody_waits_for_a_pipe_among_pictures(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", "/dev/zero"):
        with pytest.raises(ValueError, match=f"{path}: this is a pipe or a device, not a picture"):
            load_image(path)
    with pytest.raises(IsADirectoryError):
        load_image(tmp_path)


def test_readable_photos(tmp_path):
    Image.new("RGB", (40, 30), "red").save(tmp_path / "good.jpg")
    (tmp_path / "bad.jpg").write_bytes(b"nothing of it")
    photos = [
        CaptionedImage(name, str(tmp_path / f"{name}.jpg"), ["a"], "train")
        for name in ("good", "bad", "gone")
    ]
    in_memory = CaptionedImage("array", np.zeros((9, 9, 3), np.uint8), ["a"], "train")
    assert readable_photos([photos[0], in_memory], show_progress=False) == [photos[0], in_memory]
    for unreadable, reason in ((photos[1:], "not a picture"), (photos[2:], "No such file")):
        counted = f"{len(unreadable)} of {len(unreadable) + 1}"
        with pytest.raises(ValueError, match=rf"{counted}.*{reason}.*--skip-unreadable"):
            readable_photos([photos[0], *unreadable], show_progress=False)
    with pytest.warns(UserWarning, match=r"left out: 2 of 4 .first: .*bad\.jpg"):
        assert readable_photos([*photos, in_memory], skip=True, show_progress=False) == [
            photos[0],
            in_memory,
        ]


@pytest.mark.parametrize("ahead", [0, 1, 3, 99])
def test_read_photos_in_their_order_with_errors_in_place(tmp_path, ahead):
    pictures = [np.full((5, 4, 3), number, np.uint8) for number in range(7)]
    pictures[2], pictures[6] = tmp_path / "gone.jpg", 3.5
    found = [*read_photos(iter(pictures), [(5, 4), (10, 8)], ahead=ahead)]
    assert isinstance(found[2], FileNotFoundError) and isinstance(found[6], ValueError)
    for number in (0, 1, 3, 4, 5):
        own, doubled = found[number]
        np.testing.assert_array_equal(own, pictures[number])
        np.testing.assert_array_equal(doubled, np.full((10, 8, 3), number))


def test_read_photos_passes_other_errors_on():
    def load(photo, size):
        raise RuntimeError("the disk is gone")

    for ahead in (0, 2):
        with pytest.raises(RuntimeError, match="disk is gone"):
            next(read_photos(["a", "b"], [(4, 4)], load=load, ahead=ahead))


def test_threads_that_read_pictures_leave_warnings_as_they_were():
    """Each enters and leaves at its own time."""
    before = list(warnings.filters)
    quiet = WithoutWarnings()
    quiet.__enter__()
    quiet.__enter__()
    quiet.__exit__(None, None, None)
    warnings.warn("while another still reads", stacklevel=1)
    quiet.__exit__(None, None, None)
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="heard again"):
        warnings.warn("heard again", stacklevel=1)
    assert len(list(read_photos([np.zeros((4, 4, 3), np.uint8)] * 60, [(4, 4)], ahead=30))) == 60
    assert warnings.filters == before


def test_pictures_of_floating_point_numbers(tmp_path):
    grey = np.linspace(0, 255, 48, dtype=np.float32).reshape(6, 8)
    path = saved(Image.fromarray(grey), tmp_path / "grey.tif")
    np.testing.assert_array_equal(load_image(path)[:, :, 1], np.rint(grey))
    for odd, received in (
        (grey / 255, "0.0 to 1.0"),
        (grey - 1, "-1.0 to 254.0"),
        (grey * np.nan, "nan to nan"),
    ):
        with pytest.raises(ValueError, match=f"grey.tif: .*values 0..255.*Received: {received}"):
            load_image(saved(Image.fromarray(odd), path))
