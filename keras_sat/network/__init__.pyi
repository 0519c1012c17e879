"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.network.adapter import FeatureAdapter as FeatureAdapter
from keras_sat.network.attention import ATTENTIONS as ATTENTIONS
from keras_sat.network.attention import SCORINGS as SCORINGS
from keras_sat.network.attention import Attention as Attention
from keras_sat.network.attention import BahdanauAttention as BahdanauAttention
from keras_sat.network.attention import BilinearAttention as BilinearAttention
from keras_sat.network.attention import DotAttention as DotAttention
from keras_sat.network.attention import Selection as Selection
from keras_sat.network.attention import hard as hard
from keras_sat.network.attention import make_attention as make_attention
from keras_sat.network.attention import soft as soft
from keras_sat.network.cells import CELLS as CELLS
from keras_sat.network.cells import GRUCell as GRUCell
from keras_sat.network.cells import LSTMCell as LSTMCell
from keras_sat.network.cells import RecurrentCell as RecurrentCell
from keras_sat.network.decoder import CaptionDecoder as CaptionDecoder
from keras_sat.network.decoder import Readout as Readout
from keras_sat.network.encoder_weights import assign_weights as assign_weights
from keras_sat.network.encoders import ENCODERS as ENCODERS
from keras_sat.network.encoders import make_encoder as make_encoder
from keras_sat.network.encoders import usual_training as usual_training
from keras_sat.network.fast_twins import without_fast_twins as without_fast_twins
from keras_sat.network.forked_process import reject_fork as reject_fork
from keras_sat.network.photo_encoder import BUNDLED as BUNDLED
from keras_sat.network.photo_encoder import PhotoEncoder as PhotoEncoder
from keras_sat.network.precision import resolved_dtype as resolved_dtype
from keras_sat.network.step_records import DecoderState as DecoderState
from keras_sat.network.step_records import Step as Step
from keras_sat.network.teacher_forcing import as_rows as as_rows
from keras_sat.network.teacher_forcing import read_captions as read_captions
from keras_sat.network.weight_paths import IMAGENET as IMAGENET
from keras_sat.network.weight_paths import keras_home as keras_home

__all__ = [
    "ATTENTIONS",
    "Attention",
    "BUNDLED",
    "BahdanauAttention",
    "BilinearAttention",
    "CELLS",
    "CaptionDecoder",
    "DecoderState",
    "DotAttention",
    "ENCODERS",
    "FeatureAdapter",
    "GRUCell",
    "IMAGENET",
    "LSTMCell",
    "PhotoEncoder",
    "Readout",
    "RecurrentCell",
    "SCORINGS",
    "Selection",
    "Step",
    "as_rows",
    "assign_weights",
    "hard",
    "keras_home",
    "make_attention",
    "make_encoder",
    "read_captions",
    "reject_fork",
    "resolved_dtype",
    "soft",
    "usual_training",
    "without_fast_twins",
]
