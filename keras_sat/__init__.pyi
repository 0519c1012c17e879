"""Made by docs/make_stubs.py from the signatures of the public names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from data_utils import CaptionedImage, FeatureCache, Vocabulary

__all__ = [
    "ATTENTIONS",
    "AttentionDisplay",
    "BahdanauAttention",
    "BeginWithExpectations",
    "BilinearAttention",
    "Calibration",
    "CaptionDecoder",
    "CaptionResult",
    "Captioner",
    "Comparison",
    "DecoderState",
    "DotAttention",
    "DrawAttention",
    "ENCODERS",
    "Ensemble",
    "Grounding",
    "KeepTraining",
    "LiteRTCaptioner",
    "PRESETS",
    "SCORES",
    "SCORINGS",
    "ScoreCaptions",
    "ScoreTable",
    "SearchResult",
    "SelfCritical",
    "ShowCaptions",
    "ShowProgress",
    "Step",
    "beam_search",
    "calibrate",
    "compare",
    "distributed_caption",
    "evaluate",
    "evaluate_captions",
    "fit",
    "gallery",
    "greedy_search",
    "ground",
    "load_litert",
    "plot_history",
    "sample_search",
]
__version__: str

ATTENTIONS: dict[str, Any]

class AttentionDisplay:
    image: Any
    words: list[str]
    attention_weights: np.ndarray
    from_photo: np.ndarray | None
    confidence: float | None
    def __init__(
        self,
        image: Any,
        words: list[str],
        attention_weights: np.ndarray,
        from_photo: np.ndarray | None = ...,
        confidence: float | None = ...,
    ) -> None: ...
    @classmethod
    def from_result(cls, result: CaptionResult, *, image: Any = ...) -> AttentionDisplay: ...
    def upsampled(self, position: int) -> np.ndarray: ...
    def lit(self, position: int, look: str = ...) -> tuple[np.ndarray, list[np.ndarray], str]: ...
    def share(self, position: int) -> float: ...
    def positions(self, words: Any = ...) -> list[int]: ...
    def plot(
        self,
        ax: Any = ...,
        *,
        words: Any = ...,
        columns: int | None = ...,
        look: str = ...,
        shares: bool = ...,
        width: float = ...,
    ) -> Any: ...
    @staticmethod
    def compare(
        displays: list[AttentionDisplay],
        *,
        images: list | None = ...,
        names: list[str] | None = ...,
        ax: Any = ...,
        words: Any = ...,
        look: str = ...,
        shares: bool = ...,
        width: float = ...,
    ) -> Any: ...
    def save(self, path: str | os.PathLike, *, dpi: int = ..., **options: Any) -> None: ...
    def animate(
        self,
        path: str | os.PathLike,
        *,
        words: Any = ...,
        look: str = ...,
        seconds_per_word: float = ...,
        width: int | None = ...,
    ) -> None: ...
    def to_html(self, path: str | os.PathLike, *, title: str | None = ...) -> None: ...

class BahdanauAttention(Any):
    attention_dim: Any
    selection: Any
    select: Any
    feature_projection: Any
    state_projection: Any
    def __init__(self, attention_dim: Any = ..., **kwargs: Any) -> None: ...
    def build(self, hidden_state_shape: Any, features_shape: Any, **_: Any) -> Any: ...
    def project(self, features: Any) -> Any: ...
    def project_state(self, hidden_state: Any) -> Any: ...
    def score(self, query: Any, projected_features: Any) -> Any: ...
    def scores(self, query: Any, projected_features: Any) -> Any: ...
    def call(
        self,
        hidden_state: Any,
        features: Any,
        projected_features: Any = ...,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def look(
        self, attention_scores: Any, features: Any, noise: Any = ..., sampled: Any = ...
    ) -> Any: ...
    def get_config(self) -> Any: ...

class BeginWithExpectations(Any):
    num_epochs: Any
    def __init__(self, num_epochs: Any) -> None: ...
    def on_epoch_begin(self, epoch: Any, logs: Any = ...) -> Any: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...

class BilinearAttention(Any):
    attention_dim: Any
    selection: Any
    select: Any
    def __init__(
        self, attention_dim: Any = ..., *, selection: Any = ..., **kwargs: Any
    ) -> None: ...
    def build(self, hidden_state_shape: Any, features_shape: Any, **_: Any) -> Any: ...
    def project(self, features: Any) -> Any: ...
    def project_state(self, hidden_state: Any) -> Any: ...
    def score(self, query: Any, projected_features: Any) -> Any: ...
    def scores(self, query: Any, projected_features: Any) -> Any: ...
    def call(
        self,
        hidden_state: Any,
        features: Any,
        projected_features: Any = ...,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def look(
        self, attention_scores: Any, features: Any, noise: Any = ..., sampled: Any = ...
    ) -> Any: ...
    def get_config(self) -> Any: ...

class Calibration:
    confidences: np.ndarray
    are_right: np.ndarray
    def __init__(self, confidences: np.ndarray, are_right: np.ndarray) -> None: ...
    @property
    def expected_error(self) -> float: ...
    @property
    def separation(self) -> float: ...
    def bins(self) -> list[dict]: ...
    def to_dict(self) -> dict: ...
    def plot(self, ax: Any = ...) -> Any: ...

class CaptionDecoder(Any):
    vocabulary_size: Any
    attention_layer: Any
    draws_places: Any
    cells_read_context: Any
    embedding: Any
    has_cell_states: Any
    cells: Any
    initial_hidden: Any
    initial_cell: Any
    gate: Any
    drop_embedding: Any
    drop_words: Any
    readout: Any
    def __init__(
        self,
        vocabulary_size: Any,
        *,
        attention: str = ...,
        scoring: str = ...,
        cell: str = ...,
        num_layers: int = ...,
        embedding_dim: int = ...,
        hidden_dim: int = ...,
        attention_dim: int = ...,
        context_gate: bool = ...,
        deep_output: bool = ...,
        readout_activation: Any = ...,
        dropout_embedding: float = ...,
        dropout_words: float = ...,
        dropout_before_readout: float = ...,
        dropout_after_readout: float = ...,
        seed: int = ...,
        name: Any = ...,
        dtype: Any = ...,
        trainable: Any = ...,
    ) -> None: ...
    @property
    def has_gate(self) -> Any: ...
    def build(self, features_shape: Any, input_ids_shape: Any = ...) -> Any: ...
    def project_features(self, features: Any) -> Any: ...
    def reveal(self, features: Any, visible: Any = ...) -> Any: ...
    def initial_state(self, features: Any, rows_per_photo: Any = ...) -> Any: ...
    def step(
        self,
        input_ids: Any,
        state: Any,
        features: Any,
        projected_features: Any,
        training: Any = ...,
        noise: Any = ...,
        drop: Any = ...,
    ) -> Any: ...
    def embed(self, input_ids: Any, training: Any) -> Any: ...
    def read_word(
        self,
        projected_word: Any,
        state: Any,
        features: Any,
        projected_features: Any,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def attend(
        self,
        state: Any,
        features: Any,
        projected_features: Any,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def advance(self, projected_inputs: Any, state: Any) -> Any: ...
    def call(
        self,
        features: Any,
        input_ids: Any,
        training: Any = ...,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def unroll(
        self,
        features: Any,
        input_ids: Any,
        noise: Any = ...,
        sampled: Any = ...,
        token_weights: Any = ...,
        training: Any = ...,
        visible: Any = ...,
    ) -> Any: ...
    def read_words(
        self,
        projected_words: Any,
        state: Any,
        features: Any,
        projected_features: Any,
        noise: Any,
        sampled: Any,
        token_weights: Any,
    ) -> Any: ...
    def compute_output_spec(
        self,
        features: Any,
        input_ids: Any,
        training: Any = ...,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def get_config(self) -> Any: ...

class CaptionResult:
    caption: str
    words: list[str]
    log_prob: float
    attention_weights: np.ndarray
    extras: dict
    is_finished: bool
    confidence: float | None
    image: Any
    alternatives: list
    consensus: float | None
    similar_photos: list
    word_probs: np.ndarray | None
    region: tuple | None
    image_path: str | None
    def __init__(
        self,
        caption: str,
        words: list[str],
        log_prob: float,
        attention_weights: np.ndarray,
        extras: dict = ...,
        is_finished: bool = ...,
        confidence: float | None = ...,
        image: Any = ...,
        alternatives: list = ...,
        consensus: float | None = ...,
        similar_photos: list = ...,
        word_probs: np.ndarray | None = ...,
        region: tuple | None = ...,
        image_path: str | None = ...,
    ) -> None: ...
    def to_dict(self, *, maps: bool = ...) -> dict[str, Any]: ...
    def of_region(self, region: Any) -> Any: ...
    @property
    def from_photo(self) -> Any: ...

class Captioner(keras.Model):
    updates: Any
    means: Any
    options: Any
    vocabulary: Any
    decoder: Any
    confidence: Any
    consensus: Any
    training_photos: Any
    source: Any
    photo_encoder: Any
    adapter: Any
    trained_encoder: Any
    random_generator: Any
    term_layers: Any
    paper_objective: Any
    training_objective: Any
    feature_shape: Any
    num_regions: Any
    def __init__(
        self,
        vocabulary: Any,
        *,
        attention: str = ...,
        scoring: str = ...,
        cell: str = ...,
        num_layers: int = ...,
        embedding_dim: int = ...,
        hidden_dim: int = ...,
        attention_dim: int = ...,
        context_gate: bool = ...,
        deep_output: bool = ...,
        readout_activation: Any = ...,
        dropout_embedding: float = ...,
        dropout_words: float = ...,
        dropout_before_readout: float = ...,
        dropout_after_readout: float = ...,
        seed: int = ...,
        encoder: Any = ...,
        encoder_layer: str | None = ...,
        encoder_weights: Any = ...,
        encoder_training: str | None = ...,
        trained_up_to: str | None = ...,
        image_size: Any = ...,
        grid: str | None = ...,
        grid_shape: tuple | None = ...,
        photo_blur: float | None = ...,
        normalise_features: bool = ...,
        feature_projection_dim: int | None = ...,
        feature_activation: Any = ...,
        feature_dropout: float = ...,
        attends: str = ...,
        sentinel: bool = ...,
        attention_penalty_weight: float = ...,
        guide_weight: float = ...,
        box_weight: float = ...,
        region_weight: float = ...,
        sharpness_weight: float = ...,
        label_smoothing: float = ...,
        num_samples: int = ...,
        reward_weight: float = ...,
        entropy_weight: float = ...,
        expectation_probability: float = ...,
        expectation_for: str = ...,
        use_baseline: bool = ...,
        length_penalty: float = ...,
        no_repeat_ngram: int = ...,
        no_repeat_around: str = ...,
        consensus_weight: float = ...,
        consensus_photos: int = ...,
        consensus_captions: int = ...,
        name: Any = ...,
    ) -> None: ...
    @staticmethod
    def apply_gradients(optimizer: Any, gradients: Any, weights: Any) -> Any: ...
    @property
    def metrics(self) -> Any: ...
    @property
    def encoder_variables(self) -> Any: ...
    def compile(
        self,
        optimizer: Any = ...,
        *,
        learning_rate: float = ...,
        clip_norm: float = ...,
        weight_decay: float | None = ...,
        average_momentum: float | None = ...,
        encoder_rate: float = ...,
        first_layer_rate: float = ...,
        training_objective: Any = ...,
        jit_compile: Any = ...,
    ) -> Any: ...
    def fit(self, x: Any = ..., *args: Any, shuffle: Any = ..., **kwargs: Any) -> Any: ...
    def build_for(self, batches: Any, name: Any = ...) -> Any: ...
    def evaluate(self, *args: Any, **kwargs: Any) -> Any: ...
    def averaged_weights(self) -> Any: ...
    def end_averaging(self) -> Any: ...
    def make_training_state(self) -> Any: ...
    def objective(self, batch: Any, training: Any) -> Any: ...
    def read(
        self, features: Any, input_ids: Any, target_ids: Any, token_weights: Any, **options: Any
    ) -> Any: ...
    def train_step(self, batch: Any) -> Any: ...
    def test_step(self, batch: Any) -> Any: ...
    def build_terms(self) -> Any: ...
    @staticmethod
    def load_photo(image: Any, image_size: int | tuple[int, int] | None = ...) -> np.ndarray: ...
    @property
    def photo_sizes(self) -> list[tuple[int, int]]: ...
    @property
    def extra_dims(self) -> dict[str, int]: ...
    def caption(
        self,
        images: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        recursive: bool = ...,
        region: Any = ...,
    ) -> Any: ...
    def caption_each(
        self,
        images: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        cache: FeatureCache | None = ...,
        errors: str = ...,
        regions: Any = ...,
    ) -> Iterator[tuple[Any, Any]]: ...
    def caption_features(
        self,
        features: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        images: Any = ...,
    ) -> list[CaptionResult]: ...
    def visible_cells(self, regions: Any) -> Any: ...
    def consensus_options(self, options: Any) -> Any: ...
    def arguments_of_search(self, options: Any, agreeing: Any = ...) -> Any: ...
    def attend(
        self, images: Any, captions: Any, *, cache: FeatureCache | None = ..., batch_size: int = ...
    ) -> Any: ...
    def attend_each(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = ...,
        errors: str = ...,
        batch_size: int = ...,
    ) -> Iterator[tuple[Any, Any]]: ...
    def attend_features(
        self, features: Any, captions: Any, *, images: Any = ...
    ) -> list[CaptionResult]: ...
    def features_each(
        self, images: Any, *, cache: FeatureCache | None = ...
    ) -> Iterator[tuple[Any, Any]]: ...
    def features_of(self, photos: Any) -> Any: ...
    def encode(self, photos: np.ndarray) -> np.ndarray: ...
    def search(
        self,
        features: Any,
        word_noise: Any = ...,
        region_noise: Any = ...,
        visible: Any = ...,
        *,
        sample_attention: Any = ...,
        **options: Any,
    ) -> Any: ...
    def forced_search(self, features: Any, token_ids: Any) -> Any: ...
    def steps(
        self,
        features: Any,
        rows_per_photo: Any,
        *,
        region_noise: Any = ...,
        visible: Any = ...,
        drop: Any = ...,
    ) -> Any: ...
    def option(self, name: Any) -> Any: ...
    @property
    def baseline(self) -> Any: ...
    @property
    def expectation_share(self) -> Any: ...
    @property
    def encoder_model(self) -> Any: ...
    @property
    def samples_attention(self) -> Any: ...
    def get_config(self) -> Any: ...
    def note_training_photos(
        self, image_ids: list[str], noted: dict[str, Any] | None = ...
    ) -> None: ...
    def features(self, inputs: Any, training: Any = ...) -> Any: ...
    def adapt(self, features: Any) -> Any: ...
    def checked_features(self, features: Any) -> Any: ...
    def rows_and_columns(self) -> tuple[int, int]: ...
    def build(self, input_shape: Any) -> Any: ...
    def build_once(self, features_shape: Any, input_ids_shape: Any = ...) -> Any: ...
    def call(
        self, inputs: Any, training: Any = ..., noise: Any = ..., sampled: Any = ...
    ) -> Any: ...
    def faithfulness(
        self, images: Any, captions: Any = ..., *, pixel_photos: int = ...
    ) -> dict[str, Any]: ...
    def save(
        self, directory: str | os.PathLike, overwrite: bool = ..., *, precision: str = ...
    ) -> None: ...
    def get_build_config(self) -> Any: ...
    def export(
        self, directory: str | os.PathLike, format: str | list[str] = ..., **options: Any
    ) -> Path: ...
    @classmethod
    def load(
        cls,
        directory: str | os.PathLike,
        *,
        encoder: Any = ...,
        encoder_weights: str | os.PathLike | None = ...,
    ) -> Captioner: ...
    @classmethod
    def from_pretrained(
        cls, model: str | os.PathLike | None = ..., **options: Any
    ) -> Captioner: ...
    def push_to_hub(self, repository: str, **options: Any) -> str: ...
    def adapted(self, vocabulary: Vocabulary | None = ..., **options: Any) -> Captioner: ...
    def restore_weights(self, directory: str | os.PathLike) -> None: ...
    def weights_digest(self) -> str: ...
    def named_weights(self) -> Any: ...
    @property
    def attention(self) -> Any: ...
    @property
    def scoring(self) -> Any: ...
    @property
    def cell(self) -> Any: ...
    @property
    def num_layers(self) -> Any: ...
    @property
    def embedding_dim(self) -> Any: ...
    @property
    def hidden_dim(self) -> Any: ...
    @property
    def attention_dim(self) -> Any: ...
    @property
    def context_gate(self) -> Any: ...
    @property
    def deep_output(self) -> Any: ...
    @property
    def readout_activation(self) -> Any: ...
    @property
    def dropout_embedding(self) -> Any: ...
    @property
    def dropout_words(self) -> Any: ...
    @property
    def dropout_before_readout(self) -> Any: ...
    @property
    def dropout_after_readout(self) -> Any: ...
    @property
    def seed(self) -> Any: ...
    @property
    def encoder(self) -> Any: ...
    @property
    def encoder_layer(self) -> Any: ...
    @property
    def encoder_weights(self) -> Any: ...
    @property
    def encoder_training(self) -> Any: ...
    @property
    def trained_up_to(self) -> Any: ...
    @property
    def image_size(self) -> Any: ...
    @property
    def grid(self) -> Any: ...
    @property
    def grid_shape(self) -> Any: ...
    @property
    def photo_blur(self) -> Any: ...
    @property
    def normalise_features(self) -> Any: ...
    @property
    def feature_projection_dim(self) -> Any: ...
    @property
    def feature_activation(self) -> Any: ...
    @property
    def feature_dropout(self) -> Any: ...
    @property
    def attends(self) -> Any: ...
    @property
    def sentinel(self) -> Any: ...
    @property
    def attention_penalty_weight(self) -> Any: ...
    @property
    def guide_weight(self) -> Any: ...
    @property
    def box_weight(self) -> Any: ...
    @property
    def region_weight(self) -> Any: ...
    @property
    def sharpness_weight(self) -> Any: ...
    @property
    def label_smoothing(self) -> Any: ...
    @property
    def num_samples(self) -> Any: ...
    @property
    def reward_weight(self) -> Any: ...
    @property
    def entropy_weight(self) -> Any: ...
    @property
    def expectation_probability(self) -> Any: ...
    @property
    def expectation_for(self) -> Any: ...
    @property
    def use_baseline(self) -> Any: ...
    @property
    def length_penalty(self) -> Any: ...
    @property
    def no_repeat_ngram(self) -> Any: ...
    @property
    def no_repeat_around(self) -> Any: ...
    @property
    def consensus_weight(self) -> Any: ...
    @property
    def consensus_photos(self) -> Any: ...
    @property
    def consensus_captions(self) -> Any: ...

class Comparison:
    names: tuple
    num_photos: int
    num_seeds: tuple
    rows: dict
    def __init__(self, names: tuple, num_photos: int, num_seeds: tuple, rows: dict) -> None: ...

class DecoderState(NamedTuple):
    hidden_states: tuple
    cell_states: tuple

class DotAttention(Any):
    attention_dim: Any
    selection: Any
    select: Any
    def __init__(
        self, attention_dim: Any = ..., *, selection: Any = ..., **kwargs: Any
    ) -> None: ...
    def build(self, hidden_state_shape: Any, features_shape: Any, **_: Any) -> Any: ...
    def project(self, features: Any) -> Any: ...
    def project_state(self, hidden_state: Any) -> Any: ...
    def score(self, query: Any, projected_features: Any) -> Any: ...
    def scores(self, query: Any, projected_features: Any) -> Any: ...
    def call(
        self,
        hidden_state: Any,
        features: Any,
        projected_features: Any = ...,
        noise: Any = ...,
        sampled: Any = ...,
    ) -> Any: ...
    def look(
        self, attention_scores: Any, features: Any, noise: Any = ..., sampled: Any = ...
    ) -> Any: ...
    def get_config(self) -> Any: ...

class DrawAttention(Any):
    images: Any
    cache: Any
    search_options: Any
    output: Any
    directory: Any
    def __init__(
        self, captioned_images: Any, directory: Any, *, num_photos: Any = ..., **options: Any
    ) -> None: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...
    def show(self, epoch: Any, captioned: Any) -> Any: ...

ENCODERS: dict[str, Any]

class Ensemble:
    captioners: Any
    vocabulary: Any
    consensus: Any
    options: Any
    def __init__(self, captioners: list, *, length_penalty: float | None = ...) -> None: ...
    @staticmethod
    def load_photo(image: Any, image_size: int | tuple[int, int] | None = ...) -> np.ndarray: ...
    @property
    def photo_sizes(self) -> list[tuple[int, int]]: ...
    @property
    def extra_dims(self) -> dict[str, int]: ...
    def caption(
        self,
        images: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        recursive: bool = ...,
        region: Any = ...,
    ) -> Any: ...
    def caption_each(
        self,
        images: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        cache: FeatureCache | None = ...,
        errors: str = ...,
        regions: Any = ...,
    ) -> Iterator[tuple[Any, Any]]: ...
    def caption_features(
        self,
        features: Any,
        *,
        num_beams: int | None = ...,
        max_length: int = ...,
        length_penalty: float | None = ...,
        no_repeat_ngram: int | None = ...,
        no_repeat_around: str | None = ...,
        allow_unknown: bool = ...,
        consensus_weight: float | None = ...,
        consensus_photos: int | None = ...,
        consensus_captions: int | None = ...,
        num_results: int = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        sample_attention: bool = ...,
        seed: int | None = ...,
        first_photo: int = ...,
        batch_size: int = ...,
        images: Any = ...,
    ) -> list[CaptionResult]: ...
    def visible_cells(self, regions: Any) -> Any: ...
    def consensus_options(self, options: Any) -> Any: ...
    def arguments_of_search(self, options: Any, agreeing: Any = ...) -> Any: ...
    def attend(
        self, images: Any, captions: Any, *, cache: FeatureCache | None = ..., batch_size: int = ...
    ) -> Any: ...
    def attend_each(
        self,
        images: Any,
        captions: Any,
        *,
        cache: FeatureCache | None = ...,
        errors: str = ...,
        batch_size: int = ...,
    ) -> Iterator[tuple[Any, Any]]: ...
    def attend_features(
        self, features: Any, captions: Any, *, images: Any = ...
    ) -> list[CaptionResult]: ...
    def features_each(
        self, images: Any, *, cache: FeatureCache | None = ...
    ) -> Iterator[tuple[Any, Any]]: ...
    def features_of(self, photos: Any) -> Any: ...
    def encode(self, photos: np.ndarray) -> np.ndarray: ...
    def search(
        self,
        features: Any,
        word_noise: Any = ...,
        region_noise: Any = ...,
        visible: Any = ...,
        *,
        sample_attention: Any = ...,
        **options: Any,
    ) -> Any: ...
    def forced_search(self, features: Any, token_ids: Any) -> Any: ...
    def steps(
        self,
        features: Any,
        rows_per_photo: Any,
        *,
        region_noise: Any = ...,
        visible: Any = ...,
        drop: Any = ...,
    ) -> Any: ...
    @property
    def length_penalty(self) -> Any: ...
    @property
    def encoder(self) -> str: ...
    @property
    def training_photos(self) -> Any: ...
    @property
    def encoder_model(self) -> Any: ...
    def rows_and_columns(self) -> tuple[int, int]: ...
    @property
    def num_regions(self) -> int: ...
    def checked_features(self, features: Any) -> Any: ...

class Grounding:
    mass: float
    uniform_mass: float
    pointing: float
    num_words: int
    coverage: float
    uniform_pointing: float
    uniform_coverage: float
    centre_mass: float
    centre_pointing: float
    centre_coverage: float
    word_classes: dict
    def __init__(
        self,
        mass: float,
        uniform_mass: float,
        pointing: float,
        num_words: int,
        coverage: float = ...,
        uniform_pointing: float = ...,
        uniform_coverage: float = ...,
        centre_mass: float = ...,
        centre_pointing: float = ...,
        centre_coverage: float = ...,
        word_classes: dict = ...,
    ) -> None: ...
    def to_dict(self) -> dict[str, Any]: ...

class KeepTraining(Any):
    directory: Any
    epochs: Any
    before: Any
    monitored: Any
    patience: Any
    def __init__(
        self,
        directory: Any,
        *,
        epochs: Any = ...,
        before: Any = ...,
        monitored: Any = ...,
        patience: Any = ...,
    ) -> None: ...
    def on_train_begin(self, logs: Any = ...) -> Any: ...
    def on_epoch_begin(self, epoch: Any, logs: Any = ...) -> Any: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...
    def on_train_end(self, logs: Any = ...) -> Any: ...

class LiteRTCaptioner:
    vocabulary: Any
    consensus: Any
    photo_size: Any
    has_confidence: Any
    def __init__(self, directory: str | os.PathLike, *, num_threads: int | None = ...) -> None: ...
    def caption(self, images: Any, *, recursive: bool = ..., region: Any = ...) -> Any: ...
    def caption_each(
        self, images: Any, *, errors: str = ..., regions: Any = ...
    ) -> Iterator[tuple[Any, Any]]: ...
    def attend(self, image: Any, caption: str) -> CaptionResult: ...
    def attend_each(
        self, images: Any, caption: str, *, errors: str = ...
    ) -> Iterator[tuple[Any, Any]]: ...

PRESETS: dict[str, Any]

SCORES: dict[str, Any]

SCORINGS: dict[str, Any]

class ScoreCaptions(Any):
    images: Any
    cache: Any
    search_options: Any
    def __init__(
        self, captioned_images: Any, *, cache: Any = ..., **search_options: Any
    ) -> None: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...

class ScoreTable:
    scores: dict
    settings: dict
    captions: list
    statistics: dict
    photos: dict
    grounding: dict | None
    grounding_generated: dict | None
    regions: dict | None
    faithfulness: dict | None
    faithfulness_references: dict | None
    compare_with: dict
    images: list
    results: list
    def __init__(
        self,
        scores: dict,
        settings: dict,
        captions: list,
        statistics: dict = ...,
        photos: dict = ...,
        grounding: dict | None = ...,
        grounding_generated: dict | None = ...,
        regions: dict | None = ...,
        faithfulness: dict | None = ...,
        faithfulness_references: dict | None = ...,
        compare_with: dict = ...,
        images: list = ...,
        results: list = ...,
    ) -> None: ...
    def plot(self, ax: Any = ...) -> Any: ...
    def to_json(self, path: str | os.PathLike) -> None: ...
    @classmethod
    def from_json(cls, path: str | os.PathLike) -> ScoreTable: ...
    def to_coco_results(self, path: str | os.PathLike) -> None: ...
    def to_csv(self, path: str | os.PathLike) -> None: ...

class SearchResult(NamedTuple):
    token_ids: Any
    log_probs: Any
    lengths: Any
    is_finished: Any
    attention_weights: Any
    extras: dict[str, Any]
    word_probs: Any

class SelfCritical:
    vocabulary: Any
    num_drawn: Any
    reward_baseline: Any
    temperature: Any
    max_length: Any
    reward: Any
    def __init__(
        self,
        captions: Any,
        vocabulary: Any,
        *,
        num_drawn: Any = ...,
        reward_baseline: Any = ...,
        temperature: Any = ...,
        max_length: Any = ...,
    ) -> None: ...
    @classmethod
    def of(cls, before: Any, captioner: Any, images: Any, training: Any, options: Any) -> Any: ...
    def __call__(self, captioner: Any, batch: Any) -> Any: ...

class ShowCaptions(Any):
    images: Any
    cache: Any
    search_options: Any
    output: Any
    def __init__(
        self,
        captioned_images: Any,
        *,
        cache: Any = ...,
        num_photos: Any = ...,
        output: Any = ...,
        **search_options: Any,
    ) -> None: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...
    def show(self, epoch: Any, captioned: Any) -> Any: ...

class ShowProgress(Any):
    num_epochs: Any
    monitored: Any
    known: Any
    label: Any
    output: Any
    def __init__(
        self,
        num_epochs: Any,
        *,
        epochs: Any = ...,
        before: Any = ...,
        monitored: Any = ...,
        label: Any = ...,
        output: Any = ...,
    ) -> None: ...
    def on_epoch_begin(self, epoch: Any, logs: Any = ...) -> Any: ...
    def on_train_batch_end(self, batch: Any, logs: Any = ...) -> Any: ...
    def on_epoch_end(self, epoch: Any, logs: Any = ...) -> Any: ...
    def end_line(self) -> Any: ...

class Step(NamedTuple):
    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    extras: dict

def beam_search(
    step: Callable,
    state: Any,
    *,
    num_beams: int = ...,
    num_results: int = ...,
    length_penalty: float = ...,
    no_repeat_ngram: int = ...,
    joining_token_id: int | None = ...,
    **options: Any,
) -> SearchResult: ...
def calibrate(
    captioner: Any,
    images: Any,
    *,
    cache: Any = ...,
    skip_unreadable: Any = ...,
    show_progress: Any = ...,
) -> Calibration: ...
def compare(
    first: Any, second: Any, *, num_resamples: int = ..., seed: int = ...
) -> Comparison: ...
def distributed_caption(
    images: Any,
    model: Any = ...,
    *,
    num_beams: int | None = ...,
    max_length: int = ...,
    length_penalty: float | None = ...,
    no_repeat_ngram: int | None = ...,
    no_repeat_around: str | None = ...,
    allow_unknown: bool = ...,
    output: str | os.PathLike,
    ray: str = ...,
    recursive: bool = ...,
    file_type: str = ...,
    part_size: int = ...,
    worker_cpus: float = ...,
    worker_gpus: float = ...,
    encoder_weights: str | os.PathLike | None = ...,
    show_progress: bool = ...,
) -> Any: ...
def evaluate(
    captioner: Any,
    data: str | list[CaptionedImage],
    *,
    num_beams: int | None = ...,
    max_length: int = ...,
    length_penalty: float | None = ...,
    no_repeat_ngram: int | None = ...,
    no_repeat_around: str | None = ...,
    allow_unknown: bool = ...,
    consensus_weight: float | None = ...,
    consensus_photos: int | None = ...,
    consensus_captions: int | None = ...,
    data_dir: str | os.PathLike | None = ...,
    split: str = ...,
    split_seed: int | None = ...,
    cache: Any = ...,
    batch_size: int = ...,
    skip_unreadable: bool = ...,
    allow_training_photos: bool = ...,
    compare_with: str | tuple[str, ...] | list[str] = ...,
    boxes: Any = ...,
    regions: bool = ...,
    faithfulness: bool = ...,
    pixel_photos: int = ...,
    keep_results: bool = ...,
    show_progress: bool = ...,
) -> ScoreTable: ...
def evaluate_captions(
    captions: Any,
    data: str | list[CaptionedImage],
    *,
    data_dir: str | os.PathLike | None = ...,
    split: str = ...,
    split_seed: int | None = ...,
    compare_with: str | tuple[str, ...] | list[str] = ...,
    show_progress: bool = ...,
) -> ScoreTable: ...
def fit(
    data: Any,
    *,
    learning_rate: float = ...,
    clip_norm: float = ...,
    weight_decay: float | None = ...,
    average_momentum: float | None = ...,
    encoder_rate: float = ...,
    first_layer_rate: float = ...,
    epochs: int = ...,
    batch_size: int = ...,
    group_by: str = ...,
    seed: int = ...,
    deterministic: bool = ...,
    optimizer: Any = ...,
    schedule: str = ...,
    warmup_steps: int = ...,
    num_views: int = ...,
    photo_jitter: float = ...,
    patience: int = ...,
    min_count: int = ...,
    max_words: int = ...,
    expectation_epochs: int = ...,
    num_beams: int = ...,
    max_length: int = ...,
    dtype: Any = ...,
    consistency_epochs: int = ...,
    consistency_rate: float = ...,
    self_critical_epochs: int = ...,
    self_critical_rate: float = ...,
    num_drawn: int = ...,
    reward_baseline: str = ...,
    drawing_temperature: float = ...,
    attention: str = ...,
    scoring: str = ...,
    cell: str = ...,
    num_layers: int = ...,
    embedding_dim: int = ...,
    hidden_dim: int = ...,
    attention_dim: int = ...,
    context_gate: bool = ...,
    deep_output: bool = ...,
    readout_activation: Any = ...,
    dropout_embedding: float = ...,
    dropout_words: float = ...,
    dropout_before_readout: float = ...,
    dropout_after_readout: float = ...,
    encoder: Any = ...,
    encoder_layer: str | None = ...,
    encoder_weights: Any = ...,
    encoder_training: str | None = ...,
    trained_up_to: str | None = ...,
    image_size: Any = ...,
    grid: str | None = ...,
    grid_shape: tuple | None = ...,
    photo_blur: float | None = ...,
    normalise_features: bool = ...,
    feature_projection_dim: int | None = ...,
    feature_activation: Any = ...,
    feature_dropout: float = ...,
    attends: str = ...,
    sentinel: bool = ...,
    attention_penalty_weight: float = ...,
    guide_weight: float = ...,
    box_weight: float = ...,
    region_weight: float = ...,
    sharpness_weight: float = ...,
    label_smoothing: float = ...,
    num_samples: int = ...,
    reward_weight: float = ...,
    entropy_weight: float = ...,
    expectation_probability: float = ...,
    expectation_for: str = ...,
    use_baseline: bool = ...,
    length_penalty: float = ...,
    no_repeat_ngram: int = ...,
    no_repeat_around: str = ...,
    consensus_weight: float = ...,
    consensus_photos: int = ...,
    consensus_captions: int = ...,
    data_dir: Any = ...,
    split_seed: Any = ...,
    preset: Any = ...,
    initial_model: Any = ...,
    from_scratch: Any = ...,
    cache_dir: Any = ...,
    output_dir: Any = ...,
    skip_unreadable: Any = ...,
    boxes: Any = ...,
    callbacks: Any = ...,
    show_progress: Any = ...,
    strategy: Any = ...,
) -> Captioner: ...
def gallery(
    results: list[CaptionResult],
    path: str | os.PathLike,
    *,
    images: list | None = ...,
    names: list[str] | None = ...,
    references: list[list[str]] | None = ...,
    title: str = ...,
) -> Path: ...
def greedy_search(
    step: Callable,
    state: Any,
    *,
    no_repeat_ngram: int = ...,
    joining_token_id: int | None = ...,
    **options: Any,
) -> SearchResult: ...
def ground(
    results: list[CaptionResult], places: Any, *, word_classes: tuple[str, ...] | None = ...
) -> Grounding: ...
def load_litert(
    model: str | os.PathLike | None = ..., *, num_threads: int | None = ..., eight_bit: bool = ...
) -> LiteRTCaptioner: ...
def plot_history(history: Any, ax: Any = ...) -> Any: ...
def sample_search(
    step: Callable,
    state: Any,
    noise: Any,
    *,
    num_samples: int = ...,
    temperature: float = ...,
    top_k: int | None = ...,
    top_p: float | None = ...,
    **options: Any,
) -> SearchResult: ...
