"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.after_search.calibration import calibrate as calibrate
from keras_sat.captioner import Captioner as Captioner
from keras_sat.export.litert_captioner import LiteRTCaptioner as LiteRTCaptioner
from keras_sat.export.litert_captioner import load_litert as load_litert
from keras_sat.learning.self_critical import SelfCritical as SelfCritical
from keras_sat.looking.curves import plot_history as plot_history
from keras_sat.looking.display import AttentionDisplay as AttentionDisplay
from keras_sat.looking.gallery_page import gallery as gallery
from keras_sat.measuring.calibration_error import Calibration as Calibration
from keras_sat.measuring.comparison import Comparison as Comparison
from keras_sat.measuring.comparison import compare as compare
from keras_sat.measuring.evaluation import evaluate as evaluate
from keras_sat.measuring.evaluation import evaluate_captions as evaluate_captions
from keras_sat.measuring.explaining import explain_words as explain_words
from keras_sat.measuring.explaining import log_probs_of as log_probs_of
from keras_sat.measuring.explaining import removal_curves as removal_curves
from keras_sat.measuring.grounding import Grounding as Grounding
from keras_sat.measuring.grounding import ground as ground
from keras_sat.measuring.scores import SCORES as SCORES
from keras_sat.measuring.table import ScoreTable as ScoreTable
from keras_sat.network.attention import ATTENTIONS as ATTENTIONS
from keras_sat.network.attention import SCORINGS as SCORINGS
from keras_sat.network.attention import BahdanauAttention as BahdanauAttention
from keras_sat.network.attention import BilinearAttention as BilinearAttention
from keras_sat.network.attention import DotAttention as DotAttention
from keras_sat.network.decoder import CaptionDecoder as CaptionDecoder
from keras_sat.network.encoders import ENCODERS as ENCODERS
from keras_sat.network.step_records import DecoderState as DecoderState
from keras_sat.network.step_records import Step as Step
from keras_sat.presets import PRESETS as PRESETS
from keras_sat.scale.ray_data import distributed_caption as distributed_caption
from keras_sat.search.algorithms import beam_search as beam_search
from keras_sat.search.algorithms import greedy_search as greedy_search
from keras_sat.search.algorithms import sample_search as sample_search
from keras_sat.search.ensemble import Ensemble as Ensemble
from keras_sat.search.result import CaptionResult as CaptionResult
from keras_sat.search.result import SearchResult as SearchResult
from keras_sat.training.callbacks import BeginWithExpectations as BeginWithExpectations
from keras_sat.training.callbacks import DrawAttention as DrawAttention
from keras_sat.training.callbacks import KeepTraining as KeepTraining
from keras_sat.training.callbacks import ScoreCaptions as ScoreCaptions
from keras_sat.training.callbacks import ShowCaptions as ShowCaptions
from keras_sat.training.callbacks import ShowProgress as ShowProgress
from keras_sat.training.recipe import fit as fit

__all__ = [
    "ATTENTIONS",
    "AttentionDisplay",
    "BahdanauAttention",
    "BeginWithExpectations",
    "BilinearAttention",
    "Calibration",
    "CaptionDecoder",
    "CaptionResult",
    "Captioner",
    "Comparison",
    "DecoderState",
    "DotAttention",
    "DrawAttention",
    "ENCODERS",
    "Ensemble",
    "Grounding",
    "KeepTraining",
    "LiteRTCaptioner",
    "PRESETS",
    "SCORES",
    "SCORINGS",
    "ScoreCaptions",
    "ScoreTable",
    "SearchResult",
    "SelfCritical",
    "ShowCaptions",
    "ShowProgress",
    "Step",
    "beam_search",
    "calibrate",
    "compare",
    "distributed_caption",
    "evaluate",
    "evaluate_captions",
    "explain_words",
    "fit",
    "gallery",
    "greedy_search",
    "ground",
    "load_litert",
    "log_probs_of",
    "plot_history",
    "removal_curves",
    "sample_search",
]
__version__: str
