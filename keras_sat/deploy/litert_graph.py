"""The LiteRT networks of bundled captioners, without the weights, which the captioner's
own files have.

    pretrained/NAME/graph.json    the rest of the network (70 kB compressed), and where
                                  which array belongs

`write_graph` takes the weights out of a network that TensorFlow converted, and `filled`
puts them back with numpy alone. The digest in the file ensures that the result is the
converted network, byte for byte.
"""

import base64
import gzip
import hashlib

import numpy as np

from data_utils.atomic_files import file_digest, read_sealed_json, write_sealed_json
from keras_sat.beyond.consensus import Consensus
from keras_sat.files.model_folder import INDEX, PRETRAINED, read_model

GRAPH = "graph.json"
SMALLEST = 1024  # bytes: smaller weights stay in the graph
HINT = ("a graph that benchmarks/flickr8k/bundle.py wrote",)


def has_graph(directory):
    """Return whether a folder is a bundled captioner with a graph.

    In other folders, a graph is never run.
    """
    return directory.resolve().parent == PRETRAINED.resolve() and (directory / GRAPH).is_file()


def write_graph(directory, content, options):
    """Write the graph of a bundled captioner, given its LiteRT network (bytes) and its
    options for consensus.
    """
    _, _, arrays = read_model(directory)
    places = []
    for name, array in arrays.items():
        forms = (
            [_as_bytes(array, axis) for axis in range(-1, array.ndim - 1)]
            if array.nbytes >= SMALLEST
            else []
        )
        found = [
            (start, name, axis)
            for axis, form in enumerate(forms, -1)
            if (start := content.find(form)) >= 0
        ]
        places += found[:1]
    pieces, rest, end = [], [], 0
    for start, name, axis in sorted(places):
        if start >= end:  # of equal arrays, the first
            pieces.append([start - end, name, axis])
            rest.append(content[end:start])
            end = start + arrays[name].nbytes
    graph = {
        "config": file_digest(directory / "config.json"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "consensus": options,
        "pieces": pieces,
        "rest": base64.b64encode(gzip.compress(b"".join([*rest, content[end:]]), mtime=0)).decode(),
    }
    write_sealed_json(directory / GRAPH, graph)


def filled(directory):
    """Return the network (bytes), Vocabulary, Consensus or None, and options of a
    bundled captioner with a graph.
    """
    graph = read_sealed_json(directory / GRAPH, *HINT)
    settings, vocabulary, arrays = read_model(directory)
    rest, parts, end = memoryview(gzip.decompress(base64.b64decode(graph["rest"]))), [], 0
    for gap, name, axis in graph["pieces"]:
        parts += [rest[end : end + gap], _as_bytes(arrays[name], axis)]
        end += gap
    content = b"".join([*parts, rest[end:]])
    is_same = graph["config"] == file_digest(directory / "config.json")
    if not is_same or hashlib.sha256(content).hexdigest() != graph["sha256"]:
        raise ValueError(
            f"{directory / GRAPH}: this graph belongs to another captioner. Expected: {HINT[0]}."
        )
    index = settings.get(INDEX)
    return (
        content,
        vocabulary,
        index and Consensus(vocabulary, index, index["mean"].size),
        graph["consensus"],
    )


def _as_bytes(array, axis):
    """Return an array as LiteRT stores it: as it is (axis -1), or with its last axis at
    another place.
    """
    return np.ascontiguousarray(np.moveaxis(array, -1, axis)).tobytes()
