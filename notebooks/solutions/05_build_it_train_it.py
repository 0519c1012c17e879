# %% gap="score"
def score(self, keys, h):
    """Return e_t (B, L) of (4). keys are (B, L, A): W_a a_i + b_a. h is h_{t-1}, (B, n)."""
    query = self.W_h(h)  # (B, A)
    hidden = ops.tanh(keys + query[:, None])  # (B, L, A)
    return self.v(hidden)[:, :, 0]


SoftAttention.score = score


# %% wrong="score"
def score(self, keys, h):
    query = self.W_h(h)
    return self.v(ops.tanh(keys) + query[:, None])[:, :, 0]  # the query outside the tanh


SoftAttention.score = score


# %% gap="context"
def context(self, a, alpha, h):
    """Return the gated context (B, D) of (13). a is (B, L, D), alpha is (B, L), h is h_{t-1}, (B, n)."""
    beta = self.f_beta(h)  # (B, 1)
    return beta * ops.einsum("bl,bld->bd", alpha, a)


SoftAttention.context = context


# %% wrong="context"
def context(self, a, alpha, h):
    beta = self.f_beta(h)
    return beta * ops.mean(alpha[:, :, None] * a, axis=1)  # the weights have been divided by L once more


SoftAttention.context = context


# %% gap="memory"
def memory(self, gates, c):
    """Return h_t and c_t, (B, n) each. gates are (B, 4n), before the functions of (1). c is c_{t-1}, (B, n)."""
    i, f, o, g = ops.split(gates, 4, axis=-1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


SoftAttention.memory = memory


# %% wrong="memory"
def memory(self, gates, c):
    i, f, o, g = ops.split(gates, 4, axis=-1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * c, c  # without the tanh of (3)


SoftAttention.memory = memory


# %% gap="readout"
def readout(self, word, h, z):
    """Return what L_o reads in (7), (B, m), from E y_{t-1} (B, m), h_t (B, n) and the context z (B, D)."""
    return word + self.L_h(h) + self.L_z(z)


SoftAttention.readout = readout


# %% wrong="readout"
def readout(self, word, h, z):
    return word + self.L_h(h)  # the picture has no vote


SoftAttention.readout = readout


# %% gap="loss"
def loss_terms(word_log_p, alpha, is_word):
    """Return -log p(y | a) and the penalty of each caption, (B,) each: the two terms of (14), without lambda.

    word_log_p are the log probabilities of the true words, (B, C). alpha is (B, C, L). is_word (B, C) is 1 for a
    word and 0 for padding.
    """
    total = ops.sum(alpha * is_word[:, :, None], axis=1)  # (B, L)
    return -ops.sum(word_log_p * is_word, axis=1), ops.sum((1 - total) ** 2, axis=1)


# %% wrong="loss"
def loss_terms(word_log_p, alpha, is_word):
    total = ops.sum(alpha, axis=1)  # over padding, too
    return -ops.sum(word_log_p * is_word, axis=1), ops.sum((1 - total) ** 2, axis=1)


# %% exercise=1
restart()
weight = model.T.kernel
_, _, gradients = losses_and_gradients(first_batch, 0.0)
(gradient,) = [one for one, variable in zip(gradients, model.trainable_variables) if variable is weight]
before = weight.numpy()
average = 0.1 * np.square(gradient)  # of the square, which was 0; rho = .9
by_hand = before - 1e-3 * gradient / np.sqrt(average + 1e-7)

keras.optimizers.RMSprop(1e-3, rho=0.9, epsilon=1e-7).apply([gradient], [weight])
print(f"by hand and by Keras differ by at most {np.abs(weight.numpy() - by_hand).max():.0e}")
print(f"the largest step is {np.abs(weight.numpy() - before).max() / 1e-3:.2f} times the rate")

# Up to 1 / sqrt(.1) = 3.2 times: the average of the square starts at 0, and nothing makes up for that. So the first
# steps are too long, one more reason to warm the learning rate up.
assert np.abs(weight.numpy() - by_hand).max() < 1e-6
assert 3 < np.abs(weight.numpy() - before).max() / 1e-3 < 3.17
model.set_weights(trained)

# %% exercise=2
few = [batch for batch, _ in zip(batches, range(3))]  # 96 scenes
restart()
curve = {"seen": [], "unseen": []}
for update in range(300):
    optimizer.learning_rate.assign(5e-3)
    nll, _ = train_step(few[update % 3], tf.constant(0.0))
    if update % 30 == 29:
        curve["seen"].append(float(nll))
        curve["unseen"].append(float(losses(model, unseen_batch)[0]))
model.set_weights(trained)

figure, ax = plt.subplots(figsize=(10, 2.6), layout="constrained")
for name, values in curve.items():
    ax.plot(range(30, 301, 30), values, marker="o", label=name)
    print(f"{name:7}", *(f"{value:.1f}" for value in values))
ax.set(xlabel="updates", ylabel="-log p for each caption")
ax.legend()

# Where the curve of the unseen scenes is lowest. After that the model gets better at the 96 scenes alone.
best = np.argmin(curve["unseen"])
assert best < 9 and curve["unseen"][-1] > curve["unseen"][best] + 0.5 and curve["seen"][-1] < curve["seen"][best]

# %% exercise=3
of_target = {}
for name in ("1", "C / L"):
    with tf.GradientTape() as tape:
        _, alpha = model(*first_batch[:2])
        is_word = first_batch[3]
        target = 1.0 if name == "1" else ops.sum(is_word, axis=1)[:, None] / 256
        total = ops.sum(alpha * is_word[:, :, None], axis=1)
        penalty = ops.mean(ops.sum((target - total) ** 2, axis=1))
    of_target[name] = tape.gradient(penalty, model.W_h.kernel).numpy()
    print(f"target {name:5}: penalty {float(penalty):.1f}, norm of its gradient {np.linalg.norm(of_target[name]):.3f}")

# None: the penalty loses the part that nothing can change, and with it nothing of its gradient.
np.testing.assert_allclose(of_target["1"], of_target["C / L"], atol=1e-3 * np.abs(of_target["1"]).max())
