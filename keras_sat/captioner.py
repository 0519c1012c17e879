"""The captioner: encoder, decoder and vocabulary in one Keras model that trains, captions photos, saves and loads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from data_utils.foreign_text import brief
from data_utils.training_photos import digests_of, union
from data_utils.vocabulary import Vocabulary
from keras_sat.accelerated.install import accelerate
from keras_sat.accelerated.optimizer_step import apply_gradients
from keras_sat.beyond import make_decoder, terms_of
from keras_sat.files import saving, transfer
from keras_sat.files.model_folder import model_directory
from keras_sat.model.adapter import FeatureAdapter
from keras_sat.model.forks import reject_fork
from keras_sat.model.objective import PaperObjective
from keras_sat.model.photo_encoder import BUNDLED, PhotoEncoder
from keras_sat.model.precision import resolved_dtype
from keras_sat.model.teacher_forcing import as_rows
from keras_sat.model.trainer import Trainer
from keras_sat.options import CaptionerOptions, readable_options, split_options, with_options
from keras_sat.search.generation import CaptionGenerator, steps_of

OF_KERAS = ("dtype", "trainable")  # options of any Keras layer, which the decoder passes on


@readable_options(CaptionerOptions)
class Captioner(CaptionGenerator, Trainer):
    """Show, Attend and Tell.

    Args:
        vocabulary: Vocabulary, or its list of words.
        **options: see `keras_sat.options.CaptionerOptions`; ENCODERS documents what the encoder is made of,
            FeatureAdapter what is done to its features, and CaptionDecoder the rest. A `keras.Model` that is passed as
            `encoder` to be frozen gets trainable=False. `expectation_probability` can be changed while training by the
            weight `expectation_share` (see `BeginWithExpectations`). `dtype` is that of the decoder: a name or policy
            of Keras, or "auto" (see `keras_sat.model.precision`).

    Call arguments:
        inputs: (features, input_ids): features (photos, regions, feature_dim), or photos (photos, height, width, 3);
            input_ids (rows, time), rows being a multiple of photos, or (photos, captions, time).
        training, noise, sampled: see CaptionDecoder.

    Returns: Decoded, with rows = photos * captions.
    """

    @with_options(CaptionerOptions)
    def __init__(self, vocabulary, *, name="captioner", **options):
        reject_fork()
        super().__init__(name=name, autocast=False)  # noise stays in float32; `features` casts what must be cast
        if not isinstance(vocabulary, (Vocabulary, list, tuple)):
            raise ValueError(
                "Expected a Vocabulary, as `Vocabulary.build(images)` makes it, or a list of words. "
                f"Received: vocabulary={brief(vocabulary)}"
            )
        own, of_keras = split_options("Captioner", options, CaptionerOptions, beside=OF_KERAS)
        if "dtype" in of_keras:
            of_keras["dtype"] = resolved_dtype(of_keras["dtype"])
        self.options = options = CaptionerOptions(**own)
        self.vocabulary = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary(vocabulary)
        self.decoder = make_decoder(len(self.vocabulary), own, name="decoder", **of_keras)
        self.confidence = None  # see `keras_sat.beyond.calibration.calibrate`
        self.training_photos = None  # SeenPhotos, where they are known
        arrays, blur = None, options.photo_blur
        if options.encoder_weights == BUNDLED:
            arrays, bundled_blur, self.training_photos = saving.bundled_encoder(options.encoder)
            blur = bundled_blur if blur is None else blur
        self.photo_encoder = PhotoEncoder(options, blur=blur, arrays=arrays)
        self.adapter = FeatureAdapter(
            self.photo_encoder.top,
            normalise=options.normalise_features,
            projection_dim=options.feature_projection_dim,
            activation=options.feature_activation,
            dropout=options.feature_dropout,
            seed=options.seed + 3,  # the decoder's dropouts have seed, seed + 1, seed + 2 and seed + 4
            dtype=self.decoder.dtype_policy,
            name="adapter",
        )
        if not self.photo_encoder.is_frozen:
            self.trained_encoder = self.photo_encoder.trained_network  # Keras finds its weights here
        self.random_generator = keras.random.SeedGenerator(options.seed)
        terms = terms_of(self, options)
        self.term_layers = [layer for term in terms for layer in term.layers]  # Keras finds their weights here
        self.paper_objective = PaperObjective(self.add_weight, self.random_generator, options, terms)
        self.training_objective = self.paper_objective
        self.feature_shape = None  # (regions, feature_dim) of the features that it is given, known when it is built
        self.num_regions = None  # of the grid that attention is paid to, known when it is built

    apply_gradients = staticmethod(apply_gradients)

    def option(self, name):
        """Return the value of an option; one of the encoder is asked of it, since it may change after `__init__`."""
        of_encoder = self.photo_encoder.settings()
        return of_encoder[name] if name in of_encoder else getattr(self.options, name)

    baseline = property(lambda self: self.paper_objective.baseline)
    expectation_share = property(lambda self: self.paper_objective.expectation_share)
    encoder_model = property(lambda self: self.photo_encoder.network)

    def get_config(self):
        options = {name: getattr(self, name) for name in CaptionerOptions.names()}
        return {"vocabulary": self.vocabulary.words, "name": self.name, **options}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)

    def note_training_photos(self, image_ids: list[str], noted: dict[str, Any] | None = None) -> None:
        """Note that it is trained on these photos too, which `save` keeps and `evaluate` reads.

        Args:
            image_ids: of the photos.
            noted: what `data_utils.readable_photos` notes of photos, to recognise them under other names.
        """
        self.training_photos = union([self.training_photos, digests_of(image_ids, noted)])

    @property
    def samples_attention(self):
        """Whether training draws places from the attention weights, as hard attention does."""
        return self.decoder.draws_places

    # === From photos to features ===

    def features(self, inputs, training=False):
        """Return annotation vectors (photos, regions, feature_dim) of photos; features are returned as they are."""
        is_photos = len(inputs.shape) == 4
        return ops.cast(self.photo_encoder(inputs, training) if is_photos else inputs, self.compute_dtype)

    def adapt(self, features):
        """Return what the attention sees, (photos, regions, dim), from photos or features."""
        return self.adapter(self.features(features))

    def checked_features(self, features):
        """Return features as an array; a ValueError for those of another shape than it was built for."""
        features = np.asarray(features)
        self.build_once(features.shape)
        if features.shape[1:] != self.feature_shape:
            raise ValueError(
                f"This captioner was built for features of shape (photos, {', '.join(map(str, self.feature_shape))}). "
                f"Received: features.shape={features.shape}"
            )
        return features

    def rows_and_columns(self) -> tuple[int, int]:
        """Return the shape of the grid that is attended to."""
        return self.photo_encoder.rows_and_columns(self.feature_shape[0])

    def build(self, input_shape):
        features_shape, _ = input_shape
        if len(features_shape) == 4:
            features_shape = self.photo_encoder.features_shape
        self.feature_shape = tuple(features_shape[1:])
        self.adapter.build((None, *self.feature_shape))
        adapted_shape = self.adapter.compute_output_shape((None, *self.feature_shape))
        self.num_regions = adapted_shape[1]
        self.photo_encoder.check_features(self.feature_shape, self.num_regions)
        self.decoder.build(adapted_shape, (None, None))
        accelerate(self.decoder, self.num_regions)
        self.build_terms()

    def build_once(self, features_shape, input_ids_shape=(None, None)):
        """Make the weights, if there are none yet, for features or photos of this shape."""
        if not self.built:
            self.build(((None, *features_shape[1:]), input_ids_shape))

    def call(self, inputs, training=False, noise=None, sampled=None):
        features, input_ids, *_ = inputs
        features = self.adapter(self.features(features, training), training=training)
        return self.decoder(features, as_rows(input_ids), training=training, noise=noise, sampled=sampled)

    # === Captions: see CaptionGenerator ===

    def steps(self, features, rows_per_photo, **options):
        """Return `step` and `state` as searches take them; see `keras_sat.search.generation.steps_of`."""
        return steps_of(self.decoder, features, rows_per_photo, **options)

    # === Files ===

    def save(self, directory: str | os.PathLike, overwrite: bool = True, *, precision: str = "float32") -> None:
        """Save settings, vocabulary and weights into a folder; see `keras_sat.files.model_folder`.

        Args:
            directory: made if it is not there.
            overwrite: replace the model that is there; False raises a ValueError.
            precision: "float32", or smaller "float16", or "int8" (with 16 bits for convolutions).

        A frozen encoder is saved by its name and layer: its weights are those that Keras downloads, or the file of
        `encoder_weights`. One that was trained, or has random weights, is saved whole. A frozen `keras.Model` of your
        own is not saved: pass it to `load`. The optimizer is not saved.
        """
        saving.save(self, directory, overwrite, precision)

    def get_build_config(self):
        """Raise ValueError: what Keras writes or clones could not be read again."""
        of_keras = "keras.saving.save_model or keras.models.clone_model"
        raise ValueError(f"{saving.NO_ONE_FILE} That makes a copy too. Received: a captioner for {of_keras}")

    def __reduce__(self):
        """Raise ValueError for copies and pickles, which Keras would make of a file of its own."""
        raise ValueError(
            "A captioner is copied, and passed to another process, in a folder: captioner.save(folder), and then "
            "keras_sat.Captioner.load(folder). Received: a captioner for copy, deepcopy or pickle"
        )

    def export(self, directory: str | os.PathLike, format: str | list[str] = "tf_saved_model", **options) -> Path:
        """Write the captioner, encoder and search included, for programs that do not have keras_sat.

        Args:
            directory: made if it is not there.
            format: "tf_saved_model", "litert", or a list of both.
            **options: `jpeg`, and those of the search; see `keras_sat.deploy.export`.

        Returns: the path of the folder that was written.
        """
        from keras_sat.deploy.export import export

        return export(self, directory, format, **options)

    @classmethod
    def load(
        cls, directory: str | os.PathLike, *, encoder: Any = None, encoder_weights: str | os.PathLike | None = None
    ) -> Captioner:
        """Return the captioner that was saved in a folder.

        Args:
            directory: the folder.
            encoder: the encoder, where it was not one of ENCODERS.
            encoder_weights: a weights file for the frozen encoder, instead of Keras' download.
        """
        return saving.load(cls, directory, encoder, encoder_weights)

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike | None = None, **options) -> Captioner:
        """Return a saved captioner, or one that is bundled with keras_sat. Nothing is downloaded.

        Args:
            model: a folder that `save` wrote, or a bundled name: "flickr8k", "flickr8k-hard" or "flickr8k-paper",
                for photos (docs/model-card.md), or "scenes", "scenes-hard" or "scenes-none", for the built-in scenes.
                None: the bundled "flickr8k", even where the current folder has one of that name.
            **options: see `load`.
        """
        return cls.load(model_directory(model), **options)

    def adapted(self, vocabulary: Vocabulary | None = None, **options) -> Captioner:
        """Return a new captioner with the weights of this one.

        Args:
            vocabulary: Vocabulary. Words that both have keep their weights, new ones get random weights.
            **options: see Captioner. Those that would change the shape of the weights are rejected. With another `grid`
                the same weights look at finer or coarser cells, without training.
        """
        return transfer.adapted(self, vocabulary, options)

    def restore_weights(self, directory: str | os.PathLike) -> None:
        """Take the weights, and the record of photos, of a captioner of the same settings saved in a folder."""
        saving.restore_weights(self, directory)

    def weights_digest(self) -> str:
        """Return a short digest of the vocabulary and of the weights that `save` keeps."""
        return saving.weights_digest(self)

    def named_weights(self):
        """Return what `save` keeps: dict from names to variables."""
        parts = {"adapter": self.adapter.weights, "decoder": self.decoder.weights}
        if self.photo_encoder.is_saved:
            parts["encoder"] = self.encoder_model.weights
        named = {f"{part}/{i:03d}/{w.name}": w for part, weights in parts.items() for i, w in enumerate(weights)}
        return {**named, "baseline": self.baseline}
