"""Whatever a file holds, it is read, or refused with a ValueError that names it; and a stranger's file runs nothing."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from conftest import mean_colour_encoder, write_copy_of_data_set, write_photos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from data_utils import DATASETS, FeatureCache, Vocabulary, load_document, load_image
from data_utils.downloads import extract
from data_utils.files import read_json, write_sealed_json
from keras_sat import AttentionDisplay, Captioner, ScoreTable
from keras_sat.__main__ import main
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import read_model, write_arrays
from keras_sat.model.encoders import ENCODERS
from keras_sat.scoring.evaluate import evaluate_captions


def examples(number):
    """The same examples in every run, as many as this; KERAS_SAT_EXAMPLES=20 takes twenty times as many."""
    number *= int(os.environ.get("KERAS_SAT_EXAMPLES", 1))
    unhealthy = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=number, derandomize=True, deadline=None, database=None, suppress_health_check=unhealthy
    )


# === What can stand in a file ===


@st.composite
def damaged(draw, whole):
    """Draw what became of a file: bits flipped, parts cut off, put in, or there twice; or something else altogether."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8"))))
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place, length = draw(st.integers(0, max(len(content) - 1, 0))), draw(st.integers(1, 40))
        kind = draw(st.sampled_from(["flip", "cut", "remove", "insert", "twice"]))
        if kind == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del content[place:]
        elif kind == "remove":
            del content[place : place + length]
        elif kind == "insert":
            content[place:place] = draw(st.one_of(st.binary(max_size=9), st.sampled_from([b"\n", b'"', b"\t", b"\0"])))
        else:
            content[place:place] = content[place : place + length]
    return bytes(content)


ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        10**12,
        10**400,
        1e300,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
        "\0",
        "../..",
        "a" * 5000,
    ]
    + [[], {}, [[]], [None], {"a": 1}, [1, 2, 3], {"class_name": "Lambda", "config": {"value": 1}}]
)


@st.composite
def altered(draw, value):
    """Draw a value of JSON in which something, anywhere, is replaced or missing."""
    if isinstance(value, (dict, list)) and value and draw(st.integers(0, 7)):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        copy = value.copy()
        if draw(st.integers(0, 5)):
            copy[key] = draw(altered(value[key]))
        else:
            del copy[key]
        return copy
    return draw(ODD)


