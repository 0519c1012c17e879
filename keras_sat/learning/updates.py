"""Weight updates: optimizer, smaller steps for the encoder, moving averages."""

import numbers

import keras
import tensorflow as tf

from keras_sat.learning.averages import WeightAverages
from keras_sat.settings import Optimizer


def make_optimizer(optimizer, settings):
    """Make a Keras optimizer from a name such as "adam" and its settings, Optimizer.

    Return a given optimizer unchanged.
    """
    if optimizer is None:
        raise ValueError(
            "Expected the name of an optimizer, or a Keras optimizer. Received: optimizer=None"
        )
    if not isinstance(optimizer, str):
        return optimizer
    rate = settings.learning_rate
    # Keras accepts no other type of number.
    rate = float(rate) if isinstance(rate, numbers.Real) else rate
    config = {"learning_rate": rate, "global_clipnorm": settings.clip_norm}
    if settings.weight_decay is not None or optimizer == "adamw":  # which decays by default
        config["weight_decay"] = settings.weight_decay or 0.0
    return keras.optimizers.get({"class_name": optimizer, "config": config})


class WeightUpdates:
    """Update the trained weights of a captioner that was compiled with an optimizer.

    Args:
        settings: Optimizer. The encoder's first layers take the smallest steps:
            edges are the same in all photos.
        decays_vectors: whether weight decay applies to vectors too; False if keras_sat
            made the optimizer.
    """

    def __init__(self, settings=Optimizer(), *, decays_vectors=True):
        self.settings = settings
        self.decays_vectors = decays_vectors
        self.averages = WeightAverages(settings.average_momentum)

    def start(self, captioner):
        """Create the optimizer's variables and the averages, if missing.

        Return all that belong in a checkpoint.
        """
        self.check_rate(captioner)
        self.build_optimizer(captioner)
        weights = captioner.trainable_variables
        return [*captioner.optimizer.variables, *self.averages.start(weights)]

    def build_optimizer(self, captioner):
        """Create the optimizer's variables, if missing."""
        weights = captioner.trainable_variables
        if not captioner.optimizer.built:
            if not self.decays_vectors:
                optimizer = getattr(captioner.optimizer, "inner_optimizer", captioner.optimizer)
                optimizer.exclude_from_weight_decay(
                    var_list=[weight for weight in weights if len(weight.shape) < 2]
                )
            captioner.optimizer.build(weights)

    def apply(self, captioner, gradients):
        """Take one optimizer step, which can be smaller for the encoder, and update the
        averages.
        """
        weights = captioner.trainable_variables
        slow_weights = [
            (weight, tf.identity(weight.value), rate)
            for weight, rate in self.encoder_rates(captioner)
            if rate < 1
        ]
        self.averages.start(weights)
        captioner.optimizer.apply(gradients, weights)  # clips the gradients first
        for weight, previous_value, rate in slow_weights:
            weight.assign(previous_value + rate * (weight - previous_value))
        self.averages.update(weights, captioner.optimizer.iterations)

    def encoder_rates(self, captioner):
        """Return a list of (weight, fraction of the learning rate) for the trained
        weights of the encoder.
        """
        encoder_rate = self.settings.encoder_rate
        network = captioner.photo_encoder.trained_network
        layers = [layer for layer in _layers_within(network) if layer.trainable_variables]
        rates = {}
        for number, layer in enumerate(layers):
            depth = number / max(len(layers) - 1, 1)  # 0 for the first layer, 1 for the last
            rate = encoder_rate * self.settings.first_layer_rate ** (1 - depth)
            rates |= {id(weight): rate for weight in layer.trainable_variables}
        return [
            (weight, rates.get(id(weight), encoder_rate)) for weight in captioner.encoder_variables
        ]

    def check_rate(self, captioner):
        """Raise ValueError if an encoder rate is set but the encoder is not trained."""
        encoder_rate, first_layer_rate = self.settings.encoder_rate, self.settings.first_layer_rate
        if min(encoder_rate, first_layer_rate) < 1 and not captioner.encoder_variables:
            raise ValueError(
                "No layer of the encoder is trained. To train it, set `trained_up_to` or "
                f"`encoder_training`. Received: {encoder_rate=}, {first_layer_rate=}"
            )


def _layers_within(network):
    """Return a flat list of the layers of a model and its nested models, in order.

    `network` is a model, a layer, or None, which has none.
    """
    if network is None:
        return []
    if not isinstance(network, keras.Model):
        return [network]
    return [inner for layer in network.layers for inner in _layers_within(layer)]
