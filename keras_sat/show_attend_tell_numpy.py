"""Show, Attend and Tell (Xu et al., 2015) in numpy, with the backward pass by hand.

show_attend_tell.py has the same model, with the same names and letters. There,
TensorFlow finds the gradients. Here nothing is hidden: each function of the forward
pass is followed by its backward pass, which takes the lines of the function from the
last one to the first. Read this file from top to bottom; train it on scenes with

    python -m keras_sat.show_attend_tell_numpy [--hard]

One number is made small: `minimised`, which `objective` returns. d_x is its derivative
with respect to x, so d_x has the shape of x. Above the lines that compute d_x stands,
as a comment, the line of the forward pass in which x was used; in these comments
w["name"] is written name. A function of the forward pass returns last, as `kept`, what
its backward pass needs. Gradients of the weights are added up in the dict d_w. These
rules are enough for almost all lines:

    y = x @ W         d_x = d_y @ W.T            d_W = x.T @ d_y
    y = p + q         d_p = d_y                  d_q = d_y
    y = p * q         d_p = d_y * q              d_q = d_y * p
    y = x.sum()       d_x = d_y, for each number of x
    y = x**2          d_x = d_y * 2 * x
    y = log(x)        d_x = d_y / x
    y = tanh(x)       d_x = d_y * (1 - y**2)
    y = sigmoid(x)    d_x = d_y * y * (1 - y)

What was used in several places gets the sum of what comes from each of them; then
d_x_from_y is the part that comes from y. What was broadcast over an axis was used in
several places: it gets the sum over this axis. All captions use the same weights: x has
a row for each caption, and x.T @ d_y adds up over the rows. W_a and v are used for each
region of each caption: there, reshape first makes B * L rows.

Three steps need more thought: the softmax (see `attend_backward`), the logarithm of
another (see `objective_backward`), and the draw of hard attention, whose derivative is
0 almost everywhere (see `objective`).
docs/backward.md derives both at more length.

A map of the whole. "x <- y" means that x is computed from y; gradients go from left to
right, and down; that of old h and old c goes on in the lines h, c of the word before.
So a backward pass begins at the end of this file. The weights are on the right.

    in `objective`
      minimised          <- log p(y), penalty; with draws reward * log p(s), entropy
      log p(y)           <- logits of all words
      penalty            <- alpha of all words
      log p(s), entropy  <- alpha of all words
    in `step`, for each word
      logits             <- E y, h, gated z                L_o, L_h, L_z, E
      h, c               <- E y, old h, old c, gated z     T, E
      old h, old c       <- h, c of the word before
    in `attend`, for each word
      gated z            <- beta, z
      beta               <- old h                          f_beta
      z                  <- s, and a, which is given
      s                  <- alpha, unless it was drawn
      alpha              <- e
      e                  <- projected photo, projected h   v
      projected h        <- old h                          W_h
    once for all words
      projected photo    <- a, in `project`                W_a
      first old h, c     <- a, in `initial_state`          f_init

Shapes are at the ends of lines: B captions, C words, L regions, K words in the
vocabulary; D, m, n, A: sizes of annotation vectors, word vectors, LSTM, and of the
hidden layer of f_att. Numbers in parentheses are the paper's equations.

tests/test_show_attend_tell_numpy.py compares every gradient with TensorFlow's.
"""

if __name__ == "__main__":
    # Training on scenes. It sets the threads of numpy, which must not be imported yet,
    # and imports this file again, by its name.
    from keras_sat.train_in_numpy import main

    raise SystemExit(main())

import numpy as np  # noqa: E402 (after its threads are set)

# The paper gives no values. These follow from the code that its authors released. Its
# script for COCO has a lambda of 1, but averages the penalty over 196 regions and sums
# it over a batch of 64 captions. Here it is summed over regions, as in (14), and
# averaged over captions.
PENALTY_WEIGHT = 0.33  # lambda of (14): 64 / 196
REWARD_WEIGHT = 0.1  # lambda_r of (12)
ENTROPY_WEIGHT = 0.002  # lambda_e of (12)
DROPOUT = 0.5
MAX_NORM = 5.0  # of all gradients together
NO_DROPOUT = (1.0, 1.0)  # masks of h and of the readout that keep everything


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
        "feature_projection_bias": bias(attention_dim),  # b of (4)
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
    mean_a = a.mean(axis=1)  # (B, D)
    before_h = mean_a @ w["initial_hidden"] + w["initial_hidden_bias"]  # (B, n)
    h = np.tanh(before_h)  # (B, n)
    before_c = mean_a @ w["initial_cell"] + w["initial_cell_bias"]  # (B, n)
    c = np.tanh(before_c)  # (B, n)
    kept = (mean_a, h, c)
    return h, c, kept


