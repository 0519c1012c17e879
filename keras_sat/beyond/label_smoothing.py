"""Label smoothing: a fraction of the target's probability is spread evenly over the vocabulary.

Cross-entropy is minimal if the network gives all probability to the next word of one person's caption, though another
person would have chosen another word. With a fraction s, log p of the target becomes

    (1 - s) log p(y_t) + s mean_w log p(w),

which is log p(y_t) minus the cost below. Only the metric "loss" includes it.

Source: Szegedy et al., 2016, Rethinking the Inception Architecture for Computer Vision, section 7.
Gain here: not measured by itself. All rows of benchmarks/flickr8k/tried.md have a fraction of .1, as do the presets for
Flickr8k, Flickr30k and COCO.
"""

from keras_sat import equations
from keras_sat.beyond.hook import Term


class LabelSmoothing(Term):
    """The cost of the option `label_smoothing`.

    Args:
        fraction: fraction of the probability that is spread.
    """

    is_measured = True

    def __init__(self, fraction):
        self.fraction = fraction

    @classmethod
    def of(cls, captioner, options):
        return cls(options.label_smoothing) if options.label_smoothing else None

    def __call__(self, features, target_ids, read, extra):
        lost = read.log_probs - equations.mean_log_probs(read.logits)
        return self.fraction * equations.caption_log_prob(read.unpack_words(lost), read.token_weights), {}
