"""The captioner as a page: its folder, runtime, server, and script."""

import base64
import dataclasses
import functools
import hashlib
import http.client
import http.server
import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_utils import draw_scenes
from data_utils.base import write_json, write_whole
from data_utils.photos import load_image
from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.export import caption_script, page_export, page_runtime
from keras_sat.export.export_formats import caption_py
from keras_sat.export.litert import litert_file
from keras_sat.export.litert_captioner import export_folder
from keras_sat.export.litert_folder import read_litert
from keras_sat.export.local_server import page_server, serve
from keras_sat.export.page_export import write_page
from keras_sat.files import pretrained_directory

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "keras_sat" / "export" / "page"


@pytest.fixture(scope="module")
def captioner():
    return Captioner.from_pretrained("scenes")


@pytest.fixture(scope="module")
def npm(tmp_path_factory):
    """A folder as npm leaves it, with small files in the place of LiteRT.js."""
    folder = tmp_path_factory.mktemp("npm")
    for source in page_runtime.FILES:
        path = folder / "node_modules" / "@litertjs" / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'import {{ x }} from "@litertjs/wasm-utils"; // {source}')
    write_json(
        folder / "node_modules" / "@litertjs" / "core" / "package.json",
        {"version": page_runtime.VERSION},
    )
    return folder


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Make no networks, which takes time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page_export, "litert_file", lambda *arguments: b"a network")
        patched.setattr(page_export, "rounded", lambda content: content)
        yield


@pytest.fixture(scope="module")
def page(quick, captioner, npm, tmp_path_factory):
    """The folder of a page without playground, with a network and a runtime that do
    nothing.
    """
    return write_page(
        captioner, tmp_path_factory.mktemp("page") / "page", scenes=False, runtime=npm
    )


# === The runtime ===


def test_the_runtime_is_taken_from_an_npm_folder(npm, tmp_path):
    for below in ("", "node_modules", "node_modules/@litertjs"):
        files = page_runtime.runtime_files(npm / below)
        assert files.keys() == {*page_runtime.FILES.values()}
        assert (
            b'from "./wasm-utils.js"' in files["index.js"]
            and b"@litertjs/wasm-utils" not in files["index.js"]
        )
    write_json(tmp_path / "core" / "package.json", {"version": "1.0.0"})
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=f"does not contain LiteRT.js {page_runtime.VERSION}"):
            page_runtime.runtime_files(folder)


def test_the_runtime_is_fetched_once_and_checked(npm, tmp_path, monkeypatch):
    for package in page_runtime.DIGESTS:
        archive = tmp_path / "@litertjs" / package / "-" / f"{package}-{page_runtime.VERSION}.tgz"
        archive.parent.mkdir(parents=True)
        with tarfile.open(archive, mode="w:gz") as packed:
            packed.add(npm / "node_modules" / "@litertjs" / package, "package")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        monkeypatch.setitem(page_runtime.DIGESTS, package, digest)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as registry:
        threading.Thread(target=registry.serve_forever).start()
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{registry.server_port}")
        files = page_runtime.runtime_files()
        registry.shutdown()
    assert files == page_runtime.runtime_files(npm)
    shutil.rmtree(tmp_path / "@litertjs")
    assert page_runtime.runtime_files() == files
    monkeypatch.setitem(page_runtime.DIGESTS, "wasm-utils", "another")
    with pytest.raises(ValueError, match="@litertjs/wasm-utils .* has the wrong digest"):
        page_runtime.runtime_files()
    (kept,) = (tmp_path / "keras" / "keras_sat").glob("*.tgz")
    assert "core" in kept.name


# === The folder ===


def test_a_page_has_all_that_it_needs(page, captioner):
    names = {str(path.relative_to(page)) for path in page.rglob("*") if path.is_file()}
    text = "\n".join(
        (page / name).read_text(encoding="utf-8")
        for name in names
        if name.endswith((".js", ".html"))
    )
    for name in re.findall(r'(?:from|src=|href=) ?"(?:\./)?([\w.]+\.(?:js|css))"', text):
        assert name in names or f"runtime/{name}" in names, name
    settings = json.loads((page / "photo" / "model.json").read_text())
    assert settings["photo_size"] == [64, 64] and settings["grid"] == list(
        captioner.rows_and_columns()
    )
    assert settings["feature_shape"] == list(captioner.feature_shape)
    assert read_litert(page / "photo") == (b"a network", captioner.vocabulary, None, None)
    assert export_folder(page) == page / "photo" and "WEIGHTS_LICENSE.txt" in names


