"""The decoder: from features and the words so far to the next word.

`step` is one step, for search and pictures. `call` is the same over a whole caption, for training: only what is truly
recurrent (attention and the recurrent cell) stays in its loop; embeddings, deep output and vocabulary are computed for
all words at once, before and after.
"""

import math
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from keras_sat import equations
from keras_sat.checks import check_counts
from keras_sat.model.attention import ATTENTIONS, Attended, Sentinel, make_attention
from keras_sat.model.cells import CELLS
from keras_sat.model.fast.switch import fast_twins_are_on
from keras_sat.options import DecoderOptions, with_options


class DecoderState(NamedTuple):
    """What the decoder remembers: h_t and c_t of each layer, (rows, hidden_dim); a GRU has no cells."""

    hidden_states: tuple
    cell_states: tuple


class Step(NamedTuple):
    """One step of the decoder.

    Attributes:
        logits: (rows, vocabulary), float32; their softmax is p(y_t | a, y_1 .. y_{t-1}), equation (7).
        state: the DecoderState after the step.
        attention_weights: alpha_t, (rows, regions).
        selection: what the context was made from, (rows, regions).
        from_photo: how much of the context comes from the photo, (rows, 1): 1 without a sentinel.
    """

    logits: Any
    state: DecoderState
    attention_weights: Any
    selection: Any
    from_photo: Any


class Thinning(NamedTuple):
    """Which numbers dropout leaves before and after the readout: 0 or 1 / (1 - rate), (rows, dim), for all words."""

    before_readout: Any
    after_readout: Any

    def of_rows(self, rows):
        """Return the Thinning that has these of its rows, by number."""
        return Thinning(*(ops.take(x, rows, axis=0) for x in self))


class Unrolled(NamedTuple):
    """What the loop over a whole caption gives, time first.

    Attributes:
        embedded: E y_{t-1}, (time, rows, embedding_dim).
        hidden_states: h_t, (time, rows, hidden_dim).
        context: z_t, (time, rows, feature_dim).
        attention_weights, selection: (time, rows, regions).
        from_photo: (time, rows, 1).
    """

    embedded: Any
    hidden_states: Any
    context: Any
    attention_weights: Any
    selection: Any
    from_photo: Any


class Decoded(NamedTuple):
    """A whole caption: logits (rows, time, vocabulary), then twice (rows, time, regions), and (rows, time, 1)."""

    logits: Any
    attention_weights: Any
    selection: Any
    from_photo: Any


