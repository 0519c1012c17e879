"""Generate captions for photos in three steps.

    photos -> features             `encode`: the encoder reads photos in its input size
    features -> SearchResult       `search`: from tensors to tensors, in one graph
    SearchResult -> CaptionResult  `results_of`: ids become words, and maps get rows and
                                   columns

`caption` and similar methods read images in batches and take these steps for each.
"""

import dataclasses
import functools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Unpack

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.captions import words_of_captions
from data_utils.features.cache import FeatureCache
from data_utils.foreign_text import brief
from data_utils.images import load_image, photos_of
from data_utils.photo_regions import checked_regions, crops_of, regions_for
from keras_sat import equations
from keras_sat.bounds import one_of
from keras_sat.model.forks import reject_fork
from keras_sat.option_types import SearchKeywords
from keras_sat.search.algorithms import forced_search, run_search, special_tokens
from keras_sat.search.result import CaptionResult, by_photo, results_of, with_image_paths
from keras_sat.settings import ANY_COUNT, Search, with_options

PROCESS = os.getpid()  # a fork has another process id
ENCODED_TOGETHER = 32  # batch size of the encoder, whose layers need much more memory than a search
LENGTH_STEP = 8  # lengths of given captions are rounded up to multiples of this, to share a graph


class Batch(NamedTuple):
    """Images that are captioned together.

    Attributes:
        images: list of the images, as they were given.
        errors: for each image, why it could not be read, or None. The other attributes
            are those of the images that could be read.
        numbers: their places among all images, a list or range.
        features: (photos, regions, feature_dim), for an Ensemble a tuple with an array
            for each captioner; None if no image could be read.
        photos: uint8 (photos, height, width, 3), for `CaptionResult.image`; None if
            there are only features.
    """

    images: list
    errors: list
    numbers: Any
    features: Any
    photos: Any

    def with_errors(self, results):
        """Yield (image, its result or error) for each image, given the results of those
        that could be read.
        """
        results = iter(results)
        for image, error in zip(self.images, self.errors):
            yield image, next(results) if error is None else error


