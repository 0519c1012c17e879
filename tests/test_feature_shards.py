"""Features that several machines built, each its shard: as one cache they are what one machine would have built."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import write_photos
from test_feature_cache import build, never

import keras_sat
from data_utils import FeatureCache
from data_utils.features.shards import Shard
from keras_sat.__main__ import main

NAMES = [f"photo{number:02d}.png" for number in np.random.default_rng(0).permutation(22)]


def photos_in(folder):
    """Write 22 photos whose ids are not in order; return ids and paths."""
    write_photos(folder, NAMES)
    return [name[:-4] for name in NAMES], [str(folder / name) for name in NAMES]


@pytest.fixture
def photos(tmp_path):
    return photos_in(tmp_path / "photos")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    for number in range(1, 5):
        build(folder / "shards", photos_in(folder / "photos"), shard=f"{number}/4")
    return folder / "shards"


@pytest.fixture
def shards(built, tmp_path):
    """A folder with all four shards of the photos."""
    return shutil.copytree(built, tmp_path / "shards")


# === Which photos a shard has ===


def test_the_ids_alone_say_which_photos_a_shard_has():
    ids = ["d", "a", "c", "e", "b"]
    assert [Shard(number, 2).members(ids) for number in (1, 2)] == [["a", "c", "e"], ["b", "d"]]
    assert Shard(1, 2).description(ids) == Shard(1, 2).description(sorted(ids))
    assert Shard(1, 2).description(ids) != Shard(1, 2).description([*ids[1:], "f"])
    assert Shard.parse("2/4") == (2, 4) and Shard(2, 4).folder_name == "shard-0002-of-0004"


@pytest.mark.parametrize("text", ["0/4", "5/4", "a/b", "4", "1/4/4", "1.0/4", "1/201", None, (1, 4)])
def test_what_is_not_a_shard(text):
    with pytest.raises(ValueError, match=r"A shard is i/n, with i from 1 to n.*At most 200.*Received: shard="):
        Shard.parse(text)


def test_more_shards_than_photos(tmp_path, photos):
    with pytest.raises(ValueError, match="Expected: at most 22 shards. Received: shard='1/23'"):
        build(tmp_path / "shards", photos, shard="1/23")
    assert not (tmp_path / "shards").exists()


# === As one cache ===


def test_the_shards_together_are_the_cache_of_one_machine(tmp_path, photos, shards):
    ids, _ = photos
    whole, joined = build(tmp_path / "whole", photos), FeatureCache.open(shards)
    assert len(joined) == 22 and set(joined.image_ids) == set(ids) and ids[3] in joined and "other" not in joined
    assert (joined.grid_shape, joined.feature_dim) == (whole.grid_shape, whole.feature_dim)
    assert joined.manifest == whole.manifest
    np.testing.assert_array_equal(joined.features(ids), whole.features(ids))
    np.testing.assert_array_equal(joined.features_of_rows(joined.rows_of(ids[::3])), whole.features(ids[::3]))
    assert sorted(path.name for path in shards.iterdir()) == [f"shard-000{number}-of-0004" for number in (1, 2, 3, 4)]
    second = FeatureCache(shards / "shard-0002-of-0004")
    assert second.image_ids == sorted(ids)[1::4] and len(second) == 6
    np.testing.assert_array_equal(second.features(second.image_ids), whole.features(second.image_ids))


def test_build_completes_no_shards_but_looks_at_their_photos(photos, shards):
    build(shards, photos, never)  # writes down the times of the photos, which are copies of those that were encoded
    before = {path: path.stat().st_mtime_ns for path in shards.rglob("*")}
    assert len(build(shards, photos, never)) == 22
    assert len(build(shards, [values[:5] for values in photos], never)) == 22
    more = (photos[0] + ["new"], photos[1] + photos[1][:1])
    with pytest.raises(ValueError, match="1 of 23 photos are in none of the shards.*first: 'new'.*another folder"):
        build(shards, more, never)
    with pytest.raises(ValueError, match="made differently: dtype 'float16' there, 'float32' here"):
        build(shards, photos, never, dtype="float32")
    assert before == {path: path.stat().st_mtime_ns for path in shards.rglob("*")}, "nothing was written"
    shutil.copy(photos[1][4], photos[1][3])
    ids = photos[0][3:5]
    features = build(shards, photos).features(ids)
    np.testing.assert_array_equal(features[0], features[1])


def test_photos_that_cannot_be_read(tmp_path, photos):
    ids, paths = photos
    lost = sorted(ids)[5]  # the second photo of shard 2/4
    Path(paths[ids.index(lost)]).write_bytes(b"torn")
    for number in range(1, 5):
        shard = build(tmp_path / "shards", photos, shard=f"{number}/4", errors="skip")
        assert list(shard.unreadable) == ([lost] if number == 2 else [])
    cache = build(tmp_path / "shards", photos, never, errors="skip")
    assert len(cache) == 21 and list(cache.unreadable) == [lost] and lost not in cache
    with pytest.raises(ValueError, match=f"{lost}.png: .*errors='skip'"):
        build(tmp_path / "shards", photos, never)
    write_photos(tmp_path / "photos", NAMES)
    assert len(build(tmp_path / "shards", photos)) == 22


def test_a_damaged_row_names_its_shard(photos, shards):
    path = shards / "shard-0003-of-0004" / "features.npy"
    content = bytearray(path.read_bytes())
    content[-10] ^= 16
    path.write_bytes(content)
    victim = sorted(photos[0])[2::4][-1]
    with pytest.raises(ValueError, match=f"shard-0003-of-0004.features.npy: .*'{victim}'.*--verify"):
        FeatureCache(shards).features(photos[0])
    build(shards, photos, verify=True)
    assert FeatureCache(shards).features(photos[0]).shape == (22, 4, 3)


# === Shards that do not make a whole ===


def rejected(shards, *texts):
    with pytest.raises(ValueError, match="These shards do not make one cache") as caught:
        FeatureCache.open(shards)
    for text in texts:
        assert text in str(caught.value), str(caught.value)


def test_missing_shards_are_named(photos, shards):
    shutil.rmtree(shards / "shard-0003-of-0004")
    rejected(shards, "missing: 3 of 4", "--shard i/4")
    shutil.rmtree(shards / "shard-0001-of-0004")
    shutil.rmtree(shards / "shard-0002-of-0004")
    rejected(shards, "missing: 1,2,3 of 4")
    with pytest.raises(ValueError, match="missing: 1,2,3 of 4"):
        build(shards, photos, never)
    shutil.rmtree(shards / "shard-0004-of-0004")
    (shards / "shard-0004-of-0004").mkdir()
    with pytest.raises(ValueError, match="No shard here has been started"):
        FeatureCache(shards)


def test_a_shard_under_the_name_of_another_is_named(shards):
    shutil.rmtree(shards / "shard-0003-of-0004")
    shutil.copytree(shards / "shard-0002-of-0004", shards / "shard-0003-of-0004")
    rejected(shards, "shard-0003-of-0004 does not belong to shard-0001-of-0004: shard 2 there, 3 here")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"encoder_name": "other"}, ("encoder", "'other'", "'mean_colour_encoder'")),
        ({"shard": "2/5"}, ("shards", "5", "4")),
        ({"ids": "others"}, ("photos_digest", "'{}'", "'{}'")),
    ],
    ids=str,
)
def test_foreign_shards_are_named_and_not_started(tmp_path, photos, shards, change, difference):
    options = {"shard": "2/4"} | change
    others = ([f"{name}-else" for name in photos[0]], photos[1]) if options.pop("ids", None) else photos
    name, there, here = difference
    digests = [Shard(1, 4).description(ids)["photos_digest"] for ids in (others[0], photos[0])]
    there, here = there.format(digests[0]), here.format(digests[1])
    with pytest.raises(ValueError, match="made differently: .*another folder") as caught:
        build(shards, others, **options)
    assert f"{name} {here} there, {there} here" in str(caught.value)
    assert sorted(path.name for path in shards.iterdir()) == [f"shard-000{number}-of-0004" for number in (1, 2, 3, 4)]
    foreign = build(tmp_path / "other", others, **options).directory
    shutil.rmtree(shards / "shard-0002-of-0004")
    shutil.copytree(foreign, shards / foreign.name)
    rejected(shards, f"{foreign.name} does not belong to shard-0001-of-0004: {name} {there} there, {here} here")


def test_shards_are_not_built_into_a_cache_of_its_own(tmp_path, photos):
    build(tmp_path / "cache", photos)
    with pytest.raises(ValueError, match="a cache that is not made of shards"):
        build(tmp_path / "cache", photos, shard="1/4")


def test_other_folders_next_to_the_shards_do_not_matter(photos, shards):
    (shards / "shard-notes").mkdir()
    build(shards / "view1-0", photos, view=1)
    assert len(FeatureCache(shards)) == 22


def test_an_interrupted_shard_is_not_part_of_a_whole(photos, shards):
    def mean_colour_encoder(images):
        if len(images) > 1:  # not the one that tells the shape of the grid
            raise KeyboardInterrupt
        return images.reshape(1, 2, 8, 2, 8, 3).mean(axis=(2, 4))

    shutil.rmtree(shards / "shard-0002-of-0004")
    with pytest.raises(KeyboardInterrupt):
        build(shards, photos, mean_colour_encoder, shard="2/4")
    rejected(shards, "shard-0002-of-0004 lacks 6 of its 6 photos")
    build(shards, photos, shard="2/4")
    assert len(FeatureCache(shards)) == 22


@pytest.mark.slow
def test_shards_from_the_command_line(tmp_path, capsys):
    weights = tmp_path / "tiny.weights.h5"
    keras_sat.ENCODERS["tiny"](image_size=16).save_weights(weights)
    names = [f"{number}.png" for number in range(10)]
    write_photos(tmp_path / "mine", names)
    rows = [f"{name},a red dog,{'train' if name < '8' else 'test'}" for name in names]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    features = ["features", "--data", "folder", "--data-dir", str(tmp_path / "mine"), "--encoder", "tiny"]
    features += ["--image-size", "16", "--encoder-weights", str(weights), "--cache-dir", str(tmp_path / "shards")]
    assert main([*features, "--shard", "4/3"]) == 2
    assert "A shard is i/n" in capsys.readouterr().err
    for shard in ("1/3", "3/3"):
        assert main([*features, "--shard", shard]) == 0
    assert "shard-0003-of-0003: 3 photos, 2 x 2 x 66 each" in capsys.readouterr().out
    assert main(features) == 2
    assert "missing: 2 of 3" in capsys.readouterr().err
    assert main([*features, "--shard", "2/3"]) == 0 and main(features) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'shards'}: 10 photos, 2 x 2 x 66 each\n")
