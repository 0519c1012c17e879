"""Captions without TensorFlow: the file for LiteRT, who makes it when, and that its captions are the captioner's."""

import json
import subprocess
import sys

import numpy as np
import pytest

from data_utils import draw_scenes
from keras_sat import Captioner, fast, load_fast
from keras_sat.__main__ import main
from keras_sat.files.model_folder import pretrained_directory

pytest.importorskip(
    "ai_edge_litert", reason="ai-edge-litert is not installed: captions without TensorFlow are not tested"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of Keras in which nothing was made yet."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("keras")
        patched.setenv("KERAS_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def quick(home):
    return load_fast("scenes")


@pytest.fixture(scope="module")
def captioner():
    return Captioner.from_pretrained("scenes")


@pytest.fixture
def pictures(tmp_path):
    for number, scene in enumerate(draw_scenes(12, seed=5)):
        (tmp_path / f"{number:02}.png").write_bytes(scene.png())
    return tmp_path


def test_captions_are_those_of_the_captioner(quick, captioner, pictures):
    found, expected = quick.caption(pictures), captioner.caption(pictures, num_results=3)
    assert len(found) == 12 and quick.has_confidence and quick.photo_size == (64, 64)
    for one, other in zip(found, expected):
        assert one.caption == other.caption and one.is_finished
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-3)
        np.testing.assert_allclose(one.attention_weights, other.attention_weights, atol=1e-4)
        np.testing.assert_allclose(one.word_probs, other.word_probs, atol=1e-4)
        np.testing.assert_array_equal(one.image, other.image)
        assert [same.caption for same in one.alternatives] == [same.caption for same in other.alternatives]
    one = quick.caption(pictures / "00.png")
    assert one.caption == found[0].caption and quick.caption([one.image])[0].caption == one.caption


def test_a_caption_that_is_given_is_read(quick, captioner, pictures):
    sentence = "A red circle is above a zebra"
    found, expected = (one.attend(pictures / "03.png", sentence) for one in (quick, captioner))
    assert found.words == expected.words and found.log_prob == pytest.approx(expected.log_prob, abs=1e-3)
    np.testing.assert_allclose(found.attention_weights, expected.attention_weights, atol=1e-4)
    np.testing.assert_allclose(found.word_probs, expected.word_probs, atol=1e-4)
    for bad in ("", "a " * 20):
        with pytest.raises(ValueError, match="a caption of 1 to 19 words"):
            quick.attend(pictures / "03.png", bad)


def test_pictures_that_cannot_be_read(quick, pictures):
    (pictures / "bad.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="not a picture"):
        quick.caption(pictures / "bad.png")
    with pytest.raises(FileNotFoundError):
        quick.caption(pictures / "missing.png")
    paths = [str(pictures / name) for name in ("00.png", "bad.png", "01.png")]
    kinds = [type(result).__name__ for _, result in quick.caption_each(paths, errors="yield")]
    assert kinds == ["CaptionResult", "ValueError", "CaptionResult"]


def test_an_export_is_taken_as_it_is(captioner, tmp_path, pictures):
    folder = captioner.export(tmp_path / "exported", "litert")
    greedy = load_fast(folder)
    expected = captioner.caption(pictures / "02.png", num_beams=1)
    assert greedy.caption(pictures / "02.png").caption == expected.caption and not greedy.has_confidence
    with pytest.raises(ValueError, match="writes captions and reads none"):
        greedy.attend(pictures / "02.png", "a circle")
    (folder / "vocabulary.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="Expected: the vocabulary of an export"):
        load_fast(folder)
    (folder / "model.tflite").write_bytes(b"no network")
    with pytest.raises(ValueError, match="this file for LiteRT cannot be read"):
        load_fast(folder)


def test_the_command_line_prints_the_same_with_and_without_tensorflow(quick, pictures, monkeypatch, capsys):
    def printed(*options):
        assert main(["caption", str(pictures / "04.png"), str(pictures / "05.png"), "--model", "scenes", *options]) == 0
        return capsys.readouterr().out.splitlines()

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines, objects = printed(), printed("--json")
    monkeypatch.setattr(fast, "is_installed", lambda: False)
    assert printed() == lines and "(confidence " in lines[0]
    for one, other in zip(map(json.loads, objects), map(json.loads, printed("--json"))):
        assert list(one) == list(other) and one["caption"] == other["caption"]
        assert one["word_probs"] == pytest.approx(other["word_probs"], abs=1e-3)


def test_another_model_has_another_file(home, quick, captioner, tmp_path):
    captioner.save(tmp_path / "same")
    other = Captioner(captioner.vocabulary, encoder="tiny", image_size=32, hidden_dim=5)
    other.build(((None, 32, 32, 3), (None, None)))
    other.save(tmp_path / "other")
    assert fast.fast_folder("scenes") == fast.fast_folder(pretrained_directory("scenes")) is not None
    assert fast.fast_folder(tmp_path / "other") is None
    for bad in ("nothing-there", tmp_path):
        with pytest.raises(ValueError, match="config.json|no folder of that name"):
            load_fast(bad)


def test_the_file_is_made_once(home, quick, monkeypatch):
    monkeypatch.setattr(fast, "make_fast", lambda model: pytest.fail("it is there"))
    load_fast("scenes", num_threads=1)


ONE = """
import sys
from keras_sat.__main__ import main
status = main(sys.argv[1:])
print("tensorflow" in sys.modules)
sys.exit(status)
"""


def run(*arguments):
    done = subprocess.run([sys.executable, "-c", ONE, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, imported = done.stdout.splitlines()
    return lines, imported == "True", done.stderr


@pytest.mark.slow
def test_from_the_shell_without_tensorflow(pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    command = ["caption", pictures / "04.png", "--model", "scenes"]
    first, with_tensorflow, said = run(*command)
    assert with_tensorflow and said == "", "not a terminal: nothing is said of the file that is made"
    again, with_tensorflow, said = run(*command, "--num-beams", "3")
    assert not with_tensorflow and again == first and said == ""
    lines, with_tensorflow, _ = run(
        *command, "--json", "--maps", "--plot", tmp_path / "x.png", "--html", tmp_path / "x.html"
    )
    assert not with_tensorflow and (tmp_path / "x.png").is_file() and '"confidence"' in lines[0]
    _, with_tensorflow, said = run(*command, "--say", "a red zebra")
    assert not with_tensorflow and "words that the model does not know: zebra" in said
    for other in (["--num-beams", "5"], ["--length-penalty", "0.2"]):
        assert run(*command, *other)[1], "what the file was not made for"


def test_what_cannot_be_made_costs_no_caption(pictures, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))

    def full(model):
        raise OSError(28, "No space left on device", "model.tflite")

    monkeypatch.setattr(fast, "make_fast", full)
    assert main(["caption", str(pictures / "04.png"), "--model", "scenes"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1 and captured.err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["caption", str(pictures / "04.png"), "--model", "scenes"]) == 0
    assert "that is left out: model.tflite: No space left" in capsys.readouterr().err


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(fast, "is_installed", lambda: False)
    with pytest.raises(ValueError, match="need the package ai-edge-litert"):
        load_fast("scenes")
