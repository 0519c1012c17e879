"""Made by docs/make_stubs.py: the signatures, with all options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras

from data_utils.vocabulary import Vocabulary
from keras_sat.learning import PaperObjective, Trainer
from keras_sat.network import (
    CaptionDecoder,
    FeatureAdapter,
    PhotoEncoder,
)
from keras_sat.search import CaptionGenerator
from keras_sat.settings import CaptionerSettings

LAYER_ARGUMENTS = ("dtype", "trainable")

class Captioner(CaptionGenerator, Trainer):
    """The image captioner of the paper "Show, Attend and Tell", as a Keras model.

    Args:
        vocabulary: Vocabulary, or its list of words.
        settings: CaptionerSettings; None: the defaults. A frozen `keras.Model` as
            `encoder` gets trainable=False.
        **options: settings by their names, in place of those in `settings`, such as
            hidden_dim=256 for `settings.network.hidden_dim`. `dtype` is the decoder's:
            a Keras dtype or policy, or "auto".

    Call arguments:
        inputs: (features, input_ids): features (photos, regions, feature_dim), or
            photos (photos, height, width, 3); input_ids (rows, time), where rows is a
            multiple of photos, or (photos, captions, time).
        training, noise, sampled: see CaptionDecoder.

    Returns: Decoded, with rows = photos * captions.

    Attributes:
        vocabulary: Vocabulary.
        photo_encoder, adapter, decoder: the parts of the network, in the order in which
            they are applied.
        search_settings, confidence, consensus, photo_loader: see CaptionGenerator;
            `keras_sat.calibrate` makes a confidence, and
            `keras_sat.after_search.consensus.Consensus.build` a consensus.
        training_photos: digests of the names of the photos that it was trained on, an
            array (see `data_utils.seen_photos`), or None if unknown.
        source: the model on the Hugging Face Hub that it started from, with its
            revision, or None.
        feature_shape: (regions, feature_dim) before the adapter, or None until built.
        num_regions: number of regions after the adapter, or None until built.

    Loss:
        attention_penalty_weight: lambda of the penalty in equation (14). Default: 0.33.
        label_smoothing: fraction of the probability spread over the vocabulary. Default: 0.0.
        num_samples: hard attention: samples per caption (N in equation (12)). Default: 1.
        reward_weight: hard attention: weight of the reward (lambda_r). Default: 0.1.
        entropy_weight: hard attention: weight of the entropy (lambda_e). Default: 0.002.
        guide_weight: supervise attention with word detectors; try 0.5. Default: 0.0.
        box_weight: supervise attention with the boxes of phrases. Default: 0.0.
        sharpness_weight: weight of the entropy of attention in the loss; try 0.02. Default: 0.0.

    Search:
        length_penalty: values above 0 favour longer captions. Default: 0.0.
        no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: 0.
        consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: 0.0.

    Encoder:
        encoder: network that computes the features. Choices: vgg16, vgg19, resnet50, mobilenet_v2, efficientnet_b0, efficientnet_lite0, efficientnet_lite2, tiny. Default: 'vgg16'; None: no encoder.
        encoder_layer: layer that gives the grid. Default: None (the encoder's).
        encoder_weights: a file, or "bundled" (from the bundled captioner). Default: 'imagenet'; None: random weights.
        encoder_training: fine-tuned: with the decoder; scratch: random weights. Choices: frozen, fine-tuned, scratch. Default: None (frozen; tiny: scratch).
        trained_up_to: train layers after encoder_layer up to this. Default: None (none).
        image_size: side of square input photos. Default: None (the encoder's).
        grid: size of the grid, such as 14x14 (by dilation). Default: None (the encoder's).
        grid_shape: (rows, columns) of the features. Default: None (the encoder's).
        photo_blur: blur: standard deviation in pixels. Default: None (0, or that of bundled weights).

    Features:
        normalise_features: give each feature vector mean 0 and variance 1. Default: False.
        feature_projection_dim: project features to this length. Default: None (no projection).
        feature_activation: projection's activation. Choices: relu, tanh. Default: None (none).
        feature_dropout: dropout rate of features. Default: 0.0.

    Network:
        attention: how the decoder attends. Choices: soft, hard, none. Default: 'soft'.
        scoring: how regions are scored. Choices: additive, dot, bilinear. Default: 'additive'.
        cell: type of recurrent layer. Choices: lstm, gru. Default: 'lstm'.
        num_layers: number of recurrent layers; attention reads the state of the top one. Default: 1.
        embedding_dim: length of a word vector (m in the paper). Default: 512.
        hidden_dim: size of the recurrent layers (n in the paper). Default: 512.
        attention_dim: size of the hidden layer of additive attention. Default: 512.
        context_gate: multiply the context by beta_t; without attention there is no gate. Default: True.
        deep_output: use equation (7); False: one layer on state and context. Default: True.
        readout_activation: activation; tanh in the paper's code. Choices: tanh, relu. Default: None (none, as in the paper).
        dropout_words: dropout rate of whole input words. Default: 0.0.
        dropout_before_readout: dropout rate of h_t before the readout. Default: 0.5.
        dropout_after_readout: dropout rate of the readout. Default: 0.5.
        seed: random seed for dropout and sampled attention. Default: 0.
        attends: attend before or after reading the last word. Choices: before, after. Default: 'before'.
        sentinel: add a visual sentinel to the regions (Lu et al., 2017). Default: False."""

    decoder: CaptionDecoder
    training_photos: Any
    source: Any
    photo_encoder: PhotoEncoder
    adapter: FeatureAdapter
    random_generator: Any
    term_layers: Any
    paper_objective: PaperObjective
    training_objective: Any
    feature_shape: Any
    num_regions: Any
    trained_encoder: Any

    def __init__(
        self,
        vocabulary: Vocabulary | list[str],
        settings: CaptionerSettings | None = None,
        *,
        name: str = "captioner",
        encoder: Any = "vgg16",
        encoder_layer: str | None = None,
        encoder_weights: Any = "imagenet",
        encoder_training: str | None = None,
        trained_up_to: str | None = None,
        image_size: Any = None,
        grid: str | None = None,
        grid_shape: tuple | None = None,
        photo_blur: float | None = None,
        normalise_features: bool = False,
        feature_projection_dim: int | None = None,
        feature_activation: Any = None,
        feature_dropout: float = 0.0,
        attention: str = "soft",
        scoring: str = "additive",
        cell: str = "lstm",
        num_layers: int = 1,
        embedding_dim: int = 512,
        hidden_dim: int = 512,
        attention_dim: int = 512,
        context_gate: bool = True,
        deep_output: bool = True,
        readout_activation: Any = None,
        dropout_words: float = 0.0,
        dropout_before_readout: float = 0.5,
        dropout_after_readout: float = 0.5,
        seed: int = 0,
        attends: str = "before",
        sentinel: bool = False,
        attention_penalty_weight: float = 0.33,
        label_smoothing: float = 0.0,
        num_samples: int = 1,
        reward_weight: float = 0.1,
        entropy_weight: float = 0.002,
        guide_weight: float = 0.0,
        box_weight: float = 0.0,
        sharpness_weight: float = 0.0,
        length_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
        consensus_weight: float = 0.0,
        dtype: Any = ...,
        trainable: Any = ...,
    ) -> None: ...
    @property
    def settings(self) -> CaptionerSettings: ...
    @property
    def encoder(self) -> str | None: ...
    @property
    def attention(self) -> str: ...
    @property
    def baseline(self) -> Any: ...
    @property
    def expectation_share(self) -> Any: ...
    @property
    def encoder_model(self) -> keras.Model: ...
    @property
    def samples_regions(self) -> bool: ...
    @property
    def encoder_variables(self) -> list: ...
    def description(self) -> str: ...
    def summary(
        self, line_length: Any = None, positions: Any = None, print_fn: Any = None, **options
    ) -> None: ...
    def current_options(self) -> dict[str, Any]: ...
    def get_config(self) -> dict[str, Any]: ...
    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Captioner: ...
    def note_training_photos(self, image_ids: list[str]) -> None: ...
    def decoder_features(self, inputs: Any, training: bool = False) -> Any: ...
    def rows_and_columns(self) -> tuple[int, int]: ...
    def before_training(self): ...
    def build(self, input_shape): ...
    def build_terms(self): ...
    def build_once(self, features_shape, input_ids_shape=(None, None)): ...
    def call(self, inputs, training=False, noise=None, sampled=None): ...
    def read(
        self, features: Any, input_ids: Any, target_ids: Any, token_weights: Any, **options: Any
    ) -> Any: ...
    def steps(
        self, features: Any, rows_per_photo: int, *, region_noise: Any = None, drop: Any = None
    ) -> tuple: ...
    def faithfulness(
        self,
        images: Any,
        captions: Any = None,
        *,
        pixel_photos: int = 100,
        map_kind: str = "attention",
    ) -> dict[str, Any]: ...
    def trace(
        self,
        image: Any,
        caption: str | None = None,
        *,
        num_words: int = 10,
        num_alternatives: int = 3,
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
        """Return the Trace of a photo's caption: what the network computes at each
        word, what each region adds to it, and what would have been said instead; see
        `keras_sat.looking.trace`.

        Args:
            image: one photo, see `caption`.
            caption: a given caption to read; None: the captioner's own.
            num_words: number of the most probable words in `TraceStep.top`.
            num_alternatives: number of `Trace.alternatives` at each step.
            **search: options for the captioner's own caption.

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

    def with_votes(self, results: list, features: Any) -> list: ...
    def save(
        self, directory: str | os.PathLike, overwrite: bool = True, *, precision: str = "float32"
    ) -> None: ...
    def get_build_config(self): ...
    def build_from_config(self, config): ...
    def save_own_variables(self, store): ...
    def load_own_variables(self, store): ...
    def save_assets(self, directory): ...
    def load_assets(self, directory): ...
    def export(
        self, directory: str | os.PathLike, format: str | list[str] = "tf_saved_model", **options
    ) -> Path: ...
    @classmethod
    def load(
        cls,
        directory: str | os.PathLike,
        *,
        encoder: Any = None,
        encoder_weights: str | os.PathLike | None = None,
    ) -> Captioner: ...
    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike | None = None,
        *,
        encoder: Any = None,
        encoder_weights: str | os.PathLike | None = None,
    ) -> Captioner: ...
    def adapted(
        self,
        vocabulary: Vocabulary | None = None,
        *,
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
        dropout_words: float = ...,
        dropout_before_readout: float = ...,
        dropout_after_readout: float = ...,
        seed: int = ...,
        attends: str = ...,
        sentinel: bool = ...,
        attention_penalty_weight: float = ...,
        label_smoothing: float = ...,
        num_samples: int = ...,
        reward_weight: float = ...,
        entropy_weight: float = ...,
        guide_weight: float = ...,
        box_weight: float = ...,
        sharpness_weight: float = ...,
        length_penalty: float = ...,
        no_repeat_ngram: int = ...,
        consensus_weight: float = ...,
        dtype: Any = ...,
        trainable: Any = ...,
    ) -> Captioner:
        """Return a new captioner that has the same weights but different options.

        Args:
            vocabulary: Vocabulary. Words in both vocabularies keep their weights; new
                words get random weights.
            **options: they must not change the shape of the weights. `grid` and
                `image_size` need no training.

        Loss:
            attention_penalty_weight: lambda of the penalty in equation (14). Default: the captioner's own.
            label_smoothing: fraction of the probability spread over the vocabulary. Default: the captioner's own.
            num_samples: hard attention: samples per caption (N in equation (12)). Default: the captioner's own.
            reward_weight: hard attention: weight of the reward (lambda_r). Default: the captioner's own.
            entropy_weight: hard attention: weight of the entropy (lambda_e). Default: the captioner's own.
            guide_weight: supervise attention with word detectors; try 0.5. Default: the captioner's own.
            box_weight: supervise attention with the boxes of phrases. Default: the captioner's own.
            sharpness_weight: weight of the entropy of attention in the loss; try 0.02. Default: the captioner's own.

        Search:
            length_penalty: values above 0 favour longer captions. Default: the captioner's own.
            no_repeat_ngram: do not repeat n-grams of this length; 0: no limit; try 3. Default: the captioner's own.
            consensus_weight: weight of the agreement with the words of similar training photos; try 8. Default: the captioner's own.

        Encoder:
            encoder: network that computes the features. Choices: vgg16, vgg19, resnet50, mobilenet_v2, efficientnet_b0, efficientnet_lite0, efficientnet_lite2, tiny. Default: the captioner's own.
            encoder_layer: layer that gives the grid. Default: the captioner's own.
            encoder_weights: a file, or "bundled" (from the bundled captioner). Default: the captioner's own.
            encoder_training: fine-tuned: with the decoder; scratch: random weights. Choices: frozen, fine-tuned, scratch. Default: the captioner's own.
            trained_up_to: train layers after encoder_layer up to this. Default: the captioner's own.
            image_size: side of square input photos. Default: the captioner's own.
            grid: size of the grid, such as 14x14 (by dilation). Default: the captioner's own.
            grid_shape: (rows, columns) of the features. Default: the captioner's own.
            photo_blur: blur: standard deviation in pixels. Default: the captioner's own.

        Features:
            normalise_features: give each feature vector mean 0 and variance 1. Default: the captioner's own.
            feature_projection_dim: project features to this length. Default: the captioner's own.
            feature_activation: projection's activation. Choices: relu, tanh. Default: the captioner's own.
            feature_dropout: dropout rate of features. Default: the captioner's own.

        Network:
            attention: how the decoder attends. Choices: soft, hard, none. Default: the captioner's own.
            scoring: how regions are scored. Choices: additive, dot, bilinear. Default: the captioner's own.
            cell: type of recurrent layer. Choices: lstm, gru. Default: the captioner's own.
            num_layers: number of recurrent layers; attention reads the state of the top one. Default: the captioner's own.
            embedding_dim: length of a word vector (m in the paper). Default: the captioner's own.
            hidden_dim: size of the recurrent layers (n in the paper). Default: the captioner's own.
            attention_dim: size of the hidden layer of additive attention. Default: the captioner's own.
            context_gate: multiply the context by beta_t; without attention there is no gate. Default: the captioner's own.
            deep_output: use equation (7); False: one layer on state and context. Default: the captioner's own.
            readout_activation: activation; tanh in the paper's code. Choices: tanh, relu. Default: the captioner's own.
            dropout_words: dropout rate of whole input words. Default: the captioner's own.
            dropout_before_readout: dropout rate of h_t before the readout. Default: the captioner's own.
            dropout_after_readout: dropout rate of the readout. Default: the captioner's own.
            seed: random seed for dropout and sampled attention. Default: the captioner's own.
            attends: attend before or after reading the last word. Choices: before, after. Default: the captioner's own.
            sentinel: add a visual sentinel to the regions (Lu et al., 2017). Default: the captioner's own."""
        ...

    def restore_weights(self, directory: str | os.PathLike) -> None: ...
    def weights_digest(self) -> str: ...
    def named_weights(self): ...

def network_in_words(settings: CaptionerSettings, encoder_name: str | None) -> str: ...
