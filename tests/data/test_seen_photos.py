import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_sat
from data_utils import DATASETS, CaptionedImage
from data_utils.base import read_sealed_json
from data_utils.photos.digests import photo_of
from data_utils.seen_photos import (
    as_settings,
    digests_of,
    from_settings,
    seen_in_training,
    union,
)
from keras_sat import Captioner, Ensemble
from keras_sat.files import pretrained_directory
from keras_sat.training.run_record import record_photos, reject_changed_photos

IDS = [f"photo-{number}" for number in range(200)]
SEARCH = {"num_beams": 1, "max_length": 8, "show_progress": False}
SMALL = {
    "encoder": "tiny",
    "embedding_dim": 4,
    "hidden_dim": 4,
    "attention_dim": 4,
    "image_size": 16,
    "epochs": 1,
    "num_beams": 1,
    "max_length": 4,
    "show_progress": False,
}

pytestmark = pytest.mark.usefixtures("quick_meteor")


@pytest.fixture(scope="module")
def scenes():
    """The data of `whole_training`."""
    return DATASETS["scenes"](None, num_scenes=40, seed=3)


def test_a_record_tells_the_photos_in_it_from_others_in_any_order():
    record = digests_of([*IDS[:100], *IDS[:5]])
    assert len(record) == 100 and seen_in_training(IDS[::-1], record) == IDS[:100][::-1]
    assert seen_in_training(IDS, None) == [] and seen_in_training([], record) == []
    np.testing.assert_array_equal(digests_of(IDS[:100][::-1]), record)
    np.testing.assert_array_equal(union([record, None, digests_of(IDS[50:])]), digests_of(IDS))
    assert union([None, None]) is None


def test_as_text_it_is_small_and_comes_back():
    record = digests_of(IDS)
    texts = as_settings(record)
    assert len(texts["training_photos"]) <= 7 * len(IDS)
    np.testing.assert_array_equal(from_settings(texts), record)
    np.testing.assert_array_equal(from_settings({"training_photos": ""}), digests_of([]))
    assert from_settings({}) is None


def test_the_digests_of_pixels_that_earlier_versions_wrote_are_ignored():
    texts = as_settings(digests_of(IDS))
    np.testing.assert_array_equal(
        from_settings({**texts, "training_pixels": "AAAAAAAAAAE="}), digests_of(IDS)
    )


@pytest.mark.parametrize("text", [None, "???", "AAAA", "é"])
def test_a_malformed_record_is_rejected(text):
    with pytest.raises(ValueError, match="record of the training photos is damaged"):
        from_settings({"training_photos": text})


def test_a_photo_of_flickr_is_known_by_its_number():
    record = digests_of(["1000268201_693b08cb0e", "beach", "1_0123456789"])
    same = ["1000268201", "1000268201.jpg", "1000268201_693b08cb0e.JPEG", "Beach.PNG"]
    assert seen_in_training([*same, "1000268202", "100026820", "1", "0123456789"], record) == same


def test_a_captioner_keeps_the_record_of_its_training_photos(whole_training, scenes, tmp_path):
    folder, captioner = whole_training
    expected = digests_of([image.image_id for image in scenes if image.split == "train"])
    for one in (
        captioner,
        Captioner.load(folder / "model"),
        captioner.adapted(),
        Ensemble([captioner]),
    ):
        np.testing.assert_array_equal(one.training_photos, expected)
    other = captioner.adapted()
    other.note_training_photos(["another"])
    np.testing.assert_array_equal(other.training_photos, union([expected, digests_of(["another"])]))
    np.testing.assert_array_equal(
        Ensemble([captioner, other]).training_photos, other.training_photos
    )
    np.testing.assert_array_equal(captioner.training_photos, expected)
    other.training_photos = None
    other.save(tmp_path)
    assert Captioner.load(tmp_path).training_photos is None
    table = keras_sat.evaluate(other, scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] is None and "training_photos" not in str(table)


