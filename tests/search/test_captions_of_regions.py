"""Captions of regions: their crops are captioned like photos."""

import json

import numpy as np
import pytest
from helpers import WORDS, assert_same_caption, make_captioner, numbers, write_photos
from PIL import Image

import keras_sat
from data_utils import FeatureCache, Vocabulary, draw_scenes
from data_utils.photos import crop_of, load_image
from data_utils.vocabulary import REGION_TOKEN
from keras_sat import AttentionDisplay, Ensemble
from keras_sat.__main__ import main
from keras_sat.settings import Search

LEFT, RIGHT = (0.0, 0.0, 0.5, 1.0), (0.5, 0.5, 1.0, 1.0)
SAME = {"log_prob": {"rtol": 1e-5}, "maps": {"atol": 1e-6}}


@pytest.fixture(scope="module")
def picture():
    return draw_scenes(1, seed=8)[0].image


def test_a_region_is_captioned_as_a_picture_of_its_crop(captioner, picture):
    crop = load_image(crop_of(picture, RIGHT), 64)
    found = captioner.caption(picture, region=RIGHT, num_results=3)
    expected = captioner.caption(crop, num_results=3)
    described = [found, *found.alternatives]
    for one, other in zip(described, [expected, *expected.alternatives], strict=True):
        assert_same_caption(one, other, **SAME)
        assert one.confidence == pytest.approx(other.confidence) and one.confidence is not None
        assert one.region == RIGHT and other.region is None
    np.testing.assert_array_equal(found.image, crop)
    assert found.to_dict()["region"] == RIGHT
    with pytest.raises(ValueError, match="A region must be"):
        captioner.caption(picture, region=[])


def test_each_photo_has_a_result_for_each_region(captioner, picture):
    one = captioner.caption(picture, region=LEFT)
    both = captioner.caption([picture, picture], region=[LEFT, RIGHT])
    assert [[result.region for result in results] for results in both] == [[LEFT, RIGHT]] * 2
    assert both[0][0].caption == both[1][0].caption == one.caption
    pair = Ensemble([captioner, captioner]).caption(picture, region=LEFT)
    assert pair.caption == one.caption and pair.region == LEFT
    regions = [[], [RIGHT, LEFT]]
    found = [results for _, results in captioner.caption_each([picture] * 2, regions=regions)]
    assert found[0] == [] and found[1][1].caption == one.caption


def test_a_photo_that_cannot_be_read_has_one_error(captioner, tmp_path):
    write_photos(tmp_path, ["a.png"])
    (tmp_path / "b.png").write_bytes(b"no picture")
    paths = [tmp_path / "b.png", tmp_path / "a.png"]
    pairs = captioner.caption_each(paths, regions=[[LEFT, RIGHT]] * 2, errors="yield")
    (bad_path, error), (path, results) = pairs
    assert (bad_path, path) == (*paths,) and isinstance(error, ValueError)
    assert [result.image_path for result in results] == [str(tmp_path / "a.png")] * 2
    with pytest.raises(ValueError, match="not a picture"):
        [*captioner.caption_each(paths, regions=[[LEFT], []])]


def test_a_region_needs_the_photo(captioner, scene_images, tmp_path):
    images = scene_images[:2]
    ids = [image.image_id for image in images]
    pictures = [image.image_path for image in images]
    encoder = captioner.encoder_model
    cache = FeatureCache.build(tmp_path / "features", ids, pictures, encoder, show_progress=False)
    with pytest.raises(ValueError, match="leave out `cache`.*Received: regions") as raised:
        captioner.caption_each(images, cache=cache, regions=[[LEFT]] * 2)
    assert "\n" not in str(raised.value)


def test_what_is_drawn_is_the_crop(captioner, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 80, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    result = captioner.caption(tmp_path / "a.png", region=RIGHT, votes=True)
    crop = load_image(crop_of(pixels, RIGHT))
    for kind in ("attention", "votes"):
        display = AttentionDisplay.from_result(result, map_kind=kind)
        np.testing.assert_array_equal(display.image, crop)
    assert result.votes.shape == result.attention_weights.shape


def test_the_command_line_takes_regions(tmp_path, capsys):
    write_photos(tmp_path, ["a.png"], size=(80, 60))
    crop = load_image(crop_of(tmp_path / "a.png", LEFT))
    command = ["caption", str(tmp_path / "a.png"), "--model", "scenes"]
    assert main([*command, "--json", "--region", ".5,0,1,1", "--region", "0,0,.5,1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["region"] for line in lines] == [[0.5, 0, 1, 1], [0, 0, 0.5, 1]]
    assert all("confidence" in line for line in lines)
    page = tmp_path / "gallery.html"
    sure = ["--region", "0,0,.5,1", "--min-confidence", "1", "--gallery", str(page)]
    assert main([*command, *sure]) == 0
    assert capsys.readouterr().out.endswith("\tnot sure\n")
    assert f'"aspect": "{crop.shape[1] / crop.shape[0]:.4f}"' in page.read_text()
    drawn = ["--region", "0,0,.5,1", "--plot", str(tmp_path / "drawn.png")]
    for options in (["0,0,2,1"], ["a,b"], ["0,0,nan,1"], [".5,0,1,1", *drawn]):
        assert main([*command, "--region", *options]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and (
            "A region must be a rectangle" in error or "pass one --region" in error
        )


# === What version 0.1.0 had ===


@pytest.mark.parametrize(
    "options",
    [{"num_beams": 1}, {"num_beams": 2, "num_results": 2}, {"temperature": 1.0, "num_results": 3}],
)
def test_no_search_says_the_token_that_started_phrases(options):
    captioner = make_captioner([*WORDS, REGION_TOKEN], shape=(6, 3))
    region_id = captioner.vocabulary.tokens.index(REGION_TOKEN)
    readout = captioner.decoder.readout.word_logits
    readout.bias.assign(np.eye(len(captioner.vocabulary))[region_id] * 9)  # what it would say
    noise = numbers(6, 4, seed=1) % 1
    search = Search(max_length=4, allow_unknown=True, **options)
    found = captioner.engine.search_tensors(numbers(2, 6, 3), noise, search=search)
    assert region_id not in np.asarray(found.token_ids)
    assert captioner.adapted().vocabulary == captioner.vocabulary
    assert REGION_TOKEN not in Vocabulary(WORDS)


def test_training_phrases_is_an_error_with_the_way_out(scene_images, tmp_path):
    with pytest.raises(ValueError, match="no option region_weight any more.*crops the photo"):
        keras_sat.fit(scene_images, output_dir=tmp_path / "run", region_weight=1.0)
