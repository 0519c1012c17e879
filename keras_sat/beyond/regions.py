"""Phrases for regions: the captioner also learns to describe a part of a photo, "a
black dog", from annotators' boxes.

A phrase starts with `<region>`, and only the cells of its box are visible, see
`CaptionDecoder.reveal`.

Source: Johnson et al., 2016, DenseCap: Fully Convolutional Localization Networks for
Dense Captioning, where the regions are found by the network; here the user points at
one. Gain here: phrases of one thing. The annotator's noun is said less often (29.3
instead of 31.2 %), since a caption of the region names two or three; see
benchmarks/flickr8k/tried.md.
"""

from keras import ops

from keras_sat import equations
from keras_sat.beyond.hook import Term


class RegionPhrases(Term):
    """The loss term of `region_weight`: if it is 1, a phrase counts like a caption.

    Hard attention is not sampled.

    Args:
        weight: of a phrase.
        captioner: the Captioner, which reads the phrases.
    """

    def __init__(self, weight, captioner):
        super().__init__(weight)
        self.captioner = captioner

    @classmethod
    def of(cls, captioner, options):
        if not options.region_weight:
            return None
        # With hard attention, each caption has num_samples rows.
        rows_per_caption = options.num_samples if captioner.decoder.draws_places else 1
        return cls(options.region_weight * rows_per_caption, captioner)

    def __call__(self, features, target_ids, read, extra):
        if len(extra) < 3:  # this batch has no phrases
            return 0.0, {}
        _, phrase_ids, visible = extra  # (photos, phrases, time) and (photos, phrases, regions)
        photos, num_phrases, time = ops.shape(phrase_ids)
        phrase_ids = ops.reshape(phrase_ids, (-1, time))
        starts = ops.full_like(phrase_ids[:, :1], self.captioner.vocabulary.region_token_id)
        input_ids = ops.concatenate([starts, phrase_ids[:, :-1]], axis=1)
        token_weights = ops.cast(phrase_ids > 0, "float32")  # `<pad>` is 0
        # Each phrase shows other regions: each has its own copy of the features.
        features = ops.repeat(features, num_phrases, axis=0)
        visible = ops.reshape(visible, (photos * num_phrases, -1))
        phrases = self.captioner.read(
            features, input_ids, phrase_ids, token_weights, training=True, visible=visible
        )
        word_log_probs = phrases.unpack_words(phrases.log_probs)
        phrase_costs = -equations.caption_log_prob(word_log_probs, token_weights)
        photo_costs = ops.sum(
            ops.reshape(phrase_costs, (photos, -1)), axis=1, keepdims=True
        )  # (photos, 1)
        # Costs are averaged over captions: the phrases of a photo are added to its
        # first caption, which always exists.
        captions = ops.shape(target_ids)[0] // photos
        costs = ops.reshape(ops.pad(photo_costs, ((0, 0), (0, captions - 1))), (-1,))
        figures = {"phrase_cross_entropy": (-word_log_probs, token_weights)}
        return self.weight * costs, figures
