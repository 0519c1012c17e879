import functools
import json
import re
import socket
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import all_slow_but, make_captioner
from PIL import ExifTags, Image, ImageDraw

import keras_sat
from data_utils import draw_scenes, photos_of_split, tokenise
from data_utils.base import read_json
from data_utils.datasets import read_boxes
from keras_sat.commands.demo import report_on
from keras_sat.files.model_folder import (
    BUNDLED_ENCODERS,
    INDEX,
    pretrained_directory,
    pretrained_names,
)
from keras_sat.learning import TERMS
from keras_sat.measuring import FRACTION_NAMED, bleu, cider, fraction_named
from keras_sat.measuring.phrase_grounding import ground_phrases, grounding_figures
from keras_sat.network import encoders

pytestmark = pytest.mark.usefixtures("module_without_graphs")
GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLES = Path(keras_sat.__file__).parent / "export" / "page" / "examples"
PHOTO = EXAMPLES / "tripod.jpg"  # a man with a camera
PHOTO_KINDS = {"flickr8k": "soft", "flickr8k-hard": "hard", "flickr8k-paper": "soft"}
BEYOND_THE_PAPER = ("flickr8k", "flickr8k-hard")
GRIDS = {"flickr8k": (20, 20), "flickr8k-hard": (20, 20), "flickr8k-paper": (7, 7)}
SCENES = {"scenes": "soft", "scenes-hard": "hard", "scenes-none": "none"}
LARGEST = {**dict.fromkeys(SCENES, 1_000_000), **dict.fromkeys(PHOTO_KINDS, 9_000_000)}


@pytest.mark.parametrize(
    "name, truth, mass",
    [("scenes", 0.9, 0.7), ("scenes-hard", 0.9, 0.7), ("scenes-none", 0.5, 0.05)],
)
def test_the_scene_models_tell_the_truth_and_look_at_it(name, truth, mass):
    captioner = keras_sat.Captioner.from_pretrained(name)
    report, results = report_on(captioner, draw_scenes(100, seed=31))
    assert report["true_captions"] >= truth and report["attention_mass"] >= mass
    assert captioner.attention == SCENES[name]
    display = keras_sat.AttentionDisplay.from_result(results[0])
    assert display.attention_weights.shape[1:] == (16, 16)
    np.testing.assert_allclose(display.attention_weights.sum(axis=(1, 2)), 1, atol=1e-5)


def test_each_is_small_and_known_by_name():
    assert pretrained_names() == sorted(LARGEST)
    for name in pretrained_names():
        size = sum(path.stat().st_size for path in pretrained_directory(name).iterdir())
        assert size <= LARGEST[name], name
    configs = [
        read_json(pretrained_directory(name) / "config.json", "a model")
        for name in pretrained_names()
    ]
    kinds = ("encoder", INDEX)
    shared = {config["files"].get(kind) for config in configs for kind in kinds}
    assert {path.name for path in BUNDLED_ENCODERS.iterdir()} == shared - {None}
    with pytest.raises(ValueError, match=f"Expected one of: {', '.join(sorted(LARGEST))}"):
        keras_sat.Captioner.from_pretrained("imagenet")


def test_the_scores_on_the_test_split_say_whose_they_are():
    """A new captioner has none: then they are those of earlier ones."""
    results = Path(__file__).parents[2].joinpath("docs", "results.md").read_text(encoding="utf-8")
    section = results.split("## The test split")[1].split("\n## ")[0]
    record = json.loads(pretrained_directory("flickr8k").joinpath("record.json").read_text())
    rows = re.findall(r"^\| flickr8k `(\w{8})`", section, re.MULTILINE)
    assert rows and record["weights_digest"] in section
    assert ("was not scored on the test split" in section) == (record.get("test") is None)


def test_a_folder_of_the_same_name_does_not_hide_it(tmp_path, monkeypatch):
    (tmp_path / "scenes").mkdir()
    monkeypatch.chdir(tmp_path)
    known = keras_sat.Captioner.from_pretrained("scenes")
    assert (
        known.weights_digest()
        == keras_sat.Captioner.load(pretrained_directory("scenes")).weights_digest()
    )
    keras_sat.Captioner.from_pretrained("scenes-hard").save("scenes")
    assert keras_sat.Captioner.from_pretrained("scenes").attention == "hard"


@pytest.fixture(scope="module")
def flickr8k_captioner():
    return keras_sat.Captioner.from_pretrained()


@pytest.fixture(scope="module")
def described(flickr8k_images):
    """A function from the name of a captioner to 100 dev photos and its results of
    them.
    """
    photos = photos_of_split(flickr8k_images, "dev")[:100]

    @functools.cache
    def results_of(name):
        return keras_sat.Captioner.from_pretrained(name).caption(photos)

    return lambda name: (photos, results_of(name))


