"""Made by docs/make_stubs.py from the signatures of the public names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf

__all__ = [
    "CaptionedImage",
    "DATASETS",
    "DOWNLOADS",
    "FeatureCache",
    "Scene",
    "Vocabulary",
    "WordPlace",
    "clean_descriptions",
    "coco",
    "download",
    "draw_scenes",
    "find_pictures",
    "flickr30k",
    "flickr8k",
    "folder",
    "is_true",
    "load_descriptions",
    "load_document",
    "load_image",
    "make_batches",
    "photos_of_split",
    "read_data",
    "readable_photos",
    "save_descriptions",
    "tokenise",
    "vocabulary_words",
    "word_places",
]
__version__: str

class CaptionedImage:
    image_id: str
    image_path: Any
    captions: list[str]
    split: str | None
    def __init__(
        self, image_id: str, image_path: Any, captions: list[str], split: str | None = ...
    ) -> None: ...

DATASETS: dict[str, Any]

DOWNLOADS: dict[str, Any]

class FeatureCache:
    directory: Path
    manifest: dict[str, Any]
    grid_shape: tuple[int, int]
    feature_dim: int
    unreadable: dict[str, str]
    image_ids: list[str]
    photos: np.ndarray
    def __init__(self, directory: str | os.PathLike) -> None: ...
    @classmethod
    def open(cls, directory: str | os.PathLike, *, encoder: Any = ...) -> FeatureCache: ...
    @classmethod
    def build(
        cls,
        directory: str | os.PathLike,
        image_ids: list[str],
        image_paths: list,
        encoder: Any,
        *,
        image_size: int | tuple[int, int] | None = ...,
        encoder_name: str | None = ...,
        encoder_layer: str | None = ...,
        batch_size: int = ...,
        dtype: str = ...,
        view: int = ...,
        errors: str = ...,
        verify: bool = ...,
        show_progress: bool = ...,
        encode_rows: Any = ...,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __contains__(self, image_id: str) -> bool: ...
    def rows_of(self, image_ids: list[str]) -> np.ndarray: ...
    def features(self, image_ids: list[str]) -> np.ndarray: ...
    def features_of_rows(self, rows: np.ndarray) -> np.ndarray: ...
    def noted_of(self, image_ids: list[str]) -> dict[str, Any]: ...
    def reject_changed(self, image_ids: list[str], image_paths: list) -> None: ...

class Scene:
    image_id: str
    image: np.ndarray
    objects: tuple
    captions: tuple
    split: str
    def __init__(
        self, image_id: str, image: np.ndarray, objects: tuple, captions: tuple, split: str
    ) -> None: ...
    def places(self, caption: str) -> list[WordPlace]: ...
    def png(self) -> bytes: ...

class Vocabulary:
    words: list[str]
    tokens: list[str]
    pad_token_id: int
    region_token_id: int
    start_token_id: int
    end_token_id: int
    unk_token_id: int
    def __init__(self, words: list[str]) -> None: ...
    @classmethod
    def build(
        cls,
        captioned_images: list[CaptionedImage],
        *,
        min_count: int = ...,
        max_size: int | None = ...,
    ) -> Vocabulary: ...
    def __len__(self) -> int: ...
    def __contains__(self, word: str) -> bool: ...
    def caption_to_ids(self, caption: str | list[str]) -> list[int]: ...
    def ids_to_words(self, token_ids: Any) -> list[str]: ...
    def ids_to_caption(self, token_ids: Any) -> str: ...
    def unknown_share(self, captions: list[str]) -> float: ...
    def save(self, path: str | os.PathLike) -> None: ...
    @classmethod
    def load(cls, path: str | os.PathLike) -> Vocabulary: ...

class WordPlace:
    position: int
    word: str
    word_class: str
    boxes: tuple
    image_size: tuple
    def __init__(
        self, position: int, word: str, word_class: str, boxes: tuple, image_size: tuple
    ) -> None: ...
    def cells(self, grid_shape: tuple[int, int]) -> np.ndarray: ...

def clean_descriptions(descriptions: dict[str, list[str]]) -> dict[str, list[str]]: ...
def coco(data_dir: str | os.PathLike, *, split_seed: int | None = ...) -> list[CaptionedImage]: ...
def download(
    name: str, data_dir: str | os.PathLike, *, mirror: str | None = ..., show_progress: bool = ...
) -> Path: ...
def draw_scenes(
    num_scenes: int,
    seed: int = ...,
    image_size: Any = ...,
    *,
    max_objects: int = ...,
    twin_share: float = ...,
) -> list[Scene]: ...
def find_pictures(paths: Any, *, recursive: bool = ...) -> list[str]: ...
def flickr30k(
    data_dir: str | os.PathLike, *, split_seed: int | None = ...
) -> list[CaptionedImage]: ...
def flickr8k(
    data_dir: str | os.PathLike, *, split_seed: int | None = ...
) -> list[CaptionedImage]: ...
def folder(
    data_dir: str | os.PathLike, *, split_seed: int | None = ...
) -> list[CaptionedImage]: ...
def is_true(scene: Scene, caption: str) -> bool | None: ...
def load_descriptions(document: str, *, source: str = ...) -> dict[str, list[str]]: ...
def load_document(path: str | os.PathLike) -> str: ...
def load_image(image: Any, image_size: int | tuple[int, int] | None = ...) -> np.ndarray: ...
def make_batches(
    captioned_images: list[CaptionedImage],
    vocabulary: Vocabulary,
    cache: FeatureCache | list[FeatureCache] | None = ...,
    batch_size: int = ...,
    *,
    split: str | None = ...,
    group_by: str = ...,
    image_size: int | tuple[int, int] | None = ...,
    keep_images: bool = ...,
    num_views: int = ...,
    jitter: float = ...,
    shuffle: bool = ...,
    seed: int = ...,
    first_epoch: int = ...,
    shares: tuple[list[int], int] | None = ...,
    boxes: Any = ...,
    grid_shape: tuple[int, int] | None = ...,
    num_phrases: int = ...,
) -> tf.data.Dataset: ...
def photos_of_split(captioned_images: list[CaptionedImage], split: str) -> list[CaptionedImage]: ...
def read_data(
    data: str | list[CaptionedImage],
    data_dir: str | os.PathLike | None = ...,
    *,
    split_seed: int | None = ...,
    show_progress: bool = ...,
) -> list[CaptionedImage]: ...
def readable_photos(
    captioned_images: list[CaptionedImage],
    *,
    skip: bool = ...,
    show_progress: bool = ...,
    noted: dict | None = ...,
) -> list[CaptionedImage]: ...
def save_descriptions(descriptions: dict[str, list[str]], path: str | os.PathLike) -> None: ...
def tokenise(text: str) -> list[str]: ...
def vocabulary_words(descriptions: dict[str, list[str]]) -> set[str]: ...
def word_places(scene: Scene, caption: str) -> list[WordPlace]: ...
