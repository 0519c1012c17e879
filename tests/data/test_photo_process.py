"""Photos that another process reads: the same pixels and reasons, and a crash is the
reason of one photo.
"""

import numpy as np
import pytest
from helpers import write_photos

from data_utils import load_image
from data_utils.photos.process import PhotoProcess

# A decoder that crashes, and one that never ends: Python runs this file at the start of
# each process whose PYTHONPATH has its folder.
CRASHES = """
import builtins, os, signal, threading
def crash_or_open(path, *arguments, open=open, **options):
    if str(path).endswith("crash.png"):
        os.kill(os.getpid(), signal.SIGKILL)
    if str(path).endswith("endless.png"):
        threading.Event().wait()
    return open(path, *arguments, **options)
builtins.open = crash_or_open
"""


def test_another_process_reads_the_same_pixels(tmp_path):
    write_photos(tmp_path, ["one.png", "two words \udcff.jpg"])
    process = PhotoProcess()
    for path in [*map(str, tmp_path.iterdir()), tmp_path / "one.png"]:
        np.testing.assert_array_equal(process.load(path, (16, 20)), load_image(path, (16, 20)))
    pixels = np.full((4, 4, 3), 7, np.uint8)
    np.testing.assert_array_equal(process.load(pixels, (4, 4)), pixels)
    (tmp_path / "torn.png").write_bytes((tmp_path / "one.png").read_bytes()[:100])
    for name, reason in (
        ("torn.png", "cannot be read"),
        ("missing.png", "missing.png: No such file"),
        ("", "directory"),
    ):
        with pytest.raises(ValueError, match=reason):
            process.load(tmp_path / name, (16, 16))
    running = process._process  # private: how it ends is seen only here
    process.close()
    assert running.returncode == 0, (
        "it ends with its input, and therefore with a worker that is killed"
    )


@pytest.fixture
def crashes(tmp_path, monkeypatch):
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(CRASHES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hooks"), prepend=":")


def test_a_crash_is_the_reason_of_one_photo(tmp_path, crashes):
    write_photos(tmp_path, ["one.png", "crash.png"])
    process = PhotoProcess()
    with pytest.raises(
        ValueError, match="crash.png: the picture cannot be read .its decoder crashed"
    ):
        process.load(tmp_path / "crash.png", (16, 16))
    assert process.load(tmp_path / "one.png", (16, 16)).shape == (16, 16, 3)
    process.close()


def test_a_photo_that_is_never_read_is_given_up(tmp_path, crashes):
    write_photos(tmp_path, ["one.png", "endless.png"])
    expected = load_image(tmp_path / "one.png", (16, 16))
    process = PhotoProcess()
    np.testing.assert_array_equal(process.load(tmp_path / "one.png", (16, 16)), expected)
    endless, process.deadline_s = process._process, 0.1  # private, as above
    with pytest.raises(ValueError, match="endless.png: the picture was not read within 0.1 s"):
        process.load(tmp_path / "endless.png", (16, 16))
    assert endless.returncode not in (None, 0), "it was killed"
    process.deadline_s = 600
    np.testing.assert_array_equal(process.load(tmp_path / "one.png", (16, 16)), expected)
    process.close()


NOISE = """
import builtins, os
print("a library says hello")
def noisy_open(path, *arguments, open=open, **options):
    if str(path).endswith("full.png"):
        raise OSError(24, "Too many open files")
    print("opening", path)
    return open(path, *arguments, **options)
builtins.open = noisy_open
"""


def test_what_libraries_print_is_no_answer_and_what_the_machine_lacks_is_not_the_photos_fault(
    tmp_path, monkeypatch
):
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(NOISE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hooks"), prepend=":")
    write_photos(tmp_path, ["one.png", "two.png", "full.png"])
    process = PhotoProcess()
    with pytest.raises(RuntimeError, match="Too many open files"):
        process.load(tmp_path / "full.png", (16, 16))
    for name in ("one.png", "two.png"):
        expected = load_image(tmp_path / name, (16, 16))
        np.testing.assert_array_equal(process.load(tmp_path / name, (16, 16)), expected)
    process.close()


def test_a_process_that_does_not_start_is_not_the_photos_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="did not start"):
        PhotoProcess().load(tmp_path / "one.png", (16, 16))


@pytest.mark.extras
def test_an_address_is_read_through_fsspec(tmp_path):
    pytest.importorskip(
        "fsspec", reason="fsspec is not installed: photos at addresses are not tested"
    )
    write_photos(tmp_path, ["one.png"])
    address = (tmp_path / "one.png").as_uri()
    process = PhotoProcess()
    np.testing.assert_array_equal(
        process.load(address, (8, 8)), load_image(tmp_path / "one.png", (8, 8))
    )
    process.close()
