"""Features that several machines built, each its shard: as one cache they equal those of one machine."""

import shutil

import numpy as np
import pytest
from conftest import write_photos
from test_feature_cache import build, never

import keras_sat
from data_utils import FeatureCache
from data_utils.features.shards import describe_shard
from keras_sat.__main__ import main

NAMES = [f"photo{number:02d}.png" for number in np.random.default_rng(0).permutation(22)]
FOLDERS = [f"shard-000{number}-of-0004" for number in (1, 2, 3, 4)]


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


def test_the_ids_alone_say_which_photos_a_shard_has():
    ids = ["d", "a", "c", "e", "b"]
    assert [describe_shard(shard, ids)[1] for shard in ("1/2", "2/2")] == [["a", "c", "e"], ["b", "d"]]
    assert describe_shard("1/2", ids) == describe_shard("1/2", sorted(ids))
    assert describe_shard("1/2", ids)[2] != describe_shard("1/2", [*ids[1:], "f"])[2]
    for text in ("0/4", "5/4", "a/b", "4", "1/4/4", "1.0/4", "1/201", 3):
        with pytest.raises(ValueError, match=r"shard i of n as i/n.*up to 200.*Received: shard="):
            describe_shard(text, ids)
    with pytest.raises(ValueError, match="at most 5 shards.*shard='1/6'"):
        describe_shard("1/6", ids)


def test_the_shards_together_are_the_cache_of_one_machine(tmp_path, photos, shards):
    ids, _ = photos
    (shards / "shard-notes").mkdir()  # does not matter
    whole, joined = build(tmp_path / "whole", photos), FeatureCache.open(shards)
    assert len(joined) == 22 and set(joined.image_ids) == set(ids) and ids[3] in joined and "other" not in joined
    assert joined.manifest == whole.manifest
    np.testing.assert_array_equal(joined.features(ids), whole.features(ids))
    np.testing.assert_array_equal(joined.features_of_rows(joined.rows_of(ids[::3])), whole.features(ids[::3]))
    second = FeatureCache(shards / FOLDERS[1])
    assert second.image_ids == sorted(ids)[1::4] and len(second) == 6


def test_a_shard_that_does_not_belong_into_the_folder_is_rejected(tmp_path, photos, shards):
    build(tmp_path / "whole", photos)
    for folder in (tmp_path / "whole", shards):
        with pytest.raises(ValueError, match="other settings: shards (None|4) instead of 3"):
            build(folder, photos, never, shard="1/3")


def test_build_looks_at_the_photos_of_all_shards(photos, shards):
    build(shards, photos, never)  # stores the times of the photos, which are copies of those that were encoded
    before = {path: path.stat().st_mtime_ns for path in shards.rglob("*")}
    assert len(build(shards, [values[:5] for values in photos], never)) == 22
    with pytest.raises(ValueError, match="does not include 1 of these.*first: 'new'.*another folder"):
        build(shards, (photos[0] + ["new"], photos[1] + photos[1][:1]), never)
    assert before == {path: path.stat().st_mtime_ns for path in shards.rglob("*")}, "nothing was written"
    shutil.copy(photos[1][4], photos[1][3])
    one, other = build(shards, photos).features(photos[0][3:5])
    np.testing.assert_array_equal(one, other)


def test_missing_and_incomplete_shards_are_named(photos, shards):
    def mean_colour_encoder(images):
        if len(images) > 1:  # not the one that tells the shape of the grid
            raise KeyboardInterrupt
        return images.reshape(1, 2, 8, 2, 8, 3).mean(axis=(2, 4))

    shutil.rmtree(shards / FOLDERS[2])
    shutil.rmtree(shards / FOLDERS[1])
    with pytest.raises(KeyboardInterrupt):
        build(shards, photos, mean_colour_encoder, shard="2/4")
    for use in (FeatureCache.open, lambda folder: build(folder, photos, never)):
        with pytest.raises(ValueError, match="Missing or incomplete shards: 2,3 of 4.*--shard"):
            use(shards)
    for shard in ("2/4", "3/4"):
        build(shards, photos, shard=shard)
    assert len(FeatureCache(shards)) == 22


@pytest.mark.parametrize(
    ("shard", "options", "rename", "message"),
    [
        ("2/4", {}, 2, "shard 2 instead of 3"),
        ("2/4", {"encoder_name": "other"}, 1, "encoder 'other' instead of 'mean_colour_encoder'"),
        ("2/5", {}, None, "shards 5 instead of 4"),
        ("2/4", {"others": True}, 1, "photos_digest .* instead of .*"),
    ],
)
def test_shards_that_do_not_belong_to_the_others_are_named(tmp_path, photos, shards, shard, options, rename, message):
    ids, paths = photos
    others = [f"{name}-else" for name in ids] if options.pop("others", False) else ids
    foreign = build(tmp_path / "other", (others, paths), shard=shard, **options).directory
    target = shards / (foreign.name if rename is None else FOLDERS[rename])
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(foreign, target)
    with pytest.raises(ValueError, match=f"built with other settings: {message}.*{target.name}"):
        FeatureCache.open(shards)


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
    assert main([*features, "--shard", "3/2"]) == 2
    assert "shard i of n as i/n" in capsys.readouterr().err
    assert main([*features, "--shard", "1/2"]) == 0
    assert "shard-0001-of-0002: 5 photos, 4 x 4 x 66 each" in capsys.readouterr().out
    assert main([*features, "--shard", "2/2"]) == main(features) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'shards'}: 10 photos, 4 x 4 x 66 each\n")
