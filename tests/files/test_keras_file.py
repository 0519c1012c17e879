"""A captioner as one .keras file, and what else Keras does with its models."""

import copy
import io
import json
import math
import pickle
import re
import subprocess
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import NO_DROPOUT, ROOT, all_slow_but, make_captioner, numbers, random_pixels

import data_utils
import keras_sat
from data_utils import make_batches
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.after_search import Consensus

PHOTO = random_pixels(64, 64, 3)


def own_encoder():
    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [
            keras.Input((64, 64, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 16, strides=16, activation="relu"),
        ],
        name="mine",
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The content of a file."""
    path = tmp_path_factory.mktemp("saved") / "captioner.keras"
    built().save(path)
    return path.read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    """A file that a test may change."""
    path = tmp_path / "captioner.keras"
    path.write_bytes(saved)
    return path


def built(**options):
    """Return a small captioner of photos, with random weights."""
    keras.utils.set_random_seed(3)
    options = {"encoder": "tiny", "encoder_training": "scratch", **options}
    return make_captioner(shape=PHOTO.shape, scale=0.9, **options)


KINDS = {
    "soft": {},
    "hard, gru of two layers, boxes": {
        "attention": "hard",
        "cell": "gru",
        "num_layers": 2,
        "box_weight": 1.0,
    },
    "none, frozen encoder": {"attention": "none", "encoder_training": "frozen"},
    "after reading, sentinel, own frozen encoder": {
        "attends": "after",
        "scoring": "bilinear",
        "sentinel": True,
        "encoder": own_encoder,
        "encoder_training": "frozen",
    },
    "own trained encoder": {"encoder": own_encoder, "encoder_training": "fine-tuned"},
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    options = {name: x() if callable(x) else x for name, x in KINDS[request.param].items()}
    return built(**options)


def assert_equal(received, expected):
    """Assert that two captioners have the same options, and read a caption of a photo
    alike, word by word.
    """
    assert received is not expected and type(received) is Captioner
    assert json.dumps(received.get_config()) == json.dumps(expected.get_config())
    assert received.vocabulary == expected.vocabulary
    assert received.rows_and_columns() == expected.rows_and_columns()
    token_ids = np.array([[1, 4, 5, 6]])
    mine, theirs = (captioner((PHOTO[None], token_ids)) for captioner in (received, expected))
    np.testing.assert_array_equal(mine.logits, theirs.logits)
    np.testing.assert_array_equal(mine.attention_weights, theirs.attention_weights)


def test_a_file_gives_the_same_captioner(kind, tmp_path):
    kind.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    assert_equal(loaded, kind)
    assert [path.name for path in tmp_path.iterdir()] == ["captioner.keras"]


def test_copies(kind):
    assert_equal(copy.deepcopy(kind), kind)


def test_it_can_be_pickled():
    captioner = built()
    assert_equal(pickle.loads(pickle.dumps(captioner)), captioner)


def test_a_clone_has_the_same_options_and_new_weights(kind):
    clone = keras.models.clone_model(kind)
    assert json.dumps(clone.get_config()) == json.dumps(kind.get_config())
    assert [w.shape for w in clone.weights] == [w.shape for w in kind.weights]
    assert not np.allclose(clone.decoder.embedding.embeddings, kind.decoder.embedding.embeddings)


def test_from_config_reads_no_file():
    config = built().get_config() | {"encoder": "vgg16", "encoder_training": "fine-tuned"}
    config |= {"encoder_weights": "/nowhere/weights.h5"}
    again = Captioner.from_config(config)
    assert again.settings.encoder.encoder_weights == "/nowhere/weights.h5"
    assert json.dumps(again.get_config()) == json.dumps(config)


@pytest.mark.parametrize("name", all_slow_but("scenes", ["scenes", "scenes-hard", "scenes-none"]))
def test_bundled_captioners(name, tmp_path, without_graphs):
    captioner = Captioner.from_pretrained(name)
    captioner.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    photos = [scene.image for scene in data_utils.draw_scenes(3, 9)]
    captions = (each.caption(photos, num_beams=1) for each in (loaded, captioner))
    for received, expected in zip(*captions):
        assert received.caption == expected.caption and received.log_prob == expected.log_prob


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flickr8k", "flickr8k-hard", "flickr8k-paper"])
def test_bundled_photo_captioners(name, tmp_path):
    captioner = Captioner.from_pretrained(name)
    photo = random_pixels(224, 224, 3)
    captioner.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    expected, received = captioner.caption(photo), loaded.caption(photo)
    assert received.caption == expected.caption and received.confidence == expected.confidence
    assert received.log_prob == expected.log_prob
    loaded.save(tmp_path / "folder")
    assert Captioner.load(tmp_path / "folder").weights_digest() == captioner.weights_digest()


@pytest.mark.slow
@pytest.mark.usefixtures("small_index")
def test_what_captions_depend_on_travels_with_them(captioner, scenes, tmp_path):
    indexed = captioner.adapted(consensus_weight=20.0)
    indexed.consensus = Consensus.build(indexed, scenes, show_progress=False)
    keras_sat.calibrate(indexed, scenes[:100], show_progress=False)  # sets its confidence
    indexed.note_training_photos(["a", "b"])
    indexed.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    expected, received = indexed.caption(scenes[0].image_path), loaded.caption(scenes[0].image_path)
    assert (received.caption, received.log_prob) == (expected.caption, expected.log_prob)
    assert received.confidence == expected.confidence is not None
    np.testing.assert_array_equal(loaded.training_photos, indexed.training_photos)


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_precision(precision, tmp_path):
    captioner = built(embedding_dim=300, hidden_dim=300, guide_weight=0.2)
    captioner.save(tmp_path / "whole.keras")
    captioner.save(tmp_path / "small.keras", precision=precision)
    captioner.save(tmp_path / "folder", precision=precision)
    small = keras.saving.load_model(tmp_path / "small.keras")
    assert small.weights_digest() == Captioner.load(tmp_path / "folder").weights_digest()
    sizes = [(tmp_path / f"{name}.keras").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < 0.9 * sizes[1]
    assert small.current_options() == captioner.current_options()
    with pytest.raises(ValueError, match="precision"):
        captioner.save(tmp_path / "other.keras", precision="int4")


def test_the_dtype_of_the_decoder(tmp_path):
    captioner = built(dtype="mixed_bfloat16")
    captioner.save(tmp_path / "captioner.keras")
    loaded = Captioner.from_pretrained(tmp_path / "captioner.keras")
    assert loaded.decoder.dtype_policy.name == "mixed_bfloat16"
    assert_equal(loaded, captioner)


def test_an_encoder_that_is_missing_is_in_no_file(tmp_path):
    built(encoder=own_encoder(), encoder_training="frozen").save(tmp_path / "folder")
    without = Captioner.load(tmp_path / "folder")
    with pytest.raises(ValueError, match="those of the encoder cannot be read here"):
        without.save(tmp_path / "captioner.keras")
    assert not (tmp_path / "captioner.keras").exists()


def test_the_bundled_encoder(tmp_path):
    options = {"encoder": "efficientnet_lite0", "encoder_weights": "bundled", "grid": "7x7"}
    captioner = make_captioner(shape=(49, 1280), **options)
    captioner.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    assert loaded.settings.encoder.encoder_weights == "bundled"
    for mine, theirs in zip(loaded.encoder_model.weights, captioner.encoder_model.weights):
        np.testing.assert_array_equal(mine, theirs)


def test_arguments_of_folders_are_ignored_with_a_warning(path):
    with pytest.warns(UserWarning, match="encoder_weights is ignored"):
        Captioner.load(path, encoder_weights="weights.h5")


# === Training ===


@pytest.fixture
def batches(scene_images, scene_vocabulary, scene_cache):
    """One batch: by length, there would be one for each."""
    options = {"cache": scene_cache, "batch_size": 50, "group_by": "image", "shuffle": False}
    return make_batches(scene_images[:20], scene_vocabulary, split="train", **options)


@pytest.fixture
def trained(scene_vocabulary, batches, without_graphs):
    keras.utils.set_random_seed(3)
    captioner = make_captioner(scene_vocabulary, **NO_DROPOUT)
    captioner.compile(
        "adamw", learning_rate=0.01, weight_decay=0.1, average_momentum=0.9, steps_per_execution=2
    )
    captioner.fit(batches, verbose=0)
    return captioner


@pytest.mark.slow
def test_training_goes_on(trained, batches, tmp_path):
    trained.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    assert loaded.updates.settings.average_momentum == 0.9
    assert loaded.steps_per_execution == 2
    assert loaded.optimizer.iterations == trained.optimizer.iterations > 0
    histories = []
    for captioner in (trained, loaded):
        keras.utils.set_random_seed(7)
        histories.append(captioner.fit(batches, verbose=0).history["loss"])
    assert histories[0] == histories[1]
    for mine, theirs in zip(loaded.trainable_variables, trained.trainable_variables):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_layers_that_are_not_trained(trained, batches, tmp_path):
    trained.decoder.embedding.trainable = False
    trained.compile("adam", learning_rate=0.01)
    trained.fit(batches, verbose=0)
    trained.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    assert not loaded.decoder.embedding.trainable and loaded.decoder.readout.trainable
    assert loaded.optimizer.iterations == trained.optimizer.iterations > 0


@pytest.mark.slow
def test_callbacks_of_keras(trained, batches, tmp_path):
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
        keras.callbacks.EarlyStopping("val_cross_entropy", mode="min", patience=3),
        keras.callbacks.BackupAndRestore(tmp_path / "backup"),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
    ]
    trained.fit(batches, validation_data=batches, epochs=2, verbose=0, callbacks=callbacks)
    loaded = keras.saving.load_model(tmp_path / "2.keras")
    expected = trained.evaluate(batches, verbose=0, return_dict=True)
    assert loaded.evaluate(batches, verbose=0, return_dict=True) == expected
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_backup_and_restore_goes_on_where_training_was_killed(trained, batches, tmp_path):
    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise InterruptedError

    trained.compile("adam", learning_rate=0.01)  # without averages, which it does not keep
    again = copy.deepcopy(trained)
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(InterruptedError):
        trained.fit(batches, epochs=2, verbose=0, callbacks=[backup, Kill()])
    after_one_epoch = [weight.numpy() for weight in trained.trainable_variables]
    seen = []

    class Look(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append((epoch, [weight.numpy() for weight in self.model.trainable_variables]))

    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    again.fit(batches, epochs=2, verbose=0, callbacks=[backup, Look()])
    (epoch, weights), *others = seen
    assert epoch == 1 and not others
    for received, expected in zip(weights, after_one_epoch):
        np.testing.assert_array_equal(received, expected)


# === What it does not do ===


def test_shapes_of_tensorflow_are_shapes():
    captioner = Captioner(["a", "dog"], encoder=None, embedding_dim=4, hidden_dim=6)
    captioner.build((tf.TensorShape((None, 4, 3)), tf.TensorShape((None, None))))
    assert captioner.feature_shape == (4, 3)


def test_photos_alone_are_no_input():
    captioner = built()
    photos = np.stack([PHOTO, PHOTO])
    for run in (captioner, captioner.predict, make_captioner(encoder="tiny")):
        with pytest.raises(TypeError, match=r"^Photos .*captioner\.caption.*captioner\.encode"):
            run(photos)


@pytest.mark.slow
def test_what_is_no_batches(trained, batches):
    photos = tf.data.Dataset.from_tensors((PHOTO[None], np.array([[1, 2]])))
    trained.confidence = "as before"
    for wrong in (PHOTO[None], [PHOTO], photos, None):
        for run in (trained.fit, trained.evaluate):
            with pytest.raises(ValueError, match="Expected batches made by make_batches"):
                run(wrong, verbose=0)
    assert trained.confidence == "as before"
    for wrong in ("scene.png", PHOTO):
        with pytest.raises(ValueError, match=r"\(photos, height, width, 3\)"):
            trained.encode(wrong)


@pytest.mark.parametrize("name", ["x.h5", "sub/x.ZIP", "x.KERAS"])
def test_other_files_are_rejected(name, tmp_path):
    with pytest.raises(ValueError, match=r"folder, or as one file that ends with \.keras"):
        built().save(tmp_path / name)
    assert not list(tmp_path.rglob("*"))


def test_a_file_is_replaced_only_as_a_whole(tmp_path, monkeypatch):
    captioner, path = built(), tmp_path / "captioner.keras"
    captioner.save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="overwrite=False"):
        captioner.save(path, overwrite=False)
    monkeypatch.setattr(Captioner, "save_assets", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        captioner.save(path)
    assert path.read_bytes() == before and len([*tmp_path.iterdir()]) == 1


def test_a_model_that_is_no_captioner(tmp_path):
    own_encoder().save(tmp_path / "encoder.keras")
    with pytest.raises(ValueError, match="this is a Sequential, not a captioner"):
        Captioner.load(tmp_path / "encoder.keras")


def changed(path, **values):
    """Change values in the configuration that a file has for a captioner."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    for name, value in values.items():
        place = config["build_config"] if name in config["build_config"] else config["config"]
        place[name] = value
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "config": {"name": "evil", "function": {"class_name": "__lambda__", "config": {"code": "x"}}},
    "registered_name": None,
}


