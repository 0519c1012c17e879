"""Uploads captioners to the Hugging Face Hub, each with a model card."""

import contextlib
import json
import re
import tempfile
from pathlib import Path

import numpy as np

from data_utils.atomic_files import read_sealed_json
from data_utils.foreign_text import brief, visible
from data_utils.training_photos import from_settings
from keras_sat.files.hub import FILES, hub_folder, hub_library, parts_of, transfers
from keras_sat.files.model_folder import EXPECTED, PRETRAINED
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.scoring.scores import columns

COMMIT = re.compile("[0-9a-f]{40}")


def push(captioner, repository, *, scores=None, license=None, private=None, precision="float32"):
    """Upload a captioner with a model card; return its address with the commit.

    Args:
        captioner: Captioner.
        repository: "owner/name", or "owner/name@branch". The repository and the branch
            are created if needed. What they hold must be a captioner of keras_sat,
            which is replaced.
        scores: ScoreTable of `keras_sat.evaluate`, for the model card.
        license: the hub's name of a licence, such as "apache-2.0". None: not stated, or
            non-commercial if the captioner was trained on Flickr8k, like the bundled
            ones.
        private: whether a new repository is private; None: the owner's default.
        precision: see `Captioner.save`.
    """
    address = f"hf://{repository}"
    repository, branch = parts_of(address)
    api = hub_library(address).HfApi()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "model")
        captioner.save(folder, precision=precision)
        card = model_card(captioner, address, scores, license)
        (folder / "README.md").write_text(card, encoding="utf-8")
        with transfers(address):
            api.create_repo(repository, private=private, exist_ok=True)
        commit = _branch_to_replace(api, address)
        with transfers(address):
            pushed = api.upload_folder(
                repo_id=repository,
                revision=branch,
                parent_commit=commit,  # fails if there is a newer one
                folder_path=folder,
                ignore_patterns="lock*",
                delete_patterns=FILES,
                commit_message="A captioner of keras_sat",
            )
    hub_folder.cache_clear()
    return f"hf://{repository}@{pushed.oid}"


def _branch_to_replace(api, address):
    """Create the branch in an address if needed; return its newest commit or None.

    Raises:
        ValueError: the repository holds something else than a captioner, or it is no
            branch.
    """
    repository, branch = parts_of(address)
    with transfers(address):
        refs = api.list_repo_refs(repository)
        commits = {ref.name: ref.target_commit for ref in refs.branches}
        is_new = branch is not None and branch not in commits
        commit = commits.get("main" if branch is None or is_new else branch)
        files = [] if commit is None else api.list_repo_files(repository, revision=commit)
    if is_new and (branch in [ref.name for ref in refs.tags] or COMMIT.fullmatch(branch)):
        raise ValueError(
            "A tag or a commit cannot be changed. Pass a branch, owner/name@branch. "
            f"Received: {address}"
        )
    _reject_foreign_repository(api, address, commit, files)
    if is_new:
        with transfers(address):
            api.create_branch(repository, branch=branch, revision=commit)
    return commit


def _reject_foreign_repository(api, address, commit, files):
    """Raise ValueError if the files at a commit are not those of a captioner."""
    pushed_files = sorted(set(files) - {".gitattributes"})  # which the hub writes
    if not pushed_files:
        return
    if "config.json" in pushed_files:
        repository, _ = parts_of(address)
        with transfers(address):
            config = api.hf_hub_download(repository, "config.json", revision=commit)
        with contextlib.suppress(ValueError):
            read_sealed_json(config, EXPECTED)
            return
    raise ValueError(
        f"{address} contains something else than a captioner of keras_sat, whose README.md and "
        "config.json would be replaced. Push to a new repository, or remove its files first. "
        f"Received: {brief(', '.join(pushed_files))}"
    )


def model_card(captioner, address, scores, license):
    """Return the text of a model card, whose head is YAML for the hub.

    `address` is hf://owner/name or hf://owner/name@branch; for the others, see `push`.
    """
    repository, _ = parts_of(address)
    head = {"library_name": "keras_sat", "pipeline_tag": "image-to-text"}
    bundled = from_settings(read_sealed_json(PRETRAINED / DEFAULT_MODEL / "config.json", EXPECTED))
    seen = captioner.training_photos
    if license is not None:
        head["license"] = license
    elif seen is not None and np.isin(bundled.names, seen.names).mean() > 0.5:
        head |= {"license": "other", "license_name": "non-commercial-research-and-education"}
    if scores is not None:
        data = scores.settings["data"]
        values = {name: scores.scores.get(name) for name in columns()}
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
    parts += [f"# {repository}\n\nAn image captioner with {captioner.attention} attention, encoder"]
    parts += [_as_code(captioner.encoder)]
    parts += [f"and {len(captioner.vocabulary):,} tokens, trained on {photos} photos."]
    parts += [f"It started from {_as_code(captioner.source)}."] if captioner.source else []
    loading = f'keras_sat.Captioner.from_pretrained("{address}")'
    parts += [f"\n```python\nimport keras_sat\n\n{loading}\n```"]
    return "\n".join([*parts, f"\n```\n{scores}\n```\n" if scores is not None else ""])


def _as_code(text):
    """Return text as inline code of Markdown, in which tags and links mean nothing."""
    without_backticks = visible(text).replace("`", "'")
    return f"`{without_backticks}`"
