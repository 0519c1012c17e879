"""Find LiteRT.js in an npm folder, or download it from the npm registry. It runs the
network in a browser.

It is 19 MB, so this package does not ship it. Two archives, of a pinned version and
with checked digests, are kept in Keras' download folder.
"""

import base64
import hashlib
import os
import tarfile
from pathlib import Path

from data_utils.base import read_json
from data_utils.downloads import fetch
from keras_sat.network import keras_home

VERSION = "2.5.3"
# npm's own digests of the two packages, sha512 as base64.
DIGESTS = {
    "core": "PlGmbMOq9WitX7FO0jhbdJw9GthatsyuCQXjTt/wJZo0"
    "FLaw48q4tz8IwqgqCIkviYGr9OFDL1kCnN4nzWoyJQ==",
    "wasm-utils": "4fJiw6tBQnIs+0jH/OQ16nYOiSl8/+zZnn5h2ul8aTKH"
    "i05sVqZW580Tmk78pC2kT39A9OYBVdFawteZ/sI1kQ==",
}
# From paths in the folder @litertjs to file names in the page's folder runtime.
# The second for browsers without relaxed SIMD.
WASM = ("litert_wasm_internal", "litert_wasm_compat_internal")
FILES = {"core/dist/index.js": "index.js", "wasm-utils/dist/index.js": "wasm-utils.js"} | {
    f"core/wasm/{name}.{ending}": f"{name}.{ending}" for name in WASM for ending in ("js", "wasm")
}
WAY_OUT = (
    f"Run `npm install @litertjs/core@{VERSION}` and pass --runtime node_modules (in Python, "
    "runtime=...)."
)


def runtime_files(folder=None):
    """Return the files of LiteRT.js, a dict from names to bytes.

    `folder` is npm's node_modules, or its parent; None fetches them.
    """
    files = _fetched() if folder is None else _installed(Path(folder).expanduser())
    # Browsers cannot resolve the bare name of an npm package.
    files["index.js"] = files["index.js"].replace(b'"@litertjs/wasm-utils"', b'"./wasm-utils.js"')
    return files


def _installed(folder):
    """Return the files in a folder of npm; see `runtime_files`."""
    for place in (folder / "node_modules" / "@litertjs", folder / "@litertjs", folder):
        package = place / "core" / "package.json"
        if package.is_file() and read_json(package).get("version") == VERSION:
            return {name: (place / source).read_bytes() for source, name in FILES.items()}
    raise ValueError(
        f"This folder does not contain LiteRT.js {VERSION}. {WAY_OUT} Received: "
        f"runtime={str(folder)!r}"
    )


def _fetched():
    """Return the files in the archives of the npm registry, which are kept."""
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    files = {}
    for package, digest in DIGESTS.items():
        archive = keras_home() / "keras_sat" / f"litertjs-{package}-{VERSION}.tgz"
        try:
            fetch(f"{registry}/@litertjs/{package}/-/{package}-{VERSION}.tgz", archive)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"LiteRT.js could not be downloaded: {error} You can also install it with "
                f"npm. {WAY_OUT}"
            ) from None
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != digest:
            archive.unlink()
            raise ValueError(
                f"The archive of @litertjs/{package} {VERSION} from {registry} has the "
                "wrong digest."
            )
        with tarfile.open(archive) as packed:
            for source, name in FILES.items():
                if source.startswith(f"{package}/"):
                    files[name] = packed.extractfile(source.replace(package, "package", 1)).read()
    return files
