import hashlib
import http.server
import io
import shutil
import stat
import threading
import urllib.request
import zipfile

import numpy as np
import pytest

from data_utils import downloads
from data_utils.downloads import DOWNLOADS, DataSource, RemoteFile, download, extract, fetch

CONTENT = bytes(range(256)) * 4000  # 1 MB
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; `server.faults` is a list of what goes wrong, one entry for each request in turn."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, content = self.server, self.server.files.get(self.path.lstrip("/"))
        fault = server.faults.pop(0) if server.faults else ""
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        server.requests.append((self.path.lstrip("/"), start, fault))
        if content is None or fault == "not found":
            return self.send_error(404)
        if "ignores ranges" in fault:
            start = 0
        elif start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        rest = content[start:]
        self.send_response(206 if start else 200)
        if start:
            begin = start + 7 if fault == "wrong range" else start
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        told = len(rest) + 1000 * ("claims too much" in fault) - 1000 * ("claims too little" in fault)
        if fault != "tells no length":
            self.send_header("Content-Length", str(told))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if "breaks off" in fault else rest[:told])
        self.close_connection = True
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.faults, server.requests = {"a.bin": CONTENT}, [], []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch_quietly(server, path, **options):
    fetch(f"{server.url}/a.bin", path, show_progress=False, **options)


def test_fetch(server, tmp_path):
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert len(server.requests) == 1  # never fetched again


@pytest.mark.parametrize(
    ("faults", "starts"),
    [
        (["breaks off", "breaks off"], [0, 512_000, 768_000]),
        (["breaks off", "ignores ranges"], [0, 512_000]),
        (["tells no length"], [0]),
        (["breaks off", "wrong range"], [0, 512_000, 512_000]),
    ],
    ids=str,
)
def test_fetch_goes_on_after_a_break(server, tmp_path, faults, starts):
    server.faults = list(faults)
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert [start for _, start, _ in server.requests] == starts


