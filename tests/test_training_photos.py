import shutil

import numpy as np
import pytest
from PIL import Image

import keras_sat
from data_utils import DATASETS, CaptionedImage, FeatureCache, load_image, readable_photos
from data_utils.atomic_files import read_sealed_json
from data_utils.photo_digests import PHOTO, looks_like, pixel_digest
from data_utils.training_photos import (
    as_settings,
    digests_of,
    from_settings,
    seen_in_training,
    union,
)
from keras_sat import Captioner, Ensemble
from keras_sat.files.model_folder import pretrained_directory
from keras_sat.scoring.leakage import check_training_photos

IDS = [f"photo-{number}" for number in range(200)]
SEARCH = {"num_beams": 1, "max_length": 8, "show_progress": False}

pytestmark = pytest.mark.usefixtures("quick_meteor")


@pytest.fixture(scope="module")
def scenes():
    """The data of `whole_training`."""
    return DATASETS["scenes"](None, num_scenes=40, seed=3)


def test_a_record_tells_the_photos_in_it_from_others_in_any_order():
    record = digests_of([*IDS[:100], *IDS[:5]])
    assert len(record.names) == 100 and seen_in_training(IDS[::-1], record) == IDS[:100][::-1]
    assert seen_in_training(IDS, None) == [] and seen_in_training([], record) == []
    assert_same(digests_of(IDS[:100][::-1]), record)
    assert_same(union([record, None, digests_of(IDS[50:])]), digests_of(IDS))
    assert union([None, None]) is None


def assert_same(record, other):
    for digests, same in zip(record, other, strict=True):
        np.testing.assert_array_equal(digests, same)


def test_as_text_it_is_small_and_comes_back():
    records = {
        image_id: np.array((0, 0, 0, 2**64 - 1 - number), PHOTO)
        for number, image_id in enumerate(IDS)
    }
    record = digests_of(IDS, records)
    texts = as_settings(record)
    assert len(texts["training_photos"]) <= 7 * len(IDS) and len(
        texts["training_pixels"]
    ) <= 11 * len(IDS)
    assert_same(from_settings(texts), record)
    assert_same(from_settings({"training_photos": ""}), digests_of([]))


@pytest.mark.parametrize("name", ["training_photos", "training_pixels"])
@pytest.mark.parametrize("text", [None, "???", "AAAA", "é"])
def test_a_malformed_record_is_rejected(text, name):
    with pytest.raises(ValueError, match=f"record of the training photos is damaged.*{name}="):
        from_settings({"training_photos": "", name: text})


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
        assert_same(one.training_photos, expected)
    other = captioner.adapted()
    other.note_training_photos(["another"])
    assert_same(other.training_photos, union([expected, digests_of(["another"])]))
    assert_same(Ensemble([captioner, other]).training_photos, other.training_photos)
    assert_same(captioner.training_photos, expected)
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


def test_the_bundled_captioner_of_photos_knows_flickr8ks_training_photos(flickr8k_images):
    record = from_settings(
        read_sealed_json(pretrained_directory("flickr8k") / "config.json", "a model")
    )
    ids = {
        split: [image.image_id for image in flickr8k_images if image.split == split]
        for split in ("train", "dev")
    }
    assert len(record.names) == 6000 and seen_in_training(ids["train"], record) == ids["train"]
    assert seen_in_training(ids["dev"], record) == []
    noted = {}
    some = [image for image in flickr8k_images if image.split == "train"][:200]
    readable_photos(
        [image for image in flickr8k_images if image.split == "dev"] + some, noted=noted
    )
    assert seen_in_training(ids["dev"], record, noted) == []
    renamed = {f"copy of {image.image_id}": noted[image.image_id] for image in some}
    assert len(seen_in_training(list(renamed), record, renamed)) >= 199


