"""How a captioner is saved, loaded, exported, and adapted to other words."""

import json
import os
import warnings
import zlib
from pathlib import Path

import keras
import numpy as np

from keras_sat.files.export import export
from keras_sat.files.model_folder import pretrained_directory, read_model, write_model
from keras_sat.model.learnt_photos import as_text, from_text
from keras_sat.search.writer import plain

FILE_ENDINGS = (".keras", ".h5", ".hdf5", ".zip", ".npz")  # of what is saved as one file
NO_ONE_FILE = (
    "A captioner is saved as a folder, not as one file: captioner.save(folder), without an ending. "
    "keras_sat.Captioner.load(folder) loads it; keras.saving.load_model does not."
)


class CaptionerFiles:
    """Saves and loads a captioner. A part of Captioner, which has the settings and the weights."""

    def save(self, directory, overwrite=True, *, precision="float32"):
        """Save settings, vocabulary and weights into a folder; see `keras_sat.files.model_folder`.

        Args:
            directory: made if it is not there.
            overwrite: replace the model that is there; False refuses to.
            precision: "float32", or to take less room "float16", or "int8" (convolutions get 16 bits there).

        A frozen encoder is saved by its name and layer: its weights are those that Keras downloads, or the file of
        `encoder_weights`. One that was trained, or begun with random weights, is saved whole. A frozen `keras.Model`
        of your own is not saved: pass it to `load`. The optimizer is not saved.
        """
        if not self.built:
            raise ValueError("A captioner has no weights before it has seen its first batch: there is nothing to save.")
        if Path(directory).suffix.lower() in FILE_ENDINGS:
            raise ValueError(f"{NO_ONE_FILE} Received: directory={str(directory)!r}")
        if not overwrite and (Path(directory).expanduser() / "config.json").exists():
            raise ValueError(f"There is a model in this folder already. Received: directory={str(directory)!r}")
        settings = {key: plain(value) for key, value in self.get_config().items() if key != "vocabulary"}
        arrays = {name: np.asarray(variable) for name, variable in self._named_weights().items()}
        settings = {
            "captioner": settings,
            "feature_shape": list(self.feature_shape),
            "rows_and_columns": list(self.rows_and_columns()),
            "has_own_encoder": self.has_own_encoder,
        }
        if self.training_photos is not None:
            settings["training_photos"] = as_text(self.training_photos)
        write_model(directory, settings, self.vocabulary, arrays, precision)

    def get_build_config(self):
        """Keras asks for this when it writes a file of its own, which it could not read again: it is refused."""
        raise ValueError(f"{NO_ONE_FILE} Received: a captioner for keras.saving.save_model")

    def export(
        self,
        directory,
        format="tf_saved_model",
        *,
        num_beams=3,
        length_penalty=None,
        max_length=20,
        allow_unknown=False,
        jpeg=True,
    ):
        """Write the captioner, encoder and search included, for programs that do not have keras_sat.

        Args:
            directory: made if it is not there. What is written is the folder `directory`/1, or the next number: an
                export never replaces another.
            format: "tf_saved_model": a SavedModel as TensorFlow Serving expects it. "litert": model.tflite, which
                takes one photo of the encoder's size, searches greedily, and gives token ids. A list: both.
            num_beams, length_penalty, max_length, allow_unknown: of the search, as in `caption_features`.
            jpeg: give the SavedModel a second signature, which takes JPEG or PNG files.

        Returns: the path of the folder that was written.

        Signatures of the SavedModel: "serving_default" takes `images`, uint8 (photos, height, width, 3), RGB, of any
        size: they are stretched to the encoder's. "serving_jpeg" takes `image_bytes`, (photos,), and knows nothing of
        the orientation that a camera notes in its files, nor of transparency. Both give `captions` (photos,); `words`
        (photos, max_length), "" behind the last; `num_words`, `log_prob` and `is_finished` (photos,);
        `attention_weights` (photos, max_length, rows, columns). model.tflite gives `token_ids` (1, max_length) instead
        of words; vocabulary.txt beside it has the words.
        """
        options = {"num_beams": num_beams, "length_penalty": length_penalty, "max_length": max_length}
        return export(self, directory, format, allow_unknown=allow_unknown, jpeg=jpeg, **options)

    @classmethod
    def load(cls, directory, *, encoder=None, encoder_weights=None):
        """Return the captioner that was saved in a folder.

        Args:
            directory: the folder.
            encoder: the encoder, where it was none of ENCODERS.
            encoder_weights: a weights file for the frozen encoder, instead of Keras' download.
        """
        settings, vocabulary, arrays = read_model(directory)
        try:
            options = dict(settings["captioner"])
            feature_shape, known_grid = settings["feature_shape"], settings["rows_and_columns"]
            has_record = "training_photos" in settings  # a version that kept none may have saved it
            training_photos = from_text(settings["training_photos"]) if has_record else None
            _refuse_claims(options, len(vocabulary), feature_shape, arrays)
            trained, own = options["encoder_training"] != "frozen", settings["has_own_encoder"]
            saved_encoder, saved_weights, saved_grid = (
                options[name] for name in ("encoder", "encoder_weights", "grid_shape")
            )
            if own and trained and encoder is None:
                raise ValueError(
                    "This captioner trained an encoder that keras_sat does not know: pass one of the same architecture "
                    f"as `encoder`. Received: encoder=None (it was called {saved_encoder!r})"
                )
            options["encoder"] = encoder if encoder is not None else None if own else saved_encoder
            # A trained encoder needs no weights to begin with: it gets those of the folder, below.
            if trained and encoder_weights is not None:
                warnings.warn(
                    f"This captioner brings the whole of its encoder along: encoder_weights={encoder_weights!r} is not "
                    "used.",
                    stacklevel=2,
                )
            weights = encoder_weights or saved_weights
            finished = options.get("trained_up_to") is not None  # its last layers come from the folder too
            options["encoder_weights"] = None if trained or finished else weights
            captioner = cls(vocabulary, **{**options, "grid_shape": None})
            captioner.build(((None, *feature_shape), (None, None)))
            _refuse_grids(known_grid, saved_grid, captioner)
            if encoder is None:
                captioner.encoder, captioner.has_own_encoder = saved_encoder, own
            captioner.encoder_weights = saved_weights if trained else absolute(weights)
            captioner.grid_shape = saved_grid if saved_grid is None else tuple(saved_grid)
            captioner._untracked.known_grid = tuple(known_grid)
            captioner.training_photos = training_photos
        except KeyError as error:
            raise ValueError(f"{directory}: the setting {error} is missing in config.json.") from None
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"{directory}: the settings in config.json are incomplete or not of this version "
                f"({type(error).__name__}: {error})."
            ) from None
        except ValueError as error:
            raise ValueError(f"{directory}: {error}") from None
        captioner._assign(arrays, directory)
        return captioner

    @classmethod
    def from_pretrained(cls, name, **options):
        """Return a captioner that comes with keras_sat.

        Args:
            name: "flickr8k-mobilenet_v2" or "flickr8k-mobilenet_v2-hard", which speak of photos (docs/model-card.md),
                or "scenes" or "scenes-hard", which speak of the built-in scenes.
            **options: see `load`.
        """
        return cls.load(pretrained_directory(name), **options)

    def adapted(self, vocabulary=None, **options):
        """Return a new captioner that goes on from the weights of this one.

        Args:
            vocabulary: Vocabulary. Words that both have keep their weights, new ones begin with random weights.
            **options: see Captioner. Those that would change the shape of the weights are refused.
        """
        vocabulary = self.vocabulary if vocabulary is None else vocabulary
        if not self.built:
            raise ValueError(
                "A captioner has no weights before it has seen its first batch: there is nothing to adapt."
            )
        if self.encoder_training != "frozen" and options.get("encoder_training") == "frozen":
            raise ValueError(
                "The encoder of this captioner was trained, and its weights are in no file that a frozen one could be "
                f"read from. Received: encoder_training='frozen' (before: {self.encoder_training!r})"
            )
        before = self.get_config()
        for name in ("encoder", "encoder_layer", "image_size"):
            if options.get(name, before[name]) != before[name]:
                raise ValueError(
                    f"A captioner goes on with the encoder that it has: {name} is {before[name]!r}. "
                    f"Received: {name}={options[name]!r}"
                )
        config = {**before, **options, "vocabulary": vocabulary, "encoder": self.encoder}
        if self.encoder_training != "frozen" or self.trained_up_to is not None:
            config["encoder_weights"] = None  # they are taken over from this one, below
        if self.has_own_encoder:
            config["encoder"] = self.encoder_model
            if config["encoder_training"] != "frozen":  # trained apart from this captioner's
                config["encoder"] = keras.models.clone_model(self.encoder_model)
                config["encoder"].set_weights(self.encoder_model.get_weights())
                config["encoder"].trainable = True
        adapted = type(self)(**config)
        adapted.encoder_weights = options.get("encoder_weights", self.encoder_weights)
        adapted.build(((None, *self.feature_shape), (None, None)))
        adapted._untracked.known_grid = self.rows_and_columns()
        adapted.training_photos = self.training_photos
        place_of = {token: place for place, token in enumerate(self.vocabulary.tokens)}
        places = [place for place, token in enumerate(vocabulary.tokens) if token in place_of]
        places_before = [place_of[vocabulary.tokens[place]] for place in places]
        weights, axes = self._named_weights(), adapted.decoder.vocabulary_axes()
        for name, weight in adapted._named_weights().items():
            if name not in weights and name.startswith("encoder/"):
                continue  # it was frozen so far, and has its weights already
            axis = axes.get(weight.path)
            shape = None if name not in weights else list(weights[name].shape)
            if shape is not None and axis is not None and axis < len(shape):
                shape[axis] = len(vocabulary)
            if shape != list(weight.shape):
                changed = [
                    f"{key}={value!r} (it is {before.get(key)!r})"
                    for key, value in options.items()
                    if key != "seed" and before.get(key) != value
                ]
                raise ValueError(
                    "A captioner goes on with the parts and sizes that it has: leave out what changes them. "
                    f"Received: {', '.join(changed)}"
                )
            array = weights[name].numpy()
            if axis is not None:
                moved = np.moveaxis(weight.numpy().copy(), axis, 0)
                moved[places] = np.moveaxis(array, axis, 0)[places_before]
                array = np.moveaxis(moved, 0, axis)
            weight.assign(array)
        if lost := weights.keys() - adapted._named_weights().keys():
            raise ValueError(
                "A captioner goes on with all that it has learnt: leave out the options that would drop a part of it. "
                f"Received: options that leave no place for {', '.join(sorted(lost))}"
            )
        return adapted

    def restore_weights(self, directory):
        """Take the weights of a captioner of the same settings that was saved in a folder."""
        _, vocabulary, arrays = read_model(directory)
        if vocabulary != self.vocabulary:
            raise ValueError(f"{directory}: the captioner in this folder has another vocabulary.")
        self._assign(arrays, directory)

    def weights_digest(self):
        """Return a short digest of the vocabulary and of the weights that `save` keeps."""
        digest = zlib.crc32(json.dumps(self.vocabulary.words).encode())
        for name, weight in self._named_weights().items():
            digest = zlib.crc32(np.ascontiguousarray(weight.numpy()), zlib.crc32(name.encode(), digest))
        return f"{digest:08x}"

    def _assign(self, arrays, source):
        weights = self._named_weights()
        expected = {name: tuple(weight.shape) for name, weight in weights.items()}
        received = {name: array.shape for name, array in arrays.items()}
        for name in expected | received:
            if expected.get(name) != received.get(name):
                raise ValueError(
                    f"{source}: the weights in this folder are not those of the model in its config.json. The first "
                    f"that differs is {name[:80]}. Expected: {expected.get(name, 'no such array')}. "
                    f"Received: {received.get(name, 'no such array')}"
                )
        for name, weight in weights.items():
            weight.assign(arrays[name])

    @property
    def _begins_with_random_weights(self):
        return self.encoder_weights is None or (self.encoder == "tiny" and self.encoder_weights == "imagenet")

    def _named_weights(self):
        """Return what `save` keeps: dict from names to variables."""
        parts = {"adapter": self.adapter.weights, "decoder": self.decoder.weights}
        random = not self.has_own_encoder and self.encoder is not None and self._begins_with_random_weights
        if self.encoder_training != "frozen" or random:
            parts["encoder"] = self.encoder_model.weights
        named = {f"{part}/{i:03d}/{w.name}": w for part, weights in parts.items() for i, w in enumerate(weights)}
        return {**named, "baseline": self.baseline}


