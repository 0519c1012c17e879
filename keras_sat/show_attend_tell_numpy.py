"""Show, Attend and Tell (Xu et al., 2015) in numpy, with the backward pass by hand.

show_attend_tell.py has the same model, with the same names and letters. There,
TensorFlow finds the gradients. Here nothing is hidden: each function of the forward
pass is followed by its backward pass, which takes the lines of the function from the
last one to the first. Read this file from top to bottom; train it with

    python -m keras_sat.show_attend_tell_numpy [--hard]

One number is minimised. d_x is its derivative with respect to x, so d_x has the shape
of x. Above the lines that compute d_x stands, as a comment, the line of the forward
pass in which x was used (w["score"] is called score there). A function of the forward
pass returns last, as `kept`, what its backward pass needs. Gradients of the weights are
added up in the dict d_w. Four rules are enough for almost all lines:

    y = x @ W         d_x = d_y @ W.T    d_W = x.T @ d_y
    y = tanh(x)       d_x = d_y * (1 - y**2)
    y = sigmoid(x)    d_x = d_y * y * (1 - y)
    y = p * q         d_p = d_y * q      d_q = d_y * p

What was used in several places gets the sum of what comes from each of them. What was
broadcast over an axis was used in several places: it gets the sum over this axis.

Two steps need more thought: the softmax, and the draw of hard attention, which has no
derivative. docs/backward.md derives both.

Shapes are at the ends of lines: B captions, C words, L regions, K words in the
vocabulary; D, m, n: sizes of annotation vectors, word vectors, LSTM. A is the size of
the hidden layer of f_att. Numbers in parentheses are the paper's equations.

tests/test_show_attend_tell_numpy.py compares every gradient with TensorFlow's.
"""

import argparse
import os
import shutil
import sys

if __name__ == "__main__":
    # The matrices are small: with a second thread, numpy would wait more than compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402 (after this setting)

from data_utils.batches import inputs_and_targets  # noqa: E402
from data_utils.scenes import COLOURS, SHAPES, draw_scenes, is_true  # noqa: E402

# From the code that the authors released.
PENALTY_WEIGHT = 0.33  # lambda of (14)
REWARD_WEIGHT = 0.1  # lambda_r of (12)
ENTROPY_WEIGHT = 0.002  # lambda_e of (12)
DROPOUT = 0.5
MAX_NORM = 5.0  # of all gradients together
NO_DROPOUT = (1.0, 1.0)  # masks that keep everything


# === The weights ===


def make_weights(
    vocabulary_size,
    feature_dim,
    *,
    embedding_dim=512,
    hidden_dim=512,
    attention_dim=512,
    seed=0,
):
    """Return a dict of the weights, with random values as Keras starts them."""
    random = np.random.default_rng(seed)

    def kernel(rows, columns):
        limit = np.sqrt(6 / (rows + columns))
        return random.uniform(-limit, limit, (rows, columns)).astype("float32")

    def bias(size):
        return np.zeros(size, "float32")

    word_vectors = random.uniform(-0.05, 0.05, (vocabulary_size, embedding_dim))
    lstm_input_dim = embedding_dim + hidden_dim + feature_dim
    return {
        "embedding": word_vectors.astype("float32"),  # E, (K, m)
        "initial_hidden": kernel(feature_dim, hidden_dim),  # f_init,h, (D, n)
        "initial_hidden_bias": bias(hidden_dim),
        "initial_cell": kernel(feature_dim, hidden_dim),  # f_init,c, (D, n)
        "initial_cell_bias": bias(hidden_dim),
        # f_att is an MLP with one hidden layer:
        "feature_projection": kernel(feature_dim, attention_dim),  # W_a, (D, A)
        "feature_projection_bias": bias(attention_dim),  # b
        "state_projection": kernel(hidden_dim, attention_dim),  # W_h, (n, A)
        "score": kernel(attention_dim, 1)[:, 0],  # v, (A,)
        "gate": kernel(hidden_dim, 1),  # f_beta, (n, 1)
        "gate_bias": bias(1),
        "lstm_gates": kernel(lstm_input_dim, 4 * hidden_dim),  # T, (m + n + D, 4n)
        "lstm_gates_bias": bias(4 * hidden_dim),
        "state_readout": kernel(hidden_dim, embedding_dim),  # L_h, (n, m)
        "context_readout": kernel(feature_dim, embedding_dim),  # L_z, (D, m)
        "word_logits": kernel(embedding_dim, vocabulary_size),  # L_o, (m, K)
        "word_logits_bias": bias(vocabulary_size),
    }


def sigmoid(x):
    """Return 1 / (1 + exp(-x)), written so that no large x overflows."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softmax(x):
    """Return the softmax over the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


# === Before the first word ===


