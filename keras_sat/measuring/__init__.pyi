"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.measuring.bleu_score import bleu as bleu
from keras_sat.measuring.bleu_score import bleu_counts as bleu_counts
from keras_sat.measuring.bleu_score import bleu_of_counts as bleu_of_counts
from keras_sat.measuring.calibration_error import FRACTION_NAMED as FRACTION_NAMED
from keras_sat.measuring.calibration_error import Calibration as Calibration
from keras_sat.measuring.calibration_error import fraction_named as fraction_named
from keras_sat.measuring.cider_score import DocumentFrequencies as DocumentFrequencies
from keras_sat.measuring.cider_score import cider as cider
from keras_sat.measuring.cider_score import cider_of_photos as cider_of_photos
from keras_sat.measuring.cider_score import cider_of_vectors as cider_of_vectors
from keras_sat.measuring.comparison import Comparison as Comparison
from keras_sat.measuring.comparison import compare as compare
from keras_sat.measuring.comparison import mean_and_deviation as mean_and_deviation
from keras_sat.measuring.evaluation import NUM_REFERENCES as NUM_REFERENCES
from keras_sat.measuring.evaluation import described_photos as described_photos
from keras_sat.measuring.evaluation import evaluate as evaluate
from keras_sat.measuring.evaluation import evaluate_captions as evaluate_captions
from keras_sat.measuring.evaluation import open_cache as open_cache
from keras_sat.measuring.explaining import METHODS as METHODS
from keras_sat.measuring.explaining import explain_words as explain_words
from keras_sat.measuring.explaining import log_probs_of as log_probs_of
from keras_sat.measuring.explaining import removal_curves as removal_curves
from keras_sat.measuring.faithfulness import faithfulness_figures as faithfulness_figures
from keras_sat.measuring.faithfulness import measure_faithfulness as measure_faithfulness
from keras_sat.measuring.faithfulness import reject_unfit_captioner as reject_unfit_captioner
from keras_sat.measuring.grounding import Grounding as Grounding
from keras_sat.measuring.grounding import ground as ground
from keras_sat.measuring.grounding import ground_scenes as ground_scenes
from keras_sat.measuring.leakage import check_training_photos as check_training_photos
from keras_sat.measuring.meteor import NLTK_WEIGHTS as NLTK_WEIGHTS
from keras_sat.measuring.published import PUBLISHED as PUBLISHED
from keras_sat.measuring.rouge import rouge_l as rouge_l
from keras_sat.measuring.scores import SCORES as SCORES
from keras_sat.measuring.scores import mean_over_photos as mean_over_photos
from keras_sat.measuring.scores import score_in_words as score_in_words
from keras_sat.measuring.scores import score_titles as score_titles
from keras_sat.measuring.scores import unit_and_digits as unit_and_digits
from keras_sat.measuring.table import ScoreTable as ScoreTable
from keras_sat.measuring.words import MAX_ORDER as MAX_ORDER

__all__ = [
    "Calibration",
    "Comparison",
    "DocumentFrequencies",
    "FRACTION_NAMED",
    "Grounding",
    "MAX_ORDER",
    "METHODS",
    "NLTK_WEIGHTS",
    "NUM_REFERENCES",
    "PUBLISHED",
    "SCORES",
    "ScoreTable",
    "bleu",
    "bleu_counts",
    "bleu_of_counts",
    "check_training_photos",
    "cider",
    "cider_of_photos",
    "cider_of_vectors",
    "compare",
    "described_photos",
    "evaluate",
    "evaluate_captions",
    "explain_words",
    "faithfulness_figures",
    "fraction_named",
    "ground",
    "ground_scenes",
    "log_probs_of",
    "mean_and_deviation",
    "mean_over_photos",
    "measure_faithfulness",
    "open_cache",
    "reject_unfit_captioner",
    "removal_curves",
    "rouge_l",
    "score_in_words",
    "score_titles",
    "unit_and_digits",
]
