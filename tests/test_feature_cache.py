import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
from conftest import all_slow_but, mean_colour_encoder, write_photos

from data_utils import FeatureCache, load_image, photo_digests
from data_utils.atomic_files import exclusive_lock
from data_utils.photo_digests import photo_of

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


def keras_encoder(seed=0, name="pooling", image_size=16):
    keras.utils.set_random_seed(seed)
    images = keras.Input((image_size, image_size, 3))
    grid = keras.layers.Conv2D(5, 4, strides=8, name="conv")(images)
    return keras.Model(images, keras.layers.BatchNormalization()(grid), name=name)


# === Basics ===


def test_a_view_of_each_photo(tmp_path, photos):
    ids, paths = photos
    mirrored = build(tmp_path / "mirrored", photos, view=1)
    expected = expected_features(paths).reshape(23, 2, 2, 3)[:, :, ::-1].reshape(23, 4, 3)
    np.testing.assert_allclose(mirrored.features(ids), expected, rtol=1e-3)
    assert FeatureCache.open(tmp_path / "mirrored").manifest["view"] == 1
    with pytest.raises(ValueError, match="made differently: view 1 there, 0 here"):
        build(tmp_path / "mirrored", photos)
    with pytest.raises(ValueError, match="view 1 there, 0 here"):
        FeatureCache.open(tmp_path / "mirrored", encoder=mean_colour_encoder)


def test_one_row_for_each_photo(tmp_path, photos):
    ids, paths = photos
    cache = build(tmp_path / "cache", (np.array(ids), paths), batch_size=np.int64(5), image_size=np.int64(16))
    assert cache.grid_shape == (2, 2) and cache.feature_dim == 3 and len(cache) == 23
    features = cache.features([ids[7], ids[0], ids[7]])
    assert features.shape == (3, 4, 3) and features.dtype == np.float16
    np.testing.assert_allclose(features, expected_features([paths[7], paths[0], paths[7]]), rtol=1e-3)
    assert np.load(tmp_path / "cache" / "features.npy").shape == (23, 4, 3)  # numpy alone can open it
    assert ids[3] in cache and "other" not in cache
    reopened = FeatureCache.open(tmp_path / "cache")
    np.testing.assert_array_equal(reopened.features(ids), cache.features(ids))
    assert reopened.manifest["encoder"] == "mean_colour_encoder" and reopened.manifest["image_size"] == [16, 16]


def test_a_keras_model_is_asked_for_its_size_and_never_trains(tmp_path, photos):
    encoder = keras_encoder()
    cache = build(tmp_path / "cache", photos, encoder, image_size=None, dtype="float32")
    images = np.stack([load_image(path, 16) for path in photos[1]]).astype(np.float32)
    expected = np.asarray(encoder(images, training=False)).reshape(23, 4, 5)
    np.testing.assert_allclose(cache.features(photos[0]), expected, rtol=1e-5, atol=1e-4)
    assert cache.manifest["weights_digest"] and cache.manifest["encoder"] == "pooling"
    FeatureCache.open(tmp_path / "cache", encoder=encoder)
    with pytest.raises(ValueError, match="weights_digest"):
        FeatureCache.open(tmp_path / "cache", encoder=keras_encoder(seed=1))


def test_a_finished_cache_is_not_built_again(tmp_path, photos):
    build(tmp_path / "cache", photos)
    cache = build(tmp_path / "cache", photos, never)
    some = [ids[:5] for ids in photos]
    assert build(tmp_path / "cache", some, never).features(some[0]).shape[0] == 5
    assert len(cache) == 23
    shutil.move(tmp_path / "photos", tmp_path / "elsewhere")
    build(tmp_path / "cache", (photos[0], [path.replace("photos", "elsewhere") for path in photos[1]]))
    shutil.rmtree(tmp_path / "elsewhere")
    assert len(build(tmp_path / "cache", photos)) == 23


# === Killed and resumed ===

