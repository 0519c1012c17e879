"""A step of the optimizer again, with fewer ways to memory: the same numbers as `optimizer.apply`.

An optimizer such as Adam is a dozen small operations on each weight, and TensorFlow carries every one of them through
memory. Compiled by XLA they are a few passes. That pays where the weights are larger than a cache. An optimizer that
keras_sat or a user has written is left as it is, since XLA may not be able to compile it.
"""

import math

import keras
import tensorflow as tf

from keras_sat.accelerated.switch import fast_twins_are_on, has_xla

SMALL = 2**22  # numbers in all weights together: those of fewer stay in a cache
NOT_COMPILED = (keras.optimizers.LossScaleOptimizer,)  # it looks first whether all gradients are finite


def apply_gradients(optimizer, gradients, weights):
    """Take one step of a Keras optimizer whose variables are made already.

    Args:
        optimizer: the optimizer.
        gradients: list of tensors, one for each weight.
        weights: list of Keras variables.
    """
    is_large = sum(math.prod(weight.shape) for weight in weights) >= SMALL
    is_plain = type(optimizer).__module__.startswith("keras.") and type(optimizer) not in NOT_COMPILED
    in_graph = not tf.executing_eagerly() and not tf.distribute.has_strategy()  # which sums over its replicas here
    if not (is_large and is_plain and in_graph and fast_twins_are_on() and has_xla()):
        optimizer.apply(gradients, weights)
        return
    compiled = tf.function(lambda *gradients: optimizer.apply(list(gradients), weights), jit_compile=True)
    compiled(*gradients)
