import hashlib
import http.server
import io
import os
import stat
import threading
import zipfile
from unittest.mock import Mock

import pytest

from data_utils import downloads
from data_utils.downloads import DOWNLOADS, DataSource, download, extract, fetch

CONTENT = bytes(range(256)) * 4096  # 1 MB
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; `server.faults` is a list of what goes wrong, one entry
    for each request in turn.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        content = self.server.files[self.path.lstrip("/")]
        fault = self.server.faults.pop(0) if self.server.faults else ""
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.server.starts.append(start)
        if fault == "not found":
            return self.send_error(404)
        if fault == "ignores ranges":
            start = 0
        rest = content[start:]
        self.send_response(416 if start and not rest else 206 if start else 200)
        told = len(rest) + {"claims too much": 1000, "claims too little": -1000}.get(fault, 0)
        if fault != "tells no length":
            self.send_header("Content-Length", str(told))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if fault == "breaks off" else rest[:told])
        self.close_connection = True
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.faults, server.starts = {"a.bin": CONTENT}, [], []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetched(server, folder, md5=MD5):
    fetch(f"{server.url}/a.bin", folder / "a.bin", md5=md5, show_progress=False)
    return (folder / "a.bin").read_bytes()


def test_fetch(server, tmp_path, capsys):
    fetch(f"{server.url}/a.bin", tmp_path / "a.bin", md5=MD5)
    assert capsys.readouterr().err.startswith("a.bin: 1/1 MB (100 %)")
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
    assert fetched(server, tmp_path) == CONTENT and len(server.starts) == 1  # never fetched again
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    assert fetched(server, tmp_path) == CONTENT


@pytest.mark.parametrize(
    ("faults", "starts"),
    [
        (["breaks off", "breaks off"], [0, 524_288, 786_432]),
        (["breaks off", "ignores ranges"], [0, 524_288]),
        (["tells no length"], [0]),
        (["claims too much"], [0, 1_048_576]),
    ],
)
def test_fetch_resumes_after_a_broken_connection(server, tmp_path, faults, starts):
    server.faults = list(faults)
    assert fetched(server, tmp_path) == CONTENT and server.starts == starts


def test_a_later_run_resumes_where_the_first_one_stopped(server, tmp_path):
    server.faults = ["breaks off", "not found"]
    with pytest.raises(ConnectionError, match="could not be downloaded: 404.*Run again to resume"):
        fetched(server, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin.part"]
    assert fetched(server, tmp_path) == CONTENT and server.starts[-1] == 524_288


def test_a_file_with_another_checksum_is_removed(server, tmp_path):
    server.faults = ["claims too little"]
    with pytest.raises(ValueError, match="the checksum does not match"):
        fetched(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_server_at_all(tmp_path):
    for address in ("http://127.0.0.1:9", "not-an-address"):
        with pytest.raises(ConnectionError, match="could not be downloaded"):
            fetch(f"{address}/a.bin", tmp_path / "a.bin", show_progress=False)


def zip_of(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def extracted(folder, content):
    """Extract a zip into the folder "inside"; return the names of its files."""
    (folder / "a.zip").write_bytes(content)
    extract(folder / "a.zip", folder / "inside", show_progress=False)
    return {path.name for path in (folder / "inside").rglob("*") if path.is_file()}


def test_extract_leaves_out_what_macos_adds(tmp_path):
    entries = {"d/a.txt": "a" * 9000, "d/b.txt": "b", "__MACOSX/d/._a.txt": "x", "d/._b.txt": "x"}
    assert extracted(tmp_path, zip_of(entries)) == {"a.txt", "b.txt"}


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "C:/evil.txt", "..\\evil.txt"]
)
def test_no_path_leaves_the_folder(tmp_path, name):
    assert "good.txt" in extracted(tmp_path, zip_of({"good.txt": "x", name: "x"}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "inside"]
    assert not os.path.exists("/evil.txt")


def test_a_link_is_not_made(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert extracted(tmp_path, zip_of({link: "/etc/passwd"})) == {"link"}
    assert not (tmp_path / "inside" / "link").is_symlink()


def test_extract_rejects_damage(tmp_path):
    whole = zip_of({"a.txt": bytes(range(256)) * 50})
    damaged = bytearray(whole)
    damaged[60] ^= 255
    for content in (whole[:-30], bytes(damaged), b"", b"no zip at all"):
        with pytest.raises(ValueError, match="a.zip: the zip is damaged"):
            extracted(tmp_path, content)


@pytest.fixture
def flickr(server, monkeypatch):
    """A Flickr8k of three photos on the local server."""
    server.files = {
        "text.zip": zip_of({"Flickr8k.token.txt": "1.jpg#0\tA dog .\n"}),
        "photos.zip": zip_of(
            {f"Flicker8k_Dataset/{i}.jpg": bytes([i]) * 50_000 for i in range(1, 4)}
        ),
    }
    monkeypatch.setitem(
        DOWNLOADS, "flickr8k", DataSource(server.url, dict.fromkeys(server.files), num_photos=3)
    )
    return server


def test_download_once_and_never_again(flickr, tmp_path):
    data_dir = download("flickr8k", tmp_path / "new", show_progress=False)
    assert len(list((data_dir / "Flicker8k_Dataset").iterdir())) == 3
    assert (data_dir / "Flickr8k.token.txt").exists() and not list(data_dir.glob("*.zip"))
    download("flickr8k", data_dir, show_progress=False)
    assert len(flickr.starts) == 2
    # a photo was lost: that is no finished download
    (data_dir / "Flicker8k_Dataset" / "2.jpg").unlink()
    download("flickr8k", data_dir, mirror=flickr.url + "/", show_progress=False)
    assert len(flickr.starts) == 4 and (data_dir / "Flicker8k_Dataset" / "2.jpg").exists()


def test_download_resumes_after_a_kill_while_unpacking(flickr, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(downloads, "_count_photos", Mock(side_effect=KeyboardInterrupt))
        download("flickr8k", tmp_path, show_progress=False)
    download("flickr8k", tmp_path, show_progress=False)
    assert len(flickr.starts) == 2  # the zips were still there


def test_a_data_set_with_too_few_photos_is_rejected(flickr, tmp_path):
    flickr.files["photos.zip"] = zip_of({"Flicker8k_Dataset/1.jpg": b"x"})
    with pytest.raises(ValueError, match="1 of 3 photos were found"):
        download("flickr8k", tmp_path, show_progress=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flickr30k", "https://.*flickr30k-images.*dataset_flickr30k.json"),
        ("coco", "cocodataset.org"),
        ("flickr9k", "Received: name='flickr9k'"),
    ],
)
def test_data_sets_behind_a_form_say_where_to_go(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        download(name, tmp_path)