def initial_state(w, a):
    """Return h_0 and c_0."""
    mean = a.mean(axis=1)  # (B, D)
    h = np.tanh(mean @ w["initial_hidden"] + w["initial_hidden_bias"])  # (B, n)
    c = np.tanh(mean @ w["initial_cell"] + w["initial_cell_bias"])  # (B, n)
    kept = (mean, h, c)
    return h, c, kept


def initial_state_backward(d_w, kept, d_h, d_c):
    """Add to d_w. The photo is given, so nothing needs the gradient of mean or a."""
    mean, h, c = kept

    # c = np.tanh(mean @ initial_cell + initial_cell_bias)
    d_before_tanh = d_c * (1 - c**2)  # (B, n)
    d_w["initial_cell"] += mean.T @ d_before_tanh  # (D, n)
    d_w["initial_cell_bias"] += d_before_tanh.sum(axis=0)  # (n,)

    # h = np.tanh(mean @ initial_hidden + initial_hidden_bias)
    d_before_tanh = d_h * (1 - h**2)  # (B, n)
    d_w["initial_hidden"] += mean.T @ d_before_tanh  # (D, n)
    d_w["initial_hidden_bias"] += d_before_tanh.sum(axis=0)  # (n,)


def project(w, a):
    """Return W_a a_i + b of (4), which is the same for each word of a caption."""
    photo = a @ w["feature_projection"] + w["feature_projection_bias"]  # (B, L, A)
    kept = a
    return photo, kept


def project_backward(d_w, kept, d_photo):
    """Add to d_w."""
    a = kept

    # photo = a @ feature_projection + feature_projection_bias
    d_w["feature_projection"] += np.tensordot(a, d_photo, axes=([0, 1], [0, 1]))  # (D, A)
    d_w["feature_projection_bias"] += d_photo.sum(axis=(0, 1))  # (A,)


# === One word: attend ===


def attend(w, a, photo, h, noise=None, sampled=None):
    """Return the context z_t, the attention weights alpha_t, and the selection s_t.

    With Gumbel noise (B, L), s_t is drawn where `sampled` (B,) is 1.
    """
    # (4): e_ti = v . tanh(W_a a_i + b + W_h h_{t-1})
    state = h @ w["state_projection"]  # (B, A)
    hidden = np.tanh(photo + state[:, None])  # (B, L, A)
    e = hidden @ w["score"]  # (B, L)
    alpha = softmax(e)  # (5), (B, L)

    s = alpha
    if noise is not None:
        # (8): s_t ~ Multinoulli(alpha_t) is where log alpha_t + noise is highest
        place = np.argmax(np.log(alpha + 1e-30) + noise, axis=-1)  # (B,)
        drawn = np.eye(alpha.shape[-1], dtype=alpha.dtype)[place]  # (B, L)
        s = np.where(sampled[:, None] > 0, drawn, alpha)  # (B, L)

    # (9) for a draw; (13), its expectation, is soft attention: the sum of s_i a_i
    z = (s[:, None] @ a)[:, 0]  # (B, D)
    # Section 4.2.1: how much does the next word depend on the photo?
    beta = sigmoid(h @ w["gate"] + w["gate_bias"])  # (B, 1)
    gated_z = beta * z  # (B, D)
    kept = (a, h, hidden, alpha, z, beta, sampled)
    return gated_z, alpha, s, kept


def attend_backward(w, d_w, kept, d_gated_z, d_alpha):
    """Return the gradients of photo and h, and that of the scores e, to be looked at.

    `d_alpha` (B, L) is what the loss says of alpha by itself: through the penalty and,
    where regions were drawn, through the reward.
    """
    a, h, hidden, alpha, z, beta, sampled = kept

    # gated_z = beta * z
    d_beta = (d_gated_z * z).sum(axis=1, keepdims=True)  # (B, 1)
    d_z = d_gated_z * beta  # (B, D)

    # beta = sigmoid(h @ gate + gate_bias)
    d_before_sigmoid = d_beta * beta * (1 - beta)  # (B, 1)
    d_w["gate"] += h.T @ d_before_sigmoid  # (n, 1)
    d_w["gate_bias"] += d_before_sigmoid.sum(axis=0)  # (1,)
    d_h = d_before_sigmoid @ w["gate"].T  # (B, n)

    # z = (s[:, None] @ a)[:, 0], the sum of s_i a_i: more of region i moves z along a_i
    d_s = (a @ d_z[:, :, None])[:, :, 0]  # (B, L)

    # s = alpha: with soft attention, what z says reaches alpha as it is.
    # s = np.where(sampled[:, None] > 0, drawn, alpha)
    # After a draw it does not. Another alpha, a little away, draws the same region, so
    # the derivative of s is 0. Where to look is then learned from the given `d_alpha`
    # alone: `objective_backward` puts the reward into it.
    if sampled is not None:
        d_s = np.where(sampled[:, None] > 0, 0, d_s)  # (B, L)
    d_alpha = d_alpha + d_s  # (B, L)

    # alpha = softmax(e): e_i raises alpha_i, and lowers the others so that the sum
    # stays 1. What counts is how much d_alpha_i differs from the mean of all.
    mean_d_alpha = (alpha * d_alpha).sum(axis=1, keepdims=True)  # (B, 1)
    d_e = alpha * (d_alpha - mean_d_alpha)  # (B, L)

    # e = hidden @ score
    d_w["score"] += np.tensordot(d_e, hidden, axes=2)  # (A,)
    d_hidden = d_e[:, :, None] * w["score"]  # (B, L, A)

    # hidden = np.tanh(photo + state[:, None]): state is the same for all regions
    d_photo = d_hidden * (1 - hidden**2)  # (B, L, A)
    d_state = d_photo.sum(axis=1)  # (B, A)

    # state = h @ state_projection
    d_w["state_projection"] += h.T @ d_state  # (n, A)
    d_h += d_state @ w["state_projection"].T  # (B, n), besides what came through beta
    return d_photo, d_h, d_e


