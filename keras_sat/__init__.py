"""Show, Attend and Tell in Keras 3: train an attention-based image captioner, and look
inside it.
"""

from keras_sat.shadowed import reject_other_data_utils

reject_other_data_utils()

from data_utils.lazy_imports import attach_lazily  # noqa: E402 (after the check)

__version__ = "0.1.0"

NAMES_BY_MODULE = {
    "model.encoders": ["ENCODERS"],
    "model.attention": [
        "ATTENTIONS",
        "SCORINGS",
        "BahdanauAttention",
        "BilinearAttention",
        "DotAttention",
    ],
    "model.decoder": ["CaptionDecoder"],
    "model.step": ["DecoderState", "Step"],
    "search.algorithms": ["SearchResult", "beam_search", "greedy_search", "sample_search"],
    "search.result": ["CaptionResult"],
    "captioner": ["Captioner"],
    "deploy.litert_captioner": ["LiteRTCaptioner", "load_litert"],
    "deploy.ray_data": ["distributed_caption"],
    "scoring.scores": ["SCORES"],
    "scoring.evaluate": ["evaluate", "evaluate_captions"],
    "scoring.calibration_error": ["Calibration"],
    "beyond.calibration": ["calibrate"],
    "scoring.table": ["ScoreTable"],
    "scoring.comparison": ["Comparison", "compare"],
    "training.callbacks": [
        "BeginWithExpectations",
        "DrawAttention",
        "KeepTraining",
        "ScoreCaptions",
        "ShowCaptions",
        "ShowProgress",
    ],
    "pictures.curves": ["plot_history"],
    "pictures.display": ["AttentionDisplay"],
    "pictures.gallery": ["gallery"],
    "scoring.grounding": ["Grounding", "ground"],
    "beyond.self_critical": ["SelfCritical"],
    "beyond.ensemble": ["Ensemble"],
    "presets": ["PRESETS"],
    "training.recipe": ["fit"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
