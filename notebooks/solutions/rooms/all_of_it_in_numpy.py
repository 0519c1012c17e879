# %% gap="softmax"
def softmax(e):
    exponentials = np.exp(e - e.max())
    return exponentials / exponentials.sum()


def softmax_backward(alpha, d_alpha):
    """Return d_e, (L,)."""
    return alpha * (d_alpha - (alpha * d_alpha).sum())


# %% wrong="softmax"
def softmax_backward(alpha, d_alpha):
    return alpha * (1 - alpha) * d_alpha  # each score's own weight only


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
def softmax_backward(alpha, d_alpha):
    return alpha * d_alpha


wrong_d_w = backward(forward()[1])
for name, gradient in d_w.items():
    print(f"{name:24}{np.abs(wrong_d_w[name] - gradient).max():.0e}")

# %% exercise=2
(photo_features, ids), targets, weights = train_in_numpy.make_batch(encoder, unseen[:50])
print(weights.shape)
