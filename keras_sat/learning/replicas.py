"""Sums, means and random noise across all replicas (devices).

See `keras_sat.training.distributed`.
"""

import keras
import tensorflow as tf
from keras import ops


def num_replicas():
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(x):
    """Sum a tensor of any shape over all replicas."""
    if num_replicas() == 1:
        return x
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)


def sums_on_first_replica(gradients):
    """On the first replica, return gradients summed over all replicas; on the others,
    return zeros.

    Keras' optimizers clip the gradients of each replica and then add them, but the sum
    must be clipped. The first replica therefore passes the whole sum, and the others
    pass zeros.
    """
    if num_replicas() == 1:
        return gradients
    is_first = ops.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
    return [total * ops.cast(is_first, total.dtype) for total in sum_over_replicas(gradients)]


def photos_with_words(token_weights, photos):
    """Return, for each photo, 1 if it has words and 0 if it is padding at the end of a
    replica's batch.
    """
    return ops.cast(ops.any(ops.reshape(token_weights > 0, (photos, -1)), axis=-1), "float32")


def share_of_mean(values, weights):
    """Return this replica's contribution to the weighted mean of `values` (rows,) over
    all replicas.
    """
    return ops.sum(values * weights) / ops.maximum(sum_over_replicas(ops.sum(weights)), 1.0)


def draw_for_photos(is_photo, shape, seed_generator):
    """Return uniform noise of shape (photos, *shape) that does not depend on how a
    batch is split over replicas.

    Each replica draws noise for the whole batch with the same seed, and uses the part
    for its own photos. `is_photo` comes from `photos_with_words`; `shape` is that of
    the noise for each photo.
    """
    photos = ops.shape(is_photo)[0]
    if num_replicas() == 1:
        return keras.random.uniform((photos, *shape), seed=seed_generator)
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    own_count = ops.one_hot(replica, num_replicas()) * ops.sum(is_photo)
    counts = sum_over_replicas(own_count)  # (replicas,)
    first = ops.cast(ops.cumsum(counts)[replica] - counts[replica], "int32")
    total = ops.cast(ops.sum(counts), "int32")
    noise = keras.random.uniform((total, *shape), seed=seed_generator)
    numbers = ops.minimum(first + ops.arange(photos), total - 1)
    return ops.take(noise, numbers, axis=0)