@pytest.mark.parametrize("weight, has_index", [(40.0, True), (0.0, False)])
def test_a_page_knows_whether_the_captioner_has_an_index_which_it_lacks(
    captioner, npm, tmp_path, monkeypatch, weight, has_index
):
    monkeypatch.setattr(captioner, "consensus", "an index")
    rules = dataclasses.replace(captioner.search_settings, consensus_weight=weight)
    monkeypatch.setattr(captioner, "search_settings", rules)
    page = write_page(captioner, tmp_path / "page", scenes=False, runtime=npm)
    assert json.loads((page / "page.json").read_text())["photo"]["has_index"] is has_index


def test_the_page_has_the_hooks_that_programs_read_and_allows_no_script_but_its_own():
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert 'class="sat-page" data-state="loading"' in html
    for hook in (
        r'<input type="file"[^>]*data-role="photo"',
        '<canvas data-role="scene"',
        '"caption"',
        '"message"',
    ):
        assert len(re.findall(hook, html)) == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1].split("; ")
    assert {"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "connect-src 'self'"} <= {
        *policy
    }
    assert re.findall(r"<script(?![^>]*\bsrc=)", html) == [], "no script is inline"
    links = re.findall(r"<a [^>]*>", html)
    assert links and all('target="_blank" rel="noopener"' in link for link in links), (
        "or the photo would be lost"
    )
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in PAGE.glob("*.js"))
    for unsafe in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert unsafe not in scripts
    assert "http://" not in scripts and "https://" not in scripts, "nothing comes from elsewhere"


