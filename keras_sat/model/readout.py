"""The readout, equation (7): it computes the next word's logits from the previous word,
state and context.
"""

import keras
from keras import layers, ops

from keras_sat import equations


@keras.saving.register_keras_serializable("keras_sat")
class Readout(layers.Layer):
    """The deep output layer, p(y_t) ∝ exp(L_o(E y_{t-1} + L_h h_t + L_z z_t)).

    Args:
        vocabulary_size: number of tokens.
        embedding_dim: length of a word vector, m in the paper, and of the readout.
        deep_output: if False, one dense layer on the concatenation of state and
            context.
        activation: of the readout.
        dropouts, seed: dropout rates of h_t, and of the readout before L_o, and their
            seed.

    Call arguments:
        embedded, hidden_state, context: E y_{t-1}, h_t and z_t of one step or of many,
            (..., dim).
        drop: two functions (x, training=) to use instead of the dropout layers of h_t
            and of the readout.

    Returns: logits (..., vocabulary_size), float32.
    """

    def __init__(
        self, vocabulary_size, *, embedding_dim, deep_output, activation, dropouts, seed, **kwargs
    ):
        super().__init__(**kwargs)
        self.embedding_dim = embedding_dim
        self.deep_output = deep_output
        policy = {"dtype": self.dtype_policy}
        if deep_output:
            self.state_readout = layers.Dense(
                embedding_dim, use_bias=False, name="state_readout", **policy
            )  # L_h
            self.context_readout = layers.Dense(
                embedding_dim, use_bias=False, name="context_readout", **policy
            )  # L_z
        self.activate = layers.Activation(activation, name="activate", **policy)
        rate_before, rate_after = dropouts
        self.drop_before = layers.Dropout(rate_before, seed=seed, name="drop_before", **policy)
        self.drop_after = layers.Dropout(rate_after, seed=seed + 1, name="drop_after", **policy)
        self.word_logits = layers.Dense(vocabulary_size, name="word_logits", **policy)  # L_o

    def build(self, embedded_shape, hidden_state_shape, context_shape):
        if self.deep_output:
            self.state_readout.build(hidden_state_shape)
            self.context_readout.build(context_shape)
            readout_dim = self.embedding_dim
        else:
            readout_dim = hidden_state_shape[-1] + context_shape[-1]
        self.word_logits.build((None, readout_dim))

    def call(self, embedded, hidden_state, context, training=False, drop=None):
        drop_before, drop_after = drop or (self.drop_before, self.drop_after)
        hidden_state = drop_before(hidden_state, training=training)
        if self.deep_output:
            readout = equations.deep_output(
                embedded, self.state_readout(hidden_state), self.context_readout(context)
            )
        else:
            readout = ops.concatenate([hidden_state, context], axis=-1)
        readout = drop_after(self.activate(readout), training=training)
        return ops.cast(self.word_logits(readout), "float32")
