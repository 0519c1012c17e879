"""The scores of captions by name, as coco-caption computes them, in plain Python; METEOR asks its own program.

A score is a function of `references`, one list of captions for each photo, and `candidates`, one caption for each
photo. Captions are texts, which `tokenise` cuts into words, or lists of words. Special tokens never belong in them.
Each score has a companion that says how much each photo contributes to it.
"""

from keras_sat.scoring.bleu import bleu
from keras_sat.scoring.cider import cider
from keras_sat.scoring.meteor import score_meteor
from keras_sat.scoring.rouge import rouge_l
from keras_sat.scoring.words import as_words


def meteor(references, candidates):
    """Return {"meteor": .., "meteor_kind": ..}: which METEOR depends on what is installed, see `scoring.meteor`.

    Args:
        references: list of lists of captions.
        candidates: list of captions.
    """
    found = score_meteor(*as_words(references, candidates))
    return {"meteor": found.corpus, "meteor_kind": found.kind}


SCORES = {"bleu": bleu, "rouge_l": rouge_l, "cider": cider, "meteor": meteor}
