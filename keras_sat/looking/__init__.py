"""See where a captioner looked, and how each word came about: overlays, players,
traces, votes, the explorer.
"""

from data_utils.base import attach_lazily

NAMES_BY_MODULE = {
    "curves": ["plot_history"],
    "display": ["AttentionDisplay"],
    "gallery_page": ["GalleryPage", "gallery"],
    "player": ["empty_figure", "fill", "template_part"],
    "trace": ["make_trace", "trace_of_result"],
    "votes": ["with_votes"],
}

__getattr__, __dir__, __all__ = attach_lazily(__name__, NAMES_BY_MODULE)
