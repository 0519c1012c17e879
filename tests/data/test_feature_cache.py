import itertools
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import mean_colour_encoder, write_photos

from data_utils import FeatureCache, load_image
from data_utils.base import exclusive_lock
from data_utils.photos import digests as photo_digests
from data_utils.photos.digests import photo_of

NAMES = [f"photo{i:02d}.png" for i in range(23)]


@pytest.fixture
def photos(tmp_path):
    write_photos(tmp_path / "photos", NAMES)
    return [name[:-4] for name in NAMES], [str(tmp_path / "photos" / name) for name in NAMES]


def build(directory, photos, encoder=mean_colour_encoder, **options):
    options = {"image_size": 16, "batch_size": 4, "show_progress": False} | options
    return FeatureCache.build(directory, *photos, encoder, **options)


def never(images):
    raise AssertionError("no photo needs encoding")


never.__name__ = "mean_colour_encoder"


def expected_features(paths):
    images = np.stack([load_image(path, 16) for path in paths]).astype(np.float32)
    return mean_colour_encoder(images).reshape(len(paths), 4, 3)


def keras_encoder(seed=0, strides=8):
    keras.utils.set_random_seed(seed)
    images = keras.Input((16, 16, 3))
    grid = keras.layers.Conv2D(5, 4, strides=strides)(images)
    return keras.Model(images, keras.layers.BatchNormalization()(grid), name="pooling")


def test_a_view_of_each_photo(tmp_path, photos):
    ids, paths = photos
    mirrored = build(tmp_path / "mirrored", photos, view=1)
    expected = expected_features(paths).reshape(23, 2, 2, 3)[:, :, ::-1].reshape(23, 4, 3)
    np.testing.assert_allclose(mirrored.features(ids), expected, rtol=1e-3)
    with pytest.raises(ValueError, match="view 1 instead of 0"):
        FeatureCache.open(tmp_path / "mirrored", encoder=mean_colour_encoder)


def test_one_row_for_each_photo(tmp_path, photos):
    ids, paths = photos
    cache = build(
        tmp_path / "cache", (np.array(ids), paths), batch_size=np.int64(5), image_size=np.int64(16)
    )
    assert cache.grid_shape == (2, 2) and cache.feature_dim == 3 and len(cache) == 23
    features = cache.features([ids[7], ids[0], ids[7]])
    assert features.shape == (3, 4, 3) and features.dtype == np.float16
    np.testing.assert_allclose(
        features, expected_features([paths[7], paths[0], paths[7]]), rtol=1e-3
    )
    # Numpy alone can open it.
    assert np.load(tmp_path / "cache" / "features.npy").shape == (23, 4, 3)
    assert ids[3] in cache and "other" not in cache
    reopened = FeatureCache.open(tmp_path / "cache")
    np.testing.assert_array_equal(reopened.features(ids), cache.features(ids))
    assert reopened.manifest["encoder"] == "mean_colour_encoder" and reopened.manifest[
        "image_size"
    ] == [16, 16]
    with pytest.raises(ValueError, match="started with 23 photos.*1 of these 24 .*first: 'new'"):
        build(tmp_path / "cache", (ids + ["new"], paths + paths[:1]))


def test_a_keras_model_is_asked_for_its_size_and_never_trains(tmp_path, photos):
    encoder = keras_encoder()
    cache = build(tmp_path / "cache", photos, encoder, image_size=None, dtype="float32")
    images = np.stack([load_image(path, 16) for path in photos[1]]).astype(np.float32)
    expected = np.asarray(encoder(images, training=False)).reshape(23, 4, 5)
    np.testing.assert_allclose(cache.features(photos[0]), expected, rtol=1e-3, atol=1e-4)
    assert cache.manifest["weights_digest"] and cache.manifest["encoder"] == "pooling"
    FeatureCache.open(tmp_path / "cache", encoder=encoder)
    for other, difference in (
        ({"seed": 1}, "weights_digest"),
        ({"strides": 4}, r"grid_shape \[2, 2\] instead of \[4"),
    ):
        with pytest.raises(ValueError, match=difference):
            FeatureCache.open(tmp_path / "cache", encoder=keras_encoder(**other))


@pytest.mark.parametrize(
    ("function", "call"), [("fsync", 1), ("fsync", 9), ("fsync", 14), ("replace", 2)]
)
def test_stopped_anywhere_it_ends_with_the_same_files(
    tmp_path, photos, monkeypatch, function, call
):
    """test_torture kills the process instead."""
    real, calls = getattr(os, function), itertools.count(1)
    error = OSError(28, "No space left") if call == 9 else KeyboardInterrupt("now")

    def stop(*arguments):
        if next(calls) == call:
            raise error
        return real(*arguments)

    with (
        monkeypatch.context() as patch,
        pytest.raises(type(error), match="now|could not be .*No space.*run again"),
    ):
        patch.setattr(os, function, stop)
        build(tmp_path / "cache", photos)
    build(tmp_path / "whole", photos)
    assert len(build(tmp_path / "cache", photos)) == 23
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "cache" / path.name).read_bytes(), path.name


