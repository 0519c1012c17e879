"""Many machines: lists and blocks, and a real Ray cluster of two nodes on which
everything dies once.
"""

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import write_photos

import keras_sat
from data_utils import FeatureCache, draw_scenes
from keras_sat.__main__ import main
from keras_sat.scale import photo_list, ray_data, ray_workers
from keras_sat.scale.ray_data import DistributedCaptioner, distributed_caption
from keras_sat.scale.ray_workers import Workers
from keras_sat.settings import Search

CLUSTER = """
import os, sys
# loopback alone
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
from ray.cluster_utils import Cluster
memory = {"object_store_memory": 100_000_000}
cluster = Cluster()
def add(**options):
    for _ in range(5):  # on a busy machine, a node takes longer than the 15 s that Ray waits
        try:
            return cluster.add_node(**options, **memory)
        except Exception:
            pass
    sys.exit("no node of the cluster has started")
add(num_cpus=0, include_dashboard=False)
for _ in range(2):
    add(num_cpus=1)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
# Each file in FAULTS, such as part-000002@node, happens once: when that file has been
# written, but not yet renamed.
FAULTS = """
import builtins, errno, os, signal
def fsync_or_fault(file, *, fsync=os.fsync):
    written = os.path.basename(os.readlink(f"/proc/self/fd/{file}"))
    for fault in os.listdir(os.environ["FAULTS"]):
        part, kind = fault.split("@")
        if part in written:
            os.remove(os.path.join(os.environ["FAULTS"], fault))
            if kind == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if kind.isdecimal():
                os.kill(int(kind), signal.SIGKILL)  # the driver
            else:
                if kind == "node":
                    os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)
os.fsync = fsync_or_fault
def crash_or_open(path, *arguments, open=open, **options):
    if str(path).endswith("crash.png"):
        os.kill(os.getpid(), signal.SIGKILL)
    return open(path, *arguments, **options)
builtins.open = crash_or_open
"""
LISTENERS = """
import psutil
from keras_sat.scale.ray_workers import Workers
Workers("local")
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
connections = [x for process in processes for x in process.net_connections()]
found = [x.laddr.ip for x in connections if x.status == psutil.CONN_LISTEN]
print("listening", *found)
try:
    Workers(worker_gpus=64)
except ValueError as error:
    print("too few:", error)
