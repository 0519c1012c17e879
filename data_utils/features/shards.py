"""Features of more photos than one machine should read: each machine builds a shard, all shards together are one cache.

A folder of shards holds one ordinary folder of features for each of them (see `data_utils.features.files`):

    shard-0001-of-0004/    the photos numbered 1, 5, 9, ... in the sorted list of ids
    shard-0002-of-0004/    those numbered 2, 6, 10, ...

So the ids alone say which photos a shard has, and machines that have the same list agree without asking each other. The
manifest of a shard holds its number and a digest of the whole list. What counts is the manifest, not the folder's name.
"""

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from data_utils.features.files import MADE_WITH, MOST_SHARDS, NOT_DONE, UNREADABLE, FeatureFiles, read_manifest
from data_utils.foreign_text import brief

FINGERPRINT = (*MADE_WITH, "grid_shape", "feature_dim")
OF_THE_LIST = {"of": "number of shards", "photos": "photos", "digest": "digest of the photos' ids"}


class Shard(NamedTuple):
    """One of several parts of a list of photos; `number` counts from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text):
        """Return the Shard that "2/4" stands for: the second of four."""
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII) if isinstance(text, str) else None
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(
                f"A shard is i/n, with i from 1 to n: '1/4' is the first of four, '4/4' the last. "
                f"Received: shard={text!r}"
            )
        if int(found[2]) > MOST_SHARDS:
            raise ValueError(f"At most {MOST_SHARDS} shards make a cache. Received: shard={text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self):
        return f"{self.number}/{self.of}"

    @property
    def folder_name(self):
        return f"shard-{self.number:04d}-of-{self.of:04d}"

    def indices(self, image_ids):
        """Return the indices of this shard's photos in the list of all, in the order of their rows."""
        if self.of > len(image_ids):
            raise ValueError(
                f"There are more shards than photos: {len(image_ids)} photos. Received: shard={str(self)!r}"
            )
        return sorted(range(len(image_ids)), key=image_ids.__getitem__)[self.number - 1 :: self.of]

    def description(self, image_ids):
        """Return what its manifest says of it: dict of its number, the number of shards, and of the whole list."""
        digest = hashlib.sha256(json.dumps(sorted(image_ids)).encode()).hexdigest()[:16]
        return {"number": self.number, "of": self.of, "photos": len(image_ids), "digest": digest}


def shard_manifests(directory):
    """Return the manifests of the shards in a folder: dict from their folders; an empty one stands for none yet.

    Folders called shard-... count, and those of any other name whose manifest says that they hold a shard.
    """
    manifests = {}
    if directory.is_dir():
        with os.scandir(directory) as entries:
            folders = sorted(directory / entry.name for entry in entries if entry.is_dir())
        for folder in folders:
            manifest = _manifest_of_shard(folder)
            if manifest is not None:
                manifests[folder] = manifest
    if manifests and (directory / "manifest.json").exists():
        raise ValueError(
            f"The folder holds both a cache of its own and shards (first: {next(iter(manifests)).name}). Move the one "
            f"or the other into another folder. Received: directory={str(directory)!r}"
        )
    return manifests


def _manifest_of_shard(folder):
    """Return the manifest of a folder, {} if it is not written yet, or None if the folder is no shard at all."""
    if folder.name.startswith("shard-"):
        if not (folder / "manifest.json").exists():
            return {}
        manifest = read_manifest(folder, begun=False)
        return manifest if manifest.get("begun") else {}
    try:
        manifest = read_manifest(folder)
    except (ValueError, OSError):  # the views of an ordinary cache, or an unrelated folder
        return None
    return manifest if "shard" in manifest else None


def refuse_other_shards(directory, description):
    """Refuse to begin a shard in a folder where it will not go together with those that are there.

    Args:
        directory: the folder of all shards.
        description: what the manifest of the new shard is going to say, as far as it is known.
    """
    if (directory / "manifest.json").exists():
        raise ValueError(
            "The folder holds a cache that is not made of shards. Build the shards into another folder. "
            f"Received: directory={str(directory)!r}"
        )
    for folder, manifest in shard_manifests(directory).items():
        differences = _differences(manifest, description) if manifest else None
        if differences:
            raise ValueError(
                f"The folder holds other shards: {differences} ({folder.name}). Use another folder for these, or move "
                f"that one away. Received: directory={str(directory)!r}"
            )


