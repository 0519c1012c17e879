"""Show, Attend and Tell in Keras 3: train an attention-based image captioner, and look into it.

Names are imported on first use, so that help and version come without TensorFlow being loaded.
"""

from importlib.metadata import PackageNotFoundError, version

from data_utils.lazy import attach_lazily

try:
    __version__ = version("keras_sat")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"

__getattr__, __dir__, __all__ = attach_lazily(
    __name__,
    {
        "encoders": ["ENCODERS"],
        "attention": ["ATTENTIONS", "SCORINGS", "BahdanauAttention", "BilinearAttention", "DotAttention"],
        "decoder": ["CaptionDecoder", "DecoderState", "Step"],
        "search": ["SearchResult", "beam_search", "greedy_search", "sample_search"],
        "captioning": ["CaptionResult"],
        "captioner": ["Captioner"],
        "scores": ["SCORES"],
        "evaluation": ["ScoreTable", "evaluate", "evaluate_captions"],
        "comparison": ["Comparison", "compare"],
        "callbacks": ["BeginWithExpectations", "KeepTraining", "ScoreCaptions", "ShowCaptions", "ShowProgress"],
        "display": ["AttentionDisplay", "plot_history"],
        "overview": ["gallery"],
        "grounding": ["Grounding", "ground"],
        "self_critical": ["SelfCritical"],
        "ensemble": ["Ensemble"],
        "presets": ["PRESETS"],
        "recipe": ["fit"],
    },
)
