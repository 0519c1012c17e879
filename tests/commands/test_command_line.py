import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from helpers import photo_captioner, write_photos
from PIL import Image

from keras_sat.__main__ import main
from keras_sat.captioner import Captioner
from keras_sat.commands import caption as caption_command
from keras_sat.commands import paths
from keras_sat.commands.commands import module_of
from keras_sat.commands.load_captioner import models_or_default
from keras_sat.commands.messages import one_line
from keras_sat.files import pretrained_directory, pretrained_names
from keras_sat.looking import GalleryPage
from keras_sat.network import keras_home
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.scale import load_models
from keras_sat.settings import HEADINGS, SHOWN_IN_HELP, FitSettings, fields_by_heading
from keras_sat.training import recipe
from keras_sat.training.history import Curves

# To trace a graph of each search takes longer than the search.
pytestmark = pytest.mark.usefixtures("without_graphs")


def help_of(*arguments):
    shown = io.StringIO()
    with pytest.raises(SystemExit) as stopped, contextlib.redirect_stdout(shown):
        main([*arguments])
    assert stopped.value.code == 0
    return shown.getvalue()


def test_the_version_is_shown_and_the_default_model_is_there():
    assert DEFAULT_MODEL in pretrained_names() and "keras-sat" in help_of("--version")


