"""What `Captioner.export` writes says what the captioner says, in a process that has
neither keras_sat nor Keras.
"""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, python_blocks
from PIL import Image
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from data_utils import draw_scenes, load_image
from data_utils.base import write_whole
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.export.export_formats import decoded_photo, next_version, stretched_photos

BOTH = ["tf_saved_model", "litert"]
WORDS = ["a", "red", "blue", "circle", "star", "is", "left", "of"]
SMALL = {"embedding_dim": 8, "hidden_dim": 12, "attention_dim": 8}


def caption_elsewhere(jobs, folder):
    """Return for each (version folder, signature, photos, files) what it answers in a
    process without keras_sat.
    """
    descriptions = []
    for number, (version, signature, photos, files) in enumerate(jobs):
        paths = {
            "folder": version,
            "photos": folder / f"{number}.npy",
            "results": folder / f"{number}.npz",
        }
        np.save(paths["photos"], photos)
        descriptions.append({**paths, "signature": signature, "files": files})
    (folder / "jobs.json").write_text(json.dumps(descriptions, default=str))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "elsewhere.py"),
        str(folder / "jobs.json"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return [dict(np.load(job["results"])) for job in descriptions]


def assert_same(found, results, least):
    """Compare what an export answers with the CaptionResults of the captioner: maps
    where the words are the same.
    """
    captions = [caption.decode() for caption in found["captions"]]
    same = [i for i, result in enumerate(results) if captions[i] == result.caption]
    assert len(same) >= least
    for i in same:
        count, result = len(results[i].words), results[i]
        assert found["num_words"][i] == count
        np.testing.assert_allclose(
            found["attention_weights"][i][:count], result.attention_weights, atol=1e-4
        )
        np.testing.assert_array_equal(found["attention_weights"][i][count:], 0)
        np.testing.assert_allclose(found["log_prob"][i], result.log_prob, atol=1e-3)
        if "words" in found:
            assert [word.decode() for word in found["words"][i]] == [
                *result.words,
                *[""] * (20 - count),
            ]
            assert found["is_finished"][i] == result.is_finished


# === Bundled captioners ===


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Forty scenes as pixels, and as files of many sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    pictures = [scene.image for scene in draw_scenes(40, seed=61)]
    files = []
    for number, picture in enumerate(pictures):
        size = [(64, 64), (200, 160), (300, 500), (1100, 1030), (50, 90)][number % 5]
        files.append(folder / f"{number:02d}.{'png' if number % 10 == 9 else 'jpg'}")
        Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC).save(files[-1], quality=95)
    return np.stack(pictures), files


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an export of "scenes", with 3 beams and a LiteRT file."""
    folder, captioner = (
        tmp_path_factory.mktemp("exports") / "exported",
        Captioner.from_pretrained("scenes"),
    )
    assert captioner.export(folder, BOTH) == folder / "1"
    return folder


@pytest.mark.slow
def test_the_captions_elsewhere_are_those_of_the_captioner(exported, scenes, tmp_path):
    photos, files = scenes
    soft, hard = (Captioner.from_pretrained(name) for name in ("scenes", "scenes-hard"))
    of_hard = hard.export(tmp_path / "hard", BOTH, num_beams=1)
    jobs = [
        (exported / "1", "serving_default", photos, []),
        (exported / "1", "serving_jpeg", photos, files),
        (exported / "1", "litert", photos, []),
        (of_hard, "serving_default", photos, []),
        (of_hard, "litert", photos, []),
    ]
    beams, of_files, litert, greedy, hard_litert = caption_elsewhere(jobs, tmp_path)
    assert_same(beams, soft.caption(photos, num_beams=3), 39)
    assert_same(of_files, soft.caption(files, num_beams=3), 39)
    assert_same(litert, soft.caption(photos, num_beams=1), 39)
    for found in (greedy, hard_litert):
        assert_same(found, hard.caption(photos, num_beams=1), 39)
    assert len(set(beams["captions"])) > 20


def test_it_is_what_tensorflow_serving_expects(exported):
    assert sorted(path.name for path in exported.iterdir()) == [".lock", "1"]
    loaded = tf.saved_model.load(exported / "1")
    inputs = {name: one.structured_input_signature[1] for name, one in loaded.signatures.items()}
    assert inputs == {
        "serving_default": {"images": tf.TensorSpec((None, None, None, 3), tf.uint8, "images")},
        "serving_jpeg": {"image_bytes": tf.TensorSpec((None,), tf.string, "image_bytes")},
    }
    for signature in loaded.signatures.values():
        outputs = {
            name: (spec.dtype, tuple(spec.shape))
            for name, spec in signature.structured_outputs.items()
        }
        assert outputs == {
            "captions": (tf.string, (None,)),
            "words": (tf.string, (None, 20)),
            "num_words": (tf.int32, (None,)),
            "log_prob": (tf.float32, (None,)),
            "is_finished": (tf.bool, (None,)),
            "attention_weights": (tf.float32, (None, 20, 16, 16)),
        }
    names = {path.name for path in (exported / "1").iterdir() if path.is_file()}
    of_litert = {"model.tflite", "caption.py", "litert.json", "vocabulary.txt"}
    assert names - {"fingerprint.pb"} == {"saved_model.pb"} | of_litert


def test_the_lines_of_the_readme(exported, scenes, monkeypatch, capsys):
    monkeypatch.chdir(exported.parent)
    Image.fromarray(scenes[0][0]).save("photo.jpg")
    captioner = Captioner.from_pretrained("scenes")
    beams, greedy = (
        captioner.caption("photo.jpg", num_beams=num_beams).caption for num_beams in (3, 1)
    )
    for wanted, caption in (("saved_model.load(", beams), ("get_signature_runner()", greedy)):
        block = next(
            block for block in python_blocks(ROOT / "docs" / "export.md") if wanted in block
        )
        block = re.sub(
            r"from ai_edge_litert.*",
            "import tensorflow as tf; Interpreter = tf.lite.Interpreter",
            block,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TensorFlow's Interpreter is deprecated
            exec(compile(block, "export.md", "exec"), {})
        assert capsys.readouterr().out.startswith(caption)


# === Photos, as load_image reads them ===


@pytest.mark.parametrize("height, width", [(64, 48), (200, 301), (20, 31), (1, 1), (2, 300)])
def test_pixels_of_any_size_are_stretched_bit_for_bit(height, width):
    photos = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    stretched = stretched_photos(tf.constant(photos), (64, 48)).numpy()
    np.testing.assert_array_equal(stretched, [load_image(photo, (64, 48)) for photo in photos])


@pytest.mark.parametrize("size", [(100, 80), (255, 300), (256, 300), (1024, 1100)])
@pytest.mark.parametrize("name", ["a.jpg", "progressive.jpg", "grey.jpg", "a.png"])
def test_files_are_decoded_bit_for_bit(name, size, scenes, tmp_path):
    photo = Image.open(scenes[1][3]).resize(size).convert("L" if "grey" in name else "RGB")
    photo.save(
        tmp_path / name,
        **({"progressive": True, "subsampling": 0} if "progressive" in name else {}),
    )
    decoded = decoded_photo(tf.constant((tmp_path / name).read_bytes()), (64, 64))
    stretched = stretched_photos(decoded[None], (64, 64))[0].numpy()
    np.testing.assert_array_equal(stretched, load_image(tmp_path / name, 64))


# === Other captioners, untrained: their words are random ===


def built(**options):
    captioner = Captioner(WORDS, **{**SMALL, **options})
    _, rows, columns, feature_dim = captioner.encoder_model.output_shape
    captioner.build(((None, rows * columns, feature_dim), (None, None)))
    for weight in captioner.decoder.trainable_variables:
        weight.assign(3 * weight)  # words and maps should differ
    bias = np.zeros(len(captioner.vocabulary))
    bias[[captioner.vocabulary.end_token_id, captioner.vocabulary.unk_token_id]] = -2, 2
    captioner.decoder.readout.word_logits.bias.assign(bias)
    return captioner


def own_encoder():
    photos = keras.Input((24, 32, 3))
    return keras.Model(photos, keras.layers.Conv2D(10, 8, strides=8, name="grid")(photos / 255))


CAPTIONERS = {
    "own encoder, no attention, two layers": lambda: built(
        encoder=own_encoder(),
        attention="none",
        cell="gru",
        num_layers=2,
        deep_output=False,
        normalise_features=True,
    ),
    "a grid so large that XLA scores it": lambda: built(encoder="tiny", attention_dim=256),
    "after reading, with a sentinel": lambda: built(
        encoder="tiny", image_size=16, attends="after", sentinel=True
    ),
}


@pytest.mark.parametrize("name", CAPTIONERS)
@pytest.mark.slow
def test_every_kind_of_captioner(name, tmp_path):
    captioner = CAPTIONERS[name]()
    folder = captioner.export(tmp_path, BOTH if "own" in name else "tf_saved_model", num_beams=2)
    height, width = captioner.photo_sizes[0]
    photos = np.random.default_rng(1).integers(0, 256, (6, height, width, 3), dtype=np.uint8)
    loaded = tf.saved_model.load(folder)
    found = {key: value.numpy() for key, value in loaded.serve(photos).items()}
    results = captioner.caption(photos, num_beams=2)
    assert_same(found, results, 6)
    assert min(found["num_words"]) > 0
    assert ("from_photo" in found) == ("sentinel" in name)
    for fractions, result in zip(found.get("from_photo", ()), results):
        np.testing.assert_allclose(fractions[: len(result.words)], result.from_photo, atol=1e-4)
    assert operations(folder) and not [
        op for op in operations(folder) if "Xla" in op or "PyFunc" in op
    ]
    assert b"_XlaMustCompile" not in (folder / "saved_model.pb").read_bytes()
    if "own" in name:
        with pytest.warns(UserWarning, match="tf.lite.Interpreter is deprecated"):
            caption = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner()
        expected = captioner.caption(photos[0], num_beams=1)
        found = caption(images=photos[:1])
        assert captioner.vocabulary.ids_to_words(found["token_ids"][0]) == expected.words
        maps = found["attention_weights"][0][: found["num_words"][0]]
        np.testing.assert_allclose(maps, expected.attention_weights, atol=1e-4)


def operations(folder):
    saved = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    return {
        node.op
        for nodes in (graph.node, *(f.node_def for f in graph.library.function))
        for node in nodes
    }


@pytest.mark.slow
def test_search_options_are_those_of_caption(tmp_path):
    captioner = built(encoder="tiny")
    photos = np.random.default_rng(1).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
    options = {
        "num_beams": 4,
        "max_length": 6,
        "length_penalty": 1.0,
        "no_repeat_ngram": 1,
        "allow_unknown": True,
    }
    loaded = tf.saved_model.load(captioner.export(tmp_path, **options))
    found = loaded.serve(photos)
    results = captioner.caption(photos, **options)
    assert [caption.decode() for caption in found["captions"].numpy()] == [
        result.caption for result in results
    ]
    assert found["words"].shape == (8, 6) and any("<unk>" in result.words for result in results)
    assert [result.caption for result in captioner.caption(photos)] != [
        result.caption for result in results
    ]


@pytest.mark.slow
def test_mixed_precision(tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        captioner = built(encoder="tiny")
    finally:
        keras.config.set_dtype_policy("float32")
    photos = np.random.default_rng(1).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    loaded = tf.saved_model.load(captioner.export(tmp_path, num_beams=1))
    found = loaded.serve(photos)
    assert found["attention_weights"].dtype == tf.float32
    results = captioner.caption(photos, num_beams=1)
    assert [caption.decode() for caption in found["captions"].numpy()] == [
        result.caption for result in results
    ]
    with pytest.raises(ValueError, match="LiteRT and ONNX compute in float32.*Received: bfloat16"):
        captioner.export(tmp_path, "litert")


# === What goes wrong ===


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="nothing to export"):
        Captioner(WORDS, encoder="tiny", **SMALL).export(tmp_path)
    without_encoder = Captioner(WORDS, encoder=None, **SMALL)
    without_encoder.build(((None, 4, 6), (None, None)))
    with pytest.raises(ValueError, match="This captioner has no encoder: it accepts only features"):
        without_encoder.export(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "folder, options, message",
    [
        (
            "new",
            {"num_beams": 0},
            "must be a whole number from 1 to .*num_beams=0",
        ),
        (
            "new",
            {"format": "h5"},
            "one of: tf_saved_model, litert, onnx. .*format='h5'",
        ),
        ("new[1]", {}, r"a path that contains \[.*Received: .*new\[1\]"),
        (
            "mine",
            {},
            "only exports, named 1, 2 and so on.*directory=.*mine'",
        ),
    ],
)
def test_bad_use_is_rejected_before_anything_is_written(folder, options, message, tmp_path):
    write_whole(tmp_path / "mine" / "file", "mine")
    with pytest.raises(ValueError, match=message):
        Captioner.from_pretrained("scenes").export(tmp_path / folder, **options)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "file"]


def test_the_next_export_has_the_next_number(tmp_path):
    assert next_version(tmp_path / "new") == tmp_path / "new" / "1"
    for name in ("4", "10", ".11.0123abcd.part"):  # a killed process left the last one
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == tmp_path / "11"


# As TensorFlow's own writers say it; beyond `ulimit -f` it is an OutOfRangeError, with
# "File too large".
NO_SPACE = (
    "{{function_node __wrapped__SaveV2_device_CPU:0}} variables/part-0; No space left on "
    "device [Op:SaveV2]"
)


def test_it_is_written_whole_or_not_at_all(exported, tmp_path, monkeypatch, capsys):
    def full(*arguments, **options):
        (Path(arguments[1]) / "saved_model.pb").write_bytes(b"half")
        raise tf.errors.ResourceExhaustedError(None, None, NO_SPACE)

    before = {path: path.stat().st_mtime_ns for path in exported.rglob("*")}
    # What a killed process left.
    (tmp_path / "new" / ".1.0123abcd.part" / "variables").mkdir(parents=True)
    monkeypatch.setattr(tf.saved_model, "save", full)
    for folder in (exported, tmp_path / "new"):
        assert main(["export", "scenes", str(folder)]) == 2
        assert capsys.readouterr().err.startswith(
            "keras-sat: variables/part-0; No space left on device"
        )
    assert {path: path.stat().st_mtime_ns for path in exported.rglob("*")} == before
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".lock"]


# === The command line ===


def test_the_command(tmp_path, capsys, monkeypatch):
    calls, path = [], tmp_path / "exported" / "1" / "saved_model.pb"

    def export(captioner, directory, format, **options):
        calls.append((directory, format, options))
        write_whole(path, "1,234 bytes".ljust(1234))
        return path.parent

    folder = str(tmp_path / "exported")
    monkeypatch.setattr(Captioner, "export", export)
    assert main(["export", "scenes", folder]) == 0
    assert (
        main(["export", "scenes", folder, "--num-beams", "1", "--max-length", "7", "--tflite"]) == 0
    )
    assert calls == [
        (folder, ["tf_saved_model"], {}),
        (folder, BOTH, {"num_beams": 1, "max_length": 7}),
    ]
    assert capsys.readouterr().out == 2 * f"{path}: 1,234 bytes\n"
