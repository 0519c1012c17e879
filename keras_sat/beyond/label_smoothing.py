"""Label smoothing: a share of the target word's probability is spread evenly over the vocabulary.

Cross-entropy is least where the network gives the next word of one person's caption all of the probability, though
another person would have gone on with another word. With a share s, log p of the target becomes

    (1 - s) log p(y_t) + s mean_w log p(w),

which is log p(y_t) minus the cost below. Metrics other than the loss stay without it.

Source: Szegedy et al., 2016, Rethinking the Inception Architecture for Computer Vision, section 7.
What it brought here: not measured by itself. All rows of benchmarks/flickr8k/tried.md have a share of .1, and so have
the presets of Flickr8k, Flickr30k and COCO.
"""

from keras_sat import equations
from keras_sat.beyond.hook import Term


class LabelSmoothing(Term):
    """What a captioner with the option `label_smoothing` adds to its loss.

    Args:
        share: of the probability that is spread.
    """

    is_measured = True

    def __init__(self, share):
        self.share = share

    @classmethod
    def of(cls, captioner, options):
        return cls(options.label_smoothing) if options.label_smoothing else None

    def __call__(self, features, target_ids, read, extra):
        lost = read.log_probs - equations.mean_log_probs(read.logits)
        return self.share * equations.caption_log_prob(read.put_back(lost), read.token_weights), {}
