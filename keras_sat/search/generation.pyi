"""Made by docs/make_stubs.py: the signatures, with all options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from data_utils.features import FeatureCache
from data_utils.vocabulary import Vocabulary
from keras_sat.search.engine import Engine
from keras_sat.search.result import CaptionResult
from keras_sat.settings import Search

class Batch(NamedTuple):
    images: list
    errors: list
    numbers: Any
    features: Any
    photos: Any

    def with_errors(self, results): ...

class CaptionGenerator:
    engine: Engine
    vocabulary: Vocabulary
    search_settings: Search
    photo_loader: Any
    confidence: Any
    consensus: Any

    def __init__(
        self, engine: Engine, vocabulary: Vocabulary, search_settings: Search | None = None
    ): ...
    @property
    def photo_sizes(self) -> list[tuple[int, int]]: ...
    def rows_and_columns(self) -> tuple[int, int]: ...
    def caption(
        self,
        images: Any,
        *,
        recursive: bool = False,
        region: Any = None,
        num_beams: int | None = None,
        max_length: int = 20,
        allow_unknown: bool = False,
        length_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        consensus_weight: float | None = None,
        num_results: int = 1,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        sample_attention: bool = False,
        seed: int | None = None,
        votes: bool = False,
        first_photo: int = 0,
        batch_size: int = 64,
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

        Options:
            num_beams: number of beams; 1: greedy. Default: None (3, or 10 for consensus, or num_results if more).
            max_length: maximum number of words, including `<end>`. Default: 20.
            allow_unknown: allow `<unk>` in captions. Default: False.
            length_penalty: values above 0 favour longer captions. Default: the captioner's own.
            no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own.
            consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: the captioner's own.
            num_results: captions per photo; the default num_beams is at least this. Default: 1.
            temperature: sample words at this temperature (try 1.0). Default: None (search instead).
            top_k: sample only from the k most probable words. Default: None (from all).
            top_p: nucleus sampling: total probability of the words. Default: None (from all).
            sample_attention: with hard attention, sample a region for each word. Default: False.
            seed: random seed, combined with the photo's number. Default: None (a new one).
            votes: also compute what each region adds to each word, see `CaptionResult.votes`. Default: False.
            first_photo: the number of the first photo. Default: 0.
            batch_size: photos per batch. Default: 64."""
        ...

    def caption_each(
        self,
        images: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        regions: Any = None,
        num_beams: int | None = None,
        max_length: int = 20,
        allow_unknown: bool = False,
        length_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        consensus_weight: float | None = None,
        num_results: int = 1,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        sample_attention: bool = False,
        seed: int | None = None,
        votes: bool = False,
        first_photo: int = 0,
        batch_size: int = 64,
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

        Options:
            num_beams: number of beams; 1: greedy. Default: None (3, or 10 for consensus, or num_results if more).
            max_length: maximum number of words, including `<end>`. Default: 20.
            allow_unknown: allow `<unk>` in captions. Default: False.
            length_penalty: values above 0 favour longer captions. Default: the captioner's own.
            no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own.
            consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: the captioner's own.
            num_results: captions per photo; the default num_beams is at least this. Default: 1.
            temperature: sample words at this temperature (try 1.0). Default: None (search instead).
            top_k: sample only from the k most probable words. Default: None (from all).
            top_p: nucleus sampling: total probability of the words. Default: None (from all).
            sample_attention: with hard attention, sample a region for each word. Default: False.
            seed: random seed, combined with the photo's number. Default: None (a new one).
            votes: also compute what each region adds to each word, see `CaptionResult.votes`. Default: False.
            first_photo: the number of the first photo. Default: 0.
            batch_size: photos per batch. Default: 64."""
        ...

    def caption_features(
        self,
        features: Any,
        *,
        images: Any = None,
        num_beams: int | None = None,
        max_length: int = 20,
        allow_unknown: bool = False,
        length_penalty: float | None = None,
        no_repeat_ngram: int | None = None,
        consensus_weight: float | None = None,
        num_results: int = 1,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        sample_attention: bool = False,
        seed: int | None = None,
        votes: bool = False,
        first_photo: int = 0,
        batch_size: int = 64,
    ) -> list[CaptionResult]:
        """Return a list with the CaptionResult of each photo, from their features.

        Args:
            features: (photos, regions, feature_dim).
            images: the photos, for `CaptionResult.image`.
            **options: see `keras_sat.settings.Search`.

        Options:
            num_beams: number of beams; 1: greedy. Default: None (3, or 10 for consensus, or num_results if more).
            max_length: maximum number of words, including `<end>`. Default: 20.
            allow_unknown: allow `<unk>` in captions. Default: False.
            length_penalty: values above 0 favour longer captions. Default: the captioner's own.
            no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own.
            consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: the captioner's own.
            num_results: captions per photo; the default num_beams is at least this. Default: 1.
            temperature: sample words at this temperature (try 1.0). Default: None (search instead).
            top_k: sample only from the k most probable words. Default: None (from all).
            top_p: nucleus sampling: total probability of the words. Default: None (from all).
            sample_attention: with hard attention, sample a region for each word. Default: False.
            seed: random seed, combined with the photo's number. Default: None (a new one).
            votes: also compute what each region adds to each word, see `CaptionResult.votes`. Default: False.
            first_photo: the number of the first photo. Default: 0.
            batch_size: photos per batch. Default: 64."""
        ...

    def caption_images(
        self,
        images: Any,
        search: Search,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        regions: Any = None,
    ) -> Iterator[tuple[Any, Any]]: ...
    def caption_batch(self, batch: Batch, search: Search) -> list[CaptionResult]: ...
    def steps_after(self, search: Search) -> list[Callable]: ...
    def search_for(self, asking: str, arguments: dict[str, Any], **taken: Any) -> Search: ...
    def uses_consensus(self, search: Search) -> bool: ...
    def attend(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = None,
        votes: bool = False,
        batch_size: int = 64,
    ) -> Any: ...
    def attend_each(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = None,
        errors: str = "raise",
        votes: bool = False,
        batch_size: int = 64,
    ) -> Iterator[tuple[Any, Any]]: ...
    def attend_features(
        self, features: Any, captions: Any, *, images: Any = None, votes: bool = False
    ) -> list[CaptionResult]: ...
    def attend_batch(
        self, batch: Batch, captions: list[list[str]], votes: bool = False
    ) -> list[CaptionResult]: ...
    def batches(
        self, images: Any, batch_size: int, cache: FeatureCache | None = None, errors: str = "raise"
    ) -> Iterator[Batch]: ...
    def encode(self, photos: Any) -> Any: ...
    def encode_each(
        self, images: Any, *, cache: FeatureCache | None = None
    ) -> Iterator[tuple[Any, np.ndarray]]: ...
