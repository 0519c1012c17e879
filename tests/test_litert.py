"""The file for LiteRT with several signatures, and the same file made small."""

import gzip

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from data_utils import draw_scenes
from keras_sat import Captioner
from keras_sat.accelerated.switch import without_fast_twins
from keras_sat.files.litert import SIGNATURES, file_with_signatures
from keras_sat.files.litert_weights import rounded

pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
GREEDY = {"max_length": 20, "no_repeat_ngram": 0}


@pytest.fixture(scope="module")
def captioner():
    return Captioner.from_pretrained("scenes")


@pytest.fixture(scope="module")
def content(captioner):
    with without_fast_twins():
        return file_with_signatures(captioner, GREEDY, {"num_beams": 3, "length_penalty": captioner.length_penalty})


@pytest.fixture(scope="module")
def photos():
    return np.stack([scene.image for scene in draw_scenes(20, seed=77)])


def runners(content):
    interpreter = tf.lite.Interpreter(model_content=content)
    return {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}


@pytest.mark.slow
def test_each_signature_does_what_the_captioner_does(captioner, content, photos):
    run = runners(content)
    assert run.keys() == {*SIGNATURES}
    for photo in photos[:5]:
        best, *others = expected = _with_alternatives(captioner.caption(photo, num_beams=3, num_results=3))
        features = run["encode"](images=photo[None])["features"]
        np.testing.assert_allclose(features, captioner.encode(photo[None]), atol=1e-4)
        found = run["beams"](features=features)
        assert len(found["token_ids"]) == 3 and others
        for number, result in enumerate(expected):
            assert captioner.vocabulary.ids_to_words(found["token_ids"][number]) == result.words
            assert found["num_words"][number] == len(result.words)
            assert found["log_prob"][number] == pytest.approx(result.log_prob, abs=1e-3)
            assert found["confidence"][number] == pytest.approx(result.confidence, abs=1e-3)
            maps = found["attention_weights"][number, : len(result.words)]
            np.testing.assert_allclose(maps, result.attention_weights, atol=1e-4)
            assert not found["attention_weights"][number, len(result.words) :].any()
        ids = np.zeros((1, 20), np.int32)
        given = [*captioner.vocabulary.caption_to_ids(best.words), captioner.vocabulary.end_token_id]
        ids[0, : len(given)] = given
        followed = run["attend"](features=features, token_ids=ids)
        assert followed["log_prob"][0] == pytest.approx(best.log_prob, abs=1e-3)
        np.testing.assert_allclose(
            followed["attention_weights"][0, : len(best.words)], best.attention_weights, atol=1e-4
        )
        greedy = captioner.caption(photo, num_beams=1)
        found = run["serving_default"](images=photo[None])
        assert captioner.vocabulary.ids_to_words(found["token_ids"][0]) == greedy.words


def _with_alternatives(result):
    return [result, *result.alternatives]


@pytest.mark.slow
def test_rounded_weights_keep_the_captions(content, photos):
    small = rounded(content)
    assert len(small) < 0.5 * len(content) and len(gzip.compress(small, mtime=0)) < 0.4 * len(content)
    found = [
        [run["serving_default"](images=photo[None])["token_ids"].tolist() for photo in photos]
        for run in (runners(content), runners(small))
    ]
    assert sum(one == other for one, other in zip(*found)) >= 19
    assert len({str(ids) for ids in found[0]}) > 10


@pytest.mark.slow
def test_arithmetic_stays_in_float32(content):
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(rounded(content)))
    kinds = set()
    for graph in model.subgraphs:
        for step in graph.operators:
            code = model.operatorCodes[step.opcodeIndex].builtinCode
            given = {graph.tensors[number].type for number in step.inputs if number >= 0}
            small = given & {schema.TensorType.INT8, schema.TensorType.FLOAT16}
            kinds |= small
            assert not small or code == schema.BuiltinOperator.DEQUANTIZE
    assert kinds == {schema.TensorType.INT8, schema.TensorType.FLOAT16}


@pytest.mark.slow
def test_a_matrix_in_eight_bits_is_that_of_a_model_saved_so(captioner, content, tmp_path):
    """Columns that were rounded once are not changed by being rounded again."""
    captioner.save(tmp_path / "small", precision="int8")
    of_decoder = {tuple(weight.shape)[::-1] for weight in captioner.decoder.weights if len(weight.shape) == 2}
    with without_fast_twins():
        whole = file_with_signatures(Captioner.load(tmp_path / "small"), GREEDY, {})
    before, after = _matrices(whole), _matrices(rounded(whole))
    matrices = before.keys() & of_decoder
    assert len(matrices) > 3 and before.keys() == after.keys()
    for shape in matrices:
        for one, other in zip(before[shape], after[shape]):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def _matrices(content):
    """Return the weights of fully connected layers in the first graph, by shape, as float32."""
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    found = {}
    for graph in model.subgraphs:
        made = {int(step.outputs[0]): int(step.inputs[0]) for step in graph.operators if len(step.outputs) == 1}
        for step in graph.operators:
            if model.operatorCodes[step.opcodeIndex].builtinCode != schema.BuiltinOperator.FULLY_CONNECTED:
                continue
            tensor = graph.tensors[step.inputs[1]]
            data = model.buffers[tensor.buffer].data
            if data is None:
                tensor = graph.tensors[made[int(step.inputs[1])]]
                if tensor.type != schema.TensorType.INT8:
                    continue
                values = np.frombuffer(bytes(model.buffers[tensor.buffer].data), np.int8).reshape(tensor.shape)
                array = values * np.float32(tensor.quantization.scale)[:, None]
            elif len(data) >= 4096:
                array = np.frombuffer(bytes(data), np.float32).reshape(tensor.shape)
            else:
                continue
            found.setdefault(tuple(tensor.shape), []).append(array)
    return found
