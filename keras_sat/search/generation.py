"""Generate captions for photos in three steps.

photos -> features              `features_of`: the encoder reads photos at its input
                                size
features -> SearchResult        `search`: from tensors to tensors, in one graph
SearchResult -> CaptionResult   `results_of`: ids become words, and maps get rows and
                                columns
"""

import dataclasses
import functools
import os
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from data_utils.captions import words_of_captions
from data_utils.features.cache import FeatureCache
from data_utils.images import load_image, photos_of
from data_utils.photo_regions import checked_regions, regions_for, visible_cells
from keras_sat import equations
from keras_sat.model.forks import reject_fork
from keras_sat.options import (
    ANY_COUNT,
    CONSENSUS,
    CONSENSUS_BEAMS,
    SearchOptions,
    one_of,
    with_options,
)
from keras_sat.search.algorithms import forced_search, run_search, special_tokens
from keras_sat.search.result import CaptionResult, with_image_paths

PROCESS = os.getpid()  # a fork has another process id
ENCODED_TOGETHER = 32  # batch size of the encoder, whose layers need much more memory than a search
LENGTH_STEP = 8  # lengths of given captions are rounded up to multiples of this, to share a graph


class CaptionGenerator:
    """Base class of Captioner and Ensemble: the methods that caption photos."""

    load_photo = staticmethod(load_image)  # reads a picture in a given size

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
    def graphs(self):
        """The graphs that `_run` has created, as a dict."""
        return {}

    @with_options(SearchOptions)
    def caption(
        self, images: Any, *, recursive: bool = False, region: Any = None, **options
    ) -> Any:
        """Caption one photo and return a CaptionResult, or caption many photos and
        return a list of results.

        Args:
            images: a path, a PIL image, an array or tensor with values 0..255 or a
                CaptionedImage; or many: a list of these, an array with four axes, a
                folder, or a pattern such as "photos/*.jpg" (see
                `data_utils.find_pictures`).
            recursive: include subfolders.
            region: describe only this part of each photo, a rectangle (left, top,
                right, bottom) in fractions of the photo's sides. With a list of
                regions, each photo has a list of results.
            **options: see `keras_sat.options.SearchOptions`.
        """
        options = SearchOptions.of("caption", options)
        photos, many = photos_of(images, recursive=recursive)
        regions, is_one = (None, False) if region is None else regions_for(photos, region)
        results = self._each(
            self._captions_or_phrases(options, photos, regions), photos, options.batch_size
        )
        results = [result[0] if is_one else result for _, result in with_image_paths(results)]
        return results if many else results[0]

    @with_options(SearchOptions)
    def caption_each(
        self,
        images: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        regions: Any = None,
        **options,
    ) -> Iterator[tuple[Any, Any]]:
        """Caption many photos in batches; yield (image, CaptionResult) for each, or
        (image, list) with `regions`.

        Args:
            images: list of paths, PIL images, arrays or CaptionedImage.
            cache: FeatureCache with the features of CaptionedImages; None reads and
                encodes the photos.
            errors: if a photo cannot be read, "raise" the error, or "yield" (image,
                error).
            regions: a list of regions for each image, see `caption`.
            **options: see `keras_sat.options.SearchOptions`.
        """
        options = SearchOptions.of("caption_each", options)
        one_of("raise", "yield").check("errors", errors)
        results_of_batch = self._captions_or_phrases(options, images, regions)
        return with_image_paths(
            self._each(results_of_batch, images, options.batch_size, cache, errors)
        )

    @with_options(SearchOptions)
    def caption_features(
        self, features: Any, *, images: Any = None, **options
    ) -> list[CaptionResult]:
        """Caption photos from their features; return a list with a CaptionResult for
        each photo.

        Args:
            features: (photos, regions, feature_dim).
            images: the photos, for `CaptionResult.image`.
            **options: see `keras_sat.options.SearchOptions`.
        """
        options = SearchOptions.of("caption_features", options)
        features = self.checked_features(features)
        numbers, results = range(len(tf.nest.flatten(features)[0])), []
        for start in numbers[:: options.batch_size]:
            some = slice(start, start + options.batch_size)
            batch = tf.nest.map_structure(lambda array, some=some: array[some], features)
            results += self._captions(
                options, batch, None if images is None else images[some], numbers[some]
            )
        return results

    def _captions_or_phrases(self, options, photos, regions):
        if regions is None:
            return functools.partial(self._captions, options)
        regions = checked_regions(regions, len(photos), self.rows_and_columns())
        return functools.partial(self._phrases, options, regions)

    def _phrases(self, options, regions, features, photos, numbers):
        """Return a list of CaptionResults for each photo of a batch, one for each of
        its regions; see `_captions`.
        """
        asked = [(row, region) for row, number in enumerate(numbers) for region in regions[number]]
        results = [[] for _ in numbers]
        for start in range(0, len(asked), options.batch_size):
            rows, some = map(list, zip(*asked[start : start + options.batch_size]))
            shown = tf.nest.map_structure(lambda array, rows=rows: array[rows], features)
            of_rows = None if photos is None else photos[rows]
            found = self._captions(options, shown, of_rows, [numbers[row] for row in rows], some)
            for row, region, result in zip(rows, some, found):
                results[row].append(result.of_region(region))
        return results

    def visible_cells(self, regions):
        """Return which cells of the grid are visible in each region, boolean (regions,
        cells).
        """
        return np.stack(
            [visible_cells(region, self.rows_and_columns()).ravel() for region in regions]
        )

    def _captions(self, options, features, photos, numbers, regions=None):
        """Return the CaptionResults of a batch; `numbers`, the photos' places among all
        photos, determine the noise.
        """
        if options.sample_attention and not self.samples_attention:
            problem = "`sample_attention` requires a single captioner with hard attention."
            received = f"sample_attention=True with attention={getattr(self, 'attention', self)!r}"
            raise ValueError(f"{problem} Received: {received}")
        agreeing = self.consensus_options(options) if regions is None else None
        arguments = self.arguments_of_search(options, agreeing)
        noise = _noise(options, numbers, _rows_per_photo(arguments), self.num_regions)
        visible = [] if regions is None else [self.visible_cells(regions)]
        found = self._run(self.search, features, *noise, *visible, **arguments)
        confidences = None
        if self.confidence is not None and regions is None:  # it is fitted on whole photos
            confidences = np.asarray(self.confidence(found.word_probs, features))
        results = results_of(found, self.vocabulary, self.rows_and_columns(), photos, confidences)
        return (
            self.consensus(results, features, agreeing, num_results=options.num_results)
            if agreeing
            else results
        )

    def consensus_options(self, options):
        """Return the captioner's or the given options of `self.consensus` as a dict, or
        None without consensus.
        """
        own = {name: self._own(options, name) for name in (*CONSENSUS, "length_penalty")}
        if self.consensus is None and (weight := options.consensus_weight):
            way_out = (
                "`consensus_weight` requires an index of training photos: run `keras-sat index`."
            )
            raise ValueError(f"{way_out} Received: consensus_weight={weight}")
        is_search = options.temperature is None and options.num_beams != 1
        return own if self.consensus and own["consensus_weight"] and is_search else None

    def _own(self, options, name):
        given = getattr(options, name)
        return getattr(self.options, name) if given is None else given

    def arguments_of_search(self, options, agreeing=None):
        """Convert SearchOptions to a dict of arguments for `search`.

        Each distinct dict needs its own graph.
        """
        names = ["max_length", "allow_unknown", "sample_attention"]
        if options.temperature is not None:
            names += ["temperature", "top_k", "top_p"]
            arguments = {"num_samples": options.num_results}
        else:
            arguments = {
                name: self._own(options, name) for name in ("no_repeat_ngram", "no_repeat_around")
            }
            num_beams, num_results = options.beams, options.num_results
            if agreeing:
                num_beams = num_results = options.num_beams or max(CONSENSUS_BEAMS, num_results)
            if num_beams > 1:
                own = {"length_penalty": self._own(options, "length_penalty")}
                arguments |= {"num_beams": num_beams, "num_results": num_results, **own}
        return {name: getattr(options, name) for name in names} | arguments

    def attend(
        self, images: Any, captions: Any, *, cache: FeatureCache | None = None, batch_size: int = 64
    ) -> Any:
        """Return a CaptionResult with the attention for each word of a given caption
        or, for many photos, a list.

        Args:
            images: see `caption`.
            captions: a sentence, or a list with one sentence for each photo. Unknown
                words are read as `<unk>`.
            cache, batch_size: see `caption_each`.
        """
        photos, many = photos_of(images)
        results = [
            result
            for _, result in self.attend_each(photos, captions, cache=cache, batch_size=batch_size)
        ]
        return results if many else results[0]

    def attend_each(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        batch_size: int = 64,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult of its given caption) for each photo.

        See `attend` and `caption_each`.
        """
        one_of("raise", "yield").check("errors", errors)
        given = functools.partial(self._given_captions, words_of_captions(captions, len(images)))
        return with_image_paths(self._each(given, images, batch_size, cache, errors))

    def attend_features(
        self, features: Any, captions: Any, *, images: Any = None
    ) -> list[CaptionResult]:
        """Do what `attend` does, given features (photos, regions, feature_dim).

        Return a list of CaptionResults.
        """
        features = self.checked_features(features)
        num_photos = len(tf.nest.flatten(features)[0])
        return self._given_captions(
            words_of_captions(captions, num_photos), features, images, range(num_photos)
        )

    def _given_captions(self, captions, features, photos, numbers):
        """Return the CaptionResults of given captions (lists of words) for a batch of
        photos; see `_captions`.
        """
        captions = [captions[number] for number in numbers]
        ids = [
            [*self.vocabulary.caption_to_ids(words), self.vocabulary.end_token_id]
            for words in captions
        ]
        longest = -(-max(map(len, ids)) // LENGTH_STEP) * LENGTH_STEP
        token_ids = keras.utils.pad_sequences(
            ids, longest, padding="post", value=self.vocabulary.pad_token_id
        )
        found = self._run(self.forced_search, features, token_ids)
        pairs = zip(results_of(found, self.vocabulary, self.rows_and_columns(), photos), captions)
        return [
            dataclasses.replace(result, words=words, caption=" ".join(words))
            for result, words in pairs
        ]

    # === Photos -> features ===

    def _each(self, results_of_batch, images, batch_size, cache=None, errors="raise"):
        """Yield (image, CaptionResult or error) for each photo.

        See `caption_each` and `_captions`.
        """
        for start in range(0, len(images), batch_size):
            batch, photos = images[start : start + batch_size], None
            problems = [None] * len(batch)
            if cache is None:
                photos, problems = self._read(batch, errors)
                features = self.features_of(photos) if photos else None
                photos = photos[max(photos)] if photos else []
            else:
                features = cache.features([image.image_id for image in batch]).astype(np.float32)
                features = self.checked_features(features)
            numbers = [start + place for place, problem in enumerate(problems) if problem is None]
            results = iter(results_of_batch(features, photos, numbers) if numbers else ())
            for image, problem in zip(batch, problems):
                yield image, problem or next(results)

    def features_each(
        self, images: Any, *, cache: FeatureCache | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, its features) for each photo, from the encoder or a cache.

        See `caption_each`.
        """
        return self._each(
            lambda features, photos, numbers: features, images, ENCODED_TOGETHER, cache
        )

    def _read(self, images, errors):
        """Read images.

        Return the argument of `features_of` ({} if all fail) and, for each image, None
        or its error.
        """
        photos, problems = [], []
        for image in images:
            try:
                photos.append(
                    [
                        self.load_photo(getattr(image, "image_path", image), size)
                        for size in self.photo_sizes
                    ]
                )
                problems.append(None)
            except (OSError, ValueError) as error:
                if errors == "raise":
                    raise
                problems.append(error)
        return {
            size: np.stack(of_size) for size, of_size in zip(self.photo_sizes, zip(*photos))
        }, problems

    def features_of(self, photos):
        """Encode photos, given as a dict from each of `photo_sizes` to a uint8 array
        (photos, height, width, 3).
        """
        (photos,) = photos.values()
        return self.encode(photos)

    def encode(self, photos: np.ndarray) -> np.ndarray:
        """Encode photos of the encoder's input size.

        Return an array (photos, regions, feature_dim).
        """
        if not self.built:
            self.build_once(photos.shape)
        groups = (
            photos[start : start + ENCODED_TOGETHER]
            for start in range(0, len(photos), ENCODED_TOGETHER)
        )
        return np.concatenate([self._run(self.photo_encoder.__call__, group) for group in groups])

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
        visible=None,
        *,
        sample_attention=False,
        **options,
    ):
        """Search for captions of features (photos, regions, feature_dim).

        See `run_search`, `_noise` and `reveal`.
        """
        noise = region_noise if sample_attention else None
        step, state = self._steps(features, _rows_per_photo(options), noise, visible)
        options |= {"extra_dims": self.extra_dims, "for_region": visible is not None}
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

    def _steps(self, features, rows_per_photo, region_noise=None, visible=None):
        return self.steps(
            self.adapter(features), rows_per_photo, region_noise=region_noise, visible=visible
        )

    def steps(self, features, rows_per_photo, *, region_noise=None, visible=None, drop=None):
        """Return `step` and `state` for the searches of `keras_sat.search.algorithms`.

        Args:
            features: output of the adapter, (photos, regions, feature_dim).
            rows_per_photo: number of beams or samples of each photo.
            region_noise: uniform noise (rows, max_length, regions) to sample regions;
                None uses the expectation.
            visible: see `CaptionDecoder.reveal`.
            drop: see `keras_sat.model.readout.Readout`.
        """
        features, projected_features = self.decoder.reveal(features, visible)
        known = {"features": features, "projected_features": projected_features, "drop": drop}
        step = functools.partial(self.decoder.step, **known)
        state = self.decoder.initial_state(features, rows_per_photo)
        if region_noise is None:
            return step, state

        def draw(input_ids, state):
            state, times = state
            result = step(
                input_ids, state, noise=equations.gumbel(ops.take(region_noise, times[0], axis=1))
            )
            return result._replace(
                state=(result.state, times + 1), attention_weights=result.selection
            )

        # The number of steps of each row.
        times = ops.zeros_like(state.hidden_states[0][:, 0], dtype="int32")
        return draw, (state, times)


