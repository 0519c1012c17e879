"""Whatever a file holds, it is read, or rejected with a ValueError that names it.

Untrusted files run nothing.
"""

import hashlib
import io
import json
import os
import pickle
import shutil
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from helpers import (
    make_captioner,
    mean_colour_encoder,
    photo_captioner,
    random_pixels,
    write_copy_of_data_set,
    write_photos,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import keras_sat
from data_utils import DATASETS, FeatureCache, Vocabulary, load_document, load_image
from data_utils.base import read_json, write_sealed_json
from keras_sat import Captioner
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import read_model, write_arrays
from keras_sat.network import ENCODERS


@st.composite
def damaged(draw, whole):
    """Draw what became of a file: bits flipped, parts cut off, put in, or there twice.

    Or something else altogether.
    """
    if draw(st.integers(0, 5)) == 0:
        return draw(
            st.one_of(
                st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8"))
            )
        )
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place, length = draw(st.integers(0, max(len(content) - 1, 0))), draw(st.integers(1, 40))
        kind = draw(st.sampled_from(["flip", "cut", "remove", "insert"]))
        if kind == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del content[place:]
        elif kind == "remove":
            del content[place : place + length]
        else:
            content[place:place] = draw(
                st.one_of(st.binary(max_size=9), st.sampled_from([b"\n", b'"', b"\t", b"\0"]))
            )
    return bytes(content)


NUMBERS = [-1, 0, 10**12, 10**400, 1e300, float("nan"), float("inf")]
OTHERS = [
    None,
    True,
    "",
    "x",
    "\ud800",
    "\0",
    "../..",
    "a" * 5000,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    [1, 2, 3],
]
ODD = st.sampled_from([*NUMBERS, *OTHERS, {"class_name": "Lambda", "config": {"value": 1}}])


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


def try_all(contents, write, read, *names):
    """Write each content that is drawn, and read it: a ValueError must name one of
    these files or folders.
    """

    @settings(
        max_examples=50 * int(os.environ.get("KERAS_SAT_EXAMPLES", 1)),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(contents)
    def check(content):
        write(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what was left out, with numbers
            try:
                read()
            except ValueError as error:
                assert any(
                    str(name) in str(error) and len(str(error)) > len(str(name)) + 10
                    for name in names
                ), error
                assert len(str(error)) < 1500, error  # whatever it quotes

    assert read() is not None  # whole, it is read
    check()


# === Captions and scores ===

READERS = {  # file: (reader, what it holds)
    "Flickr8k.token.txt": ("flickr8k", None),
    "results.csv": (
        "flickr30k",
        b"image_name| comment_number| comment\n0.jpg| 0| A dog .\n1.jpg| 1| A cat .\n",
    ),
    "dataset_coco.json": ("coco", None),
    "captions.csv": (
        "folder",
        b'image,caption,split\n0.jpg,A dog,train\n1.jpg,"A ""big"" cat",dev\n',
    ),
    "captions.jsonl": (
        "folder",
        b'{"image": "0.jpg", "caption": "A dog"}\n{"image": "1.jpg", "captions": ["A"]}\n',
    ),
}


@pytest.mark.parametrize("file", READERS)
def test_files_of_captions(file, tmp_path):
    name, content = READERS[file]
    path = tmp_path / file
    if content is None:
        write_copy_of_data_set(name, tmp_path, num_photos=5)
    else:
        write_photos(tmp_path, ["0.jpg", "1.jpg"])
        path.write_bytes(content)
    whole = path.read_bytes()
    contents = damaged(whole)
    if file.endswith("json"):
        contents = st.one_of(
            contents, altered(json.loads(whole)).map(lambda value: json.dumps(value).encode())
        )
    seed = 0 if name == "flickr30k" else None
    try_all(
        contents,
        path.write_bytes,
        lambda: DATASETS[name](tmp_path, split_seed=seed),
        path.name,
        path.parent,
    )


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 5000], ids=["nested", "digits"])
def test_json_without_end(content, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json"):
        read_json(tmp_path / "a.json")
    (tmp_path / "captions.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r"captions\.jsonl, line 1"):
        DATASETS["folder"](tmp_path)


# === Vocabularies, caches, checkpoints and models, sealed by somebody who knows how ===


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A folder with a captioner of a few weights."""
    folder = tmp_path_factory.mktemp("small") / "model"
    sizes = {"embedding_dim": 3, "hidden_dim": 4, "attention_dim": 5}
    make_captioner(["dog", "runs"], shape=(6, 7), **sizes).save(folder)
    return folder


@pytest.fixture
def model_dir(small_model, tmp_path):
    return shutil.copytree(small_model, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def cache_dir(tmp_path):
    write_photos(tmp_path / "photos", ["a.png"])
    photo, options = tmp_path / "photos" / "a.png", {"image_size": 16, "show_progress": False}
    FeatureCache.build(tmp_path / "cache", ["a"], [photo], mean_colour_encoder, **options)
    return tmp_path / "cache"


def unsealed(path):
    value = read_json(path)
    del value["digest"]
    return value


def reseal(model_dir, *, files=None, captioner=None, **settings):
    """Change settings of a model as someone would who knows how they are sealed."""
    value = unsealed(model_dir / "config.json") | settings
    value["files"] |= files or {}
    value["captioner"] |= captioner or {}
    write_sealed_json(model_dir / "config.json", value)


def seal_weights(model_dir, content):
    """Put an archive of arrays into a model, sealed."""
    name = f"weights-{hashlib.sha256(content).hexdigest()[:16]}.npz"
    (model_dir / name).write_bytes(content)
    reseal(model_dir, files={"weights": name})


def archive_of(name, content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def reseals(path, read):
    contents = altered(unsealed(path)).filter(lambda value: isinstance(value, dict))
    try_all(contents, lambda value: write_sealed_json(path, value), read, path.parent)


def test_sealed_vocabulary(tmp_path):
    path = tmp_path / "vocabulary.json"
    Vocabulary(["dog", "runs", "é"]).save(path)
    reseals(path, lambda: Vocabulary.load(path))


def test_sealed_cache(cache_dir):
    reseals(cache_dir / "manifest.json", lambda: FeatureCache.open(cache_dir).features(["a"]))


def test_sealed_checkpoint(tmp_path):
    state = write_arrays(tmp_path, "state", {"a": np.ones(3)})
    write_sealed_json(tmp_path / "progress.json", {"epochs": [{"loss": 1.5}], "state": state})
    reseals(tmp_path / "progress.json", lambda: read_checkpoint(tmp_path))


def test_sealed_model(model_dir):
    reseals(model_dir / "config.json", lambda: Captioner.load(model_dir))


@pytest.mark.parametrize("name", ["\0", "../state-0123456789abcdef.npz", 5])
def test_names_of_files(name, model_dir, tmp_path):
    write_sealed_json(tmp_path / "progress.json", {"epochs": [], "state": name})
    with pytest.raises(ValueError, match=r"progress\.json: this is not a checkpoint"):
        read_checkpoint(tmp_path)
    reseal(model_dir, files={"weights": name})
    with pytest.raises(ValueError, match=r"config\.json: this is not a model"):
        read_model(model_dir)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"version": 2}, "another version of keras_sat.*Received: captioner, version 2"),
        (
            {"feature_shape": [1]},
            r"feature_shape must be .*Received: \[1\]",
        ),
        ({"attention": "sofft"}, "soft, hard, none.*sofft"),
    ],
)
def test_settings_of_models(settings, message, model_dir):
    options = json.loads((model_dir / "config.json").read_text())["captioner"]
    reseal(
        model_dir,
        **settings,
        captioner=options | {name: settings[name] for name in settings.keys() & options},
    )
    with pytest.raises(ValueError, match=message):
        Captioner.load(model_dir)


def test_weights_of_models(model_dir):
    (path,) = model_dir.glob("weights-*.npz")

    contents = damaged(path.read_bytes())
    try_all(
        contents,
        lambda content: seal_weights(model_dir, content),
        lambda: read_model(model_dir),
        "weights-",
    )


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "webp", "tif"])
def test_pictures(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    Image.effect_noise((24, 16), 90).convert("RGB").save(path)
    try_all(damaged(path.read_bytes()), path.write_bytes, lambda: load_image(path, 8), path)


# === What is larger than it should be ===


def test_a_caption_file_of_one_gigabyte_in_one_line(tmp_path):
    write_photos(tmp_path, ["a.jpg"])
    with open(tmp_path / "captions.csv", "wb") as file:
        file.truncate(1_000_000_000)  # a hole, which takes no space
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"captions\.csv: .*too large.*at most 500 MB.*1000 MB"):
        DATASETS["folder"](tmp_path)
    with pytest.raises(ValueError, match=r"captions\.csv: the file is too large"):
        read_json(tmp_path / "captions.csv")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_lines_and_captions_without_end(tmp_path):
    (tmp_path / "a.txt").write_text("a.jpg\ta dog\n" + "x" * 1_000_001)
    with pytest.raises(ValueError, match=r"a\.txt: a line is too long.*Received: 1000001"):
        load_document(tmp_path / "a.txt")
    write_photos(tmp_path, ["a.jpg"])
    # Sorted in quadratic time.
    line = json.dumps({"image": "a.jpg", "caption": "a" + "\u0301\u0323" * 5000})
    (tmp_path / "captions.jsonl").write_text(line)
    with pytest.raises(
        ValueError,
        match="caption is too long.*10000 .*10001 .*image_id='a'",
    ):
        DATASETS["folder"](tmp_path)


def test_a_zip_that_would_fill_the_disk(tmp_path):
    from data_utils.downloads import extract

    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a", "w") as entry,
    ):
        for _ in range(120):
            entry.write(bytes(1_000_000))
    with pytest.raises(ValueError, match=r"bomb\.zip: .*would expand to 120000000 bytes"):
        extract(tmp_path / "bomb.zip", tmp_path / ".", show_progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


def claiming(shape):
    """Return an archive with an array of a few bytes that claims this shape."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    return archive_of("a.npy", header.getvalue() + bytes(40))


def packed(save, **arrays):
    content = io.BytesIO()
    save(content, **arrays)
    return content.getvalue()


# Together a matrix of 324 MB.
SCALES = {"a": np.zeros((9000, 1), np.int8), "a@scale": np.ones((1, 9000), np.float32)}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: claiming((2**20, 2**22)), "not an uncompressed file of"),
        (lambda: claiming((-1, 3)), "not an uncompressed file of"),
        (lambda: packed(np.savez_compressed, a=np.zeros(10**7)), "not an uncompressed file of"),
        (lambda: packed(np.savez_compressed, a=np.arange(400)), "not an uncompressed file of"),
        (lambda: packed(np.savez, **SCALES), "the scales of a are missing"),
        (
            lambda: archive_of("a", b"nothing"),
            "not an uncompressed file .*Expected",
        ),
        (lambda: b"nothing", "not an uncompressed file of"),
    ],
    ids=["huge", "negative", "inflated", "a little inflated", "scales", "no array", "no archive"],
)
def test_weights_that_are_none(make, message, model_dir):
    seal_weights(model_dir, make())
    with pytest.raises(ValueError, match=rf"weights-\w+\.npz: .*{message}"):
        read_model(model_dir)