def initial_state_backward(d_w, kept, d_h, d_c):
    """Add to d_w. The photo is given, so nothing needs the gradient of mean_a or a."""
    mean_a, h, c = kept

    # c = np.tanh(before_c)
    d_before_c = d_c * (1 - c**2)  # (B, n)

    # before_c = mean_a @ initial_cell + initial_cell_bias
    d_w["initial_cell"] += mean_a.T @ d_before_c  # (D, n)
    d_w["initial_cell_bias"] += d_before_c.sum(axis=0)  # (n,)

    # h = np.tanh(before_h)
    d_before_h = d_h * (1 - h**2)  # (B, n)

    # before_h = mean_a @ initial_hidden + initial_hidden_bias
    d_w["initial_hidden"] += mean_a.T @ d_before_h  # (D, n)
    d_w["initial_hidden_bias"] += d_before_h.sum(axis=0)  # (n,)


def project(w, a):
    """Return W_a a_i + b of (4), which is the same for each word of a caption."""
    projected_photo = a @ w["feature_projection"] + w["feature_projection_bias"]  # (B, L, A)
    kept = a
    return projected_photo, kept


def project_backward(d_w, kept, d_projected_photo):
    """Add to d_w."""
    a = kept

    # projected_photo = a @ feature_projection + feature_projection_bias
    a_rows = a.reshape(-1, a.shape[-1])  # (B * L, D)
    d_projected_photo_rows = d_projected_photo.reshape(len(a_rows), -1)  # (B * L, A)
    d_w["feature_projection"] += a_rows.T @ d_projected_photo_rows  # (D, A)
    d_w["feature_projection_bias"] += d_projected_photo_rows.sum(axis=0)  # (A,)


# === One word: attend ===


def attend(w, a, projected_photo, old_h, noise=None, sampled=None):
    """Return beta_t z_t, the attention weights alpha_t, and the selection s_t.

    With Gumbel noise (B, L), s_t is drawn where `sampled` (B,) is 1, and is alpha_t
    where it is 0. `train_step` tosses a coin for each photo, as in section 4.1:
    gradients of the expectation have less variance than those of draws.
    """
    # (4): e_ti = v . tanh(W_a a_i + b + W_h h_{t-1})
    projected_h = old_h @ w["state_projection"]  # (B, A)
    before_hidden = projected_photo + projected_h[:, None]  # (B, L, A)
    hidden = np.tanh(before_hidden)  # (B, L, A)
    e = hidden @ w["score"]  # (B, L)
    alpha = softmax(e)  # (5), (B, L)

    s = alpha
    if sampled is not None:
        # (8): s_t ~ Multinoulli(alpha_t) is where log alpha_t + noise is highest: with
        # Gumbel noise, this is region i with probability alpha_ti (the Gumbel-max
        # trick). (The 1e-30 is for numpy, which warns of log 0.)
        place = np.argmax(np.log(alpha + 1e-30) + noise, axis=-1)  # (B,)
        drawn = np.eye(alpha.shape[-1], dtype=alpha.dtype)[place]  # (B, L)
        s = np.where(sampled[:, None] > 0, drawn, alpha)  # (B, L)

    # (9) for a draw; (13), its expectation, is soft attention: the sum of s_i a_i
    z = (s[:, None] @ a)[:, 0]  # (B, D)
    # Section 4.2.1: how much does the next word depend on the photo?
    before_beta = old_h @ w["gate"] + w["gate_bias"]  # (B, 1)
    beta = sigmoid(before_beta)  # (B, 1)
    gated_z = beta * z  # (B, D)
    kept = (a, old_h, hidden, alpha, z, beta, sampled)
    return gated_z, alpha, s, kept