def test_the_help_of_fit_is_one_screen_and_help_all_has_every_option_by_kind(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    first = help_of("fit", "--help")
    assert first.count("\n") <= 40 and "keras-sat fit --data folder --data-dir my_photos" in first
    monkeypatch.setenv("COLUMNS", "1000")
    lines = help_of("fit", "--help-all").splitlines()
    place = {
        line.replace(",", " ").split()[0]: number
        for number, line in enumerate(lines)
        if line.startswith("  --")
    }
    headings = [lines.index(f"{heading}:") for heading in HEADINGS] + [len(lines)]
    for number, fields in enumerate(fields_by_heading(FitSettings).values()):
        for name in fields.keys() - {"grid_shape"}:
            flag = f"--{name.replace('_', '-')}"
            assert "; default: " in " ".join(lines[place[flag] : place[flag] + 2]), name
            assert headings[number] < place[flag] < headings[number + 1] or name in SHOWN_IN_HELP, (
                name
            )


@pytest.mark.slow
def test_features_of_the_bundled_encoder(tmp_path, capsys):
    write_photos(tmp_path / "mine", ["a.jpg", "b.jpg"])
    (tmp_path / "mine" / "captions.csv").write_text("image,caption\na.jpg,A dog\nb.jpg,A cat\n")
    command = [
        "features",
        "--data",
        "folder",
        "--data-dir",
        str(tmp_path / "mine"),
        "--image-size",
        "64",
    ]
    command += ["--cache-dir", str(tmp_path / "cache"), "--encoder-weights", "bundled", "--encoder"]
    assert main([*command, "efficientnet_lite0"]) == 0
    assert "2 photos, 2 x 2 x 1280 each" in capsys.readouterr().out
    assert main([*command, "efficientnet_lite0", "--grid", "4x4"]) == 2
    assert "grid_shape [2, 2] instead of [4, 4]" in capsys.readouterr().err
    assert main([*command, "mobilenet_v2"]) == 2
    assert "bundled captioner's encoder, efficientnet_lite0" in capsys.readouterr().err
    assert main([*command, "efficientnet_lite0", "--batch-size", "-1"]) == 2
    assert "--batch-size=-1" in capsys.readouterr().err


def test_features_of_an_untrained_tiny_encoder_are_rejected(tmp_path, capsys):
    assert (
        main(
            [
                "features",
                "--data",
                "scenes",
                "--cache-dir",
                str(tmp_path / "c"),
                "--encoder",
                "tiny",
            ]
        )
        == 2
    )
    assert "untrained `tiny`" in capsys.readouterr().err and not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (
            ["fit", "--data", "folder", "--hiden-dim", "3"],
            "Did you mean --hidden-dim? See `keras-sat fit --help`",
        ),
        (["captoin", "a.jpg"], "Did you mean caption?"),
        (["caption", "a.jpg", "--beam-size", "3"], "Did you mean --num-beams?"),
        (["fit", "--data", "folder", "--epochs", "two"], "invalid int value: 'two'"),
        (["export", "scenes", ""], "argument DIRECTORY: the path or name is empty"),
        (
            ["export", "scenes", "page", "--web", "--tflite"],
            "argument --tflite: not allowed with argument --web",
        ),
        ([], "required: COMMAND"),
    ],
)
def test_bad_use_is_one_line_with_a_hint(arguments, hint, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and hint in error and error.count("\n") == 1


def raise_(error):
    raise error


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            OSError(28, "No space left", "runs/a"),
            "runs/a: No space left. Free some space, and run the same command ",
        ),
        (
            MemoryError(),
            "MemoryError. Not enough memory. Use a smaller --batch-size",
        ),
        (
            PermissionError(13, "Permission denied", "a"),
            "a: Permission denied. Check the permissions, or choose",
        ),
        (FileNotFoundError(2, "No such file", "a.json"), "a.json: No such file. Check the path.\n"),
        (IsADirectoryError(21, "Is a folder", "a"), "a: Is a folder. Check the path.\n"),
        (FileExistsError(17, "File exists", "a"), "a: File exists. Check the path, or choose"),
        (ValueError(f"Keras' own. Received: {5000 * 'a '}"), "Keras' own. Received: a a"),
        (
            RuntimeError("Could not determine home directory."),
            "Could not determine home directory. Write the full",
        ),
        (
            tf.errors.UnknownError(None, None, "ValueError: a.png is gone\nTraceback"),
            "a.png is gone\n",
        ),
    ],
)
def test_errors_are_one_line(error, expected, monkeypatch, capsys):
    monkeypatch.setattr(recipe, "fit", lambda data, **options: raise_(error))
    assert main(["fit", "--data", "scenes"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"keras-sat: {expected}") and line.count("\n") == 1 and len(line) < 2000


def test_without_memory_only_options_of_the_command_are_named():
    assert "Use a smaller --num-beams." in one_line(MemoryError(), "caption")
    assert "Close other programs" in one_line(MemoryError(), "compare")


def test_nobody_is_sent_to_another_folder_for_what_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text("")
    error = PermissionError(13, "Permission denied", str(tmp_path / "a.json"))
    assert "choose a writable folder" in one_line(error, "fit")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert one_line(error, "fit").endswith("Permission denied. Check the permissions.")


def test_a_current_folder_that_was_removed_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    try:
        (tmp_path / "gone").rmdir()
    except OSError:
        pytest.skip("this system does not remove the current folder")
    assert main(["caption", "a.jpg", "--model", "scenes"]) == 2
    assert "The current folder was removed. Change to another folder" in capsys.readouterr().err


def test_a_command_that_is_done_ends_without_a_last_search_for_garbage():
    code = """
import gc, sys
from keras_sat.__main__ import main

class Cycle:
    def __del__(self):
        print("searched")

gc.disable()
cycle = Cycle()
cycle.itself = cycle
del cycle
sys.exit(main(["caption", "missing.jpg"]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 2 and "missing.jpg" in ran.stderr
    assert not ran.stdout


@pytest.mark.skipif(os.name == "nt", reason="cmd.exe does not close streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_what_belongs_on_a_stream_that_the_shell_closed_goes_nowhere(tmp_path, closed):
    write_photos(tmp_path, ["a.png"])
    picture, missing = str(tmp_path / "a.png"), str(tmp_path / "missing.png")
    command = [sys.executable, "-m", "keras_sat", "caption", picture, missing, "--model", "scenes"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command, "--text-files"]
    environment = {**os.environ, "KERAS_HOME": str(tmp_path / "keras")}
    ran = subprocess.run(shell, capture_output=True, text=True, env=environment)
    caption = (tmp_path / "a.txt").read_text()
    assert ran.returncode == 2, "one picture is missing"
    if closed == ">&-":
        assert ran.stdout == "" and ran.stderr.startswith(f"keras-sat: {missing}: ")
        assert "Traceback" not in ran.stderr
    else:
        assert (ran.stdout, ran.stderr) == (f"{picture}\t{caption}", "")


def test_an_empty_home_of_keras_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_HOME", "")
    assert keras_home() == Path("~/.keras").expanduser()
    assert main(["compare", "a", "b"]) == 2 and "KERAS_HOME" not in os.environ
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def interruptible():
    """Ctrl-C is noticed.

    A shell starts what runs in the background with Ctrl-C ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "command, kept",
    [
        (["fit", "--data", "scenes"], "finished parts are kept. Run the same command to resume."),
        (["caption", "a.jpg"], "running the same command again starts over."),
    ],
)
def test_ctrl_c_says_what_is_kept_and_what_comes_next(command, kept, monkeypatch, capsys):
    def swallowed():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("cannot import this")

    module = module_of(command[0])
    for fail in (lambda: raise_(KeyboardInterrupt()), swallowed):
        monkeypatch.setattr(module, "run", lambda fail=fail, **options: fail())
        assert main(command) == 130
        assert capsys.readouterr().err == f"keras-sat: stopped: {kept}\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr(module, "run", lambda **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(command)


