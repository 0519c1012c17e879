"""The equations of Show, Attend and Tell (Xu et al., 2015), as pure functions without
weights or state.

Words in shapes: `photos`, `regions` (L in the paper), `feature_dim` (D), `hidden_dim`
(n), `embedding_dim` (m), `vocabulary` (K), `time` (C), and `rows`. A row is one
caption. A photo may have several adjacent rows (captions, beams, samples): `rows` is a
multiple of `photos`, and the features of a photo are never copied.
"""

from keras import ops

SMALLEST = 1e-30  # keeps logarithms finite where a probability has rounded to 0

# === The decoder: section 3.1.2 of the paper ===


def mean_annotation(features):
    """Return the mean annotation vector (photos, feature_dim), from which h_0 and c_0
    are computed.
    """
    return ops.mean(features, axis=1)


def lstm(gates, cell_state):
    """Return h_t and c_t of an LSTM, equations (1) to (3).

    Args:
        gates: T [E y_{t-1}; h_{t-1}; z_t], (rows, 4 * hidden_dim), in the paper's order
            i, f, o, g.
        cell_state: c_{t-1}, (rows, hidden_dim).
    """
    opened = lstm_gates(gates)
    cell_state = opened["forget"] * cell_state + opened["input"] * opened["candidate"]
    return opened["output"] * ops.tanh(cell_state), cell_state


def lstm_gates(gates):
    """Return i_t, f_t, o_t and g_t of equation (1) by name, each (rows, hidden_dim);
    see `lstm`.
    """
    input_gate, forget_gate, output_gate, candidate = ops.split(gates, 4, axis=-1)
    return {
        "input": ops.sigmoid(input_gate),
        "forget": ops.sigmoid(forget_gate),
        "output": ops.sigmoid(output_gate),
        "candidate": ops.tanh(candidate),
    }


def gru(projected_inputs, projected_state, hidden_state):
    """Return h_t of a gated recurrent unit, which has no cell state.

    Args:
        projected_inputs: sum for word and context, (rows, 3 * hidden_dim): reset,
            update, candidate.
        projected_state: projection of h_{t-1}, in the same order.
        hidden_state: h_{t-1}, (rows, hidden_dim).
    """
    opened = gru_gates(projected_inputs, projected_state)
    update = opened["update"]
    return update * hidden_state + (1 - update) * opened["candidate"]


def gru_gates(projected_inputs, projected_state):
    """Return the reset gate, the update gate and the candidate of a gated recurrent
    unit by name, each (rows, hidden_dim); see `gru`.
    """
    reset_input, update_input, candidate_input = ops.split(projected_inputs, 3, axis=-1)
    reset_state, update_state, candidate_state = ops.split(projected_state, 3, axis=-1)
    reset = ops.sigmoid(reset_input + reset_state)
    return {
        "reset": reset,
        "update": ops.sigmoid(update_input + update_state),
        "candidate": ops.tanh(candidate_input + reset * candidate_state),
    }


def deep_output(embedded, projected_state, projected_context):
    """Return E y_{t-1} + L_h h_t + L_z z_t of shape (..., embedding_dim), the input of
    L_o in equation (7).
    """
    return embedded + projected_state + projected_context


# === Attention ===


def additive_scores(projected_features, projected_state, score_vector):
    """Return e_ti = v . tanh(W_a a_i + W_h h_{t-1} + b) of shape (rows, regions):
    additive attention, equation (4).

    Args:
        projected_features: W_a a_i + b, (photos, regions, attention_dim).
        projected_state: W_h h_{t-1}, (rows, attention_dim).
        score_vector: v, (attention_dim,).
    """
    photos, regions, attention_dim = ops.shape(projected_features)
    projected_state = ops.reshape(projected_state, (photos, -1, 1, attention_dim))
    # (photos, rows / photos, regions, dim)
    hidden = ops.tanh(ops.expand_dims(projected_features, 1) + projected_state)
    scores = ops.matmul(ops.reshape(hidden, (-1, attention_dim)), ops.expand_dims(score_vector, -1))
    return ops.reshape(scores, (-1, regions))


