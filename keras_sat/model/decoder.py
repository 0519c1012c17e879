"""The decoder predicts the next word from features and previous words; see
show_attend_tell.py for a minimal one.

`step` runs one step, for the search. `call` processes a whole caption, for training:
only the recurrent part (attention and cells) is in its loop, see readers.py; embedding
and readout run before and after it, on all words at once.
"""

import keras
from keras import layers, ops

from keras_sat import equations
from keras_sat.accelerated.switch import fast_twins_are_on
from keras_sat.model.attention import as_regions, shape_as_regions
from keras_sat.model.cells import CELLS
from keras_sat.model.readers import READERS, has_fast_twin
from keras_sat.model.readout import Readout
from keras_sat.model.scorings import make_attention
from keras_sat.model.selections import ATTENTIONS
from keras_sat.model.states import Decoded, DecoderState, SelectionInputs, Step, Unrolled
from keras_sat.settings import Decoder, with_options


@keras.saving.register_keras_serializable("keras_sat")
@with_options(Decoder)
class CaptionDecoder(layers.Layer):
    """The decoder of the paper's section 3.1.2. Subclasses in beyond/ override `attend`
    or `read_word`, which `keras_sat.trace.reading` must know, or it rejects them.

    Args:
        vocabulary_size: number of tokens.
        settings: Decoder; None: they are made of `options`.
        name, dtype, trainable: as for any Keras layer.
        **options: the settings by their names, see `keras_sat.settings.Decoder`.

    Call arguments:
        features: annotation vectors a_i, (photos, regions, feature_dim), or an
            encoder's grid of them, see `keras_sat.model.attention.as_regions`.
        input_ids: (rows, time); rows is a multiple of photos, and the rows of a photo
            are consecutive.
        noise, sampled: see SelectionInputs; noise is (rows, time, regions).

    Returns: Decoded.

    Attributes:
        reader: a name in READERS: how `unroll` loops over the words of captions.
        extra_dims: name and length of each vector that `attend` returns in
            `Attended.extras`.
        chooses, draws_places: see `keras_sat.model.selections.Selection`.
        cells_read_context: whether the cells read the context of each step. If not,
            attention can run after the recurrent loop.
    """

    extra_dims = {}

    def __init__(
        self, vocabulary_size, settings=None, *, name=None, dtype=None, trainable=True, **options
    ):
        # Noise stays in float32.
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)
        self.vocabulary_size = vocabulary_size
        if settings is None:
            settings = Decoder.of("CaptionDecoder", options)
        self.settings = settings
        selection = ATTENTIONS[settings.attention]
        self.draws_places = selection.draws_places
        self.chooses = selection.chooses
        self.cells_read_context = self.chooses
        self.reader = "plain"
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
    def has_gate(self):
        """Whether the context is multiplied by the gate beta_t."""
        return self.settings.context_gate and self.chooses

    def build(self, features_shape, input_ids_shape=None):
        """Create the weights, and choose the reader."""
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
        # Where the cells do not read the context, the fast reader does without
        # `read_word`: that of a subclass must not be passed over.
        has_fast_twin = getattr(type(self).read_word, "has_fast_twin", False)
        self.reader = "fast" if self.cells_read_context or has_fast_twin else "plain"

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
        self, input_ids, state, features, projected_features, training=False, noise=None, drop=None
    ):
        """Run one step and return a Step.

        Args:
            input_ids: the previous words, (rows,).
            state: DecoderState.
            features: (photos, regions, feature_dim).
            projected_features: the output of `project_features`.
            noise: Gumbel noise (rows, regions), or None.
            training, drop: see Readout.
        """
        embedded = self.embed(input_ids, training)
        projected_word = self.cells[0].input_projection(embedded)
        state, attended = self.read_word(
            projected_word, state, features, projected_features, SelectionInputs(noise)
        )
        logits = self.readout(
            embedded, state.hidden_states[-1], attended.context, training=training, drop=drop
        )
        return Step(logits, state, attended.attention_weights, attended.selection, attended.extras)

    def embed(self, input_ids, training):
        """Return the word vectors E y of shape (..., embedding_dim)."""
        embedded = self.embedding(input_ids)
        if training and self.settings.dropout_words:
            kept = self.drop_words(ops.ones_like(input_ids, dtype=embedded.dtype), training=True)
            embedded = embedded * ops.expand_dims(kept, -1)
        return embedded

    @has_fast_twin
    def read_word(self, projected_word, state, features, projected_features, selection_inputs):
        """Attend with h_{t-1}, then pass the word and z_t to the cells.

        Return the next state and Attended.
        """
        attended = self.attend(state, features, projected_features, selection_inputs)
        projected_context = self.cells[0].context_projection(attended.context)
        state = self.advance(projected_word + projected_context, state)
        return state, attended

    def attend(self, state, features, projected_features, selection_inputs):
        """Return Attended for a DecoderState, with the context gated by beta_t."""
        top_hidden = state.hidden_states[-1]
        attended = self.attention_layer(
            top_hidden, features, projected_features, selection_inputs=selection_inputs
        )
        if not self.has_gate:
            return attended
        return attended._replace(context=self.gate(top_hidden) * attended.context)

    def advance(self, projected_inputs, state):
        """Return the state after the cells have read the projected word and context."""
        hidden_states, cell_states = [], []
        for number, cell in enumerate(self.cells):
            if number > 0:
                projected_inputs = cell.input_projection(hidden_states[-1])
            previous_cell_state = state.cell_states[number] if self.has_cell_states else None
            new_states = cell(projected_inputs, state.hidden_states[number], previous_cell_state)
            hidden_states.append(new_states[0])
            if self.has_cell_states:
                cell_states.append(new_states[1])
        return DecoderState(tuple(hidden_states), tuple(cell_states))

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
        projected_features = self.project_features(features)
        rows_per_photo = ops.shape(input_ids)[0] // ops.shape(features)[0]
        state = self.initial_state(features, rows_per_photo)
        # All words at once: (time, rows, embedding_dim).
        embedded = self.embed(ops.transpose(input_ids), training)
        projected_words = self.cells[0].input_projection(embedded)
        read_words = READERS[self.reader if fast_twins_are_on() else "plain"]
        hidden_states, *attended = read_words(
            self,
            projected_words,
            state,
            features,
            projected_features,
            SelectionInputs(noise, sampled, forced_maps),
            token_weights,
        )
        return Unrolled(embedded, hidden_states, *attended)

    def compute_output_shape(self, features_shape, input_ids_shape):
        """Return Decoded with the shapes of the outputs."""
        _, regions, _ = shape_as_regions(features_shape)
        dims = Decoded(self.vocabulary_size, regions, regions, self.extra_dims)
        return keras.tree.map_structure(lambda dim: (*input_ids_shape, dim), dims)

    def compute_output_spec(self, features, input_ids, training=False, noise=None, sampled=None):
        """Return the shapes of the outputs, which are always float32, without running
        the loop.
        """
        _, regions, _ = shape_as_regions(features.shape)
        dims = Decoded(self.vocabulary_size, regions, regions, self.extra_dims)
        return keras.tree.map_structure(
            lambda dim: keras.KerasTensor((*input_ids.shape, dim), "float32"), dims
        )

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            **{name: getattr(self.settings, name) for name in Decoder.names()},
        }
