"""Run by learning/test_training.py in a process of its own: Keras' own fit on two
logical CPUs and on one device.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from keras_sat import Captioner

cpu, *_ = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def batches():
    """Captions of different lengths, and an odd number of them: the two halves of a
    batch are not alike.
    """
    random = np.random.default_rng(0)
    lengths = random.integers(1, 6, 15)
    token_weights = (np.arange(5) < lengths[:, None]).astype("float32")
    input_ids, target_ids = random.integers(4, 9, (2, 15, 5)).astype("int32")
    features = random.normal(size=(15, 4, 6)).astype("float32")
    return tf.data.Dataset.from_tensor_slices(
        ((features, input_ids), target_ids, token_weights)
    ).batch(8)


def train(strategy):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        captioner = Captioner(
            ["a", "b", "c", "d", "e"],
            encoder=None,
            embedding_dim=4,
            hidden_dim=6,
            attention_dim=4,
            dropout_before_readout=0.0,
            dropout_after_readout=0.0,
        )
        captioner.build(((None, 4, 6), (None, None)))
        captioner.compile("sgd", learning_rate=0.1, clip_norm=None)
    history = captioner.fit(batches(), epochs=3, verbose=0).history
    return {
        "loss": history["loss"],
        "weights": [weight.numpy().tolist() for weight in captioner.trainable_variables],
    }


mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print(json.dumps([train(strategy) for strategy in (tf.distribute.get_strategy(), mirrored)]))
