"""Made by docs/make_stubs.py: where the exported names are."""

from data_utils.features.build import describe_encoder as describe_encoder
from data_utils.features.build import encoded_batches as encoded_batches
from data_utils.features.build import reading_options as reading_options
from data_utils.features.cache import FeatureCache as FeatureCache
from data_utils.features.cache_layout import reject_differences as reject_differences
from data_utils.features.cache_layout import write_features as write_features
from data_utils.features.encode import ENCODED_TOGETHER as ENCODED_TOGETHER
from data_utils.features.encode import encoding_function as encoding_function
from data_utils.features.encode import in_16_bits as in_16_bits

__all__ = [
    "ENCODED_TOGETHER",
    "FeatureCache",
    "describe_encoder",
    "encoded_batches",
    "encoding_function",
    "in_16_bits",
    "reading_options",
    "reject_differences",
    "write_features",
]
