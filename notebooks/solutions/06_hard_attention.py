# %% gap="draw"
def draw(alpha, noise):
    """Return the regions (draws,) that Gumbel noise (draws, L) draws with the probabilities alpha (L,)."""
    return np.argmax(np.log(alpha) + noise, axis=-1)


# %% wrong="draw"
def draw(alpha, noise):
    return np.argmax(alpha + noise, axis=-1)  # without the logarithm


# %% wrong="draw"
def draw(alpha, noise):
    return np.random.choice(len(alpha), size=len(noise), p=alpha)  # draws, but from noise of its own


# %% gap="bracket"
def brackets(places, baseline=0.0):
    """Return an estimate of the gradient of L_s for the scores from each drawn place (draws,): (draws, 3)."""
    one_hot = np.eye(3)[places]
    reward = log_p_word[places] - baseline
    return reward[:, None] * (one_hot - alpha)


# %% wrong="bracket"
def brackets(places, baseline=0.0):
    one_hot = np.eye(3)[places]
    reward = log_p_word[places] - baseline
    return reward[:, None] * (alpha - one_hot)  # downhill


# %% gap="surrogate"
def surrogate(log_p_y, log_p_s, baseline):
    """Return, for each draw, a value whose gradient is the bracket."""
    reward = ops.stop_gradient(log_p_y - baseline)
    return log_p_y + reward * log_p_s


# %% wrong="surrogate"
def surrogate(log_p_y, log_p_s, baseline):
    return log_p_y + (log_p_y - baseline) * log_p_s  # the reward has a gradient of its own


# %% wrong="surrogate"
def surrogate(log_p_y, log_p_s, baseline):
    return log_p_y + ops.stop_gradient(log_p_y + 3 * baseline) * log_p_s  # no baseline changes the mean


# %% gap="baseline"
def next_baseline(baseline, log_p_y):
    """Return b_k from b_{k-1} and log p(y | s, a) of the captions that were drawn in this update, (draws,)."""
    return 0.9 * baseline + 0.1 * np.mean(log_p_y)


# %% wrong="baseline"
def next_baseline(baseline, log_p_y):
    return 0.1 * baseline + 0.9 * np.mean(log_p_y)  # forgets nearly everything


# %% exercise=1
three = np.array([-12.0, -8.0, -4.0])
a2, a1, _ = np.polyfit(three, [variance_of(estimates(b), p) for b in three], deg=2)
best = -a1 / (2 * a2)
print(f"best baseline {best:.2f}, L_s = {bound:.2f}")
print(f"variance {variance_of(estimates(best), p):.1f} instead of {variance['with']:.1f}")

# Not quite. The reward counts more where grad log p is long, and the gradient of the caption itself scatters, too. But
# it is near, and L_s is easy to estimate.
assert abs(best - bound) < 1 and variance_of(estimates(best), p) <= variance["with"]

# %% exercise=2
of_f_att = {weight: estimates(bound, weight)[:, of_attention] for weight in (1.0, 0.1)}
for weight, rows_of_weight in of_f_att.items():
    length = np.linalg.norm(p @ rows_of_weight)
    print(f"lambda_r = {weight}: variance {variance_of(rows_of_weight, p):.3f}, the mean has length {length:.3f}")

# The variance is a hundredth, and the mean gradient a tenth: attention learns as if it had a lower rate of its own, and
# an optimiser such as Adam, which divides by the size of each gradient, undoes part of that.
ratio = variance_of(of_f_att[0.1], p) / variance_of(of_f_att[1.0], p)
assert abs(ratio - 0.01) < 1e-4

# %% exercise=3
h, c = models["hard"].initial_state(grids)
y, steps = np.full(len(grids), vocabulary.start_token_id), []
for _ in range(16):
    no_noise, always = np.zeros(grids.shape[:2], "float32"), np.ones(len(grids), "float32")
    logits, h, c, *_ = models["hard"].step(grids, y, h, c, no_noise, always)
    y = np.argmax(logits, axis=-1)
    steps.append(y)
captions = [" ".join(vocabulary.ids_to_words(row)) for row in np.stack(steps, axis=1)]
of_peak = np.mean([is_true(scene, text) is True for scene, text in zip(unseen, captions)])
print(f"most probable place: {of_peak:.0%}, drawn: {true['hard', True]:.0%}, expectation: {true['hard', False]:.0%}")

# More than with draws, since the bad draws are left out.
assert of_peak > true["hard", True]

# %% exercise=4
noise = np.random.default_rng(2).gumbel(size=(100_000, 3))
spread, off = {}, {}
for temperature in (2.0, 0.5, 0.1):
    q = np.exp((np.log(alpha) + noise) / temperature)
    q /= q.sum(axis=1, keepdims=True)
    gradients = q * (log_p_word - q @ log_p_word[:, None]) / temperature
    off[temperature] = np.linalg.norm(gradients.mean(axis=0) - exact_of_word) / np.linalg.norm(exact_of_word)
    spread[temperature] = gradients.var(axis=0).sum()
    print(f"tau = {temperature}: the mean is {off[temperature]:.0%} away, variance {spread[temperature]:.2f}")

# A trade: a high temperature has little variance and another mean; a low one has the right mean, and scatters. Also,
# the model then reads a mixture of regions, not one region.
assert off[2.0] > off[0.5] > off[0.1] and spread[2.0] < spread[0.5] < spread[0.1]
