"""The files of a LiteRT captioner: the network, its vocabulary, and a manifest with
their digests.

    model.tflite or model.tflite.gz    the network
    vocabulary.txt                     one token per line; the line number, from 0, is
                                       its id
    litert.json                        the manifest
    index-DIGEST.npz                   optional: the index of training photos, see
                                       `keras_sat.after_search.consensus`

LiteRT's parser trusts its input: a damaged file can crash it or silently change
captions. So it only reads bytes whose digest was checked. Digests detect damage, not
malice: whoever can write the file can write the manifest.
"""

import gzip
import hashlib

from data_utils.base import (
    expectation,
    read_bytes,
    read_sealed_json,
    write_sealed_json,
    write_whole,
)
from data_utils.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_sat.files import INDEX, read_arrays, write_index

FORMAT_VERSION = 2
SIGNATURES_VERSION = 2  # of the network's inputs and outputs; files that are cached have its number
MANIFEST, MODEL, PACKED, WORDS = "litert.json", "model.tflite", "model.tflite.gz", "vocabulary.txt"
MOST_BYTES = 1_000_000_000
HINT = (
    "the LiteRT files that keras-sat export --tflite or --web wrote",
    "Export the captioner again.",
)


def write_litert(folder, content, vocabulary, index=None, options=None, *, packed=False):
    """Write a LiteRT captioner.

    Args:
        content: the network, bytes.
        vocabulary: Vocabulary.
        index: the arrays of a Consensus, or None.
        options: of the consensus, a dict, or None.
        packed: compress the network.
    """
    model = {PACKED: gzip.compress(content, mtime=0)} if packed else {MODEL: content}
    digests = write_files(folder, model, vocabulary)
    manifest = {
        "format": "litert",
        "version": FORMAT_VERSION,
        "sha256": digests,
        "consensus": options,
    }
    write_sealed_json(folder / MANIFEST, {**manifest, **write_index(folder, index)})


def write_files(folder, files, vocabulary):
    """Write files (a dict from names to bytes) and the words of a Vocabulary.

    Return a dict with their digests.
    """
    files = {**files, WORDS: "".join(f"{token}\n" for token in vocabulary.tokens).encode()}
    for name, file in files.items():
        write_whole(folder / name, file)
    return {name: hashlib.sha256(file).hexdigest() for name, file in files.items()}


def read_litert(folder):
    """Return what `write_litert` wrote: network, Vocabulary, index and options.

    Raise ValueError if a file is damaged.
    """
    manifest = read_sealed_json(folder / MANIFEST, *HINT)
    digests = manifest.get("sha256")
    is_ours = manifest.get("format") == "litert" and manifest.get("version") == FORMAT_VERSION
    if (
        not is_ours
        or not isinstance(digests, dict)
        or set(digests) not in ({MODEL, WORDS}, {PACKED, WORDS})
    ):
        raise ValueError(
            f"{folder / MANIFEST}: this is not the manifest of a LiteRT captioner. "
            f"{expectation(*HINT)}"
        )
    files = {name: read_bytes(folder / name, MOST_BYTES) for name in digests}
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != digests[name]:
            raise ValueError(
                f"{folder / name}: the file is damaged: its digest does not match. "
                f"{expectation(*HINT)}"
            )
    content = gzip.decompress(files[PACKED]) if PACKED in files else files[MODEL]
    tokens = files[WORDS].decode().split("\n")[:-1]
    index = read_arrays(folder / manifest[INDEX], *HINT) if INDEX in manifest else None
    vocabulary = Vocabulary(tokens[len(SPECIAL_TOKENS) :])
    return content, vocabulary, index, manifest.get("consensus")
