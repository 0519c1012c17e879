"""Doubt: what the confidence of captions is made of, how it is learnt and measured, and where it is shown."""

import dataclasses
import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from small_training import train

from data_utils import DATASETS, CaptionedImage, FeatureCache, make_batches
from keras_sat.__main__ import main
from keras_sat.beyond import calibration
from keras_sat.beyond import confidence as doubt
from keras_sat.beyond.calibration import Calibration, calibrate, logistic_regression, share_named
from keras_sat.beyond.confidence import Confidence
from keras_sat.beyond.ensemble import Ensemble
from keras_sat.captioner import Captioner
from keras_sat.command_line.commands import DOUBTFUL, _as_line
from keras_sat.files.model_folder import add_confidence
from keras_sat.files.saving import save_confidence
from keras_sat.pictures.display import AttentionDisplay
from keras_sat.pictures.gallery import gallery
from keras_sat.training import recipe


@pytest.fixture(scope="module")
def unseen_scenes(tmp_path_factory):
    return DATASETS["scenes"](tmp_path_factory.mktemp("scenes"), num_scenes=120, seed=77)


@pytest.fixture(scope="module")
def calibrated(unseen_scenes):
    captioner = Captioner.from_pretrained("scenes")
    captioner.training_photos = None  # scenes have the same names, whatever their seed
    return captioner, calibrate(captioner, unseen_scenes, show_progress=False)


# === What it is made of ===


def made_up(unlikeness=None, strength=None):
    """Return a Confidence of two features that knows photos around (1, 1), all strings of quantiles as given."""
    quantiles = np.linspace(0, 1, doubt.NUM_QUANTILES)
    centre, directions, spreads = np.ones(2), np.array([[1.0], [0.0]]), np.array([1.0, 2.0])
    unlikeness = 4 * quantiles if unlikeness is None else unlikeness
    strength = 2 * quantiles if strength is None else strength
    return Confidence([0.0, 2.0, 0.0], centre, directions, spreads, unlikeness, strength)


def test_a_caption_of_more_probable_words_has_more_confidence():
    features = np.ones((1, 4, 2), np.float32)
    found = made_up()(np.array([[-10.0, -5.0, 0.0]]), np.array([[5, 5, 5]]), features)
    np.testing.assert_allclose(found, [[1 / (1 + np.exp(4)), 1 / (1 + np.exp(2)), 0.5]], rtol=1e-6)


def test_what_is_like_no_photo_has_none():
    like = made_up().likeness(np.array([[1.0, 1.0], [1.0, 3.0], [1.0, 9.0], [0.01, 0.01], [0.0, 0.0]]))
    # In the middle; one deviation away; further than all; as weak as one of 200; as weak as none.
    np.testing.assert_allclose(like, [1, 1, 0, 0.005 / doubt.RARE, 0], atol=1e-6)


def test_unlikeness_is_mahalanobis_distance():
    rng = np.random.default_rng(0)
    photos = rng.normal(size=(400, 3)) * [3.0, 1.0, 0.5] + [5.0, 0.0, 2.0]
    centre, directions, spreads = doubt.directions_of(photos)
    assert directions.shape == (3, 2) and spreads.shape == (3,)
    far = doubt.unlikeness(photos, centre, directions, spreads)
    covariance = np.cov(photos.T, bias=True)
    away = photos - photos.mean(axis=0)
    whole = np.einsum("ij,jk,ik->i", away, np.linalg.inv(covariance), away)
    rest = (away**2).sum(axis=1) - ((away @ directions) ** 2).sum(axis=1)
    np.testing.assert_allclose(far, (whole - rest / spreads[-1] ** 2) / 2 + rest / spreads[-1] ** 2, rtol=1e-6)


def test_features_give_their_strongest():
    features = np.arange(12).reshape(1, 3, 4)
    np.testing.assert_array_equal(doubt.strongest(features), [[8, 9, 10, 11]])


@pytest.mark.parametrize("name", doubt.ARRAYS)
def test_arrays_of_other_shapes_are_refused(name):
    arrays = dict(made_up().arrays)
    for wrong in (np.ones((7, 7, 7)), arrays[name] * np.nan):
        with pytest.raises(ValueError, match="confidence of this model is not whole"):
            Confidence(**{**arrays, name: wrong})


# === How it is learnt ===


def test_logistic_regression_finds_what_the_chances_were():
    rng = np.random.default_rng(1)
    given = np.stack([np.ones(20_000), rng.normal(3, 2, 20_000)], axis=1)
    are_right = rng.random(20_000) < doubt.probability_of([-2.0, 0.5], given)
    np.testing.assert_allclose(logistic_regression(given, are_right), [-2.0, 0.5], atol=0.08)


