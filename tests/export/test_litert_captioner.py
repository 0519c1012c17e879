"""Captions without TensorFlow: they are the captioner's, and its file for LiteRT is
made once and checked.
"""

import contextlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same_caption, make_captioner

from data_utils import DATASETS, Vocabulary, draw_scenes
from data_utils.base import exclusive_lock, write_json
from keras_sat import Captioner, evaluate, load_litert
from keras_sat.__main__ import main
from keras_sat.after_search import Consensus
from keras_sat.export import litert_captioner, litert_engine
from keras_sat.export.litert_folder import read_litert, write_litert
from keras_sat.files import BUNDLED_MODELS

pytest.importorskip(
    "ai_edge_litert",
    reason="ai-edge-litert is not installed: captions without TensorFlow are not tested",
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
    return load_litert("scenes")


@pytest.fixture
def pictures(tmp_path):
    for number, scene in enumerate(draw_scenes(12, seed=5)):
        (tmp_path / f"{number:02}.png").write_bytes(scene.png())
    return tmp_path


def test_captions_are_those_of_the_captioner(quick, captioner, pictures):
    found, expected = quick.caption(pictures), captioner.caption(pictures, num_results=3)
    assert len(found) == 12 and quick.has_confidence and quick.photo_size == (64, 64)
    for one, other in zip(found, expected):
        assert_same_caption(one, other, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
        assert one.is_finished
        assert one.image_path == other.image_path and Path(one.image_path).is_file()
        assert one.confidence == pytest.approx(other.confidence, abs=1e-3)
        np.testing.assert_allclose(one.word_probs, other.word_probs, atol=1e-4)
        np.testing.assert_array_equal(one.image, other.image)
        assert [same.caption for same in one.alternatives] == [
            same.caption for same in other.alternatives
        ]
    one = quick.caption(pictures / "00.png")
    assert one.caption == found[0].caption and quick.caption([one.image])[0].caption == one.caption


class ShiftingBeams:
    """The signature "beams" of version 0.1.0, which took shifts of the logits."""

    def __init__(self, runner):
        self.runner = runner

    def get_input_details(self):
        shifts = {"shape": np.array([1, 7]), "dtype": np.float32}
        return {**self.runner.get_input_details(), "shifts": shifts}

    def get_output_details(self):
        return self.runner.get_output_details()

    def __call__(self, *, shifts, **inputs):
        np.testing.assert_array_equal(shifts, np.zeros((1, 7), np.float32))
        return self.runner(**inputs)


def test_a_file_that_takes_shifts_of_logits_gets_none(quick, home, pictures, monkeypatch):
    class Interpreter(litert_engine.Interpreter):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.runners["beams"] = ShiftingBeams(self.runners["beams"])

    monkeypatch.setattr(litert_engine, "Interpreter", Interpreter)
    photo = pictures / "00.png"
    assert load_litert("scenes").caption(photo).caption == quick.caption(photo).caption


def test_features_are_those_of_the_captioner(quick, captioner):
    photos = np.stack([scene.image for scene in draw_scenes(3, seed=5)])
    np.testing.assert_allclose(quick.encode(photos), captioner.encode(photos), atol=1e-3)
    for wrong, expected in (
        (photos[0], "photos, height, width, 3"),
        (photos[:, ::2], "photos, 64, 64, 3"),
        ("photos/", "encode_each takes paths"),
    ):
        with pytest.raises(ValueError, match=expected):
            quick.encode(wrong)


@pytest.mark.slow
@pytest.mark.usefixtures("small_index")
def test_it_chooses_by_consensus(home, captioner, pictures, tmp_path):
    scenes = DATASETS["scenes"](tmp_path / "scenes", num_scenes=120, seed=77)
    indexed = captioner.adapted(consensus_weight=3.0)
    indexed.consensus = Consensus.build(indexed, scenes, show_progress=False)
    indexed.save(tmp_path / "model")
    quick, paths = load_litert(tmp_path / "model"), sorted(pictures.glob("*.png"))[:3]
    for one, other in zip(quick.caption(paths), indexed.caption(paths)):
        assert one.caption == other.caption and one.likely_words == other.likely_words
        assert (
            one.consensus == pytest.approx(other.consensus, abs=1e-3) and len(one.alternatives) == 9
        )
    assert quick.consensus and not load_litert("scenes").consensus
    (index,) = litert_captioner.made_folder(tmp_path / "model").glob("index-*.npz")
    content = index.read_bytes()
    index.write_bytes(content[:-1])
    assert load_litert(tmp_path / "model").consensus and index.read_bytes() == content


def test_a_caption_that_is_given_is_read(quick, captioner, pictures):
    sentence = "A red circle is above a zebra"
    found, expected = (one.attend(pictures / "03.png", sentence) for one in (quick, captioner))
    assert_same_caption(found, expected, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
    np.testing.assert_allclose(found.word_probs, expected.word_probs, atol=1e-4)
    np.testing.assert_allclose(found.photo_weights, expected.photo_weights, atol=1e-4)
    with pytest.raises(ValueError, match="a caption of 1 to 19 words"):
        quick.attend(pictures / "03.png", "a " * 20)


def test_it_has_the_methods_of_a_captioner(quick, captioner, pictures):
    paths = sorted(pictures.glob("*.png"))[:3]
    features = [grid for _, grid in quick.encode_each(paths)]
    found = quick.caption_features(np.stack(features), num_results=2)
    for one, other in zip(found, captioner.caption(paths, num_results=2), strict=True):
        assert_same_caption(one, other, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
        assert [same.caption for same in one.alternatives] == [
            same.caption for same in other.alternatives
        ]
        assert one.end_prob == pytest.approx(other.end_prob, abs=1e-4)
    sentences = ["a red circle", "a blue square is above a star", "a circle"]
    read = quick.attend(paths, sentences)
    for one, other in zip(read, captioner.attend(paths, sentences), strict=True):
        assert_same_caption(one, other, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
    both = quick.attend_features(np.stack(features), sentences)
    assert [one.log_prob for one in both] == [one.log_prob for one in read]
    with pytest.raises(ValueError, match=r"features of shape \(photos, 256, 66\)"):
        quick.caption_features(np.stack(features)[:, 1:])


def test_another_search_than_its_file_has_is_an_error(quick, pictures):
    photo = pictures / "00.png"
    plain = quick.caption(photo)
    same = quick.caption(photo, num_beams=3, max_length=20, batch_size=9, seed=1)
    assert same.log_prob == plain.log_prob and len(plain.alternatives) == 2
    assert quick.caption(photo, num_results=1).alternatives == []
    wrong = {"num_beams": 5, "max_length": 9, "length_penalty": 0.0, "temperature": 1.0}
    for name, value in wrong.items():
        options = {name: value, **({"num_beams": 1} if name == "temperature" else {})}
        with pytest.raises(ValueError, match=rf"Captioner.from_pretrained.*Received: \w+={value}$"):
            quick.caption(photo, **options)
    with pytest.raises(ValueError, match="Votes are computed by .*votes=True"):
        quick.caption(photo, votes=True)
    with pytest.raises(ValueError, match="requires an index of training photos"):
        quick.caption(photo, consensus_weight=1.0)
    with pytest.raises(ValueError, match="which know their training photos.*LiteRTCaptioner"):
        evaluate(quick, "scenes")
    with pytest.raises(ValueError, match="more results than beams.*num_results=4, num_beams=3"):
        quick.caption(photo, num_results=4)


REGIONS = [(0.0, 0.0, 0.5, 0.6), (0.3, 0.2, 0.9, 0.95), (0.0, 0.0, 1.0, 1.0)]


def test_a_region_is_captioned_as_by_the_captioner(quick, captioner, pictures):
    picture = pictures / "00.png"
    (found,), (expected,) = (each.caption([picture], region=REGIONS) for each in (quick, captioner))
    for result, same in zip(found, expected, strict=True):
        assert result.region == same.region and result.image_path == str(picture)
        assert_same_caption(result, same, log_prob={"atol": 1e-3}, maps={"atol": 1e-4})
        assert result.confidence == pytest.approx(same.confidence, abs=1e-3)
        np.testing.assert_array_equal(result.image, same.image)
    assert found[2].log_prob == quick.caption(picture).log_prob  # the whole photo
    assert quick.caption(picture, region=REGIONS[1]).caption == found[1].caption
    with pytest.raises(ValueError, match="a rectangle within the photo"):
        quick.caption(picture, region=(0.5, 0.5, 0.4, 1))


def test_an_error_may_be_yielded(quick, pictures):
    (pictures / "bad.png").write_bytes(b"no picture")
    paths = [str(pictures / name) for name in ("00.png", "bad.png", "01.png")]
    with pytest.raises(ValueError, match="not a picture"):
        quick.caption(paths)
    kinds = [type(result).__name__ for _, result in quick.caption_each(paths, errors="yield")]
    assert kinds == ["CaptionResult", "ValueError", "CaptionResult"]


def test_many_photos_in_parallel_give_the_same_in_their_order(quick, pictures, monkeypatch):
    (pictures / "bad.png").write_bytes(b"no picture")
    paths = [
        str(pictures / name)
        for name in ("00.png", "bad.png", *(f"{number:02d}.png" for number in range(1, 6)))
    ]
    expected = [
        (path, getattr(result, "caption", None))
        for path, result in quick.caption_each(paths, errors="yield")
    ]
    made = []

    class Interpreter(litert_engine.Interpreter):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(arguments)

    monkeypatch.setattr(litert_engine, "Interpreter", Interpreter)
    parallel = load_litert("scenes", num_threads=3)
    paths, expected = paths * 5, expected * 5
    assert len(paths) >= litert_engine.FEWEST_IN_PARALLEL
    found = parallel.caption_each(paths, errors="yield")
    assert [(path, getattr(result, "caption", None)) for path, result in found] == expected
    with pytest.raises(ValueError, match="not a picture"):
        parallel.caption(paths)
    assert len(made) == 1 + 3, "one for a few photos, and one in each thread"
    right = [quick.attend(paths[0], "a circle").log_prob] * len(paths)
    found = [
        result.log_prob for _, result in parallel.attend_each([paths[0]] * len(paths), "a circle")
    ]
    assert found == pytest.approx(right, abs=1e-5)


@pytest.mark.slow
def test_an_export_is_taken_as_it_is(captioner, tmp_path, pictures, capsys):
    folder = captioner.export(tmp_path / "exported", "litert")
    greedy = load_litert(folder)
    expected = captioner.caption(pictures / "02.png", num_beams=1)
    assert (
        greedy.caption(pictures / "02.png").caption == expected.caption
        and not greedy.has_confidence
    )
    with pytest.raises(ValueError, match="cannot read a given caption"):
        greedy.attend(pictures / "02.png", "a circle")
    photos = np.zeros((1, 64, 64, 3), np.uint8)
    for encoded in (
        lambda: greedy.encode(photos),
        lambda: [*greedy.encode_each([])],
        lambda: greedy.caption_features(photos),
    ):
        with pytest.raises(ValueError, match="returns no features; use one from `export --web`"):
            encoded()
    part = greedy.caption(pictures / "02.png", region=REGIONS[0])
    same = captioner.caption(pictures / "02.png", region=REGIONS[0], num_beams=1)
    assert part.caption == same.caption
    (folder / "vocabulary.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="vocabulary.txt: .*damaged.*Export the captioner again"):
        load_litert(folder)
    write_litert(folder, (folder / "model.tflite").read_bytes(), Vocabulary(["a"]))
    with pytest.raises(ValueError, match="vocabulary.txt lacks words of the network"):
        load_litert(folder).caption(pictures / "02.png")
    write_litert(folder, b"no network", captioner.vocabulary)
    with pytest.raises(ValueError, match="LiteRT cannot run this file"):
        load_litert(folder)
    (folder / "litert.json").unlink()
    assert main(["caption", str(pictures / "02.png"), "--model", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "litert.json" in said


def test_the_command_line_prints_the_same_with_and_without_tensorflow(
    quick, pictures, monkeypatch, capsys
):
    def printed(*options):
        assert main(["caption", str(pictures / "04.png"), "--model", "scenes", *options]) == 0
        return capsys.readouterr().out

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    line, fields = printed(), json.loads(printed("--json"))
    monkeypatch.setattr(litert_captioner, "is_installed", lambda: False)
    assert printed() == line and "(confidence " in line
    expected = json.loads(printed("--json"))
    assert list(fields) == list(expected) and fields["caption"] == expected["caption"]
    assert fields["word_probs"] == pytest.approx(expected["word_probs"], abs=1e-3)


def test_the_file_is_made_once_for_each_model(home, quick, captioner, tmp_path, monkeypatch):
    other = make_captioner(captioner.vocabulary, encoder="tiny", image_size=32, hidden_dim=5)
    other.save(tmp_path / "other")
    assert litert_captioner.is_made("scenes") and not litert_captioner.is_made(tmp_path / "other")
    for bad, message in (
        ("nothing-there", "bundled model with this name"),
        (tmp_path, "config.json"),
    ):
        with pytest.raises((OSError, ValueError), match=message):
            load_litert(bad)
    monkeypatch.setattr(
        litert_captioner, "make_file", lambda model, wait_s: pytest.fail("it is there")
    )
    load_litert("scenes", num_threads=1)
    monkeypatch.setattr(litert_captioner, "is_installed", lambda: False)
    with pytest.raises(ValueError, match="requires ai-edge-litert"):
        load_litert("scenes")


ONE = """
import sys
from keras_sat.__main__ import main
status = main(sys.argv[1:])
print("tensorflow" in sys.modules)
sys.exit(status)
"""


@pytest.mark.slow
def test_from_the_shell_without_tensorflow(pictures, tmp_path, monkeypatch):
    def run(*options):
        command = ["caption", pictures / "04.png", "--model", "scenes", *options]
        done = subprocess.run(
            [sys.executable, "-c", ONE, *map(str, command)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        *lines, with_tensorflow = done.stdout.splitlines()
        return lines, with_tensorflow == "True", done.stderr

    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    first, with_tensorflow, said = run()
    assert not with_tensorflow and said == "", "its graph is bundled"
    assert run("--num-beams", "3") == (first, False, "")
    lines, with_tensorflow, _ = run(
        "--json", "--maps", "--plot", tmp_path / "x.png", "--html", tmp_path / "x.html"
    )
    assert not with_tensorflow and (tmp_path / "x.png").is_file() and '"confidence"' in lines[0]
    _, with_tensorflow, said = run("--say", "a red zebra")
    assert not with_tensorflow and "unknown words: zebra" in said
    assert run("--length-penalty", "0.2")[1], "the file was not made for this"


def test_what_cannot_be_made_costs_no_caption(pictures, monkeypatch, capsys, tmp_path):
    def full(model, **options):
        raise OSError(28, "No space left on device", "model.tflite")

    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(litert_captioner, "make_file", full)
    assert main(["caption", str(pictures / "04.png"), "--model", "scenes"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1 and captured.err == ""


def test_the_folder_of_a_training_is_answered_with_its_model(quick, pictures, capsys, tmp_path):
    shutil.copytree(BUNDLED_MODELS / "scenes-none", tmp_path / "mine" / "model")
    assert main(["caption", str(pictures / "04.png"), "--model", str(tmp_path / "mine")]) == 2
    assert f"Did you mean {tmp_path / 'mine' / 'model'}?" in capsys.readouterr().err


def test_eight_threads_share_one(quick):
    photos = [scene.image for scene in draw_scenes(8, seed=6)]
    expected = [quick.caption(photo) for photo in photos]
    with ThreadPoolExecutor(8) as threads:
        for turn, result in enumerate(
            threads.map(lambda turn: quick.caption(photos[turn % 8]), range(80))
        ):
            right = expected[turn % 8]
            assert result.caption == right.caption and result.log_prob == right.log_prob


# === Which captioner it is ===


@pytest.fixture
def traps(quick, tmp_path, monkeypatch):
    """A current folder in which models, exports and photos have the names of bundled
    captioners.
    """
    made = litert_captioner.made_folder(BUNDLED_MODELS / "scenes")
    for name in ("flickr8k", "mine"):  # models, and what looks like an export in each
        shutil.copytree(BUNDLED_MODELS / "scenes-none", tmp_path / name)
    for name in ("flickr8k", "mine", "scenes"):
        for folder in (tmp_path / name, tmp_path / name / "photo"):
            shutil.copytree(made, folder, dirs_exist_ok=True)
        write_json(tmp_path / name / "page.json", {"photo": {}, "scenes": []})
    monkeypatch.chdir(tmp_path)
    return tmp_path


MODELS = {None: BUNDLED_MODELS / "flickr8k", "flickr8k": Path("flickr8k"), "mine": Path("mine")}
MODELS |= {name: BUNDLED_MODELS / name for name in ("scenes", "scenes-none")}


def test_both_ways_take_the_same_captioner(traps, monkeypatch):
    """With and without TensorFlow; no export in a model's folder is run."""
    monkeypatch.setattr(Captioner, "load", lambda directory, **options: directory)
    monkeypatch.setattr(litert_captioner, "LiteRTCaptioner", lambda folder, **options: folder)
    for model, expected in MODELS.items():
        assert Captioner.from_pretrained(*[model][: model is not None]) == expected
        assert load_litert(model) == litert_captioner.made_folder(expected)


def test_an_export_runs_where_it_was_named(traps, pictures):
    export_folder = litert_captioner.export_folder
    assert export_folder("./scenes/") == Path("scenes") and export_folder(traps / "mine") is None
    for name in ("litert.json", "model.tflite"):
        (traps / "scenes" / name).unlink()
    assert export_folder("./scenes") == Path("scenes") / "photo", "that of a page"
    (traps / "scenes" / "page.json").unlink()
    assert export_folder("./scenes") is None
    assert load_litert(traps / "scenes" / "photo").caption(pictures / "00.png").words


def test_the_digest_that_a_model_claims_is_not_believed(quick, tmp_path):
    foreign = Path(shutil.copytree(BUNDLED_MODELS / "scenes-none", tmp_path / "foreign"))
    settings = [
        json.loads((folder / "config.json").read_text())
        for folder in (foreign, BUNDLED_MODELS / "scenes")
    ]
    write_json(foreign / "config.json", settings[0] | {"digest": settings[1]["digest"]})
    assert litert_captioner.ready_captioner(foreign) is None
    with pytest.raises(ValueError, match="config.json: the file is damaged"):
        load_litert(foreign)


# === Files that are damaged ===


@pytest.fixture
def again(home, quick, tmp_path, monkeypatch):
    """A list that gets longer whenever the file is made again, in a home of its own.

    That costs no time here.
    """
    content = read_litert(litert_captioner.made_folder(BUNDLED_MODELS / "scenes"))
    times = []
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))

    def convert(directory):
        times.append(directory)
        return content

    monkeypatch.setattr(litert_captioner, "filled", convert)
    litert_captioner.make_file("scenes")
    times.clear()
    return times


DAMAGES = [
    ("vocabulary.txt", b"\na\n", b"\nthe\n"),
    ("model.tflite", b"TFL3", b"TFL4"),
    ("litert.json", b"{", b""),
]


@pytest.mark.parametrize("name, old, new", DAMAGES)
def test_a_damaged_file_is_made_again(again, captioner, pictures, capsys, name, old, new):
    picture = str(pictures / "05.png")
    expected = captioner.caption(picture).caption
    damaged = litert_captioner.made_folder(BUNDLED_MODELS / "scenes") / name
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(old, new))
    assert load_litert("scenes").caption(picture).caption == expected and len(again) == 1
    damaged.write_bytes(content.replace(old, new))
    for _ in range(2):
        assert main(["caption", picture, "--model", "scenes"]) == 0
        assert capsys.readouterr() == (f"{picture}\t{expected}\n", "")
    assert len(again) == 2 and damaged.read_bytes() == content


def test_they_wait_for_the_one_that_makes_the_file(again, monkeypatch):
    """The other one makes the file, and ends, at the moment when this one says that it
    waits.
    """
    folder = litert_captioner.made_folder(BUNDLED_MODELS / "scenes")
    kept = folder.rename(folder.with_name("kept"))
    with contextlib.ExitStack() as other:
        other.enter_context(exclusive_lock(folder.parent / ".litert.lock", "is making a file"))

        def say(text, file):
            said.append(text)
            kept.rename(folder)
            other.close()

        said = []
        monkeypatch.setattr("builtins.print", say)
        with pytest.raises(ValueError, match="Another process is making a LiteRT file"):
            litert_captioner.make_file("scenes")
        assert load_litert("scenes").vocabulary and again == []
    assert (
        len(said) == 1
        and "Another process is making a LiteRT file" in said[0]
        and "600 s" in said[0]
    )
