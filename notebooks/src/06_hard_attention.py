# %% [markdown]
# # 6 · Hard attention
#
# **You will be able to**
#
# * sample a region with the *Gumbel-max trick*, and say why no gradient passes through the sample
# * derive equation (11) from (10), and estimate it with REINFORCE
# * explain the purpose of the baseline, of the entropy term, and of using the expectation for half of the photos
# * train hard attention, and use measurements to decide between soft and hard attention
#
# **You need** the symbols of [chapter 3](03_one_step_of_attention.ipynb) and the derivative of a logarithm. Training
# starts from the weights of [chapter 5](05_build_it_train_it.ipynb); if you have not trained them, the notebook uses a
# copy in the package.
#
# **Time:** 2 minutes to run on two cores, and about two hours to think.
#
# [diagram]
#
# Soft attention reads a weighted mean of all regions. Hard attention *draws* (samples) one region for each word, and
# reads only this region. No gradient passes through a draw. But the model can still learn where to look, from trials
# and rewards.

# %%
from data_utils.base import import_tensorflow

tf = import_tensorflow()  # without its startup log

import itertools
import time
from importlib.resources import files
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from data_utils import CaptionedImage, FeatureCache, draw_scenes, is_true, make_batches
from keras_sat import AttentionDisplay, Captioner, show_attend_tell
from keras_sat.show_attend_tell import ShowAttendTell, objective, train_step

plt.rcParams["figure.dpi"] = 100

# %% [markdown]
# ## Draw a region
#
# In hard attention, the weights from equation (5) are probabilities. The model draws a region with these probabilities.
# The drawn region is written as a one-hot vector $s_t$, and the context is the annotation vector of the region,
# equations (8) and (9):
#
# $$p(s_{t,i} = 1 \mid s_{j<t}, \mathbf{a}) = \alpha_{t,i} \qquad
#   \hat{\mathbf{z}}_t = \sum_i s_{t,i}\, \mathbf{a}_i$$
#
# The paper calls this distribution a Multinoulli; it is also called categorical. The *Gumbel-max trick* draws regions
# for many captions without a loop: add noise $g_i = -\log(-\log u_i)$ to each $\log \alpha_i$, where the $u_i$ are
# uniform between 0 and 1, and take the region with the largest sum.
#
# Why does this trick draw region $i$ with probability $\alpha_i$? The sum is $-\log(x_i / \alpha_i)$ with $x_i = -\log
# u_i$, so the region with the largest sum is the region with the smallest $x_i / \alpha_i$. The number $x_i$ has the
# exponential distribution, $p(x_i > x) = e^{-x}$. So imagine an alarm clock for each region: clock $i$ rings at the
# time $x_i / \alpha_i$. If $\alpha_i$ is large, the clock is likely to ring early. Clock $i$ is first if it rings at
# some time $x$ (with the density $\alpha_i e^{-\alpha_i x}$) and no other clock has rung by then:
#
# $$p(i \text{ is first}) = \int_0^\infty \alpha_i e^{-\alpha_i x} \prod_{j \ne i} e^{-\alpha_j x}\, dx
#   = \alpha_i \int_0^\infty e^{-x}\, dx = \alpha_i, \qquad \text{since } \sum_j \alpha_j = 1.$$
#
# **Your turn.** Write the function that draws regions.


# %% gap="draw"
def draw(alpha, noise):
    """Return the regions (draws,) that Gumbel noise (draws, L) draws with the probabilities alpha (L,)."""
    return ...  # your turn


# %% check="draw" empty="draw(np.array([0.5, 0.5]), np.zeros((1, 2)))"
trial_noise = np.random.default_rng(0).gumbel(size=(20_000, 4))
trial_alpha = np.array([0.7, 0.2, 0.08, 0.02])
frequencies = np.bincount(draw(trial_alpha, trial_noise), minlength=4) / 20_000
message = "These are not draws with the probabilities alpha: is the noise added to log alpha?"
assert np.allclose(frequencies, trial_alpha, atol=0.02), message
loud = draw(trial_alpha, 100 * np.eye(4))
assert list(loud) == [0, 1, 2, 3], "The noise alone decides: with noise of 100 for a region, this region is drawn."

# %% [markdown]
# Now draw many times with the weights of eight regions, and count how often each region is drawn.

# %%
rng = np.random.default_rng(0)


def softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


alpha_of_eight = softmax(rng.normal(scale=1.5, size=8))
uniform = rng.uniform(size=(2000, 8))
noise = -np.log(-np.log(uniform))
counts = np.bincount(draw(alpha_of_eight, noise), minlength=8)

figure, ax = plt.subplots(figsize=(10, 2.6))
ax.bar(range(8), counts / 2000, label="fraction of 2,000 draws")
ax.plot(range(8), alpha_of_eight, "o", color="black", label=r"$\alpha_i$")
ax.set_xlabel("region")
ax.legend()
plt.show()

# %% [markdown]
# ## Why a draw stops the gradient
#
# Take a picture with three regions and a caption of one word. The probability of the word, $p(y \mid s, \mathbf{a})$,
# depends on the region that was drawn: it is .6, .3 or .05. The attention scores $e_i$ determine how often each region
# is drawn. Training has to raise the score of the first region.
#
# **Predict.** You have drawn a region. If you keep the same noise and raise the score $e_1$ of the first region by
# .001, how much does $\log p(y \mid s, \mathbf{a})$ change?

# %%
scores = np.array([0.5, 0.2, -0.4])
log_p_word = np.log([0.6, 0.3, 0.05])  # log p(y | s, a) after a look at each region
noise = np.random.default_rng(1).gumbel(size=(1000, 3))
before = draw(softmax(scores), noise)
after = draw(softmax(scores + [0.001, 0, 0]), noise)
changed = (before != after).sum()
print(f"of 1,000 draws, {changed} changed")

many_scores = np.linspace(-4, 4, 400)
figure, ax = plt.subplots(figsize=(10, 3))
for row in range(3):
    drawn = [draw(softmax(np.array([score, 0.2, -0.4])), noise[row : row + 1])[0] for score in many_scores]
    ax.plot(many_scores, log_p_word[drawn], label=f"draw {row + 1}")