# === One word: read it and tell the next ===


def step(w, a, photo, y, h, c, noise=None, sampled=None, masks=NO_DROPOUT):
    """Read y_{t-1}; return the logits of y_t, and h_t, c_t, alpha_t and s_t.

    The masks of dropout, (B, n) and (B, m), are 0 for what is dropped, and 2 for the
    rest.
    """
    h_mask, readout_mask = masks
    old_h, old_c = h, c
    z, alpha, s, kept_by_attend = attend(w, a, photo, old_h, noise, sampled)
    word = w["embedding"][y]  # E y_{t-1}, (B, m)

    lstm_input = np.concatenate([word, old_h, z], axis=-1)  # (B, m + n + D)
    gates = lstm_input @ w["lstm_gates"] + w["lstm_gates_bias"]  # (1), (B, 4n)
    i, f, o, g = np.split(gates, 4, axis=-1)  # (B, n) each
    i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
    c = f * old_c + i * g  # (2), (B, n)
    tanh_c = np.tanh(c)  # (B, n)
    h = o * tanh_c  # (3), (B, n)

    # (7), before the softmax: L_o(E y_{t-1} + L_h h_t + L_z z_t)
    masked_h = h * h_mask  # (B, n)
    state = masked_h @ w["state_readout"]  # (B, m)
    context = z @ w["context_readout"]  # (B, m)
    readout = (word + state + context) * readout_mask  # (B, m)
    logits = readout @ w["word_logits"] + w["word_logits_bias"]  # (B, K)

    kept = (y, z, lstm_input, i, f, o, g, old_c, tanh_c, masked_h, readout, masks, kept_by_attend)
    return logits, h, c, alpha, s, kept


def step_backward(w, d_w, kept, d_logits, d_alpha, d_h, d_c):
    """Return the gradients of photo, h_{t-1}, c_{t-1}, and that of the scores e.

    `d_logits` (B, K) and `d_alpha` (B, L) come from the loss; `d_h` and `d_c` (B, n)
    come from the later words, which read h_t and c_t.
    """
    y, z, lstm_input, i, f, o, g, old_c, tanh_c, masked_h, readout, masks, kept_by_attend = kept
    h_mask, readout_mask = masks
    m, n = readout.shape[1], tanh_c.shape[1]

    # logits = readout @ word_logits + word_logits_bias
    d_w["word_logits"] += readout.T @ d_logits  # (m, K)
    d_w["word_logits_bias"] += d_logits.sum(axis=0)  # (K,)
    d_readout = d_logits @ w["word_logits"].T  # (B, m)

    # readout = (word + state + context) * readout_mask: the three get the same
    d_sum = d_readout * readout_mask  # (B, m)
    d_word = d_sum  # (B, m), of the first of its two uses

    # context = z @ context_readout
    d_w["context_readout"] += z.T @ d_sum  # (D, m)
    d_z = d_sum @ w["context_readout"].T  # (B, D), of the first of its two uses

    # state = masked_h @ state_readout
    d_w["state_readout"] += masked_h.T @ d_sum  # (n, m)
    d_masked_h = d_sum @ w["state_readout"].T  # (B, n)

    # masked_h = h * h_mask: besides what came from the later words
    d_h = d_h + d_masked_h * h_mask  # (B, n)

    # h = o * tanh_c
    d_o = d_h * tanh_c  # (B, n)
    d_tanh_c = d_h * o  # (B, n)

    # tanh_c = np.tanh(c): besides what came from the later words
    d_c = d_c + d_tanh_c * (1 - tanh_c**2)  # (B, n)

    # c = f * old_c + i * g
    d_f = d_c * old_c  # (B, n)
    d_old_c = d_c * f  # (B, n)
    d_i = d_c * g  # (B, n)
    d_g = d_c * i  # (B, n)

    # i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
    d_i = d_i * i * (1 - i)  # (B, n)
    d_f = d_f * f * (1 - f)  # (B, n)
    d_o = d_o * o * (1 - o)  # (B, n)
    d_g = d_g * (1 - g**2)  # (B, n)

    # i, f, o, g = np.split(gates, 4, axis=-1)
    d_gates = np.concatenate([d_i, d_f, d_o, d_g], axis=-1)  # (B, 4n)

    # gates = lstm_input @ lstm_gates + lstm_gates_bias
    d_w["lstm_gates"] += lstm_input.T @ d_gates  # (m + n + D, 4n)
    d_w["lstm_gates_bias"] += d_gates.sum(axis=0)  # (4n,)
    d_lstm_input = d_gates @ w["lstm_gates"].T  # (B, m + n + D)

    # lstm_input = np.concatenate([word, old_h, z], axis=-1)
    d_word = d_word + d_lstm_input[:, :m]  # (B, m)
    d_old_h = d_lstm_input[:, m : m + n]  # (B, n)
    d_z = d_z + d_lstm_input[:, m + n :]  # (B, D)

    # word = embedding[y]: several captions may have read the same word, whose row gets
    # the sum (which `d_w["embedding"][y] += d_word` would not compute)
    np.add.at(d_w["embedding"], y, d_word)  # (K, m)

    # z, alpha, s, kept_by_attend = attend(w, a, photo, old_h, noise, sampled)
    d_photo, d_h_of_attend, d_e = attend_backward(w, d_w, kept_by_attend, d_z, d_alpha)
    d_old_h = d_old_h + d_h_of_attend  # (B, n)
    return d_photo, d_old_h, d_old_c, d_e


