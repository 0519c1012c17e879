"""A folder of pictures becomes text files and tables, which are kept, continued and
read back.
"""

import codecs
import json
import os
import subprocess
import sys

import pytest
from helpers import write_photos

from data_utils import DATASETS
from data_utils.datasets.tables import read_table
from keras_sat.__main__ import main
from keras_sat.commands import caption as caption_command
from keras_sat.search import CaptionResult


class Spoken:
    """A captioner whose caption of every picture is its name.

    It stops before a picture called `stops_at`, and calls the functions in `meanwhile`,
    a dict from names of pictures, before a picture of this name.
    """

    def __init__(self, stops_at=None, meanwhile=None):
        self.stops_at, self.meanwhile, self.asked = stops_at, meanwhile or {}, []
        self.caption = "a {}, =so"

    def caption_each(self, paths, errors, **options):
        for path in paths:
            name = os.path.basename(path)
            self.asked.append(name)
            if name == self.stops_at:
                raise KeyboardInterrupt
            if name in self.meanwhile:
                self.meanwhile[name]()
            if name.startswith("bad"):
                yield path, OSError(5, "Bad", path)
                continue
            confidence = 0.9 if name.startswith("sure") else 0.5
            caption = self.caption.format(name)
            yield path, CaptionResult(caption, [], 0.0, None, confidence=confidence)


@pytest.fixture
def spoken(monkeypatch):
    def use(**options):
        captioner = Spoken(**options)
        monkeypatch.setattr(caption_command, "load_captioner", lambda *_: (captioner, True))
        return captioner

    return use


@pytest.fixture
def photos(tmp_path):
    write_photos(tmp_path / "photos", ["a.jpg", "b.png", "bad.jpg"])
    write_photos(tmp_path / "photos" / "sub", ["ü.jpg"])
    return tmp_path / "photos"


