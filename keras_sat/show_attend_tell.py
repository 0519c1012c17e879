"""Show, Attend and Tell (Xu et al., 2015): the paper and nothing else.

Read this file first, from top to bottom.

A convolutional network turns a photo into a grid of L annotation vectors a_i (last
lines of this file). An LSTM writes the caption. Before each word it looks at the grid:
at all of it, with weights ("soft" attention), or at one region that it draws ("hard"
attention). Numbers in parentheses are the paper's equations.

Shapes are at the ends of lines: B captions, C words, L regions, K words in the
vocabulary; D, m, n, A: sizes of annotation vectors, word vectors, LSTM, and of the
hidden layer of f_att.

`keras_sat.Captioner` computes the same from the same weights, faster and with many
options: tests/test_show_attend_tell.py compares both.
"""

import keras
import tensorflow as tf
from keras import layers, ops

# The paper gives no values. These follow from the code that its authors released. Its
# script for COCO has a lambda of 1, but averages the penalty over 196 regions and sums
# it over a batch of 64 captions. Here it is summed over regions, as in (14), and
# averaged over captions.
PENALTY_WEIGHT = 0.33  # lambda of (14): 64 / 196
REWARD_WEIGHT = 0.1  # lambda_r of (12)
ENTROPY_WEIGHT = 0.002  # lambda_e of (12)


class ShowAttendTell(keras.Model):
    """The model of section 3.1.2: p(y_t | a, y_1 .. y_{t-1})."""

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
        # f_att is an MLP with one hidden layer:
        self.feature_projection = layers.Dense(attention_dim)  # W_a and b of (4)
        self.state_projection = layers.Dense(attention_dim, use_bias=False)  # W_h
        self.score = layers.Dense(1, use_bias=False)  # v
        self.gate = layers.Dense(1, activation="sigmoid")  # f_beta
        self.lstm_gates = layers.Dense(4 * hidden_dim)  # T
        self.state_readout = layers.Dense(embedding_dim, use_bias=False)  # L_h
        self.context_readout = layers.Dense(embedding_dim, use_bias=False)  # L_z
        self.word_logits = layers.Dense(vocabulary_size)  # L_o
        self.dropout = layers.Dropout(0.5)
        # b of (12):
        self.baseline = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.optimizer = keras.optimizers.Adam(4e-4, global_clipnorm=5.0)

    def initial_state(self, a):
        """Return h_0 and c_0."""
        mean_a = ops.mean(a, axis=1)  # (B, D)
        return self.initial_hidden(mean_a), self.initial_cell(mean_a)  # (B, n), (B, n)

    def attend(self, a, old_h, noise=None, sampled=None):
        """Return beta_t z_t, the attention weights alpha_t, and the selection s_t.

        With Gumbel noise (B, L), s_t is drawn where `sampled` (B,) is 1, and is alpha_t
        where it is 0. `train_step` tosses a coin for each photo, as in section 4.1:
        gradients of the expectation have less variance than those of draws.
        """
        # (4): e_ti = v . tanh(W_a a_i + b + W_h h_{t-1})
        projected_photo = self.feature_projection(a)  # (B, L, A)
        projected_h = self.state_projection(old_h)  # (B, A)
        hidden = ops.tanh(projected_photo + projected_h[:, None])  # (B, L, A)
        e = self.score(hidden)[:, :, 0]  # (B, L)
        alpha = ops.softmax(e)  # (5), (B, L)

        s = alpha
        if sampled is not None:
            # (8): s_t ~ Multinoulli(alpha_t) is where log alpha_t + noise is highest
            place = ops.argmax(ops.log(alpha) + noise, axis=-1)  # (B,)
            drawn = ops.one_hot(place, alpha.shape[-1])  # (B, L)
            s = ops.where(sampled[:, None] > 0, drawn, alpha)  # (B, L)

        # (9) for a draw; (13), its expectation, is soft attention
        z = ops.sum(s[:, :, None] * a, axis=1)  # (B, D)
        # Section 4.2.1: how much does the next word depend on the photo?
        beta = self.gate(old_h)  # (B, 1)
        gated_z = beta * z  # (B, D)
        return gated_z, alpha, s

    def step(self, a, y, old_h, old_c, noise=None, sampled=None, training=False):
        """Read y_{t-1}; return the logits of y_t, and h_t, c_t, alpha_t and s_t."""
        gated_z, alpha, s = self.attend(a, old_h, noise, sampled)
        word = self.embedding(y)  # E y_{t-1}, (B, m)

        gates = self.lstm_gates(ops.concatenate([word, old_h, gated_z], axis=-1))  # (B, 4n)
        before_i, before_f, before_o, before_g = ops.split(gates, 4, axis=-1)  # (B, n) each
        i, f, o = ops.sigmoid(before_i), ops.sigmoid(before_f), ops.sigmoid(before_o)
        g = ops.tanh(before_g)  # with the line above: (1)
        c = f * old_c + i * g  # (2), (B, n)
        h = o * ops.tanh(c)  # (3), (B, n)

        # (7), before the softmax: L_o(E y_{t-1} + L_h h_t + L_z z_t)
        h_term = self.state_readout(self.dropout(h, training=training))  # (B, m)
        z_term = self.context_readout(gated_z)  # (B, m)
        readout = self.dropout(word + h_term + z_term, training=training)  # (B, m)
        logits = self.word_logits(readout)  # (B, K)
        return logits, h, c, alpha, s

    def call(self, a, input_ids, noise=None, sampled=None, training=False):
        """Return logits (B, C, K), alpha (B, C, L) and s (B, C, L) of whole captions.

        `input_ids` are (B, C), noise is (B, C, L).
        """
        h, c = self.initial_state(a)
        steps = []
        for t in range(input_ids.shape[1]):
            y = input_ids[:, t]  # (B,)
            noise_t = None if noise is None else noise[:, t]
            logits, h, c, alpha, s = self.step(a, y, h, c, noise_t, sampled, training)
            steps.append((logits, alpha, s))
        return [ops.stack(outputs, axis=1) for outputs in zip(*steps)]


