"""Run a captioner's network on batches of photos, as graphs of TensorFlow."""

import functools
import random

import numpy as np
import tensorflow as tf

from data_utils.features import encoding_function, in_16_bits
from keras_sat.network import reject_fork
from keras_sat.search.algorithms import forced_search, run_search, special_tokens
from keras_sat.search.engine import Engine, padded, photos_of_one_size
from keras_sat.settings import ANY_COUNT

LENGTH_STEP = 8  # lengths of given captions are rounded up to multiples of this, to share a graph
NEEDS_HARD_ATTENTION = "`sample_attention` requires a single captioner with hard attention"


class KerasEngine(Engine):
    """The Engine of a Captioner.

    Args:
        network: Captioner.

    Attributes:
        graphs: the graphs that `run` has created, a dict.
    """

    casts_votes = True

    def __init__(self, network):
        self.network = network
        self.graphs = {}

    @property
    def cannot(self):
        if self.network.samples_regions:
            return {}
        attention = self.network.attention
        return {"sample_attention": f"{NEEDS_HARD_ATTENTION}, not attention={attention!r}."}

    @property
    def photo_sizes(self):
        return [self.network.photo_encoder.photo_size]

    @property
    def vocabulary(self):
        """The Vocabulary of the captions."""
        return self.network.vocabulary

    @property
    def num_regions(self):
        """Number of regions in the attention weights."""
        return self.network.num_regions

    @property
    def extra_dims(self):
        """A dict from the names of the extra outputs of each step to their lengths.

        See `CaptionResult.extras`.
        """
        return self.network.decoder.extra_dims

    def rows_and_columns(self):
        return self.network.rows_and_columns()

    def check_features(self, features):
        features = np.asarray(features)
        self.network.build_once(features.shape)
        if features.shape[1:] != self.network.feature_shape:
            expected = f"(photos, {', '.join(map(str, self.network.feature_shape))})"
            raise ValueError(
                f"This captioner was built for features of shape {expected}. Received: "
                f"{features.shape=}"
            )
        return features

    def run(self, function, *tensors, **options):
        """Run a function of tensors as a graph; return its result.

        Each function (by its name) and set of options, tensor shapes and dtypes has its
        own graph. The first axis of the tensors may have any length.
        """
        reject_fork()
        options = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in options.items()
        }
        specs = tf.nest.map_structure(
            lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), tensors
        )
        key = function.__name__, tuple(options.items()), repr(specs)
        if key not in self.graphs:
            function = functools.partial(function, **options)
            self.graphs[key] = tf.function(function, input_signature=specs, autograph=False)
        return self.graphs[key](*tensors)

    # === Photos -> features ===

    def encode(self, photos):
        photos = photos_of_one_size(photos)
        self.network.build_once(photos.shape)
        reject_fork()
        grids = self._encode(np.asarray(photos))
        _, rows, columns, feature_dim = grids.shape
        return self.check_features(grids.reshape(-1, rows * columns, feature_dim))

    @functools.cached_property
    def _encode(self):
        return encoding_function(self.network.encoder_model)

    def encode_tensors(self, photos):
        """Return the features of photos as `encode` does, from tensors to tensors; see
        `search_tensors`.
        """
        return in_16_bits(self.network.photo_encoder(photos))

    # === Features -> SearchResult ===

    def search(self, features, search, *, numbers, with_consensus=False):
        graph_search = search.for_graph(with_consensus)
        noise = _noise(search, numbers, graph_search.rows_per_photo, self.num_regions)
        return self.run(self.search_tensors, features, *noise, search=graph_search)

    def read(self, features, token_ids):
        longest = max(map(len, token_ids))
        max_length = -(-longest // LENGTH_STEP) * LENGTH_STEP
        token_ids = padded(token_ids, max_length, self.vocabulary.pad_token_id)
        return self.run(self.read_tensors, features, token_ids)

    def search_tensors(self, features, word_noise=None, region_noise=None, *, search):
        """Return the SearchResult for features, from tensors to tensors: what `search`
        runs as a graph, and exports contain.

        Args:
            features: (photos, regions, feature_dim).
            word_noise: uniform noise (rows, max_length), for sampling words.
            region_noise: uniform noise (rows, max_length, regions), used only with
                `sample_attention`.
            search: Search, see `Search.for_graph`.
        """
        noise = region_noise if search.sample_attention else None
        step, state = self.steps(features, search.rows_per_photo, region_noise=noise)
        return run_search(
            step,
            state,
            search,
            self.vocabulary,
            self.num_regions,
            word_noise,
            extra_dims=self.extra_dims,
        )

    def read_tensors(self, features, token_ids):
        """Return the SearchResult of given captions, `token_ids` of shape (photos,
        max_length); see `search_tensors`.
        """
        step, state = self.steps(features, 1)
        arguments = {
            "num_regions": self.num_regions,
            "max_length": token_ids.shape[1],
            "extra_dims": self.extra_dims,
        }
        return forced_search(step, state, token_ids, **arguments, **special_tokens(self.vocabulary))

    def steps(self, features, rows_per_photo, *, region_noise=None):
        """Return `step` and `state` for the searches of `keras_sat.search.algorithms`,
        given features from the encoder; see `Captioner.steps`.
        """
        features = self.network.adapter(features)
        return self.network.steps(features, rows_per_photo, region_noise=region_noise)


def _noise(search, numbers, rows_per_photo, num_regions):
    """Return uniform noise: (photos * rows_per_photo, max_length) for words, and the
    same with num_regions at the end for regions.

    It depends on the seed (without one, on Python's `random`) and on the photo's
    number, but not on the batch. Noise for regions that are not sampled is empty.
    """
    seed = search.seed
    if seed is None:
        is_random = search.temperature is not None or search.sample_attention
        seed = random.randrange(ANY_COUNT) if is_random else 0
    generators = [np.random.default_rng([seed, search.first_photo + number]) for number in numbers]
    word_shape = (rows_per_photo, search.max_length)
    region_shape = (0, search.max_length, 0)
    if search.sample_attention:
        region_shape = (rows_per_photo, search.max_length, num_regions)
    word_noise = [generator.random(word_shape, dtype=np.float32) for generator in generators]
    region_noise = [generator.random(region_shape, dtype=np.float32) for generator in generators]
    return np.concatenate(word_noise), np.concatenate(region_noise)
