"""Show, Attend and Tell (Xu et al., 2015): the paper and nothing else. Read this file
first, from top to bottom.

A convolutional network turns a photo into a grid of L annotation vectors a_i (last
lines of this file). An LSTM writes the caption. Before each word it looks at the grid:
at all of it, with weights ("soft" attention), or at one region that it draws ("hard"
attention). Numbers in parentheses are the paper's equations. Shapes: B captions, C
words, L regions, K words in the vocabulary; D, m, n: sizes of annotation vectors, word
vectors, LSTM. `keras_sat.Captioner` computes the same from the same weights, faster and
with many options: tests/test_show_attend_tell.py compares both.
"""

import keras
import tensorflow as tf
from keras import layers, ops

# Lambda of (14), lambda_r and lambda_e: released code.
PENALTY_WEIGHT, REWARD_WEIGHT, ENTROPY_WEIGHT = 0.33, 0.1, 0.002


class ShowAttendTell(keras.Model):
    """The model of section 3.1.2, p(y_t | a, y_1 .. y_{t-1}): attention, an LSTM and a
    layer that predicts words.
    """

    def __init__(
        self,
        vocabulary_size,
        attention="soft",
        *,
        embedding_dim=512,
        hidden_dim=512,
        attention_dim=512,
    ):
        super().__init__()
        self.attention = attention  # "soft" or "hard"
        self.embedding = layers.Embedding(vocabulary_size, embedding_dim)  # E
        self.initial_hidden = layers.Dense(hidden_dim, activation="tanh")  # f_init,h
        self.initial_cell = layers.Dense(hidden_dim, activation="tanh")  # f_init,c
        # W_a and b: f_att is an MLP with one hidden layer
        self.feature_projection = layers.Dense(attention_dim)
        self.state_projection = layers.Dense(attention_dim, use_bias=False)  # W_h
        self.score = layers.Dense(1, use_bias=False)  # v
        self.gate = layers.Dense(1, activation="sigmoid")  # f_beta
        self.lstm_gates = layers.Dense(4 * hidden_dim)  # T
        self.state_readout = layers.Dense(embedding_dim, use_bias=False)  # L_h
        self.context_readout = layers.Dense(embedding_dim, use_bias=False)  # L_z
        self.word_logits = layers.Dense(vocabulary_size)  # L_o
        self.dropout = layers.Dropout(0.5)
        # b of hard attention
        self.baseline = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.optimizer = keras.optimizers.Adam(4e-4, global_clipnorm=5.0)

    def initial_state(self, a):
        """Return h_0 and c_0 of shape (B, n), from annotation vectors of shape (B, L,
        D).
        """
        return self.initial_hidden(ops.mean(a, axis=1)), self.initial_cell(ops.mean(a, axis=1))

    def attend(self, a, h, noise=None, sampled=None):
        """Return z_t (B, D), alpha_t (B, L) and s_t (B, L).

        With Gumbel noise (B, L), draw s_t where `sampled` is 1.
        """
        # (B, L, size of v)
        hidden = ops.tanh(self.feature_projection(a) + self.state_projection(h)[:, None])
        # (4): e_ti = v . tanh(W_a a_i + b + W_h h_{t-1}), and (5)
        alpha = ops.softmax(self.score(hidden)[:, :, 0])
        s = alpha
        # (8): s_t ~ Multinoulli(alpha_t), which is where log alpha_t + Gumbel noise is
        # highest
        if noise is not None:
            drawn = ops.one_hot(ops.argmax(ops.log(alpha) + noise, axis=-1), alpha.shape[-1])
            s = ops.where(sampled[:, None] > 0, drawn, alpha)
        # (9) for a draw; (13), its expectation, is soft attention
        z = ops.sum(s[:, :, None] * a, axis=1)
        # Times beta_t, section 4.2.1: how much the next word depends on the photo.
        return self.gate(h) * z, alpha, s

    def step(self, a, y, h, c, noise=None, sampled=None, training=False):
        """Run a step from y_{t-1}, h_{t-1} and c_{t-1}.

        Return the logits (B, K) of y_t, h_t, c_t, alpha_t and s_t.
        """
        z, alpha, s = self.attend(a, h, noise, sampled)
        embedded = self.embedding(y)  # E y_{t-1}, (B, m)
        i, f, o, g = ops.split(
            self.lstm_gates(ops.concatenate([embedded, h, z], axis=-1)), 4, axis=-1
        )  # (1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)  # (2)
        h = ops.sigmoid(o) * ops.tanh(c)  # (3)
        readout = (
            embedded
            + self.state_readout(self.dropout(h, training=training))
            + self.context_readout(z)
        )
        # (7), before the softmax
        return self.word_logits(self.dropout(readout, training=training)), h, c, alpha, s

    def call(self, a, input_ids, noise=None, sampled=None, training=False):
        """Return logits (B, C, K), alpha (B, C, L) and s (B, C, L) of whole captions;
        `noise` has shape (B, C, L).
        """
        (h, c), steps = self.initial_state(a), []
        for t in range(input_ids.shape[1]):
            noise_t = None if noise is None else noise[:, t]
            logits, h, c, alpha, s = self.step(a, input_ids[:, t], h, c, noise_t, sampled, training)
            steps.append((logits, alpha, s))
        return [ops.stack(x, axis=1) for x in zip(*steps)]