def wide_encoder():
    """Return the configuration of an encoder with 2 ** 31 numbers, 8 GB."""
    photos = keras.Input((32, 32, 3))
    encoder = keras.Model(photos, keras.layers.Conv2D(4, 1, strides=2)(photos))
    config = keras.saving.serialize_keras_object(encoder)
    _, convolution = config["config"]["layers"]
    convolution["config"]["filters"] = 2**29
    return config


UNKNOWN = {"module": "mine", "class_name": "Mine", "config": {}, "registered_name": "Mine"}


@pytest.mark.parametrize(
    "values, problem",
    [
        ({"hidden_dim": 10**6}, "larger model"),
        ({"feature_shape": [10**4, 10**9]}, "larger model"),
        ({"feature_shape": "many"}, "feature_shape"),
        ({"rows_and_columns": [3, -3]}, "rows_and_columns"),
        ({"rows_and_columns": [1, 256]}, "Expected: .* in a grid .*16, 16.*Received: .*1, 256"),
        ({"feature_shape": [4, 66], "rows_and_columns": [2, 2]}, "Received: .*4, 66"),
        ({"encoder": LAMBDA, "encoder_training": "frozen"}, "a Lambda layer, whose code"),
        ({"encoder": UNKNOWN, "encoder_training": "frozen"}, "class 'Mine' is not known"),
        ({"encoder": wide_encoder(), "encoder_training": "frozen"}, "encoder is larger than the"),
        ({"attention": "keen"}, "`attention` must be one of"),
        ({"vocabulary": ["a", "dog"]}, "embedding"),
        ({"surprise": 1}, "has no such option"),
    ],
)
def test_hostile_files(values, problem, path):
    changed(path, **values)
    with pytest.raises(ValueError, match=rf"{path.name}: .*{problem}") as caught:
        Captioner.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["captioner.KERAS", "captioner.zip", "captioner.h5"])