def test_photos_of_the_training_are_rejected_or_warned_of_and_counted(whole_training, scenes):
    captioner = whole_training[1]
    assert (
        keras_sat.evaluate(captioner, scenes, split="test", **SEARCH).statistics["training_photos"]
        == 0
    )
    with pytest.warns(UserWarning, match="trained on 32 of the 32 photos in 'train'"):
        table = keras_sat.evaluate(captioner, scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] == 32 and "32 photos used in training" in str(table)
    options = {"split": "dev", "split_seed": 1, **SEARCH}
    match = r"trained on \d of the 4 photos in 'dev'.*\('scene-3-.*--split-seed.*--allow-tr"
    with pytest.raises(ValueError, match=match):
        keras_sat.evaluate(captioner, scenes, **options)
    with pytest.warns(UserWarning, match=r"trained on \d of the 4 photos"):
        table = keras_sat.evaluate(captioner, scenes, allow_training_photos=True, **options)
    assert 0 < table.statistics["training_photos"] <= 4


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("encoder_training", ["scratch", "frozen"])
def test_fit_names_a_photo_that_was_replaced_by_one_of_the_same_size(encoder_training, tmp_path):
    images = photo_data(tmp_path / "mine", "train train dev")
    options = {**SMALL, "encoder_training": encoder_training, "output_dir": tmp_path / "run"}

    def again():
        return keras_sat.fit(images, **options).weights_digest()

    digest = again()
    photo = Path(images[1].image_path)
    original = photo.read_bytes()
    os.utime(photo, ns=(1, 1))
    assert again() == digest, "a copy has another time, and the same bytes"

    photo.write_bytes(original[::-1])
    os.utime(photo, ns=(2, 2))
    record = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"have changed .*: 1 \(first: 'mine1', .*1\.png"):
        again()
    assert record == {path: path.read_bytes() for path in record}

    (tmp_path / "run" / "photos.json").unlink()
    assert again() == digest, "runs of earlier versions have no such record"


def test_a_copied_photo_is_read_once(tmp_path, monkeypatch):
    images = photo_data(tmp_path / "mine", "train train")
    record_photos(tmp_path, images, {i.image_id: photo_of(i.image_path) for i in images})
    os.utime(images[0].image_path, ns=(1, 1))
    reject_changed_photos(tmp_path, images)
    monkeypatch.setattr("data_utils.photos.digests.photo_of", None)
    reject_changed_photos(tmp_path, images)
    with pytest.raises(ValueError, match=r"photos\.json: .*Expected: the record of the 1 photos"):
        reject_changed_photos(tmp_path, images[:1])


def test_photos_in_memory_have_no_record(tmp_path):
    record_photos(tmp_path, [CaptionedImage("a", np.zeros((4, 4, 3)), ["a dog"], "train")], {})
    assert not any(tmp_path.iterdir())


def test_the_bundled_captioner_of_photos_knows_flickr8ks_training_photos(flickr8k_images):
    record = from_settings(
        read_sealed_json(pretrained_directory("flickr8k") / "config.json", "a model")
    )
    ids = {
        split: [image.image_id for image in flickr8k_images if image.split == split]
        for split in ("train", "dev")
    }
    assert len(record) == 6000 and seen_in_training(ids["train"], record) == ids["train"]
    assert seen_in_training(ids["dev"], record) == []


def photograph(seed, size):
    """Return a picture that is as little alike to others as a photo is."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def photo_data(folder, splits):
    """Write photographs with captions, one for each split in a text; return them."""
    folder.mkdir()
    images = []
    for number, split in enumerate(splits.split()):
        path = str(folder / f"{number}.png")
        photograph(number, (40, 30)).save(path)
        images.append(CaptionedImage(f"{folder.name}{number}", path, ["a red circle"] * 2, split))
    return images


def test_a_photo_in_train_and_test_under_two_names_is_named(whole_training, tmp_path):
    images = photo_data(tmp_path / "mine", "train train test test")
    shutil.copy(images[1].image_path, images[3].image_path)
    with pytest.warns(UserWarning, match=r"1 of the 2 photos of test .*'mine3' is 'mine1'"):
        keras_sat.evaluate(whole_training[1], images, **SEARCH)


@pytest.mark.usefixtures("without_graphs")
def test_fit_names_photos_that_are_in_train_and_test(tmp_path):
    images = photo_data(tmp_path / "mine", "train train train train train dev test")
    shutil.copy(images[2].image_path, images[6].image_path)
    with pytest.warns(
        UserWarning,
        match=r"1 of the 2 photos of dev and test .*'mine6' is 'mine2'",
    ):
        keras_sat.fit(images, output_dir=tmp_path / "run", **SMALL)