def objective(model, batch, noise=None, sampled=None, training=False):
    """Return the loss (14), the value to minimise (that loss, or with noise a surrogate
    for (12)), and the next b.
    """
    (a, input_ids), target_ids, token_weights = batch  # as data_utils.make_batches yields it
    input_ids, target_ids, weights = (
        ops.reshape(x, (-1, x.shape[-1])) for x in (input_ids, target_ids, token_weights)
    )
    a = ops.repeat(a, input_ids.shape[0] // a.shape[0], axis=0)  # a photo may have several captions
    # 1 for a caption; 0 for a row of only padding, which completes a batch
    is_caption = weights[:, 0]
    logits, alpha, s = model(a, input_ids, noise, sampled, training=training)
    # Log p(y_t | ..), (B, C)
    word_log_p = -ops.sparse_categorical_crossentropy(target_ids, logits, from_logits=True)
    # (B,): log p(y | a), or log p(y | s, a) where s was drawn
    log_p = ops.sum(word_log_p * weights, axis=1)
    # Doubly stochastic.
    penalty = is_caption * ops.sum((1 - ops.sum(alpha * weights[:, :, None], axis=1)) ** 2, axis=1)
    loss = ops.sum(-log_p + PENALTY_WEIGHT * penalty) / ops.sum(is_caption)  # (14)
    if noise is None:
        return loss, loss, model.baseline
    b, num_drawn = model.baseline, ops.sum(sampled * is_caption)
    # 1e-30: finite where a weight has rounded to 0
    log_alpha = ops.log(alpha + 1e-30) * weights[:, :, None]
    # Log p(s | a), (B,), where s was drawn: `reward` is 0 elsewhere.
    log_p_s = ops.sum(s * log_alpha, axis=(1, 2))
    entropy = -ops.sum(alpha * log_alpha, axis=(1, 2))  # H[s], (B,)
    reward = sampled * ops.stop_gradient(log_p - b)
    # Log p + this has the gradient (12)
    surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy
    # Moving average.
    next_b = ops.where(num_drawn > 0, 0.9 * b + 0.1 * ops.sum(sampled * log_p) / num_drawn, b)
    return loss, loss - ops.sum(surrogate) / ops.sum(is_caption), next_b


def train_step(model, batch):
    """Update the weights once and return the loss (14).

    `tf.function(train_step)` is faster: it runs as a graph.
    """
    (a, input_ids), *_ = batch
    noise = sampled = None
    if model.attention == "hard":
        noise = -ops.log(
            -ops.log(keras.random.uniform((*input_ids.shape, a.shape[1])))
        )  # Gumbel noise
        noise = ops.reshape(noise, (-1, *noise.shape[-2:]))  # (B, C, L)
        # One for each photo: draw, or take the expectation.
        coins = keras.random.uniform(a.shape[:1]) >= 0.5
        sampled = ops.repeat(ops.cast(coins, "float32"), noise.shape[0] // a.shape[0])
    with tf.GradientTape() as tape:
        loss, minimised, next_b = objective(model, batch, noise, sampled, training=True)
    gradients = [
        tf.convert_to_tensor(gradient)
        for gradient in tape.gradient(minimised, model.trainable_variables)
    ]
    model.optimizer.apply(gradients, model.trainable_variables)
    model.baseline.assign(next_b)
    return loss


def caption(model, a, vocabulary, max_length=20):
    """Caption photos by greedy search with the expected z_t.

    Return words and attention maps (words, L) per photo.
    """
    a = ops.cast(a, "float32")
    (h, c), steps = model.initial_state(a), []
    y = ops.full(a.shape[:1], vocabulary.start_token_id, dtype="int32")
    for _ in range(max_length):
        logits, h, c, alpha, _ = model.step(a, y, h, c)
        y = ops.argmax(logits, axis=-1)
        steps.append((y, alpha))
    ids, maps = (ops.convert_to_numpy(ops.stack(x, axis=1)) for x in zip(*steps))
    captions = [vocabulary.ids_to_words(row) for row in ids]  # up to the first <end>
    return [(words, looked[: len(words)]) for words, looked in zip(captions, maps)]


# The paper's grid has L = 14 x 14 regions of D = 512 numbers. For photos (B, 224, 224,
# 3), RGB from 0 to 255:
#   vgg19 = keras.applications.VGG19(include_top=False, input_shape=(224, 224, 3))
#   encoder = keras.Model(vgg19.input, vgg19.get_layer("block5_conv4").output)
#   grid = encoder(keras.applications.vgg19.preprocess_input(photos))
#   a = ops.reshape(grid, (-1, 196, 512))
