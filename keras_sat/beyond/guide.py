"""The guide: word detectors learn from captions alone where a word is in a photo, and supervise attention.

A caption says that there is a dog in the photo, not where. A detector gives each cell of the grid a probability, and
the photo the probability that at least one cell has the word; only the latter is compared with the captions
(multiple-instance learning). The detector finds the cells by which photos of dogs differ from all others. Its map of
each word of a caption is then the target of the attention that predicts this word. Captioning needs no detectors.

Source: the detectors are those of Fang et al., 2015, From Captions to Visual Concepts and Back.
Gain here: with attention after reading and a sentinel, trained on captions alone, the peak of attention is on the boxes
of 50.6 % of the phrases instead of 45.9 %, and of 27.7 % instead of 21.0 % of those with small boxes; the captions are
worse (CIDEr .542 instead of .596). One training each, whose other options differ too. Measured with `keras-sat evaluate
--grounding --boxes`; see docs/results.md and benchmarks/flickr8k/tried.md.
"""

from collections import Counter

import keras
from keras import layers, ops

from data_utils.captions import tokenise
from data_utils.datasets.phrase_boxes import PLACELESS
from keras_sat import equations
from keras_sat.beyond.boxes import AttentionOnBoxes
from keras_sat.beyond.hook import Term
from keras_sat.model.replicas import photos_with_words

MOST_WORDS = 1000  # with a detector: the most frequent ones
HIDDEN_DIM, DROPOUT = 256, 0.3
FEW_CELLS = -7.0  # initial bias: at first no cell has any word


def words_with_places(words):
    """Return the words of a list that name something visible."""
    return [word for word in words if word not in PLACELESS]


@keras.saving.register_keras_serializable("keras_sat")
class WordDetectors(layers.Layer):
    """Word detectors: for each word, a probability in each region.

    Args:
        num_words: number of words.
        seed: seed of the dropout.

    Call arguments:
        features: the features that attention uses, (photos, regions, feature_dim).
        training: turns dropout on.

    Returns: the logits of p_iw, the probability that region i shows word w: (photos, regions, num_words).
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
    """The cost of the detectors, and of attention that differs from their maps, for the option `guide_weight`.

    Args:
        vocabulary: Vocabulary, the most frequent words first.
        weight: guide_weight.
        boxes: AttentionOnBoxes that supervises the maps of the detectors too, or None.
        seed, dtype: of the detectors.

    Attributes:
        detectors: WordDetectors.
        words: list of the words with a detector.
    """

    def __init__(self, vocabulary, *, weight, boxes=None, seed=0, dtype=None):
        self.vocabulary = vocabulary
        self.weight = weight
        self.boxes = boxes
        self._assign_detectors(vocabulary.words)
        self.detectors = WordDetectors(len(self.words), seed=seed, dtype=dtype, name="detectors")
        self.layers = (self.detectors,)

    @classmethod
    def of(cls, captioner, options):
        has_words = captioner.decoder.chooses and words_with_places(captioner.vocabulary.words)
        if not options.guide_weight or not has_words:
            return None
        boxes = AttentionOnBoxes.of(captioner, options)
        kind = {"seed": options.seed + 5, "dtype": captioner.decoder.dtype_policy}  # lower seeds are in use
        return cls(captioner.vocabulary, weight=options.guide_weight, boxes=boxes, **kind)

    def prepare(self, captions):
        """Assign the detectors to the most frequent words of these captions.

        The vocabulary is in that order, except for words that were added to a pretrained captioner.
        """
        counts = Counter(word for caption in captions for word in tokenise(caption))
        self._assign_detectors(sorted(self.vocabulary.words, key=lambda word: -counts[word]))

    def _assign_detectors(self, words):
        self.words = words_with_places(words)[:MOST_WORDS]
        ids = self.vocabulary.caption_to_ids(self.words)
        numbers = {token_id: number for number, token_id in enumerate(ids)}
        # The detector of each token; the last number means none.
        self.detector_of = [numbers.get(token_id, len(ids)) for token_id in range(len(self.vocabulary))]

    def check(self, batches):
        (_, input_ids, *_), *_ = batches.element_spec
        if len(input_ids.shape) == 2:
            raise ValueError(
                'Word detectors need all captions of a photo in a batch: make_batches(..., group_by="image"). Or train '
                "without them: captioner.adapted(). "
                f"Received: batches of captions by length, with guide_weight={self.weight}"
            )

    def __call__(self, features, target_ids, read, extra):
        if not self.detectors.built:  # the captioner is not compiled
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
