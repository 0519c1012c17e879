"""Terms of the loss; each idea from after the paper names its source and its gain."""

import ast
import inspect
from pathlib import Path

import pytest

import keras_sat
from keras_sat.learning.all_terms import TERMS, make_terms
from keras_sat.settings import Loss

FOLDER = Path(keras_sat.__file__).parent
OTHER_IDEAS = [
    "after_search/calibration.py",
    "after_search/confidence.py",
    "after_search/consensus.py",
    "learning/self_critical.py",
    "search/ensemble.py",
]
IDEAS = [Path(inspect.getfile(term)) for term in TERMS.values()]
IDEAS += [FOLDER / name for name in OTHER_IDEAS]


@pytest.mark.parametrize("path", IDEAS, ids=lambda path: path.stem)
def test_an_idea_names_its_source_and_its_gain(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    described = " ".join(docstring.split())
    assert "Source: " in described and "Gain here: " in described


def test_terms_are_weights_in_the_loss():
    assert TERMS.keys() <= {*Loss.names()}


def test_only_terms_with_a_weight_are_asked_for(monkeypatch):
    def refuse(captioner, loss):
        raise AssertionError("its weight is 0")

    for option in TERMS.keys() - {"label_smoothing"}:
        monkeypatch.setattr(TERMS[option], "of", refuse)
    (smoothing,) = make_terms(None, Loss(label_smoothing=0.1))
    assert isinstance(smoothing, TERMS["label_smoothing"]) and smoothing.weight == 0.1