def open_shards(directory, manifests):
    """Return FeatureFiles of each shard, in the order of their numbers; refuse what is not one whole cache.

    Args:
        directory: the folder of all shards.
        manifests: dict that `shard_manifests` returned.
    """
    begun = {folder: manifest for folder, manifest in manifests.items() if manifest}
    kinds = Counter(json.dumps(_kind(manifest)) for manifest in begun.values() if "shard" in manifest)
    if not kinds:
        raise ValueError(
            "No shard here has been begun. Build them with shard='1/4' (--shard 1/4 on the command line) and so on. "
            f"Received: directory={str(directory)!r}"
        )
    of_most = kinds.most_common(1)[0][0]
    ours = {folder: manifest for folder, manifest in begun.items() if json.dumps(_kind(manifest)) == of_most}
    standard = next(iter(ours.values()))
    num_shards = standard["shard"]["of"]
    folders = {number: [] for number in range(1, num_shards + 1)}
    for folder, manifest in ours.items():
        folders[manifest["shard"]["number"]].append(folder)
    files = {number: FeatureFiles(found[0]) for number, found in folders.items() if found}

    problems = []
    for folder, manifest in begun.items():
        if folder not in ours:
            problems.append(f"{folder.name} does not belong to the others: {_differences(manifest, standard)}")
    for number, found in folders.items():
        if len(found) > 1:
            names = ", ".join(folder.name for folder in found)
            problems.append(f"shard {number} is there {len(found)} times: {names}")
    missing = [number for number, found in folders.items() if not found]
    if missing:
        problems.append(f"missing: {_ranges(missing)} of {num_shards}")
    for number, one in files.items():
        # A build writes the manifest last, so that one which was killed may not list all of these.
        unreadable = np.flatnonzero(one.done == UNREADABLE)
        unlisted = sum(one.image_ids[row] not in one.manifest["unreadable"] for row in unreadable)
        num_missing = int((one.done == NOT_DONE).sum()) + unlisted
        if num_missing:
            problems.append(f"shard {number} lacks {num_missing} of its {len(one.done)} photos")
    if problems:
        raise ValueError(
            f"These shards do not make one cache: {'; '.join(problems)}. Build what is missing with shard='i/"
            f"{num_shards}' (--shard i/{num_shards} on the command line), and move away what is too much. "
            f"Received: directory={str(directory)!r}"
        )
    return list(files.values())


def whole_manifest(manifests):
    """Return the manifest of all shards together: what they share, and all photos that could not be read."""
    whole = {name: value for name, value in manifests[0].items() if name != "shard"}
    unreadable = [manifest["unreadable"].items() for manifest in manifests]
    return whole | {"unreadable": dict(itertools.chain.from_iterable(unreadable))}


class JoinedRows:
    """The rows of several arrays, numbered through as if they were one, and never copied as a whole."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.starts = np.cumsum([0, *(len(array) for array in arrays)])

    def array_of(self, row):
        """Return the number of the array in which a row lies, or of those of several rows."""
        return np.searchsorted(self.starts, row, side="right") - 1

    def take(self, rows):
        """Return a copy of these rows, (rows, ...)."""
        if len(self.arrays) == 1:
            return np.take(self.arrays[0], rows, axis=0)
        rows = np.asarray(rows)
        taken = np.empty((len(rows), *self.arrays[0].shape[1:]), self.arrays[0].dtype)
        numbers = self.array_of(rows)
        for number in np.unique(numbers):
            chosen = numbers == number
            taken[chosen] = np.take(self.arrays[number], rows[chosen] - self.starts[number], axis=0)
        return taken


def _kind(manifest):
    """Return what all shards of a cache have in common."""
    shard = manifest.get("shard", {})
    return [manifest.get(name, 0) for name in FINGERPRINT] + [shard.get(name) for name in OF_THE_LIST]


def _differences(there, here):
    """Return in words what two manifests of shards do not have in common; what one of them does not say is left out."""
    if "shard" not in there:
        return "it is a cache of its own"
    pairs = [(name, there[name], here[name]) for name in FINGERPRINT if name in there and name in here]
    pairs += [(text, there["shard"][name], here["shard"][name]) for name, text in OF_THE_LIST.items()]
    return "; ".join(f"{name} {brief(one)} there, {brief(other)} here" for name, one, other in pairs if one != other)


def _ranges(numbers):
    """Return sorted numbers in few words, as an array job takes them: "1-3,7"."""
    groups = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
