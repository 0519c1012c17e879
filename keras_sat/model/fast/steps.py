"""A step of the optimizer again, with fewer ways to memory: the same numbers as `optimizer.apply`.

An optimizer such as Adam is a dozen small operations on each weight, and TensorFlow carries every one of them through
memory. Compiled by XLA they are a few passes. That pays where the weights are larger than a cache.
"""

import math

import keras
import tensorflow as tf

from keras_sat.model.fast.switch import fast_twins_are_on, has_xla

SMALL = 2**22  # numbers in all weights together; below, compiling takes longer than it saves


def apply_gradients(optimizer, gradients, weights):
    """Take one step of a Keras optimizer whose variables are made already.

    Args:
        optimizer: the optimizer.
        gradients: list of tensors, one for each weight.
        weights: list of Keras variables.
    """
    is_large = sum(math.prod(weight.shape) for weight in weights) >= SMALL
    in_graph = not tf.executing_eagerly() and tf.distribute.get_strategy().num_replicas_in_sync == 1
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)  # it looks first whether all are finite
    if scales_loss or not (is_large and in_graph and fast_twins_are_on() and has_xla()):
        optimizer.apply(gradients, weights)
        return
    compiled = tf.function(lambda *gradients: optimizer.apply(list(gradients), weights), jit_compile=True)
    compiled(*gradients)
