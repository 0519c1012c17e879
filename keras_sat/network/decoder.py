"""The decoder predicts the next word from features and previous words; see
show_attend_tell.py for a minimal one.

`step` is the whole of one step, from the previous word to the logits of the next, and
returns everything that it computes: searches, traces and votes read it. `call` and
`unroll` process given captions, for training: embedding and readout run on all words at
once, and whole_captions.py loops over `attend_and_advance`. If attention comes after
the cells, the loop has `advance` alone, and `attend` runs on all words at once. So a
decoder of your own overrides these three, and not `step`.

Two variants are not the paper's. With `attends="after"`, the cells read the previous
word before the decoder attends; with a sentinel, part of the context may come from
memory instead of the photo.

Source of both: Lu et al., 2017, Knowing When to Look: Adaptive Attention via a Visual
Sentinel for Image Captioning. Gain here: attending after reading, 40.2 % of attention
is on the boxes instead of 38.9 %, CIDEr is .442 instead of .440; with sentinel and
guide, at least 97 % of the context of "shirt", "red" and "grass" comes from the photo,
but 12 % for "of"; without a guide, at least 96 % for these three comes from memory. See
benchmarks/flickr8k/tried.md and notebooks/rooms/when_to_look.ipynb.
"""

import keras
from keras import layers, ops

from keras_sat import equations
from keras_sat.network.attention import ATTENTIONS, as_regions, make_attention, shape_as_regions
from keras_sat.network.cells import CELLS, LoopDense
from keras_sat.network.fast_twins import fast_twins_are_on
from keras_sat.network.step_records import (
    Decoded,
    DecoderState,
    Look,
    SelectionInputs,
    Step,
    Unrolled,
)
from keras_sat.network.whole_captions import fast_loop, plain_loop
from keras_sat.settings import Network, with_options


