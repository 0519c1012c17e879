"""Kill the real commands, fill their disk, damage their files: is anything ever lost or wrong?

    python benchmarks/torture.py --times 50 [--only download,features,training,save,together,disk,...]

The commands run as processes of their own: a download from a local server, `keras-sat features`, `keras-sat fit`, and a
program that saves a captioner over and over.

    download ... save   each is killed (SIGKILL) so many times: at a random moment of its work, or when it writes a file
                        after such a moment. After each kill what lies there must be right so far; then the command
                        runs again, is killed up to three times in a row, and must end with what an undisturbed one
                        left behind, bit for bit.
    together            two of the same, begun at nearly the same time, write into one folder
    disk                files that cannot grow beyond a random size (RLIMIT_FSIZE) or, as root, a disk that small
    read-only           the output folder cannot be written to
    removed             the data or the output vanishes at a random moment
    damage              bits are flipped in a file, or its end is cut off (six times as often as anything is killed)

There the command, or the one after it, must end right, or say in one line what is wrong and what to do. Anything else
(another result, a traceback, a command that hangs) is a fault, and listed. The counts are added to
benchmarks/torture.json, so that a later run goes on with other moments, and benchmarks/torture.md is made from them.
"""

import argparse
import contextlib
import csv
import ctypes
import functools
import hashlib
import http.server
import io
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from data_utils import DATASETS, FeatureCache
from data_utils.downloads import DOWNLOADS, DataSource, RemoteFile, download
from data_utils.files import read_json, write_json, write_whole
from keras_sat.command_line.messages import one_line
from keras_sat.deploy.litert_captioner import is_installed
from keras_sat.deploy.litert_folder import read_litert
from keras_sat.files.checkpoint import read_checkpoint
from keras_sat.files.model_folder import read_model

HERE = Path(__file__).parent
HANGS_AFTER = 600  # seconds: far more than any of the commands takes
KILLS_IN_A_ROW = 3
SIDE = 32  # of the photos, in pixels
NUM_FILES = 100  # of the download
ENVIRONMENT = {"PYTHONPATH": str(HERE.parent), "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
ENVIRONMENT |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}  # sums in one order
WAYS_OUT = re.compile(
    r"\b(remove|build|train|copy|choose|pass|use|save|wait|make room|run (\w+ )*again|expected)\b", re.I
)
LOCK = re.compile(r"lock$")  # empty


class Wrong(Exception):
    """What was found is not as it should be."""


def must(condition, otherwise):
    if not condition:
        raise Wrong(otherwise)


