import contextlib
import errno
import os
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest

from data_utils.base.atomic_files import (
    clear_half_written,
    exclusive_lock,
    read_json,
    read_sealed_json,
    whole_file,
    whole_folder,
    write_json,
    write_sealed_json,
    write_whole,
)


@pytest.mark.parametrize("of_file", [True, False])
def test_an_error_of_a_library_that_writes_a_file_names_the_callers_path(of_file, tmp_path):
    path = tmp_path / "model.keras"
    with pytest.raises(OSError, match="No space left") as caught, whole_file(path) as temporary:
        raise OSError(errno.ENOSPC, "No space left on device", *[str(temporary)] * of_file)
    assert caught.value.filename == str(path) and not os.listdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught, whole_file(path):
        open(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing"), "it has nothing to do with the file"


def test_a_name_that_is_too_long_with_what_is_added_to_it_is_named_as_it_is(tmp_path):
    path = tmp_path / ("n" * 240 + ".keras")
    with pytest.raises(OSError) as caught, whole_file(path):
        pass
    assert caught.value.filename == str(path)


def test_write_whole_replaces_and_leaves_nothing_behind(tmp_path):
    write_whole(tmp_path / "sub" / "a.txt", "é\n")
    write_whole(tmp_path / "sub" / "a.txt", b"second")
    assert (tmp_path / "sub" / "a.txt").read_bytes() == b"second"
    assert os.listdir(tmp_path / "sub") == ["a.txt"]
    (tmp_path / "other").write_text("text")
    assert (tmp_path / "sub" / "a.txt").stat().st_mode == (tmp_path / "other").stat().st_mode, (
        "as the umask says"
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions_and_its_owner(mode, tmp_path, monkeypatch):
    path, owners = tmp_path / "a.txt", []
    path.write_text("old")
    path.chmod(mode)
    old = path.stat()
    monkeypatch.setattr(os, "chown", lambda _, *ids: owners.append(ids))
    write_whole(path, "new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == mode
    with whole_file(path) as temporary:
        temporary.write_text("newer")
    assert path.read_text() == "newer" and path.stat().st_mode & 0o777 == mode
    assert {*owners} == {(-1, old.st_gid), (old.st_uid, -1)}
    monkeypatch.setattr(os, "chown", Mock(side_effect=PermissionError(1, "Not permitted")))
    write_whole(path, "by somebody else")
    assert path.read_text() == "by somebody else" and path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_nobody_can_read_what_replaces_a_private_file_while_it_is_written(tmp_path, monkeypatch):
    path, modes = tmp_path / "a.txt", []
    path.write_text("old")
    path.chmod(0o600)

    def sync(descriptor):
        modes.append(os.fstat(descriptor).st_mode & 0o777)

    monkeypatch.setattr(os, "fsync", sync)
    write_whole(path, "private")
    assert modes == [0o600]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "words")
    assert (
        os.read(reader, 99) == b"words"
        and (tmp_path / "pipe").is_fifo()
        and os.listdir(tmp_path) == ["pipe"]
    )
    os.close(reader)
    with pytest.raises(ValueError, match="pipe: this is a pipe or a device, not a file"):
        read_json(tmp_path / "pipe")


def test_write_whole_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    write_whole(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match=r"No space.*a\.txt") as full:
        write_whole(tmp_path / "a.txt", "new")
    assert full.value.filename == str(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_whole_folder_appears_at_the_end_or_not_at_all(tmp_path):
    with whole_folder(tmp_path / "sub" / "new") as folder:
        write_whole(folder / "a" / "b.txt", "content")
        assert folder.parent == tmp_path / "sub" and not (tmp_path / "sub" / "new").exists()
    assert (tmp_path / "sub" / "new" / "a" / "b.txt").read_text() == "content"
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "sub" / "other") as folder:
        write_whole(folder / "b.txt", "content")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path / "sub") == ["new"]
    with pytest.raises(OSError), whole_folder(tmp_path / "sub" / "new") as folder:
        write_whole(folder / "c.txt", "never replaces what is there")
    assert os.listdir(tmp_path / "sub") == ["new"] and os.listdir(tmp_path / "sub" / "new") == ["a"]


def test_what_was_half_written_is_cleared_away(tmp_path):
    for name in (
        ".a.txt.0123abcd.part",
        ".[a].txt.0123abcd.part",
        ".b.txt.0123abcd.part",
        "a.txt",
        "mine.part",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / ".folder.0123abcd.part" / "deep").mkdir(parents=True)
    clear_half_written(tmp_path / "a.txt", tmp_path / "[a].txt", tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == [".b.txt.0123abcd.part", "a.txt", "mine.part"]


def test_json_with_more_values_than_fit_into_memory_is_not_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("data_utils.base.atomic_files.MOST_JSON_SIGNS", 100)
    (tmp_path / "a.json").write_text(f"[{','.join(50 * ['[]'])}]")
    assert len(read_json(tmp_path / "a.json")) == 50
    (tmp_path / "a.json").write_text(f"[{','.join(51 * ['[]'])}]")
    with pytest.raises(ValueError, match=r"a\.json: .*too many JSON values.*102 brackets"):
        read_json(tmp_path / "a.json")


def test_text_of_any_kind_comes_back(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    # The first is how Python shows a file name that is not UTF-8.
    texts = ["\udcff", "é\U0001f600", "\\u00e9"]
    write_json("~/a.json", texts)
    assert read_json("~/a.json") == read_json(tmp_path / "a.json") == texts


def test_sealed_json_notices_damage(tmp_path):
    path = tmp_path / "a.json"
    write_sealed_json(path, {"size": 14, "name": "é"})
    assert read_sealed_json(path, "a test") == {"size": 14, "name": "é"}
    path.write_text(path.read_text().replace("14", "15"))
    with pytest.raises(ValueError, match="a.json: the file is damaged.*Expected: a test"):
        read_sealed_json(path, "a test")
    for content, message in (
        (b"[]", "is damaged"),
        (b'{"a":\n1', "line 2"),
        (b"\xff", "not valid JSON .*utf-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_sealed_json(path, "a test")
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_json(path) == {}


HOLD = """
import sys
from data_utils.base.atomic_files import exclusive_lock
with exclusive_lock("lock", "is busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


def lock(path, **options):
    with exclusive_lock(path, "is busy", **options):
        pass


def test_the_lock_is_held_by_one_process_and_freed_by_its_death(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=tmp_path, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="Another process is busy.*Received: .*lock"):
            lock(tmp_path / "lock")
        holder.kill()
    lock(tmp_path / "lock")
    assert os.listdir(tmp_path) == ["lock"] and (tmp_path / "lock").stat().st_size == 0


def test_the_lock_can_be_waited_for(tmp_path, monkeypatch):
    with contextlib.ExitStack() as other:
        other.enter_context(exclusive_lock(tmp_path / "lock", "is busy"))
        said = []
        monkeypatch.setattr("builtins.print", lambda text, file: (said.append(text), other.close()))
        lock(tmp_path / "lock", wait_s=60)  # free as soon as it has said that it waits
        assert said == ["Another process is busy: waiting for up to 60 s."]


def test_a_short_wait_for_the_lock_is_not_mentioned(tmp_path, capsys):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=tmp_path, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        freed = threading.Thread(target=holder.kill)
        freed.start()
        lock(tmp_path / "lock", wait_s=60, quiet_s=60)
        freed.join()
    assert capsys.readouterr().err == ""


def test_a_file_that_is_not_a_lock_file_is_left_alone(tmp_path):
    (tmp_path / "lock").write_text("text")
    for place in (tmp_path / "lock", tmp_path):
        with pytest.raises(ValueError, match="the lock file cannot be used"):
            lock(place)
    assert (tmp_path / "lock").read_text() == "text"
