"""Generate captions for photos, with whatever engine.

    photos -> features             `Engine.encode`: the encoder reads photos in its
                                   input size
    features -> SearchResult       `Engine.search`, or `Engine.read` for given captions
    SearchResult -> CaptionResult  `results_of`: ids become words, and maps get rows and
                                   columns
    CaptionResult -> the same      `steps_after`: confidence, consensus, votes

`caption` and similar methods read images in batches and take these steps for each.
Nothing here needs TensorFlow; an engine may.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data_utils.captions import words_of_captions
from data_utils.features import ENCODED_TOGETHER
from data_utils.photos import (
    checked_regions,
    crops_of,
    load_image,
    photos_of,
    read_photos,
    regions_for,
)
from keras_sat.bounds import one_of
from keras_sat.search.engine import Engine
from keras_sat.search.result import CaptionResult, by_photo, results_of, with_image_paths
from keras_sat.settings import Search, with_options

if TYPE_CHECKING:
    from data_utils.features import FeatureCache
    from data_utils.vocabulary import Vocabulary


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
    """Captions photos: the methods of every captioner.

    Args:
        engine: Engine, which encodes, searches and reads given captions.
        vocabulary: Vocabulary.
        search_settings: Search, whose values `caption` takes where it is not given any;
            None: the defaults. Another one may be assigned.

    Attributes:
        engine, vocabulary, search_settings: see above.
        photo_loader: None, or a function of (image, size) that reads photos in place of
            `load_image`, such as `PhotoProcess.load`.
        confidence: None, or a step after the search (see `steps_after`) that sets the
            `confidence` of all results.
        consensus: None, or a step after the search that chooses one of the beams of
            each photo; its third argument is the Search.
    """

    def __init__(
        self, engine: Engine, vocabulary: Vocabulary, search_settings: Search | None = None
    ):
        self.engine = engine
        self.vocabulary = vocabulary
        self.search_settings = Search() if search_settings is None else search_settings
        self.photo_loader = None
        self.confidence = None
        self.consensus = None

    @property
    def photo_sizes(self) -> list[tuple[int, int]]:
        """The input size (height, width) of each encoder."""
        return self.engine.photo_sizes

    def rows_and_columns(self) -> tuple[int, int]:
        """Return the shape of the attention maps."""
        return self.engine.rows_and_columns()

    # === Captions of photos ===

    @with_options(Search, shown=Search.names())
    def caption(
        self,
        images: Any,
        *,
        recursive: bool = False,
        region: Any = None,
        **options: Any,
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
                margin, see `data_utils.photos.regions.crop_of`. With a list of regions,
                each photo has a list of results.
            **options: what is searched otherwise than by the captioner's
                `search_settings`.
        """
        search = self.search_for("caption", options)
        photos, many = photos_of(images, recursive=recursive)
        regions, is_one = regions_for(photos, region)
        results = [result for _, result in self.caption_images(photos, search, regions=regions)]
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
        **options: Any,
    ) -> Iterator[tuple[Any, Any]]:
        """Caption many photos in batches; yield (image, CaptionResult) for each, or
        (image, list) with `regions`.

        Args:
            images: list of paths, PIL images, arrays or CaptionedImage.
            cache: FeatureCache with the features of CaptionedImages; None reads and
                encodes the photos.
            errors: if a photo cannot be read, or the cache has no features of it,
                "raise" the error, or "yield" (image, error).
            regions: a list of regions for each image, see `caption`; not with a cache.
            **options: see `keras_sat.settings.Search`.
        """
        search = self.search_for("caption_each", options)
        return self.caption_images(images, search, cache=cache, errors=errors, regions=regions)

    @with_options(Search)
    def caption_features(
        self, features: Any, *, images: Any = None, **options: Any
    ) -> list[CaptionResult]:
        """Return a list with the CaptionResult of each photo, from their features.

        Args:
            features: (photos, regions, feature_dim).
            images: the photos, for `CaptionResult.image`.
            **options: see `keras_sat.settings.Search`.
        """
        search = self.search_for("caption_features", options)
        features = self.engine.check_features(features)
        all_numbers = range(_num_photos(features))
        results = []
        for start in all_numbers[:: search.batch_size]:
            numbers = all_numbers[start : start + search.batch_size]
            rows = slice(start, start + search.batch_size)
            photos = None if images is None else images[rows]
            batch = Batch([], [], numbers, _rows_of(features, rows), photos)
            results += self.caption_batch(batch, search)
        return results

    def caption_images(
        self,
        images: Any,
        search: Search,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        regions: Any = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Do what `caption_each` does, given a Search; `search_for` makes one."""
        describe = functools.partial(self.caption_batch, search=search)
        if regions is None:
            results = self._each_result(describe, images, search.batch_size, cache, errors)
            return with_image_paths(results)
        if cache is not None:
            raise ValueError(
                "A cache has the features of whole photos, and a region is cropped from its photo: "
                f"leave out `cache` to read the photos. Received: regions with cache={cache}"
            )
        regions = checked_regions(regions, len(images))
        crops = crops_of(images, regions)
        results = self._each_result(describe, crops, search.batch_size, None, errors)
        return with_image_paths(by_photo(images, regions, results))

    def caption_batch(self, batch: Batch, search: Search) -> list[CaptionResult]:
        """Return a list with the CaptionResult of each photo of a Batch that was read;
        `batches` makes Batches.
        """
        if not batch.numbers:
            return []
        with_consensus = self.uses_consensus(search)
        found = self.engine.search(
            batch.features, search, numbers=batch.numbers, with_consensus=with_consensus
        )
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

    def search_for(self, asking: str, arguments: dict[str, Any], **taken: Any) -> Search:
        """Return `search_settings` with the keyword arguments of a function in place of
        its own values; see `Search.of`.
        """
        search = Search.of(asking, arguments, self.search_settings, **taken)
        always = {"votes": search.votes, "sample_attention": search.sample_attention}
        self.engine.check(**arguments | always)
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
        self.engine.check(captions=captions, votes=votes)
        captions = words_of_captions(captions, len(images))

        def describe(batch):
            return self.attend_batch(batch, [captions[number] for number in batch.numbers], votes)

        return with_image_paths(self._each_result(describe, images, batch_size, cache, errors))

    def attend_features(
        self, features: Any, captions: Any, *, images: Any = None, votes: bool = False
    ) -> list[CaptionResult]:
        """Do what `attend` does, given features (photos, regions, feature_dim).

        Return a list of CaptionResults.
        """
        self.engine.check(captions=captions, votes=votes)
        features = self.engine.check_features(features)
        captions = words_of_captions(captions, _num_photos(features))
        batch = Batch([], [], range(len(captions)), features, images)
        return self.attend_batch(batch, captions, votes)

    def attend_batch(
        self, batch: Batch, captions: list[list[str]], votes: bool = False
    ) -> list[CaptionResult]:
        """Return a list with the CaptionResult of a given caption for each photo of a
        Batch that was read.

        Args:
            batch: see `batches`.
            captions: a list of words for each of these photos.
            votes: see `attend`.
        """
        if not batch.numbers:
            return []
        vocabulary = self.vocabulary
        ids = [[*vocabulary.caption_to_ids(words), vocabulary.end_token_id] for words in captions]
        found = self.engine.read(batch.features, ids)
        results = results_of(found, vocabulary, self.rows_and_columns(), batch.photos)
        # The network knows unknown words only as `<unk>`.
        results = [
            dataclasses.replace(result, words=words, caption=" ".join(words))
            for result, words in zip(results, captions)
        ]
        return self.with_votes(results, batch.features) if votes else results

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
        return self._each_batch(lambda batch: batch, images, batch_size, cache, errors)

    def _each_batch(self, describe, images, batch_size, cache=None, errors="raise"):
        """Return an iterator over what a function returns for each Batch; see
        `batches`.
        """
        one_of("raise", "yield").check("errors", errors)
        size = self.engine.photos_together or batch_size

        def read_and_describe(start):
            batch = images[start : start + size]
            if cache is None:
                return describe(self._batch_of_photos(batch, start, errors))
            return describe(self._batch_of_features(batch, start, cache, errors))

        return self.engine.each(read_and_describe, range(0, len(images), size))

    def _each_result(self, describe, images, *reading):
        """Yield (image, CaptionResult or error) for each image, given a function that
        returns a list of CaptionResults for a Batch; see `_each_batch`.
        """
        pairs_of_batches = self._each_batch(
            lambda batch: [*batch.with_errors(describe(batch))], images, *reading
        )
        return itertools.chain.from_iterable(pairs_of_batches)

    def _batch_of_photos(self, images, start, errors):
        """Read and encode images, the first of which has the number `start`."""
        photos_by_size, problems = self._read(images, errors)
        numbers = [start + row for row, problem in enumerate(problems) if problem is None]
        if not numbers:
            return Batch(images, problems, numbers, None, None)
        # An ensemble may read a photo in several sizes: results show the largest.
        largest = photos_by_size[max(photos_by_size)]
        return Batch(images, problems, numbers, self.engine.encode(photos_by_size), largest)

    def _batch_of_features(self, images, start, cache, errors):
        """Take the features of CaptionedImages, the first of which has the number
        `start`, from a FeatureCache.
        """
        image_ids = [image.image_id for image in images]
        problems = [None] * len(images)
        if errors == "yield":
            problems = [cache.error_of(image_id) for image_id in image_ids]
        rows = [row for row, problem in enumerate(problems) if problem is None]
        numbers = [start + row for row in rows]
        if not numbers:
            return Batch(images, problems, numbers, None, None)
        features = cache.features([image_ids[row] for row in rows]).astype(np.float32)
        return Batch(images, problems, numbers, self.engine.check_features(features), None)

    def _read(self, images, errors):
        """Read images; for `errors` see `caption_each`.

        Return a dict from each of `photo_sizes` to a uint8 array (photos, height,
        width, 3), without the images that could not be read, or {} if none could; and
        for each image None or its error.
        """
        sizes = self.photo_sizes
        load = load_image if self.photo_loader is None else self.photo_loader
        photos, problems = [], []
        paths = (getattr(image, "image_path", image) for image in images)
        for read in read_photos(paths, sizes, load=load):
            is_error = isinstance(read, Exception)
            if is_error and errors == "raise":
                raise read
            problems.append(read if is_error else None)
            if not is_error:
                photos.append(read)
        photos_by_size = {size: np.stack(arrays) for size, arrays in zip(sizes, zip(*photos))}
        return photos_by_size, problems

    def encode(self, photos: Any) -> Any:
        """Return the features of photos, (photos, regions, feature_dim).

        Args:
            photos: uint8 (photos, height, width, 3) in the encoder's input size, or a
                dict from this size to them, as an Ensemble needs.
        """
        self.engine.check(features=photos)
        return self.engine.encode(photos)

    def encode_each(
        self, images: Any, *, cache: FeatureCache | None = None
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield (image, its features) for each photo, from the encoder or a cache.

        See `caption_each`.
        """
        self.engine.check(features=images)
        for batch in self.batches(images, ENCODED_TOGETHER, cache):
            yield from zip(batch.images, batch.features)


def _num_photos(features):
    """Return the number of photos of features, an array or a tuple of arrays."""
    return len(features[0] if isinstance(features, tuple) else features)


def _rows_of(features, rows):
    """Return some rows of features, an array or a tuple of arrays."""
    if isinstance(features, tuple):
        return tuple(array[rows] for array in features)
    return features[rows]