# === Processes ===


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status (None: it was killed), what it said, how long it worked, what it left half."""

    status: int | None
    output: str
    errors: str
    seconds: float
    is_half_written: bool = False

    @property
    def fault(self):
        """Return what is wrong with the way it ended, "" if nothing is."""
        lines = self.errors.strip().split("\n")
        if "Traceback" in self.errors or self.status not in (None, 0, 2):
            return f"status {self.status}: {' / '.join(lines[-3:])}"
        if self.status == 2 and not (lines[-1].startswith("keras-sat: ") and WAYS_OUT.search(lines[-1])):
            return f"it does not say what to do: {lines[-1]}"
        return ""


def run(command, output, *, disturb=None, wrapper=()):
    """Run a command until it ends, or until `disturb` has had its way with it.

    Args:
        command: Command.
        output: the folder that it writes to.
        disturb: a function of the process, called when the work begins: when the command has taken its lock.
        wrapper: a command that the other one is an argument of.
    """
    lock = output / command.lock
    arguments = [*wrapper, sys.executable, *map(str, command.arguments(output))]
    environment = os.environ | ENVIRONMENT
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, env=environment, text=True, errors="replace", **pipes) as process:

        def listen():
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs, and nothing is said
                said.extend(process.communicate(timeout=HANGS_AFTER))

        said, read = [], threading.Thread(target=listen)
        read.start()
        while read.is_alive() and process.poll() is None and not is_held(lock):
            time.sleep(0.002)
        started, works = time.monotonic(), read.is_alive() and process.poll() is None
        if disturb is not None and works:
            disturb(process)
        read.join()
        if not said:
            process.kill()
            return Ended(-1, "", f"it hung for {HANGS_AFTER} s", HANGS_AFTER)
    seconds = time.monotonic() - started if works else 0.0
    status = None if process.returncode == -signal.SIGKILL else process.returncode
    return Ended(status, *said, seconds, bool(half_written(output)))


def is_held(lock):
    """Return whether a process holds a lock file; asking by locking it would refuse the command its lock."""
    with contextlib.suppress(OSError):
        number = str(lock.stat().st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        return any(line.split()[-3].split(":")[-1] == number for line in lines)
    return False


def half_written(folder):
    """Return the names of the files in a folder and those below it that have not got their own name yet."""
    return [name for _, _, names in os.walk(folder) for name in names if name.endswith(".part")]


def kill_at(seconds, output=None):
    """Return a function that kills a process after some seconds of work; or at its next write, where `output` is."""

    def disturb(process):
        begun = time.monotonic()
        while process.poll() is None and time.monotonic() < begun + seconds:
            time.sleep(0.001)
        while output is not None and process.poll() is None and not half_written(output):
            if time.monotonic() > begun + HANGS_AFTER:
                break
        process.kill()

    return disturb


def remove_at(seconds, folder, place):
    """Return a function that moves a folder away after some seconds of a process' work."""

    def disturb(process):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        if folder.exists():
            folder.rename(place)

    return disturb


# === The commands ===


class Command:
    """A command that is run again and again.

    Attributes:
        lock: the file, in its output folder, that it makes when its work begins.
        data: the folder that it reads, or None.
        keeps_whole: whether it writes files under another name first, each in a short time.
    """

    lock = "lock"
    data = None
    keeps_whole = False

    def __init__(self, place):
        self.place = place
        self.whole = place / "whole" / type(self).__name__.lower()

    def prepare(self):
        """Run it undisturbed, once."""
        ended = run(self, self.whole)
        if ended.status != 0:
            raise RuntimeError(f"The undisturbed command failed: {ended.errors}")
        self.usual_seconds = ended.seconds

    def arguments(self, output):
        """Return what Python is given."""
        raise NotImplementedError

    def look(self, output):
        """Look at what a killed command left behind; what is not right so far is Wrong."""

    def compare(self, output):
        """Compare what a command that has ended left behind with the undisturbed one."""
        assert_same(output, self.whole)


class Download(Command):
    """Fetch and unpack a Flickr8k of 100 files from a slow local server."""

    lock = "download.lock"

    def __init__(self, place):
        super().__init__(place)
        photos = {f"Flicker8k_Dataset/{n}.jpg": np.random.default_rng(n).bytes(4000) for n in range(NUM_FILES)}
        archives = {"text.zip": zip_of({"Flickr8k.token.txt": b"0.jpg#0\tA dog .\n"}), "photos.zip": zip_of(photos)}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowHandler)
        self.server.files = archives
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def arguments(self, output):
        digests = [hashlib.md5(content).hexdigest() for content in self.server.files.values()]
        return [__file__, "--work", "download", self.url, output, *digests]

    def look(self, output):
        whole = contents(self.whole)
        for name, content in contents(output).items():
            if not name.endswith(".part"):
                expected = self.server.files.get(name) or whole.get(name)
                must(content == expected, f"{name} is not whole")


