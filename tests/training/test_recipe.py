import csv
import inspect
import io
import re
import shutil
import signal
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import write_photos
from small_training import OPTIONS, At, train

import keras_sat
from data_utils import DATASETS, CaptionedImage, FeatureCache
from data_utils.base import exclusive_lock, write_sealed_json
from keras_sat import Captioner
from keras_sat.commands import parse
from keras_sat.commands.parser import command_parser
from keras_sat.files import read_checkpoint
from keras_sat.network.precision import multiplies_bfloat16
from keras_sat.removed_options import REMOVED
from keras_sat.settings import FitSettings
from keras_sat.training import phases
from keras_sat.training.distributed import Cluster
from keras_sat.training.run_record import describe


def history_of(folder):
    with open(folder / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != "seconds"
    }


def test_basics(whole_training):
    folder, captioner = whole_training
    assert isinstance(captioner, Captioner)
    assert (
        len(captioner.history["loss"]) == len(captioner.history["val_bleu_4"]) == OPTIONS["epochs"]
    )
    assert captioner.history.history == dict(captioner.history)
    assert captioner.history["loss"][-1] < captioner.history["loss"][0]
    assert captioner.baseline.numpy() < 0
    assert "warm_up" in captioner.history
    names = {path.name for path in folder.iterdir()}
    assert names == {"arguments.json", "checkpoint", "history.csv", "lock", "logs", "model"}
    table = history_of(folder)
    assert table["epoch"].tolist() == [1, 2, 3, 4]
    for name, values in captioner.history.items():
        if name != "seconds":
            np.testing.assert_allclose(table[name], values, rtol=1e-5, atol=1e-30)
    assert Captioner.load(folder / "model").weights_digest() == captioner.weights_digest()


def test_tensorboard_can_read_the_curves(whole_training):
    import tensorflow as tf

    folder, captioner = whole_training
    found = {}
    for path in (folder / "logs").iterdir():
        for record in tf.data.TFRecordDataset(str(path)):
            for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                found.setdefault(value.tag, []).append(float(tf.make_ndarray(value.tensor)))
    np.testing.assert_allclose(found["loss"], captioner.history["loss"], rtol=1e-6)