def refused_or_read(read, *names):
    """Call a reader: it returns something, or raises a ValueError that names what it read, the file or its folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what was left out, with numbers
        try:
            return read()
        except ValueError as error:
            assert any(str(name) in str(error) and len(str(error)) > len(str(name)) + 10 for name in names), error
            assert len(str(error)) < 1500, error  # whatever it quotes
            return None


# === Captions ===

READERS = {  # file: (reader, what it holds)
    "Flickr8k.token.txt": ("flickr8k", None),
    "Flickr_8k.trainImages.txt": ("flickr8k", None),
    "captions.txt": ("flickr8k", b'image,caption\n0.jpg,A dog runs .\n1.jpg,"A cat, asleep"\n'),
    "results.csv": ("flickr30k", b"image_name| comment_number| comment\n0.jpg| 0| A dog .\n1.jpg| 1| A cat .\n"),
    "dataset_coco.json": ("coco", None),
    "captions.csv": ("folder", b'image,caption,split\n0.jpg,A dog,train\n1.jpg,"A ""big"" cat",dev\n'),
    "captions.jsonl": ("folder", b'{"image": "0.jpg", "caption": "A dog"}\n{"image": "1.jpg", "captions": ["A"]}\n'),
}


@pytest.fixture(params=READERS)
def caption_file(request, tmp_path):
    """A file of a small data set: its path, its content, and a function that reads the data set."""
    name, content = READERS[request.param]
    path = tmp_path / request.param
    if content is None or name == "flickr8k":
        write_copy_of_data_set(name, tmp_path)
    else:
        write_photos(tmp_path, ["0.jpg", "1.jpg"])
    if content is not None:
        (tmp_path / "Flickr8k.token.txt").unlink(missing_ok=True)
        path.write_bytes(content)
    split_seed = 0 if name == "flickr30k" else None
    return path, path.read_bytes(), lambda: DATASETS[name](tmp_path, split_seed=split_seed)


def test_files_of_captions(caption_file):
    path, whole, read = caption_file
    assert refused_or_read(read, path)

    @examples(50)
    @given(damaged(whole))
    def check(content):
        path.write_bytes(content)
        images = refused_or_read(read, path.name, path.parent) if path.exists() else []
        assert all(image.captions and isinstance(image.image_path, str) for image in images or [])

    check()


@pytest.mark.parametrize("name", ["dataset_coco.json", "captions_val2014.json", "captions.jsonl"])
def test_json_of_captions(name, tmp_path):
    write_copy_of_data_set("coco", tmp_path)
    reader = "folder" if name == "captions.jsonl" else "coco"
    value = json.loads((tmp_path / "dataset_coco.json").read_text())
    if reader == "folder":
        write_photos(tmp_path, ["0.jpg"])
        value = {"image": "0.jpg", "captions": ["A dog", "A cat"], "split": "train"}
    elif name != "dataset_coco.json":
        (tmp_path / "dataset_coco.json").unlink()
        images = [{"id": n, "file_name": entry["filename"]} for n, entry in enumerate(value["images"])]
        value = {"images": images, "annotations": [{"image_id": n, "caption": "A dog", "id": n} for n in range(8)]}

    @examples(60)
    @given(altered(value))
    def check(value):
        (tmp_path / name).write_text(json.dumps(value))
        refused_or_read(lambda: DATASETS[reader](tmp_path, split_seed=0), name, tmp_path)

    check()


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000], ids=len)
def test_json_that_is_nested_too_deeply_or_has_numbers_without_end(content, tmp_path):
    for name in ("a.json", "captions.jsonl"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json"):
        read_json(tmp_path / "a.json")
    with pytest.raises(ValueError, match=r"captions\.jsonl, line 1"):
        DATASETS["folder"](tmp_path)


# === Captions and scores that another program wrote ===


def test_captions_to_be_scored(tmp_path, quick_meteor):
    write_copy_of_data_set("flickr8k", tmp_path)
    entries = [{"image_id": n, "caption": "a dog"} for n in (6, 7)]
    table = evaluate_captions(entries, "flickr8k", data_dir=tmp_path, show_progress=False)
    table.to_json(tmp_path / "table.json")

    @examples(30)
    @given(st.one_of(altered(entries), altered({"captions": entries})))
    def check_captions(value):
        (tmp_path / "captions.json").write_text(json.dumps(value))
        score = lambda: evaluate_captions(tmp_path / "captions.json", "flickr8k", data_dir=tmp_path)  # noqa: E731
        refused_or_read(score, "captions.json")

    @examples(60)
    @given(altered(read_json(tmp_path / "table.json")))
    def check_table(value):
        (tmp_path / "other.json").write_text(json.dumps(value))
        refused_or_read(lambda: ScoreTable.from_json(tmp_path / "other.json"), "other.json")

    check_captions()
    check_table()


# === Vocabularies, caches, trainings and models ===


def test_vocabularies(tmp_path):
    path = tmp_path / "vocabulary.json"
    Vocabulary(["dog", "runs", "é"]).save(path)
    whole, value = path.read_bytes(), read_json(path)
    del value["digest"]

    @examples(60)
    @given(damaged(whole))
    def check_bytes(content):
        path.write_bytes(content)
        assert refused_or_read(lambda: Vocabulary.load(path), path) in (None, Vocabulary(["dog", "runs", "é"]))

    @examples(60)
    @given(altered(value).filter(lambda value: isinstance(value, dict)))
    def check_strangers(value):
        write_sealed_json(path, value)
        refused_or_read(lambda: Vocabulary.load(path), path)

    check_bytes()
    check_strangers()


def test_feature_caches(tmp_path):
    write_photos(tmp_path / "photos", ["a.png", "b.png"])
    options = {"image_size": 16, "show_progress": False}
    paths = [tmp_path / "photos" / "a.png", tmp_path / "photos" / "b.png"]
    FeatureCache.build(tmp_path / "cache", ["a", "b"], paths, mean_colour_encoder, **options)
    value = read_json(tmp_path / "cache" / "manifest.json")
    del value["digest"]

    @examples(50)
    @given(altered(value).filter(lambda value: isinstance(value, dict)))
    def check(value):
        write_sealed_json(tmp_path / "cache" / "manifest.json", value)
        cache = refused_or_read(lambda: FeatureCache.open(tmp_path / "cache"), tmp_path)
        if cache is not None:
            refused_or_read(lambda: cache.features(["a"]), tmp_path)

    check()


def test_shards_of_feature_caches(tmp_path):
    write_photos(tmp_path / "photos", ["a.png", "b.png"])
    paths = [tmp_path / "photos" / "a.png", tmp_path / "photos" / "b.png"]
    for shard in ("1/2", "2/2"):
        options = {"image_size": 16, "show_progress": False, "shard": shard}
        cache = FeatureCache.build(tmp_path / "cache", ["a", "b"], paths, mean_colour_encoder, **options)
    value = read_json(cache.directory / "manifest.json")
    del value["digest"]
    of_a_shard = altered({"shard": 2, "shards": 2}).map(lambda shard: {**value, "shard": shard})

    @examples(50)
    @given(st.one_of(of_a_shard, altered(value).filter(lambda value: isinstance(value, dict))))
    def check(value):
        write_sealed_json(cache.directory / "manifest.json", value)
        refused_or_read(lambda: FeatureCache.open(tmp_path / "cache").features(["a", "b"]), tmp_path / "cache")

    check()


def test_checkpoints(tmp_path):
    value = {"epochs": [{"loss": 1.5}], "state": write_arrays(tmp_path, "state", {"a": np.ones(3)})}

    @examples(50)
    @given(altered(value).filter(lambda value: isinstance(value, dict)))
    def check(value):
        write_sealed_json(tmp_path / "progress.json", value)
        refused_or_read(lambda: read_checkpoint(tmp_path), tmp_path)

    check()


@pytest.mark.parametrize("name", ["\0", "\ud800", "../state-0123456789abcdef.npz", "", 5, None])
def test_names_of_files_that_a_stranger_chose(name, model_dir, tmp_path):
    write_sealed_json(tmp_path / "progress.json", {"epochs": [], "state": name})
    with pytest.raises(ValueError, match=r"progress\.json: this is something else"):
        read_checkpoint(tmp_path)
    settings = read_json(model_dir / "config.json")
    del settings["digest"]
    settings["files"]["weights"] = name
    write_sealed_json(model_dir / "config.json", settings)
    with pytest.raises(ValueError, match=r"config\.json: it names no files"):
        read_model(model_dir)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A folder with a captioner of a few weights."""
    folder = tmp_path_factory.mktemp("small") / "model"
    captioner = Captioner(["dog", "runs"], encoder=None, embedding_dim=3, hidden_dim=4, attention_dim=5)
    captioner.build(((None, 6, 7), (None, None)))
    captioner.save(folder)
    return folder


