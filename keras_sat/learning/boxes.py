"""Box supervision: train attention with boxes that people drew for the phrases of
captions.

`equations.box_loss` is the loss of each word that names something: attention must be on
the boxes of its phrase, and on all of them. A word outside phrases has the boxes of the
same word in the photo's other captions.

Source: Liu et al., 2017, Attention Correctness in Neural Image Captioning, whose loss
is the cross-entropy with the uniform map of the boxes. The boxes are those of Flickr30k
Entities (Plummer et al., 2015); one caption in five of Flickr8k has them.

Gain here: with the first summand alone, the peak of attention is on the boxes for
51.0 % of the phrases instead of 46.7 % (for small boxes, 27.2 % instead of 21.8 %).
With both, in a captioner that was trained further, it is on them for 68.4 % instead of
65.6 % (small boxes: 53.0 % instead of 47.3 %). See benchmarks/flickr8k/tried.md.
"""

from keras import ops

from keras_sat import equations
from keras_sat.learning.term import Term


class AttentionOnBoxes(Term):
    """The loss term of `box_weight`, which penalises attention outside the boxes."""

    option = "box_weight"
    needs = "boxes"
    counts_in_rewards = True

    @classmethod
    def of(cls, captioner, loss):
        return cls(loss.box_weight) if captioner.decoder.has_attention else None

    def __call__(self, features, target_ids, read, covered):
        if covered is None:  # this batch has no boxes
            return 0.0, {}
        covered, is_named = self._of_rows(covered, read)
        off_boxes = equations.box_loss(read.attention_weights, covered)  # (rows, time)
        costs = self.weight * ops.sum(off_boxes * is_named, axis=-1)
        return costs, {"off_boxes": (off_boxes, is_named)}

    def of_maps(self, maps, counts, read, covered):
        """Return the loss (rows,) of other maps (rows, time, regions), at words where
        `counts` (rows, time) is 1.
        """
        if covered is None:
            return 0.0
        covered, is_named = self._of_rows(covered, read)
        off_boxes = equations.box_loss(maps, covered)  # (rows, time)
        return self.weight * ops.sum(off_boxes * is_named * counts, axis=-1)

    def _of_rows(self, covered, read):
        """Return `covered` for each row, (rows, time, regions), and a mask of the words
        with boxes, (rows, time).
        """
        covered = ops.reshape(ops.cast(covered, "float32"), (-1, *ops.shape(covered)[-2:]))
        # With hard attention, each caption has several rows.
        rows_per_caption = ops.shape(read.token_weights)[0] // ops.shape(covered)[0]
        covered = ops.repeat(covered, rows_per_caption, axis=0)
        has_boxes = ops.cast(ops.any(covered > 0, axis=-1), "float32")
        return covered, has_boxes * read.token_weights
