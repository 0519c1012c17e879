"""Uploads captioners to the Hugging Face Hub, each with a model card."""

import json
import tempfile
from pathlib import Path

import numpy as np

from data_utils.atomic_files import read_sealed_json
from data_utils.training_photos import from_settings
from keras_sat.files.hub import address_parts, hub_folder, hub_library
from keras_sat.files.model_folder import EXPECTED, PRETRAINED, WAY_OUT
from keras_sat.presets import DEFAULT_MODEL
from keras_sat.scoring.scores import columns

BUNDLED = PRETRAINED / DEFAULT_MODEL / "config.json"
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


def push(captioner, repository, scores, license, private, precision):
    """Upload a captioner and its model card; see `Captioner.push_to_hub`."""
    repository, revision = address_parts(f"hf://{repository.removeprefix('hf://')}")
    with tempfile.TemporaryDirectory() as temporary, hub_library(f"hf://{repository}") as (hub, _):
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