@pytest.mark.parametrize("share", [0, 1])
def test_logistic_regression_of_captions_that_are_all_alike_stays_finite(share):
    given = np.stack([np.ones(50), np.full(50, -1.0)], axis=1)
    found = doubt.probability_of(logistic_regression(given, np.full(50, share)), given)
    assert np.isfinite(found).all() and (found > 0.9).all() == bool(share)


def test_share_of_words_that_name_something():
    references = [["a", "brown", "dog"], ["the", "dog", "runs"]]
    assert share_named(["a", "black", "dog", "runs"], references) == pytest.approx(2 / 3)
    assert share_named(["a", "is", "on"], references) == 0
    assert share_named(["dog", "dog", "cat"], references) == 0.5  # each word once


def test_calibration_measures_how_far_off_it_is():
    measured = Calibration(np.array([0.05, 0.05, 0.95, 0.95]), np.array([False, True, True, True]))
    assert measured.bins() == [(0.0, 2, pytest.approx(0.05), 0.5), (0.9, 2, pytest.approx(0.95), 1.0)]
    assert measured.expected_error == pytest.approx((0.45 + 0.05) / 2)
    assert measured.separation == pytest.approx(2.5 / 3)  # a wrong one ties with one of three right ones
    assert "expected calibration error 0.250" in str(measured)
    assert json.loads(json.dumps(measured.to_dict()))["bins"][1]["right"] == 1.0
    figure, ax = plt.subplots()
    assert measured.plot(ax) is ax
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [(0.05, 0.5), (0.95, 1.0)])
    plt.close(figure)


def test_a_captioner_learns_it(calibrated, unseen_scenes):
    captioner, measured = calibrated
    assert len(measured.confidences) == 120
    assert measured.confidences.min() >= 0 and measured.confidences.max() <= 1
    assert measured.are_right.mean() > 0.9  # this one knows its scenes
    assert measured.expected_error < 0.1
    results = captioner.caption([image.image_path for image in unseen_scenes[:20]], num_results=3)
    assert all(0 <= each.confidence <= 1 for result in results for each in (result, *result.alternatives))
    assert np.mean([result.confidence for result in results]) > 0.8
    alone = captioner.caption(unseen_scenes[0].image_path, num_results=3)
    assert alone.confidence == pytest.approx(results[0].confidence, abs=1e-4)  # whatever else is in the batch


def test_pictures_like_none_that_it_knows_are_doubted(calibrated):
    captioner, _ = calibrated
    rng = np.random.default_rng(0)
    pictures = [np.zeros((64, 64, 3), np.uint8), rng.integers(0, 256, (64, 64, 3)).astype(np.uint8)]
    assert all(result.confidence < 0.1 for result in captioner.caption(pictures))


def test_a_sentence_that_was_given_has_none(calibrated, unseen_scenes):
    captioner, _ = calibrated
    assert captioner.attend(unseen_scenes[0].image_path, "a red circle").confidence is None
    both = Ensemble([captioner, captioner])
    assert both.confidence is None and both.caption(unseen_scenes[0].image_path).confidence is None


def test_from_features_it_is_the_same(calibrated, unseen_scenes, tmp_path):
    captioner, measured = calibrated
    ids, paths = zip(*((image.image_id, image.image_path) for image in unseen_scenes))
    cache = FeatureCache.build(tmp_path, list(ids), list(paths), captioner.encoder_model, show_progress=False)
    other = calibrate(captioner, unseen_scenes, cache=cache, show_progress=False)
    np.testing.assert_allclose(other.confidences, measured.confidences, atol=0.02)  # features have 16 bits
    np.testing.assert_array_equal(other.are_right, measured.are_right)


@pytest.mark.parametrize(
    "images, wrong",
    [
        (slice(0, 99), "at least 100 photos .* 99 photos"),
        (slice(0, 0), "at least 100 photos .* 0 photos"),
    ],
)
def test_too_few_photos_are_refused(calibrated, unseen_scenes, images, wrong):
    with pytest.raises(ValueError, match=wrong):
        calibrate(calibrated[0], unseen_scenes[images], show_progress=False)


def test_photos_that_it_has_learnt_from_are_refused(calibrated, unseen_scenes):
    captioner = calibrated[0].adapted()
    captioner.note_training_photos([unseen_scenes[3].image_id])
    with pytest.raises(ValueError, match="1 photos that it has learnt from"):
        calibrate(captioner, unseen_scenes, show_progress=False)