def attend_backward(w, d_w, kept, d_gated_z, d_alpha_from_objective):
    """Return the gradients of projected_photo, old_h and the scores e.

    `d_gated_z` (B, D) is the sum over both uses of gated_z: in the LSTM, and in the
    logits. `d_alpha_from_objective` (B, L) is what comes from uses of alpha in
    `objective`:

        the penalty, of all captions;
        with draws, the entropy, of all captions;
        with draws, reward * log p(s), of captions for which s was drawn.
    """
    a, old_h, hidden, alpha, z, beta, sampled = kept

    # gated_z = beta * z
    d_beta = (d_gated_z * z).sum(axis=1, keepdims=True)  # (B, 1)
    d_z = d_gated_z * beta  # (B, D)

    # beta = sigmoid(before_beta)
    d_before_beta = d_beta * beta * (1 - beta)  # (B, 1)

    # before_beta = old_h @ gate + gate_bias
    d_w["gate"] += old_h.T @ d_before_beta  # (n, 1)
    d_w["gate_bias"] += d_before_beta.sum(axis=0)  # (1,)
    d_old_h_from_beta = d_before_beta @ w["gate"].T  # (B, n)

    # z = (s[:, None] @ a)[:, 0], the sum of s_i a_i: more of region i moves z along a_i
    d_s = (a @ d_z[:, :, None])[:, :, 0]  # (B, L): of region i, a_i . d_z

    if sampled is not None:
        # s = np.where(sampled[:, None] > 0, drawn, alpha)
        # At this draw, with this noise, argmax gives the same place if alpha changes a
        # little: the derivative of `drawn` is 0 almost everywhere. So z teaches alpha
        # nothing. Instead, a draw after which the caption was better than usual is made
        # more probable: this is in d_alpha_from_objective; `objective` has the reason.
        is_drawn = sampled[:, None] > 0  # (B, 1)
        d_alpha_from_s = np.where(is_drawn, 0, d_s)  # (B, L)
    else:
        # s = alpha
        d_alpha_from_s = d_s  # (B, L)
    d_alpha = d_alpha_from_objective + d_alpha_from_s  # (B, L)

    # alpha = softmax(e)
    # A higher e_i raises alpha_i and lowers the others, so that the sum stays 1. With
    # [i = j] for 1 if i is j, and 0 if not, log alpha_j = e_j - log sum_i exp e_i gives
    #     derivative of log alpha_j by e_i:  [i = j] - alpha_i
    #     derivative of alpha_j by e_i:      alpha_j ([i = j] - alpha_i)
    #     d_e_i = sum_j d_alpha_j alpha_j ([i = j] - alpha_i)
    #           = alpha_i (d_alpha_i - sum_j alpha_j d_alpha_j)
    # The last sum is the mean of d_alpha, weighted by alpha. A region whose d_alpha is
    # below this mean gets a higher e_i by the update, one above it a lower e_i.
    mean_d_alpha = (alpha * d_alpha).sum(axis=1, keepdims=True)  # (B, 1)
    d_e = alpha * (d_alpha - mean_d_alpha)  # (B, L)

    # e = hidden @ score
    hidden_rows = hidden.reshape(-1, hidden.shape[-1])  # (B * L, A)
    d_w["score"] += hidden_rows.T @ d_e.reshape(-1)  # (A,)
    d_hidden = d_e[:, :, None] * w["score"]  # (B, L, A): score is a vector

    # hidden = np.tanh(before_hidden)
    d_before_hidden = d_hidden * (1 - hidden**2)  # (B, L, A)

    # before_hidden = projected_photo + projected_h[:, None]: one h for all regions
    d_projected_photo = d_before_hidden  # (B, L, A); `project_backward` goes on to W_a
    d_projected_h = d_before_hidden.sum(axis=1)  # (B, A)

    # projected_h = old_h @ state_projection
    d_w["state_projection"] += old_h.T @ d_projected_h  # (n, A)
    d_old_h_from_e = d_projected_h @ w["state_projection"].T  # (B, n)

    d_old_h = d_old_h_from_beta + d_old_h_from_e  # (B, n)
    return d_projected_photo, d_old_h, d_e


# === One word: read it and tell the next ===


