"""Label smoothing: a fraction s of the target's probability is spread uniformly over
the vocabulary.

log p of the target becomes (1 - s) log p(y_t) + s mean_w log p(w), also in the metric
"loss".

Source: Szegedy et al., 2016, Rethinking the Inception Architecture for Computer Vision,
section 7. Gain here: not measured separately; all rows of benchmarks/flickr8k/tried.md
use .1, like the presets.
"""

from keras_sat import equations
from keras_sat.learning.term import Term


class LabelSmoothing(Term):
    """The loss term of `label_smoothing`."""

    option = "label_smoothing"
    is_measured = True

    def __call__(self, features, target_ids, read, covered):
        differences = read.log_probs - equations.mean_log_probs(read.logits)
        word_differences = read.unpack_words(differences)  # (rows, time)
        costs = equations.caption_log_prob(word_differences, read.token_weights)
        return self.weight * costs, {}
