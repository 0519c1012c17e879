import json
import shutil
import warnings

import numpy as np
import pytest
from conftest import write_photos
from PIL import Image

import keras_sat
from data_utils import DATASETS, CaptionedImage, FeatureCache, load_image, readable_photos
from data_utils.atomic_files import read_sealed_json, write_sealed_json
from data_utils.photo_digests import PHOTO, looks_like, pixel_digest
from data_utils.training_photos import as_settings, digests_of, from_settings, seen_in_training, union
from keras_sat import Captioner, Ensemble
from keras_sat.__main__ import main
from keras_sat.scoring.evaluate import check_training_photos

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
    noted = {image_id: np.array((0, 0, 0, 2**64 - 1 - number), PHOTO) for number, image_id in enumerate(IDS)}
    record = digests_of(IDS, noted)
    texts = as_settings(record)
    assert len(texts["training_photos"]) <= 7 * len(IDS) and len(texts["training_pixels"]) <= 11 * len(IDS)
    assert_same(from_settings(texts), record)
    assert_same(from_settings({"training_photos": ""}), digests_of([]))


@pytest.mark.parametrize("text", [None, "???", "AAAA", "é"])
def test_a_malformed_record_is_rejected(text, whole_training, tmp_path):
    for name in ("training_photos", "training_pixels"):
        with pytest.raises(ValueError, match="record of the photos that this captioner was trained on cannot be read"):
            from_settings({"training_photos": "", name: text})
    whole_training[1].save(tmp_path)
    settings = read_sealed_json(tmp_path / "config.json", "a model")
    write_sealed_json(tmp_path / "config.json", {**settings, "training_photos": text})
    with pytest.raises(ValueError, match=f"{tmp_path.name}: the record of the photos.*training_photos="):
        Captioner.load(tmp_path)


def test_a_photo_of_flickr_is_known_by_its_number():
    record = digests_of(["1000268201_693b08cb0e", "beach", "1_0123456789"])
    same = ["1000268201", "1000268201.jpg", "1000268201_693b08cb0e.JPEG", "Beach.PNG"]
    assert seen_in_training([*same, "1000268202", "100026820", "1", "0123456789"], record) == same


def test_a_captioner_remembers_its_training_photos_wherever_it_goes(whole_training, scenes, tmp_path):
    folder, captioner = whole_training
    expected = digests_of([image.image_id for image in scenes if image.split == "train"])
    for one in (captioner, Captioner.load(folder / "model"), captioner.adapted(), Ensemble([captioner])):
        assert_same(one.training_photos, expected)
    further = captioner.adapted()
    further.note_training_photos(["another"])
    assert_same(further.training_photos, union([expected, digests_of(["another"])]))
    assert_same(Ensemble([captioner, further]).training_photos, further.training_photos)
    assert_same(captioner.training_photos, expected)


def test_a_captioner_without_a_record(whole_training, tmp_path):
    whole_training[1].save(tmp_path)
    settings = read_sealed_json(tmp_path / "config.json", "a model")
    assert settings.pop("training_photos")
    write_sealed_json(tmp_path / "config.json", settings)
    captioner = Captioner.load(tmp_path)
    assert captioner.training_photos is None
    captioner.save(tmp_path)
    assert "training_photos" not in read_sealed_json(tmp_path / "config.json", "a model")


def test_photos_of_the_training_are_rejected_or_warned_of_and_counted(whole_training, scenes):
    captioner = whole_training[1]
    assert keras_sat.evaluate(captioner, scenes, split="test", **SEARCH).statistics["training_photos"] == 0
    with pytest.warns(UserWarning, match="trained on 32 of the 32 photos in 'train'"):
        table = keras_sat.evaluate(captioner, scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] == 32 and "training_photos 32" in str(table)
    options = {"split": "dev", "split_seed": 1, **SEARCH}
    with pytest.raises(ValueError, match=r"trained on \d of the 4 photos in 'dev'.*\('scene-3-.*split_seed.*Received"):
        keras_sat.evaluate(captioner, scenes, **options)
    with pytest.warns(UserWarning, match=r"trained on \d of the 4 photos"):
        table = keras_sat.evaluate(captioner, scenes, allow_training_photos=True, **options)
    assert 0 < table.statistics["training_photos"] <= 4