def test_a_later_run_goes_on_where_the_first_stopped(server, tmp_path):
    server.faults = ["breaks off", "not found"]
    with pytest.raises(ConnectionError, match="404.*512000 bytes are kept.*run again"):
        fetch_quietly(server, tmp_path / "a.bin")
    assert not (tmp_path / "a.bin").exists()
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert server.requests[-1][1] == 512_000
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_already_is_taken(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_length_that_is_too_long_is_not_waited_for(server, tmp_path):
    server.faults = ["claims too much"]
    fetch_quietly(server, tmp_path / "a.bin", md5=MD5)  # asked for the rest, the server says that there is none
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_length_that_never_arrives_is_an_error(server, tmp_path):
    server.faults = ["claims too much ignores ranges"] * 9
    with pytest.raises(ConnectionError, match="ended after 1024000 of 1025000 bytes.*kept"):
        fetch_quietly(server, tmp_path / "a.bin")
    assert not (tmp_path / "a.bin").exists() and len(server.requests) == 4


def test_a_length_that_is_too_short_makes_no_torn_file_whole(server, tmp_path):
    server.faults = ["claims too little"]
    with pytest.raises(ValueError, match="checksum differs"):
        fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert list(tmp_path.iterdir()) == []


def test_a_file_put_there_by_hand_is_verified(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match="not the published file.*Remove it"):
        fetch_quietly(server, tmp_path / "a.bin", md5=MD5)
    assert server.requests == []


def test_no_server_at_all(tmp_path):
    with pytest.raises(ConnectionError, match="could not be fetched"):
        fetch("http://127.0.0.1:9/a.bin", tmp_path / "a.bin", show_progress=False)


def test_a_folder_that_vanishes_is_no_fault_of_the_connection(server, tmp_path, monkeypatch):
    urlopen, tries = urllib.request.urlopen, []

    def urlopen_while_the_folder_goes(*arguments, **options):
        tries.append(1)
        (tmp_path / "gone").rmdir()
        return urlopen(*arguments, **options)

    monkeypatch.setattr("urllib.request.urlopen", urlopen_while_the_folder_goes)
    with pytest.raises(FileNotFoundError) as caught:
        fetch_quietly(server, tmp_path / "gone" / "a.bin")
    assert caught.value.filename == str(tmp_path / "gone" / "a.bin.part") and len(tries) == 1


# === Zips ===


def zip_of(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_extract_leaves_out_macos_and_keeps_what_is_there(tmp_path):
    (tmp_path / "a.zip").write_bytes(
        zip_of({"d/a.txt": "a" * 9000, "d/b.txt": "b", "__MACOSX/d/._a.txt": "x", "d/._b.txt": "x"})
    )
    extract(tmp_path / "a.zip", tmp_path / "." / "", show_progress=False)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["a.txt", "b.txt"]
    before = (tmp_path / "d" / "a.txt").stat().st_mtime_ns
    (tmp_path / "d" / "b.txt").write_text("damaged")
    extract(tmp_path / "a.zip", tmp_path, show_progress=False)
    assert (tmp_path / "d" / "a.txt").stat().st_mtime_ns == before
    assert (tmp_path / "d" / "b.txt").read_text() == "b"


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "C:/evil.txt", "..\\evil.txt"])
def test_extract_refuses_what_would_leave_the_folder(tmp_path, name):
    target = tmp_path / "inside"
    target.mkdir()
    (tmp_path / "a.zip").write_bytes(zip_of({"good.txt": "x", name: "x"}))
    with pytest.raises(ValueError, match="unsafe entry"):
        extract(tmp_path / "a.zip", target, show_progress=False)
    assert list(target.iterdir()) == [] and [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.zip"]


def test_extract_refuses_an_entry_that_is_the_folder_itself(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside.part").write_text("somebody's")
    (tmp_path / "a.zip").write_bytes(zip_of({"./.": "x"}))
    with pytest.raises(ValueError, match="unsafe entry"):
        extract(tmp_path / "a.zip", tmp_path / "inside", show_progress=False)
    assert (tmp_path / "inside.part").read_text() == "somebody's"


def test_extract_refuses_links(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="unsafe entry 'link'"):
        extract(tmp_path / "a.zip", tmp_path, show_progress=False)


def test_extract_refuses_damage(tmp_path):
    whole = zip_of({"a.txt": bytes(range(256)) * 50})
    damaged = bytearray(whole)
    damaged[60] ^= 255
    for content in (whole[:-30], bytes(damaged), b"", b"no zip at all"):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(ValueError, match="a.zip: the zip is damaged"):
            extract(tmp_path / "a.zip", tmp_path, show_progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


# === The whole data set ===


@pytest.fixture
def flickr(server, monkeypatch):
    """A Flickr8k of three photos on the local server."""
    server.files = {
        "text.zip": zip_of({"Flickr8k.token.txt": "1.jpg#0\tA dog .\n"}),
        "photos.zip": zip_of({f"Flicker8k_Dataset/{i}.jpg": bytes([i]) * 50_000 for i in range(1, 4)}),
    }
    files = tuple(RemoteFile(name, f"{server.url}/{name}") for name in server.files)
    monkeypatch.setitem(DOWNLOADS, "flickr8k", DataSource(files=files, num_photos=3))
    return server


def test_download_once_and_never_again(flickr, tmp_path):
    data_dir = download("flickr8k", tmp_path / "new", show_progress=False)
    assert len(list((data_dir / "Flicker8k_Dataset").iterdir())) == 3
    assert (data_dir / "Flickr8k.token.txt").exists() and not list(data_dir.glob("*.zip"))
    download("flickr8k", data_dir, show_progress=False)
    assert len(flickr.requests) == 2
    (data_dir / "Flicker8k_Dataset" / "2.jpg").unlink()  # a photo was lost: that is no finished download
    download("flickr8k", data_dir, show_progress=False)
    assert len(flickr.requests) == 4 and (data_dir / "Flicker8k_Dataset" / "2.jpg").exists()


def test_download_goes_on_after_a_kill_while_unpacking(flickr, tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(downloads, "_count_photos", killed)
        with pytest.raises(KeyboardInterrupt):
            download("flickr8k", tmp_path, show_progress=False)
    download("flickr8k", tmp_path, show_progress=False)
    assert len(flickr.requests) == 2  # the zips were still there


def test_download_killed_at_the_very_end_leaves_no_zips(flickr, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(downloads, "_remove_archives", lambda *arguments: None)
        download("flickr8k", tmp_path, show_progress=False)
    assert list(tmp_path.glob("*.zip"))
    download("flickr8k", tmp_path, show_progress=False)
    assert not list(tmp_path.glob("*.zip")) and len(flickr.requests) == 2


def test_a_disk_that_is_full_is_not_taken_for_a_broken_connection(server, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloads, "_fetch_rest", full)
    with pytest.raises(OSError, match=r"No space left on device.*a\.bin\.part"):
        fetch_quietly(server, tmp_path / "a.bin")


def test_download_of_a_corrupt_zip_or_too_few_photos_is_not_taken_for_whole(flickr, tmp_path):
    good = flickr.files["photos.zip"]
    flickr.files["photos.zip"] = good[: len(good) // 2]
    with pytest.raises(ValueError, match="photos.zip: the zip is damaged.*Remove it and download again"):
        download("flickr8k", tmp_path, show_progress=False)
    (tmp_path / "photos.zip").unlink()
    flickr.files["photos.zip"] = zip_of({"Flicker8k_Dataset/1.jpg": b"x"})
    with pytest.raises(ValueError, match="1 photos of 3 are there"):
        download("flickr8k", tmp_path, show_progress=False)
    (tmp_path / "photos.zip").unlink()
    flickr.files["photos.zip"] = good
    download("flickr8k", tmp_path, show_progress=False)


def test_download_from_a_mirror(flickr, tmp_path):
    files = tuple(RemoteFile(file.name, "http://127.0.0.1:9/x") for file in DOWNLOADS["flickr8k"].files)
    DOWNLOADS["flickr8k"] = DataSource(files=files, num_photos=3)
    download("flickr8k", tmp_path, mirror=flickr.url + "/", show_progress=False)
    assert (tmp_path / "Flickr8k.token.txt").exists()


def test_disk_too_small_is_said_before_anything_is_fetched(flickr, tmp_path, monkeypatch):
    monkeypatch.setitem(DOWNLOADS, "flickr8k", DataSource(DOWNLOADS["flickr8k"].files, 3, disk_bytes=10**18))
    with pytest.raises(ValueError, match="needs 1000000000.0 GB"):
        download("flickr8k", tmp_path, show_progress=False)
    assert flickr.requests == []


def test_what_has_arrived_needs_no_more_room(flickr, tmp_path, monkeypatch):
    """A disk of 1 MB, of which a download takes 0.9: what one that was interrupted left there is no obstacle."""

    def usage(path):
        taken = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        return shutil._ntuple_diskusage(10**6, taken, 10**6 - taken)

    def killed(data_dir):
        raise KeyboardInterrupt

    random = np.random.default_rng(0)
    photos = zip_of({f"Flicker8k_Dataset/{number}.jpg": random.bytes(149_000) for number in range(3)})
    flickr.files["photos.zip"] = photos
    files = DOWNLOADS["flickr8k"].files
    monkeypatch.setitem(DOWNLOADS, "flickr8k", DataSource(files, num_photos=3, disk_bytes=900_000))
    monkeypatch.setattr(shutil, "disk_usage", usage)
    (tmp_path / "text.zip").write_bytes(flickr.files["text.zip"])
    (tmp_path / "photos.zip.part").write_bytes(photos[:300_000])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(downloads, "_count_photos", killed)
        download("flickr8k", tmp_path, show_progress=False)
    assert usage(tmp_path).free < 149_000
    download("flickr8k", tmp_path, show_progress=False)
    (tmp_path / "Flicker8k_Dataset" / "1.jpg").unlink()
    (tmp_path / "photos.zip").write_bytes(photos)
    (tmp_path / "mine").write_bytes(bytes(200_000))
    with pytest.raises(ValueError, match="the disk is too small to unpack it"):
        extract(tmp_path / "photos.zip", tmp_path, show_progress=False)


def test_data_sets_behind_a_form_say_where_to_go(tmp_path):
    with pytest.raises(ValueError, match="after a form: https://.*flickr30k-images.*dataset_flickr30k.json"):
        download("flickr30k", tmp_path)
    with pytest.raises(ValueError, match="cocodataset.org"):
        download("coco", tmp_path)
    with pytest.raises(ValueError, match="Received: name='flickr9k'"):
        download("flickr9k", tmp_path)


def test_progress_is_shown(server, tmp_path, capsys):
    fetch(f"{server.url}/a.bin", tmp_path / "a.bin")
    assert capsys.readouterr().err.startswith("a.bin: 1/1 MB (100 %)")