# === All words of a caption ===


def call(w, a, input_ids, noise=None, sampled=None, masks=NO_DROPOUT):
    """Return logits (B, C, K), alpha (B, C, L) and s (B, C, L) of whole captions.

    `input_ids` are (B, C), noise is (B, C, L); the masks are (B, C, n) and (B, C, m).
    """
    h, c, kept_by_initial_state = initial_state(w, a)
    photo, kept_by_project = project(w, a)
    steps, kept_by_steps = [], []
    for t in range(input_ids.shape[1]):
        y = input_ids[:, t]  # (B,)
        noise_t = None if noise is None else noise[:, t]
        masks_t = masks if masks is NO_DROPOUT else (masks[0][:, t], masks[1][:, t])
        logits, h, c, alpha, s, kept = step(w, a, photo, y, h, c, noise_t, sampled, masks_t)
        steps.append((logits, alpha, s))
        kept_by_steps.append(kept)
    logits, alpha, s = (np.stack(outputs, axis=1) for outputs in zip(*steps))
    kept = (kept_by_initial_state, kept_by_project, kept_by_steps)
    return logits, alpha, s, kept


def call_backward(w, kept, d_logits, d_alpha):
    """Return the gradients of all weights, and those of the scores e, (B, C, L).

    `d_logits` (B, C, K) and `d_alpha` (B, C, L) come from the loss.
    """
    kept_by_initial_state, kept_by_project, kept_by_steps = kept
    _, h, c = kept_by_initial_state
    d_w = {name: np.zeros_like(weight) for name, weight in w.items()}
    d_e = np.zeros_like(d_alpha)  # (B, C, L)

    # From the last word to the first: h_t and c_t were read by word t + 1, so their
    # gradients must be known. Nothing reads the state after the last word.
    d_h, d_c = np.zeros_like(h), np.zeros_like(c)  # (B, n)
    d_photo = 0.0
    for t in reversed(range(len(kept_by_steps))):
        d_photo_t, d_h, d_c, d_e[:, t] = step_backward(
            w, d_w, kept_by_steps[t], d_logits[:, t], d_alpha[:, t], d_h, d_c
        )
        d_photo = d_photo + d_photo_t  # (B, L, A): each word used it
    project_backward(d_w, kept_by_project, d_photo)
    initial_state_backward(d_w, kept_by_initial_state, d_h, d_c)
    return d_w, d_e


# === What is minimised ===


