"""Captioners travel through a server on this machine that speaks the Hugging Face Hub's
HTTP.
"""

import base64
import fnmatch
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from data_utils.training_photos import from_settings
from keras_sat import Captioner, ScoreTable
from keras_sat.__main__ import main
from keras_sat.files import hub, model_card
from keras_sat.files.hub import FILES
from keras_sat.files.model_folder import PARTS, pretrained_directory

constants = pytest.importorskip(
    "huggingface_hub.constants", reason="huggingface_hub is not installed: the hub is not tested"
)
pytestmark = pytest.mark.extras
REPOSITORY = "someone/captioner.1"
BLANK = np.zeros((64, 64, 3), np.uint8)


class Hub(BaseHTTPRequestHandler):
    """One repository.

    `revisions` has the files of each commit, `branches` and `tags` the commit of each
    name, `asked` what was downloaded. `spoilt` has answers to kinds of requests.
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
        pattern = r"/(revision|tree|resolve|refs)(?:/([^/?]+))?/?([^?]*)"
        kind, revision, name = re.search(pattern, self.path).groups()
        commit = self.commit_called(revision)
        files = self.server.revisions.get(commit, {} if revision == "main" else None)
        if kind in self.server.spoilt:
            self.answer(self.server.spoilt[kind])
        elif kind == "refs":
            lists = {"branches": self.server.branches, "tags": self.server.tags, "converts": {}}
            self.answer({key: list(map(as_ref, refs.items())) for key, refs in lists.items()})
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

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        here = f"{constants.ENDPOINT}/{REPOSITORY}"
        name = self.path.rpartition("/")[2]
        if "/preupload/" in self.path:
            kind = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer(
                {"files": [{"path": file["path"], **kind} for file in json.loads(body)["files"]]}
            )
        elif "/branch/" in self.path:
            self.server.branches[name] = json.loads(body)["startingPoint"]
            self.answer({})
        elif "/commit/" in self.path:
            self.commit(body, name, here)
        else:
            self.answer({"url": here, "errors": [], "warnings": []})

    def commit(self, body, branch, here):
        before = self.server.branches.get(branch)
        files, commit = dict(self.server.revisions.get(before, {})), hashlib.sha1(body).hexdigest()
        for key, value in [json.loads(line).values() for line in body.splitlines()]:
            if key == "header" and value.get("parentCommit") != before:
                return self.send_error(412)
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "deletedFile":
                del files[value["path"]]
        self.server.revisions[commit], self.server.branches[branch] = files, commit
        return self.answer({"commitUrl": f"{here}/commit/{commit}", "commitOid": commit})


def as_ref(name_and_commit):
    name, commit = name_and_commit
    return {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit}


@pytest.fixture
def server(tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.revisions, server.branches, server.tags = {}, {}, {}
        server.asked, server.spoilt = [], {}
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        # HF_ENDPOINT is read when the library is imported
        endpoint = f"http://127.0.0.1:{server.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(
            constants._HF_DEFAULT_ENDPOINT, endpoint
        )
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


def test_a_captioner_is_pushed_loaded_pinned_and_found_without_network(
    captioner, server, tmp_path, monkeypatch
):
    from huggingface_hub import ModelCard

    scores = ScoreTable({"bleu_4": 0.25, "meteor": None}, {"data": "flickr8k", "split": "dev"}, [])
    first = captioner.push_to_hub(REPOSITORY, scores=scores, license="apache-2.0")
    (commit,) = server.revisions
    assert first == f"hf://{REPOSITORY}@{commit}"
    head = ModelCard(server.revisions[commit]["README.md"].decode()).data.to_dict()
    assert (head["pipeline_tag"], head["license"], head["datasets"]) == (
        "image-to-text",
        "apache-2.0",
        ["flickr8k"],
    )
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["split"] == "dev" and result["metrics"] == [
        {"type": "bleu_4", "value": 0.25}
    ]
    captioner.baseline.assign(1.0)
    bundled = json.loads((pretrained_directory("flickr8k") / "config.json").read_text())
    captioner.training_photos = from_settings(bundled)
    captioner.push_to_hub(REPOSITORY)
    card = [*server.revisions.values()][1]["README.md"].decode()
    assert ModelCard(card).data.license == "other" and "trained on 6,000 photos" in card
    assert [len(files) for files in server.revisions.values()] == [4, 4], "old weights are removed"

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
            "@gone cannot be transferred. Check the address, the network, and your access",
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


# === Where a captioner is pushed ===


def test_a_captioner_is_pushed_to_the_branch_that_is_named(captioner, server):
    captioner.push_to_hub(REPOSITORY)
    on_main = dict(server.branches)
    address = captioner.push_to_hub(f"{REPOSITORY}@trial")
    assert address == f"hf://{REPOSITORY}@{server.branches['trial']}"
    captioner.baseline.assign(1.0)
    captioner.push_to_hub(f"{REPOSITORY}@trial")
    assert server.branches.keys() == {"main", "trial"}
    assert server.branches["main"] == on_main["main"]
    card = server.revisions[server.branches["trial"]]["README.md"].decode()
    assert f'from_pretrained("hf://{REPOSITORY}@trial")' in card
    loaded = Captioner.from_pretrained(f"hf://{REPOSITORY}@trial")
    assert loaded.weights_digest() == captioner.weights_digest()


@pytest.mark.parametrize("revision", ["v1", "0" * 40])
def test_a_tag_or_a_commit_cannot_be_pushed_to(captioner, server, revision):
    captioner.push_to_hub(REPOSITORY)
    server.tags["v1"] = server.branches["main"]
    before = dict(server.branches)
    with pytest.raises(ValueError, match="A tag or a commit cannot be changed. Pass a branch"):
        captioner.push_to_hub(f"{REPOSITORY}@{revision}")
    assert server.branches == before


@pytest.mark.parametrize("branch", ["", "@trial"])
@pytest.mark.parametrize(
    "files",
    [{"README.md": b"mine"}, {"config.json": b'{"architectures": []}', ".gitattributes": b""}],
)
def test_what_is_not_a_captioner_is_never_replaced(captioner, server, files, branch):
    server.revisions["a" * 40], server.branches["main"] = dict(files), "a" * 40
    first = next(iter(files))
    with pytest.raises(ValueError, match=f"something else than a captioner.*new repo.*{first}"):
        captioner.push_to_hub(REPOSITORY + branch)
    assert server.revisions == {"a" * 40: files} and server.branches == {"main": "a" * 40}


def test_an_empty_repository_is_filled_and_a_push_from_elsewhere_meanwhile_is_not_replaced(
    captioner, server, monkeypatch
):
    server.revisions["a" * 40], server.branches["main"] = {".gitattributes": b""}, "a" * 40
    captioner.push_to_hub(REPOSITORY)
    assert "config.json" in server.revisions[server.branches["main"]]

    def push_first(api, address, commit, files):
        server.revisions["b" * 40] = {"README.md": b"of somebody else"}
        server.branches["main"] = "b" * 40

    monkeypatch.setattr(model_card, "_reject_foreign_repository", push_first)
    with pytest.raises(ValueError, match="cannot be transferred"):
        captioner.push_to_hub(REPOSITORY)
    assert server.branches["main"] == "b" * 40


# === Text of strangers ===

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize("source", [SCRIPT, "[a](javascript:alert)", f"hf://a/b@c{SCRIPT}", 7])
def test_only_addresses_on_the_hub_are_a_source(captioner, tmp_path, source):
    captioner.source = source
    captioner.save(tmp_path)
    with pytest.warns(UserWarning, match="started from something that is not on the hub"):
        assert Captioner.load(tmp_path).source is None


def test_text_of_a_model_folder_is_code_in_its_card(captioner):
    captioner.source = f"`{SCRIPT}`\n# [a](javascript:alert)"
    captioner.photo_encoder.name = SCRIPT
    card = model_card.model_card(captioner, f"hf://{REPOSITORY}", None, None)
    assert f"encoder\n`{SCRIPT}`\nand" in card
    assert f"It started from `'{SCRIPT}'\\n# [a](javascript:alert)`." in card


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


def test_a_login_page_ends_a_push_in_one_sentence(captioner, server):
    server.spoilt["refs"] = b"<html>"
    with pytest.raises(ValueError, match="is not the Hugging Face Hub"):
        captioner.push_to_hub(REPOSITORY)


def test_every_file_of_a_captioner_is_downloaded():
    for kind in ("weights", "encoder", *PARTS):
        name = f"{kind}-0123456789abcdef.npz"
        assert any(fnmatch.fnmatch(name, pattern) for pattern in FILES), name
