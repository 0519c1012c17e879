"""keras_sat/files/course: the weights that one chapter of the course hands to the next,
for readers who begin there.
"""

from importlib import resources

import numpy as np
import pytest

from data_utils import draw_scenes, is_true
from keras_sat import Captioner, show_attend_tell

CHAPTER_5 = resources.files("keras_sat.files") / "course" / "chapter_5.npz"


@pytest.fixture(scope="module")
def arrays():
    """The arrays of chapter 5 by name: the paper's letter, and which weight it is."""
    with CHAPTER_5.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@pytest.fixture(scope="module")
def model(arrays):
    model = show_attend_tell.ShowAttendTell(
        vocabulary_size=45, embedding_dim=32, hidden_dim=128, attention_dim=64
    )
    model(np.zeros((1, 256, 66), "float32"), np.zeros((1, 1), "int32"))
    model.set_weights(list(arrays.values()))
    return model


def test_they_are_in_the_order_of_the_model(arrays, model):
    assert [array.shape for array in arrays.values()] == [w.shape for w in model.weights]
    assert [*arrays][:2] == ["baseline", "E.embeddings"]
    assert model.embedding.embeddings.numpy().sum() == arrays["E.embeddings"].sum()
    assert (model.word_logits.bias.numpy() == arrays["L_o.bias"]).all()


@pytest.mark.slow
def test_nine_captions_in_ten_of_unseen_scenes_are_true(model):
    captioner = Captioner.from_pretrained("scenes")
    scenes = [scene for scene in draw_scenes(800, seed=77, twin_share=0) if len(scene.objects) == 2]
    grids = captioner.encode(np.stack([scene.image for scene in scenes]))
    captions = show_attend_tell.caption(model, grids, captioner.vocabulary)
    true = [is_true(scene, " ".join(words)) for scene, (words, _) in zip(scenes, captions)]
    assert len(true) > 300
    assert np.mean([one is True for one in true]) > 0.88
