"""The guide: word detectors learn from captions alone where on a photo a word is, and attention follows them.

A caption says that there is a dog on the photo, not where. A detector gives each cell of the grid a probability, and
the photo the probability that at least one of the cells has the word; only that is held against the captions
(multiple-instance learning). What it learns is where: the cells by which photos of dogs differ from all others. The map
of each word of a caption then guides the attention that predicts it. Captions are written without detectors.

Source: the detectors are those of Fang et al., 2015, From Captions to Visual Concepts and Back.
What it brought here: with attention after reading and a sentinel, trained on captions alone, the peak of attention is
on the boxes of 50.6 % of the phrases instead of 45.9 %, and of 27.7 % instead of 21.0 % of those with small boxes; the
captions are worse (CIDEr .542 instead of .596). One training each, whose other options differ too. Measured with
`keras-sat evaluate --grounding --boxes`, in docs/results.md and benchmarks/flickr8k/tried.md.
"""

from collections import Counter

import keras
from keras import layers, ops

from data_utils.captions import tokenise
from data_utils.datasets.boxes import PLACELESS
from keras_sat import equations
from keras_sat.beyond.boxes import AttentionOnBoxes
from keras_sat.beyond.hook import Term
from keras_sat.model.replicas import photos_with_words

MOST_WORDS = 1000  # that have a detector: the most frequent ones
HIDDEN_DIM, DROPOUT = 256, 0.3
FEW_CELLS = -7.0  # the first bias: at first no cell has any word


def words_with_places(words):
    """Return those of a list of words that say what is there to be seen."""
    return [word for word in words if word not in PLACELESS]


@keras.saving.register_keras_serializable("keras_sat")
class WordDetectors(layers.Layer):
    """A detector for each of some words.

    Args:
        num_words: how many.
        seed: of the dropout.

    Call arguments:
        features: what attention is paid to, (photos, regions, feature_dim).
        training: turns dropout on.

    Returns: the logits of p_iw, that region i shows word w: (photos, regions, num_words).
    """

    def __init__(self, num_words, *, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.num_words = num_words
        self.seed = seed
        self.hidden = layers.Dense(HIDDEN_DIM, activation="relu", name="hidden", dtype=self.dtype_policy)
        self.drop = layers.Dropout(DROPOUT, seed=seed, name="drop", dtype=self.dtype_policy)
        bias = keras.initializers.Constant(FEW_CELLS)
        self.cell_logits = layers.Dense(num_words, bias_initializer=bias, name="cell_logits", dtype=self.dtype_policy)

    def build(self, features_shape):
        self.hidden.build(features_shape)
        self.cell_logits.build((None, None, HIDDEN_DIM))

    def call(self, features, training=False):
        return ops.cast(self.cell_logits(self.drop(self.hidden(features), training=training)), "float32")

    def get_config(self):
        return {**super().get_config(), "num_words": self.num_words, "seed": self.seed}


class Guide(Term):
    """What detectors cost, and attention that is not where they find its words, for the option `guide_weight`.

    Args:
        vocabulary: Vocabulary, the most frequent words first.
        weight: guide_weight.
        boxes: AttentionOnBoxes that the maps of the detectors learn from too, or None.
        seed, dtype: of the detectors.

    Attributes:
        detectors: WordDetectors.
        words: list of the words that have one.
    """

    def __init__(self, vocabulary, *, weight, boxes=None, seed=0, dtype=None):
        self.vocabulary = vocabulary
        self.weight = weight
        self.boxes = boxes
        self._give_detectors_to(vocabulary.words)
        self.detectors = WordDetectors(len(self.words), seed=seed, dtype=dtype, name="detectors")
        self.layers = (self.detectors,)

    @classmethod
    def of(cls, captioner, options):
        has_words = captioner.decoder.chooses and words_with_places(captioner.vocabulary.words)
        if not options.guide_weight or not has_words:
            return None
        boxes = AttentionOnBoxes.of(captioner, options)
        kind = {"seed": options.seed + 5, "dtype": captioner.decoder.dtype_policy}  # seeds below are taken
        return cls(captioner.vocabulary, weight=options.guide_weight, boxes=boxes, **kind)

    def prepare(self, captions):
        """Give the detectors to the words that are most frequent in captions.

        The vocabulary has its words in that order, but for those that were added to a captioner from before.
        """
        counts = Counter(word for caption in captions for word in tokenise(caption))
        self._give_detectors_to(sorted(self.vocabulary.words, key=lambda word: -counts[word]))

    def _give_detectors_to(self, words):
        self.words = words_with_places(words)[:MOST_WORDS]
        ids = self.vocabulary.caption_to_ids(self.words)
        numbers = {token_id: number for number, token_id in enumerate(ids)}
        # Which detector a token has; the last number stands for none.
        self.detector_of = [numbers.get(token_id, len(ids)) for token_id in range(len(self.vocabulary))]

    def check(self, batches):
        (_, input_ids, *_), *_ = batches.element_spec
        if len(input_ids.shape) == 2:
            raise ValueError(
                'Word detectors learn from all captions of a photo together: make_batches(..., group_by="image"), or '
                "captioner.adapted(), which trains without them. "
                f"Received: batches of captions by length, with guide_weight={self.weight}"
            )

    def __call__(self, features, target_ids, read, extra):
        if not self.detectors.built:  # by a captioner that is not compiled: its objective alone is asked for
            return 0.0, {}
        cell_logits = self.detectors(features, training=True)
        photos, regions, num_words = ops.shape(cell_logits)
        rows, time = ops.shape(target_ids)
        detector_of = ops.convert_to_tensor([*self.detector_of], "int32")
        detector = ops.where(read.token_weights > 0, ops.take(detector_of, target_ids), num_words)  # (rows, time)
        of_photo = ops.reshape(detector, (photos, -1))
        is_there = ops.max(ops.one_hot(of_photo, num_words + 1), axis=1)[:, :num_words]
        detection = ops.sum(equations.detection_loss(cell_logits, is_there), axis=-1)  # (photos,)

        maps = ops.transpose(equations.detector_maps(cell_logits), (0, 2, 1))  # (photos, words, regions)
        surely = equations.detected(ops.stop_gradient(cell_logits))  # (photos, words)
        nothing = ((0, 0), (0, 1))
        maps, surely = ops.pad(maps, (*nothing, (0, 0))), ops.pad(surely, nothing)
        place = ops.reshape(of_photo + (num_words + 1) * ops.arange(photos)[:, None], (-1,))
        maps = ops.reshape(ops.take(ops.reshape(maps, (-1, regions)), place, axis=0), (rows, time, regions))
        says = ops.reshape(ops.take(ops.reshape(surely, (-1,)), place), (rows, time))
        # What the sentinel takes is missing at the regions, so that the guide says when to look at the photo, too.
        looked = read.attention_weights * read.extras.get("from_photo", 1.0)
        led = equations.map_cross_entropy(ops.stop_gradient(maps), looked)  # (rows, time)

        costs = self.weight * ops.sum(says * led, axis=-1) + ops.repeat(detection, rows // photos)
        if self.boxes is not None:
            has_detector = ops.cast(detector < num_words, "float32")
            costs = costs + self.boxes.of_maps(maps, has_detector, read, extra)
        is_photo = photos_with_words(read.token_weights, photos)
        return costs, {"detection": (detection, is_photo), "guide": (led, says)}
