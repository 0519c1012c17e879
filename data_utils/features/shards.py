"""Features that several machines build: each builds a shard, and all shards are one cache.

A folder of shards holds one folder of features (see `data_utils.features.cache_layout`) for each of them:

    shard-0001-of-0004/    the photos numbered 1, 5, 9, ... in the sorted list of ids
    shard-0002-of-0004/    those numbered 2, 6, 10, ...

So the ids alone say which photos a shard has: machines with the same list agree without asking each other. The manifest
of a shard has its number and a digest of the whole list.
"""

import hashlib
import json
import re
from typing import NamedTuple

from data_utils.features.cache_layout import FeatureFiles, differences, is_started, read_manifest, reject_differences

MOST_SHARDS = 200  # each keeps a file open, and some systems allow a process 256 of them


class Shard(NamedTuple):
    """One of several parts of a list of photos; `number` counts from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text):
        """Return the Shard that "2/4" means: the second of four."""
        found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text) if isinstance(text, str) else None
        if found is None or not 1 <= int(found[1]) <= int(found[2]) <= MOST_SHARDS:
            raise ValueError(
                f"A shard is i/n, with i from 1 to n: '1/4' is the first of four. At most {MOST_SHARDS} make a cache. "
                f"Received: shard={text!r}"
            )
        return cls(int(found[1]), int(found[2]))

    @property
    def folder_name(self):
        return f"shard-{self.number:04d}-of-{self.of:04d}"

    def members(self, image_ids):
        """Return the ids of this shard's photos, in the order of their rows."""
        if self.of > len(image_ids):
            raise ValueError(
                f"There are more shards than photos. Expected: at most {len(image_ids)} shards. "
                f"Received: shard='{self.number}/{self.of}'"
            )
        return sorted(image_ids)[self.number - 1 :: self.of]

    def description(self, image_ids):
        """Return what its manifest says of it, as a dict: its number, the number of shards, and the whole list."""
        digest = hashlib.sha256(json.dumps(sorted(image_ids)).encode()).hexdigest()[:16]
        return {"shard": self.number, "shards": self.of, "photos": len(image_ids), "photos_digest": digest}


OF_A_SHARD = tuple(Shard(1, 1).description([]))  # these names of its manifest


def shard_folders(directory):
    """Return the folders of the shards in a folder; a cache of its own has none."""
    if (directory / "manifest.json").exists():
        return []
    found = directory.glob("shard-*-of-*")
    return sorted(path for path in found if re.fullmatch(r"shard-[0-9]{4}-of-[0-9]{4}", path.name) and path.is_dir())


def reject_other_shards(directory, description):
    """Raise ValueError where a new shard would not belong to what the folder of all shards holds.

    Args:
        directory: the folder of all shards.
        description: what the manifest of the new shard is going to say, as far as it is known.
    """
    if (directory / "manifest.json").exists():
        raise ValueError(
            "The folder holds a cache that is not made of shards. Build the shards into another folder. "
            f"Received: directory={str(directory)!r}"
        )
    common = {name: value for name, value in description.items() if name != "shard"}
    for folder in filter(is_started, shard_folders(directory)):
        reject_differences(read_manifest(folder), common, folder)


def open_shards(directory):
    """Return FeatureFiles of each shard in a folder, in the order of their numbers; they must make a whole cache."""
    started = [folder for folder in shard_folders(directory) if is_started(folder)]
    if not started:
        raise ValueError(
            "No shard here has been started. Build them with shard='1/4' (--shard 1/4 on the command line) and so on. "
            f"Received: directory={str(directory)!r}"
        )
    num_shards = int(started[0].name[-4:])
    names = [Shard(number, num_shards).folder_name for number in range(1, min(num_shards, MOST_SHARDS) + 1)]
    shards = {folder.name: FeatureFiles(folder) for folder in started[: MOST_SHARDS + 1]}
    missing = [str(number) for number, name in enumerate(names, start=1) if name not in shards]
    problems = [f"missing: {','.join(missing)} of {num_shards}"] if missing else []
    common = shards[started[0].name].manifest
    for name, files in shards.items():
        if found := differences(files.manifest, common | {"shard": int(name.split("-")[1])}):
            problems.append(f"{name} does not belong to {started[0].name}: {found}")
        lacking = len(files.rows) - int((files.rows["done"] > 0).sum()) - len(files.unreadable)
        if lacking:
            problems.append(f"{name} lacks {lacking} of its {len(files.rows)} photos")
    if problems:
        raise ValueError(
            f"These shards do not make one cache: {'; '.join(problems)}. Build what is missing with "
            f"shard='i/{num_shards}' (--shard i/{num_shards} on the command line), and move away what does not belong. "
            f"Received: directory={str(directory)!r}"
        )
    return list(shards.values())