means = [softmax(np.array([score, 0.2, -0.4])) @ log_p_word for score in many_scores]
ax.plot(many_scores, means, color="black", linewidth=2, label="mean over all draws")
ax.set(xlabel="score $e_1$ of the first region", ylabel=r"$\log p(y \mid s, a)$")
ax.legend()
plt.show()

# %% [markdown]
# <details><summary>What happened</summary>
#
# In nearly all draws, $\log p$ does not change. Each coloured line is a step function: while the score changes a
# little, the *argmax* stays the same, and then it jumps. The derivative of a step function is 0 wherever it exists. So
# backpropagation through the draw returns zeros, however bad the drawn region was. The black line, the mean over all
# draws, is smooth.
#
# </details>
#
# ## What is maximised: equation (10)
#
# Hard attention maximises a mean over all draws, because such a mean is smooth. Ideally, this mean would be the
# probability of the caption. A *path* $s = (s_1, \dots, s_C)$ has a region for each word, and the probability of the
# caption is a sum over all paths:
# $p(\mathbf{y} \mid \mathbf{a}) = \sum_s p(s \mid \mathbf{a})\, p(\mathbf{y} \mid s, \mathbf{a})$. But it is hard to
# estimate the gradient of the logarithm of this sum. The logarithm is concave, so the mean of logarithms is at most the
# logarithm of the mean. This is *Jensen's inequality*, and it gives the paper's bound:
#
# $$L_s = \sum_s p(s \mid \mathbf{a}) \log p(\mathbf{y} \mid s, \mathbf{a}) \;\le\;
#   \log \sum_s p(s \mid \mathbf{a})\, p(\mathbf{y} \mid s, \mathbf{a}) = \log p(\mathbf{y} \mid \mathbf{a})
#   \tag{10}$$
#
# The paper calls $L_s$ a *variational lower bound*: raising $L_s$ raises a lower bound on $\log p(\mathbf{y} \mid
# \mathbf{a})$. Both sides are equal if all paths give the caption the same probability, or if only one path is ever
# drawn.

# %%
alpha = softmax(scores)
bound_of_word, log_mean = alpha @ log_p_word, np.log(alpha @ np.exp(log_p_word))
print(f"alpha {alpha.round(2)}: L_s = {bound_of_word:.3f}, log p(y | a) = {log_mean:.3f}")

# %% [markdown]
# ## From (10) to (11) in four lines
#
# Both factors inside the sum depend on the weights $W$. Write $p_s$ for $p(s \mid \mathbf{a})$ and $R_s$ for
# $\log p(\mathbf{y} \mid s, \mathbf{a})$, and $\nabla$ for $\partial / \partial W$:
#
# $$\begin{aligned}
# \nabla L_s &= \sum_s \nabla\, (p_s R_s) \\
# &= \sum_s p_s \nabla R_s + R_s \nabla p_s && \text{product rule} \\
# &= \sum_s p_s \nabla R_s + R_s\, p_s \nabla \log p_s
#   && \nabla \log p = \nabla p \,/\, p, \text{ so } \nabla p = p\, \nabla \log p \\
# &= \sum_s p_s \big[ \nabla R_s + R_s \nabla \log p_s \big] && (11)
# \end{aligned}$$
#
# The important step is from the second line to the third. Now $p_s$ is a factor of every term, so the gradient is the
# *mean over draws* of the bracket. To estimate it, draw some paths, compute the bracket for each path, and average. The
# expected value of this average is exactly $\nabla L_s$. Such an average is a *Monte Carlo* estimate. This estimate is
# called *the score function estimator*, and in reinforcement learning REINFORCE ([Williams,
# 1992](https://link.springer.com/article/10.1007/BF00992696)). $\nabla \log p_s$ is the direction in which the drawn
# path becomes more probable, and the reward $R_s$ decides how far to move in this direction.
#
# Section 4.1 of the paper subtracts a *baseline* $b$ from the reward; you will find out below what the baseline does.
# In the example with one word, the weights $W$ are the three scores. $R_s$ does not depend on the scores, so $\nabla
# R_s = 0$. If region $i$ is drawn, $\log p_s$ is $\log \alpha_i = e_i - \log \sum_l \exp(e_l)$. The derivative of $\log
# p_s$ with respect to the score $e_j$ is $1 - \alpha_j$ if $j = i$, and $-\alpha_j$ otherwise, because $\exp(e_j) /
# \sum_l \exp(e_l) = \alpha_j$. So for all three scores, $\nabla \log p_s$ is the one-hot vector of the drawn region
# minus $\alpha$. (`alpha` and `log_p_word` were defined above.)
#
# **Your turn.** Compute the bracket for each draw.


# %% gap="bracket"
def brackets(places, baseline=0.0):
    """Return an estimate of the gradient of L_s for the scores from each drawn region (draws,): (draws, 3)."""
    one_hot = np.eye(3)[places]
    reward = log_p_word[places] - baseline
    return ...  # your turn


# %% check="bracket" empty="brackets(np.array([0]))"
exact_of_word = alpha * (log_p_word - alpha @ log_p_word)  # the derivative of alpha @ log_p_word for the scores
message = "Their mean is not the exact gradient: look at the sign. Is each row times the reward of its draw?"
for trial_baseline in (0.0, -2.0):
    mean = alpha @ brackets(np.arange(3), trial_baseline)
    assert np.allclose(mean, exact_of_word, atol=1e-9), message

# %%
print("exact gradient        ", exact_of_word.round(3))
for number in (10, 1000, 100_000):
    places = draw(alpha, rng.gumbel(size=(number, 3)))
    print(f"mean of {number:7,} draws ", brackets(places).mean(axis=0).round(3))

