"""From photos to captions, by one captioner or by several that write one caption together.

photos -> features              `encode`: each encoder sees the photos in its own size
features -> SearchResult        `search`: tensors in, tensors out, one graph with the whole search in it
SearchResult -> CaptionResult   `results_of`: ids become words, and maps get their rows and columns
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from data_utils.captions import tokenise
from data_utils.foreign_text import brief
from data_utils.images import find_pictures, load_image, stands_for_many
from keras_sat.model.graphs import Graphs
from keras_sat.options import ANY_COUNT, SearchOptions, one_of, split_options, with_options
from keras_sat.search.agreement import agree, finest_grid
from keras_sat.search.algorithms import SearchResult, follow, run_search, special_tokens
from keras_sat.search.result import CaptionResult

if TYPE_CHECKING:
    from data_utils import FeatureCache, Vocabulary

FOLLOWED_TOGETHER = 8  # captions whose lengths, rounded up to that, are the same share a graph


class CaptionWriter:
    """Writes captions. A captioner is an ensemble of one: it has a writer with a single member, itself.

    Args:
        members: list of Captioner, all of one vocabulary.
        length_penalty: what is used where `caption` is given none; None takes the mean of the members'.
    """

    def __init__(self, members, *, length_penalty=None):
        self.members = members
        self.graphs = Graphs()
        self._length_penalty = length_penalty

    @property
    def vocabulary(self) -> Vocabulary:
        return self.members[0].vocabulary

    @property
    def length_penalty(self) -> float:
        if self._length_penalty is not None:
            return self._length_penalty
        return float(np.mean([captioner.length_penalty for captioner in self.members]))

    @property
    def no_repeat_ngram(self) -> int:
        """What `caption` uses where it is given none: the members' strictest, and 0 lets captions repeat anything."""
        return min((captioner.no_repeat_ngram for captioner in self.members if captioner.no_repeat_ngram), default=0)

    @property
    def samples_attention(self) -> bool:
        """Whether regions can be drawn from the attention weights: by a single captioner whose attention does."""
        return len(self.members) == 1 and self.members[0].samples_attention

    @property
    def has_sentinel(self) -> bool:
        """Whether a member may look at what it remembers instead of the photo."""
        return any(captioner.decoder.extra_dims for captioner in self.members)

    @property
    def confidence(self):
        """The Confidence of a single captioner that was calibrated, or None: that of several was not measured."""
        return self.members[0].confidence if len(self.members) == 1 else None

    @property
    def photo_sizes(self) -> list[tuple[int, int]]:
        """The sizes in which the members see photos: list of (height, width)."""
        return list(dict.fromkeys(captioner.photo_encoder.photo_size for captioner in self.members))

    def rows_and_columns(self) -> tuple[int, int]:
        """Return the shape of the attention maps: the finest grid of the members that attend."""
        return finest_grid(self._grids, self._are_attending)

    @property
    def num_regions(self) -> int:
        """The length of the attention weights."""
        return int(np.prod(self.rows_and_columns()))

    @property
    def _grids(self):
        return [captioner.rows_and_columns() for captioner in self.members]

    @property
    def _are_attending(self):
        attend = [captioner.decoder.chooses for captioner in self.members]
        return attend if any(attend) else [True] * len(attend)

    # === Captions ===

    @with_options(SearchOptions)
    def caption(self, images: Any, *, recursive: bool = False, **options) -> Any:
        """Return the CaptionResult of a photo, or the list of them for many.

        Args:
            images: a path, a PIL image, an array or tensor with values 0..255 or a CaptionedImage, or many: a list of
                such, an array of four axes, a folder, or a pattern such as "photos/*.jpg". What a folder or a pattern
                stands for, and in which order, `data_utils.find_pictures` says.
            recursive: descend into the subfolders of folders.
            **options: see `keras_sat.options.SearchOptions`.
        """
        split_options("caption", options, SearchOptions)
        is_list = isinstance(images, (list, tuple)) or hasattr(images, "__next__") or getattr(images, "ndim", 3) == 4
        many = is_list or stands_for_many(images)
        images = [photo for image in (images if is_list else [images]) for photo in _photos_of(image, recursive)]
        results = [result for _, result in self.caption_each(images, **options)]
        return results if many else results[0]

    @with_options(SearchOptions)
    def caption_each(
        self, images: Any, *, cache: FeatureCache | None = None, errors: str = "raise", **options
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (image, CaptionResult) for each of many photos: a batch is read, encoded and searched at a time.

        Args:
            images: list of paths, PIL images, arrays or CaptionedImage.
            cache: FeatureCache with the features of CaptionedImages; None reads and encodes the photos.
            errors: "raise" what a photo that cannot be read raises, or "yield": (image, that error) in its turn.
            **options: see `keras_sat.options.SearchOptions`.
        """
        split_options("caption_each", options, SearchOptions)
        one_of("raise", "yield").check("errors", errors)
        options = SearchOptions(**options)

        def write(features, photos, start, _):
            of_batch = dataclasses.replace(options, first_photo=options.first_photo + start)
            return self._captions(features, of_batch, photos)

        return self._each(images, write, options.batch_size, cache, errors)

    def _each(self, images, write, batch_size, cache, errors):
        """Yield (image, result or error) for each of many photos.

        Args:
            write: function of features, the photos in their largest size (None with a cache), the number of the first
                photo of a batch, and the numbers in it of those that could be read. It returns a list of results.
            images, batch_size, cache, errors: see `caption_each`.
        """
        for start, batch in in_batches(images, batch_size):
            problems, photos = [None] * len(batch), None
            if cache is None:
                photos, problems = self._read(batch, errors)
                features = self.encode(photos) if photos else []
                photos = photos[max(photos)] if photos else []
            else:
                features = cache.features([image.image_id for image in batch]).astype(np.float32)
            readable = [number for number, problem in enumerate(problems) if problem is None]
            results = iter(write(features, photos, start, readable) if readable else [])
            for image, problem in zip(batch, problems):
                yield image, problem or next(results)

    @with_options(SearchOptions)
    def caption_features(self, features: Any, *, images: Any = None, **options) -> list[CaptionResult]:
        """Return a list of CaptionResult, one for each photo, from features (photos, regions, feature_dim).

        Args:
            images: the photos, to be kept in the results.
            **options: see `keras_sat.options.SearchOptions`.
        """
        split_options("caption_features", options, SearchOptions)
        return self._captions(features, SearchOptions(**options), images)

    # === Captions that are given ===

    def attend(self, images: Any, captions: Any, *, cache: FeatureCache | None = None, batch_size: int = 64) -> Any:
        """Return where it looks while it reads a caption that is given: a CaptionResult, or a list of them for many.

        Args:
            images: a path, a PIL image, an array or a CaptionedImage, or a list of such.
            captions: a sentence, or a list with one for each image. `tokenise` cuts it into words; those that the
                vocabulary does not know are read as `<unk>`, and stay in the result as they were given.
            cache: see `caption_each`.
            batch_size: photos at a time.

        Returns: CaptionResult; its `log_prob` is that of the caption.
        """
        many = isinstance(images, (list, tuple)) or getattr(images, "ndim", 3) == 4
        if not many and stands_for_many(images):
            raise ValueError(f"Expected a photo, or a list of photos. Received: images={os.fspath(images)!r}")
        images = list(images) if many else [images]
        results = [result for _, result in self.attend_each(images, captions, cache=cache, batch_size=batch_size)]
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
        """Yield (image, CaptionResult) for each of many photos, as `caption_each` does, of captions that are given."""
        one_of("raise", "yield").check("errors", errors)
        words = _words_of(captions, len(images))

        def write(features, photos, start, readable):
            return self._followed(features, [words[start + number] for number in readable], photos)

        return self._each(images, write, batch_size, cache, errors)

    def attend_features(self, features: Any, captions: Any, *, images: Any = None) -> list[CaptionResult]:
        """Return the CaptionResults of captions that are given, from features (photos, regions, feature_dim)."""
        members = self.features_of_members(features)
        return self._followed(members, _words_of(captions, len(members[0])), images)

    def _followed(self, features, captions, photos):
        """Return the CaptionResults of captions, lists of words, from features."""
        ids = [[*self.vocabulary.caption_to_ids(words), self.vocabulary.end_token_id] for words in captions]
        longest = max(map(len, ids))
        longest += -longest % FOLLOWED_TOGETHER
        padded = [[*of_one, *[self.vocabulary.pad_token_id] * (longest - len(of_one))] for of_one in ids]
        found = self.graphs.run(self.follow, self.features_of_members(features), np.array(padded, np.int32))
        photos = [None] * len(captions) if photos is None else photos
        results = results_of(found, self.vocabulary, self.rows_and_columns(), photos, self.has_sentinel)
        return [
            dataclasses.replace(result, words=words, caption=" ".join(words))
            for result, words in zip(results, captions)
        ]

    # === Searches ===

    def _captions(self, features, options, images):
        if options.sample_attention and not self.samples_attention:
            attention = ", ".join(repr(captioner.decoder.attention) for captioner in self.members)
            raise ValueError(
                "Only a single captioner whose attention draws places, as attention='hard' does, can draw them. "
                f"Received: sample_attention=True with attention={attention}"
            )
        members = self.features_of_members(features)
        results = []
        for start, photos in in_batches(range(len(members[0])), options.batch_size):
            batch = tuple(array[photos.start : photos.stop] for array in members)
            noise = _noise(options, photos, self.num_regions if options.sample_attention else 0)
            found = self.graphs.run(self.search, batch, *noise, **self._of_search(options))
            seen = [None] * len(photos) if images is None else images[start : start + options.batch_size]
            confidences = None
            if self.confidence is not None:
                confidences = self.confidence(np.asarray(found.log_probs), np.asarray(found.lengths), batch[0])
            known = self.vocabulary, self.rows_and_columns()
            results += results_of(found, *known, seen, self.has_sentinel, confidences)
        return results

    def _of_search(self, options):
        """Return the arguments of `search`: another set of them makes another graph."""
        names = ["max_length", "allow_unknown", "sample_attention"]
        if options.temperature is not None:
            drawing = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
            beams = {"num_samples": options.num_results, **drawing}
        elif options.beams > 1:
            length_penalty = self.length_penalty if options.length_penalty is None else options.length_penalty
            beams = {"num_beams": options.beams, "num_results": options.num_results}
            beams |= {"length_penalty": length_penalty}
        else:
            beams = {}
        if options.temperature is None:
            given = options.no_repeat_ngram
            beams["no_repeat_ngram"] = self.no_repeat_ngram if given is None else given
        return {name: getattr(options, name) for name in names} | beams

    # === Photos -> features ===

    def encode(self, photos):
        """Return the features of photos for each member: list of arrays (photos, regions, feature_dim).

        Args:
            photos: dict from each of `photo_sizes` to the photos in that size, uint8 (photos, height, width, 3).
        """
        features = []
        for number, (captioner, first) in enumerate(zip(self.members, self.first_with_same_encoder)):
            if first < number:
                features.append(features[first])
            else:
                features.append(captioner.encode(photos[captioner.photo_encoder.photo_size]))
        return features

    @functools.cached_property
    def first_with_same_encoder(self):
        """For each member the number of the first one whose encoder gives the same features."""
        encoders = [captioner.photo_encoder for captioner in self.members]
        return [
            next(first for first in range(number + 1) if encoders[first].is_same_as(encoders[number]))
            for number in range(len(encoders))
        ]

    def _read(self, images, errors):
        """Return photos as `encode` takes them, {} where there are none, and for each image None or its error."""
        photos, problems = [], []
        for image in map(_as_image, images):
            try:
                photos.append([load_image(image, size) for size in self.photo_sizes])
                problems.append(None)
            except (OSError, ValueError) as error:
                if errors == "raise":
                    raise
                problems.append(error)
        return {size: np.stack(of_size) for size, of_size in zip(self.photo_sizes, zip(*photos))}, problems

    def features_of_members(self, features):
        """Return a tuple with the features for each member, from such a list or from one array for all."""
        if not isinstance(features, (list, tuple)):
            features = [np.asarray(features)] * len(self.members)
        if len(features) != len(self.members) or len({len(array) for array in features}) > 1:
            raise ValueError(
                f"Expected features of the same photos for each of the {len(self.members)} captioners, or one array "
                f"for all. Received: {len(features)} arrays of {[len(array) for array in features]} photos"
            )
        return tuple(captioner.checked_features(given) for captioner, given in zip(self.members, features))

    # === Features -> SearchResult ===

    def search(self, features, word_noise=None, region_noise=None, *, sample_attention=False, **options):
        """Return the SearchResult of a batch, tensors in, tensors out: this is the graph.

        Args:
            features: tuple with the features for each member, (photos, regions, feature_dim).
            word_noise, region_noise: uniform noise that words, and the regions of attention that draws, are drawn with.
            sample_attention: draw these regions.
            **options: see `run_search`.
        """
        rows_per_photo = options.get("num_beams", options.get("num_samples", 1))
        step, state = self._steps(features, rows_per_photo, region_noise if sample_attention else None)
        return run_search(step, state, self.vocabulary, self.num_regions, word_noise, **options)

    def follow(self, features, token_ids):
        """Return the SearchResult of captions that are given, (photos, max_length), tensors in, tensors out."""
        step, state = self._steps(features, 1)
        options = {"num_regions": self.num_regions, "max_length": token_ids.shape[1], **special_tokens(self.vocabulary)}
        return follow(step, state, token_ids, **options)

    def _steps(self, features, rows_per_photo, region_noise=None):
        """Return the step and state of all members together, see `keras_sat.search.algorithms`."""
        members = [
            captioner.steps(captioner.adapt(given), rows_per_photo, region_noise=region_noise)
            for captioner, given in zip(self.members, features)
        ]
        return members[0] if len(members) == 1 else agree(members, self._grids, self._are_attending)


# === SearchResult -> CaptionResult ===


def results_of(found, vocabulary, rows_and_columns, photos, has_sentinel=False, confidences=None):
    """Return a list of CaptionResult, the best of each photo, with the others in its `alternatives`.

    Args:
        found: SearchResult.
        vocabulary: Vocabulary.
        rows_and_columns: the grid of the maps.
        photos: what `CaptionResult.image` is to be, for each photo.
        has_sentinel: whether results have `from_photo`.
        confidences: of the captions, (photos, results), or None.
    """
    found = SearchResult(*(np.asarray(array) for array in found))
    results = []
    for photo, image in enumerate(photos):
        of_photo = []
        for number in np.flatnonzero(~np.isneginf(found.log_probs[photo])):  # fewer may be possible than asked for
            words = vocabulary.ids_to_words(found.token_ids[photo, number])
            maps = found.attention_weights[photo, number, : len(words)]
            of_photo.append(
                CaptionResult(
                    caption=" ".join(words),
                    words=words,
                    log_prob=float(found.log_probs[photo, number]),
                    attention_weights=maps.reshape(len(words), *rows_and_columns),
                    word_probs=found.word_probs[photo, number, : len(words)],
                    from_photo=found.from_photo[photo, number, : len(words), 0] if has_sentinel else None,
                    is_finished=bool(found.is_finished[photo, number]),
                    confidence=None if confidences is None else float(confidences[photo, number]),
                    image=image,
                )
            )
        results.append(dataclasses.replace(of_photo[0], alternatives=of_photo[1:]))
    return results


# === Batches, noise, photos ===


def in_batches(items, batch_size):
    """Yield (number of the first one, so many items) until all have come."""
    for start in range(0, len(items), batch_size):
        yield start, items[start : start + batch_size]


def _words_of(captions, num_images):
    """Return the words of captions, one for each photo; a ValueError where there is none, or no word in it."""
    captions = [captions] * num_images if isinstance(captions, str) else captions
    is_list = isinstance(captions, (list, tuple)) and all(isinstance(caption, str) for caption in captions)
    if not is_list or len(captions) != num_images:
        raise ValueError(
            f"Expected one caption, as text, for each of {num_images} images. Received: captions={brief(captions)}"
        )
    words = [tokenise(caption) for caption in captions]
    if not all(words):
        raise ValueError(f"There is no word in a caption. Received: {brief(captions[words.index([])])}")
    return words


def _rows_per_photo(options):
    return options.beams if options.temperature is None else options.num_results


def _noise(options, photos, num_regions):
    """Return uniform noise for words, (photos * rows, max_length), and for regions, (.., max_length, num_regions).

    Each photo has its own, by its number: its caption does not depend on what else is in the batch. Without a seed it
    is other noise at each call, and that again after `keras.utils.set_random_seed`, as with the layers of Keras.
    """
    draws = options.temperature is not None or num_regions
    seed = options.seed if options.seed is not None else random.randrange(ANY_COUNT) if draws else 0
    chance = [np.random.default_rng([seed, options.first_photo + photo]) for photo in photos]
    rows, time = _rows_per_photo(options), options.max_length
    shapes = (rows, time), (rows if num_regions else 0, time, num_regions)
    return [np.concatenate([of_photo.random(shape, dtype=np.float32) for of_photo in chance]) for shape in shapes]


def _photos_of(image, recursive):
    """Return what load_image takes, as a list: one for a picture, and any number for a folder or a pattern."""
    if not stands_for_many(image):
        return [_as_image(image)]
    paths = find_pictures(image, recursive=recursive)
    if os.path.isdir(paths[0]):
        raise ValueError(f"{paths[0]}: there is no picture in this folder. Received: images={os.fspath(image)!r}")
    return paths


def _as_image(image):
    """Return what load_image takes: a path, a PIL image or an array."""
    image = getattr(image, "image_path", image)
    image = image.numpy() if tf.is_tensor(image) else image
    if not isinstance(image, (str, os.PathLike, np.ndarray)) and not hasattr(image, "convert"):
        raise ValueError(
            "Expected a path, a PIL image, an array with values 0..255, or a list of such. "
            f"Received: an image of type {type(image).__name__}"
        )
    return image