class CaptionGenerator:
    """Base class of Captioner and Ensemble: the methods that caption photos.

    Subclasses have a `vocabulary`, the `search_settings`, and the methods
    `rows_and_columns` and `_checked_features`.

    Attributes:
        photo_loader: None, or a function of (image, size) that reads photos in place of
            `load_image`, such as `PhotoProcess.load`.
        confidence: None, or a step after the search (see `steps_after`) that sets the
            `confidence` of all results.
        search_settings: Search, whose values `caption` takes where it is not given any.
            Another one may be assigned.
        consensus: None, or a step after the search that chooses one of the beams of
            each photo; its third argument is the Search.
        has_votes: whether there is a method `with_votes`, which returns results with
            their `votes`, given results and features.

    This module calls these, and does not know what they compute: see
    `keras_sat.beyond.confidence`, `keras_sat.beyond.consensus` and
    `keras_sat.trace.votes`.
    """

    photo_loader = None
    confidence = None
    consensus = None
    has_votes = False

    @property
    def photo_sizes(self) -> list[tuple[int, int]]:
        """The input size (height, width) of each encoder."""
        return [self.photo_encoder.photo_size]

    @property
    def extra_dims(self) -> dict[str, int]:
        """A dict from the names of the extra outputs of each step to their lengths.

        See `CaptionResult.extras`.
        """
        return self.decoder.extra_dims

    @functools.cached_property
    def graphs(self) -> dict:
        """The graphs that `_run` has created, as a dict."""
        return {}

    # === Captions of photos ===

    @with_options(Search, shown=Search.names())
    def caption(
        self,
        images: Any,
        *,
        recursive: bool = False,
        region: Any = None,
        **options: Unpack[SearchKeywords],
    ) -> Any:
        """Caption one photo and return a CaptionResult, or caption many photos and
        return a list of results.

        Args:
            images: a path, a PIL image, an array or tensor with values 0..255 or a
                CaptionedImage; or many: a list of these, an array with four axes, a
                folder, or a pattern such as "photos/*.jpg" (see
                `data_utils.find_pictures`).
            recursive: include subfolders.
            region: caption only this part of each photo, a rectangle (left, top,
                right, bottom) in fractions of the photo's sides: it is cropped with a
                margin, see `data_utils.photo_regions.crop_of`. With a list of regions,
                each photo has a list of results.
            **options: what is searched otherwise than by the captioner's
                `search_settings`.
        """
        search = self.search_for("caption", options)
        photos, many = photos_of(images, recursive=recursive)
        regions, is_one = regions_for(photos, region)
        results = [result for _, result in self._caption_each(photos, search, regions)]
        if is_one:
            results = [result for (result,) in results]
        return results if many else results[0]

    @with_options(Search)
    def caption_each(
        self,
        images: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        regions: Any = None,
        **options: Unpack[SearchKeywords],
    ) -> Iterator[tuple[Any, Any]]:
        """Caption many photos in batches; yield (image, CaptionResult) for each, or
        (image, list) with `regions`.

        Args:
            images: list of paths, PIL images, arrays or CaptionedImage.
            cache: FeatureCache with the features of CaptionedImages; None reads and
                encodes the photos.
            errors: if a photo cannot be read, "raise" the error, or "yield" (image,
                error).
            regions: a list of regions for each image, see `caption`; not with a cache.
            **options: see `keras_sat.settings.Search`.
        """
        search = self.search_for("caption_each", options)
        return self._caption_each(images, search, regions, cache, errors)

    @with_options(Search)
    def caption_features(
        self, features: Any, *, images: Any = None, **options: Unpack[SearchKeywords]
    ) -> list[CaptionResult]:
        """Return a list with the CaptionResult of each photo, from their features.

        Args:
            features: (photos, regions, feature_dim).
            images: the photos, for `CaptionResult.image`.
            **options: see `keras_sat.settings.Search`.
        """
        search = self.search_for("caption_features", options)
        features = self._checked_features(features)
        all_numbers = range(_num_photos(features))
        results = []
        for start in all_numbers[:: search.batch_size]:
            numbers = all_numbers[start : start + search.batch_size]
            rows = slice(start, start + search.batch_size)
            photos = None if images is None else images[rows]
            batch = Batch([], [], numbers, _rows_of(features, rows), photos)
            results += self.caption_batch(batch, search)
        return results

    def _caption_each(self, images, search, regions=None, cache=None, errors="raise"):
        """Do what `caption_each` does, given a Search."""
        if regions is None:
            batches = self.batches(images, search.batch_size, cache, errors)
            return with_image_paths(self._captions_of_batches(batches, search))
        if cache is not None:
            raise ValueError(
                "A cache has the features of whole photos, and a region is cropped from its photo: "
                f"leave out `cache` to read the photos. Received: regions with cache={cache}"
            )
        regions = checked_regions(regions, len(images))
        batches = self.batches(crops_of(images, regions), search.batch_size, errors=errors)
        results = self._captions_of_batches(batches, search)
        return with_image_paths(by_photo(images, regions, results))

    def _captions_of_batches(self, batches, search):
        """Yield (image, CaptionResult or error) for each image."""
        for batch in batches:
            yield from batch.with_errors(self.caption_batch(batch, search))

    def caption_batch(self, batch: Batch, search: Search) -> list[CaptionResult]:
        """Return a list with the CaptionResult of each photo of a Batch that was read;
        `batches` makes Batches.
        """
        if not batch.numbers:
            return []
        uses_consensus = self.uses_consensus(search)
        arguments = search.arguments(uses_consensus)
        rows_per_photo = _rows_per_photo(arguments)
        word_noise, region_noise = _noise(search, batch.numbers, rows_per_photo, self.num_regions)
        tensors = [batch.features, word_noise, region_noise]
        found = self._run(self.search, *tensors, **arguments)
        results = results_of(found, self.vocabulary, self.rows_and_columns(), batch.photos)
        for step in self.steps_after(search):
            results = step(results, batch.features)
        return results

    def steps_after(self, search: Search) -> list[Callable]:
        """Return the steps that follow a search, in their order: functions of results
        and features that return results.

        The results are a list with each photo's CaptionResult, which has the photo's
        other captions in its `alternatives`.
        """
        steps = []
        if self.confidence is not None:
            steps.append(self.confidence)
        if self.uses_consensus(search):
            steps.append(functools.partial(self.consensus, search=search))
        if search.votes:
            steps.append(self.with_votes)
        return steps

    def check_votes(self, votes: bool) -> None:
        """Raise ValueError if `votes` is true and this is no single captioner."""
        if votes and not self.has_votes:
            raise ValueError(
                "`votes` requires a single captioner, since they are what one network adds "
                f"up. Received: votes=True with {type(self).__name__}"
            )

    def search_for(self, asking: str, arguments: dict[str, Any], **taken: Any) -> Search:
        """Return `search_settings` with the keyword arguments of a function in place of
        its own values; see `Search.of`.
        """
        search = Search.of(asking, arguments, self.search_settings, **taken)
        self.check_votes(search.votes)
        if search.sample_attention and not self.samples_regions:
            attention = getattr(self, "attention", self)
            raise ValueError(
                "`sample_attention` requires a single captioner with hard attention. "
                f"Received: sample_attention=True with attention={attention!r}"
            )
        if self.consensus is None and arguments.get("consensus_weight"):
            raise ValueError(
                "`consensus_weight` requires an index of training photos: run `keras-sat "
                f"index`. Received: consensus_weight={search.consensus_weight}"
            )
        return search

    def uses_consensus(self, search: Search) -> bool:
        """Return whether captions are chosen by consensus: there is an index, its
        weight is not 0, and there are beams to choose from.
        """
        has_beams = search.temperature is None and search.num_beams != 1
        return self.consensus is not None and search.consensus_weight > 0 and has_beams

    # === Attention for given captions ===

    def attend(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = None,
        votes: bool = False,
        batch_size: int = 64,
    ) -> Any:
        """Return a CaptionResult with the attention for each word of a given caption
        or, for many photos, a list.

        Args:
            images: see `caption`.
            captions: a sentence, or a list with one sentence for each photo. Unknown
                words are read as `<unk>`.
            votes: also compute what each region adds to each word, see
                `CaptionResult.votes`.
            cache, batch_size: see `caption_each`.
        """
        photos, many = photos_of(images)
        pairs = self.attend_each(photos, captions, cache=cache, votes=votes, batch_size=batch_size)
        results = [result for _, result in pairs]
        return results if many else results[0]

    def attend_each(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        votes: bool = False,
        batch_size: int = 64,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult of its given caption) for each photo.

        See `attend` and `caption_each`.
        """
        self.check_votes(votes)
        batches = self.batches(images, batch_size, cache, errors)
        captions = words_of_captions(captions, len(images))
        return with_image_paths(self._given_captions_of_batches(batches, captions, votes))

    def attend_features(
        self, features: Any, captions: Any, *, images: Any = None, votes: bool = False
    ) -> list[CaptionResult]:
        """Do what `attend` does, given features (photos, regions, feature_dim).

        Return a list of CaptionResults.
        """
        self.check_votes(votes)
        features = self._checked_features(features)
        captions = words_of_captions(captions, _num_photos(features))
        return self._given_captions(captions, features, images, votes)

    def _given_captions_of_batches(self, batches, captions, votes=False):
        """Yield (image, CaptionResult or error) for each image."""
        for batch in batches:
            results = []
            if batch.numbers:
                captions_of_batch = [captions[number] for number in batch.numbers]
                results = self._given_captions(
                    captions_of_batch, batch.features, batch.photos, votes
                )
            yield from batch.with_errors(results)

    def _given_captions(self, captions, features, photos, votes=False):
        """Return the CaptionResult of a given caption, a list of words, for each
        photo.
        """
        vocabulary = self.vocabulary
        ids = [[*vocabulary.caption_to_ids(words), vocabulary.end_token_id] for words in captions]
        longest = max(map(len, ids))
        max_length = -(-longest // LENGTH_STEP) * LENGTH_STEP
        token_ids = keras.utils.pad_sequences(
            ids, max_length, padding="post", value=vocabulary.pad_token_id
        )
        search_result = self._run(self.forced_search, features, token_ids)
        results = results_of(search_result, vocabulary, self.rows_and_columns(), photos)
        results = [
            dataclasses.replace(result, words=words, caption=" ".join(words))
            for result, words in zip(results, captions)
        ]
        return self.with_votes(results, features) if votes else results

    # === Photos -> features ===

    def batches(
        self,
        images: Any,
        batch_size: int,
        cache: FeatureCache | None = None,
        errors: str = "raise",
    ) -> Iterator[Batch]:
        """Return an iterator over the images in Batches, with their features from the
        encoder or a cache; for the arguments see `caption_each`.
        """
        one_of("raise", "yield").check("errors", errors)
        if cache is None:
            return self._batches_of_photos(images, batch_size, errors)
        return self._batches_of_features(images, batch_size, cache)

    def _batches_of_photos(self, images, batch_size, errors):
        """Read and encode photos, and yield them in Batches."""
        for start in range(0, len(images), batch_size):
            batch = images[start : start + batch_size]
            photos_by_size, problems = self._read(batch, errors)
            numbers = [start + row for row, problem in enumerate(problems) if problem is None]
            if not numbers:
                yield Batch(batch, problems, numbers, None, None)
                continue
            # An ensemble may read a photo in several sizes: results show the largest.
            largest = photos_by_size[max(photos_by_size)]
            yield Batch(batch, problems, numbers, self.encode(photos_by_size), largest)

    def _batches_of_features(self, images, batch_size, cache):
        """Yield CaptionedImages in Batches, with their features from a FeatureCache."""
        for start in range(0, len(images), batch_size):
            batch = images[start : start + batch_size]
            features = cache.features([image.image_id for image in batch]).astype(np.float32)
            numbers = range(start, start + len(batch))
            no_errors = [None] * len(batch)
            yield Batch(batch, no_errors, numbers, self._checked_features(features), None)

    def _read(self, images, errors):
        """Read images; for `errors` see `caption_each`.

        Return a dict from each of `photo_sizes` to a uint8 array (photos, height,
        width, 3), without the images that could not be read, or {} if none could; and
        for each image None or its error.
        """
        sizes = self.photo_sizes
        load = load_image if self.photo_loader is None else self.photo_loader
        photos, problems = [], []
        for image in images:
            try:
                path = getattr(image, "image_path", image)
                photos.append([load(path, size) for size in sizes])
                problems.append(None)
            except (OSError, ValueError) as error:
                if errors == "raise":
                    raise
                problems.append(error)
        photos_by_size = {size: np.stack(arrays) for size, arrays in zip(sizes, zip(*photos))}
        return photos_by_size, problems

    def encode(self, photos: Any) -> np.ndarray:
        """Return the features of photos, (photos, regions, feature_dim).

        Args:
            photos: uint8 (photos, height, width, 3) in the encoder's input size, or a
                dict from this size to them, as an Ensemble needs.
        """
        if isinstance(photos, dict):
            (photos,) = photos.values()
        if len(getattr(photos, "shape", ())) != 4:
            raise ValueError(
                "Expected an array of photos (photos, height, width, 3) in the encoder's size, "
                "as data_utils.load_image reads them; encode_each takes paths. Received: "
                f"{brief(photos)}"
            )
        if not self.built:
            self.build_once(photos.shape)
        groups = (
            photos[start : start + ENCODED_TOGETHER]
            for start in range(0, len(photos), ENCODED_TOGETHER)
        )
        encode = self.photo_encoder.__call__
        features = np.concatenate([self._run(encode, group) for group in groups])
        return self._checked_features(features)

    def encode_each(
        self, images: Any, *, cache: FeatureCache | None = None
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield (image, its features) for each photo, from the encoder or a cache.

        See `caption_each`.
        """
        for batch in self.batches(images, ENCODED_TOGETHER, cache):
            yield from zip(batch.images, batch.features)

    # === Features -> SearchResult ===

    def _run(self, function, *tensors, **options):
        """Run a method as a graph.

        Each method and set of options, tensor shapes and dtypes has its own graph.
        """
        if os.getpid() != PROCESS:
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

    def search(
        self,
        features,
        word_noise=None,
        region_noise=None,
        *,
        sample_attention=False,
        **options,
    ):
        """Return the SearchResult for features (photos, regions, feature_dim).

        Args:
            word_noise: uniform noise (rows, max_length), for sampling words.
            region_noise: uniform noise (rows, max_length, regions), used only with
                `sample_attention`.
            **options: see `run_search`.
        """
        noise = region_noise if sample_attention else None
        step, state = self._steps(features, _rows_per_photo(options), noise)
        options["extra_dims"] = self.extra_dims
        return run_search(step, state, self.vocabulary, self.num_regions, word_noise, **options)

    def forced_search(self, features, token_ids):
        """Return the SearchResult of given captions, `token_ids` of shape (photos,
        max_length); see `search`.
        """
        step, state = self._steps(features, 1)
        options = {
            "num_regions": self.num_regions,
            "max_length": token_ids.shape[1],
            "extra_dims": self.extra_dims,
        }
        return forced_search(step, state, token_ids, **options, **special_tokens(self.vocabulary))

    def _steps(self, features, rows_per_photo, region_noise=None):
        """Do what `steps` does, given features from the encoder."""
        return self.steps(self.adapter(features), rows_per_photo, region_noise=region_noise)

    def steps(self, features, rows_per_photo, *, region_noise=None, drop=None):
        """Return `step` and `state` for the searches of `keras_sat.search.algorithms`.

        Args:
            features: output of the adapter, (photos, regions, feature_dim).
            rows_per_photo: number of beams or samples of each photo.
            region_noise: uniform noise (rows, max_length, regions) to sample regions;
                None uses the expectation.
            drop: see `keras_sat.model.decoder.Readout`.
        """
        step = functools.partial(
            self.decoder.step,
            features=features,
            projected_features=self.decoder.project_features(features),
            drop=drop,
        )
        state = self.decoder.initial_state(features, rows_per_photo)
        if region_noise is None:
            return step, state

        def step_with_noise(input_ids, state_and_times):
            state, times = state_and_times
            uniform = ops.take(region_noise, times[0], axis=1)  # (rows, regions)
            result = step(input_ids, state, noise=equations.gumbel(uniform))
            return result._replace(
                state=(result.state, times + 1), attention_weights=result.selection
            )

        # The number of steps of each row.
        times = ops.zeros_like(state.hidden_states[0][:, 0], dtype="int32")
        return step_with_noise, (state, times)


