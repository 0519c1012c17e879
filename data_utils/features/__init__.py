"""The feature cache: photos are encoded once, and their features are read from disk."""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "build": ["describe_encoder", "encoded_batches", "reading_options"],
    "cache": ["FeatureCache"],
    "cache_layout": ["reject_differences", "write_features"],
    "encode": ["ENCODED_TOGETHER", "encoding_function", "in_16_bits"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
