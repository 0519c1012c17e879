"""Extensions of the paper: one idea per file, with its source and its measured gain; see `extensions`."""

from data_utils.lazy_imports import attach_lazily

# Lazily: `consensus` also runs without TensorFlow.
__getattr__, __dir__, __all__ = attach_lazily(
    __name__, {"extensions": ["FURTHER_EPOCHS", "HOOKS", "hooks_of", "make_decoder", "terms_of"]}
)
