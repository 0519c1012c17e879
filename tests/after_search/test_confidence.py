"""Confidence of captions: its formula, its calibration, where it is saved and shown."""

import dataclasses
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from small_training import train

from data_utils import CaptionedImage, FeatureCache, make_batches
from keras_sat.__main__ import main
from keras_sat.after_search import calibration
from keras_sat.after_search.calibration import calibrate, logistic_regression
from keras_sat.after_search.confidence import Confidence, clues_of, token_probs_of
from keras_sat.captioner import Captioner
from keras_sat.commands.caption import LOW_CONFIDENCE, line_of
from keras_sat.files import save_records
from keras_sat.looking import AttentionDisplay, gallery
from keras_sat.measuring import Calibration, fraction_named
from keras_sat.search import Ensemble
from keras_sat.training import plan, recipe


@pytest.fixture(scope="module")
def calibrated(scenes):
    captioner = Captioner.from_pretrained("scenes")
    return captioner, calibrate(captioner, scenes, show_progress=False)


@pytest.fixture
def saved(calibrated, tmp_path):
    calibrated[0].save(tmp_path / "model")
    return tmp_path / "model"


def test_clues():
    word_probs = np.array([[[0.5, 0.25, 0.0], [1.0, 1.0, 1.0]], [[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]]])
    # Two photos of two regions.
    features = np.array([[[3.0, 4.0], [0.0, 1.0]], [[6.0, 8.0], [0.0, 0.0]]])
    clues, norms = clues_of(word_probs, features)
    logs = -np.log([2, 4, 10])
    expected = [
        [[logs[:2].mean(), logs[1], 2, 0.75], [0, 0, 3, 0.75]],
        [[0, 0, 1, 0.5], [logs[2], logs[2], 1, 0.5]],
    ]
    np.testing.assert_allclose(clues, expected, rtol=1e-6)
    np.testing.assert_allclose(norms, [[3], [5]], rtol=1e-6)


def test_confidence_is_a_sigmoid_and_falls_to_0_for_photos_unlike_the_others():
    confidence = Confidence([1.0, 2.0, 0.0, -1.0, 0.0], [1.0, 2.0, 4.0, 8.0])
    found = confidence.of_clues(
        np.array([-1.0, 0.0, 1.0, 7.0]), np.array([0.5, 1.5, 3.0, 5.0, 9.0])
    )
    np.testing.assert_allclose(found, np.array([0, 0.5, 1, 0.75, 0]) / (1 + np.exp(2)), rtol=1e-6)
    for damaged in (
        (np.ones(4), [1, 2, 4, 8]),
        (np.full(5, np.nan), [1, 2, 4, 8]),
        (np.ones(5), [1, 2, 8, 4]),
    ):
        with pytest.raises(ValueError, match="confidence of this model is damaged"):
            Confidence(*damaged)


def test_log_prob_is_that_of_the_words_and_of_end(calibrated, scenes):
    captioner, path = calibrated[0], scenes[0].image_path
    best = captioner.caption(path, num_results=3)
    cut_off = captioner.caption(path, max_length=2)
    for result in (best, *best.alternatives, captioner.attend(path, "a red circle")):
        expected = np.log(result.word_probs).sum() + np.log(result.end_prob)
        assert result.log_prob == pytest.approx(expected, abs=1e-4)
    assert cut_off.end_prob is None and not cut_off.is_finished
    probs = token_probs_of([[best, *best.alternatives], [cut_off]])
    longest = max(len(result.words) for result in (best, *best.alternatives))
    assert probs.shape == (2, 3, longest + 1) and probs[0, 0].sum() > len(best.words) - 1
    assert probs[1, 0, 0] == cut_off.word_probs[0] and not probs[1, 1:].any()


def test_logistic_regression_finds_the_true_coefficients():
    rng = np.random.default_rng(1)
    clues = rng.normal(3, 2, (20_000, 1))
    are_right = rng.random(20_000) < 1 / (1 + np.exp(2 - 0.5 * clues[:, 0]))
    np.testing.assert_allclose(logistic_regression(clues, are_right), [-2.0, 0.5], atol=0.08)
    bias, coefficient = logistic_regression(np.full((50, 1), -1.0), np.ones(50))
    assert 2 < bias - coefficient < 9, "finite, even if all captions are right"


def test_share_of_naming_words():
    references = [["a", "brown", "dog"], ["the", "dog", "runs"]]
    assert fraction_named(["a", "black", "dog", "runs"], references) == pytest.approx(2 / 3)
    assert fraction_named(["a", "is", "on"], references) == 0
    assert fraction_named(["dog", "dog", "cat"], references) == 0.5  # each word once