def step(w, a, projected_photo, y, old_h, old_c, noise=None, sampled=None, masks=NO_DROPOUT):
    """Read y_{t-1}; return the logits of y_t, and h_t, c_t, alpha_t and s_t.

    The masks of dropout, (B, n) and (B, m), are those of `dropout_mask`.
    """
    h_mask, readout_mask = masks
    gated_z, alpha, s, kept_by_attend = attend(w, a, projected_photo, old_h, noise, sampled)
    word = w["embedding"][y]  # E y_{t-1}, (B, m)

    lstm_input = np.concatenate([word, old_h, gated_z], axis=-1)  # (B, m + n + D)
    gates = lstm_input @ w["lstm_gates"] + w["lstm_gates_bias"]  # (B, 4n)
    before_i, before_f, before_o, before_g = np.split(gates, 4, axis=-1)  # (B, n) each
    i, f, o = sigmoid(before_i), sigmoid(before_f), sigmoid(before_o)
    g = np.tanh(before_g)  # with the line above: (1)
    c = f * old_c + i * g  # (2), (B, n)
    tanh_c = np.tanh(c)  # (B, n)
    h = o * tanh_c  # (3), (B, n)

    # (7), before the softmax: L_o(E y_{t-1} + L_h h_t + L_z z_t)
    masked_h = h * h_mask  # (B, n)
    h_term = masked_h @ w["state_readout"]  # (B, m)
    z_term = gated_z @ w["context_readout"]  # (B, m)
    before_readout = word + h_term + z_term  # (B, m)
    readout = before_readout * readout_mask  # (B, m)
    logits = readout @ w["word_logits"] + w["word_logits_bias"]  # (B, K)

    of_lstm = (lstm_input, i, f, o, g, old_c, tanh_c)
    of_readout = (gated_z, masked_h, readout, masks)
    kept = (y, of_lstm, of_readout, kept_by_attend)
    return logits, h, c, alpha, s, kept


def step_backward(w, d_w, kept, d_logits, d_alpha_from_objective, d_h_from_next, d_c_from_next):
    """Return the gradients of projected_photo, old_h, old_c and the scores e.

    `d_logits` (B, K) and `d_alpha_from_objective` (B, L) come from
    `objective_backward`. `d_h_from_next` and `d_c_from_next` (B, n) come from the next
    word, which reads h_t and c_t.
    """
    y, of_lstm, of_readout, kept_by_attend = kept
    lstm_input, i, f, o, g, old_c, tanh_c = of_lstm
    gated_z, masked_h, readout, (h_mask, readout_mask) = of_readout
    m, n = readout.shape[1], tanh_c.shape[1]

    # logits = readout @ word_logits + word_logits_bias
    d_w["word_logits"] += readout.T @ d_logits  # (m, K)
    d_w["word_logits_bias"] += d_logits.sum(axis=0)  # (K,)
    d_readout = d_logits @ w["word_logits"].T  # (B, m)

    # readout = before_readout * readout_mask
    d_before_readout = d_readout * readout_mask  # (B, m)

    # before_readout = word + h_term + z_term
    d_word_from_readout = d_h_term = d_z_term = d_before_readout  # (B, m)

    # z_term = gated_z @ context_readout
    d_w["context_readout"] += gated_z.T @ d_z_term  # (D, m)
    d_gated_z_from_readout = d_z_term @ w["context_readout"].T  # (B, D)

    # h_term = masked_h @ state_readout
    d_w["state_readout"] += masked_h.T @ d_h_term  # (n, m)
    d_masked_h = d_h_term @ w["state_readout"].T  # (B, n)

    # masked_h = h * h_mask
    d_h_from_readout = d_masked_h * h_mask  # (B, n)
    d_h = d_h_from_next + d_h_from_readout  # (B, n)

    # h = o * tanh_c
    d_o = d_h * tanh_c  # (B, n)
    d_tanh_c = d_h * o  # (B, n)

    # tanh_c = np.tanh(c)
    d_c_from_h = d_tanh_c * (1 - tanh_c**2)  # (B, n)
    d_c = d_c_from_next + d_c_from_h  # (B, n)

    # c = f * old_c + i * g
    d_f = d_c * old_c  # (B, n)
    d_old_c = d_c * f  # (B, n)
    d_i = d_c * g  # (B, n)
    d_g = d_c * i  # (B, n)

    # g = np.tanh(before_g)
    d_before_g = d_g * (1 - g**2)  # (B, n)

    # i, f, o = sigmoid(before_i), sigmoid(before_f), sigmoid(before_o)
    d_before_i = d_i * i * (1 - i)  # (B, n)
    d_before_f = d_f * f * (1 - f)  # (B, n)
    d_before_o = d_o * o * (1 - o)  # (B, n)

    # before_i, before_f, before_o, before_g = np.split(gates, 4, axis=-1)
    d_gates = np.concatenate([d_before_i, d_before_f, d_before_o, d_before_g], axis=-1)  # (B, 4n)

    # gates = lstm_input @ lstm_gates + lstm_gates_bias
    d_w["lstm_gates"] += lstm_input.T @ d_gates  # (m + n + D, 4n)
    d_w["lstm_gates_bias"] += d_gates.sum(axis=0)  # (4n,)
    d_lstm_input = d_gates @ w["lstm_gates"].T  # (B, m + n + D)

    # lstm_input = np.concatenate([word, old_h, gated_z], axis=-1)
    d_word_from_lstm = d_lstm_input[:, :m]  # (B, m)
    d_old_h_from_lstm = d_lstm_input[:, m : m + n]  # (B, n)
    d_gated_z_from_lstm = d_lstm_input[:, m + n :]  # (B, D)

    # word = embedding[y]: several captions may have read the same word, whose row gets
    # the sum (which `d_w["embedding"][y] += d_word` would not compute)
    d_word = d_word_from_readout + d_word_from_lstm  # (B, m)
    np.add.at(d_w["embedding"], y, d_word)  # (K, m)

    # gated_z, alpha, s, kept_by_attend = attend(...)
    d_gated_z = d_gated_z_from_readout + d_gated_z_from_lstm  # (B, D)
    d_projected_photo, d_old_h_from_attend, d_e = attend_backward(
        w, d_w, kept_by_attend, d_gated_z, d_alpha_from_objective
    )
    d_old_h = d_old_h_from_lstm + d_old_h_from_attend  # (B, n)
    return d_projected_photo, d_old_h, d_old_c, d_e