# %% [markdown]
# In this run, ten draws came close by chance: the estimate from ten draws is usually about .4 away from the exact
# gradient, and the estimate from a thousand draws about .04.
#
# ## A whole caption: 27 paths
#
# A caption of several words has a draw for each word, and an early draw changes the state and therefore everything that
# follows. Take a tiny version of the paper's model, with three regions, three words and random weights, so that you can
# list all paths. There are $3^3 = 27$ paths $s$. To make the model follow a given path, set the noise to 10,000 for the
# regions of the path: these regions are then drawn, whatever $\alpha$ is. (`sampled` is 1 for captions whose regions
# are drawn, and 0 for captions that use the weighted mean.)

# %%
keras.utils.set_random_seed(0)
picture = np.random.default_rng(2).normal(size=(1, 3, 4)).astype("float32")  # 3 annotation vectors of 4 numbers
input_ids, target_ids = np.array([[1, 4, 6]]), np.array([[4, 6, 2]])  # <start> red blue, red blue <end>
tiny = ShowAttendTell(7, "hard", embedding_dim=3, hidden_dim=4, attention_dim=3)
tiny(picture, input_ids)  # makes the weights
weights = tiny.trainable_variables
random = np.random.default_rng(0)
for weight in weights:
    weight.assign(random.normal(scale=0.7, size=weight.shape))
paths = np.array(list(itertools.product(range(3), repeat=3)))  # (27, 3): a region for each word


def log_probs_of(paths):
    """Return log p(y | s, a) and log p(s | a) of each path: (paths,) each."""
    number = len(paths)
    s = np.eye(3, dtype="float32")[paths]
    features, ids = np.repeat(picture, number, axis=0), np.repeat(input_ids, number, axis=0)
    logits, alpha, _ = tiny(features, ids, noise=10_000 * s, sampled=np.ones(number, "float32"))
    targets = np.repeat(target_ids, number, axis=0)
    word_log_p = -ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    log_p_s = ops.sum(s * ops.log(alpha), axis=(1, 2))
    return ops.sum(word_log_p, axis=1), log_p_s


def flat(gradients):
    return np.concatenate([np.ravel(tf.convert_to_tensor(gradient)) for gradient in gradients])


with tf.GradientTape() as tape:
    log_p_y, log_p_s = log_probs_of(paths)
    bound = ops.sum(ops.exp(log_p_s) * log_p_y)  # (10)
exact = flat(tape.gradient(bound, weights))
p, R, bound = np.exp(log_p_s), log_p_y.numpy(), float(bound)
print(f"{len(p)} paths, their probabilities sum to {p.sum():.4f}")
print(f"L_s = {bound:.2f}, log p(y | a) = {np.log(p @ np.exp(R)):.2f}; {len(exact)} weights")
spread = np.sqrt(p @ (R - bound) ** 2)
print(f"log p(y | s, a) from {R.min():.1f} to {R.max():.1f}, with a standard deviation of {spread:.2f}")

# %% [markdown]
# `exact` is the gradient of $L_s$, computed by backpropagation through all paths. With 196 regions and ten words there
# are $196^{10}$ paths, so equation (12) averages over only $N$ drawn paths instead:
#
# $$\frac{\partial L_s}{\partial W} \approx \frac{1}{N} \sum_{n=1}^N \Big[
#   \frac{\partial \log p(\mathbf{y} \mid \tilde s^n, \mathbf{a})}{\partial W} + \lambda_r
#   \big(\log p(\mathbf{y} \mid \tilde s^n, \mathbf{a}) - b\big)
#   \frac{\partial \log p(\tilde s^n \mid \mathbf{a})}{\partial W} + \lambda_e
#   \frac{\partial H[\tilde s^n]}{\partial W} \Big]$$
#
# This is the bracket of (11) with three additions: the baseline $b$, an entropy term (explained below, and 0 for now)
# and a weight $\lambda_r$ (1 for now). To train with this gradient, you need a function to differentiate, a
# *surrogate*: a function that is not $L_s$ itself, but has the bracket as its gradient. The reward has to be a constant
# in the surrogate, because the gradient of the reward is already the first term. `ops.stop_gradient(x)` has the value
# of `x`, but no gradient passes through it.
#
# **Your turn.** Write the surrogate for $\lambda_r = 1$.


# %% gap="surrogate"
def surrogate(log_p_y, log_p_s, baseline):
    """Return, for each draw, a value whose gradient is the bracket."""
    return ...  # your turn


# %% check="surrogate" empty="surrogate(ops.zeros(1), ops.zeros(1), 0.0)"
with tf.GradientTape() as tape:
    trial_y, trial_s = log_probs_of(paths)
    trial_mean = ops.sum(p * surrogate(trial_y, trial_s, -5.0))
message = "Its mean gradient over all paths is not that of L_s: look at the sign, and at what is held as a number."
assert np.allclose(flat(tape.gradient(trial_mean, weights)), exact, atol=1e-4), message
trial_y, trial_s = tf.constant([-3.0]), tf.constant([-1.0])
with tf.GradientTape() as tape:
    tape.watch(trial_s)
    trial_value = surrogate(trial_y, trial_s, -5.0)
factor = float(tape.gradient(trial_value, trial_s)[0])
message = f"A draw with log p -3 and b = -5 has the reward -3 - (-5) = 2. Yours: {factor:g}."
assert np.isclose(factor, 2), message

# %% [markdown]
# The check averaged your surrogate over all 27 paths, weighted by their probabilities. The gradient of this average is
# exactly that of $L_s$, so the estimate is *unbiased*. `keras_sat.show_attend_tell.objective` has the same surrogate.
#
# Now look at the parts of (12). The next cell computes its first two parts for each path.


# %%
def gradients_of(values, tape):
    """Return the gradient of each value: (values, weights)."""
    sources = [weight.value for weight in weights]
    zero = tf.UnconnectedGradients.ZERO
    return np.array([flat(tape.gradient(value, sources, unconnected_gradients=zero)) for value in values])


with tf.GradientTape(persistent=True) as tape:
    log_p_y, log_p_s = log_probs_of(paths)
    values_y, values_s = tf.unstack(log_p_y), tf.unstack(log_p_s)
of_caption, of_path = gradients_of(values_y, tape), gradients_of(values_s, tape)  # (27, 340) each


def estimates(baseline, reward_weight=1.0):
    """Return the estimate (12) from a draw of each path: (27, 340)."""
    return of_caption + reward_weight * (R - baseline)[:, None] * of_path