def test_it_resumes_at_the_blocks_that_are_missing(tmp_path, photos):
    sizes = []

    def interrupted(images):
        sizes.append(len(images))
        if len(sizes) == 5:
            raise KeyboardInterrupt
        return mean_colour_encoder(images)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "cache", photos, interrupted)
    opened = FeatureCache.open(tmp_path / "cache")
    assert len(opened) == 12  # one photo for the shape of the grid, three blocks of four
    with pytest.raises(ValueError, match=f"no features for the photo '{photos[0][12]}'"):
        opened.features([photos[0][12]])
    assert len(build(tmp_path / "cache", photos, interrupted)) == 23
    assert sizes == [1, 4, 4, 4, 4, 4, 4, 3]


def test_a_finished_cache_is_used_without_the_lock(tmp_path, photos):
    """Several trainings may use it at a time, and it may be read-only."""
    ids, paths = photos
    Path(paths[5]).write_bytes(b"torn")
    with pytest.warns(UserWarning, match=r"unreadable photos left out: 1 of 23"):
        whole = build(tmp_path / "cache", photos, errors="skip")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    with exclusive_lock(tmp_path / "cache" / "lock", "is building"):
        with pytest.warns(UserWarning, match="1 of 23"):
            again = build(tmp_path / "cache", photos, never, errors="skip")
        assert again.unreadable == whole.unreadable
        assert len(build(tmp_path / "cache", (ids[:5], paths[:5]), never)) == 22
        Path(paths[5]).write_bytes(Path(paths[6]).read_bytes())
        with pytest.raises(ValueError, match="Another process"):
            build(tmp_path / "cache", photos)  # the photo was repaired
        shutil.rmtree(tmp_path / "photos")
        with pytest.warns(UserWarning, match="1 of 23"):
            assert len(build(tmp_path / "cache", photos, never, errors="skip")) == 22
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}, (
        "nothing was written"
    )


def test_a_cache_with_other_settings_is_rejected_with_both_values(tmp_path, photos):
    same = {"encoder_name": "vgg16", "encoder_layer": "block5"}
    build(tmp_path / "cache", photos, **same)
    for change, message in (
        ({"view": 1}, "other settings: view 0 instead of 1"),
        ({"encoder_name": "vgg19"}, "encoder 'vgg16' instead of 'vgg19'"),
        ({"encoder_layer": "block4"}, "layer 'block5' instead of 'block4'"),
        ({"image_size": 32}, r"image_size \[16, 16\] instead of \[32, 32\]"),
        ({"dtype": "float32"}, "dtype 'float16' instead of 'float32'"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path / "cache", photos, **same | change)


@pytest.fixture
def bitmaps(tmp_path):
    """Photos whose files all have the same size."""
    names = [f"photo{i:02d}.bmp" for i in range(9)]
    write_photos(tmp_path / "bitmaps", names)
    return [name[:-4] for name in names], [str(tmp_path / "bitmaps" / name) for name in names]


def test_a_photo_that_changed_is_encoded_again(tmp_path, bitmaps):
    ids, paths = bitmaps
    whole = build(tmp_path / "cache", bitmaps).features(ids)
    contents, times = zip(
        *((Path(path).read_bytes(), os.stat(path).st_mtime_ns) for path in paths[3:5])
    )
    for path, content, time in zip(paths[3:5], contents[::-1], times):
        Path(path).write_bytes(content)
        os.utime(path, ns=(time, time))
    # Only bytes can tell.
    np.testing.assert_array_equal(build(tmp_path / "cache", bitmaps, never).features(ids), whole)
    os.utime(paths[4], ns=(0, 1))
    cache = FeatureCache.open(tmp_path / "cache")
    cache.reject_changed(ids[:4], paths[:4])
    with pytest.raises(
        ValueError, match="The photo 'photo04' \\(.*photo04.bmp\\) has changed since"
    ):
        cache.reject_changed(ids, paths)
    again = build(tmp_path / "cache", bitmaps)
    np.testing.assert_array_equal(again.features(ids), whole[[0, 1, 2, 3, 3, 5, 6, 7, 8]])
    again = build(tmp_path / "cache", bitmaps, verify=True)
    np.testing.assert_array_equal(again.features(ids), whole[[0, 1, 2, 4, 3, 5, 6, 7, 8]])
    Path(paths[0]).write_bytes(b"torn")
    with pytest.warns(UserWarning, match="1 of 9"):
        assert build(tmp_path / "cache", bitmaps, errors="skip").unreadable.keys() == {ids[0]}


def test_photos_that_were_copied_are_read_once_more_and_not_again(tmp_path, bitmaps, monkeypatch):
    ids, paths = bitmaps
    whole = build(tmp_path / "cache", bitmaps).features(ids)
    for number, path in enumerate(paths):
        os.utime(path, ns=(0, 10**18 + number))
    read = []
    monkeypatch.setattr(photo_digests, "photo_of", lambda path: read.append(path) or photo_of(path))
    with exclusive_lock(tmp_path / "cache" / "lock", "is building"):  # nothing can be written
        build(tmp_path / "cache", bitmaps, never)
    for _ in range(2):
        np.testing.assert_array_equal(
            build(tmp_path / "cache", bitmaps, never).features(ids), whole
        )
    assert len(read) == 2 * 9


def test_errors(tmp_path, photos, monkeypatch):
    ids, paths = photos
    for arguments, options, message in (
        (([], []), {}, "0 image_ids"),
        ((ids, paths[:-1]), {}, "22 image_paths"),
        ((["a", "a"], paths[:2]), {}, "unique strings.*1 different"),
        (([*range(23)], paths), {}, "unique strings.*23 different, 0 strings"),
        (photos, {"batch_size": -1}, "batch_size=-1"),
        (photos, {"dtype": "int8"}, "dtype='int8'"),
        (photos, {"errors": "ignore"}, "errors='ignore'"),
        (photos, {"image_size": None}, "image_size=224"),
        (photos, {"encoder": "vgg16"}, "Expected an encoder: a keras.Model or a function"),
        (
            photos,
            {"encoder": lambda images: images.mean(axis=(1, 2))},
            r"must return grids.*shape=\(1, 3\)",
        ),
        (
            photos,
            {"encoder": lambda images: mean_colour_encoder(images) * 1000},
            "photo00' exceed the range.*float32",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path / "cache", arguments, **options)
    with pytest.raises(ValueError, match="No feature cache found"):
        FeatureCache.open(tmp_path / "nothing")
    with (
        monkeypatch.context() as patch,
        pytest.raises(ValueError, match="not enough disk space.*GB more"),
    ):
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 100))
        build(tmp_path / "full", photos)
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine" / "features.npy", np.ones(3))
    with pytest.raises(ValueError, match="but no manifest.json"):
        build(tmp_path / "mine", photos)
    assert np.load(tmp_path / "mine" / "features.npy").sum() == 3  # somebody's file is left alone