def dot_scores(features, query):
    """Return e_ti = a_i . q_t of shape (rows, regions), from features (photos, regions,
    dim) and queries (rows, dim).

    q_t is h_{t-1} for dot attention, W h_{t-1} for bilinear attention.
    """
    photos, regions, feature_dim = ops.shape(features)
    query = ops.reshape(query, (photos, -1, feature_dim))
    scores = ops.matmul(query, ops.transpose(features, (0, 2, 1)))  # (photos, captions, regions)
    return ops.reshape(scores, (-1, regions))


def attention_weights(attention_scores):
    """Return alpha_t, equation (5): the softmax over the regions, always in float32."""
    return ops.softmax(ops.cast(attention_scores, "float32"), axis=-1)


def sample_locations(attention_weights, noise):
    """Draw s_t ~ Multinoulli(alpha_t) (8), one-hot (rows, regions): argmax_i(log
    alpha_ti + Gumbel noise_i).
    """
    best = ops.argmax(ops.log(ops.maximum(attention_weights, SMALLEST)) + noise, axis=-1)
    return ops.one_hot(best, ops.shape(attention_weights)[-1], dtype=attention_weights.dtype)


def gumbel(uniform):
    """Convert uniform noise in 0..1 to standard Gumbel noise."""
    return -ops.log(-ops.log(ops.clip(uniform, SMALLEST, 1 - 1e-7)))


def sentinel(gate, memory):
    """Return s_t = sigmoid(gate) * tanh(memory), equation (10) of Lu et al. (2017).

    Args:
        gate: W h of the attending state, (rows, hidden_dim). Lu et al. compute it from
            x_t and h_{t-1}.
        memory: the cell state, or the hidden state of a cell without one, (rows,
            hidden_dim).
    """
    return ops.sigmoid(gate) * ops.tanh(memory)


def share_from_photo(attention_scores, sentinel_score):
    """Return 1 - beta_t, equation (12) of Lu et al. (2017): the attention on the photo,
    of shape (rows, 1).

    It is the sum over the regions of a float32 softmax of the scores (rows, regions)
    and (rows, 1).
    """
    of_regions = ops.logsumexp(ops.cast(attention_scores, "float32"), axis=-1, keepdims=True)
    return ops.sigmoid(of_regions - ops.cast(sentinel_score, "float32"))


def attended_features(selection, features):
    """Return sum_i s_ti a_i of shape (rows, feature_dim): equation (9) if s_t is
    one-hot, (13) if it is alpha_t.
    """
    photos, regions, feature_dim = ops.shape(features)
    selection = ops.reshape(ops.cast(selection, features.dtype), (photos, -1, regions))
    return ops.reshape(ops.matmul(selection, features), (-1, feature_dim))


# === What a logit is made of ===
#
# The logits are L_o f(s) + b, where s is a sum of summands p, such as E y_{t-1},
# L_h h_t and L_z z_t, and f works on each element (without an activation, f(s) = s).
# Integrated gradients along the straight line from 0 to s divide L_o (f(s) - f(0))
# among the summands, in closed form:
#
#     slope = (f(s) - f(0)) / s            secant_slopes
#     part of p = L_o (p * slope)          part_of_logits
#     part of the bias = b + L_o f(0)      bias_of_logits
#
# The parts of a logit sum to it exactly. The photo's summand is beta_t L_z sum_i
# alpha_ti a_i, so that its part is a sum over regions: see `votes`.


def secant_slopes(summed, activation):
    """Return (f(s) - f(0)) / s, or f'(0) where s is 0, elementwise, in the shape and
    dtype of s.

    Args:
        summed: s, the input of the activation.
        activation: f, a function of a tensor.
    """
    s = ops.cast(summed, "float64")
    # Closer to 0 than this, the difference is lost in rounding, and the slope at this
    # distance is that at 0.
    nearest = 1e-5
    away_from_zero = ops.where(s < 0, ops.minimum(s, -nearest), ops.maximum(s, nearest))
    end = ops.cast(activation(away_from_zero), "float64")
    start = ops.cast(activation(ops.zeros_like(s)), "float64")
    return ops.cast((end - start) / away_from_zero, summed.dtype)