attention_layers = (tiny.feature_projection, tiny.state_projection, tiny.score)
in_f_att = {id(weight) for layer in attention_layers for weight in layer.trainable_variables}
of_attention = np.concatenate([np.full(int(np.prod(weight.shape)), id(weight) in in_f_att) for weight in weights])
for reward_weight in (1.0, 0.0):
    mean = p @ estimates(0.0, reward_weight)
    away = np.linalg.norm(mean - exact) / np.linalg.norm(exact)
    length = np.linalg.norm(mean[of_attention])
    print(f"lambda_r = {reward_weight}: {away:.0%} away from the exact gradient; that of f_att has length {length:.2f}")

# %% [markdown]
# Without the second part, the weights of $f_{\text{att}}$ have no gradient at all, however many paths are drawn. So
# attention would not learn anything.
#
# ## The baseline
#
# A caption of three words has a log-probability of about -9 in this model, give or take 1. So *every* path is punished,
# and a good path is punished only a little less. With the baseline $b$, the reward becomes a comparison: paths that do
# better than $b$ are rewarded, and the others are punished. The baseline may be any number that does not depend on the
# draw, because it does not change the mean:
#
# $$\sum_s p_s\, b\, \nabla \log p_s = b \sum_s \nabla p_s = b\, \nabla \sum_s p_s = b\, \nabla 1 = 0.$$
#
# **Predict.** The baseline changes the variance. How many times larger is the variance of an estimate from a single
# draw without a baseline ($b = 0$) than with $b = L_s$?


# %%
def variance_of(rows, probabilities):
    """Return the variance of a draw of the rows (rows, weights), summed over the weights."""
    mean = probabilities @ rows
    return float(probabilities @ ((rows - mean) ** 2).sum(axis=1))


variance = {name: variance_of(estimates(b), p) for name, b in (("without", 0.0), ("with", bound))}
print(f"variance without a baseline {variance['without']:.0f}, with b = L_s {variance['with']:.0f}")

many_b = np.linspace(-14, 1, 61)
off_mean = [np.linalg.norm(p @ estimates(b) - exact) / np.linalg.norm(exact) for b in many_b]
draws = 10 ** np.arange(5)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
left.plot(many_b, [variance_of(estimates(b), p) for b in many_b])
left.axvline(bound, color="black", linewidth=1, label="$L_s$")
left.set(xlabel="baseline $b$", ylabel="variance of one draw", yscale="log")
left.legend()
for name, b in (("without a baseline", 0.0), ("with $b = L_s$", bound)):
    errors = []
    for number in draws:
        means = rng.multinomial(number, p / p.sum(dtype="float64"), size=200) / number @ estimates(b)
        errors.append(np.linalg.norm(means - exact, axis=1).mean() / np.linalg.norm(exact))
    right.loglog(draws, errors, marker="o", label=name)
right.axhline(1, color="black", linewidth=1)
right.set(xlabel="draws that are averaged", ylabel="distance from the exact gradient")
right.legend()
plt.show()

# %% [markdown]
# <details><summary>What happened</summary>
#
# The variance is forty times larger without the baseline. With the baseline, the absolute value of the reward is about
# 1 instead of 9. The variance of the second part of (12) grows with the square of the reward, so the baseline reduces
# it from 586 to 5.5. The first part has no baseline, and its variance stays at 9.4. The best baseline is near $L_s$
# (figure on the left), and the mean of the estimate is exact for any baseline. The figure on the right shows the
# distance between the estimate and the exact gradient, divided by the norm of the exact gradient. With the baseline, 25
# draws come as close as about a thousand draws without it. Both distances fall as $1 / \sqrt N$, so each further
# correct digit takes a hundred times as many draws. It is therefore better to improve the baseline than to take more
# draws.
#
# </details>
#
# During training, $L_s$ is not known. The paper's baseline is a moving average of the log-probabilities so far: $b_k =
# 0.9\, b_{k-1} + 0.1 \log p(\mathbf{y} \mid \tilde s_k, \mathbf{a})$ in update $k$, where the logarithm is averaged
# over the captions of a batch. Since $b_{k-1}$ was computed from earlier draws, it does not depend on the draw that it
# is compared with.
#
# **Your turn.** Write the moving average.


# %% gap="baseline"
def next_baseline(baseline, log_p_y):
    """Return b_k from b_{k-1} and log p(y | s, a) of the captions that were drawn in this update, (draws,)."""
    return ...  # your turn


# %% check="baseline" empty="next_baseline(0.0, np.zeros(2))"
message = "Expected nine tenths of the old baseline and a tenth of the mean."
assert np.allclose(next_baseline(-10.0, np.array([-8.0, -6.0])), -9.7), message

# %%
baselines = [0.0]
for path in rng.choice(27, p=p / p.sum(dtype="float64"), size=150):
    baselines.append(next_baseline(baselines[-1], R[path : path + 1]))
figure, ax = plt.subplots(figsize=(10, 2.4))
ax.plot(baselines, label="moving average")
ax.axhline(bound, color="black", linewidth=1, label="$L_s$")
ax.set_xlabel("draws")
ax.legend()
plt.show()

# %% [markdown]
# ## The entropy term
#
# REINFORCE learns only about regions that are drawn. Suppose that nearly all of the probability is on a region that is
# good, but not the best. The other regions are then hardly ever drawn, so the model does not find out that one of them
# would be better. The last term of (12) raises the entropy $H[s] = -\sum_i \alpha_i \log \alpha_i$, which is largest if
# all regions are equally probable.
#
# **Predict.** The log-probability of the word is now -.7, -.1 or -3 if the first, second or third region is drawn.
# Attention starts with 96 % on the first region. A thousand models learn from 300 draws each. How many models find the
# second region without the entropy term, and how many with $\lambda_e = .1$?