@pytest.fixture
def model_dir(small_model, tmp_path):
    for path in small_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_settings_of_models(model_dir):
    value = read_json(model_dir / "config.json")
    del value["digest"]

    @examples(60)
    @given(altered(value).filter(lambda value: isinstance(value, dict)))
    def check(value):
        write_sealed_json(model_dir / "config.json", value)
        refused_or_read(lambda: Captioner.load(model_dir), model_dir)

    check()


def stranger(model_dir, **changes):
    """Change settings of a model as someone would who knows how they are sealed."""
    settings = read_json(model_dir / "config.json")
    del settings["digest"]
    settings["captioner"] |= changes
    write_sealed_json(model_dir / "config.json", settings)


def seal_weights(model_dir, content):
    """Put an archive of arrays into a model, sealed."""
    import hashlib

    settings = read_json(model_dir / "config.json")
    del settings["digest"]
    settings["files"]["weights"] = f"weights-{hashlib.sha256(content).hexdigest()[:16]}.npz"
    (model_dir / settings["files"]["weights"]).write_bytes(content)
    write_sealed_json(model_dir / "config.json", settings)


def test_weights_of_models(model_dir):
    (path,) = model_dir.glob("weights-*.npz")

    @examples(60)
    @given(damaged(path.read_bytes()))
    def check(content):
        seal_weights(model_dir, content)
        refused_or_read(lambda: read_model(model_dir), "weights-")

    check()