@pytest.mark.parametrize(
    "value", [10**7, "x" * 100, True, -1, 1.5, [1, 2], 10**400], ids=lambda value: str(value)[:4]
)
@pytest.mark.parametrize("name", ["embedding_dim", "hidden_dim", "attention_dim", "num_layers"])
def test_sizes_that_the_weights_do_not_have_allocate_nothing(name, value, model_dir):
    reseal(model_dir, captioner={name: value})
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=rf"({name} alone|a size must be .*Received: {name}=)"
    ) as caught:
        Captioner.load(model_dir)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000 and str(model_dir) in str(caught.value)
    tracemalloc.stop()


@pytest.mark.parametrize("grid", ["hard", [10**6, 10**6], [-2, -3], [2.0, 3], 6], ids=str)
def test_a_grid_that_is_not_the_models(grid, model_dir):
    reseal(model_dir, captioner={"grid_shape": grid})
    assert Captioner.load(model_dir).rows_and_columns() == (2, 3), "the grid that the model had"
    reseal(model_dir, rows_and_columns=grid)
    with pytest.raises(
        ValueError,
        match=r"rows_and_columns in config\.json .*product is 6\.",
    ):
        Captioner.load(model_dir)


def test_what_is_no_path(without_graphs):
    captioner = photo_captioner()
    trace = captioner.trace(random_pixels(16, 16, 3), "dog")
    display = keras_sat.AttentionDisplay.from_result(trace.result)
    takers = [Captioner.load, captioner.save, captioner.export, trace.save]
    takers += [display.save, display.to_html, display.animate]
    calls = [(take, path) for take in takers for path in (None, 8, "")]
    # None is the bundled one.
    calls += [(Captioner.from_pretrained, path) for path in (8, "")]
    for take, path in calls:
        with pytest.raises(ValueError, match=rf"must be the path of.*Received: \w+={path!r}$"):
            take(path)


