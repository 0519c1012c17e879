"""Captioners travel through a server on this machine that speaks the Hugging Face Hub's HTTP."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from keras_sat import Captioner, ScoreTable
from keras_sat.__main__ import main
from keras_sat.files import hub

constants = pytest.importorskip(
    "huggingface_hub.constants", reason="huggingface_hub is not installed: the hub is not tested"
)
REPOSITORY = "someone/captioner.1"


class Hub(BaseHTTPRequestHandler):
    """One repository, without history: `revisions` has the files of each commit, `asked` the files downloaded."""

    def log_message(self, *arguments):
        pass

    def answer(self, content, **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(content if self.command != "HEAD" else b"")

    def do_GET(self):
        revisions = self.server.revisions
        if self.path.startswith("/api/") and "/tree/" not in self.path:
            is_known = self.path.endswith(REPOSITORY) or self.path.rpartition("/")[2] in revisions
            return self.answer({"id": REPOSITORY}) if is_known else self.send_error(404)
        if "/tree/" in self.path:
            files = revisions[[*revisions][-1]] if revisions else {}
            return self.answer([{"type": "file", "path": name, "size": 1, "oid": "0"} for name in files])
        revision, name = re.fullmatch(rf"/{REPOSITORY}/resolve/([^/]+)/(.+)", self.path).groups()
        revision = [*revisions][-1] if revision == "main" else revision
        content = revisions.get(revision, {}).get(name)
        if content is None:
            return self.send_error(404)
        self.server.asked += [name] * (self.command == "GET")
        return self.answer(content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=revision)

    do_HEAD = do_GET

    def do_POST(self):
        body, revisions = self.rfile.read(int(self.headers["Content-Length"])), self.server.revisions
        if "/preupload/" in self.path:
            kind = {"uploadMode": "regular", "shouldIgnore": False}
            return self.answer({"files": [{"path": file["path"], **kind} for file in json.loads(body)["files"]]})
        if "/commit/" not in self.path:
            return self.answer({"url": f"{constants.ENDPOINT}/{REPOSITORY}", "errors": [], "warnings": []})
        files, commit = dict(revisions[[*revisions][-1]]) if revisions else {}, hashlib.sha1(body).hexdigest()
        for key, value in [json.loads(line).values() for line in body.splitlines()]:
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "deletedFile":
                del files[value["path"]]
        revisions[commit] = files
        return self.answer({"commitUrl": f"{constants.ENDPOINT}/{REPOSITORY}/commit/{commit}", "commitOid": commit})


@pytest.fixture
def server(tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.revisions, server.asked = {}, []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"  # HF_ENDPOINT is read when the library is imported
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants._HF_DEFAULT_ENDPOINT, endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        hub.hub_folder.cache_clear()
        yield server
        hub.hub_folder.cache_clear()
        server.shutdown()


@pytest.fixture
def captioner():
    captioner = Captioner(["dog"], encoder="tiny", embedding_dim=8, hidden_dim=8, attention_dim=8)
    captioner.caption(np.zeros((64, 64, 3), np.uint8), max_length=2)
    return captioner


def test_a_captioner_is_pushed_loaded_pinned_and_found_without_network(server, captioner, tmp_path, monkeypatch):
    from huggingface_hub import ModelCard

    scores = ScoreTable({"bleu_4": 0.25, "meteor": None}, {"data": "flickr8k", "split": "dev"}, [])
    first = captioner.push_to_hub(REPOSITORY, scores=scores, license="apache-2.0")
    (commit,) = server.revisions
    assert first == f"hf://{REPOSITORY}@{commit}"
    card = server.revisions[commit]["README.md"].decode()
    head = ModelCard(card).data.to_dict()
    assert (head["library_name"], head["pipeline_tag"]) == ("keras_sat", "image-to-text")
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["split"] == "dev" and result["metrics"] == [{"type": "bleu_4", "value": 0.25}]
    captioner.baseline.assign(1.0)
    captioner.push_to_hub(REPOSITORY)
    assert len(server.revisions) == 2 and {*map(len, server.revisions.values())} == {4}, "old weights are removed"

    server.revisions[[*server.revisions][1]]["code.py"] = b"print('never')"
    newest = Captioner.from_pretrained(f"hf://{REPOSITORY}")
    assert newest.weights_digest() == captioner.weights_digest() and "code.py" not in server.asked
    older = Captioner.from_pretrained(first)
    assert older.weights_digest() != captioner.weights_digest()
    digest = hashlib.sha256(server.revisions[commit]["config.json"]).hexdigest()
    older.adapted(dropout_words=0.1).save(tmp_path / "mine")
    assert Captioner.load(tmp_path / "mine").source == f"{first} (config.json has the digest {digest})"

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.hub_folder.cache_clear()
    assert Captioner.from_pretrained(f"hf://{REPOSITORY}").weights_digest() == captioner.weights_digest()


@pytest.mark.parametrize(
    "model, message",
    [
        ("hf://nobody", "Expected hf://owner/name or hf://owner/name@revision. Received: 'hf://nobody'"),
        (f"hf://{REPOSITORY}@gone", "@gone cannot be transferred. Check the address, the network, and your access"),
        (f"hf://{REPOSITORY}@damaged", "config.json: the file is damaged or of the wrong kind."),
        (f"hf://{REPOSITORY}@outside", "config.json: this is not a model"),
    ],
)
def test_what_is_not_a_model_is_one_sentence(model, message, server, capsys):
    files = {"weights": "../../weights.npz", "vocabulary": "vocabulary-0123456789abcdef.json"}
    sealed = {"format": "captioner", "version": 1, "files": files}
    sealed["digest"] = hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()[:16]
    server.revisions |= {"damaged": {"config.json": b"{}"}, "outside": {"config.json": json.dumps(sealed).encode()}}
    assert main(["caption", "docs/photo.jpg", "--model", model]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and {*server.asked} <= {"config.json"}