def test_bad_use_is_rejected_before_anything_is_written(captioner, tmp_path, npm):
    for options, message in (
        ({"precision": "int4"}, "must be one of: float32, int8"),
        ({"max_length": 0}, "max_len"),
    ):
        with pytest.raises(ValueError, match=message):
            write_page(captioner, tmp_path / "page", scenes=False, runtime=npm, **options)
    for foreign in ("{}", "no JSON"):
        (tmp_path / "page.json").write_text(foreign)
        with pytest.raises(
            ValueError, match="A page needs a folder of its own, but this one contains 'page.json'"
        ):
            write_page(captioner, tmp_path, scenes=False, runtime=npm)
    assert [path.name for path in tmp_path.iterdir()] == ["page.json"]


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_page_replaces_a_page_and_leaves_other_files_alone(
    page, captioner, tmp_path, npm, monkeypatch
):
    place = shutil.copytree(page, tmp_path / "page")
    for name in (".git/config", "CNAME"):
        write_whole(place / name, "kept")
    before = files_of(place)
    options = {"name": "Second", "scenes": False, "runtime": npm}
    with monkeypatch.context() as patched:
        patched.setattr(page_export, "rounded", lambda content: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_page(captioner, place, **options)
    assert files_of(place) == before
    link = tmp_path / "link"
    link.symlink_to(place)
    monkeypatch.chdir(place)
    for where in (link, "."):
        write_page(captioner, where, **options)
    assert files_of(place).keys() == before.keys() and link.is_symlink()
    assert json.loads((place / "page.json").read_text())["photo"]["name"] == "Second"


def test_a_page_without_a_runtime_gets_one_later(captioner, tmp_path, npm, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")  # nothing listens there
    with pytest.warns(
        page_export.MissingRuntime, match=r"The page .* lacks LiteRT.js.*`npm install"
    ):
        page = write_page(captioner, tmp_path / "page", scenes=False)
    assert not (page / "runtime").exists()
    page_export.add_runtime(page, npm)
    page_export.add_runtime(page)
    before = files_of(page)
    write_page(captioner, page, scenes=False)  # no warning: the page keeps its runtime
    assert files_of(page) == before


def test_an_export_without_a_runtime_writes_the_page_and_ends_with_2(
    tmp_path, npm, monkeypatch, capsys
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    command = ["export", "scenes", str(tmp_path / "page"), "--web"]
    assert main(command) == 2
    *steps, line = capsys.readouterr().err.strip().split("\n")
    said = ["loading scenes", "reading LiteRT.js", "the captioner of photos (1 of 4)"]
    said += ["scenes (2 of 4)", "scenes-hard (3 of 4)", "scenes-none (4 of 4)", "writing"]
    assert len(steps) == len(said) and all(text in step for text, step in zip(said, steps))
    assert line.startswith(f"keras-sat: The page {tmp_path / 'page'} lacks LiteRT.js")
    assert "pass --runtime node_modules" in line
    assert page_export.is_page(tmp_path / "page") and (tmp_path / "page" / "index.html").exists()
    assert main([*command, "--runtime", str(npm)]) == 0, "as the message says"


def test_a_page_has_the_examples_and_their_credits(captioner, tmp_path, npm):
    page = write_page(captioner, tmp_path / "page", scenes=False, examples=True, runtime=npm)
    photos = sorted((page / "examples").glob("*.jpg"))
    named = re.findall(
        r'src="examples/([\w.]+)" alt="[^"]+"', (page / "index.html").read_text(encoding="utf-8")
    )
    assert sorted(named) == [photo.name for photo in photos] and len(photos) == 6
    assert sum(photo.stat().st_size for photo in photos) <= 250_000
    assert all(max(load_image(photo).shape) <= 480 for photo in photos)
    credits = (page / "examples" / "CREDITS.txt").read_text(encoding="utf-8")
    assert all(photo.name in credits for photo in photos) and "CC0" in credits
    assert json.loads((page / "page.json").read_text())["examples"] is True


# === caption.py ===

# The same class, in another package.
STAND_IN = {
    "__init__": "",
    "interpreter": "from tensorflow.lite.python.interpreter import Interpreter\n",
}


@pytest.mark.slow
def test_caption_py_captions_as_the_captioner_and_names_unreadable_pictures(
    captioner, tmp_path, npm, monkeypatch
):
    monkeypatch.setattr(page_export, "litert_file", litert_file)
    script = (
        write_page(captioner, tmp_path / "page", scenes=False, runtime=npm) / "photo" / "caption.py"
    )
    for name, content in STAND_IN.items():
        write_whole(tmp_path / "ai_edge_litert" / f"{name}.py", content)
    pictures = [
        tmp_path / name for name in ("postscript.jpg", "cut.png", "scene.png", "missing.png")
    ]
    pictures[0].write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    pictures[1].write_bytes(draw_scenes(1, seed=21)[0].png()[:300])
    pictures[2].write_bytes(draw_scenes(1, seed=21)[0].png())
    command = [sys.executable, "-W", "ignore", script, *pictures]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    expected = captioner.caption(pictures[2], num_beams=3).caption
    assert done.returncode == 2 and done.stdout == f"{pictures[2]}\t{expected}\n", done.stderr
    reasons = ("not a picture that can be read", "the picture cannot be read", "No such file")
    lines = [line for line in done.stderr.splitlines() if any(map(line.count, reasons))]
    assert [line.partition(":")[0] for line in lines] == [str(pictures[i]) for i in (0, 1, 3)]
    assert "Traceback" not in done.stderr


WITHOUT_RUNNING = (  # with a package that runs nothing, or, as None, is missing
    "import runpy, sys; from unittest import mock; sys.argv = sys.argv[1:]; "
    "sys.modules |= dict.fromkeys(['ai_edge_litert', 'ai_edge_litert.interpreter'], {package}); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize(
    "name", ["model.tflite.gz", "vocabulary.txt", "litert.json", "the package"]
)
def test_caption_py_names_what_is_damaged_or_missing(page, tmp_path, name):
    folder, package, expected = tmp_path / "photo", "mock.Mock()", f"{tmp_path / 'photo'}: {name}"
    shutil.copytree(page / "photo", folder)
    if name == "the package":
        package, expected = "None", "pip install ai-edge-litert"
    else:
        (folder / name).write_bytes(b"!" + (folder / name).read_bytes()[1:])
    command = [
        sys.executable,
        "-c",
        WITHOUT_RUNNING.format(package=package),
        folder / "caption.py",
        "a.png",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and expected in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture
def words_of_network(monkeypatch):
    """The words that a stand-in for the network says of any picture."""
    words = ["a", "dog"]

    def outputs_of(photo):
        return {"token_ids": np.array([[0, 1]]), "num_words": np.array([2])}

    monkeypatch.setattr(caption_script, "load", lambda: (outputs_of, (8, 8), words))
    return words


def status_of_caption_py(*paths):
    with pytest.raises(SystemExit) as end:
        caption_script.main([str(path) for path in paths])
    return end.value.code


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_caption_py_does_not_wait_for_a_pipe(words_of_network, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.jpg")
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    assert status_of_caption_py(tmp_path / "pipe.jpg", tmp_path, tmp_path / "a.png") == 2
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'a.png'}\ta dog\n"
    assert err.count("(a folder, a pipe or a device)") == 2


def test_caption_py_refuses_a_jpeg_of_many_scans(words_of_network, tmp_path, capsys):
    path = tmp_path / "scans.jpg"
    Image.new("RGB", (64, 64), "red").save(path, progressive=True)
    content = path.read_bytes()
    last_scan = content.rindex(b"\xff\xda")
    start, scan, end = content[:last_scan], content[last_scan:-2], content[-2:]
    assert status_of_caption_py(path) == 0
    path.write_bytes(start + 20 * scan + end)
    assert status_of_caption_py(path) == 0
    path.write_bytes(start + 200 * scan + end)
    assert status_of_caption_py(path) == 2
    assert "more than 100 scans" in capsys.readouterr().err


def test_caption_py_prints_nothing_that_a_terminal_would_obey(words_of_network, tmp_path, capsys):
    words_of_network[0] = "\x1b[31m"
    words_of_network[1] = "क्\u200dष"  # of Hindi, with an invisible sign that belongs to the word
    odd = tmp_path / "\x1b]0;title\x07\u202egnp.png"
    Image.new("RGB", (9, 9)).save(odd)
    assert status_of_caption_py(odd, f"{odd}.gone") == 2
    out, err = capsys.readouterr()
    assert not set("\x1b\x07\u202e") & set(out + err)
    assert r"\x1b]0;title\x07\u202egnp.png" in out and r"\x1b]0;title\x07" in err
    assert out.endswith("\t\\x1b[31m क्\u200dष\n")


def test_caption_py_says_that_its_vocabulary_is_too_short(words_of_network, tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    del words_of_network[1]
    status = status_of_caption_py(tmp_path / "a.png")
    assert "vocabulary.txt lacks words of the network. Export" in status


def test_a_vocabulary_of_something_else_is_rejected_by_caption_py(page, tmp_path):
    folder = shutil.copytree(page / "photo", tmp_path / "photo")
    manifest = json.loads((folder / "litert.json").read_text())
    (folder / "vocabulary.txt").write_text("dog\n")
    without_running = WITHOUT_RUNNING.format(package="mock.Mock()")
    manifest["sha256"]["vocabulary.txt"] = hashlib.sha256(b"dog\n").hexdigest()
    write_json(folder / "litert.json", manifest)
    command = [sys.executable, "-c", without_running, folder / "caption.py", "a.png"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "vocabulary.txt is not the vocabulary of a captioner" in done.stderr


def test_caption_py_reads_pictures_as_load_image_does(tmp_path):
    path = tmp_path / "caption.py"
    path.write_text(caption_py(), encoding="utf-8")
    assert "data_utils" not in "".join(re.findall("^.*import.*$", path.read_text(), re.MULTILINE))
    script = runpy.run_path(str(path))
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (300, 410, 3), np.uint8)
    turned = Image.Exif()
    turned[0x112] = 6
    pictures = {
        "turned.jpg": pixels,
        "large.jpg": np.repeat(np.repeat(pixels, 5, 0), 5, 1),
        "see-through.png": np.dstack([pixels, rng.integers(0, 256, (300, 410), np.uint8)]),
        "grey.png": pixels[..., 0],
        "16-bits.png": rng.integers(0, 65536, (300, 410)).astype(np.uint16),
        "8-of-32-bits.tif": rng.integers(0, 256, (300, 410)).astype(np.int32),
    }
    for name, picture in pictures.items():
        Image.fromarray(picture).save(tmp_path / name, exif=turned)
        found = script["read_photo"](tmp_path / name, 96, 128)[0]
        np.testing.assert_array_equal(found, load_image(tmp_path / name, (96, 128)), err_msg=name)


# === The server ===


def ask(port, path, method="GET", host="localhost"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers={"Host": host})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_the_server_gives_one_folder_and_nothing_else(page, served, tmp_path, capsys):
    place = shutil.copytree(page, tmp_path / "page")
    for secret in (tmp_path / "secret", place / ".secret", place / ".git" / "secret"):
        write_whole(secret, "a secret")
    (place / "x").mkdir()
    for link, target in (("link", "secret"), ("above", ""), ("x/index.html", "secret")):
        (place / link).symlink_to(tmp_path / target)
    port = served(place)
    answer, content = ask(port, "/")
    assert answer.status == 200 and b"sat-page" in content
    assert (
        answer.getheader("X-Content-Type-Options") == "nosniff"
        and answer.getheader("Cache-Control") == "no-store"
    )
    for path, kind in (
        ("/main.js", "text/javascript"),
        ("/runtime/litert_wasm_internal.wasm", "application/wasm"),
    ):
        assert ask(port, f"{path}?x")[0].getheader("Content-Type") == kind
    paths = [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/photo/../../secret",
        "/..\\secret",
        f"{tmp_path}/secret",
    ]
    paths += [
        "/.secret",
        "/%2esecret",
        "/.git/secret",
        "/link",
        "/above/secret",
        "/x/",
        "/runtime/",
        "/.lock",
        "/%00",
    ]
    paths += [
        "/%ed%a0%80",
        "/" + 300 * "a",
        "/" + 3000 * "a/",
        "/main.js/",
        "http://[x/../..",
        "/%ff%fe",
    ]
    for path in paths:
        answer, content = ask(port, path)
        assert answer.status == 404 and b"a secret" not in content, path
    assert ask(port, "/main.js", "POST")[0].status == 501
    assert capsys.readouterr() == ("", "")


def test_half_sent_requests_end_and_block_nobody(page, served, monkeypatch, capsys):
    port = served(page)
    monkeypatch.setattr("keras_sat.export.local_server._Handler.timeout", 0.05)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"GET /main.js HTTP/1.1\r\nHost: ")
        assert ask(port, "/main.js")[0].status == 200
        assert slow.recv(1) == b""  # after the time-out
    assert capsys.readouterr() == ("", "")


HOSTS = {
    "127.0.0.1": 200,
    "localhost:9": 200,
    "evil.example:9": 403,
    "[": 403,
    "127.0.0.1.evil.example": 403,
}
HOSTS |= {"evil.com:80@localhost": 403, "localhost:9\t": 403}


def test_it_answers_to_its_own_name(page, served):
    """A foreign page whose name resolves to this computer (DNS rebinding) reads
    nothing.
    """
    port = served(page)
    assert {host: ask(port, "/main.js", host=host)[0].status for host in HOSTS} == HOSTS


def test_only_this_computer_reaches_it_and_ctrl_c_ends_it(page, capsys, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    opened, server = [], page_server(page)
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: thread.run())
    with pytest.raises(
        ValueError, match="cannot be served at this address .* Choose another address"
    ):
        page_server(page, port=server.server_address[1])
    server.serve_forever = interrupt
    serve(server)
    out = capsys.readouterr().out
    assert re.match(r"http://127\.0\.0\.1:\d+/ \(Ctrl-C ends it\)\n", out) and opened == [
        out.split(" ")[0]
    ]
    for host, own in (("0.0.0.0", "127.0.0.1"), ("::", "[::1]")):
        server.server_address = (host, 80)
        serve(server)
        first, second = capsys.readouterr().out.splitlines()
        assert first.startswith(f"http://{own}:80/ ") and second.endswith(
            ":80/ for other computers"
        )


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6")
def test_it_serves_ipv6(page):
    with page_server(page, "::1") as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"http://[::1]:{server.server_address[1]}/main.js"
        assert urllib.request.urlopen(address, timeout=20).status == 200


# === The command line ===


def test_export_web_and_app(captioner, tmp_path, npm, monkeypatch, capsys):
    written = []

    def write(captioner, directory, **options):
        written.append(options)
        for name in ("index.html", *(f"runtime/{name}" for name in page_runtime.FILES.values())):
            write_whole(Path(directory) / name, "")
        write_json(Path(directory) / "page.json", {"photo": {}, "scenes": []})
        return Path(directory)

    monkeypatch.setattr(page_export, "write_page", write)
    monkeypatch.setattr(
        "keras_sat.export.local_server.serve", lambda server, open_browser: server.server_close()
    )
    command = [
        "export",
        "scenes",
        str(tmp_path / "page"),
        "--web",
        "--runtime",
        str(npm),
        "--num-beams",
        "2",
    ]
    assert main(command) == 0
    assert written == [
        {"name": "scenes", "runtime": str(npm), "num_beams": 2, "show_progress": True}
    ]
    assert "for any static host" in capsys.readouterr().out
    for page in ("page", "page/index.html"):
        assert main(["app", str(tmp_path / page), "--no-browser"]) == 0
    assert len(written) == 1, "the page that is there is served"
    loaded = []
    monkeypatch.setattr(Captioner, "from_pretrained", lambda model, **options: loaded.append(model))
    (tmp_path / "page").rename(tmp_path / "flickr8k")
    monkeypatch.chdir(tmp_path)
    assert main(["app", "--no-browser", "--runtime", str(npm)]) == 0 and len(written) == 2
    assert loaded == [pretrained_directory("flickr8k")], (
        "the bundled one, whatever the current folder holds"
    )


@pytest.mark.parametrize(
    "bad, message", [("--port 99999", "cannot be served at"), ("--runtime x", "npm install")]
)
def test_bad_use_is_one_line(tmp_path, monkeypatch, capsys, bad, message):
    monkeypatch.chdir(tmp_path)
    assert main(["app", "scenes", *bad.split()]) == 2
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith("keras-sat: ") and message in error and not [*Path.cwd().iterdir()]
