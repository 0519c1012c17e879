"""Captioners travel through a server on this machine that speaks the Hugging Face Hub's
HTTP.
"""

import fnmatch
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from keras_sat import Captioner
from keras_sat.__main__ import main
from keras_sat.files import hub
from keras_sat.files.hub import FILES
from keras_sat.files.model_folder import INDEX

constants = pytest.importorskip(
    "huggingface_hub.constants", reason="huggingface_hub is not installed: the hub is not tested"
)
pytestmark = pytest.mark.extras
REPOSITORY = "someone/captioner.1"


class Hub(BaseHTTPRequestHandler):
    """One repository.

    `revisions` has the files of each commit, `branches` the commit of each name,
    `asked` what was downloaded. `spoilt` has answers to kinds of requests.
    """

    def log_message(self, *arguments):
        pass

    def answer(self, content, **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(content if self.command != "HEAD" else b"")

    def commit_called(self, revision):
        return self.server.branches.get(revision, revision)

    def do_GET(self):
        pattern = r"/(revision|tree|resolve)(?:/([^/?]+))?/?([^?]*)"
        kind, revision, name = re.search(pattern, self.path).groups()
        commit = self.commit_called(revision)
        files = self.server.revisions.get(commit, {} if revision == "main" else None)
        if kind in self.server.spoilt:
            self.answer(self.server.spoilt[kind])
        elif files is None or (kind == "resolve" and name not in files):
            self.send_error(404)
        elif kind == "resolve":
            self.server.asked += [name] * (self.command == "GET")
            self.answer(
                files[name], ETag=f'"{hashlib.sha1(files[name]).hexdigest()}"', X_Repo_Commit=commit
            )
        elif kind == "tree":
            self.answer(
                [
                    {"type": "file", "path": name, "size": len(files[name]), "oid": "0"}
                    for name in files
                ]
            )
        else:
            self.answer({"id": REPOSITORY, "sha": commit})

    do_HEAD = do_GET


@pytest.fixture
def server(tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.revisions, server.branches, server.asked, server.spoilt = {}, {}, [], {}
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        # HF_ENDPOINT is read when the library is imported
        endpoint = f"http://127.0.0.1:{server.server_port}"
        template = re.sub("^https://[^/]+", endpoint, constants.HUGGINGFACE_CO_URL_TEMPLATE)
        settings = {
            "ENDPOINT": endpoint,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_CACHE": str(tmp_path / "hub"),
        }
        for name, value in {**settings, "HF_HUB_DISABLE_IMPLICIT_TOKEN": True}.items():
            monkeypatch.setattr(constants, name, value)
        hub.hub_folder.cache_clear()
        yield server
        hub.hub_folder.cache_clear()
        server.shutdown()


@pytest.fixture
def captioner():
    captioner = Captioner(["dog"], encoder="tiny", embedding_dim=8, hidden_dim=8, attention_dim=8)
    captioner.build_once((1, 64, 64, 3))
    return captioner


def publish(captioner, server, folder):
    """Save a captioner, and make it the newest commit of the hub; return the commit."""
    captioner.save(folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    commit = hashlib.sha1(files["config.json"]).hexdigest()
    server.revisions[commit], server.branches["main"] = files, commit
    return commit


def test_a_captioner_is_loaded_pinned_and_found_without_network(
    captioner, server, tmp_path, monkeypatch
):
    commit = publish(captioner, server, tmp_path / "first")
    first = f"hf://{REPOSITORY}@{commit}"
    captioner.baseline.assign(1.0)
    publish(captioner, server, tmp_path / "second")
    [*server.revisions.values()][1]["code.py"] = b"raise SystemExit"
    newest = Captioner.from_pretrained(f"hf://{REPOSITORY}")
    assert newest.weights_digest() == captioner.weights_digest() and "code.py" not in server.asked
    code = f"from keras_sat.files.hub import hub_folder; print(hub_folder({first!r}))"
    environment = {
        **os.environ,
        "HF_ENDPOINT": constants.ENDPOINT,
        "HF_HUB_CACHE": str(tmp_path / "other"),
    }
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert (ran.stdout.strip(), ran.stderr) == (
        str(next((tmp_path / "other").glob(f"*/snapshots/{commit}"))),
        "",
    )
    older = Captioner.from_pretrained(first)
    assert older.weights_digest() != captioner.weights_digest()
    older.adapted(dropout_words=0.1).save(tmp_path / "mine")
    digest = hashlib.sha256(server.revisions[commit]["config.json"]).hexdigest()
    assert (
        Captioner.load(tmp_path / "mine").source == f"{first} (config.json has the digest {digest})"
    )

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.hub_folder.cache_clear()
    assert (
        Captioner.from_pretrained(f"hf://{REPOSITORY}").weights_digest()
        == captioner.weights_digest()
    )


@pytest.mark.parametrize(
    "model, message",
    [
        (
            "hf://nobody",
            "Expected hf://owner/name or hf://owner/name@revision. Received: 'hf://nobody'",
        ),
        (
            f"hf://{REPOSITORY}@gone",
            "@gone cannot be downloaded. Check the address, the network, and your access",
        ),
        (f"hf://{REPOSITORY}@damaged", "config.json: the file is damaged or of the wrong kind."),
        (f"hf://{REPOSITORY}@empty", "this folder has no model (config.json is missing)"),
    ],
)
def test_what_is_not_a_model_is_one_sentence(model, message, server, capsys):
    server.revisions |= {"damaged": {"config.json": b"{}"}, "empty": {"model.tflite": b"never run"}}
    assert main(["evaluate", "--data", "scenes", "--model", model]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and {*server.asked} <= {"config.json"}


# === Text of strangers ===

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize("source", [SCRIPT, "[a](javascript:alert)", f"hf://a/b@c{SCRIPT}", 7])
def test_only_addresses_on_the_hub_are_a_source(captioner, tmp_path, source):
    captioner.source = source
    captioner.save(tmp_path)
    with pytest.warns(UserWarning, match="started from something that is not on the hub"):
        assert Captioner.load(tmp_path).source is None


# === Answers that no hub gives ===

ODD = {
    "a login page": {"revision": b"<html>Welcome to our hotel</html>"},
    "no commit": {"revision": b'{"id": "someone/captioner.1"}'},
    "a list": {"revision": b"[1, 2]"},
    "odd files": {"tree": b'[{"type": "file"}]'},
    "files that are numbers": {"tree": b"[7]"},
    "a login page in the place of files": {"tree": b"<html>"},
}


@pytest.mark.parametrize("spoilt", ODD.values(), ids=ODD)
def test_an_answer_that_no_hub_gives_is_one_sentence_that_names_the_hub(spoilt, server, capsys):
    server.revisions["c" * 40], server.branches["main"] = {"config.json": b"{}"}, "c" * 40
    server.spoilt |= spoilt
    assert main(["evaluate", "--data", "scenes", "--model", f"hf://{REPOSITORY}"]) == 2
    error = capsys.readouterr().err
    assert f"{constants.ENDPOINT} is not the Hugging Face Hub. Open that address in a" in error
    assert error.count("\n") == 1


def test_every_file_of_a_captioner_is_downloaded():
    for kind in ("weights", "encoder", INDEX):
        name = f"{kind}-0123456789abcdef.npz"
        assert any(fnmatch.fnmatch(name, pattern) for pattern in FILES), name