def test_where_nothing_is_known_nothing_is_said(whole_training, scenes, monkeypatch):
    monkeypatch.setattr(whole_training[1], "training_photos", None)
    table = keras_sat.evaluate(whole_training[1], scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] is None and "training_photos" not in str(table)


@pytest.mark.filterwarnings("always")
def test_the_command_line_says_the_way_out(whole_training, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command line sets its own
    write_photos(tmp_path / "mine", [f"{number}.jpg" for number in range(4)])
    lines = [f"{number}.jpg,a red circle,dev" for number in range(4)]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(["image,caption,split", *lines]))
    captioner = whole_training[1].adapted()
    captioner.note_training_photos(["1", "2", "7"])
    captioner.save(tmp_path / "model")
    command = ["evaluate", "--model", str(tmp_path / "model"), "--data", "folder", "--data-dir", str(tmp_path / "mine")]
    command += ["--split", "dev", "--num-beams", "1", "--max-length", "8"]
    assert main(command) == 2
    message = capsys.readouterr().err
    assert "trained on 2 of the 4 photos in 'dev'" in message and "('1', for example)" in message
    assert "--split-seed" in message and "--allow-training-photos" in message and message.count("\n") == 1
    assert main([*command, "--allow-training-photos", "--json", str(tmp_path / "scores.json")]) == 0
    assert "keras-sat: The captioner was trained on 2 of the 4 photos" in capsys.readouterr().err
    assert json.loads((tmp_path / "scores.json").read_text())["statistics"]["training_photos"] == 2


def test_the_bundled_captioner_of_photos_knows_flickr8ks_training_photos(flickr8k_images):
    settings = read_sealed_json(
        keras_sat.files.model_folder.pretrained_directory("flickr8k") / "config.json", "a model"
    )
    record = from_settings(settings)
    ids = {split: [image.image_id for image in flickr8k_images if image.split == split] for split in ("train", "dev")}
    assert len(record.names) == 6000 and seen_in_training(ids["train"], record) == ids["train"]
    assert seen_in_training(ids["dev"], record) == []
    noted, renamed = {}, {}
    some = [image for image in flickr8k_images if image.split == "train"][:200]
    readable_photos([image for image in flickr8k_images if image.split == "dev"] + some, noted=noted)
    assert seen_in_training(ids["dev"], record, noted) == []
    for image in some:
        renamed[f"copy of {image.image_id}"] = noted[image.image_id]
    assert len(seen_in_training(list(renamed), record, renamed)) >= 199


# === Pixels ===


