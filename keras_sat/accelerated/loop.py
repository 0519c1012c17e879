"""A loop over time for TensorFlow, and the gradients of the dense layers inside it, which are made after it.

The gradient of a matrix W in a loop is a sum over the steps, of x_t^T dy_t. To add it up step by step takes a small
product and a sum of large matrices at each; after the loop it is one product of all x_t with all dy_t, several times as
fast. So inside the loop W is held constant, and zeros from outside are added to y_t = x_t W: their gradient is dy_t,
from which the loop makes that of W.
"""

import tensorflow as tf
from keras import ops


def loop_over_time(
    step, state, inputs, output_specs, *, dense_layers=(), summed_layers=(), token_weights=None, photos=None
):
    """Return what `step` gives out at each time, stacked: tensors (time, rows, dim).

    It is TensorFlow's own loop: one graph for captions of any length, with a gradient that XLA can compile too. There,
    `keras.ops.scan` wants outputs of the shapes of the state, and XLA cannot compile its gradient.

    Args:
        step: function of (state, *inputs at one time) that returns the next state and a tuple of outputs (rows, dim).
        state: the state before the first step, a nest of tensors (rows, dim).
        inputs: tuple of tensors (time, rows, dim), or None, which is handed on as it is.
        output_specs: length and dtype of each output at one time.
        dense_layers: every LoopDense that `step` calls, each of them once.
        summed_layers: those of which `step` adds the outputs to the first of the inputs, which enters nothing else:
            dy_t is its gradient then, and they need no zeros.
        token_weights: (rows, time), 0 for padding. With it, captions leave the loop when they have ended: at each time
            `step` sees the first captions of each photo only, as many as have a word left in any of the photos. The
            outputs of the others are 0. It saves work where the captions of a photo come longest first.
        photos: how many photos there are; rows is a multiple of it.
    """
    leaving = _NobodyLeaves() if token_weights is None else _TheEndedLeave(token_weights, photos)

    def in_turn(x):
        """Return a function from a time, and what is left then, to x of that time."""
        if x is None:
            return lambda t, left: None
        x = leaving.stored(x)
        queue = tf.TensorArray(x.dtype, size=time, element_shape=x.shape[1:]).unstack(x)
        return lambda t, left: leaving.those_left(queue.read(t), left)

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
    specs = [*output_specs, *((product.layer.kernel.shape[0], product.layer.compute_dtype) for product in late)]
    outputs = [tf.TensorArray(dtype, size=time, element_shape=(*leaving.shape, dim)) for dim, dtype in specs]

    def body(t, state, outputs):
        left = leaving.num_left(t)
        for product, turn in zip(late, zeros):
            product.begin_step(turn(t, left))
        try:
            state = tf.nest.map_structure(lambda x: leaving.those_left(x, left), state)
            state, values = step(state, *(turn(t, left) for turn in inputs))
        finally:
            given = [product.end_step() for product in late]
        state = tf.nest.map_structure(lambda x: leaving.filled_up(x, left), state)
        _check_called(late, given)
        values = [leaving.filled_up(x, left) for x in (*values, *given)]
        return t + 1, state, [queue.write(t, value) for queue, value in zip(outputs, values)]

    state = tf.nest.map_structure(leaving.stored, state)
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape((*leaving.shape, x.shape[-1])), state)
    _, _, outputs = tf.while_loop(
        lambda t, *_: t < time,
        body,
        (tf.constant(0), state, outputs),
        shape_invariants=(tf.TensorShape(()), shapes, [tf.TensorShape(None)] * len(outputs)),
        maximum_iterations=time,
    )
    stacked = [tf.reshape(queue.stack(), (time, rows, dim)) for queue, (dim, _) in zip(outputs, specs)]
    for product, given in zip(late, stacked[len(output_specs) :]):
        product.inputs = given
    return stacked[: len(output_specs)]


def _check_called(products, inputs):
    """Refuse a step that did not call each LoopDense.

    Args:
        products: list of _LateProduct.
        inputs: what each of them was given in the step, or None.
    """
    for product, given in zip(products, inputs):
        if given is None:
            raise ValueError(
                "A LoopDense must be called in each step of the loop. Use keras.layers.Dense for what is computed "
                f"outside of it. Received: layer={product.layer.path!r}"
            )