def photograph(seed, size):
    """Return a picture that is as little alike to others as a photo is."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def test_the_same_photo_in_another_size_quality_and_file_type_is_recognised(tmp_path):
    known = [pixel_digest(load_image(photograph(seed, (400, 300)), 224)) for seed in range(40)]
    sizes = {
        "jpg": (400, 300),
        "webp": (640, 480),
        "png": (100, 80),
        "gif": (400, 300),
        "bmp": (1600, 1200),
    }
    for number, (ending, size) in enumerate(sizes.items()):
        photograph(number, size).save(tmp_path / f"a.{ending}", quality=50)
        for image_size in (32, 96, 260):
            found = pixel_digest(load_image(tmp_path / f"a.{ending}", image_size))
            assert looks_like([found], known).all() and not looks_like([found], known[5:]).any()


def test_pictures_that_are_alike_by_nature_have_no_digest_of_pixels(scenes):
    flat = [np.full((64, 64, 3), value, np.uint8) for value in (0, 255)]
    assert [pixel_digest(image) for image in [*flat, *(scene.image_path for scene in scenes)]] == [
        0
    ] * 42
    assert not looks_like([0], [0, 1]).any()


def photo_data(folder, splits):
    """Write photographs with captions, one for each split in a text; return them."""
    folder.mkdir()
    images = []
    for number, split in enumerate(splits.split()):
        path = str(folder / f"{number}.png")
        photograph(number, (40, 30)).save(path)
        images.append(CaptionedImage(f"{folder.name}{number}", path, ["a red circle"] * 2, split))
    return images


@pytest.mark.parametrize("cached", [False, True])
def test_renamed_photos_of_the_training_are_rejected(whole_training, tmp_path, cached):
    images = photo_data(tmp_path / "mine", "train train train test")
    captioner, noted = whole_training[1].adapted(), {}
    readable_photos(images, noted=noted)
    captioner.note_training_photos([image.image_id for image in images[:3]], noted)
    captioner.save(tmp_path / "model")
    captioner = Captioner.load(tmp_path / "model")
    copies = photo_data(tmp_path / "copies", "test test test test")
    ids, paths = ([getattr(image, name) for image in copies] for name in ("image_id", "image_path"))
    cache = (
        FeatureCache.build(tmp_path / "cache", ids, paths, captioner.encoder_model)
        if cached
        else None
    )
    with pytest.raises(ValueError, match=r"3 of the 4 photos in 'test', or on copies .*'copies0'"):
        keras_sat.evaluate(captioner, copies, cache=cache, **SEARCH)
    with pytest.warns(UserWarning, match="3 of the 4 photos in 'test', or on copies"):
        table = keras_sat.evaluate(
            captioner, copies, cache=cache, allow_training_photos=True, **SEARCH
        )
    assert table.statistics["training_photos"] == 3
    assert (
        keras_sat.evaluate(captioner, copies[3:], cache=cache, **SEARCH).statistics[
            "training_photos"
        ]
        == 0
    )
    if cached:
        shutil.copy(copies[0].image_path, copies[3].image_path)
        with pytest.raises(
            ValueError, match="'copies3' .* has changed since its features were built"
        ):
            keras_sat.evaluate(captioner, copies[3:], cache=cache, **SEARCH)


def test_one_photo_of_a_hundred_that_is_in_a_data_set_twice_is_only_warned_of(whole_training):
    captioner, images = (
        whole_training[1].adapted(),
        [CaptionedImage(str(n), "", ["a"]) for n in range(200)],
    )
    digests = np.random.default_rng(0).integers(1, 2**63, 200)
    noted = {
        image.image_id: np.array((0, 0, 0, digest), PHOTO) for image, digest in zip(images, digests)
    }
    captioner.training_photos = digests_of(["other"], {"other": noted["7"]})
    with pytest.warns(UserWarning, match="1 of the 200 photos here"):
        assert check_training_photos(captioner, images, noted, "here", "") == 1
    with pytest.raises(ValueError, match="1 of the 99 photos here"):
        check_training_photos(captioner, images[:99], noted, "here", "")
    captioner.training_photos = digests_of(["7"])  # by name it is no mistake of the data set
    with pytest.raises(ValueError, match="1 of the 200 photos here"):
        check_training_photos(captioner, images, {}, "here", "")


def test_a_photo_in_train_and_test_under_two_names_is_named(whole_training, tmp_path):
    images = photo_data(tmp_path / "mine", "train train test test")
    shutil.copy(images[1].image_path, images[3].image_path)
    with pytest.warns(UserWarning, match=r"1 of the 2 photos in 'test' .*'mine3' is 'mine1'"):
        keras_sat.evaluate(whole_training[1], images, **SEARCH)


@pytest.mark.usefixtures("without_graphs")
def test_fit_names_photos_that_are_in_train_and_test_and_keeps_their_digests(tmp_path):
    images = photo_data(tmp_path / "mine", "train train train train train dev test")
    photograph(2, (80, 90)).save(images[6].image_path, "JPEG")
    small = {
        "embedding_dim": 4,
        "hidden_dim": 4,
        "attention_dim": 4,
        "epochs": 1,
        "show_progress": False,
    }
    with pytest.warns(
        UserWarning,
        match=r"1 of the 2 photos of dev and test .*'mine6' is 'mine2'",
    ):
        keras_sat.fit(images, encoder="tiny", output_dir=tmp_path / "run", num_beams=1, **small)
    record = Captioner.load(tmp_path / "run" / "model").training_photos
    assert len(record.names) == len(record.pixels) == 5
