"""Put the fast twins in the place of a decoder's plain methods."""

from keras import ops

from keras_sat.accelerated import fused, unroll
from keras_sat.accelerated.switch import fast_twins_are_on
from keras_sat.model.attention import BahdanauAttention
from keras_sat.model.decoder import CaptionDecoder


def accelerate(decoder, num_regions):
    """Give a CaptionDecoder its fast twins, except where a subclass has methods of its own.

    Inside `keras_sat.accelerated.switch.without_fast_twins` they hand over to the plain methods.

    Args:
        decoder: CaptionDecoder.
        num_regions: of the grids that it will see. The scores of few regions have no twin: it would gain nothing.
    """
    attention, plain = decoder.attention_layer, decoder.read_words
    if type(decoder).read_words is CaptionDecoder.read_words:
        decoder.read_words = lambda *args: unroll.read_words(decoder, *args) if fast_twins_are_on() else plain(*args)
    if type(attention) is BahdanauAttention and num_regions * attention.attention_dim >= fused.SMALL:
        project = attention.project
        attention.project = lambda features: fused.prepare(project(features))
        attention.score = lambda query, projected: fused.additive_scores(
            projected, query, ops.cast(attention.score_vector, attention.compute_dtype)
        )