@pytest.mark.parametrize("name", all_slow_but("flickr8k", PHOTO_KINDS))
def test_a_captioner_of_photos_needs_nothing_but_itself(monkeypatch, name):
    monkeypatch.setattr(socket, "socket", None)  # whoever asks for one fails
    # And whoever reads ImageNet weights.
    monkeypatch.setattr(encoders, "packaged_weights", None)
    captioner = keras_sat.Captioner.from_pretrained(name)
    result = captioner.caption(PHOTO)
    assert (
        captioner.attention == PHOTO_KINDS[name]
        and result.attention_weights.shape[1:] == GRIDS[name]
    )
    assert "man" in result.words
    assert captioner.settings.encoder.encoder_weights == "imagenet", (
        "no path of the computer that it was trained on"
    )


def unlike_any_photo():
    """Return pictures that are no photos, by what they are: a dict of arrays."""
    rng = np.random.default_rng(0)
    page = Image.new("RGB", (640, 480), "white")
    for y in range(20, 420, 20):
        ImageDraw.Draw(page).text(
            (20, y), "All work and no play makes Jack a dull boy. " * 2, fill="black"
        )
    shape = (240, 320, 3)
    return {
        "black": np.zeros(shape, np.uint8),
        "white": np.full(shape, 255, np.uint8),
        "noise": rng.integers(0, 256, shape).astype(np.uint8),
        "text": np.array(page),
    }