# %%
def learn(entropy_weight, models=1000, updates=300, rate=0.5):
    """Train the scores of many models at once; return their attention (models, 3) and the mean entropy over time."""
    random, rewards = np.random.default_rng(0), np.array([-0.7, -0.1, -3.0])
    e, baseline, entropies = np.tile([4.0, 0.0, 0.0], (models, 1)), np.zeros(models), []
    for _ in range(updates):
        alpha = np.exp(e) / np.exp(e).sum(axis=1, keepdims=True)
        places = np.argmax(np.log(alpha) + random.gumbel(size=alpha.shape), axis=1)
        log_p, entropy = rewards[places], -(alpha * np.log(alpha)).sum(axis=1)
        of_reward = (log_p - baseline)[:, None] * (np.eye(3)[places] - alpha)
        of_entropy = -alpha * (np.log(alpha) + entropy[:, None])  # the gradient of H for the scores
        e += rate * (of_reward + entropy_weight * of_entropy)
        baseline = 0.9 * baseline + 0.1 * log_p
        entropies.append(entropy.mean())
    return alpha, entropies


found, settled = {}, {}
figure, ax = plt.subplots(figsize=(10, 2.6))
for entropy_weight in (0.0, 0.1, 0.5):
    learned, entropies = learn(entropy_weight)
    found[entropy_weight] = (learned[:, 1] > 0.5).mean()
    ax.plot(entropies, label=rf"$\lambda_e$ = {entropy_weight}")
    settled[entropy_weight] = learned[learned[:, 1] > 0.5, 1].mean()
    print(f"lambda_e = {entropy_weight}: {found[entropy_weight]:.0%} found it", end=", ")
    print(f"and give it a weight of {settled[entropy_weight]:.2f}")
ax.axhline(np.log(3), color="black", linewidth=1, label="all regions alike")
ax.set(xlabel="update", ylabel="mean entropy")
ax.legend()
plt.show()

# %% [markdown]
# <details><summary>What happened</summary>
#
# After 300 draws, only about half of the models without the entropy term have found the second region; with the term,
# most have. The figure shows how certain the models are, but not which region they are certain of. The blue and orange
# lines end up close together, but for different reasons: without the term, half of the models are certain of the first
# region, and with $\lambda_e = .1$, most models are certain of the second. The term has a price: with $\lambda_e = .5$,
# all models find the second region, but even then they often draw the others. In the authors' code, $\lambda_e = .002$.
#
# </details>
#
# ## Why half of the photos use the expectation
#
# Section 4.1 has another method to reduce the variance. For each photo, a coin toss decides: with probability one half,
# the context is a draw (9); otherwise it is the expectation over all draws, $\sum_i \alpha_i \mathbf{a}_i$. The
# expectation is the context of soft attention, whose gradient is computed by backpropagation. This gradient has no
# variance, but it is not the gradient of $L_s$. For the tiny model, you can compute the exact variance and mean of the
# estimate that uses the coin toss.

# %%
with tf.GradientTape() as tape:
    logits, _, _ = tiny(picture, input_ids)  # no noise: the expectation
    log_p_soft = -ops.sum(ops.sparse_categorical_crossentropy(target_ids, logits, from_logits=True))
of_expectation = flat(tape.gradient(log_p_soft, weights))
rows = np.concatenate([estimates(bound), of_expectation[None]])
coin = np.concatenate([p / 2, [0.5]])
variance["coin"] = variance_of(rows, coin)
bias = np.linalg.norm(coin @ rows - exact) / np.linalg.norm(exact)
print(f"always a draw: variance {variance['with']:.1f}, the mean is exact")
print(f"with the coin: variance {variance['coin']:.1f}, the mean is {bias:.0%} away")

# %% [markdown]
# So the coin toss roughly halves the variance, but introduces a bias: the mean of the estimate is halfway between the
# gradient of $L_s$ and that of soft attention.
#
# ## Train it
#
# Now train the paper's model (`keras_sat/show_attend_tell.py`) with `attention="hard"`, the sizes of chapter 5 and
# about a third of its scenes. Its `train_step` contains all that you have just learned: Gumbel noise, the coin toss,
# the surrogate, the moving average and the entropy. Training starts from the weights of chapter 5, which were trained
# with soft attention. With random weights, the model could not predict any word at first, so the rewards would contain
# no information about where to look. (Each scene has two captions of at most 11 words. TensorFlow compiles a graph for
# each length, and the batches have only a few different lengths.) The features are stored beside the notebook, in the
# folder `features_06` (110 MB, which you may delete afterwards).

# %%
bundled = Captioner.from_pretrained("scenes")  # its encoder and vocabulary
vocabulary = bundled.vocabulary
training = [scene for scene in draw_scenes(7500, seed=10_000, twin_share=0) if len(scene.objects) == 2]
short = {scene.image_id: [text for text in scene.captions if len(text.split()) <= 11][:2] for scene in training}
captioned = [
    CaptionedImage(scene.image_id, scene.image, short[scene.image_id], "train")
    for scene in training
    if len(short[scene.image_id]) == 2
]
ids, pictures = [image.image_id for image in captioned], [image.image_path for image in captioned]
cache = FeatureCache.build("features_06", ids, pictures, bundled.encoder_model, show_progress=False)
batches = make_batches(captioned, vocabulary, cache, batch_size=128, group_by="image")
(grids_of_batch, ids_of_batch), *_ = first_batch = next(iter(batches))

yours = Path("chapter_5.npz")
path = yours if yours.exists() else files("keras_sat") / "files" / "course" / "chapter_5.npz"
with np.load(path, allow_pickle=False) as arrays:
    of_chapter_5 = [arrays[name] for name in arrays.files]
print(f"{len(captioned):,} scenes, {len(batches)} batches; {'your weights' if path is yours else 'the copy'}")

# %% [markdown]
# `show_attend_tell.py` has the constants of the authors' code, $\lambda_r = .1$ and $\lambda_e = .002$, and $\lambda =
# .33$, which chapter 5 derives from the authors' weight of 1. The next cell sets $\lambda$ to 0 (no penalty, as in
# chapter 5) and $\lambda_r$ to 1, as in (11), and leaves $\lambda_e$ unchanged. Because of the coin toss and the
# entropy term, the updates follow the gradient of $L_s$ only approximately. For a fair comparison, soft attention is
# trained for three more epochs, too. Training takes about a minute.

