import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from distributed_trainings import HARD, WEIGHTS, scenes, train
from helpers import write_photos

import keras_sat
from data_utils import CaptionedImage, Vocabulary, make_batches
from keras_sat.__main__ import main
from keras_sat.files import read_checkpoint
from keras_sat.training.distributed import SEED_STRIDE, Cluster, read_tf_config
from keras_sat.training.run import Run

TOGETHER = Path(__file__).parents[1] / "distributed_trainings.py"
HOST_FAILED = "Another host in this training run has exited or cannot be reached"
SECONDS = 300  # for processes that take some ten on a free machine: then one of them hangs


def tf_config(ports, index):
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run_hosts(commands):
    """Run a command for each host, all at once.

    Return (exit status, output, errors) of each.
    """
    ports = free_ports(len(commands))
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CONFIG": tf_config(ports, index), "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        for index, command in enumerate(commands)
    ]
    end = time.monotonic() + SECONDS
    try:
        outputs = [
            process.communicate(timeout=max(end - time.monotonic(), 1)) for process in processes
        ]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(processes, outputs)]


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """Trainings on two logical CPUs, and on one: the folder with their results, and
    what they printed.
    """
    folder = tmp_path_factory.mktemp("devices")
    command = [sys.executable, TOGETHER, "devices", folder]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS)
    assert ran.returncode == 0, ran.stderr
    return folder, json.loads(ran.stdout.splitlines()[-1])


def assert_same(path, expected):
    with np.load(path) as received, np.load(expected) as one:
        assert received.files == one.files
        for name in one.files:
            # Sums in another order: rounding grows from step to step, and with the
            # number of threads.
            np.testing.assert_allclose(
                received[name], one[name], rtol=1e-5, atol=3e-5, err_msg=name
            )


@pytest.mark.release
@pytest.mark.slow
def test_two_devices_train_as_one(devices):
    folder, (caption, reward, (dropout, hard_attention)) = devices
    for name in ("hard", "frozen"):
        assert_same(folder / f"{name}-2.npz", folder / f"{name}-1.npz")
    assert dropout == [[0, 0], [SEED_STRIDE, 0]], "each device has a dropout of its own"
    assert hard_attention[0] == hard_attention[1], "and hard attention draws alike"
    assert isinstance(caption, str) and reward > 0
    with np.load(folder / "hard-1.npz") as hard:  # what was compared is not trivial
        assert hard["baseline"] < 0 and hard["curve/loss"][1] < hard["curve/loss"][0]
    images = scenes()
    options = {"batch_size": HARD["batch_size"], "group_by": HARD["group_by"], "image_size": 16}
    sizes = [len(batch[1]) for batch in make_batches(images, Vocabulary.build(images), **options)]
    assert min(sizes) == 1, "less than there are replicas"


@pytest.mark.release
@pytest.mark.slow
def test_hosts_are_killed_and_all_are_started_again(devices, tmp_path):
    """One training after another: the second host dies in the first, the chief in
    self-critical epochs of the next.
    """
    folder, _ = devices
    shutil.copy(folder / WEIGHTS, tmp_path)
    hosts = [[TOGETHER, "host", tmp_path, number] for number in range(2)]
    (status, _, errors), (killed, *_) = run_hosts([hosts[0], [*hosts[1], 6]])
    assert killed < 0 and status == 1
    assert HOST_FAILED in errors
    assert len(read_checkpoint(tmp_path / "hard" / "checkpoint")[0]) == 1
    assert not (tmp_path / "hard-0.npz").exists()
    (killed, *_), (status, _, errors) = run_hosts([[*hosts[0], 14], hosts[1]])
    assert killed < 0 and status == 1, errors
    assert HOST_FAILED in errors
    assert len(read_checkpoint(tmp_path / "frozen" / "self_critical" / "checkpoint")[0]) == 1
    for status, _, errors in run_hosts(hosts):
        assert status == 0, errors
    for name in ("hard", "frozen"):
        assert_same(tmp_path / f"{name}-0.npz", folder / f"{name}-1.npz")
        with (
            np.load(tmp_path / f"{name}-0.npz") as first,
            np.load(tmp_path / f"{name}-1.npz") as second,
        ):
            for key in first.files:
                np.testing.assert_array_equal(first[key], second[key], err_msg=f"{name}: {key}")


SMALL_FIT = (
    "fit --data folder --encoder tiny --encoder-training frozen --image-size 16 --hidden-dim 6 "
    "--embedding-dim 4 --attention-dim 4 --dropout-before-readout 0 --dropout-after-readout 0 "
    "--epochs 2 --batch-size 4"
)