@keras.saving.register_keras_serializable("keras_sat")
@with_options(Network)
class CaptionDecoder(layers.Layer):
    """The decoder of the paper's section 3.1.2; see above for its variants.

    Args:
        vocabulary_size: number of tokens.
        settings: Network; None: it is made of `options`.
        name, dtype, trainable: as for any Keras layer.
        **options: the settings by their names, see `keras_sat.settings.Network`.

    Call arguments:
        features: annotation vectors a_i, (photos, regions, feature_dim), or an
            encoder's grid of them, see `keras_sat.network.attention.as_regions`.
        input_ids: (rows, time); rows is a multiple of photos, and the rows of a photo
            are consecutive.
        noise, sampled: see SelectionInputs; noise is (rows, time, regions).

    Returns: Decoded.

    Attributes:
        has_attention, samples_regions: see `keras_sat.network.attention.Selection`.
        uses_fast_loop: whether given captions are read by `fast_loop`, or by
            `plain_loop`.
    """

    def __init__(
        self, vocabulary_size, settings=None, *, name=None, dtype=None, trainable=True, **options
    ):
        # Noise stays in float32.
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)
        self.vocabulary_size = vocabulary_size
        if settings is None:
            settings = Network.of("CaptionDecoder", options)
        self.settings = settings
        selection = ATTENTIONS[settings.attention]
        self.samples_regions = selection.samples_regions
        self.has_attention = selection.has_attention
        self.has_sentinel = settings.sentinel and self.has_attention
        # The softmax over regions and sentinel replaces the gate.
        self.has_gate = settings.context_gate and self.has_attention and not settings.sentinel
        self.uses_fast_loop = True
        cell_class = CELLS[settings.cell]
        self.has_cell_states = cell_class.has_cell_state

        # The names and the order of the layers are those of saved weights.
        policy = {"dtype": self.dtype_policy}
        self.attention_layer = make_attention(
            settings.attention, settings.scoring, settings.attention_dim, name="attention", **policy
        )
        self.embedding = layers.Embedding(
            vocabulary_size, settings.embedding_dim, name="embedding", **policy
        )  # E
        self.cells = [
            cell_class(settings.hidden_dim, name=f"cell_{number}", **policy)
            for number in range(settings.num_layers)
        ]
        state_size = settings.num_layers * settings.hidden_dim
        self.initial_hidden = layers.Dense(
            state_size, activation="tanh", name="initial_hidden", **policy
        )  # f_init,h
        if self.has_cell_states:
            self.initial_cell = layers.Dense(
                state_size, activation="tanh", name="initial_cell", **policy
            )  # f_init,c
        if self.has_gate:
            # a closed gate would hide the features at the start
            is_open = keras.initializers.Constant(3.0)
            self.gate = layers.Dense(
                1, activation="sigmoid", bias_initializer=is_open, name="gate", **policy
            )  # f_beta
        self.drop_words = layers.Dropout(settings.dropout_words, seed=settings.seed + 4, **policy)
        self.readout = Readout(
            vocabulary_size,
            embedding_dim=settings.embedding_dim,
            deep_output=settings.deep_output,
            activation=settings.readout_activation,
            dropouts=(settings.dropout_before_readout, settings.dropout_after_readout),
            seed=settings.seed,
            name="readout",
            **policy,
        )

    @property
    def attends_in_loop(self):
        """Whether attention must run in the loop over the words of given captions,
        because the cells read z_t, or because a subclass has its own way.
        """
        cells_read_context = self.settings.attends == "before" and self.has_attention
        return cells_read_context or self.has_own("attend_and_advance", "attend")

    @property
    def extra_dims(self):
        """Name and length of each vector in `Look.extras`."""
        return {"from_photo": 1} if self.has_sentinel else {}

    def has_own(self, *methods):
        """Return whether a subclass overrides any of these methods, so that the fast
        loop may not assume what they do.
        """
        return any(
            getattr(type(self), name) is not getattr(CaptionDecoder, name) for name in methods
        )

    def build(self, features_shape, input_ids_shape=None):
        """Create the weights."""
        features_shape = shape_as_regions(features_shape)
        _, _, feature_dim = features_shape
        state_shape = (None, self.settings.hidden_dim)
        embedded_shape = (None, self.settings.embedding_dim)
        self.attention_layer.build(state_shape, features_shape)
        self.embedding.build()
        first, *higher = self.cells
        first.build_for(self.settings.embedding_dim, feature_dim)
        for cell in higher:
            cell.build_for(self.settings.hidden_dim)
        self.initial_hidden.build((None, feature_dim))
        if self.has_cell_states:
            self.initial_cell.build((None, feature_dim))
        if self.has_gate:
            self.gate.build(state_shape)
        self.readout.build(embedded_shape, state_shape, (None, feature_dim))
        if self.has_sentinel:
            self.sentinel_layer = Sentinel(feature_dim, name="sentinel", dtype=self.dtype_policy)
            self.sentinel_layer.build(state_shape)

    # === Once per photo ===

    def project_features(self, features):
        """Project the features for attention, once per photo.

        For additive attention this is W_a a_i + b.
        """
        return self.attention_layer.prepare(features)

    def initial_state(self, features, rows_per_photo=1):
        """Return h_0 and c_0, computed from the mean annotation vector by f_init,h and
        f_init,c.
        """
        mean = equations.mean_annotation(as_regions(features))

        def states(f_init):
            of_rows = ops.repeat(f_init(mean), rows_per_photo, axis=0)
            return tuple(ops.split(of_rows, self.settings.num_layers, axis=-1))

        hidden_states = states(self.initial_hidden)
        cell_states = states(self.initial_cell) if self.has_cell_states else ()
        return DecoderState(hidden_states, cell_states)

    # === One step ===

    def step(
        self,
        input_ids,
        state,
        features,
        projected_features,
        training=False,
        noise=None,
        forced_map=None,
        drop=None,
    ):
        """Run one step and return a Step.

        Args:
            input_ids: the previous words y_{t-1}, (rows,).
            state: the DecoderState h_{t-1}, c_{t-1}.
            features: a_i, (photos, regions, feature_dim).
            projected_features: the output of `project_features`.
            noise, forced_map: see SelectionInputs.
            training, drop: see Readout.
        """
        embedded = self.embed(input_ids, training)  # E y_{t-1}, (rows, embedding_dim)
        # Of T [E y_{t-1}; h_{t-1}; z_t] in (1), each part is projected by itself.
        projected_word = self.cells[0].input_projection(embedded)
        state, look, gates = self.attend_and_advance(
            projected_word,
            state,
            features,
            projected_features,
            SelectionInputs(noise, forced_map=forced_map),
        )
        hidden_state = state.hidden_states[-1]  # h_t
        logits = self.readout(  # (7)
            embedded, hidden_state, look.context, training=training, drop=drop
        )
        return Step(logits, state, embedded=embedded, gates=gates, **look._asdict())

    def embed(self, input_ids, training=False):
        """Return the word vectors E y of shape (..., embedding_dim)."""
        embedded = self.embedding(input_ids)
        if training and self.settings.dropout_words:
            kept = self.drop_words(ops.ones_like(input_ids, dtype=embedded.dtype), training=True)
            embedded = embedded * ops.expand_dims(kept, -1)
        return embedded

    def attend_and_advance(
        self, projected_word, state, features, projected_features, selection_inputs
    ):
        """Run the recurrent part of a step: attention and cells, in one order or the
        other. Return the next DecoderState, a Look, and the gates of the top cell.
        """
        if self.settings.attends == "before":  # the paper: z_t depends on h_{t-1}
            look = self.attend(state, features, projected_features, selection_inputs)
            projected_context = self.cells[0].context_projection(look.context)
            state, gates = self.advance(projected_word + projected_context, state)
        else:  # z_t depends on h_t, and only the readout uses it
            projected_mean = self.project_mean(features, rows=ops.shape(projected_word)[0])
            state, gates = self.advance(projected_word + projected_mean, state)
            look = self.attend(state, features, projected_features, selection_inputs)
        return state, look, gates

    def attend(self, state, features, projected_features, selection_inputs):
        """Look at the photo with the state of the top layer; return a Look."""
        hidden_state = state.hidden_states[-1]
        attended = self.attention_layer(  # (4), (5), (8), and (9) or (13)
            hidden_state, features, projected_features, selection_inputs=selection_inputs
        )
        context = photo_context = attended.context
        context_gate = from_photo = sentinel_score = None
        sentinel_context = ops.zeros_like(context)
        if self.has_gate:
            context_gate = self.gate(hidden_state)  # beta_t, (rows, 1)
            context = photo_context = context_gate * photo_context
        if self.has_sentinel:
            sentinel, sentinel_score = self.scored_sentinel(state, attended.query)
            from_photo = equations.share_from_photo(attended.attention_scores, sentinel_score)
            share = ops.cast(from_photo, context.dtype)  # (rows, 1)
            photo_context, sentinel_context = share * photo_context, (1 - share) * sentinel
            context = photo_context + sentinel_context
        return Look(
            context=context,
            attention_weights=attended.attention_weights,
            selection=attended.selection,
            attention_scores=attended.attention_scores if self.has_attention else None,
            context_gate=context_gate,
            from_photo=from_photo,
            sentinel_score=sentinel_score,
            photo_context=photo_context,
            sentinel_context=sentinel_context,
        )

    def scored_sentinel(self, state, query):
        """Return the sentinel, (rows, feature_dim), and its score, (rows, 1): it is
        scored like one more region.
        """
        hidden_state = state.hidden_states[-1]
        memory = state.cell_states[-1] if self.has_cell_states else hidden_state
        sentinel = self.sentinel_layer(hidden_state, memory)
        projected_sentinel = ops.expand_dims(self.attention_layer.project(sentinel), 1)
        return sentinel, self.attention_layer.score(query, projected_sentinel)

    def advance(self, projected_inputs, state):
        """Pass the sum of projected word and projected z_t through the cells, which add
        the projection of h_{t-1}: (1) to (3). Return the next DecoderState, and the
        gates of the top cell.
        """
        hidden_states, cell_states = [], []
        for number, cell in enumerate(self.cells):
            if number > 0:
                projected_inputs = cell.input_projection(hidden_states[-1])
            previous_cell_state = state.cell_states[number] if self.has_cell_states else None
            new_states, gates = cell(
                projected_inputs, state.hidden_states[number], previous_cell_state
            )
            hidden_states.append(new_states[0])
            if self.has_cell_states:
                cell_states.append(new_states[1])
        return DecoderState(tuple(hidden_states), tuple(cell_states)), gates

    def project_mean(self, features, rows):
        """Return what the cells read in place of z_t if attention comes after them: the
        projected mean annotation vector of each row's photo.
        """
        mean = equations.mean_annotation(as_regions(features))
        projected_mean = self.cells[0].context_projection(mean)
        return ops.repeat(projected_mean, rows // ops.shape(features)[0], axis=0)

    # === Whole captions ===

    def call(self, features, input_ids, training=False, noise=None, sampled=None):
        unrolled = self.unroll(features, input_ids, noise, sampled, training=training)
        logits = self.readout(
            unrolled.embedded, unrolled.hidden_states, unrolled.context, training=training
        )
        decoded = Decoded(logits, unrolled.attention_weights, unrolled.selection, unrolled.extras)
        # (time, rows, ...) -> (rows, time, ...)
        return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), decoded)

    def unroll(
        self,
        features,
        input_ids,
        noise=None,
        sampled=None,
        token_weights=None,
        training=False,
        forced_maps=None,
    ):
        """Run the decoder up to the readout and return Unrolled.

        Args:
            features, input_ids, noise, sampled, training: see the class.
            token_weights: (rows, time), 0 for padding, which need not be computed.
            forced_maps: (rows, time, regions). Where such a map is not 0 everywhere, it
                replaces the selected weights of the context.
        """
        features = as_regions(ops.cast(features, self.compute_dtype))
        rows_per_photo = ops.shape(input_ids)[0] // ops.shape(features)[0]
        # All words at once: (time, rows, embedding_dim).
        embedded = self.embed(ops.transpose(input_ids), training)
        loop = fast_loop if self.uses_fast_loop and fast_twins_are_on() else plain_loop
        hidden_states, *maps = loop(
            self,
            self.cells[0].input_projection(embedded),
            self.initial_state(features, rows_per_photo),
            features,
            self.project_features(features),
            SelectionInputs(noise, sampled, forced_maps),
            token_weights,
        )
        return Unrolled(embedded, hidden_states, *maps)

    def compute_output_shape(self, features_shape, input_ids_shape):
        """Return Decoded with the shapes of the outputs."""
        _, regions, _ = shape_as_regions(features_shape)
        dims = Decoded(self.vocabulary_size, regions, regions, self.extra_dims)
        return keras.tree.map_structure(lambda dim: (*input_ids_shape, dim), dims)

    def compute_output_spec(self, features, input_ids, training=False, noise=None, sampled=None):
        """Return the shapes of the outputs, which are always float32, without running
        the loop.
        """
        shapes = self.compute_output_shape(features.shape, input_ids.shape)
        return keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, "float32"), shapes
        )

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            **{name: getattr(self.settings, name) for name in Network.names()},
        }