# %%
show_attend_tell.PENALTY_WEIGHT = 0.0
show_attend_tell.REWARD_WEIGHT = 1.0


def start(attention):
    """Return a model with the weights of chapter 5."""
    model = ShowAttendTell(len(vocabulary), attention, embedding_dim=32, hidden_dim=128, attention_dim=64)
    model.dropout.rate = 0.0
    model(grids_of_batch[:1], ids_of_batch[0, :1])  # makes the weights
    model.set_weights(of_chapter_5)
    model.baseline.assign(-objective(model, first_batch)[0])  # above L_s, but a better start than 0
    return model


def train(attention, epochs=3):
    """Train further, and return the model and the processor seconds of the last epoch."""
    keras.utils.set_random_seed(0)
    model = start(attention)
    steps = epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - 20, warmup_target=5e-3, warmup_steps=20)
    model.optimizer = keras.optimizers.Adam(rate, global_clipnorm=1.0)
    step = tf.function(train_step, reduce_retracing=False)
    for _ in range(epochs):
        before = time.process_time()
        for batch in batches:
            step(model, batch)
    return model, time.process_time() - before


models, seconds = {"chapter 5": start("soft")}, {}
for name, attention in (("soft", "soft"), ("hard", "hard")):
    models[name], seconds[name] = train(attention)

# %% [markdown]
# ## Write captions, with the expectation and with draws
#
# The same model can write a caption in two ways: with the expectation, as in the paper, or with one drawn region for
# each word. Each region of the grid sees 8 x 8 of the picture's 64 x 64 pixels, which is less than an object. (In the
# package, `captioner.caption(..., sample_attention=True)` writes captions with draws.)
#
# **Predict.** With soft attention, more than nine in ten captions are true. How many captions are true if the same
# model gets one drawn region for each word? How many are true for the model that was trained with draws?

# %%
unseen = [scene for scene in draw_scenes(1000, seed=1502, twin_share=0) if len(scene.objects) == 2]
grids = bundled.encode(np.stack([scene.image for scene in unseen]))


def write(model, drawn, seed=0):
    """Write greedy captions of all grids. Return the words, and alpha_t and s_t of each word (words, 256)."""
    rng, number = np.random.default_rng(seed), len(grids)
    h, c = model.initial_state(grids)
    y = np.full(number, vocabulary.start_token_id)
    sampled = np.ones(number, "float32") if drawn else None  # 1: draw the regions of this caption
    steps = []
    for _ in range(16):
        noise = rng.gumbel(size=grids.shape[:2]).astype("float32") if drawn else None
        logits, h, c, alpha, s = model.step(grids, y, h, c, noise, sampled)
        y = np.argmax(logits, axis=-1)
        steps.append((y, alpha.numpy(), s.numpy()))
    ids, alphas, selections = (np.stack(arrays, axis=1) for arrays in zip(*steps))
    captions = [vocabulary.ids_to_words(row) for row in ids]
    return [(words, alphas[i, : len(words)], selections[i, : len(words)]) for i, words in enumerate(captions)]


def entropy_of(alpha):
    return -(alpha * np.log(alpha + 1e-30)).sum(axis=-1).mean()


written, true, entropy = {}, {}, {}
for name, model in models.items():
    for drawn in (False, True):
        written[name, drawn] = write(model, drawn)
        said = zip(unseen, written[name, drawn])
        true[name, drawn] = np.mean([is_true(scene, " ".join(words)) is True for scene, (words, *_) in said])
    entropy[name] = np.mean([entropy_of(alpha) for _, alpha, _ in written[name, False]])
    print(f"{name:10} {true[name, False]:.0%} true with the expectation, {true[name, True]:.0%} with draws")

# %% [markdown]
# <details><summary>What happened</summary>
#
# With the expectation, most captions of both models are true, as with the weights of chapter 5, from which both models
# start. What training with draws has changed is captions that are written with draws: about seven in ten are true
# instead of three in ten. With the expectation, soft attention is a few points ahead after the same number of updates,
# probably because its gradient has no variance and because it learns from only one kind of context. Captioners that
# were trained for longer, and tested on other scenes, are only one point apart
# ([docs/training.md](../docs/training.md): 93.6 % and 92.5 % for scenes of two objects). With draws, soft attention
# fails, because it was never trained on single regions. The model with hard attention was trained on single regions,
# and most of its captions are true although it reads only one region for each word. With the expectation, even more of
# its captions are true than with draws, because a single drawn region may not show the object.
#
# </details>
#
# ## Where does it look?
#
# The next figure shows one scene with three true captions. The first row has the weights of soft attention, and the
# second row the weights of hard attention. The third row has the regions that hard attention drew while it wrote its
# own caption.

# %%
shown = [("soft", False, 1), ("hard", False, 1), ("hard", True, 2)]  # 1: alpha, 2: s


def said_of(number, name, drawn):
    return " ".join(written[name, drawn][number][0])


all_true = [
    number
    for number, scene in enumerate(unseen)
    if all(is_true(scene, said_of(number, name, drawn)) is True for name, drawn, _ in shown)
]
example = all_true[0]
for name, drawn, maps in shown:
    record = written[name, drawn][example]
    display = AttentionDisplay(unseen[example].image, record[0], record[maps].reshape(-1, 16, 16))
    display.plot(columns=len(display.positions()) + 1, width=10)
for name in models:
    print(f"{name:10} mean entropy of alpha {entropy[name]:.2f}, as of {np.exp(entropy[name]):.1f} equal regions")