def contents(folder):
    """A dict from the files in a folder to their bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def all_files(photos):
    """The command that writes captions of all photos into every kind of file."""
    table = str(photos / "captions.csv")
    return ["caption", str(photos), "--recursive", "--text-files", "--csv", table, "--metadata"]


def test_captions_are_written_and_a_damaged_picture_is_told(all_files, photos, spoken, capsys):
    spoken()
    assert main(all_files) == 2
    assert (photos / "sub" / "ü.txt").read_text(encoding="utf-8") == "a ü.jpg, =so\n"
    rows = (photos / "captions.csv").read_text(encoding="utf-8").splitlines()
    assert rows[3] == 'sub/ü.jpg,"a ü.jpg, =so"'
    lines = (photos / "metadata.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[2]) == {"file_name": "sub/ü.jpg", "text": "a ü.jpg, =so"}
    assert not (photos / "bad.txt").exists()
    error = capsys.readouterr().err.splitlines()
    assert error[1:] == [f"keras-sat: {photos / 'bad.jpg'}: Bad", "keras-sat: failed: 1 pictures"]


@pytest.fixture
def captioned(all_files, photos, spoken):
    """The captioner that has captioned the photos. Since then, somebody has changed
    the text file of a.jpg, and added a caption of it to the table.
    """
    (photos / "bad.jpg").unlink()
    captioner = spoken()
    assert main(all_files) == 0 and len(captioner.asked) == 3
    (photos / "a.txt").write_text("mine")
    with open(photos / "captions.csv", "a") as file:
        file.write("a.jpg,a second caption\n")
    return captioner


def test_captions_that_are_there_are_kept(captioned, all_files, photos, capsys):
    before = contents(photos)
    assert main(all_files) == 0
    assert len(captioned.asked) == 3, "everything is there: nothing is captioned"
    assert "captioned before: 3 of 3 pictures" in capsys.readouterr().err
    assert contents(photos) == before


def test_a_new_picture_is_added(captioned, all_files, photos):
    before = (photos / "captions.csv").read_bytes()
    write_photos(photos, ["c.jpg"])
    assert main(all_files) == 0 and captioned.asked[3:] == ["c.jpg"]
    assert (photos / "a.txt").read_text() == "mine"
    assert (photos / "captions.csv").read_bytes().startswith(before)


def test_the_folder_is_a_data_set_by_its_table_or_its_metadata(captioned, photos):
    with_table = DATASETS["folder"](photos)
    (photos / "captions.csv").unlink()
    with_metadata = DATASETS["folder"](photos)
    for images in (with_table, with_metadata):
        assert [image.image_id for image in images] == ["a", "b", "ü"]
    assert with_table[0].captions == ["a a.jpg, =so", "a second caption"]
    assert with_metadata[0].captions == ["a a.jpg, =so"]


def test_captions_are_overwritten_where_that_is_asked_for(captioned, all_files, photos):
    (photos / "captions.csv").unlink()
    assert main([*all_files, "--overwrite"]) == 0
    assert (photos / "a.txt").read_text() == "a a.jpg, =so\n"
    assert (photos / "captions.csv").read_text(encoding="utf-8").count("\n") == 4


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
        (["--text-files"], "would have the same text file. Rename one. Received: "),
        (["--csv", "{}/sub/a.csv"], "This table must be in a folder that contains "),
        (
            ["--csv", "{}/a.jpg", "--overwrite"],
            "Expected a file name that ends in .csv. Received: --csv ",
        ),
        (["--csv", "{}/other.csv"], "other.csv, line 1: the header must have the columns image"),
        (["--csv", "{}/other.csv", "--overwrite"], "other.csv, line 1: the header must have"),
        (["--csv", "{}/taken.csv"], "taken.csv: Is a directory"),
        (["--overwrite"], "--overwrite has no effect without --text-files"),
        (["--say", "a dog", "--text-files"], "--text-files has no effect with --say"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(arguments, message, photos, capsys):
    write_photos(photos, ["A.png"])
    (photos / "taken.csv").mkdir()
    (photos / "other.csv").write_text("words,photo\na dog,a.jpg\n")
    before = contents(photos)
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
    assert message in error[-1] and contents(photos) == before
    assert all("overwrite" not in line for line in error if "--overwrite" not in arguments)


# === Tables that somebody else writes too ===


def captions_of(table):
    """A dict from the names in a table to all their captions."""
    captions = {}
    for row in read_table(table).rows():
        captions.setdefault(row.image, []).extend(row.captions)
    return captions


@pytest.fixture(params=["csv", "metadata"])
def table(request, photos):
    """A table in which a.jpg has two captions, and two missing pictures have one."""
    rows = {"one.jpg": "my own words", "a.jpg": "old", "b.png": "older", "two.jpg": "my, words"}
    if request.param == "csv":
        path = photos / "captions.csv"
        lines = [
            "image,caption",
            *(f'{name},"{caption}"' for name, caption in rows.items()),
            "a.jpg,oldest",
        ]
    else:
        path = photos / "metadata.jsonl"
        lines = [
            f'{{"file_name": "{name}",  "text": "{caption}"}}' for name, caption in rows.items()
        ]
        lines.append('{"image": "a.jpg", "captions": ["oldest"]}')
    path.write_text("\n".join(lines) + "\n")
    return path


def writing(table, *names):
    """The arguments of a command that captions pictures next to a table."""
    options = ["--csv", str(table)] if table.suffix == ".csv" else ["--metadata"]
    return ["caption", *(str(table.parent / name) for name in names), *options]


def test_overwrite_changes_only_the_rows_of_the_pictures_captioned_now(table, spoken):
    before, seen = captions_of(table), []
    lines = table.read_text().splitlines()
    spoken(meanwhile={"b.png": lambda: seen.append(captions_of(table))})
    assert main([*writing(table, "a.jpg", "b.png"), "--overwrite"]) == 0
    assert seen == [before | {"a.jpg": ["a a.jpg, =so"]}], (
        "a kill after the first picture loses nothing"
    )
    assert captions_of(table) == before | {"a.jpg": ["a a.jpg, =so"], "b.png": ["a b.png, =so"]}
    assert list(captions_of(table)) == list(before), "in the same order"
    others = [line for line in lines if "my" in line]
    assert [line for line in table.read_text().splitlines() if "my" in line] == others


def test_unsure_captions_replace_nothing(table, spoken):
    before = captions_of(table)
    write_photos(table.parent, ["sure.jpg"])
    spoken()
    options = ["--overwrite", "--min-confidence", "0.6"]
    assert main([*writing(table, "a.jpg", "sure.jpg", "b.png"), *options]) == 0
    assert captions_of(table) == before | {"sure.jpg": ["a sure.jpg, =so"]}


def test_what_others_write_during_a_run_is_kept(table, spoken):
    def correct():
        text = table.read_text()
        assert text.count("my own words") == text.count("a c.jpg, =so") == 1
        table.write_text(
            text.replace("my own words", "corrected").replace("a c.jpg, =so", "corrected too")
        )

    def run_another():
        assert (
            main(writing(table, "bad.png", "e.jpg")) == 2
        )  # it captions e.jpg, as the first run will do

    write_photos(table.parent, ["c.jpg", "d.jpg", "e.jpg"])
    before = captions_of(table)
    spoken(meanwhile={"d.jpg": correct, "ü.jpg": run_another})
    assert main(writing(table, "c.jpg", "d.jpg", "sub/ü.jpg", "e.jpg")) == 0
    new = {name: [f"a {os.path.basename(name)}, =so"] for name in ("d.jpg", "e.jpg", "sub/ü.jpg")}
    assert (
        captions_of(table) == before | {"one.jpg": ["corrected"], "c.jpg": ["corrected too"]} | new
    )


def test_captions_return_to_a_table_that_was_saved_from_an_older_copy(table, spoken):
    before = table.read_bytes()
    write_photos(table.parent, ["c.jpg", "d.jpg"])
    spoken(meanwhile={"d.jpg": lambda: table.write_bytes(before)})
    assert main(writing(table, "c.jpg", "d.jpg")) == 0
    assert table.read_bytes().startswith(before) and {"c.jpg", "d.jpg"} < captions_of(table).keys()


WRITE = """
import sys
from pathlib import Path
from keras_sat.commands.caption_files import Table
path = Path(sys.argv[1])
pictures = [str(path.with_name(f"{sys.argv[2]}{number}.jpg")) for number in range(20)]
table = Table(path, pictures, overwrite=False)
print("ready", flush=True)
sys.stdin.readline()
for picture in pictures:
    table.add(picture, "a caption")
    table.write()