# === SearchResult -> CaptionResult ===


def results_of(found, vocabulary, rows_and_columns, photos=None, confidences=None):
    """Return the best CaptionResult of each photo in a SearchResult, with the others in
    its `alternatives`.

    Args:
        rows_and_columns: shape of the maps.
        photos: `CaptionResult.image` for each photo, or None.
        confidences: (photos, results), or None.
    """
    found = keras.tree.map_structure(np.asarray, found)
    results = []
    for photo in range(len(found.log_probs)):
        of_photo = []
        for number in np.flatnonzero(~np.isneginf(found.log_probs[photo])):  # -inf: no caption
            of_words = (
                photo,
                number,
                slice(found.lengths[photo, number] - found.is_finished[photo, number]),
            )
            words = [vocabulary.tokens[token_id] for token_id in found.token_ids[of_words]]
            extras = {name: values[of_words] for name, values in found.extras.items()}
            of_photo.append(
                CaptionResult(
                    caption=" ".join(words),
                    words=words,
                    log_prob=float(found.log_probs[photo, number]),
                    attention_weights=found.attention_weights[of_words].reshape(
                        len(words), *rows_and_columns
                    ),
                    extras={name: x[:, 0] if x.shape[1] == 1 else x for name, x in extras.items()},
                    word_probs=found.word_probs[of_words],
                    is_finished=bool(found.is_finished[photo, number]),
                    confidence=None if confidences is None else float(confidences[photo, number]),
                    image=None if photos is None else photos[photo],
                )
            )
        results.append(dataclasses.replace(of_photo[0], alternatives=of_photo[1:]))
    return results


def _rows_per_photo(arguments):
    return arguments.get("num_beams", arguments.get("num_samples", 1))


def _noise(options, numbers, rows, num_regions):
    """Return uniform noise: (photos * rows, max_length) for words, and (.., max_length,
    num_regions) for regions.

    It depends on the seed (without one, on Python's `random`) and on the photo's
    number, but not on the batch.
    """
    draws = options.temperature is not None or options.sample_attention
    seed = options.seed if options.seed is not None else random.randrange(ANY_COUNT) if draws else 0
    chance = [np.random.default_rng([seed, options.first_photo + number]) for number in numbers]
    time, num_regions = options.max_length, num_regions if options.sample_attention else 0
    shapes = (rows, time), (rows if num_regions else 0, time, num_regions)
    return [
        np.concatenate([of_photo.random(shape, dtype=np.float32) for of_photo in chance])
        for shape in shapes
    ]
