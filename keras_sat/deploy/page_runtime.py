"""LiteRT for browsers: from an npm folder, or fetched once, at a pinned version and with a checked digest.

A page needs LiteRT.js, the script with which a browser runs the network. This package does not hold it, since it is 19
MB large. It comes from a folder into which npm has installed it, or from npm's registry: two archives, which are kept
where Keras keeps its downloads.
"""

import base64
import hashlib
import os
import tarfile
from pathlib import Path

from data_utils.atomic_files import read_json
from data_utils.downloads import fetch
from keras_sat.weight_paths import keras_home

VERSION = "2.5.3"
REGISTRY = "https://registry.npmjs.org"
# npm's own digests of the two packages, sha512 as base64.
DIGESTS = {
    "core": "PlGmbMOq9WitX7FO0jhbdJw9GthatsyuCQXjTt/wJZo0FLaw48q4tz8IwqgqCIkviYGr9OFDL1kCnN4nzWoyJQ==",
    "wasm-utils": "4fJiw6tBQnIs+0jH/OQ16nYOiSl8/+zZnn5h2ul8aTKHi05sVqZW580Tmk78pC2kT39A9OYBVdFawteZ/sI1kQ==",
}
# What a page needs: the file in the folder @litertjs, and its name in the page's folder runtime.
WASM = ("litert_wasm_internal", "litert_wasm_compat_internal")  # the second for browsers without relaxed SIMD
FILES = {"core/dist/index.js": "index.js", "wasm-utils/dist/index.js": "wasm-utils.js"} | {
    f"core/wasm/{name}.{ending}": f"{name}.{ending}" for name in WASM for ending in ("js", "wasm")
}
_LINES = "\n".join(f"    {name:<36}from @litertjs/{place}" for place, name in FILES.items())
README = f"""LiteRT.js {VERSION}, the script with which a browser runs the network (Google, Apache License 2.0:
https://www.apache.org/licenses/LICENSE-2.0).

This folder must hold:

{_LINES}

In index.js, "@litertjs/wasm-utils" must read "./wasm-utils.js". `npm install @litertjs/core@{VERSION}` gets them, and
`keras-sat export MODEL DIRECTORY --web --runtime node_modules` puts them here.
"""


def runtime_files(folder=None, *, show_progress=True):
    """Return a dict from the names of the runtime's files to their contents.

    Args:
        folder: into which npm has installed @litertjs/core: node_modules, or the folder that holds it. None: the
            archives that were fetched before, or are fetched from npm's registry now.
        show_progress: show progress on standard error.

    Raises:
        ValueError: the files are not in the folder, or they cannot be fetched.
    """
    files = _fetched(show_progress) if folder is None else _installed(Path(folder).expanduser())
    # A page has no list of packages in which a browser could look up the second one.
    files["index.js"] = files["index.js"].replace(b'"@litertjs/wasm-utils"', b'"./wasm-utils.js"')
    return files


def _installed(folder):
    """Return the files of both packages, in the pinned version, from a folder of npm."""
    places = [folder / "node_modules" / "@litertjs", folder / "@litertjs", folder]
    place = next((place for place in places if (place / "core").is_dir()), None)
    if place is None:
        raise ValueError(
            f"LiteRT.js is not in this folder: `npm install @litertjs/core@{VERSION}` puts it into node_modules. "
            f"Received: runtime={str(folder)!r}"
        )
    package = read_json(place / "core" / "package.json", "the package.json of npm")
    version = package.get("version") if isinstance(package, dict) else None
    if version != VERSION:
        raise ValueError(
            f"Expected LiteRT.js {VERSION}: `npm install @litertjs/core@{VERSION}`. "
            f"Received: runtime={str(folder)!r}, which has {version}"
        )
    try:
        return {name: (place / source).read_bytes() for source, name in FILES.items()}
    except OSError as error:
        raise ValueError(f"{error.filename}: this file of LiteRT.js {VERSION} is missing ({error.strerror}).") from None


def _fetched(show_progress):
    """Return the files of both packages from their archives, which are fetched where they are missing."""
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    files = {}
    for package, digest in DIGESTS.items():
        archive = keras_home() / "keras_sat" / f"litertjs-{package}-{VERSION}.tgz"
        try:
            fetch(f"{registry}/@litertjs/{package}/-/{package}-{VERSION}.tgz", archive, show_progress=show_progress)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"LiteRT.js cannot be fetched: {error} Without a network, run `npm install @litertjs/core@{VERSION}` "
                "where there is one, and name its folder: runtime=... (--runtime node_modules on the command line)."
            ) from None
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != digest:
            archive.unlink()
            raise ValueError(f"What {registry} sent is not @litertjs/{package} {VERSION} as npm has published it.")
        with tarfile.open(archive) as packed:
            for source, name in FILES.items():
                if source.startswith(f"{package}/"):
                    files[name] = packed.extractfile(source.replace(package, "package", 1)).read()
    return files