def test_a_captioner_without_words():
    with pytest.raises(ValueError, match="at least one word"):
        Captioner([])


def test_a_grid_that_is_not_the_encoders(tmp_path):
    photo_captioner().save(tmp_path)
    reseal(tmp_path, feature_shape=[4, 66], rows_and_columns=[2, 2])
    with pytest.raises(ValueError, match=r"Expected: .*16, 66.*Received: .*4, 66") as caught:
        Captioner.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_photos_whose_features_are_not_those_the_captioner_was_built_for():
    captioner = Captioner(["a", "dog"], encoder="tiny", image_size=16)
    captioner.build(((None, 4, 66), (None, None)))
    with pytest.raises(ValueError, match=r"built for .*\(photos, 4, 66\).*Received: .*16, 66"):
        captioner.caption(random_pixels(16, 16, 3))


def test_encoder_weights_that_claim_to_be_huge(tmp_path):
    with h5py.File(tmp_path / "huge.weights.h5", "w") as file:
        file.create_dataset(
            "layers/conv/vars/0", shape=(10**6, 10**7), dtype="f4", chunks=(1000, 1000)
        )
    with pytest.raises(ValueError, match=r"it declares 40000\.0 GB.*huge.weights.h5"):
        ENCODERS["tiny"](weights=tmp_path / "huge.weights.h5")