def test_unreadable_photos_cost_none_of_the_others(tmp_path, photos):
    ids, paths = photos
    whole = build(tmp_path / "whole", photos).features(ids)
    Path(paths[2]).write_bytes(b"torn")
    os.remove(paths[9])
    two = r"2 of 23 \(first: .*photo02.png: this is not a picture"
    with pytest.raises(ValueError, match=f"{two}.*errors='skip'.*skip_unreadable=True"):
        build(tmp_path / "cache", photos)
    assert len(FeatureCache.open(tmp_path / "cache")) == 21, "the others were encoded before"
    with pytest.warns(UserWarning, match=two):
        cache = build(tmp_path / "cache", photos, never, errors="skip")
    assert list(cache.unreadable) == [ids[2], ids[9]] and len(cache) == 21
    assert cache.unreadable[ids[9]] == f"{paths[9]}: No such file or directory"
    with pytest.raises(ValueError, match="no features for the photo 'photo02'. .*not a picture"):
        cache.features([ids[2]])
    np.testing.assert_array_equal(cache.features(ids[3:9]), whole[3:9])
    with pytest.warns(UserWarning, match=two):
        assert build(tmp_path / "cache", photos, errors="skip").unreadable == cache.unreadable
    with pytest.raises(ValueError, match="photo02.png"):
        build(tmp_path / "cache", photos)
    write_photos(tmp_path / "photos", NAMES)
    repaired = build(tmp_path / "cache", photos)
    assert repaired.unreadable == {}
    np.testing.assert_array_equal(repaired.features(ids), whole)


def test_a_damaged_row_is_never_served_and_can_be_repaired(tmp_path, photos):
    ids, _ = photos
    whole = build(tmp_path / "cache", photos).features(ids)
    path = tmp_path / "cache" / "features.npy"
    content = bytearray(path.read_bytes())
    content[-10] ^= 16
    path.write_bytes(content)
    cache = FeatureCache.open(tmp_path / "cache")
    np.testing.assert_array_equal(cache.features(ids[:5]), whole[:5])
    with pytest.raises(ValueError, match="features of 'photo22' are damaged.*verify=True"):
        cache.features(ids)
    np.testing.assert_array_equal(
        build(tmp_path / "cache", photos, verify=True).features(ids), whole
    )


def test_bits_flipped_anywhere_never_give_wrong_features(tmp_path, photos):
    ids, _ = photos
    whole = build(tmp_path / "whole", photos).features(ids)
    rng = np.random.default_rng(0)
    for trial in range(36):
        shutil.copytree(tmp_path / "whole", tmp_path / "cache", dirs_exist_ok=True)
        path = tmp_path / "cache" / ("manifest.json", "features.npy", "rows.npy")[trial % 3]
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(content[: None if trial % 4 else rng.integers(len(content))])
        try:
            features = FeatureCache.open(tmp_path / "cache").features(ids)
        except ValueError:
            continue  # one clear error
        np.testing.assert_array_equal(features, whole)
