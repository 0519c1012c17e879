"""Made by docs/make_stubs.py: the types of `**options`, from keras_sat/settings.py."""

from typing import Any, TypedDict


class CaptionerKeywords(TypedDict, total=False):
    encoder: Any
    encoder_layer: str | None
    encoder_weights: Any
    encoder_training: str | None
    trained_up_to: str | None
    image_size: Any
    grid: str | None
    grid_shape: tuple | None
    photo_blur: float | None
    normalise_features: bool
    feature_projection_dim: int | None
    feature_activation: Any
    feature_dropout: float
    attention: str
    scoring: str
    cell: str
    num_layers: int
    embedding_dim: int
    hidden_dim: int
    attention_dim: int
    context_gate: bool
    deep_output: bool
    readout_activation: Any
    dropout_words: float
    dropout_before_readout: float
    dropout_after_readout: float
    seed: int
    attends: str
    sentinel: bool
    attention_penalty_weight: float
    label_smoothing: float
    num_samples: int
    reward_weight: float
    entropy_weight: float
    guide_weight: float
    box_weight: float
    sharpness_weight: float
    length_penalty: float
    no_repeat_ngram: int
    no_repeat_around: str
    consensus_weight: float
    dtype: Any
    trainable: Any


class SearchKeywords(TypedDict, total=False):
    num_beams: int | None
    max_length: int
    allow_unknown: bool
    length_penalty: float | None
    no_repeat_ngram: int | None
    no_repeat_around: str | None
    consensus_weight: float | None
    num_results: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    sample_attention: bool
    seed: int | None
    votes: bool
    first_photo: int
    batch_size: int


class BeamSearchKeywords(TypedDict, total=False):
    num_beams: int | None
    max_length: int
    allow_unknown: bool
    length_penalty: float | None
    no_repeat_ngram: int | None
    no_repeat_around: str | None
    consensus_weight: float | None


class AlgorithmKeywords(TypedDict, total=False):
    num_beams: int | None
    max_length: int
    allow_unknown: bool
    length_penalty: float | None
    no_repeat_ngram: int | None
    no_repeat_around: str | None


class FitKeywords(TypedDict, total=False):
    encoder: Any
    encoder_layer: str | None
    encoder_weights: Any
    encoder_training: str | None
    trained_up_to: str | None
    image_size: Any
    grid: str | None
    grid_shape: tuple | None
    photo_blur: float | None
    normalise_features: bool | None
    feature_projection_dim: int | None
    feature_activation: Any
    feature_dropout: float | None
    attention: str | None
    scoring: str | None
    cell: str | None
    num_layers: int | None
    embedding_dim: int | None
    hidden_dim: int | None
    attention_dim: int | None
    context_gate: bool | None
    deep_output: bool | None
    readout_activation: Any
    dropout_words: float | None
    dropout_before_readout: float | None
    dropout_after_readout: float | None
    seed: int | None
    attends: str | None
    sentinel: bool | None
    attention_penalty_weight: float | None
    label_smoothing: float | None
    num_samples: int | None
    reward_weight: float | None
    entropy_weight: float | None
    guide_weight: float | None
    box_weight: float | None
    sharpness_weight: float | None
    length_penalty: float | None
    no_repeat_ngram: int | None
    no_repeat_around: str | None
    consensus_weight: float | None
    batch_size: int | None
    deterministic: bool | None
    optimizer: Any
    photo_jitter: float | None
    patience: int | None
    minutes: float | None
    num_beams: int | None
    max_length: int | None
    dtype: Any
    learning_rate: Any
    clip_norm: float | None
    weight_decay: float | None
    average_momentum: float | None
    encoder_rate: float | None
    first_layer_rate: float | None
    epochs: int | None
    schedule: str | None
    warmup_steps: int | None
    group_by: str | None
    num_views: int | None
    min_count: int | None
    max_words: int | None
    expectation_epochs: int | None
    self_critical_epochs: int | None
    self_critical_rate: float | None
    reward_baseline: str | None
    name: Any
    trainable: Any
