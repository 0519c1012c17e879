"""A fast version of `optimizer.apply`, in which XLA compiles the whole optimizer step.

An optimizer such as Adam applies a dozen small operations to each weight. TensorFlow
passes through memory once for each operation; XLA needs only a few passes. This pays
off if the weights are larger than the cache.
"""

import math

import keras
import tensorflow as tf

from keras_sat.accelerated.switch import may_compile

SMALL = 2**22  # total number of weights that fit into the cache
# It checks first whether all gradients are finite.
NOT_COMPILED = (keras.optimizers.LossScaleOptimizer,)


def apply_gradients(optimizer, gradients, weights):
    """Take one step of a built Keras optimizer, given gradients and weights."""
    is_large = sum(math.prod(weight.shape) for weight in weights) >= SMALL
    is_plain = (
        type(optimizer).__module__.startswith("keras.") and type(optimizer) not in NOT_COMPILED
    )
    # `apply` sums over its replicas
    in_graph = not tf.executing_eagerly() and not tf.distribute.has_strategy()
    if not (is_large and is_plain and in_graph and may_compile()):
        optimizer.apply(gradients, weights)
        return
    tf.function(lambda *gradients: optimizer.apply(list(gradients), weights), jit_compile=True)(
        *gradients
    )