# === All words of a caption ===


def call(w, a, input_ids, noise=None, sampled=None, masks=NO_DROPOUT):
    """Return logits (B, C, K), alpha (B, C, L) and s (B, C, L) of whole captions.

    `input_ids` are (B, C), noise is (B, C, L); the masks are (B, C, n) and (B, C, m).
    """
    h, c, kept_by_initial_state = initial_state(w, a)
    projected_photo, kept_by_project = project(w, a)
    steps, kept_by_steps = [], []
    for t in range(input_ids.shape[1]):
        y = input_ids[:, t]  # (B,)
        noise_t = None if noise is None else noise[:, t]
        masks_t = masks if masks is NO_DROPOUT else (masks[0][:, t], masks[1][:, t])
        logits, h, c, alpha, s, kept_by_step = step(
            w, a, projected_photo, y, h, c, noise_t, sampled, masks_t
        )
        steps.append((logits, alpha, s))
        kept_by_steps.append(kept_by_step)
    logits, alpha, s = (np.stack(outputs, axis=1) for outputs in zip(*steps))
    kept = (kept_by_initial_state, kept_by_project, kept_by_steps)
    return logits, alpha, s, kept


def call_backward(w, kept, d_logits, d_alpha_from_objective):
    """Return the gradients of all weights, and those of the scores e, (B, C, L).

    `d_logits` (B, C, K) and `d_alpha_from_objective` (B, C, L) come from
    `objective_backward`.
    """
    kept_by_initial_state, kept_by_project, kept_by_steps = kept
    d_w = {name: np.zeros_like(weight) for name, weight in w.items()}
    d_e = np.zeros_like(d_alpha_from_objective)  # (B, C, L)

    # From the last word to the first: h_t and c_t were read by word t + 1, so their
    # gradients must be known. Nothing reads the state after the last word.
    _, initial_h, initial_c = kept_by_initial_state  # only for their shapes
    d_h, d_c = np.zeros_like(initial_h), np.zeros_like(initial_c)  # (B, n)
    d_projected_photo = 0.0
    for t in reversed(range(len(kept_by_steps))):
        d_projected_photo_t, d_h, d_c, d_e[:, t] = step_backward(
            w, d_w, kept_by_steps[t], d_logits[:, t], d_alpha_from_objective[:, t], d_h, d_c
        )
        d_projected_photo = d_projected_photo + d_projected_photo_t  # (B, L, A): all words use it
    project_backward(d_w, kept_by_project, d_projected_photo)
    initial_state_backward(d_w, kept_by_initial_state, d_h, d_c)
    return d_w, d_e


