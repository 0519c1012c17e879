"""The loop over the words of a caption, and the dense layers inside it."""

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_sat")
class LoopDense(layers.Dense):
    """A dense layer for the inside of `loop_over_time`; anywhere else it is like any other.

    The gradient of a matrix W in a loop is a sum over the steps, of x_t^T dy_t. To add it up step by step takes a small
    product and a sum of large matrices at each; after the loop it is one product of all x_t with all dy_t, several
    times as fast. So inside the loop W is held constant, and zeros from outside are added to y_t = x_t W: their
    gradient is dy_t, from which `_LateProduct` makes that of W.
    """

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.late_product = None  # a _LateProduct, while a step of a loop is being made

    def call(self, inputs):
        if self.late_product is None:
            return super().call(inputs)
        outputs = self.late_product(inputs)
        return outputs if self.bias is None else outputs + self.bias


def loop_over_time(
    step, state, inputs, output_specs, *, dense_layers=(), summed_layers=(), token_weights=None, photos=None
):
    """Return what `step` gives out at each time, stacked: tensors (time, rows, dim).

    Args:
        step: function of (state, *inputs at one time) that returns the next state and a tuple of outputs (rows, dim).
        state: the state before the first step, a nest of tensors (rows, dim).
        inputs: tuple of tensors (time, rows, dim), or None, which is handed on as it is.
        output_specs: length and dtype of each output at one time.
        dense_layers: every LoopDense that `step` calls, each of them once.
        summed_layers: those of which `step` adds the outputs to the first of the inputs, which enters nothing else: dy_t
            is its gradient then, and they need no zeros.
        token_weights: (rows, time), 0 for padding. With it, captions leave the loop when they have ended: at each time
            `step` sees the first captions of each photo only, as many as have a word left in any of the photos. The
            outputs of the others are 0. It saves work where the captions of a photo come longest first.
        photos: how many photos there are; rows is a multiple of it.
    """
    if keras.config.backend() == "tensorflow":
        late = dense_layers, summed_layers
        return _tensorflow_loop(step, state, inputs, output_specs, *late, token_weights, photos)
    return _scan(step, state, inputs)


def _scan(step, state, inputs):
    """The loop for other backends, whose own loop learns fast."""

    def body(state, turn):
        turn = iter(turn)
        return step(state, *(None if x is None else next(turn) for x in inputs))

    _, outputs = ops.scan(body, state, [x for x in inputs if x is not None])
    return outputs


def _tensorflow_loop(step, state, inputs, output_specs, dense_layers, summed_layers, token_weights, photos):
    """TensorFlow's own loop: one graph for captions of any length, with a gradient that XLA can compile too.

    There, `keras.ops.scan` wants outputs of the shapes of the state, and XLA cannot compile its gradient.
    """
    import tensorflow as tf

    time, rows = ops.shape(inputs[0])[:2]
    captions_leave = token_weights is not None
    captions_left = _captions_left(token_weights, photos) if captions_leave else None
    late = [_LateProduct(layer) for layer in dense_layers]
    zeros = []
    for product in late:
        if product.layer in summed_layers:
            inputs = (product.with_gradient(inputs[0]), *inputs[1:])
            zeros.append(None)
        else:
            zeros.append(
                product.with_gradient(tf.zeros((time, rows, product.layer.units), product.layer.compute_dtype))
            )
    specs = [*output_specs, *((product.layer.kernel.shape[0], product.layer.compute_dtype) for product in late)]

    def by_photo(x):
        """Return (..., rows, dim) as (..., photos, captions, dim), from which captions can leave."""
        before = ops.shape(x)[:-2]
        return tf.reshape(x, (*before, photos, rows // photos, x.shape[-1])) if captions_leave else x

    def in_turn(x):
        if x is None:
            return None
        x = by_photo(x)
        return tf.TensorArray(x.dtype, size=time, element_shape=x.shape[1:]).unstack(x)

    queues, zeros = [in_turn(x) for x in inputs], [in_turn(x) for x in zeros]
    shape = (None, None) if captions_leave else (None,)
    outputs = [tf.TensorArray(dtype, size=time, element_shape=(*shape, dim)) for dim, dtype in specs]

    def body(t, state, outputs):
        if captions_leave:
            left = captions_left[t]
            all_left = (-1, left, -1)
            ended = ((0, 0), (0, rows // photos - left), (0, 0))

        def those_left(x):
            """Return the rows of the captions that are left: of (photos, captions, dim), (rows, dim)."""
            return tf.reshape(tf.slice(x, (0, 0, 0), all_left), (-1, x.shape[-1])) if captions_leave else x

        def filled_up(x):
            """Return the contrary, with zeros for the captions that have ended."""
            return tf.pad(tf.reshape(x, (-1, left, x.shape[-1])), ended) if captions_leave else x

        turn, zeros_now = ([q if q is None else those_left(q.read(t)) for q in some] for some in (queues, zeros))
        for product, x in zip(late, zeros_now):
            product.begin_step(x)
        try:
            state, values = step(tf.nest.map_structure(those_left, state), *turn)
        finally:
            given = [product.end_step() for product in late]
        values = [*values, *given]
        state = tf.nest.map_structure(filled_up, state)
        return t + 1, state, [queue.write(t, filled_up(value)) for queue, value in zip(outputs, values)]

    state = tf.nest.map_structure(by_photo, state)
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape((*shape, x.shape[-1])), state)
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


def _captions_left(token_weights, photos):
    """Return how many captions of each photo, from its first on, have a word left in any of the photos: (time,)."""
    rows, time = ops.shape(token_weights)
    times = ops.arange(1, time + 1)
    lengths = ops.max(ops.where(token_weights > 0, times, 0), axis=1)
    longest = ops.max(ops.reshape(lengths, (photos, -1)), axis=0)  # first captions, second captions, ...
    is_left = longest[:, None] >= times  # (captions, time)
    numbers = ops.arange(1, rows // photos + 1)[:, None]
    return ops.max(ops.where(is_left, numbers, 1), axis=0)


class _LateProduct:
    """What one LoopDense computes in a loop, and the gradient of its matrix, which is made after the loop.

    Attributes:
        layer: the LoopDense.
        inputs: all that the layer was given, (time, rows, input_dim); to be set after the loop.
    """

    def __init__(self, layer):
        import tensorflow as tf

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
        import tensorflow as tf

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
        self._inputs = ops.stop_gradient(x)
        outputs = self._product(x)
        return outputs if self._zeros is None else outputs + self._zeros

    def end_step(self):
        self.layer.late_product = None
        return self._inputs
