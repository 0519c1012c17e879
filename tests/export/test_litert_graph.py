"""Graphs of bundled captioners: filled with the captioner's weights, they are the
network that was converted.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from data_utils.base import read_sealed_json, write_sealed_json
from keras_sat import Captioner, load_litert
from keras_sat.export import litert_graph
from keras_sat.export.litert_captioner import is_installed, make_file, ready_captioner
from keras_sat.export.litert_graph import GRAPH, filled, has_graph, write_graph
from keras_sat.files import BUNDLED_MODELS, pretrained_names, read_model

PHOTO = Path(__file__).parents[2] / "docs" / "photo.jpg"
CAT = Path(litert_graph.__file__).parent / "page" / "examples" / "cat.jpg"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A bundled captioner in a folder of bundled captioners that a test may change."""
    monkeypatch.setattr(litert_graph, "BUNDLED_MODELS", tmp_path)
    return Path(shutil.copytree(BUNDLED_MODELS / "scenes", tmp_path / "scenes"))


@pytest.mark.parametrize("name", pretrained_names())
def test_the_graph_of_each_bundled_captioner_fits_its_weights(name):
    try:
        content, vocabulary, _, _ = filled(BUNDLED_MODELS / name)
    except (OSError, ValueError) as error:
        pytest.fail(f"{error} Run: python benchmarks/flickr8k/bundle.py --graphs")
    _, words, arrays = read_model(BUNDLED_MODELS / name)
    assert vocabulary == words and content[4:8] == b"TFL3"
    assert (
        len(content)
        > sum(array.nbytes for array in arrays.values())
        > 8 * (BUNDLED_MODELS / name / GRAPH).stat().st_size
    )


def test_weights_are_taken_out_and_put_back(copy):
    _, _, arrays = read_model(copy)
    matrix = next(array for array in arrays.values() if array.ndim == 2 and array.nbytes > 9000)
    kernel = next(array for array in arrays.values() if array.ndim == 4 and array.nbytes > 1024)
    parts = [
        b"TFL3",
        matrix.T.tobytes(),
        b"between",
        np.moveaxis(kernel, -1, 0).tobytes(),
        matrix.tobytes(),
        b"end",
    ]
    write_graph(copy, b"".join(parts), {"consensus_weight": 2})
    content, _, index, options = filled(copy)
    assert content == b"".join(parts) and index is None and options == {"consensus_weight": 2}
    names = [name for _, name, _ in read_sealed_json(copy / GRAPH, "")["pieces"]]
    assert len(names) == 2 and arrays[names[0]] is not None, "each array is in the graph once"


def test_a_graph_of_other_weights_is_not_run(copy):
    filled(copy)
    graph = read_sealed_json(copy / GRAPH, "")
    for name in ("config", "sha256"):
        write_sealed_json(copy / GRAPH, graph | {name: "0" * 64})
        with pytest.raises(ValueError, match="graph.json: this graph belongs to another captioner"):
            filled(copy)
    stale = graph | {"config": "0" * 64, "pieces": [[0, "gone", -1]]}
    write_sealed_json(copy / GRAPH, stale)
    with pytest.raises(ValueError, match="graph.json: this graph belongs to another captioner"):
        filled(copy)
    (copy / GRAPH).write_text("{}")
    with pytest.raises(ValueError, match="graph.json: the file is damaged"):
        filled(copy)


def test_a_graph_in_another_folder_is_not_run(tmp_path):
    foreign = Path(shutil.copytree(BUNDLED_MODELS / "scenes", tmp_path / "scenes"))
    assert (
        (foreign / GRAPH).exists()
        and not has_graph(foreign)
        and has_graph(BUNDLED_MODELS / "scenes")
    )


def test_the_default_captioner_captions_at_once_as_with_tensorflow(tmp_path, monkeypatch):
    if not is_installed():
        pytest.skip("ai-edge-litert is not installed: captions without TensorFlow are not tested")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(
        "keras_sat.export.litert_captioner.converted",
        lambda directory: pytest.fail("with TensorFlow"),
    )
    captioner, with_tensorflow = ready_captioner(None), Captioner.from_pretrained()
    for photo in (PHOTO, CAT):
        found, expected = captioner.caption(photo), with_tensorflow.caption(photo)
        assert found.caption == expected.caption
        assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-3)
        np.testing.assert_allclose(found.word_confidence, expected.word_confidence, atol=1e-3)
    assert load_litert().vocabulary and make_file(None).parent == tmp_path / "keras_sat"
