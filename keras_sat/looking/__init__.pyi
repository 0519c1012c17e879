"""Made by docs/make_stubs.py: where the exported names are."""

from keras_sat.looking.curves import plot_history as plot_history
from keras_sat.looking.display import AttentionDisplay as AttentionDisplay
from keras_sat.looking.gallery_page import GalleryPage as GalleryPage
from keras_sat.looking.gallery_page import gallery as gallery
from keras_sat.looking.player import empty_figure as empty_figure
from keras_sat.looking.player import fill as fill
from keras_sat.looking.player import template_part as template_part
from keras_sat.looking.trace import make_trace as make_trace
from keras_sat.looking.trace import trace_of_result as trace_of_result
from keras_sat.looking.votes import with_votes as with_votes

__all__ = [
    "AttentionDisplay",
    "GalleryPage",
    "empty_figure",
    "fill",
    "gallery",
    "make_trace",
    "plot_history",
    "template_part",
    "trace_of_result",
    "with_votes",
]
