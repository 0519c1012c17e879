"""A TensorFlow loop over time that computes the weight gradients of its dense layers
after the loop.

The gradient of a matrix W in a loop is a sum over steps of x_t^T dy_t. Accumulated step
by step, it takes a small product and a sum of large matrices at each step; after the
loop it is one product of all x_t with all dy_t, several times faster. Inside the loop W
is therefore constant, and zeros from outside are added to y_t = x_t W: their gradient
is dy_t, which gives the gradient of W.
"""

import tensorflow as tf
from keras import ops


def loop_over_time(
    step,
    state,
    inputs,
    output_specs,
    *,
    dense_layers=(),
    summed_layers=(),
    token_weights=None,
    photos=None,
):
    """Run `step` in a loop; return its outputs, stacked into tensors of shape (time,
    rows, dim).

    It uses TensorFlow's own loop: one graph for captions of any length, with a gradient
    that XLA can compile. On TensorFlow, `keras.ops.scan` needs outputs of the state's
    shape, and XLA cannot compile its gradient.

    Args:
        step: function of (state, *inputs at one time) that returns the next state and a
            tuple of outputs (rows, dim).
        state: the state before the first step, a nest of tensors (rows, dim).
        inputs: tuple of tensors (time, rows, dim); None is passed on to `step`.
        output_specs: length and dtype of each output at one time.
        dense_layers: every LoopDense that `step` calls, each exactly once.
        summed_layers: those whose outputs `step` only adds to the first input: dy_t is
            the gradient of that input, and they need no zeros.
        token_weights: (rows, time), 0 for padding. With it, captions leave the loop
            when they have ended: at each time `step` gets the first n captions of each
            photo, where n is the last position of an unfinished caption in any photo.
            Outputs of the others are 0. This saves work if the captions of a photo are
            sorted longest first.
        photos: number of photos; rows is a multiple of it.
    """
    captions = _CaptionsInLoop(token_weights, photos)

    def in_turn(x):
        """Return a function that maps the time and the number of remaining captions to
        x at that time.
        """
        if x is None:
            return lambda t, left: None
        x = captions.stored(x)
        queue = tf.TensorArray(x.dtype, size=time, element_shape=x.shape[1:]).unstack(x)
        return lambda t, left: captions.those_left(queue.read(t), left)

    time, rows = ops.shape(inputs[0])[:2]
    late, zeros = [_LateProduct(layer) for layer in dense_layers], []
    for product in late:
        if product.layer in summed_layers:
            inputs = (product.with_gradient(inputs[0]), *inputs[1:])
            zeros.append(None)
        else:
            nothing = tf.zeros((time, rows, product.layer.units), product.layer.compute_dtype)
            zeros.append(product.with_gradient(nothing))
    inputs, zeros = [in_turn(x) for x in inputs], [in_turn(x) for x in zeros]
    specs = [
        *output_specs,
        *((product.layer.kernel.shape[0], product.layer.compute_dtype) for product in late),
    ]
    outputs = [
        tf.TensorArray(dtype, size=time, element_shape=(*captions.shape, dim))
        for dim, dtype in specs
    ]

    def body(t, state, outputs):
        left = captions.num_left(t)
        for product, turn in zip(late, zeros):
            product.start_step(turn(t, left))
        try:
            state = tf.nest.map_structure(lambda x: captions.those_left(x, left), state)
            state, values = step(state, *(turn(t, left) for turn in inputs))
        finally:
            given = [product.end_step() for product in late]
        for product, of_layer in zip(late, given):
            if len(of_layer) != 1:
                problem = (
                    "A LoopDense must be called exactly once in each step. Use "
                    "keras.layers.Dense instead."
                )
                raise ValueError(
                    f"{problem} Received: {len(of_layer)} calls of layer={product.layer.path!r}"
                )
        state = tf.nest.map_structure(lambda x: captions.filled_up(x, left), state)
        values = [captions.filled_up(x, left) for x in (*values, *sum(given, []))]
        return t + 1, state, [queue.write(t, value) for queue, value in zip(outputs, values)]

    state = tf.nest.map_structure(captions.stored, state)
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape((*captions.shape, x.shape[-1])), state)
    _, _, outputs = tf.while_loop(
        lambda t, *_: t < time,
        body,
        (tf.constant(0), state, outputs),
        shape_invariants=(tf.TensorShape(()), shapes, [tf.TensorShape(None)] * len(outputs)),
        maximum_iterations=time,
    )
    stacked = [
        tf.reshape(queue.stack(), (time, rows, dim)) for queue, (dim, _) in zip(outputs, specs)
    ]
    for product, given in zip(late, stacked[len(output_specs) :]):
        product.inputs = given
    return stacked[: len(output_specs)]