# === Who is in the loop ===


class _NobodyLeaves:
    """All captions stay in the loop to the end."""

    shape = (None,)  # in which rows are stored

    def stored(self, x):
        return x

    def num_left(self, t):
        return None

    def those_left(self, x, num_left):
        return x

    def filled_up(self, x, num_left):
        return x


class _TheEndedLeave:
    """Captions leave the loop when they have ended; see `loop_over_time`."""

    shape = (None, None)  # photos, captions

    def __init__(self, token_weights, photos):
        rows, time = ops.shape(token_weights)
        self.photos, self.captions = photos, rows // photos
        times = ops.arange(1, time + 1)
        lengths = ops.max(ops.where(token_weights > 0, times, 0), axis=1)
        longest = ops.max(ops.reshape(lengths, (photos, -1)), axis=0)  # first captions, second captions, ...
        is_left = longest[:, None] >= times  # (captions, time)
        numbers = ops.arange(1, self.captions + 1)[:, None]
        self.captions_left = ops.max(ops.where(is_left, numbers, 1), axis=0)  # (time,)

    def stored(self, x):
        """Return (..., rows, dim) as (..., photos, captions, dim)."""
        before = ops.shape(x)[:-2]
        return ops.reshape(x, (*before, self.photos, self.captions, x.shape[-1]))

    def num_left(self, t):
        """Return how many captions of each photo are left at a time, from the first on."""
        return self.captions_left[t]

    def those_left(self, x, num_left):
        """Return the rows of the captions that are left, (rows, dim), of (photos, captions, dim)."""
        return tf.reshape(tf.slice(x, (0, 0, 0), (-1, num_left, -1)), (-1, x.shape[-1]))

    def filled_up(self, x, num_left):
        """Return (photos, captions, dim), with 0 for the captions that have ended, of (rows, dim)."""
        by_photo = tf.reshape(x, (-1, num_left, x.shape[-1]))
        return tf.pad(by_photo, ((0, 0), (0, self.captions - num_left), (0, 0)))


# === The gradient of a matrix ===


class _LateProduct:
    """What one LoopDense computes in a loop, and the gradient of its matrix, which is made after the loop.

    Attributes:
        layer: the LoopDense.
        inputs: all that the layer was given, (time, rows, input_dim); to be set after the loop.
    """

    def __init__(self, layer):
        self.layer = layer
        self.inputs = None
        kernel = tf.stop_gradient(tf.cast(ops.convert_to_tensor(layer.kernel), layer.compute_dtype))
        transposed = tf.transpose(kernel)  # once, not at each step back

        @tf.custom_gradient
        def product(x):
            return tf.matmul(x, kernel), lambda upstream: tf.matmul(upstream, transposed)

        self._product = product
        self._zeros = self._inputs = None  # of the step that is being made

    def with_gradient(self, summand):
        """Return `summand` (time, rows, units), with a gradient that is that of the matrix too.

        Args:
            summand: what is added to the layer's outputs, so that it has the same gradient.
        """

        @tf.custom_gradient
        def unchanged(summand, kernel):
            def gradient(upstream):
                product = tf.tensordot(self.inputs, upstream, ((0, 1), (0, 1)))  # (input_dim, units)
                return upstream, tf.cast(product, kernel.dtype)

            return tf.identity(summand), gradient

        return unchanged(summand, ops.convert_to_tensor(self.layer.kernel))

    def begin_step(self, zeros):
        self.layer.late_product = self
        self._zeros = zeros

    def __call__(self, x):
        if self._inputs is not None:
            raise ValueError(
                "A LoopDense may be called once in a step of the loop, since its gradient is that of one call. Use "
                f"keras.layers.Dense instead. Received: layer={self.layer.path!r}"
            )
        self._inputs = ops.stop_gradient(x)
        outputs = self._product(x)
        return outputs if self._zeros is None else outputs + self._zeros

    def end_step(self):
        """Return what the layer was given in this step, or None if nobody called it."""
        self.layer.late_product = None
        inputs, self._inputs = self._inputs, None
        return inputs
