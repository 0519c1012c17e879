"""What follows a search: confidence in a caption, and choice by consensus."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "calibration": ["FEWEST_DEV_PHOTOS", "calibrate"],
    "confidence": ["Confidence"],
    "consensus": ["FEWEST_TRAINING_PHOTOS", "CONSENSUS_WEIGHT", "Consensus"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