def test_calibration_measures_the_error():
    measured = Calibration(np.array([0.05, 0.05, 0.95, 0.95]), np.array([False, True, True, True]))
    first, last = json.loads(json.dumps(measured.to_dict()))["bins"]
    assert first == {"from": 0.0, "photos": 2, "confidence": pytest.approx(0.05), "right": 0.5}
    assert last == {"from": 0.9, "photos": 2, "confidence": pytest.approx(0.95), "right": 1.0}
    assert measured.expected_error == pytest.approx((0.45 + 0.05) / 2) and "error: 0.250" in str(
        measured
    )
    # a wrong one ties with one of three right ones
    assert measured.separation == pytest.approx(2.5 / 3)
    figure, ax = plt.subplots()
    np.testing.assert_allclose(measured.plot(ax).lines[1].get_xydata(), [(0.05, 0.5), (0.95, 1.0)])
    plt.close(figure)


def test_a_captioner_is_calibrated(calibrated, captioner, scenes, tmp_path):
    bundled, (captioner, measured) = captioner, calibrated
    assert (
        len(measured.confidences) == 120
        and measured.are_right.mean() > 0.9
        and measured.expected_error < 0.1
    )
    results = captioner.caption([image.image_path for image in scenes[:20]], num_results=3)
    assert all(
        0 <= each.confidence <= 1 for result in results for each in (result, *result.alternatives)
    )
    assert np.mean([result.confidence for result in results]) > 0.8
    alone = captioner.caption(scenes[0].image_path, num_results=3)
    # Whatever else is in the batch.
    assert alone.confidence == pytest.approx(results[0].confidence, abs=1e-4)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    # Calibrated on scenes of which some captions are wrong.
    assert all(result.confidence < 0.1 for result in bundled.caption([np.zeros_like(noise), noise]))
    assert captioner.attend(scenes[0].image_path, "a red circle").confidence is None
    assert Ensemble([captioner, captioner]).caption(scenes[0].image_path).confidence is None
    ids, paths = zip(*((image.image_id, image.image_path) for image in scenes))
    cache = FeatureCache.build(
        tmp_path, list(ids), list(paths), captioner.encoder_model, show_progress=False
    )
    other = calibrate(captioner.adapted(), scenes, cache=cache, show_progress=False)
    # Features have 16 bits.
    np.testing.assert_allclose(other.confidences, measured.confidences, atol=0.02)


def test_the_captioner_has_its_own_confidence_while_it_is_calibrated_again(
    calibrated, scenes, monkeypatch
):
    captioner, seen = calibrated[0], []
    first = captioner.confidence
    monkeypatch.setattr(captioner, "confidence", first)  # and again in the end

    def recorded(word_probs, features):
        seen.append(captioner.confidence)
        return clues_of(word_probs, features)

    monkeypatch.setattr(calibration, "clues_of", recorded)
    calibrate(captioner, scenes, show_progress=False)
    assert seen and all(confidence is first for confidence in seen)
    assert captioner.confidence is not first


def test_photos_that_cannot_serve(calibrated, scenes, tmp_path, monkeypatch):
    captioner = calibrated[0]
    for name in ("confidence", "training_photos"):  # as they were in the end
        monkeypatch.setattr(captioner, name, getattr(captioner, name))
    without_captions = [dataclasses.replace(image, captions=[]) for image in scenes[:30]]
    dev = [dataclasses.replace(image, split="dev") for image in scenes[30:]]
    with pytest.raises(ValueError, match="at least 100 photos .* 90 photos of 'dev'"):
        calibrate(captioner, [*without_captions, *dev], show_progress=False)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    broken = CaptionedImage("broken", str(tmp_path / "broken.png"), ["a red circle"], "dev")
    with pytest.warns(UserWarning, match="unreadable photos left out: 1 of"):
        found = calibrate(captioner, [*scenes, broken], skip_unreadable=True, show_progress=False)
    assert len(found.are_right) == len(scenes)
    captioner.note_training_photos([scenes[3].image_id])
    with pytest.raises(ValueError, match="trained on 1 of the"):
        calibrate(captioner, scenes, show_progress=False)


def test_copies_of_two_photos_are_too_alike(calibrated, scenes):
    copies = [
        dataclasses.replace(scenes[number % 2], image_id=f"copy{number}") for number in range(120)
    ]
    with pytest.raises(ValueError, match="too alike .* of which 2 have different"):
        calibrate(calibrated[0], copies, show_progress=False)


def test_it_is_saved_with_the_captioner(calibrated, scenes, saved):
    loaded, path = Captioner.load(saved), scenes[0].image_path
    assert loaded.caption(path).confidence == pytest.approx(
        calibrated[0].caption(path).confidence, abs=1e-5
    )
    weights, confidence = loaded.weights_digest(), loaded.confidence
    loaded.confidence = None
    loaded.save(saved)
    assert Captioner.load(saved).confidence is None
    loaded.confidence = confidence
    save_records(loaded, saved)
    again = Captioner.load(saved)
    assert again.weights_digest() == weights and again.confidence.to_dict() == confidence.to_dict()
    assert again.adapted().confidence is None  # it will be trained further


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.slow
def test_it_does_not_outlive_the_weights(calibrated, scenes):
    captioner = calibrated[0].adapted()
    captioner.confidence = calibrated[0].confidence
    captioner.compile()
    captioner.fit(
        make_batches(scenes[:4], captioner.vocabulary, image_size=64), steps_per_epoch=1, verbose=0
    )
    assert captioner.confidence is None


