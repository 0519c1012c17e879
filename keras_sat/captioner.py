"""The captioner: encoder, decoder and vocabulary in one Keras model."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

import keras
from keras import ops

from data_utils.base import brief
from data_utils.captions import words_of_captions
from data_utils.photos import photos_of
from data_utils.seen_photos import digests_of, union
from data_utils.vocabulary import Vocabulary
from keras_sat import equations, files
from keras_sat.files import is_on_hub, model_directory, pinned
from keras_sat.learning import NO_FORWARD_PASS, PaperObjective, Trainer, make_terms
from keras_sat.network import (
    ATTENTIONS,
    BUNDLED,
    CaptionDecoder,
    FeatureAdapter,
    PhotoEncoder,
    as_rows,
    read_captions,
    reject_fork,
    resolved_dtype,
)
from keras_sat.search import CaptionGenerator, KerasEngine
from keras_sat.settings import CaptionerSettings, Search, SearchRules, with_options

LAYER_ARGUMENTS = ("dtype", "trainable")  # of any Keras layer; the decoder passes them on


@keras.saving.register_keras_serializable("keras_sat")
@with_options(CaptionerSettings)
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
    """

    def __init__(
        self,
        vocabulary: Vocabulary | list[str],
        settings: CaptionerSettings | None = None,
        *,
        name: str = "captioner",
        **options: Any,
    ) -> None:
        reject_fork()
        # Noise stays in float32; `decoder_features` casts the rest.
        Trainer.__init__(self, name=name, autocast=False)
        keras_options = {name: options.pop(name) for name in LAYER_ARGUMENTS if name in options}
        if "dtype" in keras_options:
            keras_options["dtype"] = resolved_dtype(keras_options["dtype"])
        settings = CaptionerSettings.of("Captioner", options, settings, also=LAYER_ARGUMENTS)
        self._settings = settings
        search = Search(**settings.search.to_dict())
        CaptionGenerator.__init__(self, KerasEngine(self), _as_vocabulary(vocabulary), search)
        self.decoder = CaptionDecoder(
            len(self.vocabulary), settings.network, name="decoder", **keras_options
        )
        self.training_photos = None
        self.source = None
        encoder, encoder_arrays = settings.encoder, None
        if encoder.encoder_weights == BUNDLED:
            bundled = files.bundled_encoder(encoder.encoder)
            encoder_arrays, bundled_blur, self.training_photos = bundled
            if encoder.photo_blur is None:
                encoder = dataclasses.replace(encoder, photo_blur=bundled_blur)
        self.photo_encoder = PhotoEncoder(encoder, arrays=encoder_arrays)
        features = settings.features
        self.adapter = FeatureAdapter(
            self.photo_encoder.top,
            normalise=features.normalise_features,
            projection_dim=features.feature_projection_dim,
            activation=features.feature_activation,
            dropout=features.feature_dropout,
            # The decoder's dropouts have seed, seed + 1, seed + 2 and seed + 4.
            seed=settings.network.seed + 3,
            dtype=self.decoder.dtype_policy,
            name="adapter",
        )
        if not self.photo_encoder.is_frozen:
            # Keras finds its weights here.
            self.trained_encoder = self.photo_encoder.trained_network
        self.random_generator = keras.random.SeedGenerator(settings.network.seed)
        terms = make_terms(self, settings.loss)
        # Keras finds their weights here.
        self.term_layers = [layer for term in terms for layer in term.layers]
        self.paper_objective = PaperObjective(
            self.add_weight, self.random_generator, settings.loss, terms
        )
        self.training_objective = self.paper_objective
        self.feature_shape = None
        self.num_regions = None

    @property
    def settings(self) -> CaptionerSettings:
        """The CaptionerSettings, with the encoder's own values for those that were left
        to it. `adapted` makes a captioner with others.
        """
        rules = {name: getattr(self.search_settings, name) for name in SearchRules.names()}
        return dataclasses.replace(
            self._settings, encoder=self.photo_encoder.settings, search=SearchRules(**rules)
        )

    @property
    def encoder(self) -> str | None:
        """Name of the encoder; None without one."""
        return self.photo_encoder.name

    @property
    def attention(self) -> str:
        """How the decoder attends: "soft", "hard" or "none"."""
        return self.decoder.settings.attention

    @property
    def baseline(self) -> Any:
        """The variable b, the moving average of log p, which hard attention needs."""
        return self.paper_objective.baseline

    @property
    def expectation_share(self) -> Any:
        """The variable that is now the probability of the expectation in place of a
        sample, see `expectation_epochs`.
        """
        return self.paper_objective.expectation_share

    @property
    def encoder_model(self) -> keras.Model:
        """The encoder as a `keras.Model`, from photos to a grid of features."""
        return self.photo_encoder.network

    @property
    def samples_regions(self) -> bool:
        """Whether regions are sampled in training, as hard attention does."""
        return self.decoder.samples_regions

    @property
    def encoder_variables(self) -> list:
        """The encoder weights that are trained: all of them, those of its last layers,
        or none.
        """
        trained = self.photo_encoder.trained_network
        return [] if trained is None else trained.trainable_variables

    def description(self) -> str:
        """Return attention, reading order, scoring, encoder and layers in one line."""
        return network_in_words(self.settings, self.encoder)

    def summary(
        self, line_length: Any = None, positions: Any = None, print_fn: Any = None, **options
    ) -> None:
        """Print `description`, then what `keras.Model.summary` prints."""
        say = print if print_fn is None else print_fn
        say(f"{self.name}: {self.description()}")
        super().summary(line_length, positions, print_fn, **options)

    def current_options(self) -> dict[str, Any]:
        """Return the settings as a dict from their names; `encoder` is a name."""
        return {**self.settings.to_dict(), "encoder": self.encoder}

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal captioner, without its weights.

        `encoder` is a name, or the configuration of the `keras.Model` that was passed.
        """
        options = self.current_options()
        if self.photo_encoder.is_custom and self.photo_encoder.is_present:
            options["encoder"] = keras.saving.serialize_keras_object(self.encoder_model)
        keras_options = {"name": self.name, "dtype": self.decoder.dtype_policy.name}
        return {"vocabulary": self.vocabulary.words, **keras_options, **options}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Captioner:
        """Return a captioner from the result of `get_config`, without reading any file:
        the weights of its decoder, and of an encoder that is trained, are random.
        """
        return files.from_config(cls, config)

    def note_training_photos(self, image_ids: list[str]) -> None:
        """Record training photos by their ids, for `evaluate` to detect."""
        self.training_photos = union([self.training_photos, digests_of(image_ids)])

    def decoder_features(self, inputs: Any, training: bool = False) -> Any:
        """Return the features that the decoder attends to, (photos, regions, dim).

        Args:
            inputs: photos (photos, height, width, 3), which are encoded first, or
                features (photos, regions, feature_dim) from the encoder.
        """
        features = self.photo_encoder(inputs, training) if len(inputs.shape) == 4 else inputs
        return self.adapter(ops.cast(features, self.compute_dtype), training=training)

    def rows_and_columns(self) -> tuple[int, int]:
        """Return the shape of the attention maps."""
        if self.feature_shape is None:
            raise ValueError(
                "A captioner has no grid until it is built: train it, or caption whole "
                "photos first."
            )
        return self.photo_encoder.rows_and_columns(self.feature_shape[0])

    def before_training(self):
        self.confidence = None  # it was calibrated with the old weights
        if self.consensus is not None and self.encoder_variables:
            self.consensus = None
            warnings.warn(
                "The index of training photos was made by the encoder that is trained now, and "
                "is given up: until there is another (keras-sat index, or "
                "keras_sat.after_search.consensus.Consensus.build), captions are chosen without "
                "it.",
                stacklevel=3,
            )

    def build(self, input_shape):
        """Create the weights for the shapes of features or photos, and input_ids."""
        if input_shape[0] is None or isinstance(input_shape[0], int):  # the shape of photos
            raise TypeError(NO_FORWARD_PASS)
        features_shape, _ = input_shape
        if len(features_shape) == 4:
            features_shape = self.photo_encoder.features_shape
        self.feature_shape = tuple(features_shape[1:])
        self.adapter.build((None, *self.feature_shape))
        adapted_shape = self.adapter.compute_output_shape((None, *self.feature_shape))
        self.num_regions = adapted_shape[1]
        self.photo_encoder.check_features(self.feature_shape, self.num_regions)
        self.decoder.build(adapted_shape, (None, None))
        self.build_terms()

    def build_terms(self):
        """Create the weights of the loss terms once their shapes are known."""
        if not (self.num_regions and self.compiled):
            return
        features_shape = self.adapter.compute_output_shape((None, *self.feature_shape))
        for layer in self.term_layers:
            if not layer.built:
                layer.build(features_shape)

    def build_once(self, features_shape, input_ids_shape=(None, None)):
        """Build the model for features or photos of this shape, if it is not built."""
        if not self.built:
            self.build(((None, *features_shape[1:]), input_ids_shape))

    def __call__(self, inputs, *args, **kwargs):
        if not isinstance(inputs, (tuple, list)):  # Keras would frame a message of `call`
            raise TypeError(NO_FORWARD_PASS)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=False, noise=None, sampled=None):
        photos_or_features, input_ids, *_ = inputs
        features = self.decoder_features(photos_or_features, training)
        return self.decoder(
            features, as_rows(input_ids), training=training, noise=noise, sampled=sampled
        )

    def read(
        self, features: Any, input_ids: Any, target_ids: Any, token_weights: Any, **options: Any
    ) -> Any:
        """Run the decoder on given captions.

        See `keras_sat.network.teacher_forcing.read_captions`.
        """
        options["padded"] = bool(self.compiled and self.jit_compile)
        return read_captions(
            self.decoder, features, input_ids, target_ids, token_weights, **options
        )

    def steps(
        self, features: Any, rows_per_photo: int, *, region_noise: Any = None, drop: Any = None
    ) -> tuple:
        """Return `step` and `state` for the searches of `keras_sat.search.algorithms`.

        Args:
            features: see `decoder_features`.
            rows_per_photo: number of beams or samples of each photo.
            region_noise: uniform noise (rows, max_length, regions) to sample regions;
                None uses the expectation.
            drop: see `keras_sat.network.decoder.Readout`.
        """
        projected_features = self.decoder.project_features(features)

        def step(input_ids, state, noise=None):
            found = self.decoder.step(
                input_ids, state, features, projected_features, noise=noise, drop=drop
            )
            # Maps show what the context was made from.
            return found._replace(attention_weights=found.selection)

        state = self.decoder.initial_state(features, rows_per_photo)
        if region_noise is None:
            return step, state

        def step_with_noise(input_ids, state_and_times):
            state, times = state_and_times
            uniform = ops.take(region_noise, times[0], axis=1)  # (rows, regions)
            found = step(input_ids, state, noise=equations.gumbel(uniform))
            return found._replace(state=(found.state, times + 1))

        # The number of steps of each row.
        times = ops.zeros_like(state.hidden_states[0][:, 0], dtype="int32")
        return step_with_noise, (state, times)

    def faithfulness(
        self,
        images: Any,
        captions: Any = None,
        *,
        pixel_photos: int = 100,
        map_kind: str = "attention",
    ) -> dict[str, Any]:
        """Measure whether words depend on the regions that they attend to, or that vote
        for them; return `measuring.faithfulness_figures`.

        Args:
            images, captions: see `attend`; captions=None measures the captioner's own
                captions.
            pixel_photos: number of photos, from the first, in which to blur regions.
            map_kind: "attention", "votes", or "votes-blurred" as a control; see
                `measuring.measured_maps`.
        """
        from keras_sat.measuring import (
            faithfulness_figures,
            measure_faithfulness,
            reject_unfit_captioner,
        )

        reject_unfit_captioner(self, pixel_photos)
        photos, _ = photos_of(images)
        if captions is None:
            words = [result.words for _, result in self.caption_each(photos)]
        else:
            words = words_of_captions(captions, len(photos))
        measured = measure_faithfulness(
            self, photos, words, pixel_photos=pixel_photos, map_kind=map_kind
        )
        return faithfulness_figures(measured, self.num_regions)

    @with_options(Search)
    def trace(
        self,
        image: Any,
        caption: str | None = None,
        *,
        num_words: int = 10,
        num_alternatives: int = 3,
        **search: Any,
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
        """
        from keras_sat.looking import make_trace

        return make_trace(
            self,
            image,
            caption,
            num_words=num_words,
            num_alternatives=num_alternatives,
            **search,
        )

    def with_votes(self, results: list, features: Any) -> list:
        """Return CaptionResults with their `votes`; see `keras_sat.looking.votes`."""
        from keras_sat.looking import with_votes

        return with_votes(self, results, features)

    def save(
        self, directory: str | os.PathLike, overwrite: bool = True, *, precision: str = "float32"
    ) -> None:
        """Save settings, vocabulary and weights into a folder, see
        `keras_sat.files.model_folder`, or into one file, see
        `keras_sat.files.keras_file`.

        In a folder, a frozen encoder is saved only by name, unless its weights are
        random; a frozen `keras.Model` is not saved. A file has all weights, and the
        state of the optimizer.

        Args:
            directory: a folder, created if needed, or a path that ends with ".keras".
            overwrite: replace a model that is there; if False, it raises a ValueError.
            precision: "float32", "float16", or "int8" (with 16 bits for convolutions).
        """
        files.save(self, directory, overwrite, precision)

    # === What Keras asks for when it saves, loads, clones and copies ===

    def get_build_config(self):
        return files.build_config(self)

    def build_from_config(self, config):
        files.build_from_config(self, config)

    def save_own_variables(self, store):
        files.check_encoder(self)
        super().save_own_variables(store)

    def load_own_variables(self, store):
        # Keras loads the encoder next, which need not read other weights before.
        self.photo_encoder.expect_weights()
        if not self.photo_encoder.is_missing:
            self.photo_encoder.check_saved_shapes(self.feature_shape)
        super().load_own_variables(store)

    def save_assets(self, directory):
        files.save_assets(self, directory)

    def load_assets(self, directory):
        files.load_assets(self, directory)

    def export(
        self, directory: str | os.PathLike, format: str | list[str] = "tf_saved_model", **options
    ) -> Path:
        """Export the captioner, including encoder and search, for use without
        keras_sat; return the folder's path.

        Args:
            directory: created if needed; each export gets a numbered folder in it.
            format: "tf_saved_model", "litert", "onnx", or a list of these.
            **options: options of the search; see `keras_sat.export.export`.
        """
        from keras_sat.export import export

        return export(self, directory, format, **options)

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike,
        *,
        encoder: Any = None,
        encoder_weights: str | os.PathLike | None = None,
    ) -> Captioner:
        """Load the captioner saved in a folder or a file.

        Args:
            directory: a folder, or the path of a .keras file, to which `encoder` and
                `encoder_weights` do not apply.
            encoder: the `keras.Model`, if the encoder is not in ENCODERS.
            encoder_weights: a weights file for the frozen encoder, instead of Keras'
                download.
        """
        return files.load(cls, directory, encoder, encoder_weights)

    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike | None = None,
        *,
        encoder: Any = None,
        encoder_weights: str | os.PathLike | None = None,
    ) -> Captioner:
        """Load a saved or bundled captioner, or download one from the Hugging Face Hub.

        Args:
            model: a folder or a .keras file that `save` wrote, or a bundled name:
                "flickr8k" (None), "flickr8k-hard" or "flickr8k-paper" for photos,
                "scenes", "scenes-hard" or "scenes-none" for the built-in scenes. Or
                "hf://owner/name" or "hf://owner/name@revision", see
                `keras_sat.files.hub`.
            encoder, encoder_weights: see `load`.
        """
        directory = model_directory(model)
        captioner = cls.load(directory, encoder=encoder, encoder_weights=encoder_weights)
        if is_on_hub(model):
            captioner.source = pinned(model, directory)
        return captioner

    @with_options(CaptionerSettings, defaults="the captioner's own")
    def adapted(self, vocabulary: Vocabulary | None = None, **options: Any) -> Captioner:
        """Return a new captioner that has the same weights but different options.

        Args:
            vocabulary: Vocabulary. Words in both vocabularies keep their weights; new
                words get random weights.
            **options: they must not change the shape of the weights. `grid` and
                `image_size` need no training.
        """
        return files.adapted(self, vocabulary, options)

    def restore_weights(self, directory: str | os.PathLike) -> None:
        """Load the weights and the record of training photos from a saved captioner
        with the same settings.
        """
        files.restore_weights(self, directory)

    def weights_digest(self) -> str:
        """Return a short digest of the vocabulary and the saved weights."""
        return files.weights_digest(self)

    def named_weights(self):
        """Return the variables that `save` writes, as a dict by name."""
        parts = {"adapter": self.adapter.weights, "decoder": self.decoder.weights}
        if self.photo_encoder.is_saved:
            parts["encoder"] = self.encoder_model.weights
        named_weights = {
            f"{part}/{number:03d}/{weight.name}": weight
            for part, weights in parts.items()
            for number, weight in enumerate(weights)
        }
        return {**named_weights, "baseline": self.baseline}


