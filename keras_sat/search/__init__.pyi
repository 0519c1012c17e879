"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.search.algorithms import RepetitionRules as RepetitionRules
from keras_sat.search.algorithms import allowed_logits as allowed_logits
from keras_sat.search.algorithms import beam_search as beam_search
from keras_sat.search.algorithms import greedy_search as greedy_search
from keras_sat.search.algorithms import run_search as run_search
from keras_sat.search.algorithms import sample_search as sample_search
from keras_sat.search.algorithms import special_tokens as special_tokens
from keras_sat.search.engine import Engine as Engine
from keras_sat.search.engine import padded as padded
from keras_sat.search.engine import photos_of_one_size as photos_of_one_size
from keras_sat.search.ensemble import Ensemble as Ensemble
from keras_sat.search.generation import CaptionGenerator as CaptionGenerator
from keras_sat.search.keras_engine import LENGTH_STEP as LENGTH_STEP
from keras_sat.search.keras_engine import KerasEngine as KerasEngine
from keras_sat.search.result import DOUBT_MARK as DOUBT_MARK
from keras_sat.search.result import DOUBTFUL as DOUBTFUL
from keras_sat.search.result import CaptionResult as CaptionResult
from keras_sat.search.result import ComparedCaption as ComparedCaption
from keras_sat.search.result import SearchResult as SearchResult
from keras_sat.search.result import caption_score as caption_score
from keras_sat.search.result import families_of as families_of
from keras_sat.search.result import results_of as results_of
from keras_sat.search.result import with_image_paths as with_image_paths
from keras_sat.search.result import with_values as with_values

__all__ = [
    "CaptionGenerator",
    "CaptionResult",
    "ComparedCaption",
    "DOUBTFUL",
    "DOUBT_MARK",
    "Engine",
    "Ensemble",
    "KerasEngine",
    "LENGTH_STEP",
    "RepetitionRules",
    "SearchResult",
    "allowed_logits",
    "beam_search",
    "caption_score",
    "families_of",
    "greedy_search",
    "padded",
    "photos_of_one_size",
    "results_of",
    "run_search",
    "sample_search",
    "special_tokens",
    "with_image_paths",
    "with_values",
]