# %% [markdown]
# Training with draws makes attention sharper: its entropy falls, so it is spread over fewer regions. ([Chapter
# 3](03_one_step_of_attention.ipynb) explains why attention lies a little to the left of the objects.) But each word has
# a draw of its own, and some draws miss the object. In the third row (as stored; yours may differ), the region sampled
# for *star* is on the yellow circle. The shape is still right, perhaps because of an earlier draw or by luck.
#
# ## Soft attention is the expectation of hard attention
#
# Soft attention can also be derived from hard attention. Averaged over all draws, the context of hard attention is the
# context of soft attention, $\mathbb{E}[\hat{\mathbf{z}}_t] = \sum_i \alpha_{t,i} \mathbf{a}_i$, equation (13). But
# what you need is the mean of the *word probabilities* over all draws, not of the *contexts*, and the word
# probabilities depend on the context through an LSTM and a softmax. Section 4.2 of the paper argues in two steps that
# the mean of the word probabilities is near the word probabilities of the mean context. First, the mean of the word
# probabilities is near their *normalised weighted geometric mean*
#
# $$\mathrm{NWGM}[p(y_t = k \mid \mathbf{a})] = \frac{\prod_i \exp(n_{t,k,i})^{\alpha_{t,i}}}
#   {\sum_j \prod_i \exp(n_{t,j,i})^{\alpha_{t,i}}}
#   = \frac{\exp(\mathbb{E}[n_{t,k}])}{\sum_j \exp(\mathbb{E}[n_{t,j}])},$$
#
# where $n_{t,k,i}$ is the logit of word $k$ if region $i$ is drawn. (The letters are the paper's: in this formula, $n$
# is not the number of a draw, and $j$ is a word.) Second, the mean logit is near the logit of the mean context, because
# the logits are nearly linear in the context. With only 256 regions, you can measure the error of both approximations
# by trying each region at each word. The measure is the *total variation distance* between two distributions: the share
# of probability, between 0 and 1, that has to move from some words to others to make the distributions equal.


# %%
def three_answers(model, grid):
    """Return E[p], NWGM and soft attention's p at each word of the model's own caption: 3 x (words, K)."""
    h, c = model.initial_state(grid)
    y, answers = np.array([vocabulary.start_token_id]), []
    for _ in range(16):
        soft_logits, next_h, next_c, alpha, _ = model.step(grid, y, h, c)
        copies = [np.repeat(x, 256, axis=0) for x in (grid, y, h, c)]
        logits, *_ = model.step(*copies, 10_000 * np.eye(256, dtype="float32"), np.ones(256, "float32"))
        answers.append([alpha @ ops.softmax(logits), ops.softmax(alpha @ logits), ops.softmax(soft_logits)])
        y, h, c = np.argmax(soft_logits, axis=-1), next_h, next_c
        if y[0] == vocabulary.end_token_id:
            break
    return np.array(answers)[:, :, 0].swapaxes(0, 1)


distance = {}
for name in ("soft", "hard"):
    mean, geometric, soft = np.concatenate([three_answers(models[name], grid[None]) for grid in grids[:5]], axis=1)
    pairs = {"NWGM to mean": (geometric, mean), "soft to NWGM": (soft, geometric), "soft to mean": (soft, mean)}
    distance[name] = {pair: float(np.abs(x - y).sum(axis=1).mean() / 2) for pair, (x, y) in pairs.items()}
    print(f"{name}, {len(mean)} words:", ", ".join(f"{pair} {value:.3f}" for pair, value in distance[name].items()))

# %% [markdown]
# The approximation is good for the model that was trained with draws. This model was also trained to predict words from
# single regions, and its prediction for the mean context is nearly the mean of its predictions for single regions. For
# the soft model the approximation is worse: this model was never trained on single regions, and its maps are less
# sharp, so there is more to average. So in a model that was trained with both draws and the expectation, soft attention
# is approximately the expectation of hard attention. This is why captions are written with the expectation even after
# training with draws.
#
# ## Soft or hard?
#
# Finally, measure the variance of the gradient. The next cell computes the gradient of one batch eight times, with new
# draws each time. How large is the variance compared with the squared length of the mean gradient? (With soft attention
# there are no draws, so the variance is 0.)


# %%
@tf.function
def gradient_of_batch(noise, sampled):
    with tf.GradientTape() as tape:
        _, minimised, _ = objective(models["hard"], first_batch, noise, sampled)
    return tape.gradient(minimised, models["hard"].trainable_variables)


def scatter(coin):
    """Return the variance of the batch's gradient over draws, divided by the squared length of its mean."""
    rng, gradients = np.random.default_rng(0), []
    photos, captions, words = ids_of_batch.shape
    for _ in range(8):
        noise = rng.gumbel(size=(photos * captions, words, 256)).astype("float32")
        heads = np.repeat(rng.uniform(size=photos) >= 0.5, captions)
        sampled = heads.astype("float32") if coin else np.ones(photos * captions, "float32")
        gradients.append(flat(gradient_of_batch(tf.constant(noise), tf.constant(sampled))))
    return np.var(gradients, axis=0, ddof=1).sum() / np.sum(np.mean(gradients, axis=0) ** 2)


scattered = {"always a draw": scatter(coin=False), "with the coin": scatter(coin=True)}
slower = seconds["hard"] / seconds["soft"]
print(f"{'':24}{'soft':>8}{'hard':>8}")
for label, drawn in (("true, with expectation", False), ("true, with draws", True)):
    print(f"{label:24}{true['soft', drawn]:8.0%}{true['hard', drawn]:8.0%}")
print(f"{'entropy of alpha':24}{entropy['soft']:8.2f}{entropy['hard']:8.2f}")
print(f"{'time for an epoch':24}{1:8.1f}{slower:8.1f}    (soft: 1)")
print(f"{'variance of a gradient':24}{0:8.1f}{scattered['with the coin']:8.1f}    (squared length of the mean: 1)")
print(f"{'  without the coin':24}{'':8}{scattered['always a draw']:8.1f}")