def network_in_words(settings: CaptionerSettings, encoder_name: str | None) -> str:
    """Return one line about a captioner; see `Captioner.description`."""
    network = settings.network
    attention = "no attention"
    if ATTENTIONS[network.attention].has_attention:
        with_sentinel = " with a sentinel" if network.sentinel else ""
        attention = (
            f"{network.attention} attention {network.attends} reading the last word, "
            f"{network.scoring} scoring{with_sentinel}"
        )
    encoder = "no encoder"
    if encoder_name is not None:
        encoder = f"encoder {encoder_name} ({settings.encoder.encoder_training})"
    layers = f"{network.num_layers} x " if network.num_layers > 1 else ""
    return f"{attention}, {encoder}, {layers}{network.cell.upper()} of {network.hidden_dim}"


def _as_vocabulary(vocabulary: Any) -> Vocabulary:
    """Return a Vocabulary, given one or its list of words."""
    if not isinstance(vocabulary, (Vocabulary, list, tuple)):
        raise ValueError(
            f"Expected a Vocabulary or a list of words. Received: vocabulary={brief(vocabulary)}"
        )
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary(vocabulary)
    if not vocabulary.words:
        raise ValueError(
            "A captioner needs at least one word; Vocabulary.build collects those of captions. "
            "Received: a vocabulary without words"
        )
    return vocabulary