def objective(
    w,
    batch,
    *,
    b=0.0,
    noise=None,
    sampled=None,
    masks=NO_DROPOUT,
    penalty_weight=PENALTY_WEIGHT,
):
    """Return the loss (14), the value to minimise, and the next baseline b.

    The value to minimise is the loss; with noise, it is a surrogate with gradient (12).
    In a batch, a is (photos, L, D). The others are (photos, captions, C): the words to
    read, those to tell, and 1, or 0 for padding.
    """
    (a, input_ids), target_ids, token_weights = batch
    input_ids = input_ids.reshape(-1, input_ids.shape[-1])  # (B, C)
    target_ids = target_ids.reshape(-1, target_ids.shape[-1])  # (B, C)
    weights = token_weights.reshape(-1, token_weights.shape[-1])  # (B, C), 0 for padding
    # A photo may have several captions:
    a = np.repeat(a, len(input_ids) // len(a), axis=0)  # (B, L, D)
    # A row of only padding completes a batch, and is no caption:
    is_caption = weights[:, 0]  # (B,)
    num_captions = is_caption.sum()

    logits, alpha, s, kept_by_call = call(w, a, input_ids, noise, sampled, masks)
    probabilities = softmax(logits)  # (7), (B, C, K)
    # log p(y_t | a, y_1 .. y_{t-1}):
    largest = logits.max(axis=-1, keepdims=True)  # (B, C, 1)
    log_sum = np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True)) + largest
    target_logits = np.take_along_axis(logits, target_ids[:, :, None], axis=-1)  # (B, C, 1)
    word_log_p = (target_logits - log_sum)[:, :, 0]  # (B, C)
    # log p(y | a), or log p(y | s, a) where s was drawn:
    log_p = (word_log_p * weights).sum(axis=1)  # (B,)
    # Doubly stochastic: over the caption, each region should get as much attention.
    attention = (alpha * weights[:, :, None]).sum(axis=1)  # (B, L)
    penalty = is_caption * ((1 - attention) ** 2).sum(axis=1)  # (B,)
    loss = (-log_p + penalty_weight * penalty).sum() / num_captions  # (14)
    minimised, next_b = loss, b

    log_alpha = reward = None
    if noise is not None:
        log_alpha = np.log(alpha + 1e-30)  # finite where a weight has rounded to 0
        log_alpha = log_alpha * weights[:, :, None]  # (B, C, L)
        # log p(s | a) where s was drawn; elsewhere `reward` is 0:
        log_p_s = (s * log_alpha).sum(axis=(1, 2))  # (B,)
        entropy = -(alpha * log_alpha).sum(axis=(1, 2))  # H[s], (B,)
        reward = sampled * (log_p - b)  # (B,), from here on a given number
        # log p + this has the gradient (12):
        surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy  # (B,)
        minimised = loss - surrogate.sum() / num_captions

        # The moving average of section 4.1, over the captions for which s was drawn:
        num_drawn = (sampled * is_caption).sum()
        if num_drawn > 0:
            next_b = 0.9 * b + 0.1 * (sampled * log_p).sum() / num_drawn

    given = (target_ids, weights, is_caption, num_captions, penalty_weight)
    computed = (probabilities, attention, alpha, s, log_alpha, reward)
    kept = (given, computed, kept_by_call)
    return loss, minimised, next_b, kept


def objective_backward(w, kept):
    """Return the gradients of all weights, and those of the scores e, (B, C, L)."""
    given, computed, kept_by_call = kept
    target_ids, weights, is_caption, num_captions, penalty_weight = given
    probabilities, attention, alpha, s, log_alpha, reward = computed

    # loss = (-log_p + penalty_weight * penalty).sum() / num_captions
    d_log_p = -1 / num_captions  # the same for each caption
    d_penalty = penalty_weight / num_captions

    # log_p = (word_log_p * weights).sum(axis=1)
    d_word_log_p = d_log_p * weights  # (B, C)

    # word_log_p = (target_logits - log_sum)[:, :, 0]
    # The first is one of the logits. The derivative of log_sum, the logarithm of the
    # sum of their exponentials, is their softmax.
    is_target = np.eye(probabilities.shape[-1], dtype=probabilities.dtype)[target_ids]
    d_logits = d_word_log_p[:, :, None] * (is_target - probabilities)  # (B, C, K)

    # penalty = is_caption * ((1 - attention) ** 2).sum(axis=1)
    d_attention = d_penalty * is_caption[:, None] * -2 * (1 - attention)  # (B, L)

    # attention = (alpha * weights[:, :, None]).sum(axis=1)
    d_alpha = d_attention[:, None] * weights[:, :, None]  # (B, C, L)

    if reward is not None:
        # minimised = loss - surrogate.sum() / num_captions
        # surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy
        d_log_p_s = -REWARD_WEIGHT * reward / num_captions  # (B,)
        d_entropy = -ENTROPY_WEIGHT / num_captions  # the same for each caption

        # entropy = -(alpha * log_alpha).sum(axis=(1, 2))
        d_alpha = d_alpha - d_entropy * log_alpha  # (B, C, L)
        d_log_alpha = -d_entropy * alpha  # (B, C, L)

        # log_p_s = (s * log_alpha).sum(axis=(1, 2)): this is how hard attention learns.
        # After a caption that was better than b, the regions that it looked at become
        # more probable; after a worse one, less. The softmax of `attend_backward` makes
        # of it, for the scores: REWARD_WEIGHT * reward * (s - alpha), with the sign of
        # what is maximised. (s has no gradient where it was drawn; elsewhere `reward`
        # is 0.)
        d_log_alpha = d_log_alpha + d_log_p_s[:, None, None] * s  # (B, C, L)

        # log_alpha = log_alpha * weights[:, :, None]
        d_log_alpha = d_log_alpha * weights[:, :, None]  # (B, C, L)

        # log_alpha = np.log(alpha + 1e-30)
        d_alpha = d_alpha + d_log_alpha / (alpha + 1e-30)  # (B, C, L)

    return call_backward(w, kept_by_call, d_logits, d_alpha)


