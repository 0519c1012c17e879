"""Nothing is lost: a little of what benchmarks/torture.py does with real processes. `make torture` does all of it."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import all_slow_but

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness kills and limits processes as Linux does")


@pytest.fixture(scope="module")
def torture(tmp_path_factory):
    before = sys.path.copy()
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    try:
        from torture import Torture
    finally:
        sys.path[:] = before
    return Torture(tmp_path_factory.mktemp("torture"), seed=3)


@pytest.fixture
def counted(torture):
    """A function that returns what was counted in this test, and that there was no fault."""
    torture.counts.clear()

    def counts(what):
        assert torture.counts[what]["faults"] == []
        return torture.counts[what]

    return counts


@pytest.mark.parametrize("name", ["download", "features", "training", "save"])
@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost(torture, counted, name):
    torture.kill(name, 3)
    counts = counted(f"killed: {name}")
    assert counts["times"] == 3 and counts["right"] >= 1


@pytest.mark.parametrize("name", all_slow_but("download", ["download", "features", "training"]))
def test_of_two_at_a_time_one_is_refused_or_waits(torture, counted, name):
    torture.together(name, 1)
    counts = counted(f"two at a time: {name}")
    assert counts["right"] == 1 and counts["unharmed"] + counts.get("said", 0) == 2


@pytest.mark.parametrize(
    "kind, what",
    [("disk", "disk full"), ("read_only", "read-only"), ("removed", "removed")],
)
@pytest.mark.slow
def test_what_cannot_be_written_is_said_and_done_later(torture, counted, kind, what):
    getattr(torture, kind)("download", 3)
    counts = counted(f"{what}: download")
    assert counts["times"] == counts["right"] == 3
    assert kind != "read_only" or counts["said"] >= 2  # where the one before had ended already, nothing is left to do


@pytest.mark.slow
def test_damage_is_mended_or_said(torture, counted):
    torture.damage(6)
    assert sum(counted(what)["times"] for what in list(torture.counts)) == 6


@pytest.mark.slow
def test_a_fault_would_be_noticed(torture, counted, tmp_path):
    from torture import Ended

    assert Ended(1, "", "Traceback (most recent call last):\nKeyError: 3", 0.0).fault
    assert Ended(2, "", "keras-sat: it is broken", 0.0).fault == "it does not say what to do: keras-sat: it is broken"
    assert not Ended(2, "", "keras-sat: it is broken. Remove it.", 0.0).fault
    command = torture.command("download")
    for path in command.whole.rglob("*.jpg"):
        (tmp_path / path.relative_to(command.whole)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.relative_to(command.whole)).write_bytes(path.read_bytes())
    torture.must_end_right("a test", command, tmp_path, Ended(0, "", "", 0.0))
    assert "Flickr8k.token.txt" in torture.counts["a test"]["faults"][0]
    command = torture.command("features")
    shutil.copytree(command.whole, tmp_path / "features")
    with open(tmp_path / "features" / "features.npy", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    assert not torture.check("a test", command.look, tmp_path / "features")
    assert "is damaged" in torture.counts["a test"]["faults"][1]


HOLD = "import fcntl; lock = open('lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "


@pytest.mark.parametrize("code", ["", HOLD], ids=["before its work", "in its work"])
def test_a_command_that_hangs_is_a_fault(torture, tmp_path, monkeypatch, code):
    from torture import Command, kill_at, run

    class Hangs(Command):
        def arguments(self, output):
            return ["-c", f"import os, time; os.chdir({str(output)!r}); {code}time.sleep(600)"]

    monkeypatch.setattr("torture.HANGS_AFTER", 2)
    ended = run(Hangs(tmp_path), tmp_path, disturb=kill_at(0.1, tmp_path))
    assert "it hung for 2 s" in ended.fault
