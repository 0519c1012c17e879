"""What a CaptionDecoder computes beyond the paper's own network, in plain numpy with
loops over regions and words: other scores, GRU, several layers, attention after
reading, sentinel, no attention, other readouts.

An independent transcription to compare the layers with; the paper's own network is in
keras_sat/show_attend_tell_numpy.py. Weights are dicts with the paper's letters.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def score(w, a_i, h):
    """e_ti for one region."""
    if w["scoring"] == "additive":
        return w["v"] @ np.tanh(a_i @ w["W_a"] + w["b_a"] + h @ w["W_h"])
    if w["scoring"] == "dot":
        return a_i @ h
    return a_i @ (h @ w["W"])


def recurrent(w, layer, x, h, c):
    """One layer's step; x is the input from below, already projected by its kernels."""
    n = len(h)
    if w["cell"] == "lstm":
        gates = x + h @ w["U"][layer]
        i, f, o, g = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    u = h @ w["U"][layer] + w["b_U"][layer]
    r = sigmoid(x[:n] + u[:n])
    z = sigmoid(x[n : 2 * n] + u[n : 2 * n])
    candidate = np.tanh(x[2 * n :] + r * u[2 * n :])
    return z * h + (1 - z) * candidate, c


def all_layers(w, x, h, c):
    """All layers' step from the projected input of the first."""
    h, c = list(h), list(c)
    for layer in range(len(h)):
        if layer:
            x = h[layer - 1] @ w["W_x"][layer] + w["b_x"][layer]
        h[layer], c[layer] = recurrent(w, layer, x, h[layer], c[layer])
    return h, c


def look(w, a, h, c, noise):
    """z_t, alpha_t, s_t and 1 - beta_t (of the sentinel), from the state (h, c) that
    attends.
    """
    if w["attention"] == "none":
        alpha = np.full(len(a), 1 / len(a))
        return a.mean(axis=0), alpha, alpha, 1.0
    scores = [score(w, a_i, h) for a_i in a]
    alpha = softmax(np.array(scores))
    s = alpha if noise is None else np.eye(len(a))[np.argmax(np.log(alpha) + noise)]
    z = sum(s[i] * a[i] for i in range(len(a)))
    if "f_beta" in w:
        return sigmoid(h @ w["f_beta"] + w["f_beta_b"]) * z, alpha, s, 1.0
    if "P_s" not in w:
        return z, alpha, s, 1.0
    remembered = sigmoid(h @ w["W_s"] + w["b_s"]) * np.tanh(h if c is None else c) @ w["P_s"]
    beta = softmax(np.array([*scores, score(w, remembered, h)]))[-1]
    return beta * remembered + (1 - beta) * z, alpha, s, 1 - beta


def forward(w, a, words, noise=None):
    """One caption: a (L, D), words y_0 .. y_{C-1}.

    Returns log p of the whole vocabulary, alpha, s, and 1 - beta of the sentinel, at
    each step.
    """
    layers = len(w["U"])
    mean = a.mean(axis=0)
    h = np.split(np.tanh(mean @ w["init_h"] + w["init_h_b"]), layers)
    c = (
        np.split(np.tanh(mean @ w["init_c"] + w["init_c_b"]), layers)
        if w["cell"] == "lstm"
        else [None] * layers
    )
    log_probs, alphas, selections, shares = [], [], [], []
    for t, y in enumerate(words):
        x = w["E"][y] @ w["W_x"][0] + w["b_x"][0]
        if w["attends"] == "after":
            h, c = all_layers(w, x + mean @ w["W_z"], h, c)
        z, alpha, s, from_photo = look(w, a, h[-1], c[-1], None if noise is None else noise[t])
        if w["attends"] == "before":
            h, c = all_layers(w, x + z @ w["W_z"], h, c)
        readout = np.concatenate([h[-1], z])
        if "L_h" in w:
            readout = w["E"][y] + h[-1] @ w["L_h"] + z @ w["L_z"]
        if w["readout_activation"] == "tanh":
            readout = np.tanh(readout)
        log_probs.append(np.log(softmax(readout @ w["L_o"] + w["L_o_b"])))
        alphas.append(alpha)
        selections.append(s)
        shares.append([from_photo])
    return np.array(log_probs), np.array(alphas), np.array(selections), np.array(shares)


def weights_of(decoder):
    """Read the weights of a CaptionDecoder into the paper's letters, in float64."""

    def array(variable):
        return np.asarray(variable, dtype=np.float64)

    def dense(kernel, layer, bias=None):
        return {kernel: array(layer.kernel), **({} if bias is None else {bias: array(layer.bias)})}

    attention, cells, readout = decoder.attention_layer, decoder.cells, decoder.readout
    scoring = decoder.settings.scoring if decoder.has_attention else None
    w = {
        name: getattr(decoder.settings, name)
        for name in ("attention", "attends", "scoring", "cell", "readout_activation")
    }
    w["E"] = array(decoder.embedding.embeddings)
    w |= dense("init_h", decoder.initial_hidden, "init_h_b")
    if decoder.settings.cell == "lstm":
        w |= dense("init_c", decoder.initial_cell, "init_c_b")
    else:
        w["b_U"] = [array(cell.recurrent_projection.bias) for cell in cells]
    if scoring == "additive":
        w |= dense("W_a", attention.feature_projection, "b_a") | dense(
            "W_h", attention.state_projection
        )
        w["v"] = array(attention.score_vector)
    if scoring == "bilinear":
        w |= dense("W", attention.state_projection)
    if decoder.has_gate:
        w |= dense("f_beta", decoder.gate, "f_beta_b")
    w["U"] = [array(cell.recurrent_projection.kernel) for cell in cells]
    w["W_x"] = [array(cell.input_projection.kernel) for cell in cells]
    w["b_x"] = [array(cell.input_projection.bias) for cell in cells]
    w |= dense("W_z", cells[0].context_projection)
    if hasattr(decoder, "sentinel_layer"):
        w |= dense("W_s", decoder.sentinel_layer.gate, "b_s") | dense(
            "P_s", decoder.sentinel_layer.projection
        )
    if readout.deep_output:
        w |= dense("L_h", readout.state_readout) | dense("L_z", readout.context_readout)
    return w | dense("L_o", readout.word_logits, "L_o_b")
