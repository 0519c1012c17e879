"""The decoder predicts the next word from features and previous words; see
show_attend_tell.py for a minimal one.

`step` runs one step, for the search. `call` processes a whole caption, for training:
only the recurrent part (attention and cells) is in its loop; embedding and readout run
before and after it, on all words at once.
"""

import keras
from keras import layers, ops

from keras_sat import equations
from keras_sat.model.cells import CELLS
from keras_sat.model.readout import Readout
from keras_sat.model.scorings import make_attention
from keras_sat.model.selections import ATTENTIONS
from keras_sat.model.states import Decoded, DecoderState, Step, Unrolled, Visible
from keras_sat.options import DecoderOptions, with_options


@keras.saving.register_keras_serializable("keras_sat")
@with_options(DecoderOptions)
class CaptionDecoder(layers.Layer):
    """The decoder of the paper's section 3.1.2. Subclasses in beyond/ override `attend`
    or `read_word`.

    Args:
        vocabulary_size: number of tokens.
        name, dtype, trainable: as for any Keras layer.
        **options: see DecoderOptions.

    Call arguments:
        features: annotation vectors a_i, (photos, regions, feature_dim).
        input_ids: (rows, time); rows is a multiple of photos, and the rows of a photo
            are consecutive.
        noise: Gumbel noise (rows, time, regions) for attention that samples regions;
            None uses the expectation.
        sampled: (rows,), 0 for rows that use the expectation; None samples in all rows.

    Returns: Decoded.
    """

    extra_dims = {}  # name and length of each vector that `attend` returns in `Attended.extras`

    def __init__(self, vocabulary_size, *, name=None, dtype=None, trainable=True, **options):
        # Noise stays in float32.
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)
        self.vocabulary_size = vocabulary_size
        for option, value in DecoderOptions.of("CaptionDecoder", options).to_dict().items():
            setattr(self, option, value)
        policy = {"dtype": self.dtype_policy}
        kind = self.attention, self.scoring, self.attention_dim
        self.attention_layer = make_attention(*kind, name="attention", **policy)
        selection = ATTENTIONS[self.attention]
        self.draws_places, self.chooses = selection.draws_places, selection.chooses
        # If False, attention can run after the recurrent loop.
        self.cells_read_context = self.chooses
        self.embedding = layers.Embedding(
            vocabulary_size, self.embedding_dim, name="embedding", **policy
        )  # E
        cell, size = CELLS[self.cell], self.num_layers * self.hidden_dim
        self.has_cell_states = cell.has_cell_state
        self.cells = [
            cell(self.hidden_dim, name=f"cell_{layer}", **policy)
            for layer in range(self.num_layers)
        ]
        self.initial_hidden = layers.Dense(size, activation="tanh", name="initial_hidden", **policy)
        if self.has_cell_states:
            self.initial_cell = layers.Dense(size, activation="tanh", name="initial_cell", **policy)
        if self.has_gate:
            # a closed gate would hide the features at the start
            is_open = keras.initializers.Constant(3.0)
            self.gate = layers.Dense(
                1, activation="sigmoid", bias_initializer=is_open, name="gate", **policy
            )  # f_beta
        self.drop_embedding = layers.Dropout(self.dropout_embedding, seed=self.seed + 2, **policy)
        self.drop_words = layers.Dropout(self.dropout_words, seed=self.seed + 4, **policy)
        dropouts = self.dropout_before_readout, self.dropout_after_readout
        readout = {
            "embedding_dim": self.embedding_dim,
            "deep_output": self.deep_output,
            "dropouts": dropouts,
            **policy,
        }
        readout |= {"activation": self.readout_activation, "seed": self.seed}
        self.readout = Readout(vocabulary_size, name="readout", **readout)

    @property
    def has_gate(self):
        return self.context_gate and self.chooses

    def build(self, features_shape, input_ids_shape=None):
        feature_dim, state_shape = features_shape[-1], (None, self.hidden_dim)
        self.attention_layer.build(state_shape, features_shape)
        self.embedding.build()
        for layer, cell in enumerate(self.cells):
            cell.build_for(
                self.hidden_dim if layer else self.embedding_dim, None if layer else feature_dim
            )
        self.initial_hidden.build((None, feature_dim))
        if self.has_cell_states:
            self.initial_cell.build((None, feature_dim))
        if self.has_gate:
            self.gate.build(state_shape)
        self.readout.build((None, self.embedding_dim), state_shape, (None, feature_dim))

    def project_features(self, features):
        """Project the features for attention, once per photo.

        For additive attention this is W_a a_i + b.
        """
        return self.attention_layer.project(features)

    def reveal(self, features, visible=None):
        """Return features and projected features of which only the `visible` regions
        (photos, regions) can be seen.
        """
        features = features if visible is None else equations.only_visible(features, visible)
        projected_features = self.project_features(features)
        return features, projected_features if visible is None else Visible(
            projected_features, visible
        )

    def initial_state(self, features, rows_per_photo=1):
        """Return h_0 and c_0, which f_init,h and f_init,c compute from the mean
        annotation vector.
        """
        mean = equations.mean_annotation(features)

        def states(f_init):
            return tuple(
                ops.split(
                    ops.repeat(f_init(mean), rows_per_photo, axis=0), self.num_layers, axis=-1
                )
            )

        return DecoderState(
            states(self.initial_hidden), states(self.initial_cell) if self.has_cell_states else ()
        )

    def step(
        self, input_ids, state, features, projected_features, training=False, noise=None, drop=None
    ):
        """Run one step, given a DecoderState and the previous words `input_ids` of
        shape (rows,); return a Step.

        `projected_features` comes from `project_features`; noise is (rows, regions).
        See Readout for training and drop.
        """
        embedded = self.embed(input_ids, training)
        projected_word = self.cells[0].input_projection(embedded)
        state, attended = self.read_word(projected_word, state, features, projected_features, noise)
        logits = self.readout(
            embedded, state.hidden_states[-1], attended.context, training=training, drop=drop
        )
        return Step(logits, state, *attended[1:])

    def embed(self, input_ids, training):
        """Return the word vectors E y of shape (..., embedding_dim)."""
        embedded = self.drop_embedding(self.embedding(input_ids), training=training)
        if training and self.dropout_words:
            kept = self.drop_words(ops.ones_like(input_ids, dtype=embedded.dtype), training=True)
            embedded = embedded * ops.expand_dims(kept, -1)
        return embedded

    def read_word(
        self, projected_word, state, features, projected_features, noise=None, sampled=None
    ):
        """Attend with h_{t-1}, then pass the word and z_t to the cells.

        Return the next state and Attended.
        """
        attended = self.attend(state, features, projected_features, noise, sampled)
        return self.advance(
            projected_word + self.cells[0].context_projection(attended.context), state
        ), attended

    def attend(self, state, features, projected_features, noise=None, sampled=None):
        """Return Attended for a DecoderState, with the context gated by beta_t."""
        top_hidden = state.hidden_states[-1]
        attended = self.attention_layer(
            top_hidden, features, projected_features, noise=noise, sampled=sampled
        )
        return (
            attended._replace(context=self.gate(top_hidden) * attended.context)
            if self.has_gate
            else attended
        )

    def advance(self, projected_inputs, state):
        """Return the state after the recurrent layers have read the projected word and
        context.
        """
        hidden_states, cell_states = [], []
        for layer, cell in enumerate(self.cells):
            inputs = projected_inputs if layer == 0 else cell.input_projection(hidden_states[-1])
            before = state.cell_states[layer] if self.has_cell_states else None
            hidden_state, *cell_state = cell(inputs, state.hidden_states[layer], before)
            hidden_states.append(hidden_state)
            cell_states += cell_state if self.has_cell_states else []
        return DecoderState(tuple(hidden_states), tuple(cell_states))

    def call(self, features, input_ids, training=False, noise=None, sampled=None):
        embedded, hidden, context, *maps = self.unroll(
            features, input_ids, noise, sampled, training=training
        )
        decoded = Decoded(self.readout(embedded, hidden, context, training=training), *maps)
        return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), decoded)

    def unroll(
        self,
        features,
        input_ids,
        noise=None,
        sampled=None,
        token_weights=None,
        training=False,
        visible=None,
    ):
        """Run the decoder up to the readout and return Unrolled. For the arguments, see
        the class and `reveal`.

        Padding, where `token_weights` (rows, time) is 0, need not be computed.
        """
        features, projected_features = self.reveal(ops.cast(features, self.compute_dtype), visible)
        state = self.initial_state(features, ops.shape(input_ids)[0] // ops.shape(features)[0])
        # Of all words at once, like their projection.
        embedded = self.embed(ops.transpose(input_ids), training)
        start = self.cells[0].input_projection(embedded), state, features, projected_features
        return Unrolled(embedded, *self.read_words(*start, noise, sampled, token_weights))

    def read_words(
        self, projected_words, state, features, projected_features, noise, sampled, token_weights
    ):
        """Run `read_word` in a loop.

        Return h_t and the fields of Attended, each of shape (time, rows, dim).
        """
        # accelerated/install.py replaces this loop with a fast one that skips padding
        # and allows any length in a graph.
        steps = []
        for t in range(projected_words.shape[0]):
            noise_t = None if noise is None else noise[:, t]
            state, attended = self.read_word(
                projected_words[t], state, features, projected_features, noise_t, sampled
            )
            steps.append((state.hidden_states[-1], *attended))
        return keras.tree.map_structure(lambda *times: ops.stack(times), *steps)

    def compute_output_spec(self, features, input_ids, training=False, noise=None, sampled=None):
        """Return the shapes of the outputs, which are always float32, without running
        the loop.
        """
        dims = Decoded(self.vocabulary_size, features.shape[1], features.shape[1], self.extra_dims)
        return keras.tree.map_structure(
            lambda dim: keras.KerasTensor((*input_ids.shape, dim), "float32"), dims
        )

    def get_config(self):
        options = {name: getattr(self, name) for name in DecoderOptions.names()}
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size, **options}
