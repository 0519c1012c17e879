"""Score captions, and measure whether attention is on what the words name."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "bleu_score": ["bleu", "bleu_counts", "bleu_of_counts"],
    "calibration_error": ["FRACTION_NAMED", "Calibration", "fraction_named"],
    "cider_score": ["DocumentFrequencies", "cider", "cider_of_photos", "cider_of_vectors"],
    "comparison": ["Comparison", "compare", "mean_and_deviation"],
    "evaluation": [
        "NUM_REFERENCES",
        "described_photos",
        "evaluate",
        "evaluate_captions",
        "open_cache",
    ],
    "explaining": ["METHODS", "explain_words", "log_probs_of", "removal_curves"],
    "faithfulness": ["faithfulness_figures", "measure_faithfulness", "reject_unfit_captioner"],
    "grounding": ["Grounding", "ground", "ground_scenes"],
    "leakage": ["check_training_photos"],
    "meteor": ["NLTK_WEIGHTS"],
    "published": ["PUBLISHED"],
    "rouge": ["rouge_l"],
    "scores": ["SCORES", "score_titles", "mean_over_photos", "score_in_words", "unit_and_digits"],
    "table": ["ScoreTable"],
    "words": ["MAX_ORDER"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