@keras.saving.register_keras_serializable("keras_sat")
@with_options(DecoderOptions)
class CaptionDecoder(layers.Layer):
    """The decoder of the paper's section 3.1.2, with its options.

    Args:
        vocabulary_size: number of tokens.
        name, dtype, trainable: as of any Keras layer.
        **options: see DecoderOptions.

    Call arguments:
        features: annotation vectors a_i, (photos, regions, feature_dim).
        input_ids: (rows, time); rows is a multiple of photos, with the rows of a photo side by side.
        training: turns dropout on.
        noise: Gumbel noise (rows, time, regions) for attention that draws places; None uses the expectation.
        sampled: (rows,), 0 in rows that use the expectation all the same; None samples in all.

    Returns: Decoded.
    """

    def __init__(self, vocabulary_size, *, name=None, dtype=None, trainable=True, **options):
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)  # noise stays in float32
        check_counts(vocabulary_size=vocabulary_size)
        options = DecoderOptions.of("CaptionDecoder", options)
        self.vocabulary_size = vocabulary_size
        for option, value in options.to_dict().items():
            setattr(self, option, value)

        policy = {"dtype": self.dtype_policy}
        attention = (self.attention, self.scoring, self.attention_dim)
        self.attention_layer = make_attention(
            *attention, sharpness=self.attention_sharpness, name="attention", **policy
        )
        self.grid_of = square_grid  # from a number of regions to their (rows, columns): a captioner knows better
        self.embedding = layers.Embedding(vocabulary_size, self.embedding_dim, name="embedding", **policy)  # E
        cell = CELLS[self.cell]
        self.cells = [cell(self.hidden_dim, name=f"cell_{layer}", **policy) for layer in range(self.num_layers)]
        size = self.num_layers * self.hidden_dim
        self.initial_hidden = layers.Dense(size, activation="tanh", name="initial_hidden", **policy)
        if cell.has_cell_state:
            self.initial_cell = layers.Dense(size, activation="tanh", name="initial_cell", **policy)
        if self.has_gate:
            # f_beta, open at first: closed before attention knows where to look, it would hide the features from it.
            bias = keras.initializers.Constant(3.0)
            self.gate = layers.Dense(1, activation="sigmoid", bias_initializer=bias, name="gate", **policy)
        if self.deep_output:
            readout = {"units": self.embedding_dim, "use_bias": False, **policy}
            self.state_readout = layers.Dense(name="state_readout", **readout)  # L_h
            self.context_readout = layers.Dense(name="context_readout", **readout)  # L_z
        self.activate_readout = layers.Activation(self.readout_activation, name="activate_readout", **policy)
        seed = self.seed
        self.drop_before = layers.Dropout(self.dropout_before_readout, seed=seed, name="drop_before", **policy)
        self.drop_after = layers.Dropout(self.dropout_after_readout, seed=seed + 1, name="drop_after", **policy)
        self.drop_embedding = layers.Dropout(self.dropout_embedding, seed=seed + 2, name="drop_embedding", **policy)
        self.drop_words = layers.Dropout(self.dropout_words, seed=seed + 4, name="drop_words", **policy)
        self.word_logits = layers.Dense(vocabulary_size, name="word_logits", **policy)  # L_o

    def build(self, features_shape, input_ids_shape=None):
        feature_dim = features_shape[-1]
        state_shape = (None, self.hidden_dim)
        self.attention_layer.build(state_shape, features_shape)
        if self.has_sentinel:
            policy = {"dtype": self.dtype_policy}
            self.sentinel_layer = Sentinel(feature_dim, name="sentinel", **policy)
            self.sentinel_layer.build(state_shape)
        self.embedding.build()
        for layer, cell in enumerate(self.cells):
            first = layer == 0
            cell.build_for(self.embedding_dim if first else self.hidden_dim, feature_dim if first else None)
        self.initial_hidden.build((None, feature_dim))
        if self.has_cell_states:
            self.initial_cell.build((None, feature_dim))
        if self.has_gate:
            self.gate.build(state_shape)
        if self.deep_output:
            self.state_readout.build(state_shape)
            self.context_readout.build((None, feature_dim))
        self.word_logits.build((None, self.embedding_dim if self.deep_output else self.hidden_dim + feature_dim))

    @property
    def has_cell_states(self):
        return CELLS[self.cell].has_cell_state

    @property
    def draws_places(self):
        """Whether attention draws regions while training, for which it needs noise."""
        return ATTENTIONS[self.attention].draws_places

    @property
    def chooses(self):
        """Whether attention prefers some regions to others."""
        return ATTENTIONS[self.attention].chooses

    @property
    def has_sentinel(self):
        return self.sentinel and self.chooses

    @property
    def has_gate(self):
        """Whether there is beta_t of the paper; with a sentinel that weighs the context."""
        return self.context_gate and self.chooses and not self.sentinel

    # === One step ===

    def project_features(self, features):
        """Return W_a a_i + b, or whatever else the scoring needs of each photo once: `projected_features`."""
        if self.attention_smoothing and self.chooses:
            features = equations.smoothed(features, self.grid_of(features.shape[1]), self.attention_smoothing)
        return self.attention_layer.project(features)

    def initial_state(self, features, rows_per_photo=1):
        """Return h_0 and c_0, made of the mean annotation vector by f_init,h and f_init,c."""
        mean = equations.mean_annotation(features)
        hidden_states = ops.split(self.initial_hidden(mean), self.num_layers, axis=-1)
        cell_states = ops.split(self.initial_cell(mean), self.num_layers, axis=-1) if self.has_cell_states else ()
        return DecoderState(
            *(tuple(_repeat(s, rows_per_photo) for s in states) for states in (hidden_states, cell_states))
        )

    def step(self, input_ids, state, features, projected_features, training=False, noise=None, thinning=None):
        """Return the Step that follows on `input_ids` (rows,), y_{t-1}.

        Args:
            input_ids: the words before, (rows,).
            state: DecoderState.
            features: (photos, regions, feature_dim); rows is a multiple of photos.
            projected_features: what `project_features` returned.
            training: turns dropout on.
            noise: Gumbel noise (rows, regions) for attention that draws places; None uses the expectation.
            thinning: Thinning that takes the place of the readout's dropout.
        """
        embedded = self._embedded(input_ids, training)
        projected_word = self.cells[0].input_projection(embedded)
        if self.attends == "before":  # as in the paper: from h_{t-1}, and the context is read with the word
            attended = self.attend(state, features, projected_features, noise=noise)
            state = self.advance(projected_word + self.cells[0].context_projection(attended.context), state)
        else:  # from h_t, which has read the word
            state = self.advance(projected_word + self.overview(features, ops.shape(input_ids)[0]), state)
            attended = self.attend(state, features, projected_features, noise=noise)
        logits = self.readout(embedded, state.hidden_states[-1], attended.context, training, thinning)
        return Step(logits, state, *attended[1:])

    def _embedded(self, input_ids, training):
        """Return E y of the words, (..., embedding_dim)."""
        embedded = self.drop_embedding(self.embedding(input_ids), training=training)
        if not (training and self.dropout_words):
            return embedded
        kept = self.drop_words(ops.ones_like(input_ids, dtype=embedded.dtype), training=True)
        return embedded * ops.expand_dims(kept, -1)

    def attend(self, state, features, projected_features, noise=None, sampled=None):
        """Return the Attended of a DecoderState, its context gated."""
        top_hidden = state.hidden_states[-1]
        chance = {"noise": noise, "sampled": sampled}
        if self.has_sentinel:
            memory = state.cell_states[-1] if self.has_cell_states else top_hidden
            chance["sentinel"] = self.sentinel_layer(top_hidden, memory)
        attended = self.attention_layer(top_hidden, features, projected_features, **chance)
        if not self.has_gate:
            return attended
        return attended._replace(context=self.gate(top_hidden) * attended.context)  # beta_t

    def attend_at_all_times(self, top_states, features, projected_features, noise=None, sampled=None):
        """Return the Attended of all states of captions that attend after reading: its parts are (time, rows, dim).

        Args:
            top_states: h_t of the top layer and, of a cell that has one, c_t: tensors (time, rows, hidden_dim).
            features, projected_features, sampled: see `attend`.
            noise: (rows, time, regions), or None.
        """
        time, rows = ops.shape(top_states[0])[:2]

        def by_photo(x):  # the rows of a photo side by side, each with its words
            return ops.reshape(ops.swapaxes(x, 0, 1), (-1, x.shape[-1]))

        hidden_states, *cell_states = map(by_photo, top_states)
        states = DecoderState((hidden_states,), tuple(cell_states))
        noise = None if noise is None else ops.reshape(noise, (-1, noise.shape[-1]))
        sampled = None if sampled is None else ops.repeat(sampled, time)
        attended = self.attend(states, features, projected_features, noise, sampled)
        return Attended(*(ops.swapaxes(ops.reshape(x, (rows, time, x.shape[-1])), 0, 1) for x in attended))

    def overview(self, features, rows):
        """Return what recurrent layers that attend after reading see of the photo: its mean annotation vector.

        Lu et al. (2017) give them that with each word; it is the same at all times. (rows, dim), projected.
        """
        projected = self.cells[0].context_projection(equations.mean_annotation(features))
        return _repeat(projected, rows // ops.shape(features)[0])

    def advance(self, projected_inputs, state):
        """Return the state after the recurrent layers have seen the projected word and context."""
        hidden_states, cell_states = [], []
        for layer, cell in enumerate(self.cells):
            inputs = projected_inputs if layer == 0 else cell.input_projection(hidden_states[-1])
            cell_state = state.cell_states[layer] if self.has_cell_states else None
            hidden_state, *cell_state = cell(inputs, state.hidden_states[layer], cell_state)
            hidden_states.append(hidden_state)
            cell_states += cell_state if self.has_cell_states else []
        return DecoderState(tuple(hidden_states), tuple(cell_states))

    def readout(self, embedded, hidden_state, context, training, thinning=None):
        """Return the logits of equation (7): of one step, or of a whole caption at once.

        With `thinning`, a Thinning of rows that broadcast to those of the others, dropout draws nothing of its own.
        """
        if thinning is None:
            hidden_state = self.drop_before(hidden_state, training=training)
        else:
            hidden_state = hidden_state * thinning.before_readout
        if self.deep_output:
            projected = self.state_readout(hidden_state), self.context_readout(context)
            readout = equations.deep_output(embedded, *projected)
        else:
            readout = ops.concatenate([hidden_state, context], axis=-1)
        readout = self.activate_readout(readout)
        readout = self.drop_after(readout, training=training) if thinning is None else readout * thinning.after_readout
        return ops.cast(self.word_logits(readout), "float32")

    def thin(self, rows):
        """Return a Thinning of so many rows: the readout's dropout, drawn once for a whole caption."""
        sizes = self.hidden_dim, self.word_logits.kernel.shape[0]
        ones = (ops.ones((rows, size), self.compute_dtype) for size in sizes)
        drops = self.drop_before, self.drop_after
        return Thinning(*(drop(x, training=True) for drop, x in zip(drops, ones)))

    # === A whole caption ===

    def call(self, features, input_ids, training=False, noise=None, sampled=None):
        unrolled = self.unroll(features, input_ids, noise=noise, sampled=sampled, training=training)
        logits = self.readout(unrolled.embedded, unrolled.hidden_states, unrolled.context, training)
        decoded = logits, unrolled.attention_weights, unrolled.selection, unrolled.from_photo
        return Decoded(*(ops.swapaxes(x, 0, 1) for x in decoded))

    def unroll(self, features, input_ids, noise=None, sampled=None, token_weights=None, training=False):
        """Return the Unrolled captions: all that comes before the readout. See `call` for the arguments.

        The loop over the words is written out here. On TensorFlow its fast twin takes its place, which gives the same
        numbers for all words that are not padding; `keras_sat.model.fast.switch.without_fast_twins` leaves it out.

        Args:
            token_weights: (rows, time), 0 for padding: what comes behind a caption's end need not be computed. None
                computes all.
            training: turns the dropout of word vectors on.
        """
        features = ops.cast(features, self.compute_dtype)
        state = self.initial_state(features, ops.shape(input_ids)[0] // ops.shape(features)[0])
        projected_features = self.project_features(features)
        embedded = self._embedded(ops.transpose(input_ids), training)  # of all words at once, as their projection is
        projected_words = self.cells[0].input_projection(embedded)
        if self.attends == "after":
            projected_words = projected_words + self.overview(features, ops.shape(input_ids)[0])
        if fast_twins_are_on() and keras.config.backend() == "tensorflow":
            from keras_sat.model.fast.unroll import unroll  # loads TensorFlow, which other backends do without

            given = state, features, projected_features, projected_words, noise, sampled, token_weights
            return Unrolled(embedded, *unroll(self, *given))

        top_states, attended = [], []
        for t in range(_num_words(input_ids)):
            projected_inputs = projected_words[t]
            if self.attends == "before":
                noise_now = None if noise is None else noise[:, t]
                attended.append(self.attend(state, features, projected_features, noise_now, sampled))
                projected_inputs = projected_inputs + self.cells[0].context_projection(attended[t].context)
            state = self.advance(projected_inputs, state)
            top_states.append([of_layers[-1] for of_layers in state if of_layers])
        top_states = [ops.stack(x) for x in zip(*top_states)]
        if self.attends == "before":
            attended = Attended(*(ops.stack(x) for x in zip(*attended)))
        else:
            attended = self.attend_at_all_times(top_states, features, projected_features, noise, sampled)
        return Unrolled(embedded, top_states[0], *attended)

    def compute_output_spec(self, features, input_ids, training=False, noise=None, sampled=None):
        """Return what `call` gives, without its loop: float32 at any precision."""
        dims = (self.vocabulary_size, features.shape[1], features.shape[1], 1)
        return Decoded(*(keras.KerasTensor((*input_ids.shape, dim), "float32") for dim in dims))

    def vocabulary_axes(self):
        """Return which axis of which weights stands for the tokens: dict from the path of a weight to its axis."""
        return {
            self.embedding.embeddings.path: 0,
            self.word_logits.kernel.path: 1,
            self.word_logits.bias.path: 0,
        }

    def get_config(self):
        options = {name: getattr(self, name) for name in DecoderOptions.names()}
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size, **options}


def square_grid(regions):
    """Return the (rows, columns) of a grid of so many regions where nobody says more: a square, if it can be one."""
    rows = math.isqrt(regions)
    return (rows, regions // rows) if regions % rows == 0 else (1, regions)


def _repeat(x, times):
    """Return each row `times` times, side by side."""
    photos, dim = ops.shape(x)
    return ops.reshape(ops.broadcast_to(ops.expand_dims(x, 1), (photos, times, dim)), (-1, dim))


def _num_words(input_ids):
    """Return the number of words that the plain loop goes through."""
    num_words = input_ids.shape[1]
    if num_words is None:
        raise ValueError(
            "The plain loop over the words must know how many there are, and a graph for captions of any length does "
            "not: pass `run_eagerly=True` to `compile`, or captions of one length. "
            f"Received: input_ids of shape {tuple(input_ids.shape)}"
        )
    return num_words