def objective(model, batch, noise=None, sampled=None, training=False):
    """Return the loss (14), `minimised`, and the next baseline.

    `minimised` is the loss where nothing is drawn. With draws it is the loss minus a
    surrogate; its gradient estimates that of the penalty minus (12), which should rise.
    """
    (a, input_ids), target_ids, token_weights = batch  # as data_utils.make_batches yields it
    input_ids = ops.reshape(input_ids, (-1, input_ids.shape[-1]))  # (B, C)
    target_ids = ops.reshape(target_ids, (-1, target_ids.shape[-1]))  # (B, C)
    is_word = ops.reshape(token_weights, (-1, token_weights.shape[-1]))  # (B, C), 0 for padding
    # A photo may have several captions:
    a = ops.repeat(a, input_ids.shape[0] // a.shape[0], axis=0)  # (B, L, D)
    # A row of only padding completes a batch, and is no caption:
    is_caption = is_word[:, 0]  # (B,)
    num_captions = ops.sum(is_caption)

    logits, alpha, s = model(a, input_ids, noise, sampled, training=training)
    # log p(y_t | a, y_1 .. y_{t-1}), (B, C):
    word_log_p = -ops.sparse_categorical_crossentropy(target_ids, logits, from_logits=True)
    # log p(y | a), or log p(y | s, a) where s was drawn:
    log_p = ops.sum(word_log_p * is_word, axis=1)  # (B,)
    # Doubly stochastic: over the caption, each region should get a total of 1.
    total_attention = ops.sum(alpha * is_word[:, :, None], axis=1)  # (B, L)
    penalty = is_caption * ops.sum((1 - total_attention) ** 2, axis=1)  # (B,)
    loss = ops.sum(-log_p + PENALTY_WEIGHT * penalty) / num_captions  # (14)
    baseline = model.baseline
    if sampled is None:
        return loss, loss, baseline

    log_alpha_of_all = ops.log(alpha + 1e-30)  # finite where alpha has rounded to 0
    log_alpha = log_alpha_of_all * is_word[:, :, None]  # (B, C, L), 0 for padding
    # log p(s | a) where s was drawn; elsewhere `reward` is 0:
    log_p_s = ops.sum(s * log_alpha, axis=(1, 2))  # (B,)
    entropy = -ops.sum(alpha * log_alpha, axis=(1, 2))  # H[s], (B,)
    # A number: the gradient of log_p itself is already in that of the loss.
    reward = sampled * ops.stop_gradient(log_p - baseline)  # (B,)
    # The gradient of log_p + surrogate estimates (12), for maximising:
    surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy  # (B,)
    minimised = loss - ops.sum(surrogate) / num_captions

    # The moving average of section 4.1, over the captions for which s was drawn:
    num_drawn = ops.sum(sampled * is_caption)
    next_baseline = 0.9 * baseline + 0.1 * ops.sum(sampled * log_p) / num_drawn
    return loss, minimised, ops.where(num_drawn > 0, next_baseline, baseline)


def train_step(model, batch):
    """Update the weights once, and return the loss (14).

    `tf.function(train_step)` is faster: it runs as a graph.
    """
    (a, input_ids), *_ = batch
    noise = sampled = None
    if model.attention == "hard":
        uniform = keras.random.uniform((*input_ids.shape, a.shape[1]))
        noise = -ops.log(-ops.log(uniform))  # Gumbel noise
        noise = ops.reshape(noise, (-1, *noise.shape[-2:]))  # (B, C, L)
        # A coin for each photo: draw, or take the expectation.
        coins = keras.random.uniform(a.shape[:1]) >= 0.5  # (photos,)
        captions_per_photo = noise.shape[0] // a.shape[0]
        sampled = ops.repeat(ops.cast(coins, "float32"), captions_per_photo)  # (B,)

    with tf.GradientTape() as tape:
        loss, minimised, next_baseline = objective(model, batch, noise, sampled, training=True)
    weights = model.trainable_variables
    gradients = tape.gradient(minimised, weights)
    # That of the word vectors is sparse: rows of the same word are added.
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    model.optimizer.apply(gradients, weights)
    model.baseline.assign(next_baseline)
    return loss


def caption(model, a, vocabulary, max_length=20):
    """Caption photos by greedy search with the expected z_t.

    Return the words and the attention maps (words, L) of each photo.
    """
    a = ops.cast(a, "float32")  # (B, L, D)
    h, c = model.initial_state(a)
    y = ops.full(a.shape[:1], vocabulary.start_token_id, dtype="int32")  # (B,)
    steps = []
    for _ in range(max_length):
        logits, h, c, alpha, _ = model.step(a, y, h, c)
        y = ops.argmax(logits, axis=-1)  # (B,)
        steps.append((y, alpha))
    ids, maps = (ops.convert_to_numpy(ops.stack(x, axis=1)) for x in zip(*steps))

    captions = []
    for photo_ids, photo_maps in zip(ids, maps):
        words = vocabulary.ids_to_words(photo_ids)  # up to the first <end>
        captions.append((words, photo_maps[: len(words)]))
    return captions


# The paper's grid has L = 14 x 14 regions of D = 512 numbers. For photos (B, 224, 224,
# 3), RGB from 0 to 255:
#   vgg19 = keras.applications.VGG19(include_top=False, input_shape=(224, 224, 3))
#   encoder = keras.Model(vgg19.input, vgg19.get_layer("block5_conv4").output)
#   grid = encoder(keras.applications.vgg19.preprocess_input(photos))
#   a = ops.reshape(grid, (-1, 196, 512))