@pytest.mark.slow
def test_fit_calibrates_at_the_end(monkeypatch, tmp_path, capsys, without_graphs):
    for module in (calibration, plan):
        monkeypatch.setattr(module, "FEWEST_DEV_PHOTOS", 3)
    monkeypatch.setattr(calibration, "NUM_FOLDS", 2)
    options = {"epochs": 1, "self_critical_epochs": 1}
    confidence = train(tmp_path / "run", show_progress=True, **options).confidence
    assert "of the dev captions are correct" in capsys.readouterr().out
    train(tmp_path / "run", show_progress=True, **options)  # loaded: it has one already
    assert "of the dev captions are correct" not in capsys.readouterr().out
    # The captioner before the rewards gets its own, and the other one keeps its.
    train(tmp_path / "run", epochs=1)
    folders = [tmp_path / "run" / folder for folder in ("self_critical/model", "model")]
    assert Captioner.load(folders[0]).confidence.to_dict() == confidence.to_dict()
    assert Captioner.load(folders[1]).confidence is not None


@pytest.mark.slow
def test_a_failed_calibration_does_not_lose_the_training(monkeypatch, tmp_path, without_graphs):
    def fail(*arguments, **options):
        raise OSError("the disk is full")

    for module in (calibration, plan):
        monkeypatch.setattr(module, "FEWEST_DEV_PHOTOS", 3)
    monkeypatch.setattr(recipe, "calibrate", fail)
    with pytest.warns(UserWarning, match="without a confidence: the disk is full"):
        captioner = train(tmp_path / "run", epochs=1)
    assert captioner.confidence is None and len(captioner.history["loss"]) == 1


@pytest.mark.slow
def test_calibrate_on_the_command_line(saved, tmp_path, capsys):
    options = [
        "--data",
        "scenes",
        "--data-dir",
        str(tmp_path / "scenes"),
        "--output-dir",
        str(tmp_path / "copy"),
    ]
    before = (saved / "config.json").read_bytes()
    assert main(["calibrate", str(saved), *options, "--json", str(tmp_path / "out.json")]) == 0
    assert "calibration error" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["photos"] >= 100
    assert (
        (saved / "config.json").read_bytes()
        == before
        != (tmp_path / "copy" / "config.json").read_bytes()
    )
    assert main(["calibrate", str(saved), *options]) == 2  # noticed before anything is captioned
    assert "to a new or empty folder" in capsys.readouterr().err
    assert main(["calibrate", "scenes", *options[:4]]) == 2
    assert "a bundled or downloaded model cannot be changed" in capsys.readouterr().err.lower()


def test_players_and_galleries_show_it(calibrated, scenes, tmp_path):
    results = calibrated[0].caption([image.image_path for image in scenes[:2]])
    results = [
        dataclasses.replace(result, confidence=value)
        for result, value in zip(results, (0.624, 0.1))
    ]
    player = AttentionDisplay.from_result(results[0])._repr_html_()
    assert "&quot;confidence&quot;: 0.624," in player
    page = gallery(results, tmp_path / "gallery").read_text()
    assert (
        'data-sort="confidence"' in page
        and 'data-confidence="0.624000"' in page
        and "confidence 10 %" in page
    )


@pytest.mark.slow
def test_the_command_line_shows_it(calibrated, scenes, saved, monkeypatch, capsys):
    known, black = scenes[0].image_path, str(saved.parent / "black.png")
    Image.new("RGB", (64, 64)).save(black)
    best, doubtful = calibrated[0].caption(known, num_results=3), calibrated[0].caption(black)
    assert doubtful.confidence < LOW_CONFIDENCE < best.confidence, "the test needs one of each"
    command = ["caption", known, black, "--model", str(saved)]
    assert main([*command, "--min-confidence", "0.3", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["confidence"] > 0.3 and "is_sure" not in first and "alternatives" not in first
    assert second["confidence"] < 0.3 and second["is_sure"] is False and second["caption"]
    shown = [f"(confidence {100 * result.confidence:.0f} %)" for result in (best, doubtful)]
    plain = [f"{known}\t{best.caption}", f"{black}\t{doubtful.caption}"]
    assert [line_of(*pair, None) for pair in ((known, best), (black, doubtful))] == plain, (
        "programs read that"
    )
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{plain[0]} {shown[0]}",
        f"not sure: {plain[1]} {shown[1]}",
    ]
    assert line_of(black, doubtful, 0.0) == f"{plain[1]} {shown[1]}", (
        "a bound of one's own takes the place of ours"
    )
    monkeypatch.undo()
    assert main(["caption", known, "--model", str(saved), "--num-results", "3"]) == 0
    others = [f"\t{other.caption}" for other in best.alternatives]
    assert capsys.readouterr().out.splitlines() == [plain[0], *others]
    assert main([*command, "--model", str(saved), "--min-confidence", ".5"]) == 2
    assert "This model does not estimate confidence" in capsys.readouterr().err
    assert main([*command, "--say", "a dog", "--min-confidence", ".5"]) == 2
    assert "--say with --min-confidence" in capsys.readouterr().err
