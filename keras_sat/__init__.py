"""Show, Attend and Tell in Keras 3: train an attention-based image captioner, and look
inside it.
"""

from keras_sat.shadowed import reject_other_data_utils

reject_other_data_utils()

from data_utils.base import attach_lazily  # noqa: E402 (after the check)

__version__ = "0.1.0"

NAMES_BY_MODULE = {
    "network.encoders": ["ENCODERS"],
    "network.attention": [
        "ATTENTIONS",
        "SCORINGS",
        "BahdanauAttention",
        "BilinearAttention",
        "DotAttention",
    ],
    "network.decoder": ["CaptionDecoder"],
    "network.step_records": ["DecoderState", "Step"],
    "search.algorithms": ["beam_search", "greedy_search", "sample_search"],
    "search.result": ["CaptionResult", "SearchResult"],
    "captioner": ["Captioner"],
    "export.litert_captioner": ["LiteRTCaptioner", "load_litert"],
    "scale.ray_data": ["distributed_caption"],
    "measuring.scores": ["SCORES"],
    "measuring.evaluation": ["evaluate", "evaluate_captions"],
    "measuring.explaining": ["explain_words", "log_probs_of", "removal_curves"],
    "measuring.calibration_error": ["Calibration"],
    "after_search.calibration": ["calibrate"],
    "measuring.table": ["ScoreTable"],
    "measuring.comparison": ["Comparison", "compare"],
    "training.callbacks": [
        "BeginWithExpectations",
        "DrawAttention",
        "KeepTraining",
        "ScoreCaptions",
        "ShowCaptions",
        "ShowProgress",
    ],
    "looking.curves": ["plot_history"],
    "looking.display": ["AttentionDisplay"],
    "looking.gallery_page": ["gallery"],
    "measuring.grounding": ["Grounding", "ground"],
    "learning.self_critical": ["SelfCritical"],
    "search.ensemble": ["Ensemble"],
    "presets": ["PRESETS"],
    "training.recipe": ["fit"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