def photograph(seed, size):
    """Return a picture that is as little alike to others as a photo is."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def test_the_same_photo_in_another_size_quality_and_file_type_is_recognised(tmp_path):
    known = [pixel_digest(load_image(photograph(seed, (400, 300)), 224)) for seed in range(40)]
    for number, (name, size, options) in enumerate(
        [
            ("a.jpg", (400, 300), {"quality": 40}),
            ("a.webp", (640, 480), {"quality": 60}),
            ("a.png", (100, 80), {}),
            ("a.gif", (400, 300), {}),
            ("a.bmp", (1600, 1200), {}),
        ]
    ):
        photograph(number, size).save(tmp_path / name, **options)
        for image_size in (32, 96, 260):
            found = pixel_digest(load_image(tmp_path / name, image_size))
            assert looks_like([found], known).all() and not looks_like([found], known[5:]).any()


def test_pictures_that_are_alike_by_nature_have_no_digest_of_pixels(scenes):
    flat = [np.full((64, 64, 3), value, np.uint8) for value in (0, 255)]
    assert [pixel_digest(image) for image in [*flat, *(scene.image_path for scene in scenes)]] == [0] * 42
    assert not looks_like([0], [0, 1]).any()


def photo_data(folder, splits):
    """Write photographs with captions, one for each letter of `splits` (train, dev, or TEST); return them."""
    folder.mkdir()
    names = {"r": "train", "d": "dev", "t": "test"}
    images = [
        CaptionedImage(f"{folder.name}{number}", str(folder / f"{number}.png"), ["a red circle"] * 2, names[letter])
        for number, letter in enumerate(splits)
    ]
    for number, image in enumerate(images):
        photograph(number, (40, 30)).save(image.image_path)
    return images


@pytest.mark.parametrize("cached", [False, True])
def test_renamed_photos_of_the_training_are_rejected(whole_training, tmp_path, cached):
    images = photo_data(tmp_path / "mine", "rrrt")
    captioner, noted = whole_training[1].adapted(), {}
    readable_photos(images, noted=noted)
    captioner.note_training_photos([image.image_id for image in images[:3]], noted)
    captioner.save(tmp_path / "model")
    captioner = Captioner.load(tmp_path / "model")
    copies = photo_data(tmp_path / "copies", "tttt")
    ids, paths = ([getattr(image, name) for image in copies] for name in ("image_id", "image_path"))
    cache = FeatureCache.build(tmp_path / "cache", ids, paths, captioner.encoder_model) if cached else None
    with pytest.raises(ValueError, match=r"3 of the 4 photos in 'test', or on copies of them \('copies0', for"):
        keras_sat.evaluate(captioner, copies, cache=cache, **SEARCH)
    with pytest.warns(UserWarning, match="3 of the 4 photos in 'test', or on copies"):
        table = keras_sat.evaluate(captioner, copies, cache=cache, allow_training_photos=True, **SEARCH)
    assert table.statistics["training_photos"] == 3
    assert keras_sat.evaluate(captioner, copies[3:], cache=cache, **SEARCH).statistics["training_photos"] == 0
    if cached:
        shutil.copy(copies[0].image_path, copies[3].image_path)
        with pytest.raises(ValueError, match="The photo 'copies3' has changed since its features were built"):
            keras_sat.evaluate(captioner, copies[3:], cache=cache, **SEARCH)


def test_one_photo_of_a_hundred_that_is_in_a_data_set_twice_is_only_warned_of(whole_training, monkeypatch):
    captioner, images = whole_training[1].adapted(), [CaptionedImage(str(n), "", ["a"]) for n in range(200)]
    digests = np.random.default_rng(0).integers(1, 2**63, 200)
    noted = {image.image_id: np.array((0, 0, 0, digest), PHOTO) for image, digest in zip(images, digests)}
    captioner.training_photos = digests_of(["other"], {"other": noted["7"]})
    with pytest.warns(UserWarning, match="1 of the 200 photos here"):
        assert check_training_photos(captioner, images, noted, "here", "") == 1
    with pytest.raises(ValueError, match="1 of the 99 photos here"):
        check_training_photos(captioner, images[:99], noted, "here", "")
    captioner.training_photos = digests_of(["7"])  # by name it is no mistake of the data set
    with pytest.raises(ValueError, match="1 of the 200 photos here"):
        check_training_photos(captioner, images, {}, "here", "")


def test_a_photo_in_train_and_test_under_two_names_is_named(whole_training, tmp_path):
    images = photo_data(tmp_path / "mine", "rrtt")
    shutil.copy(images[1].image_path, images[3].image_path)
    with pytest.warns(UserWarning, match=r"1 of the 2 photos in 'test' are in 'train', too.*\('mine3' is 'mine1'"):
        keras_sat.evaluate(whole_training[1], images, **SEARCH)


@pytest.mark.usefixtures("without_graphs")
def test_fit_names_photos_that_are_in_train_and_test_and_keeps_their_digests(tmp_path):
    images = photo_data(tmp_path / "mine", "rrrrrdt")
    photograph(2, (80, 90)).save(images[6].image_path, "JPEG")
    small = {"embedding_dim": 4, "hidden_dim": 4, "attention_dim": 4, "epochs": 1, "show_progress": False}
    with pytest.warns(UserWarning, match=r"1 of the 2 photos of dev and test are in train, too.*\('mine6' is 'mine2'"):
        keras_sat.fit(images, encoder="tiny", output_dir=tmp_path / "run", num_beams=1, **small)
    record = Captioner.load(tmp_path / "run" / "model").training_photos
    assert len(record.names) == len(record.pixels) == 5
