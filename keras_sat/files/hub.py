"""Models on the Hugging Face Hub: hf://owner/name, or hf://owner/name@revision.

The package huggingface_hub (extra `hub`) transfers and caches them. Only the files of a
model folder are downloaded, and `model_folder` and `untrusted` check them like those of
any other folder.
"""

import contextlib
import functools
import importlib
import re
import sys
from pathlib import Path

from data_utils.atomic_files import file_digest
from data_utils.foreign_text import brief

ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
FILES = ("config.json", "weights-*.npz", "vocabulary-*.json", "encoder-*.npz", "index-*.npz")


def is_on_hub(model):
    return isinstance(model, str) and model.startswith("hf://")


@functools.cache
def hub_folder(address):
    """Return the cached folder of a model; without network, a model downloaded before
    is used.

    Within a process, an address without a revision stays the same model.
    """
    with hub_library(address) as (hub, repository, revision):
        if not sys.stderr.isatty():
            importlib.import_module("huggingface_hub.utils").disable_progress_bars()
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=FILES))


def pinned(address, folder):
    """Return an address with its commit and the digest of its config.json, which has
    the digests of the other files.
    """
    digest = file_digest(folder / "config.json")
    return f"{address.partition('@')[0]}@{folder.name} (config.json has the digest {digest})"


@contextlib.contextmanager
def hub_library(address):
    """Yield huggingface_hub, the repository and the revision or None.

    Turn the library's errors into a ValueError.
    """
    if not (parts := ADDRESS.fullmatch(address)):
        raise ValueError(
            f"Expected hf://owner/name or hf://owner/name@revision. Received: {brief(address)}"
        )
    try:
        import huggingface_hub
        from huggingface_hub.errors import HTTPError
    except ImportError:
        raise ValueError(
            f"{address} requires huggingface_hub: pip install huggingface_hub."
        ) from None
    try:
        yield huggingface_hub, *parts.groups()
    except (OSError, HTTPError) as error:
        problem = (
            f"{address} cannot be transferred. Check the address, the network, and your "
            "access (`hf auth login`)."
        )
        raise ValueError(f"{problem} Received: {brief(str(error))}") from None
