"""The recurrent cells LSTM and GRU, and their dense layer.

To add one, subclass RecurrentCell and add it to CELLS.
"""

import contextvars

import keras
from keras import layers, ops

from keras_sat import equations

# Inside a step of the fast loop: a dict from LoopDense to the function that computes
# x W; None elsewhere. See `keras_sat.network.loop_over_time`.
late_products = contextvars.ContextVar("late_products", default=None)


@keras.saving.register_keras_serializable("keras_sat")
class LoopDense(layers.Dense):
    """A dense layer that is called inside the loop over words.

    In a fast loop, the gradient of its matrix is computed after the loop.
    """

    def call(self, inputs):
        late_product = (late_products.get() or {}).get(self)
        if late_product is None:
            return super().call(inputs)
        outputs = late_product(inputs)
        if self.bias is not None:
            outputs = outputs + self.bias
        return self.activation(outputs)


class RecurrentCell(layers.Layer):
    """Base class of recurrent cells. The decoder stacks one cell per layer.

    `input_projection` projects the word (or the output of the layer below),
    `context_projection` projects z_t. The decoder calls both, since the words of a
    whole caption can be projected at once.

    Call arguments:
        projected_inputs: the sum of the projections of all inputs, (rows, num_gates *
            hidden_dim).
        hidden_state, cell_state: (rows, hidden_dim); cell_state is None for a cell
            without one.

    Returns: the new states, a tuple (hidden_state, cell_state), or (hidden_state,) for
    a cell without cell state; and the gates and the candidate by name, a dict of (rows,
    hidden_dim), which a trace shows; {} shows none.
    """

    num_gates = None
    has_cell_state = None
    initial_bias = "zeros"

    def __init__(self, hidden_dim, **kwargs):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        size = self.num_gates * hidden_dim
        policy = {"dtype": self.dtype_policy}
        self.input_projection = LoopDense(
            size, bias_initializer=self.initial_bias, name="input_projection", **policy
        )
        self.context_projection = LoopDense(
            size, use_bias=False, name="context_projection", **policy
        )
        self.recurrent_projection = LoopDense(
            size,
            use_bias=not self.has_cell_state,
            kernel_initializer="orthogonal",
            name="recurrent_projection",
            **policy,
        )

    def build(self, projected_inputs_shape, hidden_state_shape, cell_state_shape=None):
        self.recurrent_projection.build(hidden_state_shape)

    def build_for(self, input_dim, context_dim=None):
        """Create all weights.

        Only the first layer reads the context; for the others, `context_dim` is None.
        """
        self.input_projection.build((None, input_dim))
        if context_dim is not None:
            self.context_projection.build((None, context_dim))
        self.build((None, self.num_gates * self.hidden_dim), (None, self.hidden_dim))


@keras.saving.register_keras_serializable("keras_sat")
class LSTMCell(RecurrentCell):
    """The LSTM cell of equations (1) to (3)."""

    num_gates = 4
    has_cell_state = True

    def initial_bias(self, shape, dtype=None):
        """Return the initial bias: 1 for the forget gate, so that the cell remembers at
        first, and 0 elsewhere.
        """
        zeros, ones = (ops.full((self.hidden_dim,), bias, dtype) for bias in (0.0, 1.0))
        return ops.concatenate([zeros, ones, zeros, zeros])  # i, f, o, g

    def call(self, projected_inputs, hidden_state, cell_state):
        sums = projected_inputs + self.recurrent_projection(hidden_state)
        return equations.lstm(sums, cell_state), equations.lstm_gates(sums)


@keras.saving.register_keras_serializable("keras_sat")
class GRUCell(RecurrentCell):
    """A gated recurrent unit, which has no cell state and a quarter fewer weights than
    an LSTM.
    """

    num_gates = 3
    has_cell_state = False

    def call(self, projected_inputs, hidden_state, cell_state=None):
        projected_state = self.recurrent_projection(hidden_state)
        states = (equations.gru(projected_inputs, projected_state, hidden_state),)
        return states, equations.gru_gates(projected_inputs, projected_state)


CELLS = {"lstm": LSTMCell, "gru": GRUCell}