_SIZES = ("embedding_dim", "hidden_dim", "attention_dim", "num_layers", "feature_projection_dim")


def _refuse_claims(options, vocabulary_size, feature_shape, arrays):
    """Raise ValueError for settings of a stranger's model that name objects, or sizes that its weights do not have.

    Nothing is made before that: a matrix that is only claimed could be larger than the memory.
    """
    for name, value in options.items():
        if isinstance(value, dict):
            raise ValueError(f"settings are numbers and names. Received: {name}={str(value)[:200]}")
    if not isinstance(feature_shape, list) or len(feature_shape) != 2:
        raise ValueError(f"feature_shape is two numbers. Received: feature_shape={str(feature_shape)[:80]}")
    claims = {name: options.get(name) for name in _SIZES} | dict(zip(("regions", "feature_dim"), feature_shape))
    for name, value in claims.items():
        if value is not None and not (type(value) is int and 0 <= value < 2**31):
            raise ValueError(f"a size is a whole number from 0 to 2**31, or none. Received: {name}={str(value)[:80]}")
    size = {name: options.get(name) or 0 for name in _SIZES}  # a version that did not know one yet may have saved it
    hidden_dim, projection_dim, (_, feature_dim) = size["hidden_dim"], size["feature_projection_dim"], feature_shape
    additive = options.get("attention") != "none" and options.get("scoring") == "additive"
    claimed = {  # numbers in one matrix of each
        "embedding_dim": size["embedding_dim"] * vocabulary_size,
        "hidden_dim": hidden_dim * hidden_dim,
        "attention_dim": size["attention_dim"] * hidden_dim if additive else 0,
        "num_layers": size["num_layers"] * hidden_dim * hidden_dim,
        "feature_projection_dim": projection_dim * hidden_dim,
        "feature_shape": 0 if options.get("trained_up_to") else feature_dim * (projection_dim or hidden_dim),
    }
    num_stored = sum(array.size for array in arrays.values())
    for name, number in claimed.items():
        if number > num_stored:
            raise ValueError(
                f"the settings claim a larger model than the weights beside them. Expected: {number} numbers for "
                f"{name} alone. Received: {num_stored} numbers"
            )


def _refuse_grids(known_grid, saved_grid, captioner):
    """Raise ValueError for grids of a stranger's model that are none, or not that of its regions."""
    grids = {"rows_and_columns": known_grid} | ({} if saved_grid is None else {"captioner.grid_shape": saved_grid})
    for name, grid in grids.items():
        is_grid = isinstance(grid, list) and len(grid) == 2 and all(type(side) is int and side > 0 for side in grid)
        if not is_grid or grid[0] * grid[1] != captioner.num_regions:
            raise ValueError(
                f"the setting {name} in config.json is no grid of this model. Expected: rows and columns of its "
                f"{captioner.num_regions} regions. Received: {name}={str(grid)[:80]}"
            )
    has_grid_of_its_own = captioner.adapter.network is not None  # which counts, whatever was asked for
    if saved_grid not in (None, known_grid) and not has_grid_of_its_own:
        raise ValueError(
            "the setting captioner.grid_shape in config.json is not the grid that the model had. "
            f"Expected: {known_grid}, its rows_and_columns. Received: captioner.grid_shape={saved_grid}"
        )


def absolute(weights):
    """Return a path of encoder weights as it means the same from any other folder."""
    return weights if weights in (None, "imagenet") else os.path.abspath(os.path.expanduser(weights))