# === Where it is kept ===


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_it_is_saved_with_the_captioner(calibrated, unseen_scenes, tmp_path, precision):
    captioner, _ = calibrated
    captioner.save(tmp_path / "model", precision=precision)
    loaded = Captioner.load(tmp_path / "model")
    for name, array in captioner.confidence.arrays.items():
        np.testing.assert_allclose(loaded.confidence.arrays[name], array, rtol=2e-3, atol=2e-3)
    if precision == "float32":
        path = unseen_scenes[0].image_path
        assert loaded.caption(path).confidence == pytest.approx(captioner.caption(path).confidence, abs=0.02)
    loaded.confidence = None
    loaded.save(tmp_path / "model")
    assert Captioner.load(tmp_path / "model").confidence is None
    assert not list((tmp_path / "model").glob("confidence-*"))


def test_it_is_added_without_touching_the_weights(calibrated, tmp_path):
    captioner, _ = calibrated
    other = captioner.adapted()
    assert other.confidence is None  # it will be trained further
    other.save(tmp_path / "model", precision="int8")
    (weights,) = (tmp_path / "model").glob("weights-*")
    before = weights.read_bytes()
    other.confidence = captioner.confidence
    save_confidence(other, tmp_path / "model")
    assert weights.read_bytes() == before
    assert Captioner.load(tmp_path / "model").confidence is not None
    other.restore_weights(tmp_path / "model")
    assert other.confidence is not None


def test_a_damaged_file_of_it_is_one_error(calibrated, tmp_path):
    calibrated[0].save(tmp_path / "model")
    (file,) = (tmp_path / "model").glob("confidence-*.npz")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="confidence-.*the file is damaged"):
        Captioner.load(tmp_path / "model")
    file.unlink()
    with pytest.raises(ValueError, match="confidence-.*this file is missing"):
        Captioner.load(tmp_path / "model")


def test_a_confidence_that_is_not_whole_or_foreign_is_refused(calibrated, tmp_path):
    captioner, _ = calibrated
    captioner.save(tmp_path / "model")
    arrays = captioner.confidence.arrays
    add_confidence(tmp_path / "model", {name: arrays[name] for name in doubt.ARRAYS[1:]})
    with pytest.raises(ValueError, match="its confidence is not whole. Expected: confidence/coefficients"):
        Captioner.load(tmp_path / "model")
    add_confidence(tmp_path / "model", made_up().arrays)
    for read in (Captioner.load, captioner.adapted().restore_weights):
        with pytest.raises(ValueError, match="features of length 66. Received: 2"):
            read(tmp_path / "model")
    for name, wrong in (("spreads", np.zeros(2)), ("strength", np.linspace(1, 0, doubt.NUM_QUANTILES))):
        with pytest.raises(ValueError, match="spreads are above 0, and quantiles never fall"):
            Confidence(**{**made_up().arrays, name: wrong})


@pytest.mark.slow
def test_it_does_not_outlive_the_weights(calibrated, unseen_scenes):
    captioner = calibrated[0].adapted()
    captioner.confidence = calibrated[0].confidence
    captioner.compile()
    batches = make_batches(unseen_scenes[:4], captioner.vocabulary, image_size=64)
    captioner.fit(batches, steps_per_epoch=1, verbose=0)
    assert captioner.confidence is None


# === Where it is shown ===


def test_players_and_galleries_show_it(calibrated, unseen_scenes, tmp_path):
    captioner, _ = calibrated
    results = captioner.caption([image.image_path for image in unseen_scenes[:3]])
    results = [dataclasses.replace(result, confidence=share) for result, share in zip(results, (0.624, 0.1, 1.0))]
    display = AttentionDisplay.from_result(results[0])
    display.to_html(tmp_path / "page.html")
    assert "The photo alone; confidence 62 %." in (tmp_path / "page.html").read_text()
    assert "confidence 62 %" in display._repr_html_()
    page = gallery(results, tmp_path / "gallery").read_text()
    assert 'data-sort="confidence"' in page and 'data-confidence="0.624000"' in page and "confidence 10 %" in page
    references = [image.captions for image in unseen_scenes[:3]]
    assert 'data-sort="cider"' in gallery(results, tmp_path / "gallery", references=references).read_text()
    without = gallery([dataclasses.replace(results[0], confidence=None), *results[1:]], tmp_path / "other").read_text()
    assert 'data-sort="confidence"' not in without