"""


def program(*arguments, **options):
    return subprocess.Popen([sys.executable, *map(str, arguments)], text=True, **options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a cluster.

    Return its address and the folder of the faults that shall happen on its nodes.
    """
    pytest.importorskip("ray", reason="ray is not installed: nothing is tested on a cluster")
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "faults").mkdir()
    (folder / "sitecustomize.py").write_text(FAULTS)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "FAULTS": str(folder / "faults")}
    with program(
        "-c", CLUSTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as running:
        lines = (line.split() for line in running.stdout if line.startswith("address"))
        _, address = next(lines, (None, None))
        assert address, "the cluster did not start, see its standard error"
        yield address, folder / "faults"
        running.stdin.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with 320 scenes, a torn picture and one that crashes its decoder on the
    cluster.
    """
    folder = tmp_path_factory.mktemp("photos")
    for number, scene in enumerate(draw_scenes(320, seed=5)):
        (folder / f"{number:03d}.png").write_bytes(scene.png())
    (folder / "100-crash.png").write_bytes((folder / "100.png").read_bytes())
    (folder / "torn.png").write_bytes(b"torn")
    rows = [
        f"{number:03d}.png,a red circle,{'test' if number < 70 else 'train'}"
        for number in range(100)
    ]
    (folder / "captions.csv").write_text(
        "\n".join(["image,caption,split", *rows, "torn.png,a red circle,train"])
    )
    return folder


@pytest.mark.release
@pytest.mark.slow
def test_whatever_dies_nothing_is_lost_and_nothing_is_double(cluster, photos, tmp_path, capsys):
    address, faults = cluster
    for fault in ("part-000000@worker", "part-000001@full", "part-000002@node"):
        (faults / fault).touch()
    command = ["-m", "keras_sat", "caption", photos, *["--model", "scenes", "--num-beams", "1"]]
    command += ["--ray", address, "--output", tmp_path / "out", "--part-size", 64]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with program(*command, **pipes) as driver:
        (faults / f"part-000003@{driver.pid}").touch()
        printed = driver.stdout.read()
    assert driver.returncode == -signal.SIGKILL, printed
    assert "raylet" not in printed and "\x1b" not in printed, "Ray's own messages are not shown"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    with program(*command, **pipes) as driver:
        printed = driver.stdout.read()
    assert f"{tmp_path / 'out'}: 322 pictures in 6 parts\n" in printed
    assert "failed: 2 pictures" in printed and driver.returncode == 2
    assert "raylet" not in printed and "\x1b" not in printed
    assert not [*faults.iterdir()], "all of it happened"
    capsys.readouterr()
    assert main([*map(str, command[2:])]) == 2
    told_again = capsys.readouterr().err
    assert "failed: 2 pictures" in told_again and "captions:" not in told_again
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) == 6 and before == {path: path.stat().st_mtime_ns for path in before}
    rows = [json.loads(line) for path in parts for line in path.read_text().splitlines()]
    assert_rows_are_captions(rows, photos)


def assert_rows_are_captions(rows, photos):
    """Compare the rows of the parts with what a captioner says here."""
    paths = sorted(map(str, photos.glob("*.png")))
    assert [row["image"] for row in rows] == paths
    captioner = keras_sat.Captioner.from_pretrained("scenes")
    # It crashes there, but not here.
    unreadable = [path.replace("crash", "missing") for path in paths]
    for row, (_, result) in zip(
        rows, captioner.caption_each(unreadable, errors="yield", num_beams=1)
    ):
        if isinstance(result, Exception):
            assert row["error"] and row["caption"] is None
        else:
            expected = {"image": row["image"], "is_finished": True, **result.to_dict()}
            assert {name: value for name, value in row.items() if value is not None} == expected
    assert "its decoder crashed" in next(row["error"] for row in rows if "crash" in row["image"])


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*photos without a caption left out")
def test_features_and_scores_equal_those_of_one_machine(cluster, photos, tmp_path):
    address, faults = cluster
    weights = tmp_path / "tiny.weights.h5"
    encoder = keras_sat.ENCODERS["tiny"](image_size=16)
    encoder.save_weights(weights)
    options = ["--data", "folder", "--data-dir", photos, "--ray", address]
    features = [
        "features",
        *options,
        "--encoder",
        "tiny",
        "--encoder-weights",
        weights,
        "--image-size",
        16,
    ]
    features += ["--cache-dir", tmp_path / "cache", "--part-size", 32, "--skip-unreadable"]
    for fault in ("features.npy@worker", "features.npy@full"):
        (faults / fault).touch()
    with program("-m", "keras_sat", *features) as driver:
        pass
    assert driver.returncode == 0 and not [*faults.iterdir()]
    cache = FeatureCache.open(tmp_path / "cache", encoder=encoder)
    paths = [photos / f"{image_id}.png" for image_id in cache.image_ids]
    with pytest.warns(UserWarning, match="unreadable photos left out: 1 of"):
        one = FeatureCache.build(
            tmp_path / "one", cache.image_ids, paths, encoder, errors="skip", show_progress=False
        )
    assert len(cache) == 100 and cache.unreadable.keys() == {"torn"}
    good = [image_id for image_id in cache.image_ids if image_id in cache]
    np.testing.assert_array_equal(cache.features(good), one.features(good))
    np.testing.assert_array_equal(cache.photos[cache.rows_of(good)], one.photos[one.rows_of(good)])

    scores = tmp_path / "scores.json"
    with program(
        "-m", "keras_sat", "evaluate", *options, "--model", "scenes", "--json", scores
    ) as driver:
        pass
    captioner = keras_sat.Captioner.from_pretrained("scenes")
    keras_sat.evaluate(captioner, "folder", data_dir=photos, show_progress=False).to_json(
        tmp_path / "one.json"
    )
    assert driver.returncode == 0 and json.loads(scores.read_text()) == json.loads(
        (tmp_path / "one.json").read_text()
    )


@pytest.mark.release
@pytest.mark.slow
def test_a_cluster_on_this_computer_listens_on_loopback_alone():
    pytest.importorskip("ray", reason="ray is not installed: nothing is tested on a cluster")
    pytest.importorskip(
        "psutil", reason="psutil is not installed: listening addresses are not tested"
    )
    with program("-c", LISTENERS, stdout=subprocess.PIPE) as driver:
        lines = driver.stdout.read().splitlines()
    (found,) = [line.split()[1:] for line in lines if line.startswith("listening")]
    assert found and {address.removeprefix("::ffff:") for address in found} == {"127.0.0.1"}
    assert "0 GPUs, too few for a worker. Received: worker_cpus=1, worker_gpus=64" in lines[-1]


# === Without Ray ===


class InTurn(Workers):
    """Workers without a cluster: each pass gives the next of `passes`, lists of (number
    of a block, problem).
    """

    def __init__(self, *passes):
        self.passes = iter(passes)

    def _pass(self, make, blocks):
        for number, problem in next(self.passes):
            row = {"number": number, "problem": problem, "is_final": problem == "torn"}
            yield row | {"result": types.SimpleNamespace(value=blocks.get(number))}


def test_blocks_that_failed_are_tried_again_and_none_is_counted_twice():
    some = InTurn([(0, ""), (1, "full"), (0, "")], [(1, "full")], [(1, "full")], [(1, "")]).do(
        None, ["a", "b"]
    )
    assert [*some] == [("a", "a"), ("b", "b")]
    done = InTurn([(0, "")], [(1, "disk full")], [], []).do(None, ["a", "b"])
    assert next(done) == ("a", "a")
    with pytest.raises(
        ValueError,
        match="1 of 2 blocks .*disk full.*same command",
    ):
        next(done)
    with pytest.raises(ValueError, match="^torn .Finished blocks are kept"):
        [*InTurn([(0, "torn")]).do(None, ["a"])]


@pytest.mark.extras
def test_photos_come_from_folders_patterns_lists_and_addresses(tmp_path, monkeypatch):
    write_photos(tmp_path / "some", ["b.png", "a.png", "c\n.png"])
    write_photos(tmp_path / "some" / "more", ["d.png"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_text(
        "\ufeffsome/a.png\n\nsome/b.png\r\ns3://bucket/e.png\n", encoding="utf-8"
    )

    def found(*images, recursive=True):
        return [
            path.removeprefix(f"{tmp_path}/") for path in photo_list.photos_in(images, recursive)
        ]

    folder = str(tmp_path / "some")
    assert found(folder) == ["some/a.png", "some/b.png", "some/c\n.png", "some/more/d.png"]
    assert found(f"{folder}/[ab].png", recursive=False) == ["some/a.png", "some/b.png"]
    assert found(str(tmp_path / "list.txt")) == ["some/a.png", "some/b.png", "s3://bucket/e.png"]
    pytest.importorskip(
        "fsspec", reason="fsspec is not installed: photos at addresses are not tested"
    )
    assert (
        len(found(f"file://{folder}")) == 4
        and found(f"file://{folder}")[0] == f"file://{folder}/a.png"
    )
    assert len(found(f"file://{folder}", recursive=False)) == 3
    assert found(f"file://{folder}/a.png", f"file://{folder}/[ab].png") == [
        f"file://{folder}/{x}.png" for x in "aab"
    ]
    with pytest.raises(FileNotFoundError):
        found("file:///missing")
    with pytest.raises(ValueError, match="nowhere://bucket: Protocol not known"):
        found("nowhere://bucket")


def test_a_list_is_made_once_and_read_in_parts(tmp_path):
    write_photos(tmp_path / "photos", ["a.png", "\u00e9\n.png", "\udcff.png"])
    settings = {
        "images": [str(tmp_path / "photos")],
        "recursive": False,
        "options": {"num_beams": 1},
    }
    (tmp_path / "out").mkdir()
    for added in (None, "1 photos were added after the first run and are left out"):
        with contextlib.nullcontext() if added is None else pytest.warns(UserWarning, match=added):
            path = photo_list.list_of_photos(tmp_path / "out", settings)
        parts = [*photo_list.parts_of(path, 2)]
        content = path.read_bytes()
        of_parts = [content[start : start + size].splitlines() for start, size, _ in parts]
        assert [len(lines) for lines in of_parts] == [number for *_, number in parts] == [2, 1]
        names = [os.path.basename(json.loads(line)) for lines in of_parts for line in lines]
        assert names == sorted(["a.png", "\u00e9\n.png", "\udcff.png"])
        write_photos(tmp_path / "photos", ["later.png"])
    with pytest.raises(ValueError, match="other settings: options .*1.* instead of .*2.*--output"):
        photo_list.list_of_photos(tmp_path / "out", settings | {"options": {"num_beams": 2}})


def test_without_photos_nothing_is_started(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").touch()
    for images, problem in (
        ([], "No photos were found"),
        (["empty"], "empty: no pictures were found here"),
        (["empty/*.jpg"], r"No such file.*\*.jpg"),
        (["list.txt"], "list.txt: no pictures were found here"),
        (["missing"], "No such file.*missing"),
    ):
        for recursive in (False, True):
            images = [str(tmp_path / image) for image in images]
            settings = {"images": images, "recursive": recursive}
            with pytest.raises((ValueError, FileNotFoundError), match=problem):
                photo_list.list_of_photos(tmp_path, settings)
            assert not (tmp_path / "_settings.json").exists()


def test_a_list_that_is_gone_or_changed_is_noticed(tmp_path):
    write_photos(tmp_path / "photos", ["a.png", "b.png"])
    settings = {"images": [str(tmp_path / "photos")], "recursive": False}
    output = tmp_path / "out"
    output.mkdir()
    photos, kept = output / "_photos.jsonl", output / "_settings.json"
    photo_list.list_of_photos(output, settings)
    (output / "part-000000.jsonl").touch()
    content = photos.read_bytes()
    photos.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="missing or was changed.*another folder"):
        photo_list.list_of_photos(output, settings)
    photos.unlink()
    with pytest.raises(ValueError, match="missing or was changed.*another folder"):
        photo_list.list_of_photos(output, settings)
    photos.write_bytes(content)
    settings_before = kept.read_bytes()
    kept.write_bytes(settings_before.replace(b"false", b"true"))
    with pytest.raises(ValueError, match="_settings.json: the file is damaged.*another folder"):
        photo_list.list_of_photos(output, settings)
    kept.unlink()
    with pytest.raises(ValueError, match="parts of captions, but not their settings"):
        photo_list.list_of_photos(output, settings)
    kept.write_bytes(settings_before)
    assert photo_list.list_of_photos(output, settings) == photos


# Workers make rows and parts: without a cluster, only private functions do.


@pytest.mark.extras
def test_a_part_has_the_same_columns_in_both_formats(tmp_path):
    rows = [
        ray_data._row("a.png", ValueError("torn")),
        ray_data._row("b.png", ValueError("torn too")),
    ]
    rows[1]["likely_words"] = ["c"]
    assert [*rows[0]] == list(ray_data.COLUMNS) and rows[0]["error"] == "torn"
    (tmp_path / "part.jsonl").write_bytes(ray_data._encoded(rows, False))
    assert ray_data._rows_of_part({"path": str(tmp_path / "part.jsonl")}) == rows
    pytest.importorskip("pandas", reason="pandas is not installed: Parquet is not tested")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    (tmp_path / "part.parquet").write_bytes(ray_data._encoded(rows, True))
    assert ray_data._rows_of_part({"path": str(tmp_path / "part.parquet")}) == rows


@pytest.mark.parametrize("file_type", ["jsonl", pytest.param("parquet", marks=pytest.mark.extras)])
def test_a_file_name_that_is_not_utf_8_has_its_row(tmp_path, file_type):
    path = tmp_path / f"part.{file_type}"
    if file_type == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    row = ray_data._row("bad\udcff.jpg", ValueError("bad\udcff.jpg: torn"))
    row["likely_words"] = ["bad\udcff"]
    path.write_bytes(ray_data._encoded([row], file_type == "parquet"))
    (found,) = ray_data._rows_of_part({"path": str(path)})
    shown = "\udcff" if file_type == "jsonl" else r"\udcff"
    assert found["image"] == f"bad{shown}.jpg" and found["error"] == f"bad{shown}.jpg: torn"
    assert [*found["likely_words"]] == [f"bad{shown}"]


class Here(Workers):
    """Workers without a cluster or a model: torn photos have an error."""

    def __init__(self, **options):
        self.done = []

    def do(self, make, blocks):
        for path, part in blocks:
            photos = photo_list.photos_of_part(Path(path).with_name("_photos.jsonl"), part)
            rows = [
                ray_data._row(photo, ValueError("torn") if "torn" in photo else Caption())
                for photo in photos
            ]
            Path(path).write_bytes(ray_data._encoded(rows, path.endswith("parquet")))
            yield (path, part), sum(row["error"] is not None for row in rows)


class Caption:
    def to_dict(self):
        return {"caption": 'a sign that says "error": null'}


@pytest.mark.filterwarnings("always:.*made again")
@pytest.mark.parametrize("file_type", ["jsonl", pytest.param("parquet", marks=pytest.mark.extras)])
def test_each_run_looks_at_the_parts_of_earlier_runs(tmp_path, monkeypatch, capsys, file_type):
    if file_type == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet is not tested")
    monkeypatch.setattr(ray_data, "Workers", Here)
    names = [f"{number:03d}.png" for number in range(70)]
    write_photos(tmp_path / "photos", [*names, "torn.png"], size=(2, 2))
    command = ["caption", str(tmp_path / "photos"), "--model", "scenes", "--ray", "local"]
    command += ["--output", str(tmp_path / "out"), "--part-size", "64", "--file-type", file_type]
    for _ in range(2):
        assert main(command) == 2
        printed = capsys.readouterr()
        assert "71 pictures in 2 parts" in printed.out
        assert "failed: 1 pictures; their rows have an error. Remove a part" in printed.err
    first, second = sorted((tmp_path / "out").glob("part-*"))
    whole = first.read_bytes()
    damages = [b"", whole[: len(whole) // 2], whole[:-1], second.read_bytes()]
    for damage in damages:
        first.write_bytes(damage)
        assert main(command) == 2
        assert "1 parts are damaged and made again" in capsys.readouterr().err
        assert first.read_bytes() == whole


class RayThatFails(types.ModuleType):
    """A package `ray` whose clusters do not start in the first tries."""

    def __init__(self, num_failures):
        super().__init__("ray")
        self.data, self.num_failures, self.num_tries = types.ModuleType("ray.data"), num_failures, 0

    def is_initialized(self):
        return False

    def init(self, **options):
        self.num_tries += 1
        if self.num_tries <= self.num_failures:
            raise RuntimeError("The current node timed out during startup.\nSecond line.")

    def shutdown(self):
        pass


@pytest.fixture
def failing_ray(monkeypatch):
    def use(num_failures):
        ray = RayThatFails(num_failures)
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.setitem(sys.modules, "ray.data", ray.data)
        return ray

    for name in (*ray_workers.ENVIRONMENT, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # restores it
    return use


def test_a_cluster_on_a_busy_computer_is_started_again(failing_ray):
    ray = failing_ray(2)
    with pytest.warns(UserWarning, match="trying again"):
        assert ray_workers.connected("local") is ray
    assert ray.num_tries == 3
    failing_ray(3)
    with pytest.warns(UserWarning, match="trying again"), pytest.raises(ValueError) as error:
        ray_workers.connected("local")
    assert str(error.value) == (
        "Ray did not start on this computer, which may be busy: run the same command again. "
        "Ray's reason: The current node timed out during startup."
    )


def test_a_cluster_that_does_not_answer_is_asked_once(failing_ray):
    ray = failing_ray(1)
    with pytest.raises(ValueError, match=r"did not answer: .*during startup\. Expected: .*auto"):
        ray_workers.connected("auto")
    assert ray.num_tries == 1


def test_relative_paths_mean_the_same_on_all_nodes(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    mine = ray_data.loading("mine", None)
    assert mine == ray_data.ModelSource([str(tmp_path / "mine")], None)
    bundled = ray_data.loading(["scenes", None], "bundled")
    assert bundled == ray_data.ModelSource(["scenes", None], "bundled")


def test_errors(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"Ray is not installed. Run `pip install .ray\[data\]"):
        Workers()
    with pytest.raises(
        ValueError, match="`worker_gpus` must be a number of at least 0.*worker_gpus=-1"
    ):
        Workers(worker_gpus=-1)
    with pytest.raises(ValueError, match="`part_size` must be a whole number from 1.*part_size=0"):
        distributed_caption("photos", output=tmp_path, part_size=0)
    with pytest.raises(ValueError, match="Expected the paths of photos.*Received: ndarray"):
        distributed_caption([np.zeros((8, 8, 3), "uint8")], output=tmp_path)
    with pytest.raises(ValueError, match="a folder that all nodes see. Received: output='s3://"):
        distributed_caption("photos", output="s3://bucket/captions")
    with pytest.raises(ValueError, match="Expected a folder or name.*Received: InTurn"):
        distributed_caption("photos", InTurn(), output=tmp_path)
    with pytest.raises(ValueError, match="Leave out the feature cache"):
        DistributedCaptioner(None, None, None).caption_images([], Search(), cache=True)
    write_photos(tmp_path / "photos", ["a.png"])
    caption = ["caption", str(tmp_path / "photos"), "--model", "scenes"]
    for flags, message in (
        (["--output", "out"], "--output has no effect without --ray"),
        (["--ray", "local"], "Pass the folder for the captions as --output"),
        (
            ["--ray", "local", "--output", "out", "--plot", "a.png"],
            "--plot cannot be combined with --ray",
        ),
        (["--ray", "local", "--output", "out", "--json"], "--json cannot be combined with --ray"),
        (["--ray", "local", "--output", str(tmp_path / "out")], "Ray is not installed"),
    ):
        assert main(caption + flags) == 2 and message in capsys.readouterr().err


def test_python_and_the_command_line_have_the_same_defaults():
    defaults, written = (
        {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
        }
        for function in (distributed_caption, ray_data.write_captions)
    )
    shared = defaults.keys() & written.keys() - {"model", "options"}
    assert {"file_type", "part_size", "recursive"} < shared
    assert {name: defaults[name] for name in shared} == {name: written[name] for name in shared}