@keras.saving.register_keras_serializable("keras_sat")
class Sentinel(keras.layers.Layer):
    """The sentinel, a vector made from the cell's memory, that competes with the
    regions in the softmax: words such as "of" are not visible.

    See `equations.sentinel`.
    """

    def __init__(self, feature_dim, **kwargs):
        super().__init__(**kwargs)
        self.feature_dim = feature_dim

    def build(self, hidden_state_shape, memory_shape=None):
        policy = {"dtype": self.dtype_policy}
        self.gate = LoopDense(hidden_state_shape[-1], name="gate", **policy)
        self.projection = LoopDense(self.feature_dim, use_bias=False, name="projection", **policy)
        self.gate.build(hidden_state_shape)
        self.projection.build(hidden_state_shape)

    def call(self, hidden_state, memory):
        return self.projection(equations.sentinel(self.gate(hidden_state), memory))

    def get_config(self):
        return {**super().get_config(), "feature_dim": self.feature_dim}


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
            and of the readout: rewards sample and rate captions with the same masks.

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


# === Classes of earlier versions, read from `.keras` files ===


@keras.saving.register_keras_serializable("keras_sat", name="AttendAfter")
class _AttendAfter(CaptionDecoder):
    """Was CaptionDecoder with `attends="after"`."""

    @classmethod
    def from_config(cls, config):
        return CaptionDecoder.from_config({**config, "attends": "after"})


@keras.saving.register_keras_serializable("keras_sat", name="WithSentinel")
class _WithSentinel(CaptionDecoder):
    """Was CaptionDecoder with `sentinel=True`."""

    @classmethod
    def from_config(cls, config):
        return CaptionDecoder.from_config({**config, "sentinel": True})
