"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.training.callbacks import BeginWithExpectations as BeginWithExpectations
from keras_sat.training.callbacks import DrawAttention as DrawAttention
from keras_sat.training.callbacks import KeepTraining as KeepTraining
from keras_sat.training.callbacks import ScoreCaptions as ScoreCaptions
from keras_sat.training.callbacks import ShowCaptions as ShowCaptions
from keras_sat.training.callbacks import ShowProgress as ShowProgress
from keras_sat.training.distributed import Cluster as Cluster
from keras_sat.training.distributed import several_gpus as several_gpus
from keras_sat.training.distributed import several_hosts as several_hosts
from keras_sat.training.plan import CAPTIONER_ARGUMENTS as CAPTIONER_ARGUMENTS
from keras_sat.training.plan import make_plan as make_plan
from keras_sat.training.plan import this_computer as this_computer
from keras_sat.training.recipe import fit as fit

__all__ = [
    "BeginWithExpectations",
    "CAPTIONER_ARGUMENTS",
    "Cluster",
    "DrawAttention",
    "KeepTraining",
    "ScoreCaptions",
    "ShowCaptions",
    "ShowProgress",
    "fit",
    "make_plan",
    "several_gpus",
    "several_hosts",
    "this_computer",
]