# === Training ===


def start_training(w):
    """Return what training remembers from one update to the next, as a dict."""
    return {
        "updates": 0,
        "mean": {name: np.zeros_like(weight) for name, weight in w.items()},
        "square": {name: np.zeros_like(weight) for name, weight in w.items()},
        "baseline": 0.0,  # b of hard attention
    }


def train_step(
    w,
    training,
    batch,
    random,
    *,
    attention="soft",
    dropout=DROPOUT,
    learning_rate=4e-4,
    penalty_weight=PENALTY_WEIGHT,
):
    """Update the weights once, in place, and return the loss (14).

    `random` is a numpy Generator, attention is "soft" or "hard".
    """
    (a, input_ids), *_ = batch
    num_rows = input_ids.size // input_ids.shape[-1]  # B
    num_words, num_regions = input_ids.shape[-1], a.shape[1]
    noise = sampled = None
    if attention == "hard":
        noise = random.gumbel(size=(num_rows, num_words, num_regions))  # (B, C, L)
        # A coin for each photo: draw, or take the expectation.
        coins = random.random(len(a)) >= 0.5  # (photos,)
        sampled = np.repeat(coins, num_rows // len(a)).astype(a.dtype)  # (B,)
    masks = NO_DROPOUT
    if dropout > 0:
        sizes = w["state_readout"].shape  # n, m
        are_kept = [random.random((num_rows, num_words, size)) >= dropout for size in sizes]
        # Divided, so that the mean stays what it was:
        masks = [kept.astype(a.dtype) / (1 - dropout) for kept in are_kept]

    loss, _, next_b, kept = objective(
        w,
        batch,
        b=training["baseline"],
        noise=noise,
        sampled=sampled,
        masks=masks,
        penalty_weight=penalty_weight,
    )
    d_w, _ = objective_backward(w, kept)
    clip(d_w)
    adam(w, training, d_w, learning_rate)
    training["baseline"] = next_b
    return loss


def clip(d_w):
    """Shorten the gradients in place, so that their common norm is at most MAX_NORM."""
    norm = np.sqrt(sum((gradient**2).sum() for gradient in d_w.values()))
    if norm > MAX_NORM:
        for gradient in d_w.values():
            gradient *= MAX_NORM / norm


def adam(w, training, d_w, learning_rate):
    """Update the weights in place: Adam (Kingma and Ba, 2015) as usually set."""
    training["updates"] += 1
    # The averages start at 0. This makes up for it:
    correction = np.sqrt(1 - 0.999 ** training["updates"]) / (1 - 0.9 ** training["updates"])
    for name, gradient in d_w.items():
        mean, square = training["mean"][name], training["square"][name]
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        step_size = float(learning_rate * correction)  # as a float, it keeps float32
        w[name] -= step_size * mean / (np.sqrt(square) + 1e-7)


def caption(w, a, vocabulary, max_length=20):
    """Caption photos by greedy search with the expected z_t.

    Return the words and the attention maps (words, L) of each photo.
    """
    h, c, _ = initial_state(w, a)
    photo, _ = project(w, a)
    y = np.full(len(a), vocabulary.start_token_id)  # (B,)
    steps = []
    for _ in range(max_length):
        logits, h, c, alpha, *_ = step(w, a, photo, y, h, c)
        y = np.argmax(logits, axis=-1)  # (B,)
        steps.append((y, alpha))
    ids, maps = (np.stack(x, axis=1) for x in zip(*steps))

    captions = []
    for photo_ids, photo_maps in zip(ids, maps):
        words = vocabulary.ids_to_words(photo_ids)  # up to the first <end>
        captions.append((words, photo_maps[: len(words)]))
    return captions


# === Training on scenes ===
# From here on nothing is about the model: pictures and their features, what is printed,
# and the options of the command line.

PROGRAM = "python -m keras_sat.show_attend_tell_numpy"
SIZES = {"embedding_dim": 32, "hidden_dim": 128, "attention_dim": 64}
ROWS = COLUMNS = 8  # of the grid of 64 regions
TRAIN_SEED, UNSEEN_SEED = 10_000, 1502
NUM_SCENES, NUM_UNSEEN = 18_000, 400  # to draw: about half of them have two objects
SCENES_PER_BATCH, CAPTIONS_PER_SCENE = 32, 2
EPOCHS, HARD_EPOCHS = 8, 2
LEARNING_RATE, HARD_LEARNING_RATE = 1e-2, 2e-3  # at their highest
WARMUP = 50  # updates
# Ten words cannot look at each of 64 regions once, and should look at the objects.
SCENE_PENALTY_WEIGHT = 0.0
NUM_SHOWN = 4  # captions
SHADES = " .:-=+*#%@"


def scenes_of_two_objects(num_scenes, seed):
    """Draw scenes, and return those of two different objects."""
    scenes = draw_scenes(num_scenes, seed=seed, twin_share=0)
    return [scene for scene in scenes if len(scene.objects) == 2]


def encode(encoder, scenes):
    """Return the annotation vectors of scenes, (scenes, 64, 264).

    `encoder` is the LiteRTCaptioner of scenes. It returns 16 x 16 vectors of 66
    numbers; the vectors of four neighbours are joined, to save time.
    """
    cells = encoder.encode(np.stack([scene.image for scene in scenes]))  # (scenes, 256, 66)
    cells = cells.reshape(len(scenes), ROWS, 2, COLUMNS, 2, -1)
    neighbours_last = cells.transpose(0, 1, 3, 2, 4, 5)  # (scenes, 8, 8, 2, 2, 66)
    return neighbours_last.reshape(len(scenes), ROWS * COLUMNS, -1)


def make_batch(encoder, scenes):
    """Return ((a, input_ids), target_ids, token_weights) of scenes with captions.

    `objective` says what they are.
    """
    texts = [text for scene in scenes for text in scene.captions[:CAPTIONS_PER_SCENE]]
    captions = [encoder.vocabulary.caption_to_ids(text) for text in texts]
    rows = inputs_and_targets(captions, encoder.vocabulary)  # each (captions, C)
    input_ids, target_ids, token_weights = (
        array.reshape(len(scenes), CAPTIONS_PER_SCENE, -1) for array in rows
    )
    return (encode(encoder, scenes), input_ids), target_ids, token_weights


def batches(encoder, scenes, epochs, random):
    """Yield the batches of all epochs, each in another order of the scenes."""
    for _ in range(epochs):
        order = random.permutation(len(scenes))
        for first in range(0, len(scenes) - SCENES_PER_BATCH + 1, SCENES_PER_BATCH):
            numbers = order[first : first + SCENES_PER_BATCH]
            yield make_batch(encoder, [scenes[number] for number in numbers])


def learning_rate_of(update, num_updates, highest):
    """Return the learning rate of an update, counted from 0: it rises to the highest
    value, and then falls to 0 along half a cosine.
    """
    warmup = min(WARMUP, num_updates // 2)
    if update < warmup:
        return highest * update / warmup
    progress = (update - warmup) / (num_updates - warmup)
    return highest * (1 + np.cos(np.pi * progress)) / 2


def train(w, encoder, scenes, random, *, attention, epochs, highest_rate):
    """Train on scenes, and print the loss as it falls."""
    training = start_training(w)
    num_updates = epochs * (len(scenes) // SCENES_PER_BATCH)
    updates_per_line = max(1, num_updates // 20)
    losses = []
    for update, batch in enumerate(batches(encoder, scenes, epochs, random)):
        loss = train_step(
            w,
            training,
            batch,
            random,
            attention=attention,
            dropout=0,  # the world of the scenes is small
            learning_rate=learning_rate_of(update, num_updates, highest_rate),
            penalty_weight=SCENE_PENALTY_WEIGHT,
        )
        losses.append(loss)
        if len(losses) == updates_per_line or update + 1 == num_updates:
            mean = np.mean(losses)
            print(f"update {update + 1:5} of {num_updates}  loss {mean:5.2f}  {'#' * round(mean)}")
            sys.stdout.flush()
            losses = []


def share_of_true_captions(scenes, captions):
    """Return the share of captions, from `caption`, that are true of their scenes."""
    truths = [is_true(scene, " ".join(words)) for scene, (words, _) in zip(scenes, captions)]
    return np.mean([truth is True for truth in truths])  # None: it could not be told


# === In characters ===


def map_in_characters(weights):
    """Return the lines of an attention map (L,): the denser, the more attention."""
    levels = np.round(weights / weights.max() * (len(SHADES) - 1)).astype(int)
    rows = levels.reshape(ROWS, COLUMNS)
    return ["".join(2 * SHADES[level] for level in row) for row in rows]


def scene_in_characters(scene):
    """Return the lines of a scene: 1 and 2 where the middle of a cell is in the box of
    the first or the second object.
    """
    height, width, _ = scene.image.shape
    cells = np.full((ROWS, COLUMNS), "  ")
    for row in range(ROWS):
        for column in range(COLUMNS):
            y, x = (row + 0.5) * height / ROWS, (column + 0.5) * width / COLUMNS
            for number, item in enumerate(scene.objects, start=1):
                left, top, right, bottom = item.box
                if left <= x < right and top <= y < bottom:
                    cells[row, column] = 2 * str(number)
    return ["".join(row) for row in cells]


def show_caption(scene, words, maps):
    """Print a caption, the scene, and the maps of the words for colours and shapes."""
    text = " ".join(words)
    is_right = "true" if is_true(scene, text) else "not true"
    objects = [f"{n}: {' '.join(item.looks)}" for n, item in enumerate(scene.objects, start=1)]
    print(f"\n{text}  ({is_right}; {', '.join(objects)})\n")

    pictures = [("scene", scene_in_characters(scene))]
    for word, weights in zip(words, maps):
        if word in COLOURS or word in SHAPES:
            pictures.append((word, map_in_characters(weights)))
    picture_width = 2 * COLUMNS + 2  # with a frame
    columns, _ = shutil.get_terminal_size()
    per_line = max(1, columns // (picture_width + 1))
    for first in range(0, len(pictures), per_line):
        together = pictures[first : first + per_line]
        print(" ".join(f"{title:^{picture_width}}" for title, _ in together).rstrip())
        for lines in zip(*(lines for _, lines in together)):
            print(" ".join(f"|{line}|" for line in lines))


def show_results(w, encoder, scenes):
    """Caption unseen scenes. Print how many captions are true, and some of them."""
    captions = caption(w, encode(encoder, scenes), encoder.vocabulary)
    share = share_of_true_captions(scenes, captions)
    print(f"\n{share:.0%} of the captions of {len(scenes)} unseen scenes are true.")
    for scene, (words, maps) in list(zip(scenes, captions))[:NUM_SHOWN]:
        show_caption(scene, words, maps)


# === The command line ===


class OneLineParser(argparse.ArgumentParser):
    """It reports an error in one line."""

    def error(self, message):
        self.exit(2, f"{PROGRAM}: {message}. See `{PROGRAM} --help`.\n")


def number_from(lowest):
    """Return a function that reads a whole number of at least `lowest`."""

    def read(text):
        if not text.isdecimal() or int(text) < lowest:
            expected = f"expected a whole number of at least {lowest}"
            raise argparse.ArgumentTypeError(f"{expected}. Received: {text!r}")
        return int(text)

    return read


def parse(arguments):
    parser = OneLineParser(
        prog=PROGRAM,
        description="Train Show, Attend and Tell on scenes, in numpy alone.",
    )
    parser.add_argument(
        "--hard", action="store_true", help="go on with hard attention after soft attention"
    )
    parser.add_argument(
        "--scenes",
        type=number_from(100),
        default=NUM_SCENES,
        metavar="N",
        help="scenes to draw; those of two objects are used (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=number_from(1),
        default=EPOCHS,
        metavar="N",
        help="passes over the scenes (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=number_from(0),
        default=0,
        metavar="N",
        help="of the weights, the order of the scenes, and the draws (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def run(options):
    """Train, and print the loss, the share of true captions and some of them."""
    from keras_sat.deploy.litert_captioner import load_litert

    encoder = load_litert("scenes", num_threads=1)
    scenes = scenes_of_two_objects(options.scenes, TRAIN_SEED)
    unseen = scenes_of_two_objects(NUM_UNSEEN, UNSEEN_SEED)
    feature_dim = encode(encoder, unseen[:1]).shape[-1]
    w = make_weights(len(encoder.vocabulary), feature_dim, **SIZES, seed=options.seed)
    random = np.random.default_rng(options.seed)
    num_weights = sum(weight.size for weight in w.values())
    print(f"{len(scenes)} scenes of two objects, {num_weights:,} weights")

    print("\nsoft attention")
    train(
        w,
        encoder,
        scenes,
        random,
        attention="soft",
        epochs=options.epochs,
        highest_rate=LEARNING_RATE,
    )
    show_results(w, encoder, unseen)
    if options.hard:
        print("\nhard attention")
        train(
            w,
            encoder,
            scenes,
            random,
            attention="hard",
            epochs=HARD_EPOCHS,
            highest_rate=HARD_LEARNING_RATE,
        )
        show_results(w, encoder, unseen)


def main(arguments=None):
    """Run the command and return its exit status."""
    options = parse(arguments)
    try:
        run(options)
    except KeyboardInterrupt:
        new_line = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C
        print(f"{new_line}{PROGRAM}: stopped. The same command starts over.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
