import json

import keras
import numpy as np
import pytest

from data_utils import Vocabulary
from data_utils.base import exclusive_lock
from keras_sat.files.model_folder import assign_arrays, read_arrays, read_model, write_model

SETTINGS = {"captioner": {"cell": "gru"}, "feature_shape": [49, 8]}
ARRAYS = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.float32(3.5)}


@pytest.fixture
def model_dir(tmp_path):
    write_model(tmp_path / "model", SETTINGS, Vocabulary(["dog", "runs"]), ARRAYS)
    return tmp_path / "model"


def test_what_is_written_is_read(model_dir):
    settings, vocabulary, arrays = read_model(model_dir)
    assert settings == SETTINGS and vocabulary == Vocabulary(["dog", "runs"])
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize(
    "received", [{"a": np.ones(2)}, {"a": np.ones((2, 3)), "b": np.ones(1)}, {}]
)
def test_arrays_that_do_not_fit_are_rejected_before_any_is_assigned(received):
    variable = keras.Variable(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"x\.npz: the weights do not fit the model"):
        assign_arrays({"a": variable}, received, "x.npz")
    assert not np.any(variable)


def test_saving_again_replaces_the_model_and_leaves_nothing_behind(model_dir):
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), {"a": np.ones(3)})
    _, vocabulary, arrays = read_model(model_dir)
    assert vocabulary.words == ["cat"] and list(arrays) == ["a"]
    assert len(list(model_dir.iterdir())) == 4, "these three, and the lock"


def test_a_save_that_is_cut_off_leaves_the_old_model(model_dir, monkeypatch):
    def killed(path, value):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_sat.files.model_folder.write_sealed_json", killed)
    with pytest.raises(KeyboardInterrupt):
        write_model(model_dir, {"captioner": {}}, Vocabulary(["cat"]), {"a": np.ones(3)})
    settings, vocabulary, _ = read_model(model_dir)
    assert settings == SETTINGS and vocabulary.words == ["dog", "runs"]


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(model_dir, monkeypatch):
    words = iter(["cat", "mouse"])

    def read_late(*arguments):
        if word := next(words, None):
            write_model(model_dir, SETTINGS, Vocabulary([word]), {"a": np.ones(len(word))})
        return read_arrays(*arguments)

    monkeypatch.setattr("keras_sat.files.model_folder.read_arrays", read_late)
    _, vocabulary, arrays = read_model(model_dir)
    assert vocabulary.words == ["mouse"] and arrays["a"].shape == (5,)
    for path in model_dir.glob("*.npz"):
        path.unlink()
    with pytest.raises(ValueError, match="this file is missing"):
        read_model(model_dir)


def test_one_process_saves_at_a_time(model_dir):
    rejected = pytest.raises(ValueError, match="Another process is saving a model into")
    with exclusive_lock(model_dir / "lock", "is saving a model into this folder"), rejected:
        write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)


def test_every_kind_of_damage_is_one_clear_error(model_dir):
    for path in sorted(path for path in model_dir.iterdir() if path.name != "lock"):
        whole = path.read_bytes()
        random = np.random.default_rng(0)
        for _ in range(30):
            place = int(random.integers(len(whole)))
            flipped = bytearray(whole)
            flipped[place] ^= 1 << int(random.integers(8))
            for damaged in (bytes(flipped), whole[:place]):
                path.write_bytes(damaged)
                with pytest.raises(ValueError, match=path.name[:6]):
                    read_model(model_dir)
        path.unlink()
        with pytest.raises(ValueError, match=r"missing|cannot be read"):
            read_model(model_dir)
        path.write_bytes(whole)
    read_model(model_dir)


def test_a_folder_of_something_else_is_rejected(tmp_path, model_dir):
    with pytest.raises(
        ValueError,
        match=r"no model \(config.json is missing\)",
    ):
        read_model(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"of the wrong kind. Expected: a captioner"):
        read_model(tmp_path / "other")
    (own,) = model_dir.glob("vocabulary-*.json")
    Vocabulary(["cat", "sits"]).save(own)
    with pytest.raises(ValueError, match="vocabulary belongs to another model"):
        read_model(model_dir)


def test_only_the_files_of_a_model_are_replaced(tmp_path, model_dir):
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    for folder in (tmp_path, tmp_path / "photo.jpg", tmp_path / "bert"):
        with pytest.raises(ValueError, match="its own folder|config.json: .* of the wrong kind"):
            write_model(folder, SETTINGS, Vocabulary(["dog"]), ARRAYS)
    assert (tmp_path / "photo.jpg").read_bytes() == b"mine" and len(
        list((tmp_path / "bert").iterdir())
    ) == 1
    (model_dir / "weights-mine.npz").write_bytes(b"mine")
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), {"a": np.ones(2)})
    assert (model_dir / "weights-mine.npz").exists() and len(list(model_dir.iterdir())) == 5
    config = model_dir / "config.json"
    config.write_bytes(config.read_bytes()[:40])
    with pytest.raises(ValueError, match=r"config\.json, line .*not valid JSON.*another folder"):
        write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)


def test_what_a_killed_first_save_left_is_no_obstacle(model_dir):
    (model_dir / "config.json").unlink()
    (model_dir / ".weights-0123456789abcdef.npz.xy12.part").write_bytes(b"half")
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)
    assert read_model(model_dir)[1].words == ["cat"] and len(list(model_dir.iterdir())) == 4


@pytest.mark.parametrize(
    "precision, bytes_each, greatest", [("float16", 2, 2**-11), ("int8", 1, 0.5 / 127)]
)
def test_rounded_weights_take_less_room(precision, bytes_each, greatest, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(300, 200)).astype("float32") * np.linspace(
        0.01, 9, 200
    )
    arrays = {
        "matrix": matrix.astype("float32"),
        "vector": np.full(7, 0.3, "float32"),
        "zeros": np.zeros((4, 4), "f4"),
    }
    arrays["kernel"] = np.random.default_rng(0).normal(size=(3, 3, 5, 1)).astype("float32")
    vocabulary = Vocabulary(["a"])
    write_model(tmp_path / "model", {}, vocabulary, arrays, precision)
    size = next((tmp_path / "model").glob("weights-*.npz")).stat().st_size
    assert size < bytes_each * matrix.size + 3000
    _, _, read = read_model(tmp_path / "model")
    assert {name: (array.shape, array.dtype) for name, array in read.items()} == {
        name: (array.shape, array.dtype) for name, array in arrays.items()
    }
    errors = np.abs(read["matrix"] - matrix) / np.abs(matrix).max(axis=0)
    assert errors.max() <= 1.01 * greatest
    np.testing.assert_array_equal(read["zeros"], 0)
    np.testing.assert_array_equal(
        read["kernel"], arrays["kernel"].astype("float16"), "convolutions keep 16 bits"
    )
    with pytest.raises(
        ValueError, match="matrix contains values that are NaN, infinite or too large"
    ):
        write_model(
            tmp_path / "other", {}, vocabulary, {"matrix": np.full((2, 2), np.inf, "f4")}, precision
        )
