"""Captioners on the Hugging Face Hub: hf://owner/name, or hf://owner/name@revision.

The package huggingface_hub (extra `hub`) transfers and caches the files. Only config.json and the files that it names
are downloaded, and they are checked like those of any untrusted model folder.
"""

import contextlib
import functools
import hashlib
import json
import re
import tempfile
from pathlib import Path

import numpy as np

from data_utils.atomic_files import read_bytes, read_sealed_json
from data_utils.foreign_text import brief
from data_utils.training_photos import from_settings
from keras_sat.files.model_folder import EXPECTED, PRETRAINED, WAY_OUT, listed_files
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.scoring.scores import columns

BUNDLED = PRETRAINED / DEFAULT_MODEL / "config.json"
ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")

CARD = """---
{yaml}---
# {repository}

An image captioner: {facts}.

```python
import keras_sat

captioner = keras_sat.Captioner.from_pretrained("hf://{repository}")
print(captioner.caption("photo.jpg").caption)
```
{scores}"""


@functools.cache
def hub_folder(address):
    """Return the cached folder of a model on the hub; without network, a model downloaded before is used.

    Within a process, an address without a revision stays the same model.
    """
    repository, revision = _parts(address)
    with _hub(address) as (hub, errors):
        api = hub.HfApi()
        try:
            api.model_info(repository, revision=revision, timeout=10)  # unlike a download, without retries
            config = api.hf_hub_download(repository, "config.json", revision=revision)
        except errors:
            config = hub.try_to_load_from_cache(repository, "config.json", revision=revision)
            if not isinstance(config, str):
                raise
        config = Path(config)
        for name in listed_files(read_sealed_json(config, EXPECTED, WAY_OUT), config).values():
            api.hf_hub_download(repository, name, revision=config.parent.name)
    return config.parent


def pinned(address, folder):
    """Return an address with its commit and the digest of its config.json, which has the digests of the other files."""
    digest = hashlib.sha256(read_bytes(folder / "config.json")).hexdigest()
    return f"hf://{_parts(address)[0]}@{folder.name} (config.json has the digest {digest})"


def push(captioner, repository, scores, license, private, precision):
    """Upload a captioner and its model card; see `Captioner.push_to_hub`."""
    repository, revision = _parts(f"hf://{repository.removeprefix('hf://')}")
    with tempfile.TemporaryDirectory() as temporary, _hub(f"hf://{repository}") as (hub, _):
        captioner.save(Path(temporary, "model"), precision=precision)
        Path(temporary, "model", "README.md").write_text(model_card(captioner, repository, scores, license), "utf-8")
        hub.HfApi().create_repo(repository, private=private, exist_ok=True)
        commit = hub.HfApi().upload_folder(
            repo_id=repository,
            folder_path=Path(temporary, "model"),
            revision=revision,
            ignore_patterns="lock*",
            delete_patterns=["weights-*", "vocabulary-*", "encoder-*"],
            commit_message="A captioner of keras_sat",
        )
    hub_folder.cache_clear()
    return f"hf://{repository}@{commit.oid}"


def model_card(captioner, repository, scores=None, license=None):
    """Return the text of a model card, with the YAML head that the hub reads; see `Captioner.push_to_hub`."""
    head = {"library_name": "keras_sat", "pipeline_tag": "image-to-text", "license": license}
    seen, flickr8k = captioner.training_photos, from_settings(read_sealed_json(BUNDLED, EXPECTED, WAY_OUT))
    if license is None and seen is not None and np.isin(flickr8k.names, seen.names).mean() > 0.5:
        head |= {"license": "other", "license_name": "non-commercial-research-and-education"}
    if scores is not None:
        metrics = [{"type": name, "value": scores.scores[name]} for name in columns() if scores.scores.get(name)]
        data = {"name": scores.settings["data"], "type": scores.settings["data"], "split": scores.settings["split"]}
        result = {"task": {"type": "image-to-text"}, "dataset": data, "metrics": metrics}
        head |= {"datasets": [data["name"]], "metrics": [metric["type"] for metric in metrics]}
        head["model-index"] = [{"name": repository, "results": [result]}]
    yaml = "".join(f"{name}: {json.dumps(value)}\n" for name, value in head.items() if value)  # JSON is YAML
    photos = "an unknown number of" if seen is None else f"{len(seen.names):,}"
    return CARD.format(
        yaml=yaml,
        repository=repository,
        facts=f"{captioner.attention} attention, encoder {captioner.encoder}, {len(captioner.vocabulary):,} tokens; "
        f"trained on {photos} photos" + (f", from {captioner.source}" if captioner.source else ""),
        scores="" if scores is None else f"\n```\n{scores}\n```\n",
    )


def _parts(address):
    """Return the repository and the revision (or None) of an address."""
    if not (match := ADDRESS.fullmatch(address)):
        raise ValueError(f"Expected hf://owner/name or hf://owner/name@revision. Received: {brief(address)}")
    return match.groups()


@contextlib.contextmanager
def _hub(address):
    """Yield the package huggingface_hub and a tuple of its errors, which are turned into a ValueError."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HTTPError
    except ImportError:
        raise ValueError(f"{address} requires huggingface_hub: pip install huggingface_hub.") from None
    errors = (OSError, HTTPError)
    try:
        yield huggingface_hub, errors
    except errors as error:
        raise ValueError(
            f"{address} cannot be transferred. Check the address, the network, and your access (`hf auth login`). "
            f"Received: {brief(str(error))}"
        ) from None
