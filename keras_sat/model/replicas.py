"""Sums over the devices that train together, see `keras_sat.training.team`."""

import tensorflow as tf
from keras import ops


def num_replicas():
    """Return how many devices train together."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(x):
    """Return the sum of x, of any shape, over all devices that train together; on a single one, x itself."""
    if num_replicas() == 1:
        return x
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)


def sums_on_first_replica(gradients):
    """Return the sums of gradients over all replicas on the first one, and zeros on the others.

    Keras' optimizers clip the gradients of each replica, and then add them up. But the sum is what must be clipped: so
    the first replica passes the whole sum, and the others zeros.

    Args:
        gradients: list of tensors.
    """
    if num_replicas() == 1:
        return gradients
    is_first = ops.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
    return [total * ops.cast(is_first, total.dtype) for total in sum_over_replicas(gradients)]