@pytest.mark.parametrize("name", PHOTO_KINDS)
@pytest.mark.slow
def test_other_pictures_get_little_confidence(name):
    captioner = keras_sat.Captioner.from_pretrained(name)
    pictures = unlike_any_photo()
    for kind, result in zip(pictures, captioner.caption(list(pictures.values()))):
        # Below .3, it is "not sure". The model card says which noise is more than that.
        highest = {"black": 0.1, "white": 0.2}.get(kind, 0.3)
        if (name, kind) == ("flickr8k-hard", "noise"):
            highest = 0.5
        assert result.words and result.confidence < highest, kind
    drawn = [
        result.confidence
        for result in captioner.caption([scene.image for scene in draw_scenes(10, seed=3)])
    ]
    assert np.mean(drawn) < 0.3 and np.mean(np.array(drawn) < 0.3) >= 0.7
    assert captioner.caption(PHOTO).confidence > np.mean(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", PHOTO_KINDS)
def test_it_is_right_as_often_as_it_says(name, described):
    """On the photos that it was calibrated with, so that only what became of the
    numbers since is tested.
    """
    chosen, results = described(name)
    named = [
        fraction_named(r.words, map(tokenise, image.captions)) for r, image in zip(results, chosen)
    ]
    right = np.array(named) >= FRACTION_NAMED
    confidence = np.array([result.confidence for result in results])
    assert abs(np.mean(right) - confidence.mean()) < 0.1
    sure = confidence >= np.median(confidence)
    assert np.mean(right, where=sure) > np.mean(right, where=~sure) + 0.1


@pytest.mark.parametrize("name", BEYOND_THE_PAPER)
@pytest.mark.slow
def test_it_knows_when_to_look(name):
    result = keras_sat.Captioner.from_pretrained(name).attend(
        PHOTO, "a man in a black coat in front of a building"
    )
    from_photo = dict(zip(result.words, result.from_photo))
    assert (
        min(from_photo["man"], from_photo["coat"], from_photo["building"])
        > 0.9
        > 0.5
        > from_photo["of"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BEYOND_THE_PAPER)
def test_it_looks_at_what_it_names(name, flickr8k_images, real_data):
    chosen = photos_of_split(flickr8k_images, "dev")[:100]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says of how many photos the size is not sure
        boxes = read_boxes(real_data / "flickr8k_boxes.json", chosen)
    met = grounding_figures(
        ground_phrases(keras_sat.Captioner.from_pretrained(name), chosen, boxes)
    )
    assert met["num_phrases"] > 100
    # The model card has the figures of all 1,000.
    assert met["mass"] > 0.5 and met["pointing"] > 0.6
    assert met["small"]["mass"] > 0.25 and met["small"]["pointing"] > 0.35


def test_one_is_the_papers_own_network():
    captioner = keras_sat.Captioner.from_pretrained("flickr8k-paper")
    loss, network = captioner.settings.loss, captioner.settings.network
    beyond = [option for option in TERMS if getattr(loss, option)]
    assert beyond == ["label_smoothing"], "nothing else goes beyond the paper"
    assert network.attends == "before" and captioner.decoder.has_gate
    assert network.scoring == "additive" and loss.attention_penalty_weight == 0.33


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flickr8k", "flickr8k-paper"])
def test_it_describes_photos_that_it_has_not_seen(name, described):
    chosen, results = described(name)
    captions = [result.caption for result in results]
    references = [image.captions for image in chosen]
    assert bleu(references, captions)["bleu_4"] > 0.2 and cider(references, captions)["cider"] > 0.5
    assert len(set(captions)) > 75  # the model card has the figures of all 1,000


@pytest.mark.slow
@pytest.mark.parametrize("training", all_slow_but("frozen", ["frozen", "fine-tuned"]))
def test_its_encoder_starts_other_trainings(flickr8k_captioner, training):
    options = {
        "encoder": "efficientnet_lite0",
        "encoder_weights": "bundled",
        "encoder_training": training,
    }
    captioner = keras_sat.Captioner(
        ["dog"], hidden_dim=4, embedding_dim=4, attention_dim=4, **options
    )
    for own, its in zip(
        captioner.encoder_model.weights, flickr8k_captioner.encoder_model.weights, strict=True
    ):
        np.testing.assert_array_equal(own.numpy(), its.numpy())
    assert bool(captioner.encoder_variables) == (training == "fine-tuned")
    finer = keras_sat.Captioner(
        ["dog"], hidden_dim=4, embedding_dim=4, attention_dim=4, grid="14x14", **options
    )
    result = finer.caption(PHOTO, num_beams=1, max_length=2)
    assert result.attention_weights.shape[1:] == (14, 14)


def test_a_photo_that_lies_on_its_side_gets_the_same_caption(flickr8k_captioner, tmp_path):
    photos, turned = [], []
    for number, path in enumerate(sorted(EXAMPLES.glob("*.jpg"))[:3]):
        photo = Image.open(path)
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 6  # turn it clockwise to see it upright
        turned.append(tmp_path / f"{number}.png")
        photo.transpose(Image.Transpose.ROTATE_90).save(turned[-1], exif=exif)
        photos.append(np.array(photo))
    expected, upright = (
        [result.caption for result in flickr8k_captioner.caption(some, num_beams=1)]
        for some in (photos, turned)
    )
    assert upright == expected


@pytest.mark.slow
def test_photos_of_any_size_are_described_as_well(flickr8k_captioner, described):
    chosen, results = described("flickr8k")

    def score(results):
        captions = [result.caption for result in results]
        return cider([image.captions for image in chosen], captions)["cider"]

    def resized(width, height):
        photos = []
        for image in chosen:
            photo = Image.open(image.image_path)
            photos.append(photo.resize((round(width * photo.width), round(height * photo.height))))
        return photos

    of_others = flickr8k_captioner.caption(resized(0.7, 1.4))
    assert abs(score(of_others) - score(results)) < 0.05
    assert flickr8k_captioner.caption(np.zeros((7, 300, 3), np.uint8)).words  # a strip
    assert flickr8k_captioner.caption(np.zeros((1, 1, 3), np.uint8)).words


def test_a_model_that_an_earlier_version_saved_says_the_same():
    """golden/saved was written by 0.1.0, before the parts of a captioner had files and
    names of their own.
    """
    sys.path.insert(0, str(GOLDEN))
    from make_saved import pictures

    sys.path.remove(str(GOLDEN))
    said = json.loads((GOLDEN / "saved" / "said.json").read_text())
    with pytest.warns(UserWarning, match="no option expectation_probability any more"):
        captioner = keras_sat.Captioner.load(GOLDEN / "saved" / "model")
    assert captioner.decoder.settings.cell == "gru" and captioner.adapter.projection_dim == 20
    assert captioner.search_settings.length_penalty == 0.5 and captioner.baseline.numpy() < 0
    assert len(captioner.training_photos) == 200
    for result, expected in zip(captioner.caption(pictures(), num_beams=2), said, strict=True):
        assert result.caption == expected["caption"]
        assert result.log_prob == pytest.approx(expected["log_prob"], abs=1e-3)
        np.testing.assert_allclose(result.attention_weights[1].ravel(), expected["map"], atol=1e-4)


def test_captions_one_by_one_go_on_past_what_cannot_be_read(tmp_path):
    pictures = [scene.image for scene in draw_scenes(3, seed=4)]
    (tmp_path / "no_picture.png").write_text("this is text")
    given = [pictures[0], tmp_path / "no_picture.png", tmp_path / "missing.png", *pictures[1:]]
    captioner = keras_sat.Captioner.from_pretrained("scenes")
    found = list(captioner.caption_each(given, errors="yield", batch_size=2))
    assert all(image is picture for (image, _), picture in zip(found, given, strict=True))
    assert [isinstance(result, Exception) for _, result in found] == [
        False,
        True,
        True,
        False,
        False,
    ]
    expected = [result.caption for result in captioner.caption(pictures)]
    assert [result.caption for _, result in found if not isinstance(result, Exception)] == expected
    with pytest.raises(FileNotFoundError):
        list(captioner.caption_each(given[2:]))
    with pytest.raises(ValueError, match="must be one of: raise, yield. Received: errors='skip'"):
        list(captioner.caption_each(given, errors="skip"))
    (nothing,) = captioner.caption_each([given[2]], errors="yield")
    assert isinstance(nothing[1], FileNotFoundError), "a batch in which nothing can be read"


def test_bundled_encoder_weights_are_not_for_saved_captioners(tmp_path):
    weights = tmp_path / "tiny.weights.h5"
    keras_sat.ENCODERS["tiny"](image_size=16).save_weights(weights)
    frozen = {"encoder_training": "frozen", "encoder_weights": str(weights)}
    make_captioner(encoder="tiny", image_size=16, **frozen).save(tmp_path / "model")
    with pytest.raises(ValueError, match="only for a new captioner, not for a saved one"):
        keras_sat.Captioner.load(tmp_path / "model", encoder_weights="bundled")