# === Untrusted files run nothing ===


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return Path.touch, (Path(self.marker),)


@pytest.fixture
def marker(tmp_path):
    """The file that untrusted code would make.

    It would work, and at the end the file must not be there.
    """
    path = tmp_path / "marker"
    pickle.loads(pickle.dumps(Payload(path)))
    path.unlink()
    yield path
    assert not path.exists(), "untrusted code has run"


def test_a_pickle_is_no_vocabulary_no_settings_no_weights_and_no_cache(
    model_dir, cache_dir, marker
):
    evil = pickle.dumps(Payload(marker))
    objects = io.BytesIO()
    np.save(objects, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    for content in (evil, objects.getvalue(), archive_of("a.npy", objects.getvalue())):
        seal_weights(model_dir, content)
        with pytest.raises(ValueError, match=r"weights-\w+\.npz: this is not an uncompressed file"):
            Captioner.load(model_dir)
    for name, read in (
        ("vocabulary.json", Vocabulary.load),
        ("config.json", lambda path: Captioner.load(path.parent)),
    ):
        (model_dir / name).write_bytes(evil)
        with pytest.raises(ValueError, match=name):
            read(model_dir / name)
    for path in cache_dir.glob("*.npy"):
        whole = path.read_bytes()
        for content in (evil, objects.getvalue()):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=path.name):
                FeatureCache.open(cache_dir)
        path.write_bytes(whole)


def touching(marker):
    """Return a function that makes a file, as it would be hidden in a Lambda layer."""
    name = str(marker)
    return lambda x, name=name: open(name, "w").close() or x


@pytest.mark.parametrize(
    "option", ["readout_activation", "cell", "attention", "dtype", "encoder", "encoder_training"]
)
def test_settings_that_name_a_lambda_or_a_class(option, model_dir, marker, tmp_path, monkeypatch):
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Evil: pass\n"
    (tmp_path / "evil_module.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says that this is unsafe
        code = keras.saving.serialize_keras_object(touching(marker))
    for value in (
        {
            "class_name": "Lambda",
            "module": "keras.layers",
            "config": {"function": code},
            "registered_name": None,
        },
        {"class_name": "Evil", "module": "evil_module", "config": {}, "registered_name": "Evil"},
        "evil_module.Evil",
        "evil_module>Evil",
    ):
        reseal(model_dir, captioner={option: value})
        with pytest.raises(
            ValueError, match=r"settings|Expected one of|Could not interpret|Cannot convert|must be"
        ):
            Captioner.load(model_dir)


def test_encoder_weights_with_a_lambda(marker, tmp_path):
    images = keras.Input((64, 64, 3))
    model = keras.Model(
        images, keras.layers.Lambda(touching(marker), output_shape=(64, 64, 3))(images)
    )
    marker.unlink(missing_ok=True)  # it ran while the model was made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras says that this is unsafe
        model.save(tmp_path / "evil.keras")
        model.save(tmp_path / "evil.h5")
    (tmp_path / "evil.weights.h5").write_bytes((tmp_path / "evil.h5").read_bytes())
    for name in ("pickle.h5", "pickle.pth"):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(marker)))
    for name in ("evil.keras", "evil.h5", "evil.weights.h5", "pickle.h5", "pickle.pth"):
        with pytest.raises(ValueError, match=f"does not contain the weights of tiny.*{name}"):
            ENCODERS["tiny"](weights=tmp_path / name)


def test_a_postscript_picture_starts_no_other_program(tmp_path):
    (tmp_path / "a.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(ValueError, match=r"a\.png: this is not a picture that can be read"):
        load_image(tmp_path / "a.png")