def _num_photos(features):
    """Return the number of photos of features, an array or a tuple of arrays."""
    return len(tf.nest.flatten(features)[0])


def _rows_of(features, rows):
    """Return some rows of features, an array or a tuple of arrays."""
    return tf.nest.map_structure(lambda array: array[rows], features)


def _rows_per_photo(arguments):
    """Return the number of beams or samples, given arguments of `search`."""
    return arguments.get("num_beams", arguments.get("num_samples", 1))


def _noise(options, numbers, rows_per_photo, num_regions):
    """Return uniform noise: (photos * rows_per_photo, max_length) for words, and the
    same with num_regions at the end for regions.

    It depends on the seed (without one, on Python's `random`) and on the photo's
    number, but not on the batch. Noise for regions that are not sampled is empty.
    """
    seed = options.seed
    if seed is None:
        is_random = options.temperature is not None or options.sample_attention
        seed = random.randrange(ANY_COUNT) if is_random else 0
    generators = [np.random.default_rng([seed, options.first_photo + number]) for number in numbers]
    word_shape = (rows_per_photo, options.max_length)
    region_shape = (0, options.max_length, 0)
    if options.sample_attention:
        region_shape = (rows_per_photo, options.max_length, num_regions)
    word_noise = [generator.random(word_shape, dtype=np.float32) for generator in generators]
    region_noise = [generator.random(region_shape, dtype=np.float32) for generator in generators]
    return np.concatenate(word_noise), np.concatenate(region_noise)
