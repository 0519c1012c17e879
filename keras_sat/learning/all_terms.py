"""Loss terms from after the paper, one idea per file: TERMS maps an option, the weight
of a term, to its class.
"""

from keras_sat.learning.boxes import AttentionOnBoxes
from keras_sat.learning.guide import Guide
from keras_sat.learning.label_smoothing import LabelSmoothing
from keras_sat.learning.sharpness import Sharpness

TERMS = {term.option: term for term in (LabelSmoothing, AttentionOnBoxes, Guide, Sharpness)}


def make_terms(captioner, loss):
    """Return the list of Terms that these settings, a Loss, add to the objective: only
    those with a weight are asked for.
    """
    weighted = [term for option, term in TERMS.items() if getattr(loss, option)]
    terms = [term.of(captioner, loss) for term in weighted]
    return [term for term in terms if term is not None]
