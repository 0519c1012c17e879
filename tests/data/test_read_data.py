from collections import Counter

import numpy as np
import pytest
from helpers import write_photos

from data_utils import CaptionedImage, draw_scenes, photos_of_split, read_data
from data_utils.datasets import read as sources


def photo(image_id, split=None):
    return CaptionedImage(image_id, f"{image_id}.jpg", ["a dog"], split)


def test_a_data_set_by_its_name(tmp_path):
    write_photos(tmp_path, ["a.jpg", "b.jpg"])
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,A dog\nb.jpg,A cat\n")
    assert [image.image_id for image in read_data("folder", tmp_path)] == ["a", "b"]
    assert {image.split for image in read_data("folder", tmp_path, split_seed=0)} <= {
        "train",
        "dev",
        "test",
    }
    with pytest.raises(ValueError, match="Pass the folder of the data set"):
        read_data("folder")
    with pytest.raises(ValueError, match="Expected one of: flickr8k"):
        read_data("flickr9k", tmp_path)


def test_scenes_stay_in_memory_without_a_folder():
    images = read_data("scenes", split_seed=0)
    assert Counter(image.split for image in images) == {"train": 1600, "dev": 200, "test": 200}
    np.testing.assert_array_equal(images[7].image_path, draw_scenes(8)[7].image)


@pytest.mark.parametrize("state", ["missing", "empty", "unfinished", "of your own"])
def test_a_data_set_is_downloaded_into_a_folder_that_is_new(tmp_path, monkeypatch, state):
    asked_for = []
    monkeypatch.setattr(sources, "download", lambda name, *args, **kwargs: asked_for.append(name))
    folder = tmp_path / "flickr8k"
    if state != "missing":
        folder.mkdir()
    if state == "unfinished":
        (folder / "download.lock").touch()
    if state == "of your own":
        (folder / "Images").mkdir()
    # The download was left out.
    with pytest.raises(ValueError, match="does not exist|No caption file found"):
        read_data("flickr8k", folder)
    assert asked_for == ([] if state == "of your own" else ["flickr8k"])


def test_a_list_is_checked():
    assert [image.split for image in read_data([photo("a", "train")])] == ["train"]
    splits = [image.split for image in read_data([photo(str(i)) for i in range(20)], split_seed=1)]
    assert sorted(set(splits)) == ["dev", "test", "train"] and splits.count("train") == 16
    for bad, message in (
        ([], "Received: 0 photos"),
        ([photo("a"), photo("a")], "2 photos, 1 ids"),
        (["a.jpg"], "list of CaptionedImage.*Received: 'a.jpg'"),
        (3, "Received: 3"),
        ([CaptionedImage("a", "a.jpg", "a dog")], "list of captions"),
        ([CaptionedImage("a", "a.jpg", ["a dog", float("nan")])], "list of captions.*nan"),
        ([CaptionedImage(391895, "a.jpg", ["a dog"])], "a string id.*Received: .*image_id=391895"),
        ([photo("a", "val")], "train, dev, test or None. Received: .*split='val'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_data(bad)


def test_a_missing_split_is_an_error_that_lists_the_others():
    images = [photo("a", "train"), photo("b", "train"), photo("c", "test")]
    assert [image.image_id for image in photos_of_split(images, "train")] == ["a", "b"]
    with pytest.raises(
        ValueError,
        match="2 in 'train', 1 in 'test'.*split_seed=0.*split='dev'",
    ):
        photos_of_split(images, "dev")
    with pytest.raises(ValueError, match="has no photos with captions.*split='dev'"):
        photos_of_split([], "dev")