KILLED_BUILD = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    from conftest import mean_colour_encoder as mean
    from data_utils import FeatureCache
    directory, photos, kill_at, where = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    names = sorted(os.listdir(photos))
    calls = [0]
    def die_at_the_count():
        calls[0] += 1
        if calls[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    def mean_colour_encoder(images):
        if where == "encode":
            die_at_the_count()
        return mean(images)
    if where != "encode":
        real = getattr(os, where)
        def dying(*arguments):
            die_at_the_count()
            return real(*arguments)
        setattr(os, where, dying)
    FeatureCache.build(directory, [n[:-4] for n in names], [f"{photos}/{n}" for n in names], mean_colour_encoder,
                       image_size=16, batch_size=4, show_progress=False)
    """
)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize(
    ("where", "kill_at"),
    all_slow_but(
        ("fsync", 9), [("encode", 1), ("encode", 4), ("fsync", 1), ("fsync", 9), ("fsync", 14), ("replace", 2)]
    ),
)
def test_killed_anywhere_it_ends_with_the_same_files(tmp_path, photos, where, kill_at):
    build(tmp_path / "whole", photos)
    command = [sys.executable, "-c", KILLED_BUILD, str(tmp_path / "cache"), str(tmp_path / "photos")]
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    killed = subprocess.run([*command, str(kill_at), where], env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    cache = build(tmp_path / "cache", photos)
    assert len(cache) == 23
    for name in os.listdir(tmp_path / "whole"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cache" / name).read_bytes(), name


def test_it_goes_on_at_the_blocks_that_are_missing(tmp_path, photos):
    sizes = []

    def mean_colour_encoder(images):
        sizes.append(len(images))
        if len(sizes) == 5:
            raise KeyboardInterrupt
        return images.reshape(len(images), 2, 8, 2, 8, 3).mean(axis=(2, 4))

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "cache", photos, mean_colour_encoder)
    opened = FeatureCache.open(tmp_path / "cache")
    assert len(opened) == 12  # one photo for the shape of the grid, three blocks of four
    with pytest.raises(ValueError, match=f"no features of the photo '{photos[0][12]}'"):
        opened.features([photos[0][12]])
    sizes[:] = [0] * 5
    assert len(build(tmp_path / "cache", photos, mean_colour_encoder)) == 23
    assert sizes[5:] == [4, 4, 3]


def test_a_finished_cache_is_used_without_the_lock(tmp_path, photos):
    """Several trainings may use it at a time, and it may lie where nothing can be written."""
    ids, paths = photos
    Path(paths[5]).write_bytes(b"torn")
    whole = build(tmp_path / "cache", photos, errors="skip")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    with exclusive_lock(tmp_path / "cache" / "lock", "is building"):
        assert build(tmp_path / "cache", photos, errors="skip").unreadable == whole.unreadable
        assert len(build(tmp_path / "cache", (ids[:5], paths[:5]))) == 22
        Path(paths[5]).write_bytes(Path(paths[6]).read_bytes())
        with pytest.raises(ValueError, match="Another process"):
            build(tmp_path / "cache", photos, errors="skip")  # the photo was repaired
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}, "nothing was written"


# === Rejected ===


def test_a_cache_with_other_settings_is_rejected_with_both_values(tmp_path, photos):
    same = {"encoder_name": "vgg16", "encoder_layer": "block5"}
    build(tmp_path / "cache", photos, **same)
    for change, message in (
        ({"encoder_name": "vgg19"}, "encoder 'vgg16' there, 'vgg19' here"),
        ({"encoder_layer": "block4"}, "layer 'block5' there, 'block4' here"),
        ({"image_size": 32}, r"image_size \[16, 16\] there, \[32, 32\] here"),
        ({"dtype": "float32"}, "dtype 'float16' there, 'float32' here"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path / "cache", photos, **same | change)


def test_photos_cannot_be_added(tmp_path, photos):
    build(tmp_path / "cache", photos)
    more = (photos[0] + ["new"], photos[1] + photos[1][:1])
    with pytest.raises(ValueError, match="started with 23 photos, and 1 of these 24 .*first: 'new'"):
        build(tmp_path / "cache", more)


def exchange(one, other):
    """Let two files change their contents, which have the same size, and keep their times."""
    contents, times = zip(*((Path(path).read_bytes(), os.stat(path).st_mtime_ns) for path in (one, other)))
    assert contents[0] != contents[1] and len(contents[0]) == len(contents[1])
    for path, content, time in zip((one, other), contents[::-1], times):
        Path(path).write_bytes(content)
        os.utime(path, ns=(time, time))


@pytest.fixture
def bitmaps(tmp_path):
    """Photos whose files all have the same size."""
    names = [f"photo{i:02d}.bmp" for i in range(9)]
    write_photos(tmp_path / "bitmaps", names)
    return [name[:-4] for name in names], [str(tmp_path / "bitmaps" / name) for name in names]


def test_a_photo_that_changed_is_encoded_again(tmp_path, bitmaps):
    """Photos of the same size in bytes, as all BMPs are."""
    ids, paths = bitmaps
    whole = build(tmp_path / "cache", bitmaps).features(ids)
    exchange(paths[3], paths[4])
    np.testing.assert_array_equal(build(tmp_path / "cache", bitmaps, never).features(ids), whole)  # only bytes can tell
    os.utime(paths[4], ns=(0, 1))
    cache = FeatureCache.open(tmp_path / "cache")
    cache.reject_changed(ids[:4], paths[:4])
    with pytest.raises(ValueError, match="The photo 'photo04' has changed since.*photo04.bmp has other bytes"):
        cache.reject_changed(ids, paths)
    again = build(tmp_path / "cache", bitmaps)
    np.testing.assert_array_equal(again.features(ids), whole[[0, 1, 2, 3, 3, 5, 6, 7, 8]])
    again = build(tmp_path / "cache", bitmaps, verify=True)
    np.testing.assert_array_equal(again.features(ids), whole[[0, 1, 2, 4, 3, 5, 6, 7, 8]])
    Path(paths[0]).write_bytes(b"torn")
    assert build(tmp_path / "cache", bitmaps, errors="skip").unreadable.keys() == {ids[0]}


def test_photos_that_were_copied_are_read_once_more_and_not_again(tmp_path, bitmaps, monkeypatch):
    ids, paths = bitmaps
    whole = build(tmp_path / "cache", bitmaps).features(ids)
    for number, path in enumerate(paths):
        os.utime(path, ns=(0, 10**18 + number))
    read = []
    monkeypatch.setattr(photo_digests, "photo_of", lambda path: read.append(path) or photo_of(path))
    with exclusive_lock(tmp_path / "cache" / "lock", "is building"):
        for _ in range(2):  # nothing can be written while others build
            np.testing.assert_array_equal(build(tmp_path / "cache", bitmaps).features(ids), whole)
    assert len(read) == 18
    for _ in range(2):
        np.testing.assert_array_equal(build(tmp_path / "cache", bitmaps).features(ids), whole)
    assert len(read) == 27


def test_a_full_disk_is_said_and_keeps_what_is_done(tmp_path, photos, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="disk is too small.*GB more"):
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 100))
        build(tmp_path / "cache", photos)
    calls, fsync = [], os.fsync

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 8:
            raise OSError(28, "No space left on device")
        return fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="could not be written.*No space left.*run again"):
            build(tmp_path / "cache", photos)
    assert 0 < len(FeatureCache.open(tmp_path / "cache")) < 23
    np.testing.assert_allclose(
        build(tmp_path / "cache", photos).features(photos[0]), expected_features(photos[1]), 1e-3
    )


def test_errors(tmp_path, photos):
    ids, paths = photos
    for arguments, options, message in (
        (([], []), {}, "at least one photo"),
        ((ids, paths[:-1]), {}, "22 image_paths"),
        ((["a", "a"], paths[:2]), {}, "'a' more than once"),
        (([*ids[:-1], 7], paths), {}, "ids of photos are strings that differ. Received: image_ids with 7"),
        (photos, {"view": -1}, "view=-1"),
        (photos, {"batch_size": 2.5}, "1 or more. Received: batch_size=2.5"),
        (photos, {"dtype": "int8"}, "dtype='int8'"),
        (photos, {"errors": "ignore"}, "errors='ignore'"),
        (photos, {"batch_size": 0}, "batch_size=0"),
        (photos, {"image_size": None}, "image_size=224"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tmp_path / "cache", arguments, **options)
    with pytest.raises(ValueError, match="The encoder must be a keras.Model or a function"):
        build(tmp_path / "cache", photos, "vgg16")
    with pytest.raises(ValueError, match=r"must give a grid.*Received: shape=\(1, 3\)"):
        build(tmp_path / "cache", photos, lambda images: images.mean(axis=(1, 2)))
    with pytest.raises(ValueError, match="photo00' do not fit into float16.*float32"):
        build(tmp_path / "cache", photos, lambda images: mean_colour_encoder(images) * 1000)
    with pytest.raises(ValueError, match="no feature cache here"):
        FeatureCache.open(tmp_path / "nothing")
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine" / "features.npy", np.ones(3))
    with pytest.raises(ValueError, match="no manifest.json"):
        build(tmp_path / "mine", photos)
    assert np.load(tmp_path / "mine" / "features.npy").sum() == 3  # somebody's file is left alone


# === Photos that cannot be read ===


def test_unreadable_photos_raise_or_are_left_out(tmp_path, photos):
    ids, paths = photos
    whole = build(tmp_path / "whole", photos).features(ids)
    original = {path: Path(path).read_bytes() for path in (paths[2], paths[9])}
    with open(paths[2], "wb") as file:
        file.write(b"torn")
    os.remove(paths[9])
    with pytest.raises(ValueError, match="photo02.png: .*errors='skip'"):
        build(tmp_path / "cache", photos)
    cache = build(tmp_path / "cache", photos, errors="skip")
    assert list(cache.unreadable) == [ids[2], ids[9]] and len(cache) == 21
    assert "no such file" in cache.unreadable[ids[9]]
    with pytest.raises(ValueError, match="it could not be read"):
        cache.features([ids[2]])
    kept = [image_id for image_id in ids if image_id in cache]
    np.testing.assert_array_equal(cache.features(kept), whole[[ids.index(image_id) for image_id in kept]])
    assert build(tmp_path / "cache", photos, errors="skip").unreadable == cache.unreadable
    with pytest.raises(ValueError, match="photo02.png"):
        build(tmp_path / "cache", photos)
    for path, content in original.items():  # repaired, they are encoded
        with open(path, "wb") as file:
            file.write(content)
    repaired = build(tmp_path / "cache", photos)  # knows the new sizes of their files
    assert repaired.unreadable == {}
    np.testing.assert_array_equal(repaired.features(ids), whole)


# === Damage ===


def test_a_damaged_row_is_never_served_and_can_be_repaired(tmp_path, photos):
    ids, _ = photos
    whole = build(tmp_path / "cache", photos).features(ids)
    path = tmp_path / "cache" / "features.npy"
    content = bytearray(path.read_bytes())
    content[-10] ^= 16
    path.write_bytes(content)
    cache = FeatureCache.open(tmp_path / "cache")
    np.testing.assert_array_equal(cache.features(ids[:5]), whole[:5])
    with pytest.raises(ValueError, match="'photo22' is damaged.*verify=True"):
        cache.features(ids)
    np.testing.assert_array_equal(build(tmp_path / "cache", photos, verify=True).features(ids), whole)


def test_bits_flipped_anywhere_never_give_wrong_features(tmp_path, photos):
    ids, _ = photos
    whole = build(tmp_path / "whole", photos).features(ids)
    rng = np.random.default_rng(0)
    for trial in range(36):
        shutil.copytree(tmp_path / "whole", tmp_path / "cache", dirs_exist_ok=True)
        names = ["manifest.json", "features.npy", "rows.npy"]
        name = names[trial % 3]
        path = tmp_path / "cache" / name
        content = bytearray(path.read_bytes())
        if trial % 4:
            content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        else:
            content = content[: rng.integers(len(content))]
        path.write_bytes(content)
        try:
            features = FeatureCache.open(tmp_path / "cache").features(ids)
        except ValueError:
            continue  # one clear error
        np.testing.assert_array_equal(features, whole)


def test_a_cache_of_another_grid_is_rejected(tmp_path, photos):
    """The same weights give several grids; see `keras_sat.model.finer_grid`."""
    images = keras.Input((16, 16, 3))
    coarse, fine = (keras.Model(images, keras.layers.AveragePooling2D(size)(images), name="same") for size in (8, 4))
    cache = FeatureCache.build(tmp_path / "cache", *photos, coarse, show_progress=False)
    with pytest.raises(ValueError, match=r"grid_shape \[2, 2\] there, \[4, 4\] here"):
        FeatureCache.open(tmp_path / "cache", encoder=fine)
    assert FeatureCache.open(tmp_path / "cache", encoder=coarse).grid_shape == cache.grid_shape
