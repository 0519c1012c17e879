"""Replace a decoder's plain methods with fast versions."""

from keras import ops

from keras_sat.accelerated import fused, unroll
from keras_sat.accelerated.switch import fast_twins_are_on
from keras_sat.model.attention import BahdanauAttention
from keras_sat.model.decoder import CaptionDecoder


def accelerate(decoder, num_regions, *, in_training=False):
    """Install the fast methods of a CaptionDecoder, unless a subclass overrides the
    plain ones.
    """
    attention, plain = decoder.attention_layer, decoder.read_words
    if type(decoder).read_words is CaptionDecoder.read_words:
        decoder.read_words = lambda *args: (
            unroll.read_words(decoder, *args) if fast_twins_are_on() else plain(*args)
        )
    # Few regions gain nothing; training has large batches.
    smallest = fused.SMALL if in_training else 2 * fused.SMALL
    if type(attention) is BahdanauAttention and num_regions * attention.attention_dim >= smallest:
        project = attention.project
        attention.project = lambda features: fused.prepare(project(features))
        attention.score = lambda query, projected: fused.additive_scores(
            projected, query, ops.cast(attention.score_vector, attention.compute_dtype)
        )
