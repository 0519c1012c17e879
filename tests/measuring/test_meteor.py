import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from data_utils.captions import tokenise
from keras_sat.measuring import meteor
from keras_sat.measuring.meteor import (
    METEOR_JAVA,
    METEOR_NLTK,
    NO_METEOR,
    Meteor,
    meteor_of_nltk,
    score_meteor,
)

DEBIAN = Path("/usr/share/wordnet")

# lexnames(5WN), the one file that nltk reads and Debian's package lacks: names in
# order, with the part of speech.
NOUNS = """Tops act animal artifact attribute body cognition communication event feeling food group
location motive object person phenomenon plant possession process quantity relation shape
state substance time"""
VERBS = """body change cognition communication competition consumption contact creation emotion
motion perception possession social stative weather"""
LEXNAMES = ["adj.all", "adj.pert", "adv.all", *(f"noun.{name}" for name in NOUNS.split())]
LEXNAMES += [*(f"verb.{name}" for name in VERBS.split()), "adj.ppl"]
PARTS_OF_SPEECH = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


@pytest.fixture(scope="module")
def captions():
    golden = json.loads((Path(__file__).parents[1] / "golden" / "coco_caption.json").read_text())
    references = [[tokenise(text) for text in texts] for texts in golden["references"]]
    return references, [tokenise(text) for text in golden["candidates"]], golden


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    """WordNet's data where nltk finds it: what is installed, or a copy of Debian's
    package wordnet-base.
    """
    import nltk

    try:
        meteor_of_nltk([[["a", "dog"]]], [["a", "puppy"]])
        yield
        return
    except LookupError:
        pass
    if not DEBIAN.is_dir():
        pytest.skip(
            "no WordNet: neither nltk's data nor Debian's package wordnet-base is installed"
        )
    root = tmp_path_factory.mktemp("nltk_data")
    folder = root / "corpora" / "wordnet"
    shutil.copytree(DEBIAN, folder)
    (folder / "index.sense").touch()
    lines = [
        f"{i:02d}\t{name}\t{PARTS_OF_SPEECH[name.split('.')[0]]}" for i, name in enumerate(LEXNAMES)
    ]
    (folder / "lexnames").write_text("\n".join(lines) + "\n")
    nltk.data.path.insert(0, str(root))
    yield
    nltk.data.path.remove(str(root))


@pytest.mark.slow
def test_meteor_1_5_is_what_coco_caption_computes(captions):
    references, candidates, golden = captions
    if meteor.meteor_jar() is None or shutil.which("java") is None:
        pytest.skip("METEOR 1.5 needs Java and pycocoevalcap (the extra `coco`)")
    found = score_meteor(references, candidates)
    assert found.kind == METEOR_JAVA
    assert found.corpus_score == pytest.approx(golden["scores"]["meteor"], abs=1e-6)
    np.testing.assert_allclose(found.photo_scores, golden["of_photos"]["meteor"], atol=1e-6)


@pytest.mark.slow
def test_nltk_with_the_weights_of_1_5_comes_close(captions, wordnet, monkeypatch):
    references, candidates, golden = captions
    monkeypatch.setattr(meteor, "meteor_jar", lambda: None)
    found = score_meteor(references, candidates)
    assert found.kind == METEOR_NLTK
    real = np.array(golden["of_photos"]["meteor"])
    assert np.corrcoef(found.photo_scores, real)[0, 1] > 0.85
    assert found.corpus_score == pytest.approx(real.mean(), rel=0.15), (
        "nltk's own weights would give about twice as much"
    )


def fails(error):
    """A nltk that raises an error."""

    def meteor_of_nltk(references, candidates):
        raise error

    return meteor_of_nltk


def test_without_java_and_without_wordnet_the_kind_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(meteor, "meteor_jar", lambda: None)
    monkeypatch.setattr(meteor, "meteor_of_nltk", fails(LookupError()))
    assert score_meteor([[["a", "dog"]]], [["a", "dog"]]) == Meteor(NO_METEOR, None, None)
    assert "pip install pycocoevalcap" in NO_METEOR and "nltk.downloader wordnet" in NO_METEOR


def test_a_damaged_wordnet_costs_no_captions(monkeypatch):
    monkeypatch.setattr(meteor, "meteor_jar", lambda: None)
    monkeypatch.setattr(meteor, "meteor_of_nltk", fails(OSError("data.noun is missing")))
    with pytest.warns(UserWarning, match="data.noun is missing"):
        assert score_meteor([[["a", "dog"]]], [["a", "dog"]]).corpus_score is None


@pytest.mark.parametrize("answers", ["", "echo not-a-number"])
def test_a_java_that_fails_costs_no_captions(answers, monkeypatch, tmp_path):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho 'Could not reserve enough space' >&2\n{answers}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(meteor, "meteor_jar", lambda: tmp_path / "meteor.jar")
    monkeypatch.setattr(meteor.shutil, "which", lambda name: str(java))
    monkeypatch.setattr(meteor, "meteor_of_nltk", fails(LookupError()))
    with pytest.warns(UserWarning, match="METEOR 1.5 failed"):
        assert score_meteor([[["a", "dog"]]], [["a", "dog"]]).corpus_score is None
