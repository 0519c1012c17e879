"""Functions as graphs of TensorFlow, each made once."""

import functools
import json

import numpy as np
import tensorflow as tf

from keras_sat.model.forks import refuse_fork


class Graphs:
    """Runs functions as graphs, which are made once for each function, set of options and kind of tensors.

    Attributes:
        by_key: dict of those that were made so far.
    """

    def __init__(self):
        self.by_key = {}

    def run(self, function, *tensors, **options):
        """Return what a function returns for tensors, or nested arrays, with any number of photos in their first axis.

        Args:
            function: a function or method with a name of its own.
            *tensors: what may change from call to call.
            **options: what makes another graph: numbers, names, None.
        """
        refuse_fork()
        options = {name: plain(value) for name, value in options.items()}
        specs = tf.nest.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), tensors)
        key = json.dumps([function.__name__, options, repr(specs)])
        if key not in self.by_key:
            function = functools.partial(function, **options)
            self.by_key[key] = tf.function(function, input_signature=specs, autograph=False)
        return self.by_key[key](*tensors)


def plain(value):
    """Return a number of numpy as one of Python, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value