def test_caption_says_that_it_is_not_sure(calibrated, unseen_scenes, tmp_path, capsys):
    captioner, _ = calibrated
    captioner.save(tmp_path / "model")
    known = unseen_scenes[0].image_path
    Image.new("RGB", (64, 64)).save(tmp_path / "black.png")
    command = ["caption", known, str(tmp_path / "black.png"), "--model", str(tmp_path / "model")]
    assert main([*command, "--min-confidence", "0.3"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split("\t")[1] == captioner.caption(known).caption and second.split("\t")[1] == "not sure"
    assert main([*command, "--min-confidence", "0.3", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["confidence"] > 0.3 and "is_sure" not in first and "alternatives" not in first
    assert second["confidence"] < 0.3 and second["is_sure"] is False and second["caption"]


def test_a_terminal_is_told_how_far_to_trust_a_caption(calibrated, unseen_scenes, tmp_path, monkeypatch, capsys):
    captioner, _ = calibrated
    captioner.save(tmp_path / "model")
    Image.new("RGB", (64, 64)).save(tmp_path / "black.png")
    known, black = unseen_scenes[0].image_path, str(tmp_path / "black.png")
    best, doubtful = (captioner.caption(path) for path in (known, black))
    assert doubtful.confidence < DOUBTFUL < best.confidence, "the test needs one of each"
    plain = [f"{known}\t{best.caption}", f"{black}\t{doubtful.caption}"]
    shown = [f"(confidence {100 * result.confidence:.0f} %)" for result in (best, doubtful)]
    assert [_as_line(*pair, None) for pair in ((known, best), (black, doubtful))] == plain, "programs read that"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["caption", known, black, "--model", str(tmp_path / "model")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{plain[0]} {shown[0]}", f"not sure: {plain[1]} {shown[1]}"]
    assert _as_line(black, doubtful, 0.0) == f"{plain[1]} {shown[1]}", "a bound of one's own takes the place of ours"
    assert _as_line(black, doubtful, 0.3) == f"{black}\tnot sure {shown[1]}"
    assert _as_line(known, dataclasses.replace(best, confidence=None), None) == plain[0]


def test_several_captions_of_a_photo(calibrated, unseen_scenes, tmp_path, capsys):
    captioner, _ = calibrated
    captioner.save(tmp_path / "model")
    path = unseen_scenes[0].image_path
    command = ["caption", path, "--model", str(tmp_path / "model"), "--num-results", "5"]
    best = captioner.caption(path, num_results=5)
    assert len(best.alternatives) == 4
    assert main(command) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"{path}\t{best.caption}" and others == [f"\t{other.caption}" for other in best.alternatives]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [other["caption"] for other in found["alternatives"]] == [other.caption for other in best.alternatives]
    for one in (found, *found["alternatives"]):
        assert len(one["word_probs"]) == len(one["words"])
        assert sum(map(math.log, one["word_probs"])) > one["log_prob"] - 1e-3


@pytest.mark.parametrize(
    "options, wrong",
    [
        (["--min-confidence", "2"], "`--min-confidence` must be a number from 0 to 1"),
        (["--min-confidence", ".5", "--say", "a dog"], "--say with --min-confidence"),
        (["--min-confidence", ".5", "--model", "scenes", "--model", "scenes"], "captions have no confidence"),
    ],
)
def test_caption_refuses_a_bound_that_cannot_be(unseen_scenes, capsys, options, wrong):
    try:
        code = main(["caption", unseen_scenes[0].image_path, *options])
    except SystemExit as exit_:
        code = exit_.code
    assert code == 2 and wrong in capsys.readouterr().err


def test_caption_needs_a_calibrated_captioner_to_say_that_it_is_not_sure(unseen_scenes, tmp_path, capsys):
    Captioner.from_pretrained("scenes").adapted().save(tmp_path / "model")
    options = ["--min-confidence", ".5", "--model", str(tmp_path / "model")]
    assert main(["caption", unseen_scenes[0].image_path, *options]) == 2
    assert "captions have no confidence" in capsys.readouterr().err


@pytest.mark.slow
def test_calibrate_on_the_command_line(tmp_path, capsys):
    Captioner.from_pretrained("scenes").adapted().save(tmp_path / "model")
    options = ["--data", "scenes", "--data-dir", str(tmp_path / "scenes"), "--split", "test"]
    assert main(["calibrate", "scenes", *options]) == 2
    assert "a bundled model stays as it is" in capsys.readouterr().err.lower()
    captioner = Captioner.load(tmp_path / "model")
    captioner.training_photos = None
    captioner.save(tmp_path / "model")
    assert main(["calibrate", str(tmp_path / "model"), *options, "--json", str(tmp_path / "out.json")]) == 0
    assert "expected calibration error" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["photos"] >= 100
    assert Captioner.load(tmp_path / "model").confidence is not None


@pytest.mark.slow
def test_a_copy_keeps_the_weights_as_they_are(tmp_path, capsys):
    captioner = Captioner.from_pretrained("scenes")
    captioner.training_photos = captioner.confidence = None
    captioner.save(tmp_path / "model", precision="int8")
    options = ["--data", "scenes", "--data-dir", str(tmp_path / "scenes"), "--output-dir", str(tmp_path / "copy")]
    assert main(["calibrate", str(tmp_path / "model"), *options]) == 0
    (weights,), (copied,) = ((tmp_path / name).glob("weights-*") for name in ("model", "copy"))
    assert copied.name == weights.name and copied.read_bytes() == weights.read_bytes()
    assert Captioner.load(tmp_path / "copy").confidence is not None
    assert Captioner.load(tmp_path / "model").confidence is None
    assert main(["calibrate", str(tmp_path / "model"), *options]) == 2  # noticed before anything is captioned
    assert "needs a folder of its own" in capsys.readouterr().err


def test_unreadable_photos_are_left_out(calibrated, unseen_scenes, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    broken = CaptionedImage("broken", str(tmp_path / "broken.png"), ["a red circle"], "dev")
    with pytest.raises(ValueError, match="broken.png"):
        calibrate(calibrated[0], [*unseen_scenes, broken], show_progress=False)
    with pytest.warns(UserWarning, match="1 photos that cannot be read are left out"):
        found = calibrate(calibrated[0], [*unseen_scenes, broken], skip_unreadable=True, show_progress=False)
    assert len(found.are_right) == len(unseen_scenes)


def test_photos_without_captions_say_nothing(calibrated, unseen_scenes):
    silent = [CaptionedImage(image.image_id, image.image_path, [], "dev") for image in unseen_scenes]
    with pytest.raises(ValueError, match="0 photos"):
        calibrate(calibrated[0], silent, show_progress=False)


# === What `fit` does in the end ===


@pytest.mark.parametrize("rewards", [True, False])
@pytest.mark.slow
def test_fit_calibrates_in_the_end(monkeypatch, tmp_path, capsys, rewards, without_graphs):
    monkeypatch.setattr(recipe, "FEWEST_PHOTOS", 3)
    monkeypatch.setattr(calibration, "FEWEST_PHOTOS", 3)
    monkeypatch.setattr(calibration, "NUM_FOLDS", 2)
    options = {"epochs": 1, "self_critical_epochs": int(rewards), "num_drawn": 2}
    captioner = train(tmp_path / "run", show_progress=True, **options)
    assert "of the captions of dev are right" in capsys.readouterr().out
    folder = tmp_path / "run" / ("self_critical/model" if rewards else "model")
    saved = Captioner.load(folder).confidence.arrays
    for name, array in captioner.confidence.arrays.items():
        np.testing.assert_allclose(saved[name], array, rtol=2e-3, atol=2e-3)
    train(tmp_path / "run", show_progress=True, **options)  # loaded: it has one already
    assert "of the captions of dev are right" not in capsys.readouterr().out
    if rewards:  # what was trained on words alone gets its own, and the other one keeps its
        train(tmp_path / "run", **{**options, "self_critical_epochs": 0})
        kept = Captioner.load(folder).confidence.arrays["coefficients"]
        np.testing.assert_allclose(kept, captioner.confidence.arrays["coefficients"])
        assert Captioner.load(tmp_path / "run" / "model").confidence is not None


@pytest.mark.slow
def test_a_training_is_not_lost_for_its_calibration(monkeypatch, tmp_path, without_graphs):
    def fails(*arguments, **options):
        raise OSError("the disk is full")

    def is_stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(recipe, "FEWEST_PHOTOS", 3)
    monkeypatch.setattr(recipe, "calibrate", fails)
    with pytest.warns(UserWarning, match="is trained, and has no confidence: the disk is full"):
        captioner = train(tmp_path / "run", epochs=1)
    assert captioner.confidence is None and len(captioner.history["loss"]) == 1
    monkeypatch.setattr(recipe, "calibrate", is_stopped)
    assert len(train(tmp_path / "run", epochs=1).history["loss"]) == 1
