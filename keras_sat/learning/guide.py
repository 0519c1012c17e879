"""The guide: word detectors, which are trained only on captions, supervise attention.

A caption says that there is a dog in the photo, but not where. A detector gives each
region a probability; the probability that at least one region shows the word is trained
on the captions (multiple-instance learning). The detector's map is then the target of
attention when the decoder predicts this word. Captioning needs no detectors.

Source: the detectors are those of Fang et al., 2015, From Captions to Visual Concepts
and Back. Gain here: the peak of attention is on the boxes of 50.6 % of the phrases
instead of 45.9 % (small boxes: 27.7 % instead of 21.0 %), with attention after reading
and a sentinel; CIDEr is .542 instead of .596. Other options differ too; see
docs/results.md and benchmarks/flickr8k/tried.md.
"""

import keras
from keras import layers, ops

from data_utils.datasets import PLACELESS
from keras_sat import equations
from keras_sat.learning.boxes import AttentionOnBoxes
from keras_sat.learning.replicas import photos_with_words
from keras_sat.learning.term import Term

MOST_WORDS = 1000  # maximum number of detectors, for the most frequent words
HIDDEN_DIM, DROPOUT = 256, 0.3
FEW_CELLS = -7.0  # initial bias: at first no cell contains any word


def word_detectors(num_words, *, seed=0, dtype=None):
    """Return a network that maps features to the logits of p_iw, the probability that
    region i shows word w.
    """
    bias = keras.initializers.Constant(FEW_CELLS)
    detectors = [
        layers.Dense(HIDDEN_DIM, activation="relu", name="hidden", dtype=dtype),
        layers.Dropout(DROPOUT, seed=seed, name="drop", dtype=dtype),
        layers.Dense(num_words, bias_initializer=bias, name="cell_logits", dtype=dtype),
        layers.Activation("linear", dtype="float32"),
    ]
    return keras.Sequential(detectors, name="detectors")


class Guide(Term):
    """The loss terms of `guide_weight`: one trains detectors, one penalises attention
    that differs from their maps.

    The most frequent words, which come first in the vocabulary, have detectors. `boxes`
    is an AttentionOnBoxes that also supervises their maps, or None.
    """

    option = "guide_weight"

    def __init__(self, vocabulary, *, weight, boxes=None, seed=0, dtype=None):
        super().__init__(weight)
        self.boxes = boxes
        self.words = [word for word in vocabulary.words if word not in PLACELESS][:MOST_WORDS]
        numbers = {
            token_id: number
            for number, token_id in enumerate(vocabulary.caption_to_ids(self.words))
        }
        # The number of each token's detector; tokens without one have the next number
        # after the last.
        self.detector_of = [
            numbers.get(token_id, len(numbers)) for token_id in range(len(vocabulary))
        ]
        self.detectors = word_detectors(len(self.words), seed=seed, dtype=dtype)
        self.layers = (self.detectors,)

    @classmethod
    def of(cls, captioner, loss):
        has_words = not PLACELESS.issuperset(captioner.vocabulary.words)
        if not (captioner.decoder.has_attention and has_words):
            return None
        boxes = AttentionOnBoxes.of(captioner, loss) if loss.box_weight else None
        decoder = captioner.decoder
        # Lower seeds are already used.
        kind = {"seed": decoder.settings.seed + 5, "dtype": decoder.dtype_policy}
        return cls(captioner.vocabulary, weight=loss.guide_weight, boxes=boxes, **kind)

    def check(self, batches):
        (_, input_ids, *_), *_ = batches.element_spec
        if len(input_ids.shape) == 2:
            problem = (
                "Detectors need all captions of a photo in one batch: use make_batches(..., "
                'group_by="image").'
            )
            raise ValueError(
                f"{problem} Received: batches of captions by length, with "
                f"guide_weight={self.weight}"
            )

    def __call__(self, features, target_ids, read, covered):
        if not self.detectors.built:  # the captioner is not compiled
            return 0.0, {}
        cell_logits = self.detectors(features, training=True)
        photos, _, num_words = ops.shape(cell_logits)
        rows, _ = ops.shape(target_ids)
        detector_of = ops.convert_to_tensor(self.detector_of, "int32")
        detector = ops.where(
            read.token_weights > 0, ops.take(detector_of, target_ids), num_words
        )  # (rows, time); num_words stands for no detector
        photo_detectors = ops.reshape(detector, (photos, -1))
        is_in_photo = ops.max(ops.one_hot(photo_detectors, num_words + 1), axis=1)
        is_in_photo = is_in_photo[:, :num_words]  # (photos, words)
        detection = ops.sum(
            equations.detection_loss(cell_logits, is_in_photo), axis=-1
        )  # (photos,)

        maps, certainty = self._of_target_words(cell_logits, detector)
        # The sentinel reduces the attention to regions: the guide also supervises when
        # to attend to the photo.
        attended = read.attention_weights * read.extras.get("from_photo", 1.0)
        difference = equations.map_cross_entropy(ops.stop_gradient(maps), attended)  # (rows, time)

        caption_costs = ops.sum(certainty * difference, axis=-1)  # (rows,)
        costs = self.weight * caption_costs + ops.repeat(detection, rows // photos)
        if self.boxes is not None:
            has_detector = ops.cast(detector < num_words, "float32")
            costs = costs + self.boxes.of_maps(maps, has_detector, read, covered)
        is_photo = photos_with_words(read.token_weights, photos)
        return costs, {"detection": (detection, is_photo), "guide": (difference, certainty)}

    def _of_target_words(self, cell_logits, detector):
        """Return the detector's map for each target word, (rows, time, regions), and
        the probability that the photo shows the word, (rows, time).

        Both are 0 for words without a detector. See `__call__` for `detector`.
        """
        photos, regions, num_words = ops.shape(cell_logits)
        rows, time = ops.shape(detector)
        maps = ops.transpose(equations.detector_maps(cell_logits), (0, 2, 1))
        certainty = equations.detected(ops.stop_gradient(cell_logits))
        # One more detector, which stands for none: (photos, words + 1, regions) and
        # (photos, words + 1).
        maps = ops.pad(maps, ((0, 0), (0, 1), (0, 0)))
        certainty = ops.pad(certainty, ((0, 0), (0, 1)))

        photo_detectors = ops.reshape(detector, (photos, -1))
        first_of_photo = (num_words + 1) * ops.arange(photos)[:, None]
        places = ops.reshape(first_of_photo + photo_detectors, (-1,))  # (rows * time,)
        maps = ops.take(ops.reshape(maps, (-1, regions)), places, axis=0)
        certainty = ops.take(ops.reshape(certainty, (-1,)), places)
        return ops.reshape(maps, (rows, time, regions)), ops.reshape(certainty, (rows, time))
