"""Build features on several machines: each machine builds one shard, and all shards form one cache.

    shard-0001-of-0004/    the photos numbered 1, 5, 9, ... in the sorted list of ids
    shard-0002-of-0004/    those numbered 2, 6, 10, ...

Machines with the same list of photos agree without communication. Each manifest has a digest of the list.
"""

import hashlib
import json
import re

from data_utils.features.cache_layout import FeatureFiles, is_started, reject_differences

MOST_SHARDS = 200  # each keeps a file open, and some systems limit a process to 256 open files
ENTRIES = ("shard", "shards", "photos", "photos_digest")  # of a shard's manifest


def parse_shard(text):
    """Parse the name of a shard: "2/4", the second of four, becomes (2, 4)."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", str(text))
    if found is None or not 1 <= int(found[1]) <= int(found[2]) <= MOST_SHARDS:
        raise ValueError(
            f"Expected: shard i of n as i/n, such as '1/4' for the first of four, with n up to {MOST_SHARDS}. "
            f"Received: shard={text!r}"
        )
    return int(found[1]), int(found[2])


def describe_shard(text, image_ids):
    """Return the folder name, the sorted image ids and the manifest ENTRIES of a shard."""
    number, num_shards = parse_shard(text)
    image_ids = sorted(image_ids)
    if num_shards > len(image_ids):
        raise ValueError(f"Expected: at most {len(image_ids)} shards, one for each photo. Received: shard={text!r}")
    digest = hashlib.sha256(json.dumps(image_ids).encode()).hexdigest()[:16]
    entries = dict(zip(ENTRIES, (number, num_shards, len(image_ids), digest)))
    return f"shard-{number:04d}-of-{num_shards:04d}", image_ids[number - 1 :: num_shards], entries


def shard_folders(directory):
    """Return the sorted shard folders in a folder; an empty list if the folder itself is a cache."""
    found = directory.glob(f"shard-{'[0-9]' * 4}-of-{'[0-9]' * 4}")
    return [] if is_started(directory) else sorted(filter(is_started, found))


def open_folders(directory):
    """Return FeatureFiles for a folder or for each shard in it; raise ValueError if shards are missing or differ."""
    folders = shard_folders(directory)[: MOST_SHARDS + 1]
    if not folders:
        return [FeatureFiles(directory)]
    opened = {int(folder.name[6:10]): FeatureFiles(folder) for folder in folders}
    for number, files in opened.items():
        reject_differences(files.manifest, opened[min(opened)].manifest | {"shard": number}, files.directory)
    num_shards = int(folders[0].name[-4:])
    numbers = range(1, num_shards + 1)
    missing = [str(number) for number in numbers if number not in opened or not opened[number].is_complete]
    if missing:
        raise ValueError(
            f"Missing or incomplete shards: {','.join(missing)} of {num_shards}. Build them, starting with "
            f"shard='{missing[0]}/{num_shards}' (--shard). Received: directory={str(directory)!r}"
        )
    return list(opened.values())
