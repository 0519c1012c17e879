"""Show, Attend and Tell in plain numpy, loops and all, written from the paper alone: what the layers are held against.

Weights are dicts with the paper's letters. Nothing here imports keras_sat.
"""

import numpy as np

from keras_sat.beyond.attend_after import AttendAfter


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
    """One layer's step; x is what comes from below, already projected by its kernels."""
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
    """z_t, alpha_t, s_t and 1 - beta_t, from the state (h, c) that attends."""
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

    Returns log p of the whole vocabulary, alpha, s, and 1 - beta of the sentinel, at each step.
    """
    layers = len(w["U"])
    mean = a.mean(axis=0)
    h = np.split(np.tanh(mean @ w["init_h"] + w["init_h_b"]), layers)
    c = np.split(np.tanh(mean @ w["init_c"] + w["init_c_b"]), layers) if w["cell"] == "lstm" else [None] * layers
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


def loss(log_probs, alphas, targets, penalty_weight):
    """L_d of equation (14) for one caption."""
    negative = -sum(log_probs[t][y] for t, y in enumerate(targets))
    return negative + penalty_weight * sum((1 - alphas[:, i].sum()) ** 2 for i in range(alphas.shape[1]))


def weights_of(decoder):
    """Read the weights of a CaptionDecoder into the paper's letters, in float64."""

    def array(variable):
        return np.asarray(variable, dtype=np.float64)

    attention, cells = decoder.attention_layer, decoder.cells
    w = {
        "attention": decoder.attention,
        "attends": "after" if isinstance(decoder, AttendAfter) else "before",
        "scoring": decoder.scoring,
        "cell": decoder.cell,
    }
    w |= {"E": array(decoder.embedding.embeddings), "readout_activation": decoder.readout_activation}
    w |= {"init_h": array(decoder.initial_hidden.kernel), "init_h_b": array(decoder.initial_hidden.bias)}
    if decoder.cell == "lstm":
        w |= {"init_c": array(decoder.initial_cell.kernel), "init_c_b": array(decoder.initial_cell.bias)}
    else:
        w["b_U"] = [array(cell.recurrent_projection.bias) for cell in cells]
    if decoder.attention != "none" and decoder.scoring == "additive":
        w |= {"W_a": array(attention.feature_projection.kernel), "b_a": array(attention.feature_projection.bias)}
        w |= {"W_h": array(attention.state_projection.kernel), "v": array(attention.score_vector)}
    if decoder.attention != "none" and decoder.scoring == "bilinear":
        w["W"] = array(attention.state_projection.kernel)
    if decoder.has_gate:
        w |= {"f_beta": array(decoder.gate.kernel), "f_beta_b": array(decoder.gate.bias)}
    w["U"] = [array(cell.recurrent_projection.kernel) for cell in cells]
    w["W_x"] = [array(cell.input_projection.kernel) for cell in cells]
    w["b_x"] = [array(cell.input_projection.bias) for cell in cells]
    w["W_z"] = array(cells[0].context_projection.kernel)
    if hasattr(decoder, "sentinel_layer"):
        layer = decoder.sentinel_layer
        w |= {"W_s": array(layer.gate.kernel), "b_s": array(layer.gate.bias), "P_s": array(layer.projection.kernel)}
    if decoder.deep_output:
        w |= {"L_h": array(decoder.readout.state_readout.kernel), "L_z": array(decoder.readout.context_readout.kernel)}
    return w | {"L_o": array(decoder.readout.word_logits.kernel), "L_o_b": array(decoder.readout.word_logits.bias)}