def part_of_logits(summand, slopes, word_vectors):
    """Return L_o (p * slope), the part of each logit that a summand p gives: (...,
    words).

    Args:
        summand, slopes: p and the output of `secant_slopes`, (..., readout_dim).
        word_vectors: L_o, or its columns for some words, (readout_dim, words).
    """
    return ops.matmul(summand * slopes, word_vectors)


def bias_of_logits(activation, word_vectors, bias):
    """Return b + L_o f(0), (words,): the part of each logit that depends neither on
    words nor on the photo.

    Args:
        activation: f, a function of a tensor.
        word_vectors, bias: L_o and b, or their columns for some words, (readout_dim,
            words) and (words,).
    """
    at_zero = activation(ops.zeros_like(word_vectors[:, :1]))  # (readout_dim, 1)
    return bias + ops.sum(at_zero * word_vectors, axis=0)


def word_directions(slopes, words, context_readout):
    """Return d = L_z (slope * L_o w), (..., feature_dim): the direction in which
    features raise the logit of a word w.

    Args:
        slopes: the output of `secant_slopes`, (..., readout_dim).
        words: the columns of L_o for the words w, (..., readout_dim).
        context_readout: L_z, (feature_dim, readout_dim).
    """
    return ops.matmul(slopes * words, ops.transpose(context_readout))


def votes(selection, features, directions, share):
    """Return vote_ti = beta_t alpha_ti d . (a_i - mean(a)), (rows, regions): what each
    region adds to the logit of a word, compared with the mean of the photo.

    Their sum is the photo's part of the logit less `vote_of_mean`.

    Args:
        selection: alpha_t, (rows, regions).
        features: a_i, (photos, regions, feature_dim).
        directions: d of a word, (rows, feature_dim).
        share: beta_t, or the fraction from_photo, or 1; (rows, 1).
    """
    centred = features - ops.expand_dims(mean_annotation(features), 1)
    return share * selection * dot_scores(centred, directions)


def vote_of_mean(features, directions, share):
    """Return beta_t d . mean(a), (rows, 1): what a photo of its mean everywhere would
    add to the logit of a word; see `votes`.
    """
    mean = ops.expand_dims(mean_annotation(features), 1)  # (photos, 1, feature_dim)
    return share * dot_scores(mean, directions)


# === The loss: section 4 of the paper ===


def word_log_probs(logits, target_ids):
    """Return log p(y_t | a, y_1 .. y_{t-1}) of each target word, from logits of shape
    (..., vocabulary).
    """
    return -ops.sparse_categorical_crossentropy(target_ids, logits, from_logits=True)


def mean_log_probs(logits):
    """Return the mean of log p over the vocabulary, which label smoothing needs."""
    return ops.mean(logits, axis=-1) - ops.logsumexp(logits, axis=-1)


def caption_log_prob(word_log_probs, token_weights):
    """Return log p(y | a) of each caption, the sum over its words.

    Both arguments have shape (rows, time).
    """
    return ops.sum(word_log_probs * token_weights, axis=-1)


def attention_penalty(attention_weights, token_weights):
    """Return sum_i (1 - sum_t alpha_ti)^2, the penalty of equation (14), for each
    caption, ignoring padding.

    Attention weights are (rows, time, regions), token weights (rows, time).
    """
    total = ops.sum(attention_weights * ops.expand_dims(token_weights, -1), axis=1)
    return ops.sum(ops.square(1 - total), axis=-1)


def attention_entropy(attention_weights):
    """Return the entropy H[s_t] = -sum_i alpha_ti log alpha_ti in nats: one axis fewer
    than the weights.
    """
    return -ops.sum(attention_weights * ops.log(ops.maximum(attention_weights, SMALLEST)), axis=-1)


