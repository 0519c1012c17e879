import json

import numpy as np
import pytest

from data_utils import Vocabulary
from keras_sat.saved_model import read_model, write_model

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
    assert len(list(model_dir.iterdir())) == 3


def test_a_save_that_is_cut_off_leaves_the_old_model(model_dir, monkeypatch):
    def killed(path, value):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_sat.saved_model.write_sealed_json", killed)
    with pytest.raises(KeyboardInterrupt):
        write_model(model_dir, {"captioner": {}}, Vocabulary(["cat"]), {"a": np.ones(3)})
    settings, vocabulary, _ = read_model(model_dir)
    assert settings == SETTINGS and vocabulary.words == ["dog", "runs"]


def test_every_kind_of_damage_is_one_clear_error(model_dir):
    for path in sorted(model_dir.iterdir()):
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


def test_nothing_is_executed(model_dir, tmp_path):
    """A pickle inside the archive is refused even if all digests are right."""
    write_model(tmp_path / "evil", SETTINGS, Vocabulary(["dog"]), {"a": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="cannot be read"):
        read_model(tmp_path / "evil")