@pytest.mark.parametrize("load", [Captioner.load, Captioner.from_pretrained])
def test_a_file_of_another_name_is_no_model(name, load, tmp_path):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=rf"{name}: this file is no model.*ends with \.keras"):
        load(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x05\x06" + bytes(18)])
def test_files_that_are_no_model(content, tmp_path):
    path = tmp_path / "captioner.keras"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{path.name}: .*Expected: a file that Captioner.save"):
        Captioner.load(path)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
def test_a_changed_byte_is_noticed(place, path):
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{path.name}: .* Expected: a file that") as caught:
        Captioner.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_cut_off(path):
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"{path.name}: this file is damaged"):
        Captioner.load(path)


def test_a_file_has_each_weight_once(kind, tmp_path):
    kind.save(tmp_path / "captioner.keras")
    num_numbers = sum(math.prod(weight.shape) for weight in kind.weights)
    if kind.photo_encoder.is_frozen:
        num_numbers += kind.encoder_model.count_params()
    with zipfile.ZipFile(tmp_path / "captioner.keras") as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    sizes = []

    def note_size(_, item):
        if isinstance(item, h5py.Dataset):
            sizes.append(item.size)

    with h5py.File(content) as file:
        file.visititems(note_size)
    assert sum(sizes) == num_numbers


