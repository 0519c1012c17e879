"""Captioners travel through a server on this machine that speaks the Hugging Face Hub's
HTTP.
"""

import base64
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
from keras_sat.files import hub
from keras_sat.files.model_folder import pretrained_directory

constants = pytest.importorskip(
    "huggingface_hub.constants", reason="huggingface_hub is not installed: the hub is not tested"
)
REPOSITORY = "someone/captioner.1"
BLANK = np.zeros((64, 64, 3), np.uint8)


class Hub(BaseHTTPRequestHandler):
    """One repository: `revisions` has the files of each commit, the newest last;
    `asked` what was downloaded.
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

    def do_GET(self):
        revisions = {**self.server.revisions, "main": [{}, *self.server.revisions.values()][-1]}
        kind, revision, name = re.search(
            r"/(revision|tree|resolve)/([^/?]+)/?([^?]*)", self.path
        ).groups()
        files = revisions.get(revision)
        commit = next((commit for commit in revisions if revisions[commit] is files), None)
        if files is None or (kind == "resolve" and name not in files):
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
        body, revisions = (
            self.rfile.read(int(self.headers["Content-Length"])),
            self.server.revisions,
        )
        here = f"{constants.ENDPOINT}/{REPOSITORY}"
        if "/preupload/" in self.path:
            kind = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer(
                {"files": [{"path": file["path"], **kind} for file in json.loads(body)["files"]]}
            )
        elif "/commit/" in self.path:
            files, commit = dict([{}, *revisions.values()][-1]), hashlib.sha1(body).hexdigest()
            for key, value in [json.loads(line).values() for line in body.splitlines()]:
                if key == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif key == "deletedFile":
                    del files[value["path"]]
            revisions[commit] = files
            self.answer({"commitUrl": f"{here}/commit/{commit}", "commitOid": commit})
        else:
            self.answer({"url": here, "errors": [], "warnings": []})


@pytest.fixture
def server(tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.revisions, server.asked = {}, []
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


def test_a_captioner_is_pushed_loaded_pinned_and_found_without_network(
    server, tmp_path, monkeypatch
):
    from huggingface_hub import ModelCard

    captioner = Captioner(["dog"], encoder="tiny", embedding_dim=8, hidden_dim=8, attention_dim=8)
    captioner.caption(BLANK, max_length=2)
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
