"""A folder of pictures becomes text files and tables, which are kept, continued and
read back.
"""

import json
import os

import pytest
from conftest import write_photos

from data_utils import DATASETS
from keras_sat.__main__ import main
from keras_sat.command_line import commands
from keras_sat.search.result import CaptionResult


class Spoken:
    """A captioner whose caption of every picture is its name.

    It stops before a picture called `stops_at`.
    """

    def __init__(self, stops_at=None):
        self.stops_at, self.asked = stops_at, []

    def caption_each(self, paths, errors, **options):
        for path in paths:
            name = os.path.basename(path)
            self.asked.append(name)
            if name == self.stops_at:
                raise KeyboardInterrupt
            is_bad = name.startswith("bad")
            caption = f"a {name}, =so"
            yield (
                path,
                OSError(5, "Bad", path)
                if is_bad
                else CaptionResult(caption, [], 0.0, None, confidence=0.5),
            )


@pytest.fixture
def spoken(monkeypatch):
    def use(**options):
        captioner = Spoken(**options)
        monkeypatch.setattr(commands, "_captioner_of", lambda *_: captioner)
        monkeypatch.setattr(commands, "_fits_litert", lambda *_: False)
        return captioner

    return use


@pytest.fixture
def photos(tmp_path):
    write_photos(tmp_path / "photos", ["a.jpg", "b.png", "bad.jpg"])
    write_photos(tmp_path / "photos" / "sub", ["ü.jpg"])
    return tmp_path / "photos"


def test_captions_are_written_kept_continued_and_read_back(photos, spoken, capsys):
    captioner, table, lines = spoken(), photos / "captions.csv", photos / "metadata.jsonl"
    command = [
        "caption",
        str(photos),
        "--recursive",
        "--text-files",
        "--csv",
        str(table),
        "--metadata",
    ]
    assert main(command) == 2
    assert (photos / "sub" / "ü.txt").read_text(encoding="utf-8") == "a ü.jpg, =so\n"
    assert table.read_text(encoding="utf-8").splitlines()[3] == 'sub/ü.jpg,"a ü.jpg, =so"'
    last = json.loads(lines.read_text(encoding="utf-8").splitlines()[2])
    assert (
        last == {"file_name": "sub/ü.jpg", "text": "a ü.jpg, =so"}
        and not (photos / "bad.txt").exists()
    )
    error = capsys.readouterr().err.splitlines()
    assert error[1:] == [f"keras-sat: {photos / 'bad.jpg'}: Bad", "keras-sat: failed: 1 pictures"]

    (photos / "a.txt").write_text("mine")
    with open(table, "a") as file:
        file.write("a.jpg,a second caption\n")
    before = table.read_bytes()
    (photos / "bad.jpg").unlink()
    assert main(command) == 0 and len(captioner.asked) == 4, (
        "everything is there: nothing is captioned"
    )
    assert (
        "captioned before: 3 of 3 pictures" in capsys.readouterr().err
        and table.read_bytes() == before
    )
    write_photos(photos, ["c.jpg"])
    assert main(command) == 0 and captioner.asked[4:] == ["c.jpg"]
    assert (photos / "a.txt").read_text() == "mine" and table.read_bytes().startswith(before)
    with_table = DATASETS["folder"](photos)
    table.unlink()
    without = DATASETS["folder"](photos)
    assert (
        [image.image_id for image in with_table]
        == [image.image_id for image in without]
        == ["a", "b", "ü", "c"]
    )
    assert with_table[0].captions == ["a a.jpg, =so", "a second caption"] and without[
        3
    ].captions == ["a c.jpg, =so"]
    assert (
        main([*command, "--overwrite"]) == 0 and (photos / "a.txt").read_text() == "a a.jpg, =so\n"
    )
    assert table.read_text(encoding="utf-8").count("\n") == 5


def test_ctrl_c_and_unsure_captions(photos, spoken, capsys):
    spoken(stops_at="bad.jpg")
    command = ["caption", str(photos / "*.*"), "--metadata", "--text-files"]
    assert main(command) == 130
    assert (
        "stopped: captions in files are kept. Run the same command to resume."
        in capsys.readouterr().err
    )
    assert (photos / "metadata.jsonl").read_text().count("\n") == 2 and (photos / "b.txt").exists()
    (photos / "bad.jpg").unlink()
    command[1] = str(photos / "[ab].*g")  # a.txt is no picture
    assert main([*command, "--overwrite", "--min-confidence", "0.6"]) == 0
    assert (photos / "metadata.jsonl").read_text().count("\n") == 2, (
        "no caption is sure, so the earlier file stays"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--text-files"], "Two pictures would have the same text file. Rename one. Received: "),
        (["--csv", "{}/sub/a.csv"], "This table must be in a folder that contains "),
        (
            ["--csv", "{}/a.jpg", "--overwrite"],
            "Expected a file name that ends in .csv. Received: --csv ",
        ),
        (["--csv", "{}/other.csv"], "other.csv: the header is not image,caption."),
        (["--csv", "{}/taken.csv"], "taken.csv: Is a directory"),
        (["--overwrite"], "--overwrite has no effect without --text-files, --csv or --metadata."),
        (["--say", "a dog", "--text-files"], "--text-files has no effect with --say"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(arguments, message, photos, capsys):
    write_photos(photos, ["A.png"])
    (photos / "taken.csv").mkdir()
    (photos / "other.csv").write_text("caption,image\na dog,a.jpg\n")
    before = sorted(photos.rglob("*")), (photos / "a.jpg").read_bytes()
    assert (
        main(
            [
                "caption",
                str(photos),
                "--recursive",
                *(argument.format(photos) for argument in arguments),
            ]
        )
        == 2
    )
    error = capsys.readouterr().err.splitlines()
    assert (
        message in error[-1]
        and (sorted(photos.rglob("*")), (photos / "a.jpg").read_bytes()) == before
    )