def location_log_prob(attention_weights, selection, token_weights):
    """Return log p(s | a) = sum_t log alpha_{t, s_t} of the sampled regions in each
    row, from equation (8).

    Attention weights and one-hot s_t are (rows, time, regions), token weights (rows,
    time).
    """
    chosen = ops.sum(attention_weights * ops.stop_gradient(selection), axis=-1)
    return ops.sum(ops.log(ops.maximum(chosen, SMALLEST)) * token_weights, axis=-1)


def hard_attention_surrogate(
    log_prob, location_log_prob, entropy, *, reward, sampled, reward_weight=1.0, entropy_weight=0.0
):
    """Return, for each row, a surrogate to be maximised, whose gradient is equation
    (12).

    It is log p(y | s, a) + lambda_r (log p(y | s, a) - b) log p(s | a) + lambda_e H[s],
    where (...) is a constant. The arguments are (rows,), but for lambda_r and lambda_e.

    Args:
        log_prob, location_log_prob: log p(y | s, a) and log p(s | a).
        entropy: H[s] summed over the words.
        reward: log p(y | s, a) - b.
        sampled: 1 where regions were sampled, 0 where the expectation replaced them: no
            second term there.
    """
    reinforce = sampled * ops.stop_gradient(reward) * location_log_prob
    return log_prob + reward_weight * reinforce + entropy_weight * entropy


# === Supervision of attention ===


def detected(cell_logits):
    """Return 1 - prod_i (1 - p_iw) of shape (photos, words), from the logits (photos,
    regions, words) of p_iw.

    This is the probability that at least one region shows word w.
    """
    return -ops.expm1(-ops.sum(ops.softplus(cell_logits), axis=1))


def detection_loss(cell_logits, is_there):
    """Return the cross-entropy (photos, words) of `detected` with `is_there`, which is
    1 for words in the captions.
    """
    # No product of many numbers that could underflow.
    minus_log_absence = ops.sum(ops.softplus(cell_logits), axis=1)
    log_presence = ops.log(ops.maximum(-ops.expm1(-minus_log_absence), SMALLEST))
    return (1 - is_there) * minus_log_absence - is_there * log_presence


def detector_maps(cell_logits):
    """Return each word's map p_iw / sum_i p_iw, of shape (photos, regions, words)."""
    return ops.exp(ops.log_softmax(ops.log_sigmoid(cell_logits), axis=1))


def map_cross_entropy(target_maps, attention_weights):
    """Return the cross-entropy -sum_i m_ti log alpha_ti, which is lowest if attention
    equals the map m_t.
    """
    return -ops.sum(target_maps * ops.log(ops.maximum(attention_weights, SMALLEST)), axis=-1)


def box_loss(attention_weights, covered):
    """Return -log sum_i alpha_ti c_ti + 1 / (4 A) sum_i H(c_ti, p_ti).

    The boxes cover the fraction c_ti of region i, and A = sum_i c_ti regions in all.
    One region satisfies the first summand. The second is the binary cross-entropy of
    each region with p_ti = 2 A alpha_ti / (1 + 2 A alpha_ti), which is above .5 where
    alpha_ti is above half of 1 / A, the weight in a uniform map of the boxes.
    """
    area = ops.maximum(ops.sum(covered, axis=-1, keepdims=True), SMALLEST)
    logits = ops.log(ops.maximum(2 * area * attention_weights, SMALLEST))
    cross_entropy = ops.sum((ops.softplus(logits) - covered * logits) / area, axis=-1)
    on_boxes = ops.sum(attention_weights * covered, axis=-1)
    return cross_entropy / 4 - ops.log(ops.maximum(on_boxes, SMALLEST))


def next_baseline(baseline, log_prob):
    """Return b_k = 0.9 b_{k-1} + 0.1 log p(y | s_k, a), the moving average of section
    4.1.
    """
    return 0.9 * baseline + 0.1 * log_prob
