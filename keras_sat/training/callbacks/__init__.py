"""What happens between the epochs of a training: callbacks of Keras, and the figures that they read and write."""

from keras_sat.training.callbacks.dev_captions import ScoreCaptions, ShowCaptions, score_captions
from keras_sat.training.callbacks.epoch_progress import ShowProgress
from keras_sat.training.callbacks.keep import KeepTraining
from keras_sat.training.callbacks.nan_loss import LostTraining, StopWhenLost
from keras_sat.training.callbacks.warm_up import BeginWithExpectations

__all__ = ["BeginWithExpectations", "KeepTraining", "LostTraining", "ScoreCaptions", "ShowCaptions", "ShowProgress"]
__all__ += ["StopWhenLost", "score_captions"]
