"""What happens between the epochs of a training: callbacks of Keras, and the figures that they read and write."""

from data_utils.quiet import reason_of
from keras_sat.training.callbacks.captions import ScoreCaptions, ShowCaptions, score_captions
from keras_sat.training.callbacks.keep import KeepTraining
from keras_sat.training.callbacks.nan_loss import StopWhenLost
from keras_sat.training.callbacks.progress import ShowProgress
from keras_sat.training.callbacks.warm_up import BeginWithExpectations
from keras_sat.training.history import (
    LEAST_MATCHES,
    LEAST_SCORE,
    MONITORED,
    Curves,
    as_text,
    best_epoch,
    is_at_its_best,
    says_something,
    write_history,
)

__all__ = [
    "LEAST_MATCHES",
    "LEAST_SCORE",
    "MONITORED",
    "BeginWithExpectations",
    "Curves",
    "KeepTraining",
    "ScoreCaptions",
    "ShowCaptions",
    "ShowProgress",
    "StopWhenLost",
    "as_text",
    "best_epoch",
    "is_at_its_best",
    "reason_of",
    "says_something",
    "score_captions",
    "write_history",
]
