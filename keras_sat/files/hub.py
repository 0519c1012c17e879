"""Models on the Hugging Face Hub: hf://owner/name, or hf://owner/name@revision.

The package huggingface_hub (extra `hub`) downloads and caches them. Only the files of a
model folder are downloaded, and `model_folder` and `untrusted_settings` check them like
those of any other folder.
"""

import contextlib
import functools
import importlib
import re
import sys
import warnings
from pathlib import Path

from data_utils.base import brief, file_digest

ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
PINNED = re.compile(ADDRESS.pattern + r" \(config\.json has the digest [0-9a-f]{64}\)", re.ASCII)
FILES = (
    "config.json",
    "weights-*.npz",
    "vocabulary-*.json",
    "encoder-*.npz",
    "index-*.npz",
)


def is_on_hub(model):
    return isinstance(model, str) and model.startswith("hf://")


@functools.cache
def hub_folder(address):
    """Return the cached folder of a model, downloaded first if there is a network.

    Within a process, an address without a revision stays the same model.
    """
    parts = ADDRESS.fullmatch(address)
    if not parts:
        expected = "hf://owner/name or hf://owner/name@revision"
        raise ValueError(f"Expected {expected}. Received: {brief(address)}")
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        way_out = "pip install huggingface_hub"
        raise ValueError(f"{address} requires huggingface_hub: {way_out}.") from None
    if not sys.stderr.isatty():
        importlib.import_module("huggingface_hub.utils").disable_progress_bars()
    repository, revision = parts.groups()
    with _download_errors(address):
        folder = hub.snapshot_download(repository, revision=revision, allow_patterns=FILES)
    return Path(folder)


def pinned(address, folder):
    """Return an address with its commit and the digest of its config.json, which has
    the digests of the other files.
    """
    digest = file_digest(folder / "config.json")
    return f"{address.partition('@')[0]}@{folder.name} (config.json has the digest {digest})"


def checked_source(source):
    """Return a source that `pinned` wrote; for any other, warn and return None."""
    if source is None or (isinstance(source, str) and PINNED.fullmatch(source)):
        return source
    problem = "config.json says that the model started from something that is not on the hub."
    expected = "hf://owner/name@commit with a digest; this is ignored."
    warnings.warn(f"{problem} Expected: {expected} Received: {brief(source)}", stacklevel=2)
    return None


@contextlib.contextmanager
def _download_errors(address):
    """Turn any error of huggingface_hub within the block into a ValueError.

    Its own errors are about the network or the repository. Answers that no hub gives,
    such as the login page of a hotel's network, raise others where it parses them.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfUriError, HFValidationError, HTTPError

    try:
        yield
    except (OSError, HTTPError, HFValidationError, HfUriError) as error:
        problem = (
            f"{address} cannot be downloaded. Check the address, the network, and your "
            "access (`hf auth login`)."
        )
        raise ValueError(f"{problem} Received: {brief(str(error))}") from None
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        problem = f"{address}: what answers at {constants.ENDPOINT} is not the Hugging Face Hub."
        way_out = "Open that address in a browser: the network may ask for a login first."
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{problem} {way_out} Received: {brief(reason)}") from None