def test_long_values_are_not_quoted_whole(model_dir, tmp_path):
    long, options = 5000 * "a", ("encoder", "attention", "cell", "dtype", "encoder_training", "grid", "image_size")
    write_photos(tmp_path / "photos", ["0.jpg"])
    table = tmp_path / "photos" / "captions.jsonl"
    rows = {"image": "0.jpg", "caption": "a dog", "split": long}, {"image": long, "caption": "a dog"}
    write_row = lambda _, **row: table.write_text(json.dumps(row))  # noqa: E731
    tries = [
        *((stranger, {option: long}, lambda: Captioner.load(model_dir)) for option in options),
        *((write_row, row, lambda: DATASETS["folder"](table.parent)) for row in rows),
        (lambda _: None, {}, lambda: AttentionDisplay(np.zeros((8, 8, 3), np.uint8), long, np.ones((1, 2, 2)))),
    ]
    for write, values, read in tries:
        write(model_dir, **values)
        with pytest.raises(ValueError, match="aaa") as caught:
            read()
        assert len(str(caught.value)) < 1000, values.keys()


# === Pictures and zips ===

ENDINGS = ["png", "jpg", "gif", "bmp", "webp", "tif", "ppm", "ico", "tga"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_pictures(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    Image.effect_noise((24, 16), 90).convert("RGB").save(path)
    whole = path.read_bytes()
    assert load_image(path).shape[2] == 3

    @examples(60)
    @given(damaged(whole))
    def check(content):
        path.write_bytes(content)
        refused_or_read(lambda: load_image(path, 8), path)

    check()


def test_zips(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("d/a.txt", "a dog " * 40)
        archive.writestr("b.jpg", bytes(range(200)))

    @examples(60)
    @given(damaged(file.getvalue()))
    def check(content):
        (tmp_path / "a.zip").write_bytes(content)
        refused_or_read(lambda: extract(tmp_path / "a.zip", tmp_path / "out", show_progress=False), "a.zip")

    (tmp_path / "out").mkdir()
    check()


# === What is larger than it should be ===


def test_a_caption_file_of_one_gigabyte_in_one_line(tmp_path):
    write_photos(tmp_path, ["a.jpg"])
    with open(tmp_path / "captions.csv", "wb") as file:
        file.write(b"image,caption\na.jpg,")
        file.truncate(1_000_000_000)  # a hole, which takes no room
    begun = time.monotonic()
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"captions\.csv: the file is too large.*at most 500 MB.*Received: 1000 MB"):
        DATASETS["folder"](tmp_path)
    (tmp_path / "captions.csv").rename(tmp_path / "captions.json")
    with pytest.raises(ValueError, match=r"captions\.json: the file is too large"):
        read_json(tmp_path / "captions.json")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000 and time.monotonic() - begun < 30
    tracemalloc.stop()


def test_a_line_without_end(tmp_path):
    (tmp_path / "a.txt").write_text("a.jpg\ta dog\n" + "x" * 1_000_001)
    with pytest.raises(ValueError, match=r"a\.txt, line 2: the line is too long.*Received: 1000001 letters"):
        load_document(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("a.jpg\ta dog\n" * 100_000)
    assert load_document(tmp_path / "a.txt").count("\n") == 100_000


def test_a_caption_without_end(tmp_path):
    write_photos(tmp_path, ["a.jpg"])
    line = json.dumps({"image": "a.jpg", "caption": "a" + "\u0301\u0323" * 5000})  # sorted in quadratic time
    (tmp_path / "captions.jsonl").write_text(line)
    with pytest.raises(ValueError, match="too long to be one.*at most 10000 letters.*10001 letters for image_id='a'"):
        DATASETS["folder"](tmp_path)
    with pytest.raises(ValueError, match="captions: a caption is too long to be one.*10001 letters for image_id='a'"):
        evaluate_captions([{"image_id": "a", "caption": "a" * 10_001}], [])


def test_a_zip_that_would_fill_the_disk(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a", "w") as entry:
        for _ in range(120):
            entry.write(bytes(1_000_000))
    assert (tmp_path / "bomb.zip").stat().st_size < 200_000
    with pytest.raises(ValueError, match=r"bomb\.zip: .*\d+ bytes that unpack to 120000000 are not a data set"):
        extract(tmp_path / "bomb.zip", tmp_path / ".", show_progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


def test_a_picture_that_claims_to_be_huge(tmp_path):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    (tmp_path / "bomb.png").write_bytes(content)
    with pytest.raises(ValueError, match=r"bomb\.png: the picture is too large"):
        load_image(tmp_path / "bomb.png", 64)
    (tmp_path / "bomb.gif").write_bytes(b"GIF89a" + struct.pack("<HHBBB", 60_000, 60_000, 0, 0, 0) + b";")
    with pytest.raises(ValueError, match=r"bomb\.gif"):
        load_image(tmp_path / "bomb.gif")


@pytest.mark.parametrize("shape", [(2**20, 2**22), (2**40, 2**40), (10**9,), (-1, 3)], ids=str)
def test_weights_that_claim_to_be_huge(shape, model_dir):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(40))
    seal_weights(model_dir, packed.getvalue())
    with pytest.raises(ValueError, match=r"weights-\w+\.npz: the arrays cannot be read"):
        read_model(model_dir)


NOT_NUMPY = np.lib.format.magic(1, 0) + struct.pack("<H", 6) + b"dict()"


@pytest.mark.parametrize("name, entry", [("a", b"nothing"), ("a.npy", b"nothing"), ("a.npy", NOT_NUMPY), ("a", b"")])
def test_entries_that_are_no_arrays_are_named_in_plain_words(name, entry, model_dir):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, entry)
    seal_weights(model_dir, packed.getvalue())
    with pytest.raises(
        ValueError, match="cannot be read: 'a' is no array of numbers as numpy.save writes it. Expected"
    ):
        read_model(model_dir)


def test_weights_that_are_no_archive(model_dir):
    seal_weights(model_dir, b"nothing")
    with pytest.raises(ValueError, match=r"weights-\w+\.npz: the arrays cannot be read: the file is no whole archive"):
        read_model(model_dir)


def test_weights_that_unpack_to_much_more_than_the_file(model_dir):
    packed = io.BytesIO()
    np.savez_compressed(packed, a=np.zeros(10_000_000, np.float32))
    seal_weights(model_dir, packed.getvalue())
    with pytest.raises(ValueError, match="they claim to be larger than the file"):
        read_model(model_dir)


def test_scales_that_would_make_a_matrix_huge(model_dir):
    name = write_arrays(model_dir, "weights", {"a": np.zeros((9000, 1), np.int8), "a@scale": np.ones((1, 9000), "f4")})
    seal_weights(model_dir, (model_dir / name).read_bytes())
    with pytest.raises(ValueError, match="the scales of a are missing"):
        read_model(model_dir)


@pytest.mark.parametrize(
    "name", ["embedding_dim", "hidden_dim", "attention_dim", "num_layers", "feature_projection_dim"]
)
def test_settings_that_claim_a_huge_model(name, model_dir):
    stranger(model_dir, **{name: 10**7})
    with pytest.raises(ValueError, match=f"claim a larger model than the weights beside them.*{name}"):
        Captioner.load(model_dir)


@pytest.mark.parametrize("value", ["x", "x" * 100, True, -1, 1.5, [1, 2], 10**400], ids=lambda value: str(value)[:4])
def test_sizes_that_are_no_numbers_allocate_nothing(value, model_dir):
    stranger(model_dir, attention_dim=value, hidden_dim=300_000_000)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a size is a whole number .*Received: attention_dim=") as caught:
        Captioner.load(model_dir)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000 and str(model_dir) in str(caught.value)
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["captioner", "feature_shape", "encoder", "encoder_training", "grid_shape"])
def test_settings_that_are_missing_are_named(name, model_dir):
    settings = read_json(model_dir / "config.json")
    del settings["digest"]
    del (settings if name in settings else settings["captioner"])[name]
    write_sealed_json(model_dir / "config.json", settings)
    with pytest.raises(ValueError, match=f"{model_dir.name}: the setting '{name}' is missing in config.json.$"):
        Captioner.load(model_dir)


@pytest.mark.parametrize("grid", ["hard", [10**6, 10**6], [1, 6], [-2, -3], [2.0, 3], [6], 6], ids=str)
def test_a_grid_that_is_not_the_model_s_is_refused_when_it_is_loaded(grid, model_dir):
    stranger(model_dir, grid_shape=[2, 3])
    assert Captioner.load(model_dir).rows_and_columns() == (2, 3)
    stranger(model_dir, grid_shape=grid)
    with pytest.raises(ValueError, match=r"captioner\.grid_shape in config\.json .*Received: captioner") as caught:
        Captioner.load(model_dir)
    assert str(caught.value).startswith(str(model_dir)) and str(caught.value).endswith(f"grid_shape={grid}")
    stranger(model_dir, grid_shape=None)
    settings = read_json(model_dir / "config.json")
    del settings["digest"]
    write_sealed_json(model_dir / "config.json", {**settings, "rows_and_columns": [2, 2]})
    with pytest.raises(ValueError, match=r"rows_and_columns in config\.json is no grid.* its 6 regions. Received: "):
        Captioner.load(model_dir)


def test_encoder_weights_that_claim_to_be_huge(tmp_path):
    for name in ("huge.weights.h5", "huge.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("layers/conv/vars/0", shape=(10**6, 10**7), dtype="f4", chunks=(1000, 1000))
        assert (tmp_path / name).stat().st_size < 100_000
        with pytest.raises(ValueError, match=rf"it claims 40000\.0 GB.*{name}"):
            ENCODERS["tiny"](weights=tmp_path / name)


# === Files of a stranger run nothing ===


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return Path.touch, (Path(self.marker),)


@pytest.fixture
def marker(tmp_path):
    """The file that code of a stranger would make; at the end it must not be there."""
    path = tmp_path / "marker"
    yield path
    assert not path.exists(), "a stranger's code has run"


def test_the_payload_would_work(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "marker")))
    assert (tmp_path / "marker").exists()


def test_a_pickle_is_no_vocabulary_no_settings_no_weights_and_no_cache(model_dir, marker, tmp_path):
    evil = pickle.dumps(Payload(marker))
    (tmp_path / "vocabulary.json").write_bytes(evil)
    with pytest.raises(ValueError, match=r"vocabulary\.json"):
        Vocabulary.load(tmp_path / "vocabulary.json")
    objects = io.BytesIO()
    np.save(objects, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", objects.getvalue())
    for content in (evil, objects.getvalue(), packed.getvalue()):
        seal_weights(model_dir, content)
        with pytest.raises(ValueError, match=r"weights-\w+\.npz: the arrays cannot be read"):
            Captioner.load(model_dir)
    (model_dir / "config.json").write_bytes(evil)
    with pytest.raises(ValueError, match=r"config\.json"):
        Captioner.load(model_dir)
    write_photos(tmp_path / "photos", ["a.png"])
    cache = tmp_path / "cache"
    FeatureCache.build(cache, ["a"], [tmp_path / "photos" / "a.png"], mean_colour_encoder, image_size=16)
    for name in ("features", "rows"):
        whole = (cache / f"{name}.npy").read_bytes()
        for content in (evil, objects.getvalue()):
            (cache / f"{name}.npy").write_bytes(content)
            with pytest.raises(ValueError, match=f"{name}.npy"):
                FeatureCache.open(cache)
        (cache / f"{name}.npy").write_bytes(whole)


def touching(marker):
    """Return a function that makes a file, as a stranger would write it into a Lambda layer."""
    name = str(marker)
    return lambda x, name=name: open(name, "w").close() or x


def serialised_lambda(marker):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says that this is unsafe
        return keras.saving.serialize_keras_object(touching(marker))


@pytest.mark.parametrize(
    "option", ["readout_activation", "cell", "attention", "scoring", "dtype", "encoder", "encoder_training", "seed"]
)
def test_settings_that_name_a_lambda_or_a_class_of_a_stranger(option, model_dir, marker, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text(
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Evil: pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    code = serialised_lambda(marker)
    for value in (
        code,
        {"class_name": "Lambda", "module": "keras.layers", "config": {"function": code}, "registered_name": None},
        {"class_name": "Evil", "module": "evil_module", "config": {}, "registered_name": "Evil"},
        {"class_name": "Path", "module": "pathlib", "config": {"path": str(marker)}, "registered_name": None},
        "evil_module.Evil",
        "evil_module>Evil",
    ):
        stranger(model_dir, **{option: value})
        with pytest.raises(ValueError, match=r"settings|Expected one of|Could not interpret|Cannot convert|must be"):
            Captioner.load(model_dir)


def test_encoder_weights_with_a_lambda(marker, tmp_path):
    images = keras.Input((64, 64, 3))
    model = keras.Model(images, keras.layers.Lambda(touching(marker), output_shape=(64, 64, 3))(images))
    marker.unlink(missing_ok=True)  # it ran while the model was made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says that this is unsafe
        model.save(tmp_path / "evil.keras")
        model.save(tmp_path / "evil.h5")
    (tmp_path / "evil.weights.h5").write_bytes((tmp_path / "evil.h5").read_bytes())
    (tmp_path / "pickle.h5").write_bytes(pickle.dumps(Payload(marker)))
    for name in ("evil.keras", "evil.h5", "evil.weights.h5", "pickle.h5"):
        with pytest.raises(ValueError, match=f"does not hold the weights of tiny.*{name}"):
            ENCODERS["tiny"](weights=tmp_path / name)


def test_a_postscript_picture_starts_no_other_program(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    with pytest.raises(ValueError, match=r"a\.png: this is not a picture that can be read"):
        load_image(tmp_path / "a.png")


def test_the_command_line_says_it_in_one_line(model_dir, marker, tmp_path, capsys):
    write_photos(tmp_path / "photos", ["a.png"])
    seal_weights(model_dir, pickle.dumps(Payload(marker)))
    assert main(["caption", str(tmp_path / "photos" / "a.png"), "--model", str(model_dir)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keras-sat: ") and error.count("\n") == 1 and "save the captioner again" in error


# === Two processes at a time ===

SAVES = """
import sys
from pathlib import Path
from data_utils import Vocabulary
from keras_sat.files.model_folder import read_model, write_model
import numpy as np
folder, number = Path(sys.argv[1]), int(sys.argv[2])
refused = 0
print("ready", flush=True)
sys.stdin.readline()
for turn in range(60):
    try:
        write_model(folder, {}, Vocabulary([f"word{number}"]), {"a": np.full(3000, number + turn % 2 * 10.0)})
    except ValueError as error:
        assert "Another process is saving" in str(error), error
        refused += 1
print(refused)
"""


def test_two_processes_that_save_into_one_folder(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [
        subprocess.Popen([sys.executable, "-c", SAVES, tmp_path / "model", str(number)], **pipes) for number in (1, 2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    refused = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0] and sum(refused) < 120
    _, vocabulary, arrays = read_model(tmp_path / "model")
    assert arrays["a"][0] % 10 == int(vocabulary.words[0].removeprefix("word"))
    assert len(list((tmp_path / "model").iterdir())) == 4
