"""The file for LiteRT with several signatures, and the same file made small."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from data_utils import draw_scenes
from data_utils.features import in_16_bits
from keras_sat.export.export_formats import exported_searches
from keras_sat.export.litert import SIGNATURES, litert_file
from keras_sat.export.litert_weights import rounded

pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")


@pytest.fixture(scope="module")
def content(captioner):
    return litert_file(captioner, *exported_searches(captioner))


@pytest.fixture(scope="module")
def photos():
    return np.stack([scene.image for scene in draw_scenes(20, seed=77)])


def runners(content):
    interpreter = tf.lite.Interpreter(model_content=content)
    return {
        name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()
    }


@pytest.mark.slow
def test_each_signature_does_what_the_captioner_does(captioner, content, photos):
    run = runners(content)
    assert run.keys() == {*SIGNATURES}
    for photo in photos[:5]:
        best = captioner.caption(photo, num_beams=3, num_results=3)
        features = in_16_bits(run["encode"](images=photo[None])["features"])
        found = run["beams"](features=features)
        assert len(found["token_ids"]) == 3
        for number, result in enumerate([best, *best.alternatives]):
            assert_same(found, number, result, captioner)
            assert found["confidence"][number] == pytest.approx(result.confidence, abs=1e-3)
        ids = np.zeros((1, 20), np.int32)
        given = [
            *captioner.vocabulary.caption_to_ids(best.words),
            captioner.vocabulary.end_token_id,
        ]
        ids[0, : len(given)] = given
        assert_same(run["attend"](features=features, token_ids=ids), 0, best, captioner)
        assert_same(
            run["serving_default"](images=photo[None]),
            0,
            captioner.caption(photo, num_beams=1),
            captioner,
        )


def assert_same(found, number, result, captioner):
    """Compare one of the captions of a signature with a CaptionResult."""
    count = len(result.words)
    assert captioner.vocabulary.ids_to_words(found["token_ids"][number]) == result.words
    assert found["num_words"][number] == count
    assert found["log_prob"][number] == pytest.approx(result.log_prob, abs=1e-3)
    np.testing.assert_allclose(
        found["attention_weights"][number, :count], result.attention_weights, atol=1e-4
    )
    assert not found["attention_weights"][number, count:].any()


@pytest.mark.slow
def test_rounded_weights_keep_the_captions(content, photos):
    small = rounded(content)
    assert len(small) < 0.5 * len(content) and len(gzip.compress(small, mtime=0)) < 0.4 * len(
        content
    )
    one, other = (runners(file)["serving_default"] for file in (content, small))
    same = [
        np.array_equal(*(run(images=photo[None])["token_ids"] for run in (one, other)))
        for photo in photos
    ]
    assert sum(same) >= 19