"""


def test_two_processes_write_into_one_table(tmp_path):
    path = tmp_path / "captions.csv"
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, path, name], **pipes)
        for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert {*captions_of(path)} == {
        f"{name}{number}.jpg" for name in ("one", "two") for number in range(20)
    }


def test_a_table_that_is_damaged_during_a_run_costs_no_captions(photos, spoken, capsys):
    table = photos / "captions.csv"
    write_photos(photos, ["c.jpg"])

    def damage():
        table.write_text(table.read_text() + 'one.jpg,"an open quote\n')

    captioner = spoken(meanwhile={"b.png": damage})
    command = [*writing(table, "a.jpg", "b.png", "c.jpg"), "--metadata"]
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "captions.csv, line 3: " in error and error.endswith(
        f"could not be added are in {photos}/captions-2.csv."
    )
    assert captions_of(photos / "captions-2.csv") == {"b.png": ["a b.png, =so"]}
    assert (
        captions_of(photos / "metadata.jsonl").keys() == {"a.jpg", "b.png"}
        and len(captioner.asked) == 2
    )
    table.write_text(table.read_text().replace('"', ""))
    spoken()
    assert main(command) == 0 and captions_of(table).keys() == {
        "a.jpg",
        "one.jpg",
        "b.png",
        "c.jpg",
    }


# === The form of a table, and the names in it ===

FORMS = {
    "spreadsheet": (
        codecs.BOM_UTF8,
        "utf-8",
        "image;caption;split\r\none.jpg;é;train\r\n",
        "{};{};\r\n",
    ),
    "no last line ending": (b"", "utf-8", "image,caption\none.jpg,é", "{},{}\n"),
    "tabs": (codecs.BOM_UTF16_BE, "utf-16-be", "caption\timage\n\né\tone.jpg\n", "{1}\t{0}\n"),
    "metadata": (b"", "utf-8", "file_name,text,Text2\rone.jpg,é,é\r", "{},{},\r"),
    "odd quotes": (b"", "utf-8", '"Image", caption\n"one.jpg","é\né"\n', "{},{}\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_keeps_its_form(form, photos, spoken):
    mark, encoding, text, row = FORMS[form]
    table = photos / "captions.csv"
    table.write_bytes(mark + text.encode(encoding))
    new = "".join(row.format(name, f"a {name} =so") for name in ("a.jpg", "b.png"))
    ending = "" if text.endswith(("\n", "\r")) else "\n"
    captioner = spoken()
    captioner.caption = "a {} =so"
    assert main(writing(table, "a.jpg", "b.png")) == 0
    assert table.read_bytes() == mark + (text + ending + new).encode(encoding)
    captioner.caption = "{} again"
    assert main([*writing(table, "a.jpg"), "--overwrite"]) == 0
    changed = table.read_bytes().removeprefix(mark).decode(encoding)
    assert changed == (text + ending + new).replace("a a.jpg =so", "a.jpg again")


def test_the_other_cells_of_a_row_that_is_overwritten_are_kept(photos, spoken):
    table = photos / "captions.csv"
    table.write_text(
        "caption,split,caption,image,by\none,dev,two,b.png,me\none,train,two,a.jpg,you\n"
    )
    spoken()
    assert main([*writing(table, "a.jpg"), "--overwrite"]) == 0
    new = '"a a.jpg, =so",train,,a.jpg,you'
    assert table.read_text() == f"caption,split,caption,image,by\none,dev,two,b.png,me\n{new}\n"
    lines = photos / "metadata.jsonl"
    lines.write_text('{"image": "a.jpg", "captions": ["one", "two"], "split": "dev"}\n')
    assert main([*writing(lines, "a.jpg"), "--overwrite"]) == 0
    expected = {"image": "a.jpg", "captions": ["a a.jpg, =so"], "split": "dev"}
    assert json.loads(lines.read_text()) == expected


@pytest.mark.filterwarnings("default")
def test_a_table_in_windows_1252_becomes_utf8_with_a_mark(photos, spoken, capsys):
    table = photos / "captions.csv"
    table.write_bytes("image;caption\r\none.jpg;ein Café\r\n".encode("cp1252"))
    spoken()
    assert main(writing(table, "a.jpg")) == 0
    assert capsys.readouterr().err.count("not UTF-8, read as Windows-1252: 1") == 1
    assert table.read_bytes().startswith(
        codecs.BOM_UTF8 + "image;caption\r\none.jpg;ein Café\r\n".encode()
    )


def test_a_linked_table_is_written_through_the_link(photos, spoken, capsys):
    (photos / "table").write_text("image,caption\none.jpg,mine\n")
    link = photos.parent / "elsewhere" / "captions.csv"
    link.parent.mkdir()
    link.symlink_to(photos / "table")
    spoken()
    pictures = ["a.jpg", "sub/ü.jpg"]
    assert main(["caption", *(str(photos / name) for name in pictures), "--csv", str(link)]) == 0
    captions = {"one.jpg": ["mine"], "a.jpg": ["a a.jpg, =so"], "sub/ü.jpg": ["a ü.jpg, =so"]}
    assert link.is_symlink() and captions_of(photos / "table") == captions

    # Its name would mean another picture, or none, in the folder of the table.
    write_photos(link.parent, ["b.png"])
    assert main(writing(link, "b.png")) == 2
    error = capsys.readouterr().err
    assert "This table must be in a folder that contains" in error
    assert f"captions.csv, a link to {os.path.realpath(photos / 'table')}" in error
    assert captions_of(photos / "table") == captions


def test_captions_that_a_linked_table_cannot_take_are_next_to_the_table_itself(photos, spoken):
    table, link = photos / "table", photos.parent / "link.csv"
    table.write_text("image,caption\n")
    link.symlink_to(table)
    spoken(meanwhile={"a.jpg": lambda: table.write_text('image,caption\n"open')})
    assert main(["caption", str(photos / "a.jpg"), "--csv", str(link)]) == 2
    assert captions_of(photos / "link-2.csv") == {"a.jpg": ["a a.jpg, =so"]}


def test_a_folder_may_be_reached_through_a_link(photos, spoken):
    (photos.parent / "linked").symlink_to(photos)
    (photos / "captions.csv").write_text("image,caption\n")
    (photos.parent / "linked" / "link.csv").symlink_to(photos / "captions.csv")
    spoken()
    assert main(writing(photos.parent / "linked" / "captions.csv", "a.jpg")) == 0
    assert main(writing(photos.parent / "linked" / "link.csv", "b.png")) == 0
    assert captions_of(photos / "captions.csv").keys() == {"a.jpg", "b.png"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_odd_names_are_read_back_as_they_are(tmp_path, spoken, capsys):
    names = [
        "x\nline.jpg",
        "line.jpg",
        "\rcr\r.jpg",
        " lead.jpg",
        'q"u;o,te.jpg ',
        "back\\slash.jpg",
        "=1.jpg",
    ]
    write_photos(tmp_path, [name.strip() for name in names])
    for name in names:
        (tmp_path / name.strip()).rename(tmp_path / name)
    captioner = spoken()
    for command in (
        writing(tmp_path / "captions.csv", *names),
        writing(tmp_path / "metadata.jsonl", *names),
    ):
        assert main(command) == 0 and len(captioner.asked) == len(names)
        captioner.asked.clear()
        assert main(command) == 0 and not captioner.asked
    expected = {os.fspath(tmp_path / name): [" ".join(f"a {name}, =so".split())] for name in names}
    for _ in ("captions.csv", "metadata.jsonl"):
        images = DATASETS["folder"](tmp_path)
        assert {image.image_path: image.captions for image in images} == expected
        (tmp_path / "captions.csv").unlink(missing_ok=True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_names_that_differ_in_spaces_have_two_rows(photos, spoken, capsys):
    (photos / "a.jpg").rename(photos / " a.jpg")
    write_photos(photos, ["a.jpg"])
    spoken()
    table = photos / "captions.csv"
    assert main(writing(table, " a.jpg", "a.jpg")) == 0
    assert captions_of(table) == {" a.jpg": ["a a.jpg, =so"], "a.jpg": ["a a.jpg, =so"]}
    with pytest.raises(ValueError, match="two pictures have the same image id 'a'.*Rename one"):
        DATASETS["folder"](photos)


def test_a_row_is_recognised_however_its_name_is_spelled(photos, spoken):
    table = photos / "captions.csv"
    write_photos(photos, ["B.png"])
    rows = [
        "sub\\Ü.JPG,mine",
        " ./a.jpg ,mine",
        "B.png,mine",
        "../b.png,not mine",
        "/etc/b.png,not mine",
    ]
    table.write_text("\n".join(["image,caption", *rows]) + "\n", encoding="utf-8")
    captioner = spoken()
    names = (
        ["a.jpg", "sub/ü.jpg"] if (photos / "A.JPG").exists() else ["a.jpg", "b.png", "sub/ü.jpg"]
    )
    assert main(writing(table, *names)) == 0
    assert captioner.asked == [name for name in names if name == "b.png"]


# === Text files ===


@pytest.mark.parametrize("options", [["--text-files"], ["--text-files", "--overwrite"]])
def test_a_picture_called_txt_is_not_overwritten(options, photos, spoken, capsys):
    (photos / "b.png").rename(photos / "b.txt")
    before = contents(photos)
    captioner = spoken()
    assert main(["caption", str(photos / "b.txt"), *options]) == 2
    assert (
        "The output would overwrite the picture. Received: --text-files, "
        in capsys.readouterr().err
    )
    (photos / "a.jpg").rename(photos / "b.jpg")
    if "--overwrite" in options:
        assert main(["caption", str(photos / "b.jpg"), *options]) == 2
        assert "--overwrite replaces text files only" in capsys.readouterr().err
    assert not captioner.asked and {*contents(photos).values()} == {*before.values()}
    (photos / "b.txt").write_text("old", encoding="utf-16")
    assert main(["caption", str(photos / "b.jpg"), "--text-files", "--overwrite"]) == 0
    assert (photos / "b.txt").read_text() == "a b.jpg, =so\n"
