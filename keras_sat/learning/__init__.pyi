"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.learning.all_terms import TERMS as TERMS
from keras_sat.learning.all_terms import make_terms as make_terms
from keras_sat.learning.objective import EXPECTATION_PROBABILITY as EXPECTATION_PROBABILITY
from keras_sat.learning.objective import PaperObjective as PaperObjective
from keras_sat.learning.self_critical import SelfCritical as SelfCritical
from keras_sat.learning.trainer import NO_FORWARD_PASS as NO_FORWARD_PASS
from keras_sat.learning.trainer import Trainer as Trainer
from keras_sat.learning.updates import WeightUpdates as WeightUpdates

__all__ = [
    "EXPECTATION_PROBABILITY",
    "NO_FORWARD_PASS",
    "PaperObjective",
    "SelfCritical",
    "TERMS",
    "Trainer",
    "WeightUpdates",
    "make_terms",
]
