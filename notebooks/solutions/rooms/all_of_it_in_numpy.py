# %% gap="softmax"
def softmax(e):
    exponentials = np.exp(e - e.max())
    return exponentials / exponentials.sum()


def softmax_backward(alpha, d_alpha):
    """Return d_e, (L,)."""
    return alpha * (d_alpha - (alpha * d_alpha).sum())


# %% wrong="softmax"
def softmax_backward(alpha, d_alpha):
    return alpha * (1 - alpha) * d_alpha  # as if each score changed only its own weight


# %% gap="time"
def to_the_word_before(d_keys, of_word):
    """Return d_h, d_c and d_keys for the word before. `d_keys` is the sum over the words after this one."""
    d_old_h, d_old_c, d_keys_of_word = of_word
    return d_old_h, d_old_c, d_keys + d_keys_of_word


def backward(kept):
    """Return the gradients of all weights, as a dict."""
    h_0, c_0, kept_by_words = kept
    d_w = {name: np.zeros_like(weight) for name, weight in w.items()}
    d_h, d_c, d_keys = np.zeros(n), np.zeros(n), np.zeros((L, 4))  # nothing reads the state after the last word
    for kept_by_word in reversed(kept_by_words):
        d_h, d_c, d_keys = to_the_word_before(d_keys, step_backward(d_w, kept_by_word, d_h, d_c))
    # keys = a @ feature_projection + feature_projection_bias
    d_w["feature_projection"] += a.T @ d_keys
    d_w["feature_projection_bias"] += d_keys.sum(axis=0)
    # h_0 and c_0 = tanh(mean of a @ .. + ..)
    for name, d_state, state in (("initial_hidden", d_h, h_0), ("initial_cell", d_c, c_0)):
        d_before = d_state * (1 - state**2)
        d_w[name] += np.outer(a.mean(axis=0), d_before)
        d_w[f"{name}_bias"] += d_before
    return d_w


# %% wrong="time"
def to_the_word_before(d_keys, of_word):
    return of_word  # the keys of this word only


# %% exercise=1
right_softmax_backward = softmax_backward


def softmax_backward(alpha, d_alpha):
    return alpha * d_alpha


wrong_d_w = backward(forward()[1])
softmax_backward = right_softmax_backward
errors = {name: np.abs(wrong_d_w[name] - gradient).max() for name, gradient in d_w.items()}
print("right:", *(name for name, error in errors.items() if error < 1e-12))
print("wrong:", *(name for name, error in errors.items() if error > 1e-12))

# Only the gradients of the readout's weights are right, since they do not depend on the softmax's backward pass. All
# others are wrong, even those of the LSTM, which comes after attention: at all words but the last, the LSTM's d_h has
# passed through the attention of a later word.
assert {name for name, error in errors.items() if error < 1e-12} == {
    "state_readout",
    "context_readout",
    "word_logits",
    "word_logits_bias",
}

# %% exercise=2
e, R, noise = rng.normal(size=5), rng.normal(size=5), rng.gumbel(size=5)
of_a_draw = by_differences(lambda: R[np.argmax(np.log(softmax(e)) + noise)], e)
of_the_mean = by_differences(lambda: softmax(e) @ R, e)
print("of a draw:   ", of_a_draw)
print("of the mean: ", of_the_mean.round(3))
print("softmax line:", softmax_backward(softmax(e), R).round(3))

# After a small change of a score, the same region is sampled, so the derivative of a sample is 0, which is correct but
# useless. The mean is smooth, and `softmax_backward` computes its derivative, with R_i in place of d_alpha_i. REINFORCE
# estimates this derivative from samples (docs/backward.md).
assert (of_a_draw == 0).all()
np.testing.assert_allclose(softmax_backward(softmax(e), R), of_the_mean, atol=1e-8)