def test_a_log_file_has_each_line_at_once(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))

    def fit(**options):
        print("a line")
        assert written.getvalue().split() == [b"a", b"line"]

    monkeypatch.setattr(module_of("fit"), "run", fit)
    assert main(["fit", "--data", "scenes"]) == 0


def test_info_names_what_it_finds(tmp_path, capsys):
    write_photos(tmp_path, ["a.jpg"])
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,A dog\n")
    assert main(["info", "--data-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert (
        "data: folder: 1 photos, 1 captions" in output
        and "data: coco: No caption file found" in output
    )
    assert "bundled models: flickr8k, flickr8k-hard, flickr8k-paper, scenes" in output


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A captioner that says a few words, and the folder that contains it as "model"."""
    captioner, folder = photo_captioner(), tmp_path_factory.mktemp("small")
    bias = captioner.decoder.readout.word_logits.bias
    ends = np.arange(len(captioner.vocabulary)) == captioner.vocabulary.end_token_id
    bias.assign(bias - 9.0 * ends)
    captioner.save(folder / "model")
    return folder, captioner


@pytest.fixture
def pictures(tmp_path):
    """A folder with two pictures, one that is damaged, and a text."""
    write_photos(tmp_path / "pictures", ["b.jpg", "a.png"])
    (tmp_path / "pictures" / "damaged.jpg").write_bytes(b"\xff\xd8\xff nothing of it")
    (tmp_path / "pictures" / "notes.txt").write_text("no picture")
    return tmp_path / "pictures"


def test_caption_goes_on_past_what_it_cannot_read(small_model, pictures, capsys):
    folder, captioner = small_model
    every = [str(pictures / name) for name in ("a.png", "b.jpg", "damaged.jpg", "missing.jpg")]
    command = [
        "caption",
        str(pictures),
        every[3],
        "--model",
        str(folder / "model"),
        "--max-length",
        "3",
    ]
    assert main(command) == 2
    output, error = capsys.readouterr()
    expected = [captioner.caption(path, max_length=3) for path in every[:2]]
    assert output == "".join(f"{path}\t{result.caption}\n" for path, result in zip(every, expected))
    assert error.count("\n") == 1 and error.startswith("keras-sat: ")
    assert every[2] in error and every[3] in error and "notes.txt" not in error
    assert main([*command, "--json"]) == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["image"] for line in lines] == every
    assert set(lines[2]) == set(lines[3]) == {"image", "error"}
    for line, result in zip(lines, expected):
        assert (line["caption"], line["words"]) == (result.caption, result.words)
        assert line["log_prob"] == pytest.approx(result.log_prob, abs=1e-4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_links_in_circles_are_named_and_the_rest_is_captioned(
    small_model, pictures, tmp_path, capsys
):
    loop, pipe, drawn = pictures / "loop.jpg", pictures / "pipe.jpg", tmp_path / "drawn"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    (pictures / "damaged.jpg").unlink()
    command = [
        "caption",
        str(pictures),
        "--model",
        str(small_model[0] / "model"),
        "--num-beams",
        "1",
        "--max-length",
        "2",
    ]
    assert main([*command, "--plot", str(drawn)]) == 2
    output, error = capsys.readouterr()
    assert output.count("\n") == 2 and len(list(drawn.iterdir())) == 2
    reasons = (
        f"keras-sat: {loop}: Too many levels of symbolic links; {pipe}: this is a pipe or a device"
    )
    assert error.startswith(f"plot: 2 files in {drawn}\n{reasons}")
    assert main([*command, "--plot", str(loop / "sub")]) == 2
    output, error = capsys.readouterr()
    assert error.count("\n") == 1 and not output and f"{loop}" in error


@pytest.mark.skipif(os.name == "nt", reason="names of files are letters there")
def test_names_of_files_break_no_line_and_steer_no_terminal(
    small_model, pictures, tmp_path, capsys
):
    names = {"a\nb\tc.png": r"a\nb\tc.png", "\x1b[31mred\x85\x7f.png": r"\x1b[31mred\x85\x7f.png"}
    names |= {"f\u2028g.png": r"f\u2028g.png", "h\u202egnp.png": r"h\u202egnp.png"}
    for name in names:
        (pictures / name).write_bytes((pictures / "a.png").read_bytes())
    (pictures / "\x1b[2J\n.gif").write_bytes(b"nothing")
    paths = [str(pictures / name) for name in names]
    model = ["--model", str(small_model[0] / "model"), "--num-beams", "1", "--max-length", "4"]
    drawn = ["--html", str(tmp_path / "\x1b[7m")]
    assert main(["caption", *paths, str(pictures / "\x1b[2J\n.gif"), *model, *drawn]) == 2
    output, error = capsys.readouterr()
    shown = [line.split("\t")[0] for line in output.removesuffix("\n").split("\n")]
    assert shown == [f"{pictures}{os.sep}{name}" for name in names.values()]
    where, problem = error.splitlines()
    assert where == rf"html: 4 files in {tmp_path}{os.sep}\x1b[7m"
    assert r"\x1b[2J\n.gif: " in problem
    assert all(text.replace("\n", "").replace("\t", "").isprintable() for text in (output, error))
    assert main(["caption", *paths, *model, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["image"] for line in lines] == paths and all(
        map(str.isprintable, lines)
    )
    assert main(["caption", paths[0], "--model", str(tmp_path / "\x1b[2J")]) == 2
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


@pytest.mark.slow
def test_caption_takes_patterns_and_draws(small_model, pictures, tmp_path, capsys):
    folder, _ = small_model
    model = ["--model", str(folder / "model"), "--num-beams", "1", "--max-length", "4"]
    assert (
        main(["caption", str(pictures / "*.png"), *model, "--plot", str(tmp_path / "one.png")]) == 0
    )
    output, error = capsys.readouterr()
    assert output.count("\n") == 1 and error == f"plot: {tmp_path / 'one.png'}\n"
    assert (tmp_path / "one.png").stat().st_size > 1000
    both = [str(pictures / "a.png"), str(pictures / "b.jpg")]
    assert main(["caption", *both, *model, "--plot", str(tmp_path / "drawn")]) == 0
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == [
        "a-attention.png",
        "b-attention.png",
    ]
    capsys.readouterr()
    (tmp_path / "taken" / "a-attention.png").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([str(pictures / "*.gif")], "No such file"),
        ([str(tmp_path / "empty")], "this folder has no pictures"),
        ([both[0], "--plot", str(tmp_path / "taken")], "Is a directory"),
        ([both[0], "--model", "scens"], "Did you mean scenes?"),
        ([both[0], "--plot", both[0]], "would overwrite the picture"),
        ([*both, "--plot", str(tmp_path / "one.png")], "pass a folder, not a .png file"),
        (
            [both[0], "--max-length", "1000000000"],
            "`--max-length` must be a whole number from 1 to 10000.",
        ),
        (
            [both[0], "--num-beams", "100000000"],
            "`--num-beams` must be a whole number from 1 to 1000.",
        ),
        ([both[0], "--plot", "a.xyz"], "Expected a folder or a file of type "),
        ([both[0], "--gif", "a.png"], "a file of type gif. Received: --gif a.png"),
        ([both[0], "--gif", "a.gif", "--plot", "a.gif"], "must write a different file"),
        ([both[0], "--gallery", "a", "--html", "a/index.html"], "must write a different file"),
        (
            [both[0], "--gallery", "a.png"],
            "Expected a folder or a file of type html. Received: --gallery a.png",
        ),
        ([both[0], "--gallery", both[1]], "Expected a folder or a file of type html."),
        ([both[0], "--gallery", f"{both[1]}/a"], "Not a directory"),
        ([both[0], "--maps"], "--maps requires --json"),
        ([both[0], "--words", "all"], "--words has no effect without --plot"),
        ([both[0], "--gif", "a.gif", "--width", "3"], "--width has no effect without --plot"),
        ([both[0], "--gif", "a.gif", "--shares"], "--shares has no effect without --plot"),
        ([both[0], "--plot-format", "pdf"], "--plot-format has no effect without --plot"),
        ([both[0], "--ray", "local", "--min-confidence", "0"], "cannot be combined with --ray"),
        ([both[0], "--ray", "local", "--json"], "--json cannot be combined with --ray"),
        ([both[0], "--plot", "a.png", "--plot-format", "pdf"], "--plot-format is for a folder"),
    ):
        assert main(["caption", *model, *arguments]) == 2
        output, error = capsys.readouterr()
        assert message in error and error.count("\n") == 1 and not output
    assert main(["caption", both[0], *model, "--plot", str(tmp_path / "a.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "a.json").exists()
    drawn = [
        "--html",
        str(tmp_path / "a.html"),
        "--gif",
        str(tmp_path / "a.gif"),
        "--plot",
        str(tmp_path / "a.svg"),
    ]
    assert main(["caption", both[0], *model, *drawn, "--words", "all", "--width", "3.5"]) == 0
    caption = capsys.readouterr().out.split("\n")[-2].split("\t")[1]
    assert f"<title>{caption}</title>" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert f'width="{72 * 3.5:g}pt"' in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with Image.open(tmp_path / "a.gif") as cartoon:
        assert cartoon.n_frames == 1 + 2 * len(caption.split())
        assert cartoon.width * 24 // 32 < cartoon.height, (
            "the photo has its own shape, with the caption below"
        )
    assert (
        main(["caption", *both, *model, "--plot", str(tmp_path / "plots"), "--words", "zebra"]) == 2
    )
    output, error = capsys.readouterr()
    assert output.count("\n") == 2 and error.count("not drawn") == 2, (
        "captions without the word are printed too"
    )
    assert not error.startswith("plot:"), "nothing was drawn"
    table = ["--csv", str(pictures / "captions.csv")]
    undrawn = ["--plot", str(tmp_path / "plots"), "--words", "zebra"]
    assert main(["caption", *both, *model, *table, *undrawn]) == 2
    error = capsys.readouterr().err
    assert error.count("not drawn") == 2 and "failed: 2 pictures" in error


def test_plots_in_a_folder_have_the_format_that_is_asked_for(
    small_model, pictures, tmp_path, capsys
):
    both, drawn = [str(pictures / "a.png"), str(pictures / "b.jpg")], tmp_path / "drawn"
    model = ["--model", str(small_model[0] / "model"), "--num-beams", "1", "--max-length", "4"]
    assert (
        main(["caption", *both, *model, "--plot", str(drawn), "--plot-format", "svg", "--shares"])
        == 0
    )
    assert sorted(path.name for path in drawn.iterdir()) == ["a-attention.svg", "b-attention.svg"]
    assert capsys.readouterr().err == f"plot: 2 files in {drawn}\n"
    comments = re.findall("<!-- (.*) -->", (drawn / "a-attention.svg").read_text(encoding="utf-8"))
    assert any("% of the photo" in text for text in comments) or "everywhere" in comments


def test_a_gallery_of_all_pictures_is_kept_when_captioning_stops(
    small_model, pictures, tmp_path, capsys, monkeypatch
):
    folder, _ = small_model
    command = [
        "caption",
        str(pictures),
        "--model",
        str(folder / "model"),
        "--num-beams",
        "1",
        "--max-length",
        "4",
    ]
    page = tmp_path / "all" / "index.html"
    assert main([*command, "--gallery", str(tmp_path / "all"), "--json"]) == 2
    output, error = capsys.readouterr()
    assert (
        error.startswith(f"gallery: {page}\nkeras-sat: {pictures / 'damaged.jpg'}: ")
        and error.count("\n") == 2
    )
    captions = {line["image"]: line.get("caption") for line in map(json.loads, output.splitlines())}
    content = page.read_text(encoding="utf-8")
    titles = re.findall("<h2>(.*)</h2>", content.replace("<wbr>", ""))
    assert titles == [path for path, caption in captions.items() if caption is not None]
    assert (
        "<summary>Unreadable: 1</summary>" in content
        and f"<li>{pictures / 'damaged.jpg'}: " in content
    )
    waiting = re.findall('<p class="sat-waiting">(.*)</p>', content)
    assert waiting == [caption for caption in captions.values() if caption is not None]

    assert main([*command[:1], str(tmp_path / "no.jpg"), *command[2:], "--gallery", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == content, (
        "nothing could be read, so the earlier page stays"
    )
    capsys.readouterr()

    def stop(result, min_confidence):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(caption_command, "is_sure", stop)
        assert main([*command, "--gallery", str(tmp_path / "stopped.html")]) == 130
    assert (tmp_path / "stopped.html").read_text(encoding="utf-8").count("<article") == 1

    results = [
        (str(pictures / "a.png"), Captioner.load(folder / "model").caption(pictures / "a.png"))
    ] * 30
    running = caption_command.kept_in_files(
        iter(results), [], GalleryPage(tmp_path / "killed.html"), None
    )
    for number, _ in enumerate(running):
        if number:
            written = (tmp_path / "killed.html").read_text(encoding="utf-8").count("<article")
            assert written >= number / 1.2, "a killed command loses at most a sixth"


@pytest.mark.usefixtures("without_graphs")
def test_fit_evaluate_and_compare(pictures, tmp_path, capsys, quick_meteor):
    (pictures / "damaged.jpg").unlink()
    splits = {"a.png": "train", "b.jpg": "dev"}
    rows = [
        f"{name},a {word} dog,{split}" for name, split in splits.items() for word in ("big", "red")
    ]
    (pictures / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    data = ["--data", "folder", "--data-dir", str(pictures)]
    sizes = [
        "--embedding-dim",
        "8",
        "--hidden-dim",
        "8",
        "--attention-dim",
        "8",
        "--image-size",
        "32",
    ]
    fit = [
        "fit",
        *data,
        "--encoder",
        "tiny",
        "--preset",
        "seq2seq",
        *sizes,
        "--output-dir",
        str(tmp_path / "run"),
    ]
    assert main([*fit, "--epochs", "1"]) == 0
    assert "1 photos with 2 captions in train" in capsys.readouterr().out
    assert (
        json.loads((tmp_path / "run" / "model" / "config.json").read_text())["captioner"]["cell"]
        == "gru"
    )
    assert main([*fit, "--epochs", "1", "--seed", "3"]) == 2
    assert "seed was 0 and is 3" in capsys.readouterr().err
    evaluate = ["evaluate", *data, "--model", str(tmp_path / "run" / "model"), "--num-beams", "2"]
    assert main(evaluate) == 2
    assert "1 in 'train', 1 in 'dev'" in capsys.readouterr().err
    evaluate += ["--split", "dev"]
    results, gallery = tmp_path / "results.json", ["--gallery", str(tmp_path / "gallery")]
    files = [
        "--json",
        str(tmp_path / "scores.json"),
        "--csv",
        str(tmp_path / "photos.csv"),
        *gallery,
    ]
    assert main([*evaluate, "--compare-with", "human", "--coco-results", str(results), *files]) == 0
    output = capsys.readouterr().out
    for text in (
        "BLEU-4",
        "split dev",
        "num_beams 2",
        "a person",
        f"gallery: {tmp_path / 'gallery' / 'index.html'}",
    ):
        assert text in output
    content = json.loads((tmp_path / "scores.json").read_text())
    assert [entry["image_id"] for entry in content["captions"]] == ["b"]
    assert set(content["settings"]) == {
        "data",
        "split",
        "encoder",
        "num_beams",
        "length_penalty",
        "tokenisation",
    }
    assert {f"bleu_{n}{ending}" for n in range(1, 5) for ending in ("", "_no_penalty")} <= set(
        content["scores"]
    )
    assert (tmp_path / "photos.csv").read_text().startswith("image_id,caption,bleu_1")
    page = (tmp_path / "gallery" / "index.html").read_text(encoding="utf-8")
    assert "<h2>b</h2>" in page and "<li>a red dog</li>" in page and page.count("</template>") == 1
    assert main([*evaluate, "--grounding"]) == 2
    assert "Pass --boxes with --grounding or --regions" in capsys.readouterr().err

    scoring = ["evaluate", *data, "--split", "dev", "--captions"]
    assert main([*scoring, str(results), "--json", str(tmp_path / "again.json")]) == 0
    assert json.loads((tmp_path / "again.json").read_text())["scores"] == content["scores"]
    tables = {name: tmp_path / f"{name}.tex" for name in ("averages", "compared")}
    averages = [
        "--latex",
        str(tables["averages"]),
        "--averages-csv",
        str(tmp_path / "averages.csv"),
    ]
    assert main([*scoring, str(results), *averages]) == 0
    assert (tmp_path / "averages.csv").read_text().startswith("scores_of,bleu_1")
    compare = ["compare", str(tmp_path / "scores.json"), str(tmp_path / "again.json")]
    compared = ["--latex", str(tables["compared"]), "--csv", str(tmp_path / "compared.csv")]
    assert main([*compare, *compared]) == 0
    assert "95 % interval" in capsys.readouterr().out
    assert (tmp_path / "compared.csv").read_text().startswith("score,first")
    assert all("\\toprule" in table.read_text() for table in tables.values())
    for arguments, message in (
        ([*scoring, str(results), "--num-beams", "2"], "cannot be combined with --num-beams"),
        ([*scoring, str(results), *gallery], "cannot be combined with --gallery"),
        ([*scoring, str(results), "--model", "scenes"], "cannot be combined with --model"),
        ([*scoring, str(results), "--boxes", "a"], "cannot be combined with --boxes"),
        (
            [*scoring, str(tmp_path / "none.json")],
            "none.json: No such file or directory. Check the path",
        ),
        (
            [*evaluate, "--json", "a", "--csv", "./a"],
            "must write a different file. Received: --json a, --csv a",
        ),
        (
            [*fit, "--from-scratch", "--initial-model", "scenes"],
            "--from-scratch=True, --initial-model='scenes'",
        ),
        (["export", "scenes", "page", "--runtime", "a"], "--runtime has no effect without --web"),
        (
            ["compare", str(tmp_path / "scores.json"), str(results)],
            "results.json: expected a JSON object",
        ),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


@pytest.mark.slow
def test_does_it_look_at_what_it_names(tmp_path, capsys, quick_meteor):
    evaluate = [
        "evaluate",
        "--data",
        "scenes",
        "--model",
        "scenes",
        "--num-beams",
        "1",
        "--grounding",
    ]
    scores = tmp_path / "scores.json"
    assert main([*evaluate, "--gallery", str(tmp_path), "--json", str(scores)]) == 0
    output = capsys.readouterr().out
    shape = next(line.split() for line in output.split("\n") if line.startswith("shape"))
    mass, uniform_mass, middle_mass = map(float, shape[2:5])
    assert mass > 80 > middle_mass > uniform_mass
    of_shapes = json.loads(scores.read_text())["statistics"]["grounding"]["word_classes"]["shape"]
    assert of_shapes["mass"] == pytest.approx(mass / 100, abs=5e-4)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<article ") == 200 and 'data-sort="cider"' in page


def test_scores_that_could_not_be_written_are_not_computed(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("keras_sat.measuring.evaluation.evaluate", None)
    for out in (tmp_path / "file" / "sub" / "out", tmp_path):
        assert main(["evaluate", "--data", "scenes", "--json", str(out)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"keras-sat: {tmp_path}") and error.count("\n") == 1


def test_a_folder_of_that_name_is_not_the_bundled_captioner(
    small_model, tmp_path, monkeypatch, capsys
):
    shutil.copytree(small_model[0] / "model", tmp_path / "scenes")
    monkeypatch.chdir(tmp_path)
    captioner = load_models(models_or_default(None, "scenes"), None)
    assert (
        captioner.weights_digest()
        == Captioner.load(pretrained_directory("scenes")).weights_digest()
    )
    assert "using 'scenes'" in capsys.readouterr().err
    mine = load_models(["scenes"], None)
    assert mine.weights_digest() == small_model[1].weights_digest(), "a folder that is named counts"


def test_a_folder_for_drawings_may_have_a_dot_in_its_name(tmp_path):
    (tmp_path / "run1.5").mkdir()
    drawings = paths.drawing_paths({"plot": tmp_path / "run1.5"}, ["a.png"])
    assert drawings == {"a.png": {"plot": tmp_path / "run1.5" / "a-attention.png"}}
    drawings = paths.drawing_paths({"gif": f"{tmp_path}/new.v3/"}, ["a.png"])
    assert drawings == {"a.png": {"gif": tmp_path / "new.v3" / "a-attention.gif"}}


def test_a_thread_may_run_a_command():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(main, ["info"]).result() == 0


@pytest.mark.parametrize(
    "given, names",
    [
        (["day/1.jpg", "day/2.JPG", "night/3.tar.png"], ["1", "2", "3.tar"]),
        (["day/1.jpg", "day/1.png"], ["1.jpg", "1.png"]),
        (["a/day/dog.jpg", "a/night/Dog.jpg"], ["day/dog.jpg", "night/Dog.jpg"]),
        (["day/1.jpg", "./day/1.jpg"], ["1", "1"]),
    ],
)
def test_names_of_drawings_differ(given, names):
    assert paths.drawing_names(given) == dict(zip(given, names))


def test_json_names_drawings_and_has_maps(small_model, pictures, tmp_path, capsys):
    folder, captioner = small_model
    search, drawn = ["--num-beams", "1", "--max-length", "4"], str(tmp_path / "drawn")
    command = [
        "caption",
        str(pictures / "a.png"),
        "--model",
        str(folder / "model"),
        *search,
        "--json",
    ]
    assert main([*command, "--maps", "--plot", drawn, "--html", drawn]) == 0
    line = json.loads(capsys.readouterr().out)
    (result,) = captioner.caption([pictures / "a.png"], num_beams=1, max_length=4)
    assert line["plot"] == str(tmp_path / "drawn" / "a-attention.png") and os.path.isfile(
        line["plot"]
    )
    assert line["html"] == str(tmp_path / "drawn" / "a-attention.html") and os.path.isfile(
        line["html"]
    )
    parts = {"image", "caption", "words", "word_probs", "log_prob", "plot", "html"}
    assert set(line) - {"is_finished"} == {*parts, "rows", "columns", "attention_weights"}
    weights = np.reshape(
        line["attention_weights"], (len(line["words"]), line["rows"], line["columns"])
    )
    np.testing.assert_allclose(weights, result.attention_weights, atol=1e-5)
    assert all(len(str(number)) <= 8 for number in weights.ravel())


@pytest.mark.parametrize("command", [["demo"], ["fit", "--data", "scenes"]])
def test_ctrl_c_in_the_first_epoch(command, monkeypatch, tmp_path, capsys):
    stopped = SimpleNamespace(history=Curves([], was_interrupted=True))
    monkeypatch.setattr(recipe, "fit", lambda images, **options: stopped)
    monkeypatch.setattr("data_utils.scenes.draw_scenes", lambda *arguments, **options: [])
    assert main([*command, "--output-dir", str(tmp_path)]) == 130
    assert "keras-sat: stopped: no epoch was completed" in capsys.readouterr().err


@pytest.mark.filterwarnings("default:.*in subfolders")
def test_recursive(small_model, pictures, capsys):
    (pictures / "damaged.jpg").unlink()
    write_photos(pictures / "deep", ["c.jpg"])
    command = [
        "caption",
        str(pictures),
        "--model",
        str(small_model[0] / "model"),
        "--num-beams",
        "1",
        "--max-length",
        "3",
    ]
    assert main(command) == 0
    output, error = capsys.readouterr()
    assert "subfolders left out: 1" in error and "--recursive" in error
    assert main([*command, "--recursive"]) == 0
    again, error = capsys.readouterr()
    assert (
        not error
        and again.startswith(output)
        and str(pictures / "deep" / "c.jpg") in again.splitlines()[2]
    )