# === What is minimised ===


def objective(
    w,
    batch,
    *,
    baseline=0.0,
    noise=None,
    sampled=None,
    masks=NO_DROPOUT,
    penalty_weight=PENALTY_WEIGHT,
):
    """Return the loss (14), `minimised`, and the next baseline.

    `minimised` is the loss where nothing is drawn. With draws it is the loss minus a
    surrogate; its gradient estimates that of the penalty minus (12), which should rise.

    In a batch, a is (photos, L, D). The others are (photos, captions, C): the words to
    read, those to tell, and their weights: 1, or 0 for padding.
    """
    (a, input_ids), target_ids, token_weights = batch
    input_ids = input_ids.reshape(-1, input_ids.shape[-1])  # (B, C)
    target_ids = target_ids.reshape(-1, target_ids.shape[-1])  # (B, C)
    is_word = token_weights.reshape(-1, token_weights.shape[-1])  # (B, C), 0 for padding
    # A photo may have several captions:
    a = np.repeat(a, len(input_ids) // len(a), axis=0)  # (B, L, D)
    # A row of only padding completes a batch, and is no caption:
    is_caption = is_word[:, 0]  # (B,)
    num_captions = is_caption.sum()

    logits, alpha, s, kept_by_call = call(w, a, input_ids, noise, sampled, masks)
    # The softmax of the logits, and its logarithm. No exponential of logits - largest
    # overflows.
    largest = logits.max(axis=-1, keepdims=True)  # (B, C, 1)
    exponentials = np.exp(logits - largest)  # (B, C, K)
    sums = exponentials.sum(axis=-1, keepdims=True)  # (B, C, 1)
    probabilities = exponentials / sums  # (7), (B, C, K)
    log_sum = np.log(sums) + largest  # (B, C, 1)
    target_logits = np.take_along_axis(logits, target_ids[:, :, None], axis=-1)  # (B, C, 1)
    # log p(y_t | a, y_1 .. y_{t-1}):
    word_log_p = (target_logits - log_sum)[:, :, 0]  # (B, C)
    # log p(y | a), or log p(y | s, a) where s was drawn:
    log_p = (word_log_p * is_word).sum(axis=1)  # (B,)
    # Doubly stochastic: over the caption, each region should get a total of 1.
    total_attention = (alpha * is_word[:, :, None]).sum(axis=1)  # (B, L)
    penalty = is_caption * ((1 - total_attention) ** 2).sum(axis=1)  # (B,)
    loss = (-log_p + penalty_weight * penalty).sum() / num_captions  # (14)
    minimised = loss
    next_baseline = baseline

    log_alpha = reward = None
    if sampled is not None:
        log_alpha_of_all = np.log(alpha + 1e-30)  # finite where alpha has rounded to 0
        log_alpha = log_alpha_of_all * is_word[:, :, None]  # (B, C, L), 0 for padding
        # log p(s | a) where s was drawn: s picks its log alpha; elsewhere reward is 0
        log_p_s = (s * log_alpha).sum(axis=(1, 2))  # (B,)
        entropy = -(alpha * log_alpha).sum(axis=(1, 2))  # H[s], (B,)

        # Why a draw needs another way. The place of argmax stays the same when alpha
        # changes a little, so its derivative is 0 almost everywhere: log_p alone would
        # not teach hard attention where to look. What should rise is the expectation of
        # r = log p(y | s, a) over all draws s, each the regions of a whole caption, a
        # lower bound on log p(y | a); its gradient is (11):
        #     grad E[r] = sum_s p(s) grad r + sum_s r grad p(s)
        # One draw's grad r estimates the first sum; the loss has it, as log_p. The
        # second is an expectation too, because grad p = p grad log p (REINFORCE):
        #     sum_s r grad p(s) = sum_s p(s) r grad log p(s) = E[r grad log p(s)]
        # One draw's r grad log p(s) estimates it. There, r is only a number.
        #
        # What the baseline is for. It comes from earlier batches and does not depend on
        # this draw, so it may be subtracted from r:
        #     E[baseline grad log p(s)] = baseline sum_s grad p(s) = baseline grad 1 = 0
        # r is always negative: without a baseline, each draw would make its regions
        # less probable. With the usual r as the baseline, "better than usual" is
        # positive, which lowers the variance of the estimate. (The baseline starts at
        # 0, and needs some twenty updates to get there.)
        reward = sampled * (log_p - baseline)  # (B,)

        # Where s was drawn, the gradient of log_p + surrogate estimates (12), for
        # maximising:
        #     grad log p(y | s, a) + lambda_r (r - baseline) grad log p(s | a)
        #     + lambda_e grad H[s]
        # By the derivation, lambda_r is 1; the authors chose .1, which makes the steps
        # of this noisy part smaller. The entropy keeps draws varied.
        surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy  # (B,)
        minimised = loss - surrogate.sum() / num_captions

        # The moving average of section 4.1, over the captions for which s was drawn:
        num_drawn = (sampled * is_caption).sum()
        if num_drawn > 0:
            next_baseline = 0.9 * baseline + 0.1 * (sampled * log_p).sum() / num_drawn

    given = (target_ids, is_word, is_caption, num_captions, penalty_weight, sampled)
    computed = (probabilities, total_attention, alpha, s, log_alpha, reward)
    kept = (given, computed, kept_by_call)
    return loss, minimised, next_baseline, kept


def objective_backward(w, kept):
    """Return the gradients of all weights, and those of the scores e, (B, C, L).

    No update needs d_e: docs/pictures.py draws it.
    """
    given, computed, kept_by_call = kept
    target_ids, is_word, is_caption, num_captions, penalty_weight, sampled = given
    probabilities, total_attention, alpha, s, log_alpha, reward = computed

    d_alpha_from_surrogate = 0.0
    if sampled is not None:
        # minimised = loss - surrogate.sum() / num_captions
        d_surrogate = -1 / num_captions  # the same for each caption

        # surrogate = REWARD_WEIGHT * reward * log_p_s + ENTROPY_WEIGHT * entropy
        # (reward is only a number here: log_p gets nothing from it)
        d_log_p_s = d_surrogate * REWARD_WEIGHT * reward  # (B,), 0 where nothing was drawn
        d_entropy = d_surrogate * ENTROPY_WEIGHT  # of all captions, drawn or not

        # entropy = -(alpha * log_alpha).sum(axis=(1, 2))
        d_alpha_from_entropy = -d_entropy * log_alpha  # (B, C, L)
        d_log_alpha_from_entropy = -d_entropy * alpha  # (B, C, L)

        # log_p_s = (s * log_alpha).sum(axis=(1, 2))
        # This is how hard attention learns: after a caption that was better than the
        # baseline, the regions that it looked at become more probable; after a worse
        # one, less. In `attend_backward`, the softmax makes of it this part of d_e:
        #     -REWARD_WEIGHT * reward / num_captions * (s - alpha)
        # for words, and 0 for padding. (s itself gets no gradient: where it was drawn,
        # its derivative is 0 almost everywhere; elsewhere `reward` is 0.)
        d_log_alpha_from_log_p_s = d_log_p_s[:, None, None] * s  # (B, C, L)

        # log_alpha = log_alpha_of_all * is_word[:, :, None]
        d_log_alpha = d_log_alpha_from_entropy + d_log_alpha_from_log_p_s  # (B, C, L)
        d_log_alpha_of_all = d_log_alpha * is_word[:, :, None]  # (B, C, L)

        # log_alpha_of_all = np.log(alpha + 1e-30)
        d_alpha_from_log_alpha = d_log_alpha_of_all / (alpha + 1e-30)  # (B, C, L)
        d_alpha_from_surrogate = d_alpha_from_entropy + d_alpha_from_log_alpha  # (B, C, L)

    # minimised = loss: with a surrogate too, d_loss is 1.
    # loss = (-log_p + penalty_weight * penalty).sum() / num_captions
    d_log_p = -1 / num_captions  # the same for each caption
    d_penalty = penalty_weight / num_captions

    # penalty = is_caption * ((1 - total_attention) ** 2).sum(axis=1)
    d_total_attention = d_penalty * is_caption[:, None] * -2 * (1 - total_attention)  # (B, L)

    # total_attention = (alpha * is_word[:, :, None]).sum(axis=1)
    d_alpha_from_penalty = d_total_attention[:, None] * is_word[:, :, None]  # (B, C, L)

    # log_p = (word_log_p * is_word).sum(axis=1)
    d_word_log_p = d_log_p * is_word  # (B, C)

    # word_log_p = (target_logits - log_sum)[:, :, 0]
    # The first is one of the logits. The derivative of log_sum, the logarithm of the
    # sum of their exponentials, is their softmax. So the derivative by the logit of
    # word k is [k is the target] - p_k:
    is_target = np.eye(probabilities.shape[-1], dtype=probabilities.dtype)[target_ids]
    d_logits = d_word_log_p[:, :, None] * (is_target - probabilities)  # (B, C, K)

    d_alpha_from_objective = d_alpha_from_surrogate + d_alpha_from_penalty  # (B, C, L)
    return call_backward(w, kept_by_call, d_logits, d_alpha_from_objective)


# === Training ===


def make_train_state(w):
    """Return what training remembers from one update to the next, as a dict."""
    return {
        "updates": 0,
        # Of each gradient, and of its square:
        "mean_gradients": {name: np.zeros_like(weight) for name, weight in w.items()},
        "mean_squares": {name: np.zeros_like(weight) for name, weight in w.items()},
        "baseline": 0.0,  # b of (12)
    }


def train_step(
    w,
    train_state,
    batch,
    random,
    *,
    attention="soft",
    dropout=DROPOUT,
    learning_rate=4e-4,
    penalty_weight=PENALTY_WEIGHT,
):
    """Update the weights and train_state once, in place, and return the loss (14).

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
        n, m = w["state_readout"].shape
        h_mask = dropout_mask(random, (num_rows, num_words, n), dropout)  # (B, C, n)
        readout_mask = dropout_mask(random, (num_rows, num_words, m), dropout)  # (B, C, m)
        masks = (h_mask.astype(a.dtype), readout_mask.astype(a.dtype))

    loss, _, next_baseline, kept = objective(
        w,
        batch,
        baseline=train_state["baseline"],
        noise=noise,
        sampled=sampled,
        masks=masks,
        penalty_weight=penalty_weight,
    )
    d_w, _ = objective_backward(w, kept)
    clip(d_w)
    adam(w, train_state, d_w, learning_rate)
    train_state["baseline"] = next_baseline
    return loss


def dropout_mask(random, shape, dropout):
    """Return 0 for what is dropped, 1 / (1 - dropout) for the rest: 1 on average."""
    return (random.random(shape) >= dropout) / (1 - dropout)


def clip(d_w):
    """Shorten the gradients in place, so that their common norm is at most MAX_NORM."""
    norm = np.sqrt(sum((gradient**2).sum() for gradient in d_w.values()))
    if norm > MAX_NORM:
        for gradient in d_w.values():
            gradient *= MAX_NORM / norm


def adam(w, train_state, d_w, learning_rate):
    """Update the weights in place: Adam (Kingma and Ba, 2015) as usually set."""
    train_state["updates"] += 1
    updates = train_state["updates"]
    # The averages start at 0. This makes up for it:
    correction = np.sqrt(1 - 0.999**updates) / (1 - 0.9**updates)
    step_size = float(learning_rate * correction)  # as a float, it keeps float32
    for name, gradient in d_w.items():
        mean_gradient = train_state["mean_gradients"][name]
        mean_square = train_state["mean_squares"][name]
        mean_gradient += 0.1 * (gradient - mean_gradient)
        mean_square += 0.001 * (gradient**2 - mean_square)
        w[name] -= step_size * mean_gradient / (np.sqrt(mean_square) + 1e-7)


def caption(w, a, vocabulary, max_length=20):
    """Caption photos by greedy search with the expected z_t.

    Return the words and the attention maps (words, L) of each photo.
    """
    h, c, _ = initial_state(w, a)
    projected_photo, _ = project(w, a)
    y = np.full(len(a), vocabulary.start_token_id)  # (B,)
    steps = []
    for _ in range(max_length):
        logits, h, c, alpha, *_ = step(w, a, projected_photo, y, h, c)
        y = np.argmax(logits, axis=-1)  # (B,)
        steps.append((y, alpha))
    ids, maps = (np.stack(x, axis=1) for x in zip(*steps))

    captions = []
    for photo_ids, photo_maps in zip(ids, maps):
        words = vocabulary.ids_to_words(photo_ids)  # up to the first <end>
        captions.append((words, photo_maps[: len(words)]))
    return captions
