import csv
import functools
import json
import re
from collections import Counter

import pytest
from helpers import write_copy_of_data_set, write_photos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_utils import DATASETS, coco, flickr8k, flickr30k, folder, read_data
from data_utils.datasets import draw_split
from data_utils.datasets.tables import cell_of, read_table, text_of

NAMES = ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
TOKENS = "".join(f"{name}#{i}\tCaption {i} of {name[0]} .\n" for name in NAMES for i in range(2))


@pytest.fixture
def official(tmp_path):
    """Flickr8k as it was given out: a token file and three lists; d is on no list."""
    write_photos(tmp_path / "Flicker8k_Dataset", NAMES)
    (tmp_path / "Flickr8k.token.txt").write_text(TOKENS)
    for split, name in (("train", "a.jpg"), ("dev", "b.jpg"), ("test", "c.jpg")):
        (tmp_path / f"Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
    return tmp_path


def karpathy(names_and_splits, **extra):
    captions = {
        name: [{"raw": f"Caption {i} of {name[0]} ."} for i in range(2)]
        for name, _ in names_and_splits
    }
    images = [
        {"filename": n, "split": split, "sentences": captions[n], **extra}
        for n, split in names_and_splits
    ]
    return {"images": images, "dataset": "any"}


def splits_of(images):
    return {image.image_id: image.split for image in images}


EXPECTED_SPLITS = {"a": "train", "b": "dev", "c": "test", "d": None}


# === The contract of every reader ===


@pytest.mark.parametrize("name", DATASETS)
def test_a_missing_or_empty_folder_is_one_clear_error(name, tmp_path):
    if name == "scenes":
        pytest.skip("the scenes are drawn into the folder")
    with pytest.raises(ValueError, match="The data folder does not exist.*Received: data_dir="):
        DATASETS[name](tmp_path / "missing")
    with pytest.raises(ValueError, match="No caption file found"):
        DATASETS[name](tmp_path)


def check_contract(images):
    """What holds for the images of every reader."""
    assert len({image.image_id for image in images}) == len(images)
    for image in images:
        assert image.captions and all(
            isinstance(caption, str) and caption for caption in image.captions
        )
        assert image.split in ("train", "dev", "test", None)
        with open(image.image_path, "rb") as file:
            assert file.read(1)


def write_folder(directory):
    write_photos(directory, NAMES)
    rows = "".join(f"{name},A dog\n" for name in NAMES)
    (directory / "captions.csv").write_text(f"image,caption\n{rows}")


# Functions that write a small data set for a reader into a folder.
SMALL_COPIES = {
    "flickr8k": functools.partial(write_copy_of_data_set, "flickr8k"),
    "flickr30k": functools.partial(write_copy_of_data_set, "flickr30k"),
    "coco": functools.partial(write_copy_of_data_set, "coco"),
    "folder": write_folder,
    "scenes": lambda directory: None,  # it draws them
}


@pytest.mark.parametrize("name", DATASETS)
def test_contract(name, tmp_path):
    SMALL_COPIES[name](tmp_path)
    options = {"num_scenes": 12} if name == "scenes" else {"split_seed": 1}
    images = DATASETS[name](tmp_path, **options)
    check_contract(images)
    assert {"train", "dev", "test"} == set(splits_of(images).values())
    assert splits_of(DATASETS[name](tmp_path, **options)) == splits_of(images)  # reproducible


# === Flickr8k ===


def test_flickr8k_as_it_was_given_out(official):
    images = flickr8k(official)
    check_contract(images)
    assert splits_of(images) == EXPECTED_SPLITS
    assert images[0].captions == ["Caption 0 of a .", "Caption 1 of a ."]


def test_flickr8k_captions_txt_with_the_official_lists(official):
    (official / "Flickr8k.token.txt").unlink()
    rows = [f'{name},"Caption {i} of ""{name[0]}"" , yes"' for name in NAMES for i in range(2)]
    (official / "captions.txt").write_text(
        "image,caption\n" + "\n".join(rows) + "\na.jpg,not quoted, with a comma\n"
    )
    images = flickr8k(official)
    assert splits_of(images) == EXPECTED_SPLITS
    assert images[0].captions == [
        'Caption 0 of "a" , yes',
        'Caption 1 of "a" , yes',
        "not quoted, with a comma",
    ]


def test_flickr8k_splits_of_karpathys_json_none_or_drawn(official):
    for split in ("train", "dev", "test"):
        (official / f"Flickr_8k.{split}Images.txt").unlink()
    splits = [("a.jpg", "train"), ("b.jpg", "val"), ("c.jpg", "test")]
    (official / "dataset_flickr8k.json").write_text(json.dumps(karpathy(splits)))
    assert splits_of(flickr8k(official)) == EXPECTED_SPLITS
    (official / "dataset_flickr8k.json").rename(official / "elsewhere.json")
    assert {*splits_of(flickr8k(official)).values()} == {None}
    assert Counter(splits_of(flickr8k(official, split_seed=0)).values()) == {
        "train": 2,
        "dev": 1,
        "test": 1,
    }
    (official / "elsewhere.json").rename(official / "dataset_flickr8k.json")
    (official / "Flickr8k.token.txt").unlink()
    with pytest.warns(UserWarning, match="photos without a caption left out: 1 .first: d"):
        images = flickr8k(official)
    assert splits_of(images) == {"a": "train", "b": "dev", "c": "test"}
    assert images[0].captions == ["Caption 0 of a .", "Caption 1 of a ."]


def test_one_warning_counts_captions_and_photos_that_are_left_out(official):
    with (official / "Flickr8k.token.txt").open("a") as file:
        for i in range(5):
            file.write(f"2258277193_586949ec62.jpg.1#{i}\tA man .\n")
        file.write("e.jpg#0\tA photo that is not there .\n")
    write_photos(official / "Flicker8k_Dataset", ["uncaptioned.jpg", "._a.jpg"])
    with (official / "Flickr_8k.trainImages.txt").open("a") as file:
        file.write("gone.jpg\n")
    left_out = (
        "captions without a photo left out: 6.*photos without a caption left out: 1 .first: "
        "uncaptioned"
    )
    with pytest.warns(
        UserWarning, match=f"{left_out}.*on a split list that are missing: 1 .first: gone"
    ) as warned:
        assert splits_of(flickr8k(official)) == EXPECTED_SPLITS
    assert len(warned) == 1


def test_a_photo_in_two_splits_is_rejected_with_both_places(official):
    (official / "Flickr_8k.devImages.txt").write_text("b.jpg\na.jpg\n")
    with pytest.raises(
        ValueError, match=r"devImages.txt, line 2: .*'a'.*'dev' and earlier in 'train'"
    ):
        flickr8k(official)


def test_nested_folders_and_macos_leftovers(official):
    (official / "Flickr8k_Dataset").mkdir()
    (official / "Flicker8k_Dataset").rename(official / "Flickr8k_Dataset" / "Flicker8k_Dataset")
    (official / "__MACOSX" / "Flicker8k_Dataset").mkdir(parents=True)
    (official / "__MACOSX" / "Flicker8k_Dataset" / "._a.jpg").write_bytes(b"junk")
    check_contract(flickr8k(official))


def test_tables_that_cannot_be_parsed_are_rejected_with_file_and_line(official):
    (official / "Flickr8k.token.txt").unlink()
    for text, message in (
        (
            'image,caption\na.jpg,"A quote that is not closed\nb.jpg,A dog\n',
            "captions.txt, line 3: .*quotes",
        ),
        ('image,caption\na.jpg,"A quote" inside\n', "captions.txt, line 2: "),
        ("picture,text\na.jpg,A dog\n", "captions.txt, line 1: the header must have"),
        ("", "captions.txt, line 1"),
    ):
        (official / "captions.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            flickr8k(official)


# === Flickr30k ===


def test_flickr30k_results_csv_with_its_missing_bar(tmp_path):
    write_photos(tmp_path / "flickr30k_images" / "flickr30k_images", NAMES)
    (tmp_path / "flickr30k_images" / "results.csv").write_text(
        "image_name| comment_number| comment\n"
        'a.jpg| 0| A "dog" | runs .\n'
        "a.jpg| 1   A dog runs across the grass .\n"
        "b.jpg| 0|  \n"
        "b.jpg| 1| A cat .\n"
        "a line without bars\n"
    )
    (tmp_path / "train.txt").write_text("a\n")
    (tmp_path / "val.txt").write_text("b\n")
    with pytest.warns(UserWarning, match="left out: 2 .first: results.csv, line 4"):
        images = flickr30k(tmp_path)
    assert images[0].captions == ['A "dog" | runs .', "A dog runs across the grass ."]
    assert splits_of(images) == {"a": "train", "b": "dev"}


def test_flickr30k_token_file_with_karpathys_splits(tmp_path):
    write_photos(tmp_path / "flickr30k-images", NAMES)
    (tmp_path / "results_20130124.token").write_text(TOKENS)
    splits = [("a.jpg", "train"), ("b.jpg", "val"), ("c.jpg", "test")]
    (tmp_path / "dataset_flickr30k.json").write_text(json.dumps(karpathy(splits)))
    assert splits_of(flickr30k(tmp_path)) == EXPECTED_SPLITS


# === COCO ===


def test_coco_karpathys_restval_is_train(tmp_path):
    write_copy_of_data_set("coco", tmp_path)
    assert Counter(splits_of(coco(tmp_path)).values()) == {"train": 4, "dev": 2, "test": 2}


def test_coco_own_files(tmp_path):
    (tmp_path / "annotations").mkdir()
    for split, names in (("train", ("a.jpg", "b.jpg")), ("val", ("c.jpg", "d.jpg"))):
        write_photos(tmp_path / "images" / f"{split}2017", names)
        images = [{"id": ord(name[0]), "file_name": name} for name in names]
        annotations = [
            {
                "id": i,
                "image_id": image["id"],
                "caption": f"Caption {i}\n of {image['file_name'][0]}",
            }
            for image in images
            for i in range(6)
        ]
        content = {"images": images, "annotations": annotations}
        (tmp_path / "annotations" / f"captions_{split}2017.json").write_text(json.dumps(content))
    images = coco(tmp_path)
    check_contract(images)
    assert splits_of(images) == {"a": "train", "b": "train", "c": "dev", "d": "dev"}
    assert images[0].captions[5] == "Caption 5 of a" and len(images[0].captions) == 6


# === Your own pictures ===


def test_folder_with_csv(tmp_path):
    write_photos(tmp_path, ("a.jpg", "b.png"))
    write_photos(tmp_path / "sub", ("c.jpg",))
    (tmp_path / "captions.csv").write_text(
        "image;caption;split\na.jpg;A dog, running;train\na.jpg;A brown "
        "dog;train\nb.png;A cat;val\nsub/c.jpg;A cow;\n"
    )
    with pytest.warns(UserWarning, match="without a split in captions.csv, not used: 1 .first: c"):
        images = folder(tmp_path)
    check_contract(images)
    assert splits_of(images) == {"a": "train", "b": "dev", "c": None}
    assert images[0].captions == ["A dog, running", "A brown dog"]


def test_folder_with_jsonl(tmp_path):
    write_photos(tmp_path, ("a.jpg", "b.jpg"))
    rows = (
        {"image": "a.jpg", "captions": ["A dog", "It runs"]},
        {"image": "b.jpg", "caption": "A cat", "split": "dev"},
    )
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    with pytest.warns(UserWarning, match="photos without a split in captions.jsonl, not used: 1"):
        assert splits_of(folder(tmp_path)) == {"a": None, "b": "dev"}
    for bad in ("[1]", '{"image": 3, "caption": "x"}', '{"image": "a.jpg"}', "nonsense"):
        (tmp_path / "captions.jsonl").write_text('{"image": "a.jpg", "caption": "A dog"}\n' + bad)
        with pytest.raises(ValueError, match="captions.jsonl, line 2: expected an object"):
            folder(tmp_path)


def test_a_seed_replaces_the_splits_of_a_table_and_says_so(tmp_path):
    write_photos(tmp_path, NAMES)
    rows = ("a.jpg,A dog,train", "b.jpg,A cat,test", "c.jpg,A cow,")
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    splits = []
    for read in (folder, functools.partial(read_data, "folder")):
        with pytest.warns(UserWarning) as warned:
            splits.append(splits_of(read(tmp_path, split_seed=0)))
        (warning,) = warned
        assert "splits in captions.csv ignored because of split_seed=0: 2" in str(warning.message)
        assert "without a split" not in str(warning.message)
    assert splits[0] == splits[1] == draw_split("abc", 0)


@pytest.mark.parametrize(
    "rows",
    [
        ("image,caption,split,caption", "a.jpg,one,dev,two", "b.jpg,,dev,three", "c.jpg,,dev,"),
        ("file_name;Text1;text_2", "a.jpg;one;two", "b.jpg;;three", "c.jpg;;"),
        ("caption,image,caption.1", "one,a.jpg,two", ",b.jpg,three", ",c.jpg"),
    ],
)
def test_a_table_may_have_several_columns_with_captions(rows, tmp_path):
    write_photos(tmp_path, ("a.jpg", "b.jpg", "c.jpg"))
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    left_out = "rows without an image or a caption left out: 1 .first: captions.csv, line 4"
    with pytest.warns(UserWarning, match=left_out):
        images = folder(tmp_path)
    assert [image.captions for image in images] == [["one", "two"], ["three"]]


def test_columns_that_cannot_be_told_apart_are_an_error(tmp_path):
    for text, message in (
        ("image,caption,caption\na.jpg,one, two, three\n", "line 2: this row has 4 columns, but"),
        ("image,caption,image\na.jpg,one,b.jpg\n", "line 1: the header has the column image twice"),
        ("image,caption,split,split\na.jpg,a,dev,test\n", "line 1: .* the column split twice"),
    ):
        (tmp_path / "captions.csv").write_text(text)
        with pytest.raises(ValueError, match=message):
            folder(tmp_path)


def test_folder_finds_pictures_with_backslashes_and_spaces_in_their_names(tmp_path):
    write_photos(tmp_path / "sub", ("a.jpg", "b.jpg"))
    rows = ("image,caption", "sub\\A.JPG,A dog", " ./sub//b.jpg ,A cat")
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    assert [image.captions for image in folder(tmp_path)] == [["A dog"], ["A cat"]]
    for name in (" ../a.jpg", " /etc/a.jpg"):
        (tmp_path / "captions.csv").write_text(f"image,caption\n{name},A dog\n")
        with pytest.raises(ValueError, match="line 2: this path leads outside"):
            folder(tmp_path)


def test_folder_rejects_tables_that_mix_pictures_up(tmp_path):
    write_photos(tmp_path, ("a.jpg", "a.png"))
    for text, message in (
        (
            "a.jpg,A dog,train\na.png,A cat,train\n",
            "line 3: two pictures have the same image id 'a'",
        ),
        ("a.jpg,A dog,train\na.jpg,A cat,dev\n", "line 3: .*'dev' and earlier in 'train'"),
        ("a.jpg,A dog,holiday\n", "line 2: unknown split.*Received: split='holiday'"),
        ("a.jpg,A dog,train,more\n", "line 2: this row has 4 columns, but the header has 3"),
        ("", "The caption file contains no captions"),
    ):
        (tmp_path / "captions.csv").write_text("image,caption,split\n" + text)
        with pytest.raises(ValueError, match=message):
            folder(tmp_path)


def test_folder_counts_rows_and_photos_that_it_leaves_out(tmp_path):
    write_photos(tmp_path, ("a.jpg", "b.jpg"))
    (tmp_path / "captions.csv").write_text(
        "image,caption\na.jpg,A dog\nb.jpg,\n,A cat\nc.jpg,A cow\nb.jpg\n"
    )
    left_out = ".*".join(
        (
            "rows without an image or a caption left out: 3 .first: captions.csv, line 3",
            "captions without a photo left out: 1 .first: c",
            "photos without a caption left out: 1 .first: b",
        )
    )
    with pytest.warns(UserWarning, match=left_out):
        assert splits_of(folder(tmp_path)) == {"a": None}


def test_folder_finds_pictures_in_any_case_and_skips_short_rows(tmp_path):
    write_photos(tmp_path, ("IMG_1.JPG",))
    write_photos(tmp_path / "S", ("p0.JPG",))
    rows = "img_1.jpg,A dog,\nimg_1.jpg,It runs\nimg_1.jpg\ns/p0.jpg,A cat,\ngone.jpg,A cow,\n"
    (tmp_path / "captions.csv").write_text(f"image,caption,split\n{rows}")
    left_out = (
        "without an image or a caption left out: 1 .first: captions.csv, line 4.*without a "
        "photo left out: 1"
    )
    with pytest.warns(UserWarning, match=left_out):
        images = folder(tmp_path)
    assert [image.captions for image in images] == [["A dog", "It runs"], ["A cat"]]
    (tmp_path / "captions.csv").write_text("image,caption\np0.jpg,A dog\n")
    with pytest.raises(ValueError, match=r"with the folder, such as S/p0.JPG\. Received"):
        folder(tmp_path)


# === The real files ===


def test_real_flickr8k(flickr8k_dir):
    images = flickr8k(flickr8k_dir)
    check_contract(images)
    assert Counter(image.split for image in images) == {"train": 6000, "dev": 1000}
    assert sum(len(image.captions) for image in images) == 35_000


@settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.text("=+-@';,\t\r\n \"a", max_size=12))
def test_formulas_are_quoted_for_spreadsheets_and_read_back(tmp_path, text):
    cell = cell_of(text)
    assert text_of(cell) == text
    assert not re.match(r"[=+\-@\t\r\n]", cell) and not re.search(r"[;\t\r\n][=+\-@]", cell)
    with open(tmp_path / "captions.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["caption", "image"], [cell, cell_of("-a.jpg")]])
    (row,) = read_table(tmp_path / "captions.csv").rows()
    assert row.image == "-a.jpg" and " ".join(row.captions) == " ".join(text.split())


@pytest.mark.parametrize("name", ["/etc/a.jpg", "b/../../a.jpg", "c:a.jpg", "\\\\host\\a.jpg"])
def test_names_that_lead_out_of_the_data_folder_are_rejected(name, tmp_path):
    line = json.dumps({"image": name, "caption": "a dog"})
    for number, table, content in (
        (1, "captions.jsonl", line),
        (2, "captions.csv", f"image,caption\n{name},A dog"),
    ):
        (tmp_path / table).write_text(content)
        where = rf"{table}, line {number}: this path leads outside the data folder"
        with pytest.raises(ValueError, match=rf"{where}.*Received: '"):
            folder(tmp_path)
    (tmp_path / "dataset_coco.json").write_text(
        json.dumps(karpathy([("a.jpg", "train")], filepath=name))
    )
    with pytest.raises(ValueError, match=r"dataset_coco\.json, image 0: .*outside the data folder"):
        coco(tmp_path)
