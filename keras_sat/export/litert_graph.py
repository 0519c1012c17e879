"""The LiteRT networks of bundled captioners, without the weights, which the captioner's
own files have.

    pretrained/NAME/graph.json    the rest of the network (70 kB compressed), and where
                                  which array belongs

`write_graph` takes the weights out of a network that TensorFlow converted, and `filled`
puts them back with numpy alone. The digest in the file ensures that the result is the
converted network, byte for byte. Without this file, the package would have 100 MB more,
or the first caption would take ten seconds.
"""

import base64
import gzip
import hashlib

import numpy as np

from data_utils.base import file_digest, read_sealed_json, write_sealed_json
from keras_sat.files import BUNDLED_MODELS, INDEX, read_model

GRAPH = "graph.json"
SMALLEST = 1024  # bytes: smaller weights stay in the graph
HINT = ("a graph that benchmarks/flickr8k/bundle.py wrote",)


def has_graph(directory):
    """Return whether a folder is a bundled captioner with a graph.

    In other folders, a graph is never run.
    """
    return directory.resolve().parent == BUNDLED_MODELS.resolve() and (directory / GRAPH).is_file()


def write_graph(directory, content, options):
    """Write the graph of a bundled captioner, given its LiteRT network (bytes) and its
    options for consensus.
    """
    _, _, arrays = read_model(directory)
    places = []  # (start, name, axis) of each array in the network
    for name, array in arrays.items():
        place = _place_in(content, array)
        if place is not None:
            start, axis = place
            places.append((start, name, axis))
    pieces, between_pieces, end = [], [], 0
    for start, name, axis in sorted(places):
        if start >= end:  # of equal arrays, the first
            pieces.append([start - end, name, axis])
            between_pieces.append(content[end:start])
            end = start + arrays[name].nbytes
    rest = b"".join([*between_pieces, content[end:]])
    graph = {
        "config": file_digest(directory / "config.json"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "consensus": options,
        "pieces": pieces,
        "rest": base64.b64encode(gzip.compress(rest, mtime=0)).decode(),
    }
    write_sealed_json(directory / GRAPH, graph)


def _place_in(content, array):
    """Return (start, axis), where and how a network (bytes) contains an array, see
    `_as_bytes`; None if it does not, or if the array is small.
    """
    if array.nbytes < SMALLEST:
        return None
    for axis in range(-1, array.ndim - 1):
        start = content.find(_as_bytes(array, axis))
        if start >= 0:
            return start, axis
    return None


def filled(directory):
    """Return the arguments of `write_litert` for a bundled captioner with a graph: its
    network (bytes), Vocabulary, the index's arrays or None, and options for consensus.
    """
    graph = read_sealed_json(directory / GRAPH, *HINT)
    if graph["config"] != file_digest(directory / "config.json"):
        raise _of_another(directory)
    settings, vocabulary, arrays = read_model(directory)
    rest = memoryview(gzip.decompress(base64.b64decode(graph["rest"])))
    parts, end = [], 0
    for gap, name, axis in graph["pieces"]:
        parts.append(rest[end : end + gap])
        parts.append(_as_bytes(arrays[name], axis))
        end += gap
    parts.append(rest[end:])
    content = b"".join(parts)
    if hashlib.sha256(content).hexdigest() != graph["sha256"]:
        raise _of_another(directory)
    return content, vocabulary, settings.get(INDEX), graph["consensus"]


def _of_another(directory):
    return ValueError(
        f"{directory / GRAPH}: this graph belongs to another captioner. Expected: {HINT[0]}."
    )


def _as_bytes(array, axis):
    """Return an array as LiteRT stores it: with its last axis moved to `axis`."""
    return np.ascontiguousarray(np.moveaxis(array, -1, axis)).tobytes()
