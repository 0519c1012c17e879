import json
import warnings

import numpy as np
import pytest
from conftest import write_photos

import keras_sat
from data_utils import DATASETS
from data_utils.files import read_sealed_json, write_sealed_json
from keras_sat import Captioner, Ensemble
from keras_sat.__main__ import main
from keras_sat.model.learnt_photos import as_text, digests_of, from_text, learnt_of, together
from keras_sat.scoring.table import ScoreTable

IDS = [f"photo-{number}" for number in range(200)]
SEARCH = {"num_beams": 1, "max_length": 8, "show_progress": False}

pytestmark = pytest.mark.usefixtures("quick_meteor")


@pytest.fixture(scope="module")
def scenes():
    """The data of `whole_training`."""
    return DATASETS["scenes"](None, num_scenes=40, seed=3)


def test_a_record_tells_the_photos_in_it_from_others_in_any_order():
    record = digests_of([*IDS[:100], *IDS[:5]])
    assert len(record) == 100 and learnt_of(IDS[::-1], record) == IDS[:100][::-1]
    assert learnt_of(IDS, None) == [] and learnt_of([], record) == []
    np.testing.assert_array_equal(digests_of(IDS[:100][::-1]), record)
    np.testing.assert_array_equal(together([record, None, digests_of(IDS[50:])]), digests_of(IDS))
    assert together([None, None]) is None


def test_as_text_it_is_small_and_comes_back():
    record = digests_of(IDS)
    assert len(as_text(record)) <= 7 * len(IDS)
    np.testing.assert_array_equal(from_text(as_text(record)), record)
    assert len(from_text("")) == 0


@pytest.mark.parametrize(
    "text", [None, 3, ["a"], "???", "AAAA", "é", as_text(digests_of(IDS)[::-1]), "AAAAAAAAAAAAAA=="]
)
def test_a_malformed_record_is_refused(text, whole_training, tmp_path):
    with pytest.raises(ValueError, match="record of the photos that this captioner learnt from cannot be read"):
        from_text(text)
    whole_training[1].save(tmp_path)
    settings = read_sealed_json(tmp_path / "config.json", "a model")
    write_sealed_json(tmp_path / "config.json", {**settings, "training_photos": text})
    with pytest.raises(ValueError, match=f"{tmp_path.name}: the record of the photos.*training_photos="):
        Captioner.load(tmp_path)


def test_a_captioner_remembers_its_training_photos_wherever_it_goes(whole_training, scenes, tmp_path):
    folder, captioner = whole_training
    expected = digests_of([image.image_id for image in scenes if image.split == "train"])
    for one in (captioner, Captioner.load(folder / "model"), captioner.adapted(), Ensemble([captioner])):
        np.testing.assert_array_equal(one.training_photos, expected)
    further = captioner.adapted()
    further.note_training_photos(["another"])
    np.testing.assert_array_equal(further.training_photos, together([expected, digests_of(["another"])]))
    np.testing.assert_array_equal(Ensemble([captioner, further]).training_photos, further.training_photos)
    assert len(captioner.training_photos) == len(expected)


def test_a_model_of_an_earlier_version_has_no_record_and_loads(whole_training, tmp_path):
    whole_training[1].save(tmp_path)
    settings = read_sealed_json(tmp_path / "config.json", "a model")
    assert settings.pop("training_photos")
    write_sealed_json(tmp_path / "config.json", settings)
    captioner = Captioner.load(tmp_path)
    assert captioner.training_photos is None
    captioner.save(tmp_path)
    assert "training_photos" not in read_sealed_json(tmp_path / "config.json", "a model")


def test_photos_of_the_training_are_refused_or_warned_of_and_counted(whole_training, scenes):
    captioner = whole_training[1]
    assert keras_sat.evaluate(captioner, scenes, split="test", **SEARCH).statistics["training_photos"] == 0
    with pytest.warns(UserWarning, match="learnt from 32 of the 32 photos in 'train'"):
        table = keras_sat.evaluate(captioner, scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] == 32 and "32 training photos" in str(table)
    options = {"split": "dev", "split_seed": 1, **SEARCH}
    with pytest.raises(ValueError, match=r"learnt from \d of the 4 photos in 'dev' \('scene-3-.*split_seed.*Received"):
        keras_sat.evaluate(captioner, scenes, **options)
    with pytest.warns(UserWarning, match=r"learnt from \d of the 4 photos"):
        table = keras_sat.evaluate(captioner, scenes, allow_training_photos=True, **options)
    assert 0 < table.statistics["training_photos"] <= 4


def test_where_nothing_is_known_nothing_is_said(whole_training, scenes, monkeypatch, tmp_path):
    monkeypatch.setattr(whole_training[1], "training_photos", None)
    table = keras_sat.evaluate(whole_training[1], scenes, split="train", **SEARCH)
    assert table.statistics["training_photos"] is None and "training photos" not in str(table)
    table.to_json(tmp_path / "new.json")
    parts = json.loads((tmp_path / "new.json").read_text())
    del parts["statistics"]["training_photos"]
    (tmp_path / "old.json").write_text(json.dumps(parts))
    assert "32 photos" in str(ScoreTable.from_json(tmp_path / "old.json")), "as earlier versions wrote it"
    keras_sat.compare(tmp_path / "old.json", tmp_path / "new.json")


@pytest.mark.filterwarnings("always")
def test_the_command_line_says_the_way_out(whole_training, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command line sets its own
    write_photos(tmp_path / "mine", [f"{number}.jpg" for number in range(4)])
    lines = [f"{number}.jpg,a red circle,dev" for number in range(4)]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(["image,caption,split", *lines]))
    captioner = whole_training[1].adapted()
    captioner.note_training_photos(["1", "2", "7"])
    captioner.save(tmp_path / "model")
    command = ["evaluate", "--model", str(tmp_path / "model"), "--data", "folder", "--data-dir", str(tmp_path / "mine")]
    command += ["--split", "dev", "--num-beams", "1", "--max-length", "8"]
    assert main(command) == 2
    message = capsys.readouterr().err
    assert "learnt from 2 of the 4 photos in 'dev' ('1', for example)" in message
    assert "--split-seed" in message and "--allow-training-photos" in message and message.count("\n") == 1
    assert main([*command, "--allow-training-photos", "--json", str(tmp_path / "scores.json")]) == 0
    assert "keras-sat: The captioner has learnt from 2 of the 4 photos" in capsys.readouterr().err
    assert json.loads((tmp_path / "scores.json").read_text())["statistics"]["training_photos"] == 2


def test_the_bundled_captioner_of_photos_knows_flickr8ks_training_photos(flickr8k_images):
    settings = read_sealed_json(
        keras_sat.files.model_folder.pretrained_directory("flickr8k") / "config.json", "a model"
    )
    record = from_text(settings["training_photos"])
    ids = {split: [image.image_id for image in flickr8k_images if image.split == split] for split in ("train", "dev")}
    assert len(record) == 6000 and learnt_of(ids["train"], record) == ids["train"]
    assert learnt_of(ids["dev"], record) == []