class SlowHandler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files` with ranges, in pieces, so that there is time to kill whoever fetches them."""

    def do_GET(self):
        content = self.server.files[self.path.lstrip("/")]
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked was killed
            for place in range(start, len(content), 20_000):
                self.wfile.write(content[place : place + 20_000])
                time.sleep(0.005)

    def log_message(self, *arguments):
        pass


class Features(Command):
    """Build the features of 120 photos."""

    def __init__(self, place):
        super().__init__(place)
        self.data, self.weights = place / "photos", place / "tiny.weights.h5"

    def arguments(self, output):
        data = ["--data", "folder", "--data-dir", self.data]
        encoder = ["--encoder", "tiny", "--encoder-weights", self.weights, "--image-size", SIDE]
        return ["-m", "keras_sat", "features", *data, *encoder, "--batch-size", "2", "--cache-dir", output]

    def look(self, output):
        try:
            cache = FeatureCache.open(output)
        except ValueError:  # there is no cache yet, or it was only begun: the message is tested
            return
        done, whole = [image_id for image_id in cache.image_ids if image_id in cache], FeatureCache.open(self.whole)
        must(np.array_equal(cache.features(done), whole.features(done)), "a row that is done is wrong")


class Training(Features):
    """Train a small captioner, with short epochs, on features that it builds itself."""

    keeps_whole = True
    options = {"embedding-dim": 8, "hidden-dim": 16, "attention-dim": 8, "dropout-embedding": 0.2, "epochs": 8}
    options |= {"learning-rate": 0.01, "group-by": "image", "average-momentum": 0.5, "cell": "gru"}

    def arguments(self, output):
        features = super().arguments(output / "features")
        options = [f"--{name}={value}" for name, value in self.options.items()]
        shared = features[3 : features.index("--batch-size")]
        training = ["--encoder-training", "frozen", "--cache-dir", output / "features", "--output-dir", output]
        return ["-m", "keras_sat", "fit", *shared, *training, *options]

    def look(self, output):
        epochs, whole = (epochs_of(folder) for folder in (output, self.whole))
        must(epochs == whole[: len(epochs)], "the epochs so far are others")
        must(not epochs or read_model(output / "model"), "there is no model")

    def caption(self, output):
        """Return what the captioner in a folder says of a photo."""
        return call_main(["caption", str(min(self.data.glob("*.png"))), "--model", str(output / "model")]).output

    @functools.cached_property
    def whole_caption(self):
        return self.caption(self.whole)

    def compare(self, output, *parts):
        must(epochs_of(output) == epochs_of(self.whole), "the epochs are others")
        must(history_of(output) == history_of(self.whole), "the table of the epochs is another one")
        for part in parts or ("features", "model"):
            assert_same(output / part, self.whole / part)
        (_, state), (_, expected) = (read_checkpoint(folder / "checkpoint") for folder in (output, self.whole))
        must(state.keys() == expected.keys(), "the checkpoint is another one")
        must(all(np.array_equal(state[name], expected[name]) for name in state), "the checkpoint is another one")
        must(not half_written(output), "files that are half written were left behind")


class Save(Command):
    """Save a captioner over and over, in 32 bits and in 8, into the same folder."""

    keeps_whole = True
    rounds = 30

    def arguments(self, output):
        return [__file__, "--work", "save", output, self.rounds]

    def prepare(self):
        super().prepare()
        self.models = {}
        for precision in PRECISIONS:
            folder = self.place / "whole" / f"save-{precision}"
            pretrained().save(folder, precision=precision)
            self.models[contents(folder)["config.json"]] = contents(folder)

    def look(self, output):
        if not (output / "config.json").exists():
            return  # killed before the first one was saved
        read_model(output)
        found = contents(output)
        expected = self.models.get(found["config.json"])
        must(expected is not None, "config.json is neither of the two")
        must(expected.items() <= found.items(), "the files are not those of config.json")


PRECISIONS = ("float32", "int8")


def pretrained():
    from keras_sat import Captioner

    return Captioner.from_pretrained("scenes")


class Caption(Command):
    """Caption a photo without TensorFlow, with the file for LiteRT that was made for that in KERAS_HOME."""

    def __init__(self, place):
        super().__init__(place)
        self.photo = min((place / "photos").glob("*.png"))

    def prepare(self):
        self.whole_caption, self.usual_seconds = call(self, self.whole).output, 0.0

    def arguments(self, output):
        return [__file__, "--work", "caption", output, self.photo]

    def compare(self, output):
        """Caption again: the file must have been made again."""
        (made,) = output.glob("keras_sat/litert-*")
        read_litert(made)
        must(call(self, output).output == self.whole_caption, "another caption")


COMMANDS = {"download": Download, "features": Features, "training": Training, "save": Save}
ONLY_DAMAGED = {"caption": Caption}


def zip_of(files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def contents(folder):
    """Return dict from the names of the files in a folder and those below it to what they hold."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not LOCK.search(path.name)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def assert_same(output, whole):
    found, expected = contents(output), contents(whole)
    different = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
    must(not different, f"other files than those of the undisturbed one: {', '.join(different[:5])}")


def epochs_of(output):
    """Return the figures of a training's epochs in its checkpoint, without the time that they took."""
    epochs, _ = read_checkpoint(output / "checkpoint")
    return [{name: value for name, value in figures.items() if name != "seconds"} for figures in epochs]


def history_of(output):
    with open(output / "history.csv", newline="") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def make_inputs(place):
    """Draw photos with captions, and make weights for the encoder."""
    import keras

    import keras_sat

    keras.utils.set_random_seed(0)
    (place / "photos").mkdir(parents=True)
    scenes = DATASETS["scenes"](place / "photos", num_scenes=120, seed=3, image_size=SIDE)
    rows = [f"{Path(s.image_path).name},{text},{s.split}" for s in scenes for text in s.captions[:2]]
    (place / "photos" / "captions.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")
    keras_sat.ENCODERS["tiny"](image_size=SIDE).save_weights(place / "tiny.weights.h5")


# === What is done to them ===


class Torture:
    """Counts what came out.

    Args:
        place: a folder for all that is needed.
        seed: of the moments.
        say: a function that takes a line of text.
    """

    def __init__(self, place, *, seed=0, say=print):
        self.place = place
        self.rng = np.random.default_rng(seed)
        self.say = say
        self.counts = {}
        self._commands = {}
        self._number = 0

    def count(self, what, **more):
        counts = self.counts.setdefault(what, {"faults": []})
        for name, number in more.items():
            counts[name] = counts.get(name, 0) + number

    def fault(self, what, text):
        self.count(what)
        self.counts[what]["faults"].append(text)
        self.say(f"FAULT in {what}: {text}")

    def command(self, name):
        """Return a command that has run undisturbed."""
        if not (self.place / "photos").exists():
            make_inputs(self.place)
        if name not in self._commands:
            self._commands[name] = (COMMANDS | ONLY_DAMAGED)[name](self.place)
            self._commands[name].prepare()
            self.say(f"{name}: {self._commands[name].usual_seconds:.1f} s undisturbed")
        return self._commands[name]

    def new_output(self):
        self._number += 1
        return self.place / "outputs" / f"{self._number:04d}"

    def check(self, what, look, place):
        """Count a fault where `look` finds one."""
        try:
            look(place)
        except (Wrong, ValueError, OSError) as error:
            self.fault(what, f"{type(error).__name__}: {error}")
            return False
        return True

    def must_end_right(self, what, command, output, ended=None):
        """Run a command to its end; it must leave behind what the undisturbed one did."""
        ended = ended or run(command, output)
        if ended.status != 0:
            self.fault(what, f"the rerun ended otherwise: {ended.fault or ended.errors.strip()[-300:]}")
        elif self.check(what, command.compare, output):
            self.count(what, right=1)
        shutil.rmtree(output, ignore_errors=True)

    def end_right_or_say(self, what, ended):
        """Count how a disturbed command ended."""
        if ended.fault:
            self.fault(what, ended.fault)
        else:
            self.count(what, **{"said" if ended.status == 2 else "unharmed": 1})

    # === Kinds of torture ===

    def kill(self, name, times):
        command, what, killed = self.command(name), f"killed: {name}", 0
        while killed < times:
            output, ended = self.new_output(), None
            for _ in range(min(KILLS_IN_A_ROW, times - killed)):
                seconds = self.rng.uniform(0, command.usual_seconds)
                in_write = command.keeps_whole and self.rng.random() < 0.5
                ended = run(command, output, disturb=kill_at(seconds, output if in_write else None))
                if ended.status is not None:
                    self.count(what, came_after_its_end=1)
                    if ended.seconds:  # else there was nothing left to do; machines are busier at times
                        command.usual_seconds = (command.usual_seconds + ended.seconds) / 2
                    break
                killed, ended = killed + 1, None
                self.count(what, times=1, half_written=int(bool(half_written(output))))
                self.check(what, command.look, output)
            self.must_end_right(what, command, output, ended)
            self.say(f"{what}: {self.counts[what]}")

    def together(self, name, times):
        command, what = self.command(name), f"two at a time: {name}"
        for _ in range(times):
            output = self.new_output()
            self.count(what, times=1)
            with ThreadPoolExecutor(2) as threads:
                first = threads.submit(run, command, output)
                time.sleep(self.rng.uniform(0, 0.3))
                ended = [threads.submit(run, command, output).result(), first.result()]
            for one in ended:
                self.end_right_or_say(what, one)
            self.must_end_right(what, command, output, min(ended, key=lambda one: one.status != 0))

    def disk(self, name, times):
        command, what = self.command(name), f"disk full: {name}"
        largest = max(path.stat().st_size for path in command.whole.rglob("*") if path.is_file())
        total = sum(path.stat().st_size for path in command.whole.rglob("*") if path.is_file())
        for number in range(times):
            output = self.new_output()
            output.mkdir(parents=True)
            self.count(what, times=1)
            if number % 2 and os.geteuid() == 0:
                size = int(self.rng.uniform(0.02, 1.2) * total)
                with small_disk(output, size) as make_room:
                    self.end_right_or_say(what, run(command, output / "it"))
                    make_room()
                    self.must_end_right(what, command, output / "it")
            else:
                limit = int(self.rng.uniform(0, 1.0) * largest)
                self.end_right_or_say(what, run(command, output, wrapper=[*WRAPPER, str(limit)]))
                self.must_end_right(what, command, output)

    def read_only(self, name, times):
        command, what = self.command(name), f"read-only: {name}"
        for number in range(times):
            output = self.new_output()
            output.mkdir(parents=True)
            self.count(what, times=1)
            if number % 2:  # something lies there already
                run(command, output, disturb=kill_at(self.rng.uniform(0, command.usual_seconds)))
            folders = [output, *(path for path in output.rglob("*") if path.is_dir())]
            for folder in folders:
                folder.chmod(0o555)
            self.end_right_or_say(what, run(command, output, wrapper=[*WRAPPER, "read-only"]))
            for folder in folders:
                folder.chmod(0o755)
            self.must_end_right(what, command, output)

    def removed(self, name, times):
        command, what = self.command(name), f"removed: {name}"
        for number in range(times):
            output, aside = self.new_output(), self.place / "aside"
            victim = command.data if command.data and number % 2 == 0 else output
            self.count(what, times=1)
            moment = self.rng.uniform(0, command.usual_seconds)
            self.end_right_or_say(what, run(command, output, disturb=remove_at(moment, victim, aside)))
            if victim == command.data:
                self.end_right_or_say(what, run(command, output))  # it is not there any more
                if aside.exists():
                    aside.rename(command.data)
            again = run(command, output)
            if victim == output and again.status == 2 and not again.fault:
                self.count(what, said=1)
                shutil.rmtree(output)
            else:
                self.must_end_right(what, command, output, again)
            shutil.rmtree(aside, ignore_errors=True)

    def damage(self, times):
        """Damage files of caches, trainings, models, downloads and LiteRT; the commands run in this process."""
        chances = {"features": 0.4, "training": 0.4, "download": 0.1} | ({"caption": 0.1} if is_installed() else {})
        victims = {name: self.command(name) for name in chances}
        chances = np.divide(list(chances.values()), sum(chances.values()))
        shutil.rmtree(self.place / "kept", ignore_errors=True)
        kept = self.place / "kept"  # a download whose archives have arrived
        kept.mkdir()
        for name, content in victims["download"].server.files.items():
            (kept / name).write_bytes(content)
        for _ in range(times):
            name = list(victims)[self.rng.choice(len(victims), p=chances)]
            command, output = victims[name], self.new_output()
            shutil.copytree(kept if name == "download" else command.whole, output)
            paths = [path for path in sorted(output.rglob("*")) if path.is_file() and path.stat().st_size]
            if name == "training":
                on_damaged_features = self.rng.random() < 0.1  # all over again, which takes its time
                paths = [path for path in paths if (path.parent.name == "features") == on_damaged_features]
                for part in ("checkpoint", "model") if on_damaged_features else ():
                    shutil.rmtree(output / part)
            path = paths[self.rng.integers(len(paths))]
            how = damage_file(path, self.rng)
            what = f"damaged: {name}"
            self.count(what, times=1)
            try:
                self.end_right_or_say_what_is_damaged(what, command, output)
            except Exception as error:
                text = f"{path.relative_to(output)}, {how}: {type(error).__name__}: {error}"
                self.fault(what, " ".join(text.split())[:500])
            shutil.rmtree(output)
        self.say(str({what: counts for what, counts in self.counts.items() if what.startswith("damaged")}))

    def end_right_or_say_what_is_damaged(self, what, command, output):
        ended = call(command, output)
        must(not ended.fault, ended.fault)
        if type(command) is Features:  # rows are looked at when they are read
            whole = FeatureCache.open(command.whole)
            try:
                cache = FeatureCache.open(output)
                features = cache.features(whole.image_ids)
            except ValueError as error:
                must(ended.status in (0, 2) and WAYS_OUT.search(str(error)), f"it does not say what to do: {error}")
                verified = call(command, output, "--verify")
                must(not verified.fault, verified.fault)
                self.count(what, **{"said" if verified.status == 2 else "said_and_mended": 1})
                if verified.status == 2:
                    return
                features = FeatureCache.open(output).features(whole.image_ids)
            else:
                self.count(what, right=1)
            must(np.array_equal(features, whole.features(whole.image_ids)), "wrong features")
            return
        if ended.status == 0 and type(command) is Training:
            command.compare(output, "model")
        elif ended.status == 0:
            command.compare(output)
        if type(command) is Training and ended.status == 0:
            must(command.caption(output) == command.whole_caption, "another caption")
        if type(command) is Caption:
            must(ended.status == 0 and ended.output == command.whole_caption, f"another caption: {ended}")
        self.count(what, **{"said" if ended.status == 2 else "right": 1})


WRAPPER = [sys.executable, __file__, "--work", "wrapped"]


@contextlib.contextmanager
def small_disk(folder, size):
    """Mount a disk in memory; the block is given a function that makes it larger."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={max(size, 4096)}", "tmpfs", folder], check=True)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=1g", folder], check=True)
    finally:
        subprocess.run(["umount", folder], check=True)


def damage_file(path, rng):
    """Flip a few bits of a file, or cut its end off; return which."""
    content = bytearray(path.read_bytes())
    place = int(rng.integers(len(content)))
    if rng.random() < 0.4:
        path.write_bytes(content[:place])
        return f"cut off after {place} of {len(content)} bytes"
    for _ in range(int(rng.integers(1, 4))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    return f"some of {len(content)} bytes flipped"


# === Commands in this process ===


def call(command, output, *further):
    """Run a command in this process, for where nothing is killed."""
    arguments = [*map(str, command.arguments(output)), *further]
    return call_main(arguments[2:]) if arguments[0] == "-m" else call_work(arguments[2:])


def call_main(arguments):
    import keras

    from keras_sat.__main__ import main

    keras.backend.clear_session()
    return called(lambda: main(arguments))


def call_work(arguments):
    return called(lambda: work(*arguments))


def called(function):
    output, errors, before = io.StringIO(), io.StringIO(), warnings.showwarning
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = function()
    except SystemExit as stopped:
        status = stopped.code
    finally:
        warnings.showwarning = before
    return Ended(status, output.getvalue(), errors.getvalue(), 0.0)


def work(kind, *arguments):
    """Do what a process of ours does; return the status."""
    if kind == "wrapped":
        limit, *command = arguments
        if limit == "read-only":  # root too must obey permissions
            for capability in (1, 2):
                ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        os.execv(command[0], command)
    try:
        if kind == "download":
            url, output, *digests = arguments
            names = ("text.zip", "photos.zip")
            files = tuple(RemoteFile(name, f"{url}/{name}", digest) for name, digest in zip(names, digests))
            DOWNLOADS["flickr8k"] = DataSource(files=files, num_photos=NUM_FILES)
            download("flickr8k", output)
        elif kind == "save":
            captioner = pretrained()
            for number in range(int(arguments[1])):
                captioner.save(arguments[0], precision=PRECISIONS[number % 2])
        elif kind == "caption":
            from keras_sat.__main__ import main as keras_sat

            with mock.patch.dict(os.environ, KERAS_HOME=arguments[0]):
                return keras_sat(["caption", arguments[1], "--model", "scenes"])
    except (ValueError, OSError) as error:
        print(f"keras-sat: {one_line(error, 'export')}", file=sys.stderr)
        return 2
    return 0


# === The whole of it ===


OF_EACH = ("together", "disk", "read-only", "removed")
KINDS = (*COMMANDS, *OF_EACH, "damage")
SHARES = {"together": 0.1, "disk": 0.2, "read-only": 0.1, "removed": 0.1, "damage": 6}  # of --times, for each command


def run_all(torture, times, kinds):
    """Do everything so many times, and tell after each part which one it was."""
    for kind in kinds:
        number = max(round(times * SHARES.get(kind, 1)), 1)
        if kind in COMMANDS:
            torture.kill(kind, number)
        elif kind == "damage":
            torture.damage(number)
        for name in COMMANDS if kind in OF_EACH else ():
            getattr(torture, kind.replace("-", "_"))(name, number)
            torture.say(f"{kind}: {name} done")
        yield kind


def add(results, counts):
    """Add counts to those of runs before."""
    for what, more in counts.items():
        known = results.setdefault(what, {})
        for name, number in more.items():
            known[name] = known.get(name, [] if name == "faults" else 0) + number
    return results


def table(results):
    """Return the table of all counts as Markdown."""
    columns = {"times": "times", "half_written": "with a file half written", "came_after_its_end": "came too late"}
    columns |= {"unharmed": "ended all the same", "said": "said what is wrong", "said_and_mended": "and mended it"}
    columns |= {"right": "ended right at last", "faults": "faults"}
    lines = ["# What torture found", "", *__doc__.strip().split("\n")[4:], ""]
    lines += [f"| | {' | '.join(columns.values())} |", f"|---{'|---:' * len(columns)}|"]
    for what, counts in results.items():
        cells = [counts.get(name, 0) for name in columns]
        cells = [len(cell) if isinstance(cell, list) else cell for cell in cells]
        lines.append(f"| {what} | {' | '.join(str(cell or '') for cell in cells[:-1])} | {cells[-1]} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--folder", type=Path, help="for all that is needed; default: a temporary one")
    parser.add_argument("--results", type=Path, default=HERE / "torture.json")
    arguments = parser.parse_args()
    os.environ |= ENVIRONMENT
    results = read_json(arguments.results) if arguments.results.exists() else {}
    before = sum(counts.get("times", 0) for counts in results.values())
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        torture = Torture(Path(place), seed=before)
        for _ in run_all(torture, arguments.times, arguments.only.split(",")):
            results, torture.counts = add(results, torture.counts), {}
            write_json(arguments.results, results)
            write_whole(arguments.results.with_suffix(".md"), table(results))
    return int(any(counts["faults"] for counts in results.values()))


if __name__ == "__main__":
    sys.exit(work(*sys.argv[2:]) if sys.argv[1:2] == ["--work"] else main())
