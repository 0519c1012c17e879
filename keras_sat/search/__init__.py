"""Search algorithms that generate captions step by step, and the results that they
return.
"""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "algorithms": [
        "RepetitionRules",
        "allowed_logits",
        "beam_search",
        "greedy_search",
        "run_search",
        "sample_search",
        "special_tokens",
    ],
    "engine": ["Engine", "padded", "photos_of_one_size"],
    "ensemble": ["Ensemble"],
    "generation": ["CaptionGenerator"],
    "keras_engine": ["LENGTH_STEP", "KerasEngine"],
    "result": [
        "DOUBTFUL",
        "DOUBT_MARK",
        "CaptionResult",
        "ComparedCaption",
        "SearchResult",
        "caption_score",
        "families_of",
        "results_of",
        "with_image_paths",
        "with_values",
    ],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