@pytest.fixture(scope="module")
def one_and_three_hosts(tmp_path_factory):
    """A folder with the runs "one" and "three" of one host and of three, and
    (exit status, output, errors) of each of the three.
    """
    folder = tmp_path_factory.mktemp("hosts")
    write_photos(folder / "photos", [f"{number}.jpg" for number in range(7)])
    rows = ["image,caption,split"]
    for number, split in enumerate(["train"] * 5 + ["dev"] * 2):
        for colour in ("red", "big"):
            rows.append(f"{number}.jpg,a {'very ' * (number % 3)}{colour} dog,{split}")
    (folder / "photos" / "captions.csv").write_text("\n".join(rows) + "\n")
    weights = folder / "tiny.weights.h5"
    keras_sat.ENCODERS["tiny"](image_size=16).save_weights(weights)
    fit = [*SMALL_FIT.split(), "--data-dir", str(folder / "photos")]
    fit += ["--encoder-weights", str(weights), "--cache-dir"]
    assert main([*fit, str(folder / "cache"), "--output-dir", str(folder / "one")]) == 0
    on_hosts = ["-m", "keras_sat", *fit, folder / "shared-cache", "--hosts", "--output-dir"]
    output_dirs = [folder / name for name in ("three", "elsewhere", "elsewhere")]
    return folder, run_hosts([[*on_hosts, output_dir] for output_dir in output_dirs])


@pytest.mark.slow
def test_the_chief_shows_the_progress_and_writes_the_files(one_and_three_hosts):
    folder, hosts = one_and_three_hosts
    assert [status for status, *_ in hosts] == [0, 0, 0], hosts
    _, chief_output, _ = hosts[0]
    assert "3 devices of 3 hosts" in chief_output and "epoch 2/2" in chief_output
    for _, output, _ in hosts[1:]:
        assert output.count("\n") == 2
        assert "waiting for the others" in output and "all hosts are connected" in output
    assert not (folder / "elsewhere").exists(), "only the chief writes"