# %% [markdown]
# An update with hard attention takes as long as one with soft attention, or a little longer, since both need the
# weights of all regions. (Hard attention could save time only when *writing* captions, because it reads a single
# vector.) The price of hard attention is the variance of its gradient, which requires a baseline, two more
# hyperparameters and a start from soft attention. (The mean of eight gradients is itself noisy, so the true ratio of
# variance to squared length is larger than the one in the table.) In return, the maps of the hard model are sharper,
# and its captions are mostly true even if it reads a single region for each word. But if both models caption with the
# expectation, the hard model writes fewer true captions. In the paper's table 1, hard attention is ahead of soft
# attention in BLEU-4 on all three data sets, and behind in METEOR on two of them; [docs/results.md](../docs/results.md)
# has this package's comparison on Flickr8k. Most later captioners use soft attention, which is trained by plain
# backpropagation. Draws are needed where a mean makes no sense, for example when deciding where to point a camera. They
# are also needed where reading everything is too expensive, for example in a large network of which only a part is
# computed.
#
# ## Exercises
#
# **1.** Which constant baseline is the best for the tiny model? The variance is a parabola in $b$, so you can fit it to
# three points. Is the best baseline $L_s$?
#
# [solution 1]
#
# **2.** In the authors' code, $\lambda_r = .1$. How does this value change the variance and the mean of the gradient of
# $f_{\text{att}}$ in the tiny model?
#
# [solution 2]
#
# **3.** Let the hard model read its most probable region instead of a drawn region. (If the noise is 0, the region with
# the largest $\log \alpha_i$ wins.) How many captions are true?
#
# [solution 3]
#
# **4.** *Gumbel-softmax* ([Jang et al.](https://arxiv.org/abs/1611.01144), [Maddison et
# al.](https://arxiv.org/abs/1611.00712)) replaces the argmax of $\log \alpha_i + g_i$ by a softmax with a temperature,
# $\mathbf{q} = \mathrm{softmax}((\log \alpha + \mathbf{g}) / \tau)$: a *reparameterisation*, through which the gradient
# flows. For the picture with three regions and a caption of one word, the gradient of $\sum_i q_i R_i$ with respect to
# the scores is $\mathbf{q} \odot (\mathbf{R} - \sum_i q_i R_i) / \tau$. For $\tau$ = 2, .5 and .1, compute its
# variance, and compare its mean with the exact gradient.
#
# [solution 4]
#
# ## In five sentences
#
# The drawn region is the argmax of $\log \alpha$ plus Gumbel noise, and the argmax is a step function with zero
# gradient. So hard attention maximises a mean over all draws, which is a lower bound on $\log p$ by Jensen's
# inequality. Since $\nabla p = p \nabla \log p$, the gradient of this bound is also a mean over draws, and an optimizer
# can follow this gradient with the help of a surrogate in which the reward is a constant. A baseline and the coin toss
# reduce the variance, and the entropy term keeps attention from settling on a region too early. After such training,
# seven in ten captions that are written from a single region for each word are true, instead of three in ten; written
# with the expectation, nine in ten are true, slightly fewer than before.
#
# ## Next
#
# [Chapter 7](07_words_out.ipynb) is about the choice of words, given their probabilities.
# [docs/backward.md](../docs/backward.md) derives the gradients of hard attention and computes them in plain numpy. For
# further reading, see [Mnih et al., 2014](https://arxiv.org/abs/1406.6247) and [Ba et al.,
# 2014](https://arxiv.org/abs/1412.7755), whose methods the paper's hard attention uses, and [Mohamed et
# al.](https://arxiv.org/abs/1906.10652) on the ways to estimate such gradients.

# %% maintainers=true
assert np.abs(counts / 2000 - alpha_of_eight).max() < 0.04
assert changed <= 3 and bound_of_word < log_mean
usual = np.sqrt(alpha @ ((brackets(np.arange(3)) - exact_of_word) ** 2).sum(axis=1))  # distance of one draw
assert 0.35 < usual / 10**0.5 < 0.45 and 0.035 < usual / 1000**0.5 < 0.045
posterior = alpha * np.exp(log_p_word) / np.exp(log_mean)
assert abs(log_mean - bound_of_word - alpha @ np.log(alpha / posterior)) < 1e-9  # the bound misses this divergence
assert len(p) == 27 and abs(p.sum() - 1) < 1e-5 and bound < np.log(p @ np.exp(R)) - 0.2 and -9.5 < bound < -8.5
np.testing.assert_allclose(p @ estimates(bound), exact, atol=1e-4)
assert np.linalg.norm((p @ of_caption)[of_attention]) == 0 and max(off_mean) < 1e-4
assert 35 < variance["without"] / variance["with"] < 45 and 8.5 < variance_of(of_caption, p) < 9.5
rewarded = {b: variance_of(estimates(b) - of_caption, p) for b in (0.0, bound)}
assert 580 < rewarded[0.0] < 592 and 5 < rewarded[bound] < 6
assert 14.5 < variance["with"] < 15.5 and 0.9 < spread < 1.05
np.testing.assert_allclose(p @ of_path, 0, atol=1e-5)
assert np.abs(np.array(baselines[60:]) - bound).mean() < 0.5
assert found[0.0] < 0.6 and found[0.1] > 0.8 and found[0.5] > 0.95
assert settled[0.5] < 0.85 < 0.9 < settled[0.0] and settled[0.1] > 0.9
assert 0.45 < variance["coin"] / variance["with"] < 0.6 and 0.1 < bias < 0.3
assert len(unseen) > 500 and not {scene.image_id for scene in unseen} & {*ids}
assert true["soft", False] > 0.85 and true["hard", False] > 0.8
assert true["soft", True] + 0.15 < true["hard", True] < true["hard", False]
assert max(true["soft", True], true["chapter 5", True]) < 0.5 < true["hard", True]
assert abs(true["chapter 5", False] - true["hard", False]) < 0.1
assert entropy["hard"] < entropy["soft"]
missed = []
for scene, (words, _, s) in zip(unseen, written["hard", True]):
    for item in scene.objects if is_true(scene, " ".join(words)) else ():
        row, column = divmod(int(np.argmax(s[words.index(item.shape)])) if item.shape in words else 0, 16)
        left, top, right, bottom = (side / 4 for side in item.box)
        missed.append(not (left - 1 < column < right and top - 1 < row < bottom))
assert 0.02 < np.mean(missed) < 0.6
assert all((record.max(axis=1) == 1).all() for *_, record in written["hard", True])
assert distance["hard"]["soft to mean"] < 0.7 * distance["soft"]["soft to mean"]
assert 0.5 < slower < 2 and scattered["with the coin"] < scattered["always a draw"]
