"""A TensorFlow loop over time that computes the weight gradients of its dense layers
after the loop.

The gradient of a matrix W in a loop is a sum over steps of x_t^T dy_t. Accumulated step
by step, it takes a small product and a sum of large matrices at each step; after the
loop it is one product of all x_t with all dy_t, several times faster. Inside the loop W
is therefore constant, and zeros from outside are added to y_t = x_t W: their gradient
is dy_t, which gives the gradient of W.
"""

import contextlib

import tensorflow as tf
from keras import ops

from keras_sat.network.cells import late_products


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
    """Run `step` in a loop; return its outputs, a list of tensors (time, rows, dim).

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
    time, rows = ops.shape(inputs[0])[:2]
    captions = _AllCaptions() if token_weights is None else _OpenCaptions(token_weights, photos)
    products = [_LateProduct(layer) for layer in dense_layers]
    inputs, zeros = _with_gradients(products, inputs, summed_layers)
    input_queues = [_InTurn(x, time, captions) for x in inputs]
    zero_queues = [_InTurn(x, time, captions) for x in zeros]
    # The loop also returns what each dense layer has read.
    read_specs = [(product.input_dim, product.dtype) for product in products]
    specs = [*output_specs, *read_specs]
    output_queues = [
        tf.TensorArray(dtype, size=time, element_shape=(*captions.stored_axes, dim))
        for dim, dtype in specs
    ]

    def body(t, state, queues):
        num_left = captions.num_left(t)
        state = tf.nest.map_structure(lambda x: captions.those_left(x, num_left), state)
        inputs_now = [queue.at(t, num_left) for queue in input_queues]
        zeros_now = [queue.at(t, num_left) for queue in zero_queues]
        with _late(products, zeros_now):
            state, outputs = step(state, *inputs_now)
        values = [*outputs, *(product.input_of_step() for product in products)]
        state = tf.nest.map_structure(lambda x: captions.filled_up(x, num_left), state)
        values = [captions.filled_up(x, num_left) for x in values]
        return t + 1, state, [queue.write(t, value) for queue, value in zip(queues, values)]

    state = tf.nest.map_structure(captions.stored, state)
    output_queues = _repeated(body, state, output_queues, time, captions.stored_axes)
    outputs = [
        tf.reshape(queue.stack(), (time, rows, dim))
        for queue, (dim, _) in zip(output_queues, specs)
    ]
    num_outputs = len(output_specs)
    for product, layer_inputs in zip(products, outputs[num_outputs:]):
        product.inputs = layer_inputs
    return outputs[:num_outputs]


def _repeated(body, state, queues, time, stored_axes):
    """Call `body(t, state, queues)` for each t < time; return the last queues.

    `stored_axes` is the shape of the state's tensors without their last axis.
    """

    def is_not_over(t, state, queues):
        return t < time

    state_shapes = tf.nest.map_structure(
        lambda x: tf.TensorShape((*stored_axes, x.shape[-1])), state
    )
    queue_shapes = [tf.TensorShape(None)] * len(queues)
    _, _, queues = tf.while_loop(
        is_not_over,
        body,
        (tf.constant(0), state, queues),
        shape_invariants=(tf.TensorShape(()), state_shapes, queue_shapes),
        maximum_iterations=time,
    )
    return queues


# === What is read in turn ===


class _InTurn:
    """A tensor (time, rows, dim), or None, of which each step reads its part."""

    def __init__(self, x, time, captions):
        self.captions = captions
        self.queue = None
        if x is not None:
            x = captions.stored(x)
            queue = tf.TensorArray(x.dtype, size=time, element_shape=x.shape[1:])
            self.queue = queue.unstack(x)

    def at(self, t, num_left):
        """Return (rows, dim) at time t, of the remaining captions; None for None."""
        if self.queue is None:
            return None
        return self.captions.those_left(self.queue.read(t), num_left)


# === Captions in the loop ===


class _AllCaptions:
    """All captions stay in the loop until the last step; they are stored as rows."""

    stored_axes = (None,)

    def stored(self, x):
        return x

    def num_left(self, t):
        return None

    def those_left(self, x, num_left):
        return x

    def filled_up(self, x, num_left):
        return x


class _OpenCaptions:
    """Captions that leave the loop when they have ended.

    They are stored by photo: (photos, captions, dim).

    Args:
        token_weights: (rows, time), 0 for padding.
        photos: number of photos.
    """

    stored_axes = (None, None)

    def __init__(self, token_weights, photos):
        rows, time = ops.shape(token_weights)
        self.photos = photos
        self.captions = rows // photos
        times = ops.arange(1, time + 1)
        lengths = ops.max(ops.where(token_weights > 0, times, 0), axis=1)  # (rows,)
        # Of the first captions of all photos, of the second captions, ...
        longest = ops.max(ops.reshape(lengths, (photos, -1)), axis=0)  # (captions,)
        is_open = longest[:, None] >= times  # (captions, time)
        numbers = ops.arange(1, self.captions + 1)[:, None]
        self.captions_left = ops.max(ops.where(is_open, numbers, 1), axis=0)  # (time,)

    def stored(self, x):
        """Reshape x from (..., rows, dim) to (..., photos, captions, dim)."""
        leading = ops.shape(x)[:-2]
        return ops.reshape(x, (*leading, self.photos, self.captions, x.shape[-1]))

    def num_left(self, t):
        """Return the number of remaining captions per photo at time t."""
        return self.captions_left[t]

    def those_left(self, x, num_left):
        """Return (rows, dim) of the remaining captions in x (photos, captions, dim)."""
        left = tf.slice(x, (0, 0, 0), (-1, num_left, -1))
        return tf.reshape(left, (-1, x.shape[-1]))

    def filled_up(self, x, num_left):
        """Reverse `those_left`, with 0 for the captions that have ended."""
        left = tf.reshape(x, (-1, num_left, x.shape[-1]))
        num_ended = self.captions - num_left
        return tf.pad(left, ((0, 0), (0, num_ended), (0, 0)))


# === Matrix products ===


class _LateProduct:
    """The product of a LoopDense with its matrix, whose gradient comes after the loop.

    Attributes:
        inputs: all x_t, (time, rows, input_dim), known after the loop.
    """

    def __init__(self, layer):
        self.layer = layer
        self.dtype = layer.compute_dtype
        self.input_dim = layer.kernel.shape[0]
        self.inputs = None
        kernel = tf.stop_gradient(tf.cast(ops.convert_to_tensor(layer.kernel), self.dtype))
        transposed = tf.transpose(kernel)  # once, not at each step of the backward pass

        @tf.custom_gradient
        def product(x):
            return tf.matmul(x, kernel), lambda upstream: tf.matmul(upstream, transposed)

        self._product = product

    def with_gradient(self, summand):
        """Return `summand` (time, rows, units), whose gradient is dy_t, unchanged.

        The gradient of the matrix is computed from it.
        """

        @tf.custom_gradient
        def unchanged(summand, kernel):
            def gradient(upstream):
                # (input_dim, units)
                kernel_gradient = tf.tensordot(self.inputs, upstream, ((0, 1), (0, 1)))
                return upstream, tf.cast(kernel_gradient, kernel.dtype)

            return tf.identity(summand), gradient

        return unchanged(summand, ops.convert_to_tensor(self.layer.kernel))

    def start_step(self, zeros):
        """Forget the last step; add zeros (rows, units) to x W in this one, or None."""
        self._zeros = zeros
        self._step_inputs = []

    def __call__(self, x):
        self._step_inputs.append(ops.stop_gradient(x))
        y = self._product(x)
        return y if self._zeros is None else y + self._zeros

    def input_of_step(self):
        """Return x_t, what the layer has read in this step."""
        num_calls = len(self._step_inputs)
        if num_calls != 1:
            raise ValueError(
                "In the fast loop, a LoopDense must be called exactly once in each step. Use "
                "keras.layers.Dense for a layer of your own; to call one of the decoder's again, "
                "set decoder.uses_fast_loop = False and compile with run_eagerly=True. Received: "
                f"{num_calls} calls of "
                f"layer={self.layer.path!r}"
            )
        return self._step_inputs[0]


def _with_gradients(products, inputs, summed_layers):
    """Return the inputs, and for each product zeros to add to it, (time, rows, units).

    They pass their gradients to the products. A layer of `summed_layers` uses the first
    input instead of zeros, which are None for it.
    """
    first, *others = inputs
    time, rows = ops.shape(first)[:2]
    zeros = []
    for product in products:
        if product.layer in summed_layers:
            first = product.with_gradient(first)
            zeros.append(None)
        else:
            nothing = tf.zeros((time, rows, product.layer.units), product.dtype)
            zeros.append(product.with_gradient(nothing))
    return [first, *others], zeros


@contextlib.contextmanager
def _late(products, zeros):
    """Let each LoopDense use its product inside a `with` block: one step."""
    for product, zeros_now in zip(products, zeros):
        product.start_step(zeros_now)
    token = late_products.set({product.layer: product for product in products})
    try:
        yield
    finally:
        late_products.reset(token)
