import json

import numpy as np
import pytest

from data_utils import Vocabulary
from data_utils.files import write_sealed_json
from keras_sat.files import model_folder as saved_model
from keras_sat.files.model_folder import read_model, write_model

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


@pytest.mark.parametrize("part", ["Vocabulary.load", "read_arrays"])
def test_a_model_that_is_replaced_while_it_is_read_is_read_again(part, model_dir, monkeypatch):
    words = iter(["cat", "mouse"])

    def read_late(*arguments):
        word = next(words, None)
        if word is not None:
            write_model(model_dir, SETTINGS, Vocabulary([word]), {"a": np.ones(len(word))})
        return read(*arguments)

    read = Vocabulary.load if part == "Vocabulary.load" else saved_model.read_arrays
    monkeypatch.setattr(f"keras_sat.files.model_folder.{part}", read_late)
    _, vocabulary, arrays = read_model(model_dir)
    assert vocabulary.words == ["mouse"] and arrays["a"].shape == (5,)
    for path in model_dir.glob("*.npz"):
        path.unlink()
    with pytest.raises(ValueError, match="this file is missing"):
        read_model(model_dir)


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
        with pytest.raises(ValueError, match=r"missing|no config.json"):
            read_model(model_dir)
        path.write_bytes(whole)
    read_model(model_dir)


def test_foreign_folders(tmp_path, model_dir):
    with pytest.raises(ValueError, match=r"no such model folder. Received: directory="):
        read_model(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"no config.json in this folder. Expected: a captioner"):
        read_model(tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"something else. Expected: a captioner"):
        read_model(tmp_path / "other")


def test_a_folder_with_other_things_is_not_written_into(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    with pytest.raises(ValueError, match="a folder of its own"):
        write_model(tmp_path, SETTINGS, Vocabulary(["dog"]), ARRAYS)
    with pytest.raises(ValueError, match="a folder of its own"):
        write_model(tmp_path / "photo.jpg", SETTINGS, Vocabulary(["dog"]), ARRAYS)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_model_whose_settings_are_damaged_is_not_replaced(model_dir):
    config = (model_dir / "config.json").read_bytes()
    (model_dir / "config.json").write_bytes(config[:40])
    with pytest.raises(ValueError, match=r"config\.json, line .*not valid JSON.*Choose another folder, or remove this"):
        write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)
    (model_dir / "config.json").unlink()
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)
    assert read_model(model_dir)[1].words == ["cat"]


def test_files_of_others_are_never_lost(tmp_path, model_dir):
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (other / "weights-mine.npz").write_bytes(b"mine")
    with pytest.raises(ValueError, match="a folder of its own"):
        write_model(other, SETTINGS, Vocabulary(["dog"]), ARRAYS)
    assert (other / "weights-mine.npz").read_bytes() == b"mine" and "bert" in (other / "config.json").read_text()
    (model_dir / "weights-mine.npz").write_bytes(b"mine")
    (model_dir / "notes.txt").write_text("mine")
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), {"a": np.ones(2)})
    assert (model_dir / "weights-mine.npz").exists() and (model_dir / "notes.txt").exists()
    assert len(list(model_dir.iterdir())) == 6


def test_what_a_killed_first_save_left_is_no_obstacle(model_dir):
    (model_dir / "config.json").unlink()
    (model_dir / ".weights-0123456789abcdef.npz.xy12.part").write_bytes(b"half")
    write_model(model_dir, SETTINGS, Vocabulary(["cat"]), ARRAYS)
    assert read_model(model_dir)[1].words == ["cat"] and len(list(model_dir.iterdir())) == 4


def test_settings_that_cannot_be_written_are_noticed_first(tmp_path):
    with pytest.raises(TypeError):
        write_model(tmp_path / "new", {"weight": np.float32(1)}, Vocabulary(["dog"]), ARRAYS)
    assert not (tmp_path / "new").exists()


def test_the_vocabulary_of_another_model_is_refused(tmp_path, model_dir):
    (own,) = model_dir.glob("vocabulary-*.json")
    Vocabulary(["cat", "sits"]).save(own)
    with pytest.raises(ValueError, match="vocabulary of another model"):
        read_model(model_dir)


def test_stranger_damage(model_dir):
    config, whole = model_dir / "config.json", (model_dir / "config.json").read_bytes()
    config.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="config.json"):
        read_model(model_dir)
    write_sealed_json(config, {"format": "captioner", "version": 1})
    with pytest.raises(ValueError, match="names no files"):
        read_model(model_dir)
    config.write_bytes(whole)
    (weights,) = model_dir.glob("weights-*.npz")
    weights.unlink()
    weights.mkdir()
    with pytest.raises(ValueError, match="cannot be read"):
        read_model(model_dir)


def test_nothing_is_executed(model_dir, tmp_path):
    """A pickle inside the archive is refused even if all digests are right."""
    write_model(tmp_path / "evil", SETTINGS, Vocabulary(["dog"]), {"a": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="cannot be read"):
        read_model(tmp_path / "evil")


# === Rounding ===


@pytest.mark.parametrize("precision, bytes_each, greatest", [("float16", 2, 2**-11), ("int8", 1, 0.5 / 127)])
def test_rounded_weights_take_less_room(precision, bytes_each, greatest, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(300, 200)).astype("float32") * np.linspace(0.01, 9, 200)
    arrays = {"matrix": matrix.astype("float32"), "vector": np.full(7, 0.3, "float32"), "zeros": np.zeros((4, 4), "f4")}
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


def test_an_unknown_precision_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Expected one of: float32, float16, int8"):
        write_model(tmp_path / "model", {}, Vocabulary(["a"]), {}, "int4")
    assert not (tmp_path / "model").exists()


def test_the_kernels_of_convolutions_keep_16_bits(tmp_path):
    kernel = np.random.default_rng(0).normal(size=(3, 3, 50, 1)).astype("float32")
    write_model(tmp_path / "model", {}, Vocabulary(["a"]), {"kernel": kernel}, "int8")
    np.testing.assert_array_equal(read_model(tmp_path / "model")[2]["kernel"], kernel.astype("float16"))


@pytest.mark.parametrize("value, precision", [(1e5, "float16"), (np.nan, "int8"), (np.inf, "int8")])
def test_what_cannot_be_rounded_is_refused(value, precision, tmp_path):
    with pytest.raises(ValueError, match="weights matrix are infinite, no numbers or too large"):
        write_model(tmp_path / "model", {}, Vocabulary(["a"]), {"matrix": np.full((2, 2), value, "f4")}, precision)
