"""Kill the real commands, limit their disk, damage their files: nothing is lost, and
nothing wrong is used.

Each command runs in a process forked from one that has imported TensorFlow. Moments,
limits and bytes are drawn with a fixed seed. docs/reliability.md has the counts of a
longer run.
"""

import contextlib
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data_utils import DATASETS, FeatureCache
from keras_sat import ENCODERS, Captioner
from keras_sat.__main__ import main
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import read_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux", reason="processes are forked and limited as Linux does"
    ),
]
HANGS_AFTER = 600  # seconds: far more than any command takes
PHOTOS = (
    "--data=folder --data-dir=photos --encoder=tiny --image-size=32 "
    "--encoder-weights=tiny.weights.h5"
)
OPTIONS = (
    "--embedding-dim=8 --hidden-dim=16 --attention-dim=8 --dropout-words=.2 --epochs=3 "
    "--learning-rate=.01 "
)
OPTIONS += "--group-by=image --average-momentum=.5 --encoder-training=frozen"


def features(output):
    return main(
        ["features", *PHOTOS.split(), "--batch-size=2", f"--cache-dir={output}", "--verify"]
    )


def training(output):
    folders = [f"--cache-dir={output}/features", f"--output-dir={output}"]
    return main(["fit", *PHOTOS.split(), *folders, *OPTIONS.split()])


def save(output):
    """Save a captioner over and over, in 32 bits and in 8, into the same folder."""
    captioner = Captioner.from_pretrained("scenes")
    for precision in ("float32", "int8") * 5:
        captioner.save(output, precision=precision)


def work(command, inputs, output, limit):
    """Run a command in this process, with files of at most `limit` bytes.

    Its errors become a file too.
    """
    import resource

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(f"{output}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    os.chdir(inputs)
    sys.exit(command(output))


class Runner:
    """Runs the commands on photos and encoder weights in the folder `inputs`; `whole`
    has undisturbed outputs.
    """

    def __init__(self, place):
        self.inputs, self.whole, self.seconds = place / "inputs", place / "whole", {}
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["keras_sat.captioner", "keras_sat.training.recipe"])
        (self.inputs / "photos").mkdir(parents=True)
        self.whole.mkdir()
        scenes = DATASETS["scenes"](self.inputs / "photos", num_scenes=48, seed=3, image_size=32)
        rows = [
            f"{Path(s.image_path).name},{text},{s.split}" for s in scenes for text in s.captions[:2]
        ]
        (self.inputs / "photos" / "captions.csv").write_text(
            "\n".join(["image,caption,split", *rows]) + "\n"
        )
        ENCODERS["tiny"](image_size=32).save_weights(self.inputs / "tiny.weights.h5")
        first = self.processes.Process(target=int)
        first.start()
        first.join()  # the imports are done
        for command in (features, training, save):
            start = time.monotonic()
            assert self.run(command, self.whole / command.__name__)
            self.seconds[command] = time.monotonic() - start

    def run(self, command, output, limit=-1, kill_after=None, in_write=False):
        """Return True if the command did its work, False if it said in one line why
        not, None if it was killed.

        It is killed after a fraction of its time, `kill_after`, or then, `in_write`,
        when it next writes a file.
        """
        process = self.processes.Process(target=work, args=(command, self.inputs, output, limit))
        process.start()
        if kill_after is not None:
            process.join(kill_after * self.seconds[command])
            while in_write and process.is_alive() and not list(output.rglob("*.part")):
                time.sleep(0.001)
            process.kill()
        process.join(HANGS_AFTER)
        assert process.exitcode is not None, "it hangs"
        errors = Path(f"{output}.{process.pid}").read_text() if process.exitcode != -9 else ""
        assert "Traceback" not in errors, errors
        assert process.exitcode != 2 or errors.splitlines()[-1].startswith("keras-sat: "), errors
        return {0: True, 2: False, -9: None}[process.exitcode]

    def assert_right_so_far(self, command, output):
        """Check that the files of a killed command are whole, and a part of the
        undisturbed one's.
        """
        if command is training:
            epochs = epochs_of(output)
            assert epochs == epochs_of(self.whole / "training")[: len(epochs)]
            assert not epochs or read_model(output / "model")
        elif command is save and (output / "config.json").exists():
            read_model(output)
        elif command is features:
            # It had only been started, or the damage is noticed.
            with contextlib.suppress(ValueError):
                cache, whole = FeatureCache.open(output), FeatureCache.open(self.whole / "features")
                done = [image_id for image_id in cache.image_ids if image_id in cache]
                np.testing.assert_array_equal(cache.features(done), whole.features(done))

    def assert_same(self, command, output):
        """Check that the files of a command are those of the undisturbed one, bit for
        bit.
        """
        whole = self.whole / command.__name__
        if command is training:
            assert epochs_of(output) == epochs_of(whole)
            np.testing.assert_equal(
                *(read_checkpoint(folder / "checkpoint")[1] for folder in (output, whole))
            )
            output, whole = output / "model", whole / "model"
        found, expected = (
            {path.name: path.read_bytes() for path in folder.iterdir()}
            for folder in (output, whole)
        )
        assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []


def epochs_of(output):
    return [{**figures, "seconds": None} for figures in read_checkpoint(output / "checkpoint")[0]]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    with pytest.MonkeyPatch.context() as environment:
        for threads in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):  # sums in one order
            environment.setenv(threads, "1")
        yield Runner(tmp_path_factory.mktemp("torture"))


@pytest.mark.parametrize("command", [features, training, save])
def test_killed_at_any_moment_nothing_is_lost(runner, tmp_path, command):
    rng, output = np.random.default_rng(1), tmp_path / "output"
    for in_write in (False, command is not features, False):
        if runner.run(command, output, kill_after=rng.uniform(), in_write=in_write) is None:
            runner.assert_right_so_far(command, output)
    assert runner.run(command, output)
    runner.assert_same(command, output)


@pytest.mark.parametrize("command", [features, training])
def test_a_full_disk_is_one_clear_error_and_the_next_run_ends_right(runner, tmp_path, command):
    largest = max(path.stat().st_size for path in (runner.whole / command.__name__).rglob("*"))
    limit = int(np.random.default_rng(2).integers(10_000, largest))  # its messages are a file too
    assert runner.run(command, tmp_path / "output", limit) is False and runner.run(
        command, tmp_path / "output"
    )
    runner.assert_same(command, tmp_path / "output")


@pytest.mark.parametrize("command", [features, training])
def test_damage_is_mended_or_said(runner, tmp_path, command):
    rng = np.random.default_rng(3)
    for number in range(5):
        output = shutil.copytree(runner.whole / command.__name__, tmp_path / str(number))
        paths = [
            path for path in sorted(output.rglob("*")) if path.is_file() and path.stat().st_size
        ]
        # Those of a training: it would start again.
        paths = [path for path in paths if path.parent.name != "features"]
        path = paths[rng.integers(len(paths))]
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content[: None if number % 3 else int(rng.integers(len(content)))])
        if command is features:
            runner.assert_right_so_far(command, output)
        if runner.run(command, output):
            runner.assert_same(command, output)