@pytest.mark.slow
def test_three_hosts_train_as_one(one_and_three_hosts):
    folder, _ = one_and_three_hosts
    one, three = (keras_sat.Captioner.load(folder / name / "model") for name in ("one", "three"))
    for weight, other in zip(one.weights, three.weights):
        np.testing.assert_allclose(other, weight, rtol=1e-5, atol=1e-5)
    one, three = (
        np.genfromtxt(folder / name / "history.csv", delimiter=",", names=True)
        for name in ("one", "three")
    )
    assert "val_loss" in one.dtype.names and one.dtype == three.dtype
    for name in set(one.dtype.names) - {"seconds"}:
        np.testing.assert_allclose(three[name], one[name], rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("group_by, count", [("length", 2), ("image", 5)])
def test_every_row_is_in_one_share(scene_images, scene_vocabulary, scene_cache, group_by, count):
    options = {"batch_size": 7, "group_by": group_by, "split": "train", "seed": 2}
    whole = make_batches(scene_images, scene_vocabulary, [scene_cache, scene_cache], **options)
    hosts = [
        make_batches(
            scene_images,
            scene_vocabulary,
            [scene_cache, scene_cache],
            shares=(numbers, count),
            **options,
        )
        for numbers in ([0], list(range(1, count)))
    ]
    assert len(hosts[0]) == len(whole) and len(hosts[1]) == (count - 1) * len(whole)
    first, others = (host.as_numpy_iterator() for host in hosts)
    num_fillers = num_captions = 0
    for (features, input_ids), target_ids, token_weights in whole.as_numpy_iterator():
        shares = [next(first), *(next(others) for _ in range(count - 1))]
        kept = [share for share in shares if share[2].any()]
        num_fillers += len(shares) - len(kept)
        assert all(share[0][1].any() for share in shares), "rewards need the words of fillers too"
        np.testing.assert_array_equal(np.concatenate([share[0][0] for share in kept]), features)
        np.testing.assert_array_equal(np.concatenate([share[0][1] for share in kept]), input_ids)
        np.testing.assert_array_equal(np.concatenate([share[1] for share in kept]), target_ids)
        np.testing.assert_array_equal(np.concatenate([share[2] for share in kept]), token_weights)
        num_captions += sum(
            share[2].reshape(-1, share[2].shape[-1]).any(axis=1).sum() for share in shares
        )
    assert next(first, None) is None and next(others, None) is None
    assert num_captions == sum(
        len(image.captions) for image in scene_images if image.split == "train"
    )
    assert num_fillers


@pytest.mark.slow
def test_an_address_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {
            "TF_CONFIG": tf_config([taken.getsockname()[1], *free_ports(1)], 0),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [sys.executable, "-m", "keras_sat", "fit", "--data", "scenes", "--hosts"]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=os.environ | environment
        )
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1
    assert (
        "This host cannot connect" in ran.stderr
        and "Received: worker 0 of 127.0.0.1:" in ran.stderr
    )


def test_tf_config():
    assert read_tf_config(tf_config([1, 2], 1)) == "worker 1 of 127.0.0.1:1, 127.0.0.1:2"
    chief = {
        "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
        "task": {"type": "chief", "index": 0},
    }
    assert read_tf_config(json.dumps(chief)) == "chief 0 of a:1, b:1"


@pytest.mark.parametrize(
    "text",
    [
        None,
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["http://a:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_wrong_tf_config_is_one_line_and_status_2(monkeypatch, capsys, text):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    assert main(["fit", "--data", "scenes", "--hosts"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "TF_CONFIG must list each host once" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "99"], "GPUs on this computer. Received: gpus=99"),
        (["--gpus", "0"], "`--gpus` must be a whole number from 1"),
    ],
)
def test_wrong_devices_are_one_line_and_status_2(capsys, options, message):
    assert main(["fit", "--data", "scenes", *options]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and message in errors


def test_other_strategies_are_rejected(tmp_path, monkeypatch):
    parallel = keras.distribution.DataParallel(devices=["cpu:0"])
    for strategy in (parallel, tf.distribute.OneDeviceStrategy("CPU:0")):
        with pytest.raises(ValueError, match=r"MultiWorkerMirroredStrategy.*Received: strategy="):
            train(tmp_path, strategy=strategy)
    monkeypatch.setattr(keras.distribution, "distribution", lambda: parallel)
    captioner = keras_sat.Captioner(["a"], encoder=None)
    for start in (lambda: train(tmp_path), lambda: captioner.fit(tf.data.Dataset.range(1))):
        with pytest.raises(ValueError, match=r"keras\.distribution\.set_distribution\(None\)"):
            start()
    assert not list(tmp_path.iterdir())


def test_keras_fit_on_several_hosts_is_rejected(monkeypatch):
    captioner = keras_sat.Captioner(["a"], encoder=None)
    hosts = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
    monkeypatch.setattr(keras_sat.Captioner, "distribute_strategy", hosts)
    with pytest.raises(ValueError, match="does not work on several hosts. Use keras_sat.fit"):
        captioner.fit(tf.data.Dataset.range(1))


@pytest.mark.slow
def test_hosts_with_other_arguments_are_rejected(tmp_path):
    write_photos(tmp_path, ["a.jpg"])
    (tmp_path / "captions.csv").write_text("image,caption,split\na.jpg,a dog,train\n")
    command = [
        "-m",
        "keras_sat",
        "fit",
        "--data",
        "folder",
        "--data-dir",
        tmp_path,
        "--encoder",
        "tiny",
        "--hosts",
    ]
    command += ["--output-dir", tmp_path / "run", "--seed"]
    chief, other = run_hosts([[*command, 1], [*command, 2]])
    assert chief[0] == other[0] == 2
    assert "Another host in this training run has exited" in chief[2].splitlines()[-1]
    assert other[2].endswith("Expected, as on the first host: seed=1. Received: seed=2\n")
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.filterwarnings("ignore:unreadable photos left out")
@pytest.mark.parametrize("differs", ["readable_photos", "weights_digest"])
def test_hosts_with_other_photos_or_features_are_rejected(tmp_path, monkeypatch, differs):
    """What looks the same at first: a photo that is damaged on one host alone, other
    weights under the same name.
    """
    write_photos(tmp_path, ["a.jpg", "b.jpg"])
    images = [
        CaptionedImage(name, tmp_path / name, ["a dog"], "train") for name in ("a.jpg", "b.jpg")
    ]
    encoder = keras_sat.ENCODERS["tiny"](image_size=16)
    encoder.save_weights(tmp_path / WEIGHTS)
    options = {
        "encoder": "tiny",
        "encoder_training": "frozen",
        "encoder_weights": tmp_path / WEIGHTS,
        "image_size": 16,
    }
    options |= {"skip_unreadable": True, "show_progress": False}
    said = []
    monkeypatch.setattr(Run, "train", lambda run, captioner, *_: captioner)
    monkeypatch.setattr(Cluster, "broadcast", lambda cluster, value: said.append(value) or value)
    keras_sat.fit(images, output_dir=tmp_path / "chief", **options)
    if differs == "readable_photos":
        (tmp_path / "a.jpg").write_bytes(b"x" * (tmp_path / "a.jpg").stat().st_size)
    else:
        encoder.set_weights([weight + 1 for weight in encoder.get_weights()])
        encoder.save_weights(tmp_path / WEIGHTS)
    monkeypatch.setattr(Cluster, "broadcast", lambda cluster, value: said.pop(0))
    with pytest.raises(
        ValueError, match=f"as on the first host: {differs}='.*'. Received: {differs}='"
    ):
        keras_sat.fit(images, output_dir=tmp_path / "other", **options)
