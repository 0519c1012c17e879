"""Uploads captioners to the Hugging Face Hub, each with a model card."""

import json
import tempfile
from pathlib import Path

import numpy as np

from data_utils.atomic_files import read_sealed_json
from data_utils.training_photos import from_settings
from keras_sat.files.hub import FILES, hub_folder, hub_library
from keras_sat.files.model_folder import EXPECTED, PRETRAINED
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.scoring.scores import columns


def push(captioner, repository, *, scores=None, license=None, private=None, precision="float32"):
    """Upload a captioner with a model card; return its address with the revision.

    Args:
        captioner: Captioner.
        repository: "owner/name"; created if needed.
        scores: ScoreTable of `keras_sat.evaluate`, for the model card.
        license: the hub's name of a licence, such as "apache-2.0". None: not stated, or
            non-commercial if the captioner was trained on Flickr8k, like the bundled
            ones.
        private: whether a new repository is private; None: the owner's default.
        precision: see `Captioner.save`.
    """
    with (
        hub_library(f"hf://{repository}") as (hub, repository, _),
        tempfile.TemporaryDirectory() as temporary,
    ):
        folder, api = Path(temporary, "model"), hub.HfApi()
        captioner.save(folder, precision=precision)
        (folder / "README.md").write_text(
            model_card(captioner, repository, scores, license), encoding="utf-8"
        )
        api.create_repo(repository, private=private, exist_ok=True)
        sent = {"folder_path": folder, "ignore_patterns": "lock*", "delete_patterns": FILES}
        commit = api.upload_folder(
            repo_id=repository, commit_message="A captioner of keras_sat", **sent
        )
    hub_folder.cache_clear()
    return f"hf://{repository}@{commit.oid}"


def model_card(captioner, repository, scores, license):
    """Return the text of a model card, whose head is YAML for the hub; see `push`."""
    head = {"library_name": "keras_sat", "pipeline_tag": "image-to-text"}
    bundled = from_settings(read_sealed_json(PRETRAINED / DEFAULT_MODEL / "config.json", EXPECTED))
    seen = captioner.training_photos
    if license is not None:
        head["license"] = license
    elif seen is not None and np.isin(bundled.names, seen.names).mean() > 0.5:
        head |= {"license": "other", "license_name": "non-commercial-research-and-education"}
    if scores is not None:
        data, values = (
            scores.settings["data"],
            {name: scores.scores.get(name) for name in columns()},
        )
        metrics = [
            {"type": name, "value": value} for name, value in values.items() if value is not None
        ]
        dataset = {"name": data, "type": data, "split": scores.settings["split"]}
        result = {"task": {"type": "image-to-text"}, "dataset": dataset, "metrics": metrics}
        head |= {"datasets": [data], "metrics": [metric["type"] for metric in metrics]}
        head["model-index"] = [{"name": repository, "results": [result]}]
    photos = "an unknown number of" if seen is None else f"{len(seen.names):,}"
    parts = [
        "---",
        *(f"{name}: {json.dumps(value)}" for name, value in head.items()),
        "---",
    ]  # JSON is YAML
    parts += [
        f"# {repository}\n\nAn image captioner with {captioner.attention} attention, "
        f"encoder {captioner.encoder}"
    ]
    parts += [f"and {len(captioner.vocabulary):,} tokens, trained on {photos} photos."]
    parts += [f"It started from {captioner.source}."] if captioner.source else []
    parts += [
        "\n```python\nimport "
        f'keras_sat\n\nkeras_sat.Captioner.from_pretrained("hf://{repository}")\n```'
    ]
    return "\n".join([*parts, f"\n```\n{scores}\n```\n" if scores is not None else ""])