def assert_same_end(folder, other):
    """Compare the curves and the last states of two trainings."""
    expected, received = history_of(folder), history_of(other)
    assert expected.keys() == received.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(received[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
    (_, weights), (_, weights_expected) = (
        read_checkpoint(path / "checkpoint") for path in (other, folder)
    )
    for name, values in weights_expected.items():
        np.testing.assert_allclose(weights[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_stopped_anywhere_it_resumes_and_ends_as_if_it_had_never_stopped(
    whole_training, half_training, tmp_path, capsys
):
    """Killed, then stopped by `minutes`. What is killed in processes of its own ends
    with the same bits in test_deterministic.py.
    """
    run = shutil.copytree(half_training, tmp_path / "run")
    stopped = train(run, minutes=1e-9, show_progress=True)
    assert len(stopped.history["loss"]) == 3 and stopped.history.was_interrupted
    assert stopped.weights_digest() == Captioner.load(run / "model").weights_digest()
    printed = capsys.readouterr().out
    assert "resuming after epoch 2" in printed
    assert "--minutes); repeat the call or command to resume after epoch 3" in printed
    whole = train(run, minutes=1e9)
    assert not whole.history.was_interrupted and len(whole.history["loss"]) == OPTIONS["epochs"]
    assert_same_end(whole_training[0], run)


@pytest.mark.slow
def test_ctrl_c_returns_the_best_so_far(half_training, tmp_path, capsys):
    run = shutil.copytree(half_training, tmp_path / "run")
    interrupt = At(2, lambda: signal.raise_signal(signal.SIGINT))
    stopped = train(run, callbacks=[interrupt], show_progress=True)
    assert len(stopped.history["loss"]) == 2 and stopped.history.was_interrupted
    assert "stopped" in capsys.readouterr().out
    assert stopped.weights_digest() == Captioner.load(run / "model").weights_digest()


def test_a_training_that_has_ended_is_loaded(whole_training, monkeypatch):
    folder, captioner = whole_training
    monkeypatch.setattr(Captioner, "fit", None)
    again = train(folder)
    assert again.weights_digest() == captioner.weights_digest()
    assert dict(again.history) == dict(captioner.history)


def test_other_arguments_are_rejected_and_named(whole_training, tmp_path):
    folder, captioner = whole_training
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "lock"}
    with pytest.raises(
        ValueError, match=r"seed was 5 and is 6; learning_rate was 0\.003 and is 0\.1\."
    ):
        train(folder, learning_rate=0.1, seed=6)
    # The cosine would have been another one.
    with pytest.raises(ValueError, match="epochs was 4 and is 5"):
        train(folder, epochs=5)
    others = DATASETS["scenes"](None, num_scenes=41, seed=3)
    with pytest.raises(ValueError, match="data was '40 photos, checksum .*' and is '41 photos"):
        keras_sat.fit(others, output_dir=folder, show_progress=False, **OPTIONS)
    assert before == {
        path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "lock"
    }
    shutil.copytree(folder, tmp_path / "run")
    assert train(tmp_path / "run", cell="lstm").weights_digest() == captioner.weights_digest(), (
        "that is the default"
    )


TWO_EPOCHS = {"schedule": "constant", "warmup_steps": 0, "splits": ["train"], "batch_size": 160}


@pytest.fixture
def two_epochs(tmp_path_factory, without_graphs, monkeypatch):
    """A training of two epochs: its folder, the callbacks that Keras' own `fit`
    received after one of ours, and how many epochs were saved when the line of each was
    printed.
    """
    folder, calls, epochs_saved = tmp_path_factory.mktemp("two"), [], {}
    ours = keras.callbacks.Callback()
    keras_fit = keras.Model.fit

    def fit(model, batches, **options):
        calls.append(options["callbacks"][options["callbacks"].index(ours) + 1 :])
        return keras_fit(model, batches, **options)

    class Screen(io.StringIO):
        def write(self, text):
            if epoch := re.match(r"epoch (\d)/2: loss", text):
                epochs_saved[int(epoch[1])] = len(read_checkpoint(folder / "checkpoint")[0])

    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "fit", fit)
        patch.setattr("sys.stdout", Screen())
        train(folder, epochs=2, callbacks=[ours], show_progress=True, **TWO_EPOCHS)
    return folder, calls, epochs_saved


def test_more_epochs_continue_as_if_it_had_never_stopped(two_epochs, tmp_path):
    folder, calls, epochs_saved = two_epochs
    (callbacks,) = calls
    assert any(isinstance(after, keras_sat.KeepTraining) for after in callbacks)
    assert epochs_saved == {1: 1, 2: 2}, "the line of an epoch comes after its checkpoint"
    for epochs in (1, 2):
        train(tmp_path, epochs=epochs, **TWO_EPOCHS)
    assert_same_end(folder, tmp_path)


def test_one_device_trains_with_the_fit_of_keras():
    with pytest.raises(ValueError, match="On one device, use `Captioner.fit`"):
        Cluster().fit(None, None)


def test_arguments_that_are_objects_are_the_same_in_every_process():
    def schedule():
        return keras.optimizers.schedules.CosineDecay(0.1, 10)

    images = DATASETS["scenes"](None, num_scenes=3)
    paths = {"cache": Path("a"), "n": np.int64(3)}
    options = [{"optimizer": keras.optimizers.AdamW(schedule()), **paths} for _ in range(2)]
    first, second = (describe(arguments, images, None) for arguments in options)
    assert first == second and "0x" not in str(first)
    assert first["cache"] == "a" and first["n"] == 3
    brighter = [CaptionedImage(i.image_id, i.image_path // 2, i.captions, i.split) for i in images]
    assert describe(options[0], brighter, None)["data"] != first["data"]


def test_a_folder_of_something_else_is_rejected(tmp_path):
    (tmp_path / "history.csv").write_text("of my own")
    with pytest.raises(ValueError, match="contains a history.csv, but no arguments.json"):
        train(tmp_path)
    assert (tmp_path / "history.csv").read_text() == "of my own"


def test_a_damaged_checkpoint_is_one_clear_error(whole_training, tmp_path):
    folder, _ = whole_training
    for damage in ("state", "progress"):
        copy = tmp_path / damage
        shutil.copytree(folder, copy)
        victim = next((copy / "checkpoint").glob(f"{damage}*"))
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
        with pytest.raises(ValueError, match=victim.name):
            train(copy)


def test_a_damaged_model_is_rejected_before_an_epoch_is_spent(
    whole_training, tmp_path, monkeypatch
):
    folder = tmp_path / "copy"
    shutil.copytree(whole_training[0], folder)
    epochs, _ = read_checkpoint(folder / "checkpoint")
    (state,) = (folder / "checkpoint").glob("state-*")
    write_sealed_json(
        folder / "checkpoint" / "progress.json", {"epochs": epochs[:2], "state": state.name}
    )
    shutil.rmtree(folder / "model")
    monkeypatch.setattr(Captioner, "fit", None)
    with pytest.raises(
        ValueError, match=r"model: this folder has no model \(config\.json is missing\)"
    ):
        train(folder)


def test_two_processes_do_not_train_into_one_folder(tmp_path):
    rejected = pytest.raises(ValueError, match="Another process is training")
    with exclusive_lock(tmp_path / "lock", "is training here"), rejected:
        train(tmp_path)


class LoseTheWeights(keras.callbacks.Callback):
    """Make a weight NaN after a batch of an epoch, as a learning rate that is too high
    does.
    """

    def __init__(self, epoch, batch):
        super().__init__()
        self.at, self.epoch = (epoch, batch), None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            bias = self.model.decoder.readout.word_logits.bias
            bias.assign(bias.numpy() * np.nan)


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("batch", [1, 3], ids=["in an epoch", "after the last loss"])
def test_a_nan_loss_ends_the_training_and_keeps_the_best(batch, whole_training, tmp_path):
    batches = []
    count = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: batches.append(batch)
    )
    with pytest.warns(UserWarning, match=r"in epoch 2; the best captioner so far is returned"):
        captioner = train(tmp_path, callbacks=[LoseTheWeights(1, batch), count])
    assert len(batches) == {1: 7, 3: 8}[batch], "it stopped at once"
    assert len(captioner.history["loss"]) == 1 and np.isfinite(captioner.history["loss"]).all()
    assert all(np.isfinite(weight.numpy()).all() for weight in captioner.weights)
    np.testing.assert_allclose(
        history_of(tmp_path)["loss"], history_of(whole_training[0])["loss"][:1], rtol=1e-5
    )
    if batch == 1:
        with pytest.raises(ValueError, match="in epoch 1; nothing was saved"):
            train(tmp_path / "at once", callbacks=[LoseTheWeights(0, 0)])


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_ctrl_c_before_anything_was_reached(tmp_path):
    stop = At(0, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.warns(UserWarning, match="before the first epoch was complete"):
        captioner = train(tmp_path, callbacks=[stop])
    assert not captioner.history and not (tmp_path / "model").exists()


def test_photos_that_cannot_be_read_are_found_before_the_training(tmp_path):
    write_photos(tmp_path / "mine", ["0.jpg", "1.jpg"])
    (tmp_path / "mine" / "1.jpg").write_bytes(b"nothing")
    (tmp_path / "mine" / "captions.csv").write_text(
        "image,caption,split\n0.jpg,a dog,train\n1.jpg,a cat,train\n"
    )
    options = {
        **OPTIONS,
        "data_dir": tmp_path / "mine",
        "output_dir": tmp_path / "run",
        "image_size": 32,
    }
    with pytest.raises(ValueError, match=r"1\.jpg: this is not a picture.*skip_unreadable=True"):
        keras_sat.fit("folder", show_progress=False, **options)


@pytest.mark.slow
def test_early_stopping_follows_the_score_of_free_running_captions(tmp_path, monkeypatch, capsys):
    scores = iter([0.2, 0.5, 0.4, 0.5, 0.3, 0.9])
    monkeypatch.setattr(
        keras_sat.training.callbacks,
        "bleu",
        lambda *_: {f"bleu_{n}": value for value in [next(scores)] for n in range(1, 5)},
    )
    saved = []

    def note(*_):
        with digest.model.averaged_weights():
            saved.append(digest.model.weights_digest())

    digest = keras.callbacks.LambdaCallback(on_epoch_end=note)
    # Four dev photos have few words right.
    monkeypatch.setattr(keras_sat.training.history, "LEAST_MATCHES", 0)
    captioner = train(tmp_path, epochs=6, patience=3, callbacks=[digest], show_progress=True)
    assert "stopped early: no better epoch in the last 3" in capsys.readouterr().out
    assert captioner.history["val_bleu_4"] == [0.2, 0.5, 0.4, 0.5, 0.3], (
        "stopped three epochs after the best"
    )
    assert captioner.weights_digest() == saved[1], "the first of the best"
    assert (
        train(tmp_path, epochs=6, patience=3).history["val_bleu_4"]
        == captioner.history["val_bleu_4"]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_an_initial_model_is_trained_on_other_photos(whole_training, tmp_path):
    folder, before = whole_training
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (50, 70, 3), dtype=np.uint8) for _ in range(8)]
    captions = ["a zebra over a red circle"]
    mine = [
        CaptionedImage(f"p{i}", picture, captions, "train") for i, picture in enumerate(pictures)
    ]
    options = {"initial_model": folder / "model", "epochs": 1, "show_progress": False}
    after = keras_sat.fit(mine, output_dir=tmp_path / "mine", learning_rate=1e-9, **options)
    assert after.vocabulary.words == [*before.vocabulary.words, "zebra"]
    assert after.attention == "hard" and after.encoder == "tiny"
    old, new = (
        before.decoder.embedding.embeddings.numpy(),
        after.decoder.embedding.embeddings.numpy(),
    )
    np.testing.assert_allclose(new[: len(old)], old, atol=1e-6)
    weights, expected = (model.encoder_model.weights[0].numpy() for model in (after, before))
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"shapes of trained weights.*hidden_dim=32 \(it is 16\)"):
        keras_sat.fit(mine, output_dir=tmp_path / "other", hidden_dim=32, **options)
    soft = keras_sat.fit(mine, output_dir=tmp_path / "soft", attention="soft", **options)
    assert soft.attention == "soft"
    with pytest.raises(ValueError, match="no folder or bundled model"):
        keras_sat.fit(mine, output_dir=tmp_path / "other", initial_model="nonsense")


VIEWS_AND_LAST_LAYERS = {
    "encoder": "tiny",
    "encoder_training": "frozen",
    "encoder_layer": "conv1",
    "trained_up_to": "coordinates",
    "encoder_rate": 0.5,
    "image_size": 16,
    "num_views": 2,
    "embedding_dim": 4,
    "hidden_dim": 4,
    "attention_dim": 4,
    "feature_dropout": 0.2,
    "average_momentum": 0.9,
    "batch_size": 4,
    "epochs": 3,
    "patience": None,
    "show_progress": False,
}


@pytest.mark.slow
def test_a_training_with_views_and_the_last_layers_of_an_encoder_resumes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("keras_sat.training.photos.LONG", -1)
    monkeypatch.setattr("keras_sat.training.photos.ENCODED_TOGETHER", 4)
    write_photos(tmp_path / "photos", [f"{number}.png" for number in range(9)], size=(32, 32))
    images = [
        CaptionedImage(
            str(number),
            tmp_path / "photos" / f"{number}.png",
            [f"a {'big ' * number} dog", "a cat"],
            split,
        )
        for number, split in enumerate(["train"] * 7 + ["dev"] * 2)
    ]
    weights = tmp_path / "tiny.weights.h5"
    keras_sat.ENCODERS["tiny"](image_size=16).save_weights(weights)
    options = {**VIEWS_AND_LAST_LAYERS, "encoder_weights": weights}

    def stop():
        raise KeyboardInterrupt

    whole = keras_sat.fit(
        images, **options | {"show_progress": True}, output_dir=tmp_path / "whole"
    )
    announced = "encoding 16 photos and views with tiny takes about 00:00, once"
    assert announced in capsys.readouterr().out
    view = FeatureCache.open(next((tmp_path / "whole" / "features").glob("view1-*")))
    assert view.manifest["view"] == 1 and len(view) == 7, "only training photos have further views"
    assert len(FeatureCache.open(tmp_path / "whole" / "features")) == 9
    keras_sat.fit(images, **options, output_dir=tmp_path / "broken", callbacks=[At(2, stop)])
    assert len(read_checkpoint(tmp_path / "broken" / "checkpoint")[0]) == 2
    again = keras_sat.fit(images, **options, output_dir=tmp_path / "broken")
    assert again.weights_digest() == whole.weights_digest()
    np.testing.assert_allclose(again.history["loss"], whole.history["loss"], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs", "quick_meteor")
def test_a_data_set_of_your_own_by_its_name(tmp_path, monkeypatch):
    images = DATASETS["scenes"](None, num_scenes=20)
    images = [CaptionedImage(image.image_id, image.image_path, image.captions) for image in images]
    monkeypatch.setitem(DATASETS, "mine", lambda folder: images)
    options = {"data_dir": tmp_path, "split_seed": 0, "show_progress": False}
    captioner = keras_sat.fit(
        "mine", output_dir=tmp_path / "run", **{**OPTIONS, "epochs": 1}, **options
    )
    assert "val_bleu_4" in captioner.history
    assert len(keras_sat.evaluate(captioner, "mine", **options).captions) == 2


@pytest.mark.slow
def test_what_it_says(tmp_path, capsys):
    train(tmp_path, epochs=2, show_progress=True, dtype="auto")
    computed = "mixed_bfloat16" if multiplies_bfloat16() else "float32"
    output = capsys.readouterr().out
    for text in (
        "32 photos with 160 captions in train, 4 photos with 20 captions in dev",
        "words in dev captions are unknown",
        "tiny, 16 x 16 x 66",
        "captioner: hard attention before reading the last word, additive scoring, encoder tiny "
        f"(scratch), LSTM of 16, computed in {computed}",
        "cores; all files are in",
        " left",
        "epoch 2/2: loss ",
        "BLEU-4",
        "scene-3-000008: ",
        "it is saved in",
    ):
        assert text in output, text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"epochs": 0}, "`epochs` must be"),
        ({"cache_dir": "run"}, "must be different folders"),
        ({"attentoin_dim": 3}, "fit has no such option. Did you mean attention_dim"),
        ({"encoder_training": "frozen", "encoder_rate": 0.5}, "No layer of the encoder is trained"),
        ({"boxes": []}, "`boxes` and `box_weight` require each other"),
    ],
)
def test_errors(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = DATASETS["scenes"](None, num_scenes=10)
    with pytest.raises(ValueError, match=message):
        keras_sat.fit(images, encoder="tiny", output_dir="run", show_progress=False, **options)
    assert not Path("run", "features").exists(), "nothing is encoded for what cannot be trained"


def test_learning_rates():
    # Of a training of so many steps, which would take minutes.
    assert phases._learning_rate(0.1, "constant", 0, 100) == 0.1
    cosine, warm = (
        phases._learning_rate(0.1, "cosine", 10, 110),
        phases._learning_rate(0.1, "constant", 10, 110),
    )
    rates = [float(cosine(step)) for step in (0, 5, 10, 60, 110)]
    np.testing.assert_allclose(rates, [0, 0.05, 0.1, 0.05, 0], atol=1e-6)
    np.testing.assert_allclose(
        [float(warm(step)) for step in (0, 5, 10, 60)], [0, 0.05, 0.1, 0.1], atol=1e-6
    )
    np.testing.assert_allclose(
        float(phases._learning_rate(0.1, "cosine", 0, 100)(50)), 0.05, atol=1e-6
    )


def test_the_command_line_offers_what_fit_takes():
    arguments = parse(["fit", "--data", "scenes", "--epochs", "3"])
    assert arguments == {"command": "fit", "data": "scenes", "epochs": 3}
    known = {*inspect.signature(keras_sat.fit).parameters} - {"options"}
    known |= {*FitSettings.names()}
    actions = command_parser("fit")._actions  # argparse lists them nowhere else
    offered = {action.dest for action in actions} - {"help", "help_all", "gpus", "hosts"}
    assert {*REMOVED} < offered  # to say what is there instead
    offered -= {*REMOVED}
    assert offered <= known
    assert known - offered == {"callbacks", "show_progress", "strategy", "grid_shape"}


@pytest.mark.slow
def test_real_photos_from_fit_to_caption(flickr8k_images, real_data, tmp_path):
    train = [image for image in flickr8k_images if image.split == "train"][:24]
    dev = [image for image in flickr8k_images if image.split == "dev"][:8]
    options = {
        "encoder": "mobilenet_v2",
        "encoder_weights": real_data / "mobilenet_v2_notop.weights.h5",
    }
    options |= {**dict.fromkeys(["embedding_dim", "hidden_dim", "attention_dim"], 32), "epochs": 2}
    captioner = keras_sat.fit(
        [*train, *dev], **options, group_by="image", output_dir=tmp_path, show_progress=False
    )
    assert len(FeatureCache.open(tmp_path / "features")) == 32
    assert captioner.history["val_cross_entropy"][1] < captioner.history["val_cross_entropy"][0]
    results = captioner.caption([image.image_path for image in dev], num_beams=3)
    assert all(result.words and result.attention_weights.shape[1:] == (7, 7) for result in results)
