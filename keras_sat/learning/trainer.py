"""Training of a captioner with any objective; `keras_sat.training.distributed` runs
`train_step` on many devices.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_sat.checks import check_no_keras_distribution
from keras_sat.learning.metrics import Means
from keras_sat.learning.replicas import sums_on_first_replica
from keras_sat.learning.updates import WeightUpdates, make_optimizer
from keras_sat.network import reject_fork
from keras_sat.settings import Optimizer, with_options

OF_OPTIMIZER = ("learning_rate", "weight_decay", "clip_norm")  # a Keras optimizer has them
NO_FORWARD_PASS = (
    "Photos alone are not what this network reads: it predicts each word from a photo and the "
    "words before. captioner.caption(photos) writes captions, captioner.encode(photos) returns "
    "features, and captioner.attend(photos, captions) reads given captions."
)


class Trainer(keras.Model):
    """A Keras model with its own training objective. Subclasses define the attributes
    below, `build_once` and `build_terms`.

    Attributes:
        photo_encoder, decoder: parts of the network: `decoder` has the dtype of its
            computations, and `photo_encoder` rejects photos of another size.
        vocabulary: Vocabulary.
        paper_objective: PaperObjective, which is minimised unless `compile` is given
            another objective.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.updates = WeightUpdates()
        self.means = Means()
        self._ranks = {}  # of the batches that `fit` was given last

    @property
    def metrics(self):
        return list(self.means.by_name.values())

    @with_options(Optimizer)
    def compile(
        self,
        optimizer="adam",
        *,
        settings=None,
        training_objective=None,
        jit_compile="auto",
        **options,
    ):
        """Configure training.

        Args:
            optimizer: a name, such as "adam" or "rmsprop", or a Keras optimizer, which
                is used as it is.
            settings: Optimizer; None: the defaults.
            training_objective: replaces the paper's loss: function of captioner and
                batch that returns an ObjectiveValue.
            jit_compile: compile with XLA. "auto" does so on a GPU, with one replica and
                no training_objective.
            **options: settings by their names, in place of those in `settings`; others
                are those of `keras.Model.compile`, without loss and metrics.
        """
        others = {name: options.pop(name) for name in [*options] if name not in Optimizer.names()}
        if others.pop("loss", None) is not None or others.pop("metrics", None) is not None:
            raise ValueError(
                "The captioner has its own loss and metrics: do not pass any. Received: "
                "loss or metrics"
            )
        settings = dataclasses.replace(settings or Optimizer(), **options)
        self.compile_arguments = {**others, "jit_compile": jit_compile}
        self.updates = WeightUpdates(settings, decays_vectors=not isinstance(optimizer, str))
        optimizer = make_optimizer(optimizer, settings)
        # Else Keras does it.
        is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        needs_scale = self.decoder.dtype_policy.name == "mixed_float16" != self.dtype_policy.name
        if needs_scale and not is_scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        if jit_compile == "auto":
            is_plain = training_objective is None and not others.get("run_eagerly")
            is_alone = self.distribute_strategy.num_replicas_in_sync == 1
            jit_compile = is_plain and is_alone and bool(tf.config.list_physical_devices("GPU"))
        self.training_objective = training_objective or self.paper_objective
        self.means = Means()
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **others)
        self.build_terms()

    def get_compile_config(self):
        """Return how training is configured, for `keras.saving`.

        None before `compile`, and with a training_objective of one's own: it is a
        function, which no file can hold, and the loaded captioner is not compiled.
        """
        if not self.compiled or self.training_objective is not self.paper_objective:
            return None
        options = self.updates.settings.to_dict()
        for name in OF_OPTIMIZER:
            del options[name]
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            "has_trained": self.optimizer.built,
            "decays_vectors": self.updates.decays_vectors,
            **self.compile_arguments,
            **options,
        }

    def compile_from_config(self, config):
        """Configure training as `get_compile_config` describes it."""
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"))
        decays_vectors, has_trained = config.pop("decays_vectors"), config.pop("has_trained")
        self.compile(optimizer, **config)
        self.updates.decays_vectors = decays_vectors
        if has_trained:  # the file has the state of the optimizer, which needs its place
            self.updates.build_optimizer(self)

    def predict(self, *args, **kwargs):
        """Raise TypeError: it would return logits, where people expect captions."""
        raise TypeError(NO_FORWARD_PASS)

    def fit(self, x=None, *args, shuffle=False, **kwargs):
        """Train like `keras.Model.fit`.

        The batches come from make_batches, which also shuffles them.
        """
        reject_fork()
        check_no_keras_distribution()
        strategy = self.distribute_strategy
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise ValueError(
                "Keras' `fit` does not work on several hosts. Use keras_sat.fit. "
                f"Received: {strategy!r}"
            )
        validation_batches = kwargs.get("validation_data")
        _check_batches(x, "x")
        if validation_batches is not None:
            _check_batches(validation_batches, "validation_data")
        for batches, name in ((x, "x"), (validation_batches, "validation_data")):
            if isinstance(batches, tf.data.Dataset):
                self.build_for(batches, name)
        self.before_training()
        if self.built and self.compiled:
            with self.distribute_strategy.scope():
                # Restarts averages; if `x` is no tf.data.Dataset, makes all of it.
                self.make_training_state()
        try:
            return super().fit(x, *args, shuffle=shuffle, **kwargs)
        finally:
            self.end_averaging()

    def before_training(self):
        """Give up what was made with the weights that `fit` is going to change: what a
        subclass has of this kind.
        """

    def build_for(self, batches, name="x"):
        """Create the weights for batches of make_batches before Keras traces a graph.

        `name` is the batches' argument of `fit`: "x" or "validation_data".
        """
        self.check_vocabulary(batches, name)
        if name == "x" and self.training_objective is self.paper_objective:
            for term in self.paper_objective.terms:
                term.check(batches)
        (features, input_ids, *_), *_ = batches.element_spec
        ranks = len(features.shape), len(input_ids.shape)
        previous_ranks = self._ranks.get(name, ranks)
        self._ranks[name] = ranks
        if ranks != previous_ranks:
            # Keras traced its graph for photos, and these are features, or vice versa:
            # let it trace another one.
            if name == "x":
                self.train_function = None
            else:
                self.test_function = None
        self.build_once(features.shape, input_ids.shape)
        if self.compiled:
            with self.distribute_strategy.scope():
                self.make_training_state()  # within a graph, it would have to be traced twice
        if len(features.shape) == 4:
            self.photo_encoder.check_photos(*features.shape[1:3])

    def evaluate(self, x=None, *args, **kwargs):
        """Evaluate like `keras.Model.evaluate`, with the averaged weights if training
        keeps averages.
        """
        reject_fork()
        if not kwargs.get("_use_cached_eval_dataset"):  # as Keras' `fit` calls it
            _check_batches(x, "x")
            self.check_vocabulary(x, "x")
        with self.averaged_weights():
            return super().evaluate(x, *args, **kwargs)

    def check_vocabulary(self, batches, name):
        """Raise ValueError if batches of make_batches have another vocabulary.

        `name` is the argument with the batches, for the message.
        """
        expected = self.vocabulary.digest
        received = getattr(batches, "vocabulary_digest", expected)
        if received != expected:
            raise ValueError(
                "These batches were made with another vocabulary, in which the ids are those of "
                f"other words. Expected: {expected}, the digest of captioner.vocabulary. "
                f"Received: {name} with {received}. Make them with make_batches(images, "
                "captioner.vocabulary, ...)."
            )

    def averaged_weights(self):
        """Return a context manager that replaces the weights with their moving
        averages, if training keeps any.
        """
        return self.updates.averages.in_place_of(self.trainable_variables)

    def end_averaging(self):
        """Replace the weights with their moving averages permanently, at the end of
        training.
        """
        self.updates.averages.finish(self.trainable_variables)

    def make_training_state(self):
        """Create the optimizer's variables and the averages, if missing.

        Return all that belong in a checkpoint.
        """
        return self.updates.start(self)

    def objective(self, batch, training):
        """Return the paper's ObjectiveValue for a batch from make_batches."""
        return self.paper_objective(self, batch, training)

    def train_step(self, batch):
        """Train on one batch from make_batches; return the metrics so far."""
        with tf.GradientTape() as tape:
            objective = self.training_objective(self, batch)
            # For mixed precision; otherwise unchanged.
            loss = self.optimizer.scale_loss(objective.mean)
        weights = self.trainable_variables
        gradients = [
            _as_dense(gradient, weight)
            for weight, gradient in zip(weights, tape.gradient(loss, weights))
        ]
        self.updates.apply(self, sums_on_first_replica(gradients))
        if objective.after_step is not None:
            objective.after_step()
        return self.means.update(objective)

    def test_step(self, batch):
        """Evaluate one batch from make_batches, with soft attention.

        Return the metrics so far.
        """
        return self.means.update(self.objective(batch, training=False))


def _check_batches(batches, name):
    """Raise ValueError for what is certainly no batches of make_batches."""
    problem = f"{name} of type {type(batches).__name__}"
    if isinstance(batches, tf.data.Dataset):
        spec = batches.element_spec
        is_batch = isinstance(spec, tuple) and len(spec) == 3 and isinstance(spec[0], tuple)
        if is_batch and len(spec[0]) >= 2:
            return
        problem = f"{name} with elements {str(spec)[:200]}"
    elif batches is not None and not isinstance(batches, (list, tuple, np.ndarray)):
        return  # another iterator over such batches
    raise ValueError(f"Expected batches made by make_batches. Received: {problem}")


def _as_dense(gradient, weight):
    """Return a gradient as a tensor of the weight's shape.

    It is None, and becomes 0, for a term's layer under another objective. That of the
    word vectors is sparse: rows of the same word are added.
    """
    if gradient is None:
        return tf.zeros(weight.shape, weight.dtype)
    return tf.convert_to_tensor(gradient)