class _CaptionsInLoop:
    """The captions in the loop.

    Each leaves the loop when it has ended; without token weights, all stay.
    """

    def __init__(self, token_weights, photos):
        self.all_stay = token_weights is None
        # Of stored rows: rows; or photos, captions.
        self.shape = (None,) if self.all_stay else (None, None)
        if self.all_stay:
            return
        rows, time = ops.shape(token_weights)
        self.photos, self.captions = photos, rows // photos
        times = ops.arange(1, time + 1)
        lengths = ops.max(ops.where(token_weights > 0, times, 0), axis=1)
        # First captions, second captions, ...
        longest = ops.max(ops.reshape(lengths, (photos, -1)), axis=0)
        is_left = longest[:, None] >= times  # (captions, time)
        numbers = ops.arange(1, self.captions + 1)[:, None]
        self.captions_left = ops.max(ops.where(is_left, numbers, 1), axis=0)  # (time,)

    def stored(self, x):
        """Reshape x from (..., rows, dim) to (..., photos, captions, dim)."""
        return (
            x
            if self.all_stay
            else ops.reshape(x, (*ops.shape(x)[:-2], self.photos, self.captions, x.shape[-1]))
        )

    def num_left(self, t):
        """Return the number of remaining captions per photo at time t."""
        return None if self.all_stay else self.captions_left[t]

    def those_left(self, x, num_left):
        """Select the remaining captions from x of shape (photos, captions, dim).

        Return shape (rows, dim).
        """
        return (
            x
            if self.all_stay
            else tf.reshape(tf.slice(x, (0, 0, 0), (-1, num_left, -1)), (-1, x.shape[-1]))
        )

    def filled_up(self, x, num_left):
        """Reverse `those_left`: return shape (photos, captions, dim), with 0 for the
        captions that have ended.
        """
        if self.all_stay:
            return x
        return tf.pad(
            tf.reshape(x, (-1, num_left, x.shape[-1])),
            ((0, 0), (0, self.captions - num_left), (0, 0)),
        )


class _LateProduct:
    """The matrix product of a LoopDense in a loop.

    The gradient of the matrix is computed after the loop.
    """

    def __init__(self, layer):
        # All inputs, (time, rows, input_dim), are known after the loop.
        self.layer, self.inputs = layer, None
        kernel = tf.stop_gradient(tf.cast(ops.convert_to_tensor(layer.kernel), layer.compute_dtype))
        transposed = tf.transpose(kernel)  # once, not at each step of the backward pass

        @tf.custom_gradient
        def product(x):
            return tf.matmul(x, kernel), lambda upstream: tf.matmul(upstream, transposed)

        self._product = product

    def with_gradient(self, summand):
        """Return `summand` (time, rows, units) unchanged.

        The matrix gradient is computed from its gradient.
        """

        @tf.custom_gradient
        def unchanged(summand, kernel):
            def gradient(upstream):
                # (input_dim, units)
                product = tf.tensordot(self.inputs, upstream, ((0, 1), (0, 1)))
                return upstream, tf.cast(product, kernel.dtype)

            return tf.identity(summand), gradient

        return unchanged(summand, ops.convert_to_tensor(self.layer.kernel))

    def start_step(self, zeros):
        self.layer.late_product = self
        self._zeros, self._inputs = zeros, []

    def __call__(self, x):
        self._inputs.append(ops.stop_gradient(x))
        outputs = self._product(x)
        return outputs if self._zeros is None else outputs + self._zeros

    def end_step(self):
        """Return a list of the layer's inputs in this step, one for each call."""
        self.layer.late_product = None
        return self._inputs
