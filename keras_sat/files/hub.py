"""Captioners on the Hugging Face Hub: hf://owner/name, or hf://owner/name@revision.

The package huggingface_hub (extra `hub`) transfers and caches the files. Only config.json and the files that it names
are downloaded, and they are checked like those of any untrusted model folder.
"""

import contextlib
import functools
import hashlib
import re
from pathlib import Path

from data_utils.atomic_files import read_bytes
from data_utils.foreign_text import brief

ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def is_on_hub(model):
    return isinstance(model, str) and model.startswith("hf://")


@functools.cache
def hub_folder(address, files_of):
    """Return the cached folder of a model on the hub; without network, a model downloaded before is used.

    Within a process, an address without a revision stays the same model.

    Args:
        address: see above.
        files_of: function that checks config.json, and returns the names of the other files.
    """
    repository, revision = address_parts(address)
    with hub_library(address) as (hub, errors):
        api = hub.HfApi()
        try:
            api.model_info(repository, revision=revision, timeout=10)  # unlike a download, without retries
            config = api.hf_hub_download(repository, "config.json", revision=revision)
        except errors:
            config = hub.try_to_load_from_cache(repository, "config.json", revision=revision)
            if not isinstance(config, str):
                raise
        config = Path(config)
        for name in files_of(config):
            api.hf_hub_download(repository, name, revision=config.parent.name)
    return config.parent


def pinned(address, folder):
    """Return an address with its commit and the digest of its config.json, which has the digests of the other files."""
    digest = hashlib.sha256(read_bytes(folder / "config.json")).hexdigest()
    return f"hf://{address_parts(address)[0]}@{folder.name} (config.json has the digest {digest})"


def address_parts(address):
    """Return the repository and the revision (or None) of an address."""
    if not (match := ADDRESS.fullmatch(address)):
        raise ValueError(f"Expected hf://owner/name or hf://owner/name@revision. Received: {brief(address)}")
    return match.groups()


@contextlib.contextmanager
def hub_library(address):
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