@pytest.mark.usefixtures("small_index")
def test_damaged_assets(captioner, scenes, tmp_path):
    indexed = captioner.adapted(consensus_weight=20.0)
    indexed.consensus = Consensus.build(indexed, scenes, show_progress=False)
    path = tmp_path / "captioner.keras"
    indexed.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if "index-" in name)
    members[name] = members[name][:-1] + b"?"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="damaged"):
        Captioner.load(path)


# === On the command line ===


@pytest.fixture(scope="module")
def scenes_file(captioner, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes.keras"
    captioner.save(path)
    return path


def test_a_model_on_the_command_line(scenes_file, captioner, scenes, without_graphs, capsys):
    photo = scenes[0].image_path
    assert main(["caption", photo, "--model", str(scenes_file), "--num-beams", "1"]) == 0
    caption = captioner.caption(photo, num_beams=1).caption
    assert capsys.readouterr().out == f"{photo}\t{caption}\n"


@pytest.mark.parametrize("command", ["calibrate", "index"])
def test_a_file_is_not_changed(command, scenes_file, capsys):
    assert main([command, str(scenes_file), "--data", "scenes"]) == 2
    assert "changes the folder of a captioner" in capsys.readouterr().err


# === In a new process, which has registered nothing yet ===

FROM_0_1 = ROOT / "tests" / "golden" / "from_0_1"


def run_in_new_process(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )


OWN_LAYERS = """
import sys, keras
from keras_sat import BahdanauAttention, CaptionDecoder
print(type(keras.saving.load_model(sys.argv[1])).__name__)
"""

CAPTIONER = """
import sys, keras
import keras_sat
try:
    keras.saving.load_model(sys.argv[1])
except TypeError as error:
    print(error, file=sys.stderr)
from keras_sat import Captioner
print(keras.saving.get_registered_name(type(keras.saving.load_model(sys.argv[1]))))
print(*keras.saving.get_custom_objects())
"""


@pytest.mark.slow
def test_a_model_with_our_layers_needs_nothing_but_their_import():
    ran = run_in_new_process(OWN_LAYERS, FROM_0_1 / "own_model.keras")
    assert ran.stdout.split() == ["Functional"], ran.stderr


@pytest.mark.slow
def test_the_import_of_the_captioner_brings_all_layers_that_its_file_can_name():
    """Without it, Keras says which class is missing."""
    registered = re.compile(
        r'^@keras\.saving\.register_keras_serializable\("keras_sat"\)\n(?:@.*\n)*class (\w+)',
        re.MULTILINE,
    )
    sources = [path.read_text("utf-8") for path in (ROOT / "keras_sat").rglob("*.py")]
    names = {f"keras_sat>{name}" for source in sources for name in registered.findall(source)}
    ran = run_in_new_process(CAPTIONER, FROM_0_1 / "soft.keras")
    assert "Could not locate class 'Captioner'" in ran.stderr
    assert "imported so that the decorator is run" in ran.stderr
    loaded, *known = ran.stdout.split()
    assert loaded == "keras_sat>Captioner", ran.stderr
    assert {"keras_sat>Captioner", "keras_sat>BilinearAttention"} < names <= {*known}


def test_summary_shows_shapes():
    lines = []
    built().summary(print_fn=lines.append)
    text = "\n".join(map(str, lines))
    assert "?" not in text and "logits" in text


def test_features_without_an_encoder(tmp_path, without_graphs):
    captioner = make_captioner(shape=(4, 6))
    captioner.save(tmp_path / "captioner.keras")
    loaded = keras.saving.load_model(tmp_path / "captioner.keras")
    features = numbers(2, 4, 6)
    for mine, theirs in zip(
        loaded.caption_features(features), captioner.caption_features(features)
    ):
        assert (mine.caption, mine.log_prob) == (theirs.caption, theirs.log_prob)
