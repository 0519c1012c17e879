"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.after_search.calibration import FEWEST_DEV_PHOTOS as FEWEST_DEV_PHOTOS
from keras_sat.after_search.calibration import calibrate as calibrate
from keras_sat.after_search.confidence import Confidence as Confidence
from keras_sat.after_search.consensus import CONSENSUS_WEIGHT as CONSENSUS_WEIGHT
from keras_sat.after_search.consensus import FEWEST_TRAINING_PHOTOS as FEWEST_TRAINING_PHOTOS
from keras_sat.after_search.consensus import Consensus as Consensus

__all__ = [
    "CONSENSUS_WEIGHT",
    "Confidence",
    "Consensus",
    "FEWEST_DEV_PHOTOS",
    "FEWEST_TRAINING_PHOTOS",
    "calibrate",
]
