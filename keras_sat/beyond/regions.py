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
    """

    @classmethod
    def of(cls, captioner, options):
        # Each caption has so many rows.
        samples = options.num_samples if captioner.decoder.draws_places else 1
        term = cls(options.region_weight * samples)
        term.read, term.start_token_id = captioner.read, captioner.vocabulary.region_token_id
        return term if options.region_weight else None

    def __call__(self, features, target_ids, read, extra):
        if len(extra) < 3:  # this batch has no phrases
            return 0.0, {}
        _, phrase_ids, visible = extra  # (photos, phrases, time) and (photos, phrases, regions)
        photos, num_phrases, time = ops.shape(phrase_ids)
        phrase_ids = ops.reshape(phrase_ids, (-1, time))
        input_ids = ops.concatenate(
            [ops.full_like(phrase_ids[:, :1], self.start_token_id), phrase_ids[:, :-1]], axis=1
        )
        token_weights = ops.cast(phrase_ids > 0, "float32")  # `<pad>` is 0
        features, visible = (
            ops.repeat(features, num_phrases, axis=0),
            ops.reshape(visible, (photos * num_phrases, -1)),
        )
        phrases = self.read(
            features, input_ids, phrase_ids, token_weights, training=True, visible=visible
        )
        word_log_probs = phrases.unpack_words(phrases.log_probs)
        of_photos = ops.reshape(
            -equations.caption_log_prob(word_log_probs, token_weights), (photos, -1)
        )
        # Costs are averaged over captions: the phrases of a photo are added to its
        # first caption, which always exists.
        captions = ops.shape(target_ids)[0] // photos
        costs = ops.pad(ops.sum(of_photos, axis=1, keepdims=True), ((0, 0), (0, captions - 1)))
        return self.weight * ops.reshape(costs, (-1,)), {
            "phrase_cross_entropy": (-word_log_probs, token_weights)
        }
