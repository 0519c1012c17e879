import math

import pytest
from nltk.translate import bleu_score

from data_utils import draw_scenes
from data_utils.captions import tokenise
from keras_sat.scores import SCORES, bleu


@pytest.fixture(scope="module")
def scene_captions():
    """References of scenes, and candidates: captions of the scenes before, which share many words with them."""
    scenes = draw_scenes(60, seed=8)
    return [list(scene.captions[:4]) for scene in scenes], [scenes[i - 1].captions[4] for i in range(len(scenes))]


def test_by_hand():
    references = [["a dog runs on grass", "the dog is running"], ["two cats"]]
    scores = bleu(references, ["a dog runs runs", "two cats sleep"])
    # 1-grams: a, dog, runs (the second one is cut) of 4; two, cats of 3.
    # 2-grams: 2 of 3; 1 of 2. 3-grams: 1 of 2; 0 of 1.
    one, two, three = 5 / 7, 3 / 5, 1 / 3
    assert scores["bleu_1"] == pytest.approx(one)
    assert scores["bleu_2"] == pytest.approx(math.sqrt(one * two))
    assert scores["bleu_3"] == pytest.approx((one * two * three) ** (1 / 3))
    assert scores["bleu_4"] < 1e-3


def test_brevity_penalty_compares_with_the_closest_reference():
    scores = bleu([["a dog runs on the grass today", "a dog runs on"]], ["a dog runs"])
    assert scores["bleu_1_no_penalty"] == pytest.approx(1.0)
    assert scores["bleu_1"] == pytest.approx(math.exp(1 - 4 / 3))
    longer = bleu([["a dog"]], ["a dog runs"])  # a caption that is too long is punished by its precision alone
    assert longer["bleu_1"] == longer["bleu_1_no_penalty"]


def test_agrees_with_nltk_on_a_corpus(scene_captions):
    # A caption of three words has no 4-gram; nltk counts one all the same, so such captions are left out here.
    pairs = [pair for pair in zip(*scene_captions) if len(tokenise(pair[1])) >= 4]
    references, candidates = zip(*pairs)
    scores = bleu(references, candidates)
    tokens = [[tokenise(caption) for caption in captions] for captions in references], [*map(tokenise, candidates)]
    for n in range(1, 5):
        expected = bleu_score.corpus_bleu(*tokens, weights=[1 / n] * n)
        assert scores[f"bleu_{n}"] == pytest.approx(expected, abs=1e-6)
    assert 0.01 < scores["bleu_4"] < scores["bleu_1"] < 1


def test_texts_and_words_are_the_same(scene_captions):
    references, candidates = scene_captions
    tokens = [[tokenise(caption) for caption in captions] for captions in references], [*map(tokenise, candidates)]
    assert bleu(*tokens) == bleu(references, candidates)
    assert bleu([["A dog, running."]], ["a dog running"])["bleu_3"] == pytest.approx(1.0)


@pytest.mark.parametrize("name", SCORES)
def test_contract(name, scene_captions):
    references, candidates = scene_captions
    scores = SCORES[name](references, candidates)
    perfect = SCORES[name](references, [captions[0] for captions in references])
    nothing = SCORES[name](references, ["zebra"] * len(references))
    empty = SCORES[name](references, [""] * len(references))
    for key, value in scores.items():
        assert nothing[key] < 1e-3 and empty[key] < 1e-3
        assert nothing[key] <= value < perfect[key]
    for bad in ([], ["one"]):
        with pytest.raises(ValueError, match="as many lists of references as candidates"):
            SCORES[name](references, bad)
    with pytest.raises(ValueError, match="list of captions for each photo"):
        SCORES[name](["a dog"], ["a dog"])
    with pytest.raises(ValueError, match="list of captions for each photo"):
        SCORES[name]([[]], ["a dog"])
