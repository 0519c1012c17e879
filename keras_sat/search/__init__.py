"""Search algorithms that generate captions step by step, and the results that they return."""

from data_utils.lazy_imports import attach_lazily

__getattr__, __dir__, __all__ = attach_lazily(
    __name__, {"algorithms": ["SearchResult", "allowed_logits", "beam_search", "greedy_search", "sample_search"]}
)
